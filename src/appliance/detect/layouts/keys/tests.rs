// SPDX-License-Identifier: Apache-2.0
//! Tests of the keys of `output`: every layout that there is, and the error for each mistake.

use std::any::Any;
use std::sync::Arc;

use crate::decoders::boxes::BoxUnit;
use crate::decoders::dense::Activation;
use crate::layouts::darknet::{
    DecodedBoxes,
    grids::{DarknetGridsParameters, SizeFormula},
};
use crate::layouts::detectnet_v2::DetectNetParameters;
use crate::layouts::detr::{DetrActivation, DetrParameters};
use crate::layouts::fastestdet;
use crate::layouts::fcos::{FcosParameters, FcosScore};
use crate::layouts::finished::FinishedRows;
use crate::layouts::gfl::{CellCenter, GflParameters, GflTensors};
use crate::layouts::ssd::{SsdActivation, SsdBackground, SsdBoxes, SsdParameters};
use crate::layouts::yolo_nas::YoloNasForm;
use crate::layouts::yolov5::Rows;
use crate::layouts::yolov8::Planes;
use crate::layouts::yolov8_raw::{DistancesAre, GridsBeginWith, RawHead};
use crate::layouts::yolox::YoloxForm;
use crate::layouts::{OutputLayout, OutputSpec};
use crate::model_yaml::tests::{FULL, parse};

/// What a description with this `output` states of it, or the problems.
fn output(text: &str) -> Result<OutputSpec, String> {
    let old = "output: {layout: yolox, name: output}";
    assert!(FULL.contains(old));
    match parse(&FULL.replacen(old, &format!("output: {text}"), 1)) {
        Ok(spec) => Ok(spec.output),
        Err(error) => Err(error.to_string()),
    }
}

/// The parameters of a layout that has this type of them.
fn parameters_of<P: Clone + 'static>(spec: &OutputSpec) -> P {
    let layout: &dyn Any = &*spec.layout;
    let found = layout.downcast_ref::<P>().cloned();
    found.unwrap_or_else(|| panic!("{:?}", spec.layout))
}

fn layout(parameters: impl OutputLayout + 'static) -> Arc<dyn OutputLayout> {
    Arc::new(parameters)
}

#[test]
fn former_names_of_a_layout_are_read() {
    let text = |name| {
        format!(
            "{{layout: {name}, tensors: {{count: n, boxes: b, scores: s, classes: c}}, boxes_are: normalized}}"
        )
    };
    let wanted = output(&text("finished"));
    assert!(wanted.is_ok(), "{wanted:?}");
    for name in ["efficient_nms", "batched_nms"] {
        assert_eq!(output(&text(name)), wanted, "{name}");
    }
}

