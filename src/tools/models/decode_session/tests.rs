// SPDX-License-Identifier: Apache-2.0
//! Tests of the protocol, on the shipped network.

use std::io::Cursor;

use super::*;

/// The shipped network: layout fcos, one grid of stride 8 to 32.
fn spec() -> ModelSpec {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/street-nano");
    ModelSpec::load(&folder).expect("our model")
}

/// Axes of each output of the shipped network in its order, and its number of elements.
fn axes(spec: &ModelSpec) -> Vec<Vec<usize>> {
    let (width, height) = (
        spec.input.size.width as usize,
        spec.input.size.height as usize,
    );
    let grids = spec.output.tensors.len() / 2;
    (0..2 * grids)
        .map(|place| {
            let stride = 8 << (place % grids);
            let channels = if place < grids { spec.labels.len() } else { 4 };
            vec![1, channels, height / stride, width / stride]
        })
        .collect()
}

/// A request with one cell of the first grid at score 0.75, and every distance at 1 stride.
fn request(spec: &ModelSpec, candidates: bool) -> Vec<u8> {
    let axes = axes(spec);
    let grids = axes.len() / 2;
    let tensors: Vec<String> = axes
        .iter()
        .map(|shape| format!("{{\"element\":\"float32\",\"shape\":{shape:?}}}"))
        .collect();
    let mut bytes = format!(
        "{{\"image\":[{},{}],\"tensors\":[{}],\"score_threshold\":0.5,\"nms_iou\":0.5,\"max_detections\":10,\
         \"candidates\":{candidates}}}\n",
        2 * spec.input.size.width,
        2 * spec.input.size.height,
        tensors.join(",")
    )
    .into_bytes();
    for (place, shape) in axes.iter().enumerate() {
        let len: usize = shape.iter().product();
        let mut numbers = vec![if place < grids { 0.0_f32 } else { 1.0 }; len];
        if place == 0 {
            // Row 1, column 2.
            numbers[shape[3] + 2] = 0.75;
        }
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
    bytes
}

/// Lines and records of the replies.
fn serve(spec: &ModelSpec, input: Vec<u8>) -> (Vec<serde_json::Value>, Vec<Vec<u8>>) {
    let mut output = Vec::new();
    serve_decoding(spec, Cursor::new(input), &mut output).expect("it serves");
    let (mut lines, mut records, mut rest) = (Vec::new(), Vec::new(), output.as_slice());
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line: serde_json::Value = serde_json::from_slice(&rest[..end]).expect("a line of JSON");
        let count = line["count"].as_u64().unwrap_or(0) as usize;
        let (reply, after) = rest[end + 1..].split_at(count * RECORD_LEN);
        rest = after;
        lines.push(line);
        records.push(reply.to_vec());
    }
    (lines, records)
}

fn float(record: &[u8], place: usize) -> f32 {
    let bytes = record[4 * place..4 * place + 4]
        .try_into()
        .expect("four bytes");
    f32::from_le_bytes(bytes)
}

#[test]
fn detections_are_in_source_pixels_and_candidates_in_input_pixels() {
    let spec = spec();
    let input = [request(&spec, false), request(&spec, true)].concat();
    let (lines, records) = serve(&spec, input);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(
        lines[0]["outputs"].as_array().map(Vec::len),
        Some(spec.output.tensors.len())
    );
    assert_eq!(
        lines[0]["labels"].as_array().map(Vec::len),
        Some(spec.labels.len())
    );
    assert_eq!(
        (lines[1]["count"].as_u64(), lines[1]["cells"].as_bool()),
        (Some(1), Some(true))
    );
    let stride = 8.0;
    let input_box = [1.5, 0.5, 3.5, 2.5].map(|side| side * stride);
    let (found, raw) = (&records[1], &records[2]);
    assert_eq!((float(found, 2), float(raw, 2)), (0.75, 0.75));
    for (side, wanted) in input_box.iter().enumerate() {
        assert_eq!(float(raw, 3 + side), *wanted);
        // The image is twice as large as the input.
        assert_eq!(float(found, 3 + side), 2.0 * wanted);
    }
    let cell = spec.input.size.width / 8 + 2;
    assert_eq!(raw[..4], cell.to_le_bytes());
    assert_eq!(found[..4], NO_CELL.to_le_bytes());
}

#[test]
fn tensors_that_do_not_fit_are_reported_and_the_session_goes_on() {
    let spec = spec();
    let wrong = "{\"image\":[64,64],\"tensors\":[],\"score_threshold\":0.5,\"nms_iou\":0.5,\"max_detections\":1,\
                 \"candidates\":false}\n";
    let input = [wrong.as_bytes().to_vec(), request(&spec, false)].concat();
    let (lines, _) = serve(&spec, input);
    let error = lines[1]["error"].as_str().expect("an error");
    assert!(error.starts_with("found 0 tensors, expected"), "{error}");
    assert_eq!(lines[2]["count"], 1);
}

#[test]
fn broken_requests_end_the_session() {
    let spec = spec();
    let mut cut = request(&spec, true);
    cut.truncate(cut.len() - 1);
    for (input, expected) in [
        (b"guess\n".to_vec(), "expected a request in JSON"),
        (cut, "ended after"),
    ] {
        let error =
            serve_decoding(&spec, Cursor::new(input), Vec::new()).expect_err("it is no request");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
}

/// Boxes, scores and classes of a network that finds a number of objects that varies, as torchvision exports it.
#[test]
fn rows_of_objects_need_no_batch_axis() {
    let text = format!(
        "name: n\n\
         input: {{name: i, width: 64, height: 32, color: rgb, letterbox: {{value: 0, placement: top_left}}}}\n\
         output: {{layout: finished, tensors: {{boxes: b, scores: s, classes: c}}, first_class: 1}}\n\
         labels: [person, car]\n\
         license: {{spdx: Apache-2.0, source: made by the test}}\n\
         files: {{fp32: {{file: n.onnx, sha256: {}}}}}\n",
        "aa".repeat(32)
    );
    let spec = ModelSpec::from_text(Path::new("m"), &text, |_| unreachable!("no other file"));
    let spec = spec.expect("it is right");
    let request = |batch: &str| {
        let tensor =
            |element: &str, shape: &str| format!("{{\"element\":\"{element}\",\"shape\":{shape}}}");
        let tensors = [
            tensor("float32", &format!("[{batch}1,4]")),
            tensor("float32", &format!("[{batch}1]")),
            tensor("int64", &format!("[{batch}1]")),
        ];
        let mut bytes = format!(
            "{{\"image\":[64,32],\"tensors\":[{}],\"score_threshold\":0.5,\"nms_iou\":0.5,\"max_detections\":10,\
             \"candidates\":true}}\n",
            tensors.join(",")
        )
        .into_bytes();
        let numbers = [8.0_f32, 4.0, 16.0, 12.0, 0.75];
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(2_i64.to_le_bytes());
        bytes
    };
    let (lines, records) = serve(&spec, [request(""), request("1,")].concat());
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, record) in lines[1..].iter().zip(&records[1..]) {
        assert_eq!(
            (line["count"].as_u64(), line["cells"].as_bool()),
            (Some(1), Some(false))
        );
        assert_eq!(record[4..8], 1_u32.to_le_bytes());
        let numbers: Vec<f32> = (2..7).map(|place| float(record, place)).collect();
        assert_eq!(numbers, [0.75, 8.0, 4.0, 16.0, 12.0]);
    }
}
