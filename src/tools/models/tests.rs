// SPDX-License-Identifier: Apache-2.0
//! Inferred layouts for the outputs of each family's exporters; each template loads as a description.

use std::path::Path;

use jetwatch_detect::graph::{Axis, Element, Network, Operator, Opset, Quantization, Tensor};
use jetwatch_detect::model::ModelSpec;
use jetwatch_types::Size;

use jetwatch_detect::layouts::ssd::SsdBackground;
use jetwatch_detect::layouts::{self, LAYOUTS, candidate_layouts, infer_layout};

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
        has_corners: None,
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

/// One output of suppressed rows with the names of three classes, as of YOLOv10, YOLO26 (yolov10#55) or YOLOv7 (yolov7#428).
fn end_to_end(axes: &[i64], operator: Option<&str>) -> Network {
    let mut network = network(640, floats(&[("output0", axes)]));
    let names = "{0: 'person', 1: 'car', 2: 'dog'}";
    network
        .metadata
        .push(("names".to_owned(), names.to_owned()));
    match operator {
        Some(operator) => with_operator(network, operator),
        None => network,
    }
}

/// Networks as their families export them, with layout and classes that must be guessed.
#[rustfmt::skip]
fn families() -> Vec<(Network, &'static str, usize)> {
    let mut paddle = network(
        320,
        floats(&[
            ("t0", &[1, 1600, 80]),
            ("t1", &[1, 1600, 32]),
            ("t2", &[1, 400, 80]),
            ("t3", &[1, 400, 32]),
            ("t4", &[1, 100, 80]),
            ("t5", &[1, 100, 32]),
            ("t6", &[1, 25, 80]),
            ("t7", &[1, 25, 32]),
        ]),
    );
    let nanodet = paddle.clone();
    paddle.producer = "PaddlePaddle 2.3".to_owned();
    let mut official = network(
        640,
        floats(&[("boxes", &[1, 300, 4]), ("scores", &[1, 300])]),
    );
    official
        .outputs
        .push(tensor("labels", Element::INT64, &[1, 300]));
    official
        .inputs
        .push(tensor("orig_target_sizes", Element::INT64, &[1, 2]));
    let names = "['person', 'car']";
    official
        .metadata
        .push(("names".to_owned(), names.to_owned()));
    let plugin = |classes| {
        let mut network = network(
            640,
            floats(&[("det_boxes", &[1, 100, 4]), ("det_scores", &[1, 100])]),
        );
        network
            .outputs
            .insert(0, tensor("num_dets", Element::INT32, &[1, 1]));
        network
            .outputs
            .push(tensor("det_classes", classes, &[1, 100]));
        network
            .metadata
            .push(("names".to_owned(), names.to_owned()));
        network
    };
    let maps = |channels: i64, sides: &[i64]| -> Vec<Tensor> {
        let map = |side: &i64| {
            tensor(
                &format!("m{channels}_{side}"),
                Element::FLOAT,
                &[1, channels, *side, *side],
            )
        };
        sides.iter().map(map).collect()
    };
    let two = |a: Vec<Tensor>, b: Vec<Tensor>| [a, b].concat();
    vec![
        (network(416, floats(&[("output", &[1, 3549, 85])])), "yolox", 80),
        (network(640, floats(&[("output", &[-1, 8400, 7])])), "yolox", 2),
        (with_operator(network(640, floats(&[("output", &[1, 8400, 85])])), "Exp"), "yolov5", 80),
        (network(416, maps(85, &[52, 26, 13])), "yolox", 80),
        (network(640, floats(&[("output0", &[1, 25200, 85])])), "yolov5", 80),
        (network(640, floats(&[("output0", &[1, 84, 8400])])), "yolov8", 80),
        (network(640, floats(&[("boxes", &[1, 8400, 4]), ("scores", &[1, 8400, 80])])), "yolo_nas", 80),
        (network(416, floats(&[("output", &[1, 3598, 112])])), "nanodet", 80),
        (nanodet, "nanodet", 80),
        (paddle, "picodet", 80),
        (network(640, floats(&[("logits", &[-1, 300, 80]), ("pred_boxes", &[-1, 300, 4])])), "detr", 80),
        (network(640, floats(&[("logits", &[-1, -1, 80]), ("pred_boxes", &[-1, -1, 4])])), "detr", 80),
        (official, "detr", 2),
        (network(640, floats(&[("output0", &[1, 300, 84])])), "detr", 80),
        (end_to_end(&[1, 300, 6], None), "finished", 3),
        (end_to_end(&[1, -1, 6], Some("NonMaxSuppression")), "finished", 3),
        (end_to_end(&[-1, 7], Some("NonMaxSuppression")), "finished", 3),
        (network(416, floats(&[("boxes", &[1, 10647, 1, 4]), ("confs", &[1, 10647, 80])])), "yolov4", 80),
        (network(416, floats(&[("boxes", &[1, 2535, 1, 4]), ("confs", &[1, 2535, 3])])), "yolov4", 3),
        (network(640, two(maps(64, &[80, 40, 20]), maps(80, &[80, 40, 20]))), "yolov8_raw", 80),
        (network(640, floats(&[("a", &[1, 3, 80, 80, 85]), ("b", &[1, 3, 40, 40, 85]), ("c", &[1, 3, 20, 20, 85])])), "yolov5_raw", 80),
        (network(416, maps(255, &[52, 26, 13])), "yolov4", 80),
        (network(416, maps(24, &[13, 26])), "yolov4", 3),
        (network(352, maps(85, &[22])), "fastestdet", 80),
        (network(544, two(maps(3, &[34]), maps(12, &[34]))), "detectnet_v2", 3),
        (network(300, floats(&[("scores", &[1, 3000, 21]), ("boxes", &[1, 3000, 4])])), "ssd", 20),
        (network(512, two(maps(5, &[64, 32, 16]), maps(4, &[64, 32, 16]))), "fcos", 5),
        (network(512, [maps(5, &[64, 32, 16]), maps(4, &[64, 32, 16]), maps(1, &[64, 32, 16])].concat()), "fcos", 5),
        (with_operator(plugin(Element::INT32), "EfficientNMS_TRT"), "efficient_nms", 2),
        (plugin(Element::FLOAT), "batched_nms", 2),
        (classifier(&[1, 10], "Softmax"), "softmax", 10),
        (classifier(&[-1, 1000, 1, 1], "Gemm"), "logits", 1000),
        (classifier(&[-1, 1], "Sigmoid"), "sigmoid", 1),
        (classifier(&[-1, 4], "Clip"), "softmax", 4),
        (reid(&[-1, 512], "BatchNormalization"), "embedding", 0),
    ]
}

