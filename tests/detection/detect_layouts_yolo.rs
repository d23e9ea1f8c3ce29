// SPDX-License-Identifier: Apache-2.0
//! Output layouts against independent numpy references, `tests/reference/layouts_yolo.py` and `layouts_others.py`: from the keys of
//! `model.yaml` to the candidates. The YOLO families; [`agrees`] is for all.

use std::fs;
use std::path::Path;

use jetwatch_detect::decoders::{
    DType, DecodeDiagnostics, NetworkShape, OutputDecoder, TensorShape, TensorView,
};
use jetwatch_detect::model::ModelSpec;
use jetwatch_detect::{Candidate, ClassFilter};
use serde_json::Value;

pub(crate) fn number(value: &Value) -> f32 {
    value.as_f64().expect("a number") as f32
}

pub(crate) fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a whole number")).expect("it fits")
}

pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

/// The golden file of this name in `tests/golden`.
pub(crate) fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"));
    let text = fs::read_to_string(path).expect("the golden file is there");
    serde_json::from_str(&text).expect("it is JSON")
}

/// A `model.yaml` with the input and the classes of `case`, and this output.
fn described(case: &Value, output: &str) -> ModelSpec {
    let labels: Vec<String> = (0..count(&case["classes"]))
        .map(|class| format!("c{class}"))
        .collect();
    let text = format!(
        "name: reference\n\
         input: {{name: images, width: {}, height: {}, color: rgb, letterbox: {{value: 0, placement: center}}}}\n\
         output: {output}\n\
         labels: [{}]\n\
         license: {{spdx: Apache-2.0, source: made by the test}}\n\
         files: {{fp32: {{file: none.onnx, sha256: '{}'}}}}\n",
        case["width"],
        case["height"],
        labels.join(", "),
        "0".repeat(64),
    );
    let no_file = |_: &Path| unreachable!("no other file is named");
    ModelSpec::from_text(Path::new("m"), &text, no_file).expect("the description is right")
}

/// Numbers of one output.
enum Numbers {
    F32(Vec<f32>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Numbers {
    /// Floats, unless `tensor` has another type.
    fn new(tensor: &Value) -> Self {
        let numbers = &tensor["numbers"];
        let whole = |value: &Value| value.as_i64().expect("a whole number");
        match tensor["type"].as_str() {
            Some("i32") => Self::I32(list(numbers).map(|value| whole(value) as i32).collect()),
            Some("i64") => Self::I64(list(numbers).map(whole).collect()),
            _ => Self::F32(list(numbers).map(number).collect()),
        }
    }

    fn element(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::I32(_) => DType::I32,
            Self::I64(_) => DType::I64,
        }
    }

    fn view(&self) -> TensorView<'_> {
        match self {
            Self::F32(numbers) => TensorView::F32(numbers),
            Self::I32(numbers) => TensorView::I32(numbers),
            Self::I64(numbers) => TensorView::I64(numbers),
        }
    }
}

/// Candidates of `case` with this output and these tensors, compared with those of the reference: same cells and classes in the same
/// order, scores and boxes within the rounding of 32-bit floats.
pub(crate) fn check_case(
    at: &str,
    case: &Value,
    output: &str,
    tensors: &[Value],
) -> (Box<dyn OutputDecoder>, Vec<Candidate>) {
    let spec = described(case, output);
    let axes: Vec<Vec<usize>> = tensors
        .iter()
        .map(|tensor| list(&tensor["axes"]).map(count).collect())
        .collect();
    let numbers: Vec<Numbers> = tensors.iter().map(Numbers::new).collect();
    let views: Vec<_> = numbers.iter().map(Numbers::view).collect();
    let shapes: Vec<_> = numbers
        .iter()
        .zip(&axes)
        .map(|(numbers, axes)| TensorShape {
            element: numbers.element(),
            axes,
        })
        .collect();
    let decoder = spec
        .output
        .layout
        .create_decoder(&NetworkShape::new(
            spec.input.size,
            spec.labels.len(),
            &shapes,
        ))
        .unwrap_or_else(|mismatch| panic!("{at}: {mismatch:?}"));
    let all = ClassFilter::new(&[], &[]).expect("nothing to look up");
    let mut candidates = Vec::new();
    let decoded = decoder.decode(&views, number(&case["threshold"]), &all, &mut candidates);
    assert_eq!(decoded, DecodeDiagnostics::default(), "{at}");

    let wanted: Vec<&Value> = list(&case["candidates"]).collect();
    assert!(wanted.len() >= 5, "{at}");
    assert_eq!(candidates.len(), wanted.len(), "{at}");
    for (found, wanted) in candidates.iter().zip(wanted) {
        let place = (found.cell as usize, usize::from(found.class));
        assert_eq!(place, (count(&wanted[0]), count(&wanted[1])), "{at}");
        let near = (found.score - number(&wanted[2])).abs() < 2e-6;
        assert!(near, "{at}: {found:?} instead of {wanted}");
        for (edge, found) in found.xyxy.iter().enumerate() {
            let wanted = number(&wanted[3 + edge]);
            // Exponentials of 32-bit floats: a few units in the last place of what may be some thousand pixels.
            let near = (found - wanted).abs() < 1e-3 + wanted.abs() * 1e-5;
            assert!(near, "{at}, edge {edge}: {found} instead of {wanted}");
        }
    }
    (decoder, candidates)
}

/// Every case of `tests/golden/layouts/NAME.json` agrees with its reference.
pub(crate) fn agrees(name: &str, needs_suppression: bool) {
    let golden = golden(&format!("layouts/{name}"));
    let cases = match golden.get("cases") {
        Some(cases) => list(cases).collect(),
        None => vec![&golden],
    };
    assert!(!cases.is_empty());
    for (index, case) in cases.into_iter().enumerate() {
        let at = format!("{name}, case {index}");
        let output = case["output"].as_str().expect("text");
        let tensors = case["tensors"].as_array().expect("a list");
        let (decoder, _) = check_case(&at, case, output, tensors);
        assert_eq!(decoder.needs_suppression(), needs_suppression, "{at}");
    }
}

#[test]
fn layouts_of_the_yolo_families_agree_with_the_reference() {
    for name in [
        "yolox_grids",
        "yolov5",
        "yolov8",
        "darknet",
        "yolov3_grids",
        "yolov4_grids",
        "yolov4_anchors",
    ] {
        agrees(name, true);
    }
}
