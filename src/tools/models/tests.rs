// SPDX-License-Identifier: Apache-2.0
//! Inferred layouts for the outputs of each family's exporters; each template loads as a description.

use std::path::Path;

use jetwatch_detect::graph::{Axis, Element, Network, Operator, Opset, Quantization, Tensor};
use jetwatch_detect::model::ModelSpec;
use jetwatch_types::Size;

use jetwatch_detect::layouts::ssd::SsdBackground;
use jetwatch_detect::layouts::{candidate_layouts, infer_layout};

use super::*;

mod classifiers;
mod finished;
mod labels;
mod ssd;

fn tensor(name: &str, element: Element, axes: &[i64]) -> Tensor {
    let axis = |axis: &i64| match u64::try_from(*axis) {
        Ok(len) => Axis::Fixed(len),
        Err(_) => Axis::Open("n".to_owned()),
    };
    Tensor {
        name: name.to_owned(),
        element: Some(element),
        axes: Some(axes.iter().map(axis).collect()),
        made_by: None,
        joined: Vec::new(),
        is_coarse: false,
        convolutions: Vec::new(),
        takes: None,
        has_corners: None,
        is_whole: false,
    }
}

fn floats(outputs: &[(&str, &[i64])]) -> Vec<Tensor> {
    let float = |(name, axes): &(&str, &[i64])| tensor(name, Element::FLOAT, axes);
    outputs.iter().map(float).collect()
}

/// A network for images of `side`×`side` with these outputs.
fn network(side: i64, outputs: Vec<Tensor>) -> Network {
    Network {
        bytes: 1000,
        producer: String::new(),
        ir_version: 8,
        name: "g".to_owned(),
        opsets: vec![Opset {
            domain: "ai.onnx".to_owned(),
            version: 13,
        }],
        inputs: vec![tensor("images", Element::FLOAT, &[1, 3, side, side])],
        outputs,
        listed_weights: 0,
        parameters: 0,
        half_weights: 0,
        weight_names: Vec::new(),
        fused: Default::default(),
        torn_weights: Vec::new(),
        operators: Vec::new(),
        quantization: Quantization::default(),
        external: Vec::new(),
        metadata: Vec::new(),
    }
}

fn with_operator(mut network: Network, name: &str) -> Network {
    network.operators.push(Operator {
        domain: "ai.onnx".to_owned(),
        name: name.to_owned(),
        count: 1,
        is_defined: false,
        first_node: String::new(),
    });
    network
}

/// One output of this shape, computed by the operator `made_by`.
fn classifier(axes: &[i64], made_by: &str) -> Network {
    let mut network = network(224, floats(&[("scores", axes)]));
    network.inputs[0].axes.as_mut().expect("given")[0] = match axes[0] {
        -1 => Axis::Open("n".to_owned()),
        _ => Axis::Fixed(1),
    };
    network.outputs[0].made_by = Some(made_by.to_owned());
    network
}

/// A network with one vector for each image of 128×256.
fn reid(axes: &[i64], made_by: &str) -> Network {
    let mut network = classifier(axes, made_by);
    let sides = &mut network.inputs[0].axes.as_mut().expect("given")[2..];
    sides.clone_from_slice(&[Axis::Fixed(256), Axis::Fixed(128)]);
    network
}

#[test]
fn pair_of_one_stride_is_fcos_and_loads() {
    for (stride, extra) in [(4, false), (4, true), (8, false), (32, true), (64, false)] {
        let side = 512 / stride;
        let map = |name: &str, channels| tensor(name, Element::FLOAT, &[1, channels, side, side]);
        let mut outputs = vec![map("heat", 3), map("sides", 4)];
        outputs.extend(extra.then(|| map("center", 1)));
        let network = network(512, outputs);
        let guess = infer_layout(&network, None).expect("FCOS");
        assert_eq!((guess.layout, guess.found.classes), ("fcos", 3), "{stride}");
        assert!(
            guess
                .found
                .reason
                .contains(&format!("at strides [{stride}]")),
            "{}",
            guess.found.reason
        );
        let mut wanted = vec!["heat", "sides"];
        wanted.extend(extra.then_some("center"));
        assert_eq!(loaded_template(&network).output.tensors, wanted, "{stride}");
    }
}

#[test]
fn centers_scores_and_boxes_of_one_class_are_distinguished_by_name() {
    let maps = |kind: &str, channels: i64| -> Vec<Tensor> {
        let map = |side| {
            tensor(
                &format!("{kind}_{side}"),
                Element::FLOAT,
                &[1, channels, side, side],
            )
        };
        [64, 32, 16].map(map).to_vec()
    };
    let outputs = [maps("center", 1), maps("score", 1), maps("box", 4)].concat();
    let guess = infer_layout(&network(512, outputs), None).expect("FCOS");
    let names: Vec<&str> = guess
        .found
        .tensors
        .iter()
        .map(|role| role.names[0].as_str())
        .collect();
    assert_eq!(names, ["score_64", "box_64", "center_64"]);
}

#[test]
fn unknown_outputs_infer_no_layout() {
    let cases: [&[(&str, &[i64])]; 5] = [
        &[("rows", &[9, 1000])],
        &[("output", &[1, 17, 3])],
        &[("output0", &[1, 3000, 6])],
        &[("a", &[1, 3, 5, 7]), ("b", &[1, 3])],
        &[],
    ];
    for outputs in cases {
        assert_eq!(infer_layout(&network(640, floats(outputs)), None), None);
    }
}