#[test]
fn every_layout_has_its_tensors_in_its_own_order() {
    let gfl = |tensors, reg_max, center| {
        layout(GflParameters {
            tensors,
            reg_max,
            center,
        })
    };
    let planes = |transposed, mask_coefficients, box_unit| {
        layout(Planes {
            transposed,
            mask_coefficients,
            box_unit,
        })
    };
    let yolov5_raw = |activation| {
        layout(DarknetGridsParameters {
            anchors: vec![vec![[1.0, 2.0]]],
            scale_x_y: vec![2.0],
            sizes: SizeFormula::Square,
            activation,
        })
    };
    let raw = RawHead {
        are_joined: true,
        activation: Activation::Sigmoid,
        distances: DistancesAre::Strides,
        grids_begin_with: GridsBeginWith::Boxes,
    };
    let fcos = |grids, score| layout(FcosParameters { grids, score });
    let queries = |activation, no_object| {
        layout(DetrParameters::Queries {
            activation,
            no_object,
        })
    };
    let detectnet = |box_norm, offset| layout(DetectNetParameters { box_norm, offset });
    let separate = |grids| GflTensors::Separate { grids };
    #[rustfmt::skip]
    let cases: [(&str, Arc<dyn OutputLayout>, &str); 33] = [
        ("{layout: yolox, name: a}", layout(YoloxForm::Rows), "a"),
        ("{layout: yolox, tensors: {grids: [c, a, b]}}", layout(YoloxForm::Grids), "c a b"),
        ("{layout: yolov5, name: a}", layout(Rows { mask_coefficients: 0 }), "a"),
        ("{layout: yolov5, name: a, mask_coefficients: 32}", layout(Rows { mask_coefficients: 32 }), "a"),
        ("{layout: yolov8, name: a}", planes(false, 0, BoxUnit::Pixels), "a"),
        ("{layout: yolov8, name: a, transposed: true, mask_coefficients: 32, boxes_are: normalized}", planes(true, 32, BoxUnit::Normalized), "a"),
        ("{layout: yolo_nas, tensors: {boxes: b, scores: s}}", layout(YoloNasForm::Separate), "b s"),
        ("{layout: yolov5_raw, tensors: {grids: [a]}, anchors: [[1, 2]], activation: none}", yolov5_raw(Activation::None), "a"),
        ("{layout: yolov5_raw, tensors: {grids: [a]}, anchors: [[1, 2]]}", yolov5_raw(Activation::Sigmoid), "a"),
        ("{layout: yolov8_raw, tensors: {grids: [a, b]}}", layout(raw), "a b"),
        ("{layout: yolov8_raw, tensors: {boxes: [c, d], scores: [a, b]}, activation: none}", layout(RawHead { are_joined: false, activation: Activation::None, ..raw }), "a b c d"),
        ("{layout: yolov8_raw, tensors: {boxes: [b], scores: [a]}, distances_are: pixels}", layout(RawHead { are_joined: false, distances: DistancesAre::Pixels, ..raw }), "a b"),
        ("{layout: yolov8_raw, tensors: {grids: [a]}, distances_are: strides_from_corner, grids_begin_with: scores}", layout(RawHead { distances: DistancesAre::CornerStrides, grids_begin_with: GridsBeginWith::Scores, ..raw }), "a"),
        ("{layout: yolov8_raw, tensors: {grids: [a]}, activation: none, grids_begin_with: boxes_and_maximum}", layout(RawHead { activation: Activation::None, grids_begin_with: GridsBeginWith::BoxesAndMaximum, ..raw }), "a"),
        ("{layout: yolo_nas, name: a}", layout(YoloNasForm::Joined), "a"),
        ("{layout: yolov3, tensors: {scores: s, boxes: b}}", layout(DecodedBoxes), "b s"),
        ("{layout: yolov4, tensors: {boxes: b, scores: s}}", layout(DecodedBoxes), "b s"),
        ("{layout: fcos, tensors: {boxes: [c, d], scores: [a, b]}}", fcos(2, FcosScore::Class), "a b c d"),
        ("{layout: fcos, tensors: {centerness: [e], scores: [a], boxes: [c]}}", fcos(1, FcosScore::Centerness), "a c e"),
        ("{layout: detr, name: a}", layout(DetrParameters::Joined), "a"),
        ("{layout: detr, tensors: {scores: s, labels: l, boxes: b}}", layout(DetrParameters::Ranked), "l b s"),
        ("{layout: detr, tensors: {boxes: b, scores: s}}", queries(DetrActivation::Sigmoid, false), "s b"),
        ("{layout: detr, tensors: {boxes: b, scores: s}, activation: none}", queries(DetrActivation::None, false), "s b"),
        ("{layout: detr, tensors: {boxes: b, scores: s}, activation: softmax}", queries(DetrActivation::Softmax, false), "s b"),
        ("{layout: detr, tensors: {boxes: b, scores: s}, no_object: true}", queries(DetrActivation::Sigmoid, true), "s b"),
        ("{layout: nanodet, name: a}", gfl(GflTensors::Joined, 7, CellCenter::Corner), "a"),
        ("{layout: nanodet, tensors: {scores: [a, b], boxes: [c, d]}, reg_max: 10}", gfl(separate(2), 10, CellCenter::Middle), "a b c d"),
        ("{layout: picodet, tensors: {scores: [a, b], boxes: [c, d]}}", gfl(separate(2), 7, CellCenter::Middle), "a b c d"),
        ("{layout: detectnet_v2, tensors: {boxes: b, scores: s}}", detectnet(35.0, 0.5), "s b"),
        ("{layout: detectnet_v2, tensors: {boxes: b, scores: s}, box_norm: 20, offset: 0}", detectnet(20.0, 0.0), "s b"),
        ("{layout: fastestdet, name: a}", layout(fastestdet::Planes), "a"),
        ("{layout: ssd, tensors: {boxes: b, scores: s}, activation: none, background: none, boxes_are: pixels}",
         layout(SsdParameters { boxes: SsdBoxes::Decoded(BoxUnit::Pixels), background: SsdBackground::None, activation: SsdActivation::None, }),
         "b s"),
        ("{layout: ssd, tensors: {boxes: b, scores: s}, activation: softmax, background: last, boxes_are: normalized}",
         layout(SsdParameters { boxes: SsdBoxes::Decoded(BoxUnit::Normalized), background: SsdBackground::Last, activation: SsdActivation::Softmax, }),
         "b s"),
    ];
    for (text, layout, tensors) in cases {
        let tensors = tensors.split(' ').map(str::to_owned).collect();
        assert_eq!(output(text), Ok(OutputSpec { tensors, layout }), "{text}");
    }
}

