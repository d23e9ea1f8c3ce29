// SPDX-License-Identifier: Apache-2.0
//! Tests of what a network is compared with: its inputs and outputs by name, and the shapes of a first run.

use super::*;
use crate::model_yaml::tests::{FULL, parse};

fn info(name: &str, shape: &[i64]) -> TensorInfo {
    TensorInfo {
        name: name.to_owned(),
        tensor: Some((Element::Supported(DType::F32), shape.to_vec())),
    }
}

fn checked(inputs: &[TensorInfo], outputs: &[TensorInfo]) -> Result<BatchAxis, String> {
    // Input 96×64, two labels.
    let spec = parse(FULL).expect("it is right");
    check_signature(&spec, Path::new("m/t.onnx"), inputs, outputs)
        .map_err(|error| error.to_string())
}

#[test]
fn fixed_and_dynamic_batches_are_accepted() {
    let cases = [
        ([1, 3, 64, 96], [1, 126, 7], BatchAxis::One),
        ([-1, 3, 64, 96], [-1, 126, 7], BatchAxis::Dynamic),
        ([4, 3, 64, 96], [4, 126, 7], BatchAxis::Fixed(4)),
        ([-1, 3, -1, -1], [-1, -1, 7], BatchAxis::Dynamic),
        ([-1, 3, 64, 96], [1, 126, 7], BatchAxis::One),
    ];
    for (input, output, wanted) in cases {
        let outputs = [info("other", &[5]), info("output", &output)];
        let found = checked(&[info("images", &input)], &outputs);
        assert_eq!(found, Ok(wanted), "{input:?} {output:?}");
    }
}

#[test]
fn a_mismatch_names_tensor_shapes_and_what_to_change() {
    let input = info("images", &[1, 3, 64, 96]);
    let output = info("output", &[1, 126, 7]);
    let half = TensorInfo {
        tensor: Some((Element::Other("f16".to_owned()), vec![1, 3, 64, 96])),
        ..input.clone()
    };
    #[rustfmt::skip]
    let cases = [
        (
            vec![info("data", &[1])],
            vec![output.clone()],
            "m/t.onnx: input `images`: found `data`, expected this name; set input.name",
        ),
        (
            vec![input.clone(), info("size", &[2])],
            vec![output.clone()],
            "input `images`: found another input `size`, expected no other; export the network with one input, or set input.sizes_name",
        ),
        (
            vec![info("images", &[1, 3, 416, 416])],
            vec![output.clone()],
            "input `images`: found float32 [1, 3, 416, 416], expected float32 [1 or N, 3, 64, 96]; set input.width",
        ),
        (vec![info("images", &[1, 64, 96, 3])], vec![output.clone()], "found float32 [1, 64, 96, 3]"),
        (
            vec![info("images", &[4, 3, 64, 96])],
            vec![output.clone()],
            "input `images`: found a batch of exactly 4, expected [1 or N, …]; export the network for a batch of 1",
        ),
        (
            vec![half],
            vec![output.clone()],
            "found f16 [1, 3, 64, 96], expected float32 [1 or N, 3, 64, 96]; export the network with float32",
        ),
        (vec![input.clone()], vec![], "output `output`: found none, expected this name; set output.name"),
        (
            vec![input.clone()],
            vec![info("output", &[126, 7])],
            "output `output`: found float32 [126, 7], expected float32, int32 or int64 [1 or N, …]; export the network for",
        ),
        (vec![input.clone()], vec![info("output", &[])], "output `output`: found float32 [], expected"),
        (
            vec![input.clone()],
            vec![TensorInfo {
                tensor: Some((Element::Other("f16".to_owned()), vec![1, 126, 7])),
                ..output.clone()
            }],
            "output `output`: found f16 [1, 126, 7], expected float32, int32 or int64 [1 or N, …]; export",
        ),
        (
            vec![input],
            vec![TensorInfo {
                name: "output".to_owned(),
                tensor: None,
            }],
            "output `output`: found no tensor",
        ),
    ];
    for (inputs, outputs, wanted) in cases {
        let error = checked(&inputs, &outputs).expect_err(wanted);
        assert!(error.contains(wanted), "{error}\ninstead of\n{wanted}");
    }
}

