//! Tests of the keys of `output`: every layout that there is, and how each mistake is told.

use crate::detect::layout::darknet_grids::DarknetGridsParameters;
use crate::detect::model::{OutputLayout, OutputSpec};
use crate::detect::model_keys::tests::{FULL, parse};

/// What a description with this `output` says of it, or the problems.
fn output(text: &str) -> Result<OutputSpec, String> {
    let old = "output: {layout: yolox, name: output}";
    assert!(FULL.contains(old));
    match parse(&FULL.replacen(old, &format!("output: {text}"), 1)) {
        Ok(spec) => Ok(spec.output),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn every_layout_has_its_tensors_in_its_own_order() {
    let cases: [(&str, OutputLayout, &[&str]); 6] = [
        ("{layout: yolox, name: a}", OutputLayout::Yolox, &["a"]),
        (
            "{layout: yolox, tensors: {grids: [c, a, b]}}",
            OutputLayout::YoloxGrids,
            &["c", "a", "b"],
        ),
        ("{layout: yolov5, name: a}", OutputLayout::Yolov5, &["a"]),
        ("{layout: yolov8, name: a}", OutputLayout::Yolov8, &["a"]),
        (
            "{layout: yolov3, tensors: {scores: s, boxes: b}}",
            OutputLayout::Darknet,
            &["b", "s"],
        ),
        (
            "{layout: yolov4, tensors: {boxes: b, scores: s}}",
            OutputLayout::Darknet,
            &["b", "s"],
        ),
    ];
    for (text, layout, tensors) in cases {
        let spec = output(text).expect(text);
        assert_eq!(
            (spec.layout, spec.tensors.as_slice()),
            (
                layout,
                &tensors
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>()[..]
            ),
            "{text}"
        );
    }
}

#[test]
fn darknet_grids_have_the_tiny_anchors_unless_others_are_given() {
    let parameters = |text: &str| match output(text).expect(text).layout {
        OutputLayout::DarknetGrids(parameters) => parameters,
        other => panic!("{text}: {other:?}"),
    };
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
    };
    assert_eq!(parameters(own), wanted);
}

#[test]
fn every_mistake_is_told_with_its_key() {
    let cases = [
        ("7", "output: found 7, expected a map"),
        ("", "output.layout: missing, expected one of yolox, yolov5"),
        (
            "{name: a}",
            "output.layout: missing, expected one of yolox, yolov5",
        ),
        (
            "{layout: yolo, nam: a}",
            "output.layout: found \"yolo\", expected one of yolox, yolov5",
        ),
        (
            "{layout: yolov5}",
            "output.name: missing, expected the tensor's name in the network",
        ),
        (
            "{layout: yolov5, name: ' '}",
            "output.name: found \" \", expected the tensor's name",
        ),
        (
            "{layout: yolov5, tensors: {grids: [a]}}",
            "output.tensors: unknown key; known here: layout, name",
        ),
        (
            "{layout: yolov5, name: a, anchors: [[1, 2]]}",
            "output.anchors: unknown key",
        ),
        (
            "{layout: yolov3, tensors: {boxes: a, scores: b}, scale_x_y: 1.1}",
            "output.scale_x_y: unknown key",
        ),
        (
            "{layout: yolox}",
            "output.name: missing, expected name: TENSOR, or tensors: {grids: [TENSOR, …]}",
        ),
        (
            "{layout: yolov3}",
            "output.tensors: missing, expected tensors: {boxes: TENSOR, scores: TENSOR}, or tensors: {grids: [TENSOR, …]}",
        ),
        (
            "{layout: yolov3, name: a}",
            "output.name: unknown key; known here: layout, tensors, anchors",
        ),
        (
            "{layout: yolox, name: a, tensors: {grids: [b]}}",
            "output.tensors: given beside name, expected only one of them",
        ),
        (
            "{layout: yolox, tensors: {grids: []}}",
            "output.tensors.grids: found an empty list, expected a list of tensors",
        ),
        (
            "{layout: yolox, tensors: {grids: [a, 5]}}",
            "output.tensors.grids[1]: found 5, expected the tensor's name",
        ),
        (
            "{layout: yolox, tensors: {grids: [a, b, a]}}",
            "output.tensors: tensor `a` given twice, expected tensors that differ",
        ),
        (
            "{layout: yolox, tensors: {grid: [a]}}",
            "output.tensors.grid: unknown key; did you mean `grids`?",
        ),
        (
            "{layout: yolov3, tensors: {boxes: a}}",
            "output.tensors.scores: missing, expected the tensor's name",
        ),
        (
            "{layout: yolov4, tensors: {grids: [a, b, c]}}",
            "output.anchors: missing, expected 3 lists such as [81, 82, 135, 169], width and height",
        ),
        (
            "{layout: yolov4, tensors: {grids: [a]}, anchors: [[1, 2], [3, 4]]}",
            "output.anchors: 2 lists, expected 1 lists",
        ),
        (
            "{layout: yolov4, tensors: {grids: [a]}, anchors: [[1, 2, 3]]}",
            "output.anchors[0]: found a list, expected 1 lists",
        ),
        (
            "{layout: yolov4, tensors: {grids: [a]}, anchors: [[0, 2]]}",
            "output.anchors[0][0]: found 0, expected a number from 1",
        ),
        (
            "{layout: yolov4, tensors: {grids: [a]}, anchors: [[1, 2]], scale_x_y: 0.5}",
            "output.scale_x_y: found 0.5, expected a number from 1 to 2",
        ),
        (
            "{layout: yolov4, tensors: {grids: [a]}, anchors: [[1, 2]], scale_x_y: [1, 1]}",
            "output.scale_x_y: found a list, expected one number or a list of 1",
        ),
        (
            "{layout: yolov4, tensors: {boxes: a, scores: b}, scale_x_y: 1.1}",
            "output.scale_x_y: given for decoded boxes, expected only beside tensors.grids",
        ),
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
fn problems_of_tensors_and_parameters_come_together() {
    let error = output("{layout: yolov4, tensors: {grids: [a, 7]}, color: red}").expect_err("two");
    assert!(
        error.contains("output.tensors.grids[1]") && error.contains("output.color"),
        "{error}"
    );
}

#[test]
fn the_layout_decides_which_sides_the_input_may_have() {
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