/// Their first columns are those of boxes.
#[test]
fn poses_and_rotated_boxes_are_refused_with_the_reason() {
    for (task, rows, wanted) in [
        ("pose", 56, Some("poses (task pose)")),
        ("obb", 20, Some("rotated boxes (task obb)")),
        ("detect", 20, None),
    ] {
        let mut network = network(640, floats(&[("output0", &[1, rows, 8400])]));
        network.metadata.push(("task".to_owned(), task.to_owned()));
        for layout in [None, Some("yolov8")] {
            let made = ModelYamlTemplate::new(&network, layout, None, None);
            match (made, wanted) {
                (Err(error), Some(wanted)) => {
                    let text = error.to_string();
                    assert!(
                        text.contains(wanted) && text.contains("export a detection network"),
                        "{text}"
                    );
                }
                (made, wanted) => assert!(made.is_ok() && wanted.is_none(), "{task}"),
            }
        }
    }
}

#[test]
fn metadata_names_become_labels_when_they_are_as_many_as_the_classes() {
    let mut network = network(640, floats(&[("output0", &[1, 6, 8400])]));
    network.metadata = vec![
        (
            "names".to_owned(),
            "{0: 'fork: \"lift\"', 1: 'truck'}".to_owned(),
        ),
        (
            "license".to_owned(),
            "AGPL-3.0 License (https://example.org)".to_owned(),
        ),
    ];
    let draft = ModelYamlTemplate::new(&network, None, None, None).expect("YOLOv8");
    assert_eq!(draft.labels(), ["fork: \"lift\"", "truck"]);
    network.metadata[0].1 = "{0: 'only one'}".to_owned();
    let draft = ModelYamlTemplate::new(&network, None, None, None).expect("YOLOv8");
    assert_eq!(draft.labels(), ["class_0", "class_1"]);
    assert!(
        draft.inferred().found.reason.contains("not as many"),
        "{}",
        draft.inferred().found.reason
    );
}

#[test]
fn dynamic_sizes_come_from_metadata_or_caller() {
    let mut network = network(-1, floats(&[("output0", &[-1, 84, 8400])]));
    let error =
        ModelYamlTemplate::new(&network, None, None, None).expect_err("the type is unknown");
    assert!(
        matches!(error, ModelYamlTemplateError::NoSize { .. }),
        "{error}"
    );
    ModelYamlTemplate::new(&network, None, Some(Size::new(640, 640)), None)
        .expect("the caller gives it");
    network
        .metadata
        .push(("imgsz".to_owned(), "[640, 640]".to_owned()));
    ModelYamlTemplate::new(&network, None, None, None).expect("the exporter noted it");
}

#[test]
fn names_from_file_cannot_break_yaml_lines() {
    let load = |input: &str, output: &str| {
        let mut network = network(640, floats(&[(output, &[1, 6, 8400])]));
        network.inputs[0].name = input.to_owned();
        let draft = ModelYamlTemplate::new(&network, None, None, None).expect("YOLOv8");
        let text = draft.text(Origin {
            name: "yes",
            file: "a\"b.onnx",
            sha256: [0xaa; 32].into(),
            weights: &[],
            labels_file: None,
        });
        ModelSpec::from_text(Path::new("m"), &text, |_| unreachable!("no other file"))
    };
    let spec = load("in\": {#", "- 'out' # {}").expect("the names are quoted");
    let names = (spec.input.name.as_str(), spec.output.tensors[0].as_str());
    assert_eq!(names, ("in\": {#", "- 'out' # {}"));
    assert_eq!(spec.name, "yes");
    // The daemon rejects names that would break its messages; each is still one value.
    let error = load("in", "out\nlicense: {}\n#")
        .expect_err("a line break")
        .to_string();
    assert!(
        error.contains("output.name") && error.contains("1 problem in"),
        "{error}"
    );
}

/// The specification that the template for `network` loads as.
fn loaded_template(network: &Network) -> ModelSpec {
    let draft = ModelYamlTemplate::new(network, None, None, None).expect("a layout fits");
    loaded(&draft).1
}

/// The text of a template, and the specification that it loads as.
fn loaded(draft: &ModelYamlTemplate) -> (String, ModelSpec) {
    let text = draft.text(Origin {
        name: "lift",
        file: "lift.onnx",
        sha256: [0xaa; 32].into(),
        weights: &[],
        labels_file: None,
    });
    let no_file = |_: &Path| unreachable!("no other file is named");
    let spec = ModelSpec::from_text(Path::new("m"), &text, no_file);
    let spec = spec.unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, spec)
}

#[test]
fn images_of_bytes_are_not_normalized() {
    let mut network = network(640, floats(&[("output0", &[1, 6, 8400])]));
    network.inputs[0].element = Some(Element::UINT8);
    let draft = ModelYamlTemplate::new(&network, None, None, None).expect("YOLOv8");
    let (text, _) = loaded(&draft);
    let is_right = text.contains("type: uint8") && !text.contains("mean:");
    assert!(is_right, "{text}");
}

#[test]
fn quoted_label_may_end_line() {
    let mut network = network(640, floats(&[("output0", &[1, 6, 8400])]));
    let names = "{0: 'person', 1: 'fork: lift'}".to_owned();
    network.metadata = vec![("names".to_owned(), names)];
    assert_eq!(loaded_template(&network).labels, ["person", "fork: lift"]);
}

#[test]
fn a_byte_order_mark_in_a_name_does_not_break_the_template() {
    // The reason for the layout, in a comment, contains the output's name.
    let name = "\u{feff}output";
    let network = network(640, floats(&[(name, &[1, 6, 8400])]));
    assert_eq!(loaded_template(&network).output.tensors, [name]);
}
