// SPDX-License-Identifier: Apache-2.0
//! Every decoder, from the keys of `model.yaml` to the candidates, against the independent numpy references of `tests/reference`, and
//! what holds for each of them: the threshold, the filter of classes, and the report of invalid numbers.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::decoders::{
    BoxedDecoder, DType, DecodeDiagnostics, ElementIndex, NetworkShape, TensorShape, TensorView,
};
use crate::model::ModelSpec;
use crate::{Candidate, ClassFilter, nms};

/// What the numbers are from which scores and classes come.
#[derive(Clone, Copy, PartialEq)]
enum Scores {
    /// 0 to 1; others are reported.
    Probabilities,
    /// 0 to 1, of which two are multiplied; negative ones do not pass.
    Products,
    /// Any, or beside classes that are floats.
    Any,
}

use Scores::{Any, Probabilities, Products};

/// A test for each file of `tests/golden/layouts`: the scores of its networks, and whether their boxes have to be suppressed.
macro_rules! references {
    ($($name:ident: $scores:expr, $needs_suppression:expr;)*) => {
        $(#[test]
        fn $name() {
            check_file(stringify!($name), $scores, $needs_suppression);
        })*
    };
}

references! {
    darknet: Probabilities, true;
    detectnet_v2: Probabilities, true;
    detr: Any, false;
    fastestdet: Probabilities, true;
    fcos: Probabilities, true;
    gfl: Probabilities, true;
    parts_with_count: Any, false;
    rows_of_six: Any, false;
    ssd: Any, true;
    yolov3_grids: Any, true;
    yolov4_anchors: Any, true;
    yolov4_grids: Any, true;
    yolov5: Products, true;
    yolov8: Probabilities, true;
    yolox_grids: Products, true;
}

fn number(value: &Value) -> f32 {
    value.as_f64().expect("a number") as f32
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a whole number")).expect("it fits")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

/// The golden file of this name in `tests/golden`.
fn golden(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden");
    let text = fs::read_to_string(folder.join(format!("{name}.json")));
    serde_json::from_str(&text.expect("the golden file is there")).expect("it is JSON")
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

    fn len(&self) -> usize {
        match self {
            Self::F32(numbers) => numbers.len(),
            Self::I32(numbers) => numbers.len(),
            Self::I64(numbers) => numbers.len(),
        }
    }

    /// Numbers that no network gives.
    fn bad(&self) -> &'static [f32] {
        match self {
            Self::F32(_) => &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 7.0, -7.0],
            Self::I32(_) | Self::I64(_) => &[-1.0, 9999.0],
        }
    }

    /// Writes `to` at `index`, and returns what was there.
    fn replace(&mut self, index: usize, to: f32) -> f32 {
        match self {
            Self::F32(numbers) => std::mem::replace(&mut numbers[index], to),
            Self::I32(numbers) => std::mem::replace(&mut numbers[index], to as i32) as f32,
            Self::I64(numbers) => std::mem::replace(&mut numbers[index], to as i64) as f32,
        }
    }
}

/// A network's output, its decoder, and what the reference decodes.
struct Case<'a> {
    name: String,
    decoder: BoxedDecoder,
    tensors: Vec<Numbers>,
    threshold: f32,
    labels: Vec<String>,
    reference: &'a Value,
}

impl<'a> Case<'a> {
    /// With the input and the classes of `case`, and the keys `output` of `model.yaml`.
    fn new(name: String, case: &'a Value, output: &str, tensors: &[Value]) -> Self {
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
        let spec = ModelSpec::from_text(Path::new("m"), &text, no_file).expect(&name);
        let axes = |tensor: &Value| list(&tensor["axes"]).map(count).collect();
        let axes: Vec<Vec<usize>> = tensors.iter().map(axes).collect();
        let tensors: Vec<Numbers> = tensors.iter().map(Numbers::new).collect();
        let shapes = tensors.iter().zip(&axes);
        let shapes: Vec<_> = shapes
            .map(|(numbers, axes)| TensorShape {
                element: numbers.element(),
                axes,
            })
            .collect();
        let network = NetworkShape::new(spec.input.size, labels.len(), &shapes);
        let decoder = spec.output.layout.create_decoder(&network).expect(&name);
        Self {
            name,
            decoder,
            tensors,
            threshold: number(&case["threshold"]),
            labels,
            reference: &case["candidates"],
        }
    }

    /// Candidates of the classes `kept`, or of all classes.
    fn decode(&self, threshold: f32, kept: &[String]) -> (Vec<Candidate>, DecodeDiagnostics) {
        let filter = ClassFilter::new(&self.labels, kept).expect("they are known");
        let tensors: Vec<_> = self.tensors.iter().map(Numbers::view).collect();
        let mut candidates = Vec::new();
        let decoder = &self.decoder;
        let decoded = decoder.decode(&tensors, threshold, &filter, &mut candidates);
        (candidates, decoded)
    }

