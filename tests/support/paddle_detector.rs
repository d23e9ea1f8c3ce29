//! A small detector in PaddlePaddle's format that has each operator that the conversion knows, and what it computes.

#![allow(dead_code)]

use super::paddle::{PaddleNetwork, Value};

/// Side of the input: four cells of 8 pixels.
pub const SIDE: u32 = 32;

/// Channels of the first layers, of the joined ones, classes, and numbers that describe a box.
const FEATURES: usize = 4;
const JOINED: usize = 2 * FEATURES;
const CLASSES: usize = 2;
const BOX: usize = 32;

/// Numbers between -0.9 and 0.9 without a pattern.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|index| ((index * 37 + seed * 11) % 19) as f32 / 10.0 - 0.9)
        .collect()
}

/// The weights of the network. The biases of a box make its first distance the likeliest, so that boxes stay small.
struct Weights {
    stem: Vec<f32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
    mean: Vec<f32>,
    variance: Vec<f32>,
    depth: Vec<f32>,
    depth_bias: Vec<f32>,
    gate: Vec<f32>,
    gate_bias: Vec<f32>,
    class: Vec<f32>,
    class_bias: Vec<f32>,
    object: Vec<f32>,
    object_bias: Vec<f32>,
    sides: Vec<f32>,
    sides_bias: Vec<f32>,
}

fn weights() -> Weights {
    let positive = |values: Vec<f32>| values.iter().map(|value| value + 1.2).collect();
    Weights {
        stem: values(FEATURES * 3, 1),
        scale: positive(values(FEATURES, 2)),
        shift: values(FEATURES, 3),
        mean: values(FEATURES, 4),
        variance: positive(values(FEATURES, 5)),
        depth: values(FEATURES, 6),
        depth_bias: positive(values(FEATURES, 7)),
        gate: values(FEATURES * FEATURES, 8),
        gate_bias: values(FEATURES, 9),
        class: values(CLASSES * JOINED, 10),
        class_bias: vec![1.0, 2.5],
        object: values(JOINED, 11),
        object_bias: vec![1.5],
        sides: values(BOX * JOINED, 12)
            .iter()
            .map(|value| value / 10.0)
            .collect(),
        sides_bias: (0..BOX)
            .map(|bin| if bin % 8 == 0 { 4.0 } else { 0.0 })
            .collect(),
    }
}

fn conv(
    network: &mut PaddleNetwork,
    input: &str,
    (weight, bias): (&str, Option<&str>),
    output: &str,
    kind: &str,
    stride: u64,
) {
    let groups = if kind == "conv2d" { 1 } else { FEATURES as u64 };
    let plain = format!("{output}.plain");
    let raw = bias.map_or(output, |_| plain.as_str());
    network.operator(
        kind,
        &[("Input", &[input]), ("Filter", &[weight])],
        ("Output", raw),
        &[
            ("strides", Value::Wholes(&[stride, stride])),
            ("paddings", Value::Wholes(&[0, 0])),
            ("dilations", Value::Wholes(&[1, 1])),
            ("groups", Value::Whole(groups)),
            ("data_format", Value::Text("NCHW")),
            ("padding_algorithm", Value::Text("EXPLICIT")),
        ],
    );
    if let Some(bias) = bias {
        let inputs: [(&str, &[&str]); 2] = [("X", &[raw]), ("Y", &[bias])];
        network.operator(
            "elementwise_add",
            &inputs,
            ("Out", output),
            &[("axis", Value::Whole(1))],
        );
    }
}

