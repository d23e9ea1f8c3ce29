//! The output layouts of the YOLO families against an independent numpy reference, `tests/reference/layouts_yolo.py`: from
//! the keys of `model.yaml` to the candidates.

use std::fs;
use std::path::Path;

use jetwatch_detect::ClassFilter;
use jetwatch_detect::decoders::{DType, DecodeDiagnostics, TensorShape, TensorView};
use jetwatch_detect::model::ModelSpec;
use serde_json::Value;

fn number(value: &Value) -> f32 {
    value.as_f64().expect("a number") as f32
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a whole number")).expect("it fits")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

/// A `model.yaml` with the input, the classes and the output of `case`.
fn described(case: &Value) -> ModelSpec {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let labels: Vec<String> = (0..count(&case["classes"]))
        .map(|class| format!("c{class}"))
        .collect();
    let text = format!(
        "name: reference\n\
         input: {{name: images, width: {}, height: {}, color: rgb, letterbox: {{value: 0, placement: center}}}}\n\
         output: {}\n\
         labels: [{}]\n\
         license: {{spdx: Apache-2.0, source: made by the test}}\n\
         files: {{fp32: {{file: none.onnx, sha256: '{}'}}}}\n",
        case["width"],
        case["height"],
        case["output"].as_str().expect("text"),
        labels.join(", "),
        "0".repeat(64),
    );
    fs::write(folder.path().join("model.yaml"), text).expect("written");
    ModelSpec::load(folder.path()).expect("the description is right")
}

fn agrees(name: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/layouts/{name}.json"));
    let text = fs::read_to_string(path).expect("the golden file is there");
    let case: Value = serde_json::from_str(&text).expect("it is JSON");
    let spec = described(&case);

    let axes: Vec<Vec<usize>> = list(&case["tensors"])
        .map(|tensor| list(&tensor["axes"]).map(count).collect())
        .collect();
    let floats: Vec<Vec<f32>> = list(&case["tensors"])
        .map(|tensor| list(&tensor["numbers"]).map(number).collect())
        .collect();
    let element = DType::F32;
    let shapes: Vec<TensorShape<'_>> = axes
        .iter()
        .map(|axes| TensorShape { element, axes })
        .collect();
    let tensors: Vec<TensorView<'_>> = floats
        .iter()
        .map(|floats| TensorView::F32(floats))
        .collect();
    let head = spec
        .output
        .layout
        .create_decoder(spec.input.size, spec.labels.len(), &shapes)
        .expect("the tensors are those of the layout");
    let all = ClassFilter::new(&[], &[]).expect("nothing to look up");
    let mut candidates = Vec::new();
    let decoded = head.decode(&tensors, number(&case["threshold"]), &all, &mut candidates);
    assert_eq!(decoded, DecodeDiagnostics::default());
    assert!(head.needs_suppression());

    let wanted: Vec<&Value> = list(&case["candidates"]).collect();
    assert!(wanted.len() >= 8);
    assert_eq!(candidates.len(), wanted.len());
    for (found, wanted) in candidates.iter().zip(wanted) {
        let place = (found.cell as usize, usize::from(found.class));
        assert_eq!(place, (count(&wanted[0]), count(&wanted[1])));
        let score = number(&wanted[2]);
        assert!(
            (found.score - score).abs() < 2e-6,
            "{found:?} instead of {wanted}"
        );
        for (edge, found) in found.xyxy.iter().enumerate() {
            let wanted = number(&wanted[3 + edge]);
            // Exponentials of 32-bit floats: a few units in the last place of what may be some thousand pixels.
            let near = (found - wanted).abs() < 1e-3 + wanted.abs() * 1e-5;
            assert!(near, "edge {edge}: {found} instead of {wanted}");
        }
    }
}

#[test]
fn yolox_with_a_tensor_for_each_grid() {
    agrees("yolox_grids");
}

#[test]
fn yolov5_rows() {
    agrees("yolov5");
}

#[test]
fn yolov8_planes() {
    agrees("yolov8");
}

#[test]
fn darknet_boxes_and_scores() {
    agrees("darknet");
}

#[test]
fn yolov3_tiny_grids() {
    agrees("yolov3_grids");
}

#[test]
fn yolov4_tiny_grids() {
    agrees("yolov4_grids");
}

#[test]
fn yolov4_grids_with_their_own_anchors() {
    agrees("yolov4_anchors");
}
