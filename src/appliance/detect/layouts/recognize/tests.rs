// SPDX-License-Identifier: Apache-2.0
//! Networks for the tests of the layouts' signatures, and the tests of what the signatures have in common.

use super::super::Preprocessing;
use super::*;
use crate::graph::{Operator, Opset, Quantization};
use jetwatch_types::Placement;

/// Names and axes of outputs.
pub(in super::super) type Shapes<'a> = &'a [(&'a str, &'a [i64])];

/// Certainty and networks of a guess.
pub(in super::super) type From = (Certainty, &'static str);

/// Certainty, number of classes and other keys of a guess.
pub(in super::super) type Guess<'a> = (Certainty, usize, &'a [(&'a str, &'a str)]);

/// A network for images of 640×640 with these outputs of floats and these operators, for which the exporter noted so many names.
/// Behind `/`, the name of an output may have the operator that makes it.
pub(in super::super) fn network(outputs: Shapes<'_>, operators: &[&str], names: usize) -> Network {
    let tensor = |(name, axes): (&str, &[i64])| {
        let (name, made_by) = match name.split_once('/') {
            Some((name, operator)) => (name, Some(operator.to_owned())),
            None => (name, None),
        };
        let axis = |axis: &i64| match u64::try_from(*axis) {
            Ok(len) => Axis::Fixed(len),
            Err(_) => Axis::Open("n".to_owned()),
        };
        Tensor {
            convolutions: Vec::new(),
            joined: Vec::new(),
            is_coarse: false,
            takes: None,
            has_corners: None,
            is_whole: false,
            name: name.to_owned(),
            element: Some(Element::FLOAT),
            axes: Some(axes.iter().map(axis).collect()),
            made_by,
        }
    };
    let operator = |name: &&str| Operator {
        domain: "ai.onnx".to_owned(),
        name: (*name).to_owned(),
        count: operators.iter().filter(|other| *other == name).count(),
        is_defined: false,
        first_node: String::new(),
    };
    let labels: Vec<String> = (0..names).map(|index| format!("'c{index}'")).collect();
    let noted = ("names".to_owned(), format!("[{}]", labels.join(", ")));
    Network {
        bytes: 1000,
        producer: "pytorch 2.6".to_owned(),
        ir_version: 8,
        name: "g".to_owned(),
        opsets: vec![Opset {
            domain: "ai.onnx".to_owned(),
            version: 13,
        }],
        inputs: vec![tensor(("images", &[1, 3, 640, 640]))],
        outputs: outputs.iter().copied().map(tensor).collect(),
        listed_weights: 0,
        parameters: 0,
        half_weights: 0,
        weight_names: Vec::new(),
        fused: Default::default(),
        torn_weights: Vec::new(),
        operators: operators.iter().map(operator).collect(),
        quantization: Quantization::default(),
        external: Vec::new(),
        metadata: (names > 0).then_some(noted).into_iter().collect(),
    }
}

/// As PaddlePaddle writes it.
pub(in super::super) fn of_paddle(network: Network) -> Network {
    Network {
        producer: "PaddlePaddle 2.6".to_owned(),
        ..network
    }
}

/// The guesses of `layout`, the most likely first.
fn of_layout(network: &Network, layout: &str) -> Vec<InferredLayout> {
    let mut found = candidate_layouts(network, None);
    found.retain(|guess| guess.layout == layout);
    found
}

/// Fails unless the guesses of `layout` are these, the most likely first.
pub(in super::super) fn guesses(network: &Network, layout: &str, wanted: &[Guess<'_>]) {
    let found = of_layout(network, layout);
    let found = found.iter().map(|InferredLayout { found, .. }| {
        let parameters = found.parameters.iter();
        let parameters = parameters.map(|(key, value)| (*key, value.as_str()));
        let parameters: Vec<(&str, &str)> = parameters.collect();
        (found.certainty, found.classes, parameters)
    });
    let wanted = wanted
        .iter()
        .map(|(certainty, classes, parameters)| (*certainty, *classes, parameters.to_vec()));
    let (found, wanted): (Vec<_>, Vec<_>) = (found.collect(), wanted.collect());
    assert_eq!(found, wanted, "{:?}", network.outputs);
}

/// Certainty and networks of the guesses of `layout`, the most likely first.
pub(in super::super) fn origins(network: &Network, layout: &str) -> Vec<From> {
    let of = |guess: &InferredLayout| (guess.found.certainty, guess.origin().0);
    of_layout(network, layout).iter().map(of).collect()
}

/// The tensors of the first guess of `layout`, by role.
pub(in super::super) fn tensors(network: &Network, layout: &str) -> Vec<Vec<String>> {
    let first = of_layout(network, layout).into_iter().next();
    let roles = first.expect("it is guessed").found.tensors;
    roles.into_iter().map(|role| role.names).collect()
}

#[test]
fn further_outputs_do_not_hide_the_boxes() {
    let rows: (&str, &[i64]) = ("o", &[1, 25200, 85]);
    let maps: [(&str, &[i64]); 3] = [
        ("a", &[1, 3, 80, 80, 85]),
        ("b", &[1, 3, 40, 40, 85]),
        ("c", &[1, 3, 20, 20, 85]),
    ];
    for further in [
        &maps[..],
        &[("proto", &[1, 32, 160, 160])],
        &[("aux", &[1, 25200, 85])],
    ] {
        let outputs = [&[rows][..], further].concat();
        let first = infer_layout(&network(&outputs, &[], 0), None).expect("YOLOv5");
        assert_eq!((first.layout, first.found.tensors.len()), ("yolov5", 1));
        assert_eq!(first.found.tensors[0].names, ["o"]);
    }
    // A second matrix may be part of the boxes.
    let outputs: [(&str, &[i64]); 2] = [rows, ("landmarks", &[1, 25200, 10])];
    assert_eq!(infer_layout(&network(&outputs, &[], 0), None), None);
}

#[test]
fn equally_likely_guesses_keep_the_order_of_the_table() {
    let network = network(&[("o", &[1, 8400, 85])], &["Exp", "Sub", "Sub", "Div"], 0);
    let found = candidate_layouts(&network, None);
    let found: Vec<(Certainty, &str, Placement)> = found
        .iter()
        .map(|guess| {
            let (networks, Preprocessing { placement, .. }) = guess.origin();
            (guess.found.certainty, networks, placement)
        })
        .collect();
    let (likely, possible) = (Certainty::Likely, Certainty::Possible);
    let wanted = [
        (
            likely,
            "YOLOX exported with its decoding",
            Placement::TopLeft,
        ),
        (likely, "YOLOv6", Placement::Center),
        (possible, "YOLOv8, YOLO11", Placement::Center),
    ];
    assert_eq!(found, wanted);
}