#[test]
fn a_second_input_is_for_the_image_sizes() {
    let text = FULL.replacen("name: images", "name: images\n  sizes_name: sizes", 1);
    let spec = parse(&text).expect("it is right");
    let checked = |element, shape: &[i64]| {
        let sizes = TensorInfo {
            name: "sizes".to_owned(),
            tensor: Some((Element::Supported(element), shape.to_vec())),
        };
        let inputs = [sizes, info("images", &[-1, 3, 64, 96])];
        let outputs = [info("output", &[-1, 126, 7])];
        check_signature(&spec, Path::new("m/t.onnx"), &inputs, &outputs)
            .map_err(|error| error.to_string())
    };
    assert_eq!(checked(DType::I64, &[-1, 2]), Ok(BatchAxis::Dynamic));
    assert_eq!(checked(DType::I64, &[1, 2]), Ok(BatchAxis::One));
    let error = checked(DType::F32, &[-1, 2]).expect_err("floats");
    let wanted = "input `sizes`: found float32 [N, 2], expected int64 [1 or N, 2]; export the network with int64";
    assert!(error.contains(wanted), "{error}");
    let error = checked(DType::I64, &[-1, 4]).expect_err("four numbers");
    assert!(error.contains("leave it out if this is another"), "{error}");
    let text = text.replacen("sizes_name", "scales_name", 1);
    let scaled = parse(&text).expect("it is right");
    let sizes = TensorInfo {
        name: "sizes".to_owned(),
        tensor: Some((Element::Supported(DType::I64), vec![-1, 2])),
    };
    let inputs = [sizes, info("images", &[-1, 3, 64, 96])];
    let error = check_signature(&scaled, Path::new("m/t.onnx"), &inputs, &[]).expect_err("whole");
    let wanted = "input `sizes`: found int64 [N, 2], expected float32 [1 or N, 2]";
    assert!(error.to_string().contains(wanted), "{error}");
    let (inputs, outputs) = ([info("images", &[1, 3, 64, 96])], [info("output", &[1])]);
    let error = check_signature(&spec, Path::new("m/t.onnx"), &inputs, &outputs)
        .expect_err("there is none");
    let wanted = "input `sizes`: found `images`, expected this name; set input.sizes_name";
    assert!(error.to_string().contains(wanted), "{error}");
}

#[test]
fn every_output_is_found_by_its_name() {
    let text = FULL.replacen("name: output", "tensors: {grids: [a, b, c]}", 1);
    let spec = parse(&text).expect("it is right");
    let inputs = [info("images", &[1, 3, 64, 96])];
    let outputs = [info("c", &[1]), info("a", &[1])];
    let error = check_signature(&spec, Path::new("m/t.onnx"), &inputs, &outputs).expect_err("no b");
    let wanted = "m/t.onnx: output `b`: found `c`, `a`, expected this name; set output.tensors in model.yaml";
    assert!(error.to_string().starts_with(wanted), "{error}");
}

#[test]
fn runtime_shapes_take_precedence() {
    let spec = parse(FULL).expect("it is right");
    let judged = |element, axes: &[usize]| {
        let axes = axes.to_vec();
        create_decoder(
            &spec,
            Path::new("m/t.onnx"),
            &[RunShape { element, axes }],
            2,
        )
        .map(drop)
        .map_err(|error| error.to_string())
    };
    assert_eq!(judged(DType::F32, &[2, 126, 7]), Ok(()));
    #[rustfmt::skip]
    let cases = [
        (DType::F32, &[2, 100, 7][..],
         "m/t.onnx: output `output`: found float32 [100, 7] for each image, expected float32 [126, 7]; YOLOX has 126 rows for an input of 96×64"),
        (DType::F32, &[2, 126, 85], "labels (2) in model.yaml"),
        (DType::I32, &[2, 126, 7], "found int32 [126, 7] for each image, expected float32"),
        (DType::F32, &[1, 126, 7], "found [1, 126, 7] in a run, expected [2, …]; export the network for a batch of 1"),
        (DType::F32, &[], "found [] in a run, expected [2, …]"),
    ];
    for (element, axes, wanted) in cases {
        let error = judged(element, axes).expect_err(wanted);
        assert!(error.contains(wanted), "{error}\ninstead of\n{wanted}");
    }
}