#[test]
fn every_family_is_inferred_and_its_template_loads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (network, layout, classes) in families() {
        let shapes: Vec<String> = network.outputs.iter().map(ToString::to_string).collect();
        let guess = infer_layout(&network, None)
            .unwrap_or_else(|| panic!("{layout} is not seen in {shapes:?}"));
        assert_eq!(
            (guess.layout, guess.found.classes),
            (layout, classes),
            "{shapes:?}: {}",
            guess.found.reason
        );
        // Every other matching layout must load too when it is requested.
        for other in candidate_layouts(&network, None) {
            let draft = ModelYamlTemplate::new(&network, Some(other.layout), None, None)
                .expect(other.layout);
            let text = draft.text(Origin {
                name: "net: one",
                file: "net #1.onnx",
                sha256: [0xaa; 32].into(),
                weights: &[],
                labels_file: None,
            });
            std::fs::write(folder.path().join("model.yaml"), &text).expect("written");
            let spec =
                ModelSpec::load(folder.path()).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(spec.labels.len(), draft.labels().len());
            assert_eq!(
                spec.output.tensors.len(),
                other
                    .found
                    .tensors
                    .iter()
                    .map(|role| role.names.len())
                    .sum::<usize>()
            );
        }
    }
}

#[test]
fn every_family_of_the_table_is_inferred_from_some_shape() {
    let guessed: Vec<&str> = families()
        .iter()
        .flat_map(|(network, ..)| candidate_layouts(network, None))
        .map(|guess| guess.layout)
        .collect();
    for layout in LAYOUTS {
        assert!(
            guessed.contains(&layout.name),
            "{} is never guessed",
            layout.name
        );
    }
    let is_known = |layout: &&&str| layouts::find(layout).is_none();
    assert_eq!(
        guessed.iter().find(is_known),
        None,
        "a guess outside of the table"
    );
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
        assert_eq!(
            infer_layout(&network(640, floats(outputs)), None),
            None,
            "{outputs:?}"
        );
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
        let folder = tempfile::tempdir().expect("a temporary folder");
        let origin = Origin {
            name: "yes",
            file: "a\"b.onnx",
            sha256: [0xaa; 32].into(),
            weights: &[],
            labels_file: None,
        };
        std::fs::write(folder.path().join("model.yaml"), draft.text(origin)).expect("written");
        ModelSpec::load(folder.path())
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
    let origin = Origin {
        name: "lift",
        file: "lift.onnx",
        sha256: [0xaa; 32].into(),
        weights: &[],
        labels_file: None,
    };
    let text = draft.text(origin);
    ModelSpec::from_text(Path::new("m"), &text, |_| {
        unreachable!("no other file is named")
    })
    .unwrap_or_else(|error| panic!("{error}\n{text}"))
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