/// A detector with each operator that is known: a stem, a gate from the mean, two strides joined, and the head of PicoDet.
pub fn network() -> PaddleNetwork {
    let mut network = PaddleNetwork::default();
    let w = weights();
    for (name, axes, values) in [
        ("z_stem", &[4, 3, 1, 1][..], &w.stem),
        ("bn_scale", &[4], &w.scale),
        ("bn_shift", &[4], &w.shift),
        ("bn_mean", &[4], &w.mean),
        ("bn_variance", &[4], &w.variance),
        ("depth", &[4, 1, 1, 1], &w.depth),
        ("depth_bias", &[4], &w.depth_bias),
        ("a_gate", &[4, 4, 1, 1], &w.gate),
        ("a_gate_bias", &[4], &w.gate_bias),
        ("class", &[2, 8, 1, 1], &w.class),
        ("class_bias", &[2], &w.class_bias),
        ("object", &[1, 8, 1, 1], &w.object),
        ("object_bias", &[1], &w.object_bias),
        ("sides", &[32, 8, 1, 1], &w.sides),
        ("sides_bias", &[32], &w.sides_bias),
    ] {
        network.weight(name, axes, values);
    }
    conv(&mut network, "image", ("z_stem", None), "stem", "conv2d", 8);
    network.operator(
        "batch_norm",
        &[
            ("X", &["stem"]),
            ("Scale", &["bn_scale"]),
            ("Bias", &["bn_shift"]),
            ("Mean", &["bn_mean"]),
            ("Variance", &["bn_variance"]),
        ],
        ("Y", "normal"),
        &[
            ("epsilon", Value::Float(1e-3)),
            ("data_layout", Value::Text("NCHW")),
        ],
    );
    let mut on = |kind: &str, inputs: &[&str], output: &str, attributes: &[(&str, Value<'_>)]| {
        let inputs: Vec<(&str, &[&str])> = match (kind, inputs) {
            ("concat", inputs) => vec![("X", inputs)],
            (_, [x]) => vec![("X", std::slice::from_ref(x))],
            (_, [x, y]) => vec![
                ("X", std::slice::from_ref(x)),
                ("Y", std::slice::from_ref(y)),
            ],
            _ => unreachable!("one or two inputs"),
        };
        network.operator(kind, &inputs, ("Out", output), attributes);
    };
    on(
        "hard_swish",
        &["normal"],
        "features",
        &[
            ("offset", Value::Float(3.0)),
            ("threshold", Value::Float(6.0)),
            ("scale", Value::Float(6.0)),
        ],
    );
    on(
        "pool2d",
        &["features"],
        "pooled",
        &[
            ("pooling_type", Value::Text("avg")),
            ("adaptive", Value::Flag(true)),
            ("ksize", Value::Wholes(&[1, 1])),
        ],
    );
    conv(
        &mut network,
        "features",
        ("depth", Some("depth_bias")),
        "deep",
        "depthwise_conv2d",
        2,
    );
    conv(
        &mut network,
        "pooled",
        ("a_gate", Some("a_gate_bias")),
        "gate_in",
        "conv2d",
        1,
    );
    let mut on =
        |kind: &str, inputs: &[(&str, &[&str])], output: &str, attributes: &[(&str, Value<'_>)]| {
            network.operator(kind, inputs, ("Out", output), attributes);
        };
    on("relu", &[("X", &["deep"])], "coarse", &[]);
    on(
        "hard_sigmoid",
        &[("X", &["gate_in"])],
        "gate",
        &[("slope", Value::Float(0.25)), ("offset", Value::Float(0.4))],
    );
    on(
        "elementwise_mul",
        &[("X", &["features"]), ("Y", &["gate"])],
        "gated",
        &[],
    );
    on(
        "nearest_interp_v2",
        &[("X", &["coarse"])],
        "fine",
        &[("scale", Value::Floats(&[2.0, 2.0]))],
    );
    on(
        "elementwise_add",
        &[("X", &["fine"]), ("Y", &["gated"])],
        "sum",
        &[],
    );
    on(
        "concat",
        &[("X", &["gated", "sum"])],
        "joined",
        &[("axis", Value::Whole(1))],
    );
    conv(
        &mut network,
        "joined",
        ("class", Some("class_bias")),
        "class_in",
        "conv2d",
        1,
    );
    conv(
        &mut network,
        "joined",
        ("object", Some("object_bias")),
        "object_in",
        "conv2d",
        1,
    );
    conv(
        &mut network,
        "joined",
        ("sides", Some("sides_bias")),
        "box",
        "conv2d",
        1,
    );
    let mut on =
        |kind: &str, inputs: &[(&str, &[&str])], output: &str, attributes: &[(&str, Value<'_>)]| {
            network.operator(kind, inputs, ("Out", output), attributes);
        };
    on("sigmoid", &[("X", &["class_in"])], "class_p", &[]);
    on("sigmoid", &[("X", &["object_in"])], "object_p", &[]);
    on(
        "elementwise_mul",
        &[("X", &["class_p"]), ("Y", &["object_p"])],
        "product",
        &[],
    );
    on(
        "scale",
        &[("X", &["product"])],
        "scaled",
        &[("scale", Value::Float(0.81)), ("bias", Value::Float(1e-3))],
    );
    on("sqrt", &[("X", &["scaled"])], "score", &[]);
    // What comes after is left out.
    on("erf", &[("X", &["score"])], "end", &[]);
    network
}

/// What the network computes for an image of one gray: the score of each class, and the distances of the sides in pixels.
pub fn expected(gray: f64) -> ([f64; CLASSES], [f64; 4]) {
    let w = weights();
    let layer = |weights: &[f32], bias: &[f32], inputs: &[f64]| -> Vec<f64> {
        let rows = weights.chunks(inputs.len()).enumerate();
        rows.map(|(row, weights)| {
            let sum: f64 = weights
                .iter()
                .zip(inputs)
                .map(|(w, x)| f64::from(*w) * x)
                .sum();
            sum + bias.get(row).map_or(0.0, |bias| f64::from(*bias))
        })
        .collect()
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let features: Vec<f64> = layer(&w.stem, &[], &[gray; 3])
        .iter()
        .enumerate()
        .map(|(channel, x)| {
            let [scale, shift, mean, variance] =
                [&w.scale, &w.shift, &w.mean, &w.variance].map(|values| f64::from(values[channel]));
            let x = (x - mean) / (variance + 1e-3).sqrt() * scale + shift;
            x * (x + 3.0).clamp(0.0, 6.0) / 6.0
        })
        .collect();
    // The pooled mean of equal cells is the cell.
    let gates = layer(&w.gate, &w.gate_bias, &features);
    let gated: Vec<f64> = features
        .iter()
        .zip(&gates)
        .map(|(x, gate)| x * (0.25 * gate + 0.4).clamp(0.0, 1.0))
        .collect();
    let fine = (0..FEATURES).map(|channel| {
        (features[channel] * f64::from(w.depth[channel]) + f64::from(w.depth_bias[channel]))
            .max(0.0)
    });
    let sum: Vec<f64> = fine.zip(&gated).map(|(a, b)| a + b).collect();
    let joined = [gated, sum].concat();
    let object = sigmoid(layer(&w.object, &w.object_bias, &joined)[0]);
    let classes = layer(&w.class, &w.class_bias, &joined);
    let scores = [0, 1].map(|class| (0.81 * sigmoid(classes[class]) * object + 1e-3).sqrt());
    let sides = layer(&w.sides, &w.sides_bias, &joined);
    let distances = [0, 1, 2, 3].map(|side| {
        let bins = sides[side * 8..][..8].iter().map(|value| value.exp());
        let (weighted, total) = bins.enumerate().fold((0.0, 0.0), |(sum, total), (bin, p)| {
            (sum + bin as f64 * p, total + p)
        });
        8.0 * weighted / total
    });
    (scores, distances)
}