#[test]
fn finished_boxes_have_columns_and_tensors_that_complete_each_other() {
    let read = |text: &str| output(&format!("{{layout: finished, {text}}}"));
    #[rustfmt::skip]
    let cases = [
        ("name: a", "a", r#"["boxes"]"#, "[0, 1, 2, 3], form: Corners, score: Some(4), class: Some(5)"),
        ("name: a, columns: [left, top, width, height, class, score]", "a", r#"["boxes"]"#,
         "[0, 1, 2, 3], form: CornerAndSize, score: Some(5), class: Some(4)"),
        ("tensors: {scores: s, boxes: b, classes: c}", "b s c", r#"["boxes", "scores", "classes"]"#,
         "[0, 1, 2, 3], form: Corners, score: None, class: None"),
        ("tensors: {scores: s, boxes: b}", "b s", r#"["boxes", "scores"]"#, "[0, 1, 2, 3], form: Corners, score: None, class: None"),
        ("tensors: {classes: c, boxes: b}", "b c", r#"["boxes", "classes"]"#, "[0, 1, 2, 3], form: Corners, score: Some(4), class: None"),
        ("tensors: {boxes: b, count: n}", "b n", r#"["boxes", "count"]"#, "[0, 1, 2, 3], form: Corners, score: Some(4), class: Some(5)"),
        ("tensors: {boxes: b, scores: s, classes: c, count: n}, columns: [top, left, bottom, right], boxes_are: normalized, first_class: 1", "b s c n",
         r#"["boxes", "scores", "classes", "count"]"#, "[1, 0, 3, 2], form: Corners, score: None, class: None"),
    ];
    for (text, tensors, roles, columns) in cases {
        let spec = read(text).expect(text);
        assert_eq!(spec.tensors.join(" "), tensors, "{text}");
        let debug = format!("{:?}", parameters_of::<FinishedRows>(&spec));
        for wanted in [roles, columns] {
            assert!(debug.contains(wanted), "{debug}\nwithout\n{wanted}");
        }
    }
    #[rustfmt::skip]
    let cases = [
        ("tensors: {scores: s}", "output.tensors.boxes: missing, expected the tensor's name"),
        ("tensors: {boxes: b, scores: b}", "tensor `b` given twice"),
        ("tensors: {boxes: b, scores: [s]}", "output.tensors.scores: found a list"),
        ("tensors: {boxes: b, scores: s}, columns: [left, top, right, bottom, score]", "output.columns: score given together with the tensor scores"),
        ("tensors: {boxes: b, classes: c}, columns: [left, top, right, bottom]", "output.columns: score missing"),
        ("tensors: {boxes: b, scores: s}, columns: [left, top, right, width]", "output.columns: right or bottom given together with width"),
        ("tensors: {boxes: b, scores: s}, suppressed: 2", "output.suppressed: found 2, expected true or false"),
        ("columns: [left]", "output.name: missing, expected name: TENSOR, or tensors: {boxes: TENSOR, scores: TENSOR or left out, classes: TENSOR or left out, count: TENSOR or left out}"),
    ];
    for (text, wanted) in cases {
        let error = read(text).expect_err(wanted);
        assert!(error.contains(wanted), "{error}\ninstead of\n{wanted}");
    }
}

#[test]
fn anchors_of_ssd_are_computed_or_read() {
    let ssd = |keys: &str| {
        let text = format!(
            "{{layout: ssd, tensors: {{boxes: b, scores: s}}, activation: sigmoid, {keys}}}"
        );
        output(&text).map(|spec| parameters_of::<SsdParameters>(&spec))
    };
    let computed = "feature_maps: [2, [1, 2]], scales: [0.25, 0.5, 1], aspect_ratios: [[4], []]";
    let parameters = ssd(computed).expect("it is right");
    assert_eq!(parameters.background, SsdBackground::First);
    let SsdBoxes::Deltas { anchors, variances } = parameters.boxes else {
        panic!("{parameters:?}")
    };
    assert_eq!(variances, [0.1, 0.1, 0.2, 0.2]);
    // Four cells of four anchors, two cells of two.
    assert_eq!(anchors.len(), 20);
    assert_eq!(anchors[0], [0.25, 0.25, 0.25, 0.25]);
    assert_eq!(anchors[2], [0.25, 0.25, 0.5, 0.125]);
    assert_eq!(anchors[18], [0.5, 0.75, 0.5, 0.5]);

    let more =
        format!("{computed}, steps: [0.375, 0.5], clip_anchors: true, variances: [1, 2, 3, 4]");
    let SsdBoxes::Deltas { anchors, variances } = ssd(&more).expect("it is right").boxes else {
        panic!("they are deltas")
    };
    assert_eq!(
        (variances, anchors[4]),
        ([1.0, 2.0, 3.0, 4.0], [0.5625, 0.1875, 0.25, 0.25])
    );

    // The file has the text that the test's reader gives: its own name, which is no anchor, or is one.
    let SsdBoxes::Deltas { anchors, .. } = ssd("anchors_file: '# 0.5 0.5 0.25 1'")
        .expect("it is right")
        .boxes
    else {
        panic!("they are deltas")
    };
    assert_eq!(anchors, [[0.5, 0.5, 0.25, 1.0]]);

    #[rustfmt::skip]
    let cases = [
        ("", "output.feature_maps: missing, expected a list of the feature maps"),
        ("anchors_file: a.txt", "output.anchors_file: line 1 of the file: `a.txt` is not a number, expected an anchor in"),
        ("anchors_file: ../a.txt", "output.anchors_file: found \"../a.txt\", expected a path inside"),
        ("anchors_file: a.txt, scales: [1]", "output.scales: given without use, expected only without anchors_file"),
        ("boxes_are: pixels, variances: [1, 1, 1, 1]", "output.variances: given without use, expected only for boxes that are deltas"),
        ("boxes_are: corners", "output.boxes_are: found \"corners\", expected one of deltas, pixels, normalized"),
        ("background: 0", "output.background: found 0, expected one of first, last, none"),
        ("feature_maps: [2], scales: [0.5], aspect_ratios: [[2]]", "output.scales: 1 numbers, expected a number for each feature map and one more"),
        ("feature_maps: [2], scales: [0.5, 1], aspect_ratios: [[2], [3]]", "output.aspect_ratios: 2 lists, expected a list"),
        ("feature_maps: [2], scales: [0.5, 1], aspect_ratios: [[2]], steps: [0.5, 1]", "output.steps: 2 numbers, expected"),
        ("feature_maps: [[2, 3, 4]], scales: [0.5, 1], aspect_ratios: [[2]]", "output.feature_maps[0]: found a list"),
        ("feature_maps: [0], scales: [0.5, 1], aspect_ratios: [[2]]", "output.feature_maps[0]: found 0, expected a whole"),
    ];
    for (keys, wanted) in cases {
        let error = ssd(keys).expect_err(keys);
        assert!(
            error.contains(wanted),
            "{keys} gave\n{error}\ninstead of\n{wanted}"
        );
    }
}

#[test]
fn oversized_anchor_tables_are_rejected_before_computation() {
    let ratios = vec!["2"; 1000].join(", ");
    let text = format!(
        "{{layout: ssd, tensors: {{boxes: b, scores: s}}, activation: none, feature_maps: [1024, 1024], \
         scales: [0.1, 0.2, 0.3], aspect_ratios: [[{ratios}], [{ratios}]]}}"
    );
    let error = output(&text).expect_err("they would take 67 GB");
    let wanted =
        "output.feature_maps: maps with 4198498304 anchors, expected at most 1000000 in all";
    assert!(error.contains(wanted), "{error}");
}

#[test]
fn darknet_grids_have_the_tiny_anchors_unless_others_are_given() {
    let parameters =
        |text: &str| parameters_of::<DarknetGridsParameters>(&output(text).expect(text));
    let coarse = vec![[81.0, 82.0], [135.0, 169.0], [344.0, 319.0]];
    let v3 = parameters("{layout: yolov3, tensors: {grids: [a, b]}}");
    let fine = vec![[10.0, 14.0], [23.0, 27.0], [37.0, 58.0]];
    assert_eq!(v3.anchors, [coarse.clone(), fine]);
    assert_eq!(v3.scale_x_y, [1.0, 1.0]);
    let v4 = parameters("{layout: yolov4, tensors: {grids: [a, b]}}");
    let fine = vec![[23.0, 27.0], [37.0, 58.0], [81.0, 82.0]];
    assert_eq!(v4.anchors, [coarse, fine]);
    assert_eq!(v4.scale_x_y, [1.05, 1.05]);
    let own = "{layout: yolov4, tensors: {grids: [a, b, c]}, anchors: [[1, 2], [3, 4, 5, 6.5], [7, 8]], scale_x_y: [1.2, 1.1, 1]}";
    let wanted = DarknetGridsParameters {
        anchors: vec![
            vec![[1.0, 2.0]],
            vec![[3.0, 4.0], [5.0, 6.5]],
            vec![[7.0, 8.0]],
        ],
        scale_x_y: vec![1.2, 1.1, 1.0],
        sizes: SizeFormula::Exponential,
        activation: Activation::Sigmoid,
    };
    assert_eq!(parameters(own), wanted);
}

#[test]
fn every_mistake_is_reported_with_its_key() {
    #[rustfmt::skip]
    let cases = [
        ("7", "output: found 7, expected a map"),
        ("", "output.layout: missing, expected one of yolox, yolov5"),
        ("{name: a}", "output.layout: missing, expected one of yolox, yolov5"),
        ("{layout: yolo, nam: a}", "output.layout: found \"yolo\", expected one of yolox, yolov5"),
        ("{layout: yolov5}", "output.name: missing, expected the tensor's name in the network"),
        ("{layout: yolov5, name: ' '}", "output.name: found \" \", expected the tensor's name"),
        ("{layout: yolov5, tensors: {grids: [a]}}", "output.tensors: unknown key; known here: layout, name"),
        ("{layout: yolov5, name: a, anchors: [[1, 2]]}", "output.anchors: unknown key"),
        ("{layout: yolov3, tensors: {boxes: a, scores: b}, scale_x_y: 1.1}", "output.scale_x_y: unknown key"),
        ("{layout: yolox}", "output.name: missing, expected name: TENSOR, or tensors: {grids: [TENSOR, …]}"),
        ("{layout: yolov3}", "output.tensors: missing, expected tensors: {boxes: TENSOR, scores: TENSOR}, or tensors: {grids: [TENSOR, …]}"),
        ("{layout: yolov3, name: a}", "output.name: unknown key; known here: layout, tensors, anchors"),
        ("{layout: yolox, name: a, tensors: {grids: [b]}}", "output.tensors: given together with name, expected only one of them"),
        ("{layout: yolox, tensors: {grids: []}}", "output.tensors.grids: found an empty list, expected a list of tensors"),
        ("{layout: yolox, tensors: {grids: [a, 5]}}", "output.tensors.grids[1]: found 5, expected the tensor's name"),
        ("{layout: yolox, tensors: {grids: [a, b, a]}}", "output.tensors: tensor `a` given twice, expected tensors that differ"),
        ("{layout: yolox, tensors: {grid: [a]}}", "output.tensors.grid: unknown key; did you mean `grids`?"),
        ("{layout: yolov3, tensors: {boxes: a}}", "output.tensors.scores: missing, expected the tensor's name"),
        ("{layout: yolov4, tensors: {grids: [a, b, c]}}", "output.anchors: missing, expected 3 lists such as [81, 82, 135, 169], width and height"),
        ("{layout: yolov4, tensors: {grids: [a]}, anchors: [[1, 2], [3, 4]]}", "output.anchors: 2 lists, expected 1 lists"),
        ("{layout: yolov4, tensors: {grids: [a]}, anchors: [[1, 2, 3]]}", "output.anchors[0]: found a list, expected 1 lists"),
        ("{layout: yolov4, tensors: {grids: [a]}, anchors: [[0, 2]]}", "output.anchors[0][0]: found 0, expected a number from 1"),
        ("{layout: yolov4, tensors: {grids: [a]}, anchors: [[1, 2]], scale_x_y: 0.5}", "output.scale_x_y: found 0.5, expected a number from 1 to 2"),
        ("{layout: yolov4, tensors: {grids: [a]}, anchors: [[1, 2]], scale_x_y: [1, 1]}",
         "output.scale_x_y: found a list, expected one number or a list of 1"),
        ("{layout: fcos, tensors: {scores: [a, b], boxes: [c]}}", "output.tensors: lists that differ in length, expected one tensor of"),
        ("{layout: fcos, tensors: {scores: [a, b, c, d, e, f, g, h], boxes: [i, j, k, l, m, n, o, p]}}",
         "output.tensors: 16 tensors, expected at most 15"),
        ("{layout: detr, name: a, activation: none}", "output.activation: given for scores that the network has finished"),
        ("{layout: detr, tensors: {boxes: b, scores: s}, activation: relu}", "output.activation: found \"relu\", expected one of sigmoid, softmax, none"),
        ("{layout: detr, name: a, no_object: true}", "output.no_object: given for scores that the network has finished"),
        ("{layout: yolov5_raw, tensors: {grids: [a, b, c]}}", "output.anchors: missing, expected 3 lists such as [81, 82, 135, 169]"),
        ("{layout: yolov8_raw, tensors: {grids: [a]}, activation: softmax}", "output.activation: found \"softmax\", expected one of sigmoid, none"),
        ("{layout: nanodet, name: a, reg_max: 0}", "output.reg_max: found 0, expected a whole number from 1 to 64"),
        ("{layout: ssd, tensors: {boxes: b, scores: s}, boxes_are: pixels}", "output.activation: missing, expected softmax, sigmoid or none"),
        ("{layout: yolov4, tensors: {boxes: a, scores: b}, scale_x_y: 1.1}",
         "output.scale_x_y: given for decoded boxes, expected only together with tensors.grids"),
    ];
    for (text, wanted) in cases {
        let error = output(text).expect_err(text);
        assert!(
            error.contains(wanted),
            "{text} gave\n{error}\ninstead of\n{wanted}"
        );
    }
}

#[test]
fn tensor_and_parameter_problems_are_reported_together() {
    let error = output("{layout: yolov4, tensors: {grids: [a, 7]}, color: red}").expect_err("two");
    assert!(
        error.contains("output.tensors.grids[1]") && error.contains("output.color"),
        "{error}"
    );
}

#[test]
fn layout_restricts_input_sizes() {
    let with = |layout: &str, width: u32| {
        let text = FULL
            .replacen("layout: yolox", &format!("layout: {layout}"), 1)
            .replacen("width: 96", &format!("width: {width}"), 1);
        parse(&text)
            .map(|spec| spec.input.size.width)
            .map_err(|error| error.to_string())
    };
    assert_eq!(with("yolov8", 100), Ok(100));
    let error = with("yolox", 100).expect_err("no multiple of 32");
    assert!(
        error.contains("input.width: found 100, expected a multiple of 32 from 32 to 4096"),
        "{error}"
    );
    // Only the layout is a problem.
    let error = with("yolo", 100).expect_err("no such layout");
    assert!(!error.contains("width"), "{error}");
    let error = with("yolov8", 5).expect_err("too narrow");
    assert!(
        error.contains("input.width: found 5, expected a whole number from 32 to 4096"),
        "{error}"
    );
}