    /// All candidates, which are those of the reference: same cells and classes in the same order, scores and boxes within the rounding
    /// of 32-bit floats.
    fn compare(&self) -> Vec<Candidate> {
        let name = &self.name;
        let (candidates, decoded) = self.decode(self.threshold, &[]);
        assert_eq!(decoded, DecodeDiagnostics::default(), "{name}");
        let wanted: Vec<&Value> = list(self.reference).collect();
        assert!(wanted.len() >= 5, "{name}");
        assert_eq!(candidates.len(), wanted.len(), "{name}");
        for (found, wanted) in candidates.iter().zip(wanted) {
            let place = (found.cell as usize, usize::from(found.class));
            assert_eq!(place, (count(&wanted[0]), count(&wanted[1])), "{name}");
            let near = (found.score - number(&wanted[2])).abs() < 2e-6;
            assert!(near, "{name}: {found:?} instead of {wanted}");
            for (edge, found) in found.xyxy.iter().enumerate() {
                let wanted = number(&wanted[3 + edge]);
                // Exponentials of 32-bit floats: a few units in the last place of what may be some thousand pixels.
                let near = (found - wanted).abs() < 1e-3 + wanted.abs() * 1e-5;
                assert!(near, "{name}, edge {edge}: {found} instead of {wanted}");
            }
        }
        candidates
    }

    /// A class is left out without its candidates, and the threshold is included.
    fn check_filter_and_threshold(&self, all: &[Candidate]) {
        let name = &self.name;
        for (class, label) in (0..).zip(&self.labels) {
            let (found, _) = self.decode(self.threshold, std::slice::from_ref(label));
            let wanted = all.iter().filter(|candidate| candidate.class == class);
            assert!(found.iter().eq(wanted), "{name}, only {label}: {found:?}");
        }
        for candidate in all.iter().filter(|candidate| candidate.score < 1.0) {
            let is_found = |threshold| self.decode(threshold, &[]).0.contains(candidate);
            let around = [candidate.score, candidate.score + 1e-6].map(is_found);
            assert_eq!(around, [true, false], "{name}: {candidate:?}");
        }
    }

    /// A bad number at any place is reported with it and costs its box, or changes nothing.
    fn check_bad_numbers(&mut self, all: &[Candidate], scores: Scores) {
        // A finite number may be right in a box, and a class of its own.
        let is_checked = |bad: f32| match scores {
            Probabilities => true,
            Products => bad != -7.0,
            Any => bad.abs() != 7.0,
        };
        for tensor in 0..self.tensors.len() {
            let bad = self.tensors[tensor].bad().iter().copied();
            for bad in bad.filter(|bad| is_checked(*bad)) {
                for index in 0..self.tensors[tensor].len() {
                    self.check_bad_number(all, tensor, index, bad);
                }
            }
        }
    }

    fn check_bad_number(&mut self, all: &[Candidate], tensor: usize, index: usize, bad: f32) {
        let at = format!("{}: {bad} in tensor {tensor} at {index}", self.name);
        let good = self.tensors[tensor].replace(index, bad);
        let (found, decoded) = self.decode(self.threshold, &[]);
        self.tensors[tensor].replace(index, good);
        let reports = [
            decoded.first_non_finite,
            decoded.first_beyond_one,
            decoded.first_unknown_class,
        ];
        let reports: Vec<ElementIndex> = reports.into_iter().flatten().collect();
        match reports[..] {
            // It belongs to a box.
            [] if bad.abs() == 7.0 => {
                let scored = |of: &Candidate| (of.cell, of.class, of.score);
                let is_same = found.iter().map(scored).eq(all.iter().map(scored));
                assert!(is_same, "{at}: a score that is not reported");
            }
            [] => assert!(found == all, "{at}: a number that is not reported"),
            [place] => {
                assert_eq!(place, ElementIndex { tensor, index }, "{at}");
                // Without a valid number of boxes none is known.
                let is_count = self.tensors[tensor].len() == 1;
                let left = if is_count { 0 } else { all.len() - 1 };
                assert!(found.len() >= left, "{at}: {} boxes", found.len());
                assert!(found.iter().all(|one| all.contains(one)), "{at}");
            }
            _ => panic!("{at}: {decoded:?}"),
        }
    }
}

/// The decoders of all cases of a file agree with their reference, and keep the rules.
fn check_file(name: &str, scores: Scores, needs_suppression: bool) {
    let golden = golden(&format!("layouts/{name}"));
    let cases: Vec<&Value> = match golden.get("cases") {
        Some(cases) => list(cases).collect(),
        None => vec![&golden],
    };
    assert!(!cases.is_empty(), "{name}");
    for (index, case) in cases.into_iter().enumerate() {
        let output = case["output"].as_str().expect("text");
        let tensors = case["tensors"].as_array().expect("a list");
        let mut case = Case::new(format!("{name}, case {index}"), case, output, tensors);
        let found = case.decoder.needs_suppression();
        assert_eq!(found, needs_suppression, "{}", case.name);
        let all = case.compare();
        case.check_filter_and_threshold(&all);
        case.check_bad_numbers(&all, scores);
    }
}

#[test]
fn decoding_and_suppression_of_yolox_agree_with_the_reference() {
    let golden = golden("yolox_decode");
    assert_eq!(list(&golden["cases"]).count(), 3);
    for (index, case) in list(&golden["cases"]).enumerate() {
        let row_len = 5 + count(&case["classes"]);
        let rows = list(&case["output"]).count() / row_len;
        let tensor = [json!({"axes": [rows, row_len], "numbers": case["output"]})];
        let name = format!("yolox, case {index}");
        let mut decoded = Case::new(name, case, "{layout: yolox, name: rows}", &tensor);
        let mut all = decoded.compare();
        decoded.check_filter_and_threshold(&all);
        decoded.check_bad_numbers(&all, Products);
        nms::non_max_suppression(&mut all, number(&case["iou"]), count(&case["most"]));
        let kept = all.iter().map(|candidate| candidate.cell as usize);
        assert!(kept.eq(list(&case["kept"]).map(count)), "case {index}");
    }
}
