//! The output layouts that are not of the YOLO family against an independent numpy reference:
//! `tests/reference/layouts_others.py`.

use std::path::Path;

use jetwatch_detect::ClassFilter;
use jetwatch_detect::decoders::boxes::BoxUnit;
use jetwatch_detect::decoders::detectnet_v2::{DetectNetParameters, DetectNetV2};
use jetwatch_detect::decoders::detr::{Detr, DetrActivation, DetrParameters};
use jetwatch_detect::decoders::fastestdet::FastestDet;
use jetwatch_detect::decoders::fcos::{Fcos, FcosParameters, FcosScore};
use jetwatch_detect::decoders::gfl::{CellCenter, Gfl, GflParameters, GflTensors};
use jetwatch_detect::decoders::nms_plugin::{NmsPlugin, NmsPluginParameters, SuppressedBoxes};
use jetwatch_detect::decoders::picodet_nms::PicoDetNms;
use jetwatch_detect::decoders::ssd::{Ssd, SsdActivation, SsdBackground, SsdBoxes, SsdParameters};
use jetwatch_detect::decoders::ssd_anchors::{AnchorGrid, AnchorLimit, generate};
use jetwatch_detect::decoders::{
    DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView,
};
use jetwatch_types::Size;
use serde_json::Value;

/// Candidates of every case agree with the reference: same cells and classes in the same order, scores and boxes within
/// the rounding of 32-bit floats. `make` returns the decoder for the case's parameters, input size, classes and shapes.
fn check<H: OutputDecoder>(
    layout: &str,
    make: impl Fn(&Value, Size, usize, &[TensorShape<'_>]) -> Result<H, Mismatch>,
) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/layouts")
        .join(layout)
        .with_extension("json");
    let text = std::fs::read_to_string(path).expect("the golden file is there");
    let golden: Value = serde_json::from_str(&text).expect("it is JSON");
    let cases = list(&golden["cases"]);
    assert!(!cases.is_empty());
    for (number, case) in cases.iter().enumerate() {
        let at = format!("{layout}, case {number}");
        let tensors: Vec<Tensor> = list(&case["tensors"]).iter().map(Tensor::new).collect();
        let shapes: Vec<_> = tensors.iter().map(Tensor::shape).collect();
        let numbers: Vec<_> = tensors.iter().map(Tensor::numbers).collect();
        let input = Size::new(
            count(&case["input"][0]) as u32,
            count(&case["input"][1]) as u32,
        );
        let classes = count(&case["classes"]);
        let head = make(&case["parameters"], input, classes, &shapes)
            .unwrap_or_else(|mismatch| panic!("{at}: {mismatch:?}"));

        let all = ClassFilter::new(&[], &[]).expect("nothing to look up");
        let mut candidates = Vec::new();
        let decoded = head.decode(
            &numbers,
            number_of(&case["threshold"]),
            &all,
            &mut candidates,
        );
        assert_eq!(decoded, DecodeDiagnostics::default(), "{at}");
        let wanted = list(&case["candidates"]);
        assert_eq!(candidates.len(), wanted.len(), "{at}");
        for (found, wanted) in candidates.iter().zip(wanted) {
            let place = (found.cell as usize, usize::from(found.class));
            assert_eq!(place, (count(&wanted[0]), count(&wanted[1])), "{at}");
            assert!(
                (found.score - number_of(&wanted[2])).abs() < 2e-6,
                "{at}: {found:?} instead of {wanted}"
            );
            for (edge, found) in found.xyxy.iter().enumerate() {
                let wanted = number_of(&wanted[3 + edge]);
                assert!(
                    (found - wanted).abs() < 1e-3,
                    "{at}, edge {edge}: {found} instead of {wanted}"
                );
            }
        }
    }
}

/// One output of the golden file.
struct Tensor {
    axes: Vec<usize>,
    values: Values,
}

enum Values {
    F32(Vec<f32>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Tensor {
    fn new(value: &Value) -> Self {
        let numbers = list(&value["numbers"]);
        let whole = |value: &Value| value.as_i64().expect("a whole number");
        let values = match value["type"].as_str() {
            Some("f32") => Values::F32(numbers.iter().map(number_of).collect()),
            Some("i32") => Values::I32(
                numbers
                    .iter()
                    .map(|value| i32::try_from(whole(value)).expect("it fits"))
                    .collect(),
            ),
            Some("i64") => Values::I64(numbers.iter().map(whole).collect()),
            other => panic!("elements of type {other:?}"),
        };
        Self {
            axes: list(&value["axes"]).iter().map(count).collect(),
            values,
        }
    }

    fn shape(&self) -> TensorShape<'_> {
        let element = match self.values {
            Values::F32(_) => DType::F32,
            Values::I32(_) => DType::I32,
            Values::I64(_) => DType::I64,
        };
        TensorShape {
            element,
            axes: &self.axes,
        }
    }

    fn numbers(&self) -> TensorView<'_> {
        match &self.values {
            Values::F32(values) => TensorView::F32(values),
            Values::I32(values) => TensorView::I32(values),
            Values::I64(values) => TensorView::I64(values),
        }
    }
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn number_of(value: &Value) -> f32 {
    value.as_f64().expect("a number") as f32
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a whole number")).expect("it fits")
}

fn word(value: &Value) -> &str {
    value.as_str().expect("a word")
}

fn unit(value: &Value) -> BoxUnit {
    match word(value) {
        "pixels" => BoxUnit::Pixels,
        "normalized" => BoxUnit::Normalized,
        other => panic!("a unit called {other}"),
    }
}

fn flag(value: &Value) -> bool {
    value.as_bool().expect("true or false")
}

#[test]
fn fcos_agrees_with_the_reference() {
    check("fcos", |parameters, input, classes, shapes| {
        let parameters = FcosParameters {
            grids: count(&parameters["grids"]),
            score: if flag(&parameters["centerness"]) {
                FcosScore::Centerness
            } else {
                FcosScore::Class
            },
        };
        Fcos::new(&parameters, input, classes, shapes)
    });
}

#[test]
fn detr_agrees_with_the_reference() {
    check("detr", |parameters, input, classes, shapes| {
        let parameters = match word(&parameters["kind"]) {
            "sigmoid" => DetrParameters::Queries {
                activation: DetrActivation::Sigmoid,
            },
            "none" => DetrParameters::Queries {
                activation: DetrActivation::None,
            },
            "joined" => DetrParameters::Joined,
            "ranked" => DetrParameters::Ranked,
            other => panic!("a kind called {other}"),
        };
        Detr::new(&parameters, input, classes, shapes)
    });
}

#[test]
fn boxes_of_suppression_plug_ins_agree_with_the_reference() {
    check("nms_plugin", |parameters, input, classes, shapes| {
        let parameters = NmsPluginParameters {
            plugin: match word(&parameters["plugin"]) {
                "efficient" => NmsPlugin::Efficient,
                "batched" => NmsPlugin::Batched,
                other => panic!("a plug-in called {other}"),
            },
            box_unit: unit(&parameters["boxes_are"]),
        };
        SuppressedBoxes::new(&parameters, input, classes, shapes)
    });
}

#[test]
fn nanodet_and_picodet_agree_with_the_reference() {
    check("gfl", |parameters, input, classes, shapes| {
        let parameters = GflParameters {
            tensors: match count(&parameters["grids"]) {
                0 => GflTensors::Joined,
                grids => GflTensors::Separate { grids },
            },
            reg_max: count(&parameters["reg_max"]),
            center: if flag(&parameters["middle"]) {
                CellCenter::Middle
            } else {
                CellCenter::Corner
            },
        };
        Gfl::new(&parameters, input, classes, shapes)
    });
}

#[test]
fn finished_boxes_of_picodet_agree_with_the_reference() {
    check("rows_of_six", |_, input, classes, shapes| {
        PicoDetNms::new(input, classes, shapes)
    });
}

#[test]
fn detectnet_v2_agrees_with_the_reference() {
    check("detectnet_v2", |parameters, input, classes, shapes| {
        let parameters = DetectNetParameters {
            box_norm: number_of(&parameters["box_norm"]),
            offset: number_of(&parameters["offset"]),
        };
        DetectNetV2::new(&parameters, input, classes, shapes)
    });
}

#[test]
fn fastestdet_agrees_with_the_reference() {
    check("fastestdet", |_, input, classes, shapes| {
        FastestDet::new(input, classes, shapes)
    });
}

#[test]
fn ssd_agrees_with_the_reference() {
    check("ssd", |parameters, input, classes, shapes| {
        let grids: Vec<_> = list(&parameters["grids"])
            .iter()
            .map(|grid| AnchorGrid {
                columns: count(&grid["columns"]),
                rows: count(&grid["rows"]),
                step: (!grid["step"].is_null())
                    .then(|| [0, 1].map(|i| number_of(&grid["step"][i]))),
                scale: number_of(&grid["scale"]),
                next_scale: number_of(&grid["next_scale"]),
                ratios: list(&grid["ratios"]).iter().map(number_of).collect(),
            })
            .collect();
        let limit = if flag(&parameters["cut"]) {
            AnchorLimit::Input
        } else {
            AnchorLimit::None
        };
        let boxes = if grids.is_empty() {
            SsdBoxes::Decoded(unit(&parameters["unit"]))
        } else {
            SsdBoxes::Deltas {
                anchors: generate(&grids, limit),
                variances: [0, 1, 2, 3].map(|i| number_of(&parameters["variances"][i])),
            }
        };
        let parameters = SsdParameters {
            boxes,
            background: match word(&parameters["background"]) {
                "first" => SsdBackground::First,
                "last" => SsdBackground::Last,
                "none" => SsdBackground::None,
                other => panic!("a background called {other}"),
            },
            activation: match word(&parameters["activation"]) {
                "softmax" => SsdActivation::Softmax,
                "sigmoid" => SsdActivation::Sigmoid,
                "none" => SsdActivation::None,
                other => panic!("an activation called {other}"),
            },
        };
        Ssd::new(&parameters, input, classes, shapes)
    });
}