/// Type and axes of an output.
type Shape<'a> = (DType, &'a [usize]);

/// Boxes, scores and classes of torchvision are without a batch axis, those of TensorFlow have one, and its count may have none.
#[test]
fn rows_of_one_image_need_no_batch_axis_in_any_tensor() {
    let old = "{layout: yolox, name: output}";
    let new = "{layout: finished, tensors: {boxes: b, scores: s, classes: c, count: n}}";
    let spec = parse(&FULL.replacen(old, new, 1)).expect("it is right");
    let path = Path::new("m/t.onnx");
    let named = |name: &str, shape: &[i64]| info(name, shape);
    let outputs = [
        named("b", &[-1, 4]),
        named("s", &[-1]),
        named("c", &[-1]),
        named("n", &[]),
    ];
    let inputs = [info("images", &[-1, 3, 64, 96])];
    let axis = check_signature(&spec, path, &inputs, &outputs).map_err(|error| error.to_string());
    assert_eq!(axis, Ok(BatchAxis::One));
    let judged = |shapes: &[Shape<'_>]| {
        let shape = |(element, axes): &Shape<'_>| RunShape {
            element: *element,
            axes: axes.to_vec(),
        };
        let shapes: Vec<RunShape> = shapes.iter().map(shape).collect();
        create_decoder(&spec, path, &shapes, 1)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let (f32, i64) = (DType::F32, DType::I64);
    for count in [&[][..], &[1], &[1, 1]] {
        assert_eq!(
            judged(&[(f32, &[5, 4]), (f32, &[5]), (i64, &[5]), (i64, count)]),
            Ok(())
        );
        assert_eq!(
            judged(&[(f32, &[0, 4]), (f32, &[0]), (i64, &[0]), (f32, count)]),
            Ok(())
        );
        assert_eq!(
            judged(&[
                (f32, &[1, 5, 4]),
                (f32, &[1, 5]),
                (f32, &[1, 5, 1]),
                (f32, count)
            ]),
            Ok(())
        );
    }
    #[rustfmt::skip]
    let cases: [([Shape<'_>; 4], &str); 3] = [
        ([(f32, &[5, 4]), (f32, &[6]), (i64, &[5]), (i64, &[])], "output `s`: found float32 [6] for each image, expected float32 [5]"),
        ([(f32, &[4, 5, 4]), (f32, &[4, 5]), (i64, &[4, 5]), (i64, &[4])], "output `b`: found [4, 5, 4] in a run, expected [1, …]; export"),
        ([(f32, &[1, 5, 4]), (f32, &[5]), (i64, &[1, 5]), (i64, &[1])], "output `s`: found [5] in a run, expected [1, …]"),
    ];
    for (shapes, wanted) in cases {
        let error = judged(&shapes).expect_err(wanted);
        assert!(error.contains(wanted), "{error}\ninstead of\n{wanted}");
    }
    let half = TensorInfo {
        tensor: Some((Element::Other("f16".to_owned()), vec![-1])),
        ..named("s", &[])
    };
    let outputs = [
        outputs[0].clone(),
        half,
        outputs[2].clone(),
        outputs[3].clone(),
    ];
    let error = check_signature(&spec, path, &inputs, &outputs).expect_err("half");
    let wanted = "output `s`: found f16 [N], expected float32, int32 or int64 [1 or N, …]; export the network with float32";
    assert!(error.to_string().contains(wanted), "{error}");
}
