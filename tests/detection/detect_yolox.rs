//! YOLOX decoding and suppression against an independent numpy reference: `tests/reference/yolox.py`.

use std::path::Path;

use jetwatch_detect::decoders::yolox::Yolox;
use jetwatch_detect::decoders::{DType, DecodeDiagnostics, OutputDecoder, TensorShape, TensorView};
use jetwatch_detect::{ClassFilter, nms};
use jetwatch_types::Size;
use serde_json::Value;

fn number(value: &Value) -> f32 {
    value.as_f64().expect("a number") as f32
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a whole number")).expect("it fits")
}

#[test]
fn decoding_and_suppression_agree_with_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/yolox_decode.json");
    let text = std::fs::read_to_string(path).expect("the golden file is there");
    let golden: Value = serde_json::from_str(&text).expect("it is JSON");
    let cases = golden["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let input = Size::new(count(&case["width"]) as u32, count(&case["height"]) as u32);
        let output: Vec<f32> = case["output"]
            .as_array()
            .expect("a list")
            .iter()
            .map(number)
            .collect();
        let classes = count(&case["classes"]);
        let shape = TensorShape {
            element: DType::F32,
            axes: &[output.len() / (5 + classes), 5 + classes],
        };
        let yolox = Yolox::new(input, classes, &[shape]).expect("the shape is right");
        let all = ClassFilter::new(&[], &[]).expect("nothing to look up");
        let mut candidates = Vec::new();
        let decoded = yolox.decode(
            &[TensorView::F32(&output)],
            number(&case["threshold"]),
            &all,
            &mut candidates,
        );
        assert_eq!(decoded, DecodeDiagnostics::default());

        let wanted = case["candidates"].as_array().expect("a list");
        assert_eq!(candidates.len(), wanted.len(), "{input}");
        for (found, wanted) in candidates.iter().zip(wanted) {
            let place = (found.cell as usize, usize::from(found.class));
            assert_eq!(place, (count(&wanted[0]), count(&wanted[1])), "{input}");
            assert!(
                (found.score - number(&wanted[2])).abs() < 2e-6,
                "{found:?} instead of {wanted}"
            );
            for (edge, found) in found.xyxy.iter().enumerate() {
                let wanted = number(&wanted[3 + edge]);
                assert!(
                    (found - wanted).abs() < 1e-3,
                    "edge {edge}: {found} instead of {wanted}"
                );
            }
        }

        nms::non_max_suppression(&mut candidates, number(&case["iou"]), count(&case["most"]));
        let kept: Vec<usize> = candidates
            .iter()
            .map(|candidate| candidate.cell as usize)
            .collect();
        let wanted: Vec<usize> = case["kept"]
            .as_array()
            .expect("a list")
            .iter()
            .map(count)
            .collect();
        assert_eq!(kept, wanted, "{input}");
    }
}
