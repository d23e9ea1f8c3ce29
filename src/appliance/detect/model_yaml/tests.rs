// SPDX-License-Identifier: Apache-2.0
//! Tests of the keys of `model.yaml`: what is read, what may be left out, and how each mistake is told.

use super::*;
use crate::layouts::{OutputSpec, yolox::YoloxForm};
use crate::model::{ColorOrder, ModelError};
use jetwatch_types::Placement;

/// A description with every key, of which the tests change one thing at a time.
pub(crate) const FULL: &str = "\
name: tiny
input:
  name: images
  width: 96
  height: 64
  color: rgb
  layout: nchw
  type: float32
  mean: [123.7, 116.3, 103.5]
  scale: 0.017
  letterbox: {value: 114, placement: center}
output: {layout: yolox, name: output}
labels: [person, car]
score_threshold: 0.25
nms_iou: 0.5
max_detections: 50
license: {spdx: Apache-2.0, source: https://example.org/tiny}
files:
  int8: {file: tiny_int8.onnx, sha256: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}
  fp32: {file: sub/tiny.onnx, sha256: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb}
";

/// What the description `text` says. A labels file holds its own name and `dog`; a list of anchors that is called `# ANCHOR`
/// holds this anchor.
pub(crate) fn parse(text: &str) -> Result<ModelSpec, ModelError> {
    ModelSpec::from_text(Path::new("models/tiny"), text, |path| {
        let name = path.display().to_string();
        Ok(match name.strip_prefix("# ") {
            Some(anchor) => anchor.to_owned(),
            None => format!("{name}\n\n dog \n"),
        })
    })
}

#[test]
fn class_aliases_of_other_label_sets_match() {
    let spec = parse(&format!("{FULL}covers: {{car: [bus, truck]}}\n")).expect("it is right");
    let classes = ["person", "car", "truck", "boat"].map(|name| spec.class_index(name));
    assert_eq!(classes, [Some(0), Some(1), Some(1), None]);
}

#[test]
fn labels_cover_their_other_names_unless_another_class_has_them() {
    let covers = |labels: &str, more: &str| {
        let text = FULL.replace("labels: [person, car]", &format!("labels: {labels}"));
        parse(&format!("{text}{more}")).expect("it is right").covers
    };
    let covered = |class, name: &str| (class, name.to_owned());
    assert_eq!(covers("[person, sofa]", ""), [covered(1, "couch")]);
    assert_eq!(covers("[tv, person]", ""), [covered(0, "tvmonitor")]);
    assert_eq!(covers("[sofa, couch]", ""), []);
    let found = covers("[sofa, seat]", "covers: {seat: [couch]}\n");
    assert_eq!(found, [covered(1, "couch")]);
}

#[test]
fn full_model_yaml_is_parsed() {
    let spec = parse(FULL).expect("it is right");
    assert_eq!(spec.name, "tiny");
    assert_eq!(
        spec.input,
        InputSpec {
            name: "images".to_owned(),
            element: InputElement::Float32,
            sizes_name: None,
            scales_name: None,
            size: Size::new(96, 64),
            color: ColorOrder::Rgb,
            mean: [123.7, 116.3, 103.5],
            scale: [0.017; 3],
            placement: Placement::Center,
            padding: 114,
        }
    );
    assert_eq!(
        spec.output,
        OutputSpec {
            tensors: vec!["output".to_owned()],
            layout: std::sync::Arc::new(YoloxForm::Rows)
        }
    );
    assert_eq!(spec.labels, ["person", "car"]);
    let found = (spec.score_threshold, spec.nms_iou, spec.max_detections);
    assert_eq!(found, (0.25, 0.5, 50));
    assert_eq!(spec.license.spdx, "Apache-2.0");
    let files: Vec<_> = spec
        .files
        .iter()
        .map(|file| (file.precision.as_str(), file.path.as_path()))
        .collect();
    let wanted = [
        ("int8", Path::new("models/tiny/tiny_int8.onnx")),
        ("fp32", Path::new("models/tiny/sub/tiny.onnx")),
    ];
    assert_eq!(files, wanted, "the order of the file is kept");
    let found = spec.files[0].sha256.to_string();
    assert_eq!(found, "a".repeat(64), "digits are compared in lower case");
}

#[test]
fn optional_model_keys_have_defaults() {
    let mut text = FULL.to_owned();
    for key in [
        "  layout: nchw",
        "  type: ",
        "  mean: ",
        "  scale: ",
        "score_threshold",
        "nms_iou",
        "max_det",
    ] {
        text = text
            .lines()
            .filter(|line| !line.starts_with(key))
            .map(|line| format!("{line}\n"))
            .collect();
    }
    let text = text.replace("labels: [person, car]", "labels_file: names.txt");
    let spec = parse(&text).expect("it is right");
    assert_eq!((spec.input.mean, spec.input.scale), ([0.0; 3], [1.0; 3]));
    let found = (spec.score_threshold, spec.nms_iou, spec.max_detections);
    assert_eq!(found, (0.3, 0.45, 300));
    let wanted = ["names.txt", "dog"];
    assert_eq!(spec.labels, wanted, "one name a line, blank lines skipped");
}

#[test]
fn invalid_model_values_are_reported_with_line_and_key() {
    #[rustfmt::skip]
    let cases = [
        ("name: tiny", "name: 5", "model.yaml:1: name: found 5, expected the model's name"),
        ("name: tiny", "nam: tiny", "model.yaml:1: nam: unknown key; did you mean `name`?"),
        ("name: tiny", "name: '  '", "model.yaml:1: name: found \"  \", expected the model's name"),
        ("name: tiny", "name: tiny\ncamera: 1", "model.yaml:2: camera: unknown key; known here: name, input"),
        ("width: 96", "width: 100", "model.yaml:4: input.width: found 100, expected a multiple of 32 from 32 to 4096"),
        ("width: 96", "width: 0", "model.yaml:4: input.width: found 0, expected a whole number from 32 to 4096"),
        ("color: rgb", "color: gbr", "model.yaml:6: input.color: found \"gbr\", expected one of bgr, rgb"),
        ("  color: rgb\n", "", "input.color: missing, expected one of bgr, rgb"),
        ("nchw", "nhwc", "model.yaml:7: input.layout: found \"nhwc\", expected nchw"),
        ("float32", "float16", "model.yaml:8: input.type: found \"float16\", expected one of float32, uint8"),
        ("[123.7, 116.3, 103.5]", "[1, 2]", "model.yaml:9: input.mean: found a list, expected one number or a list of three"),
        ("[123.7, 116.3, 103.5]", "[1, x, 3]", "model.yaml:9: input.mean[1]: found \"x\", expected a number from -1000000 to 1000000"),
        ("scale: 0.017", "scale: 0", "model.yaml:10: input.scale: found 0, expected a number from 0.000000001"),
        ("value: 114", "value: 256", "model.yaml:11: input.letterbox.value: found 256"),
        ("placement: center", "placement: middle", "found \"middle\", expected one of top_left, center, stretch"),
        ("layout: yolox", "layout: yolo", "model.yaml:12: output.layout: found \"yolo\", expected one of yolox, yolov5, yolov8"),
        ("[person, car]", "[]", "labels: 0 names, expected 1 to 10000 names"),
        ("[person, car]", "[person, person]", "labels: `person` given twice, expected names that differ"),
        ("[person, car]", "[person, 7]", "model.yaml:13: labels[1]: found 7, expected a name; quote it"),
        ("labels: [person, car]\n", "", "labels: missing, expected labels (a list of names) or labels_file"),
        ("labels: [", "labels_file: x\nlabels: [", "labels_file: given together with labels, expected only one of them"),
        ("labels: [person, car]", "labels_file: ../x", "found \"../x\", expected a path inside the model's folder"),
        ("score_threshold: 0.25", "score_threshold: 0.25\ncovers: {vehicle: [bus]}",
         "covers.vehicle: `vehicle`, which is no label, expected a map such as `vehicle: [car, bus]`"),
        ("score_threshold: 0.25", "score_threshold: 0.25\ncovers: {car: [bus, person]}",
         "`person` given twice, expected a name that no other class has"),
        ("score_threshold: 0.25", "score_threshold: 1.5", "found 1.5, expected a number from 0 to 1"),
        ("max_detections: 50", "max_detections: 0", "expected a whole number from 1 to 10000"),
        ("{spdx: Apache-2.0,", "{", "license.spdx: missing, expected an SPDX identifier"),
        ("  fp32: {", "  '': {", "files: a precision without a name, expected a map of precisions such as"),
        ("sub/tiny.onnx", "/etc/passwd", "files.fp32.file: found \"/etc/passwd\", expected a path inside"),
        ("sub/tiny.onnx", "sub/../../x", "files.fp32.file: found \"sub/../../x\", expected a path inside"),
        ("bbbbbbb}", "bbbbbbg}", "expected 64 hexadecimal digits, as `sha256sum FILE` prints"),
    ];
    for (from, to, wanted) in cases {
        assert!(FULL.contains(from), "{from} is in the full description");
        let error = parse(&FULL.replacen(from, to, 1))
            .expect_err(to)
            .to_string();
        assert!(
            error.contains(wanted),
            "{to:?} gave\n{error}\ninstead of\n{wanted}"
        );
    }
}

#[test]
fn model_yaml_must_be_one_map() {
    #[rustfmt::skip]
    let cases = [
        ("- 1\n", "model.yaml:1: found a list, expected a map"),
        ("name: 1\n---\nname: 2\n", "model.yaml:3: a second document"),
        ("", "model.yaml: the file is empty"),
        ("name: 1\nname: 2\n", "model.yaml:2: name: given twice, first on line 1"),
        ("name: [1\n", "not YAML"),
        ("name:\n\tx: 1\n", "not YAML"),
    ];
    for (text, wanted) in cases {
        let error = parse(text).expect_err(text).to_string();
        assert!(
            error.contains(wanted),
            "{text:?} gave\n{error}\ninstead of\n{wanted}"
        );
    }
}

#[test]
fn numbers_have_ranges_and_are_finite() {
    let with = |key: &str, old: &str, new: &str| {
        let (from, to) = (format!("{key}: {old}"), format!("{key}: {new}"));
        assert!(FULL.contains(&from), "{from} is in the full description");
        parse(&FULL.replacen(&from, &to, 1))
    };
    for good in ["0", "0.5", "1", "1.0"] {
        let spec = with("score_threshold", "0.25", good).expect(good);
        let wanted = good.trim_end_matches(".0");
        assert_eq!(spec.score_threshold.to_string(), wanted);
    }
    for wrong in ["-0.1", "1.1", ".nan", ".inf", "-.inf", "word", "[1]"] {
        let error = with("score_threshold", "0.25", wrong).expect_err(wrong);
        assert!(
            error.to_string().contains("score_threshold: found"),
            "{error}"
        );
    }
    for wrong in ["1.0", "-1", "4294967296", "'1'"] {
        let error = with("max_detections", "50", wrong).expect_err(wrong);
        assert!(
            error.to_string().contains("max_detections: found"),
            "{error}"
        );
    }
}

#[test]
fn a_problem_of_the_labels_file_is_reported_at_its_key() {
    let text = FULL.replace("labels: [person, car]", "labels_file: dog");
    let error = parse(&text).expect_err("dog is there twice").to_string();
    assert!(
        error.contains("model.yaml:13: labels_file: `dog` given twice, expected names that differ"),
        "{error}"
    );
}

#[test]
fn all_problems_come_in_one_report() {
    let text = FULL
        .replace("width: 96", "width: 1")
        .replace("[person, car]", "7")
        .replace("tiny_int8.onnx", "..");
    let error = parse(&text)
        .expect_err("three values are wrong")
        .to_string();
    assert!(
        error.ends_with("3 problems in models/tiny/model.yaml"),
        "{error}"
    );
    for key in ["input.width", "labels", "files.int8.file"] {
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn external_weight_files_have_hashes() {
    let (name, digits) = ("sub/tiny.onnx.data", "C".repeat(64));
    let with = |weights: &str| {
        let hash = "b".repeat(64);
        parse(&FULL.replace(&hash, &format!("{hash}, weights: {weights}")))
    };
    let spec = with(&format!("{{{name}: {digits}}}")).expect("it is right");
    assert!(spec.files[0].weights.is_empty());
    let [weights] = spec.files[1].weights.as_slice() else {
        panic!("one file of weights was given: {:?}", spec.files[1]);
    };
    let found = (weights.location.as_str(), weights.sha256.to_string());
    assert_eq!(found, (name, digits.to_lowercase()));
    #[rustfmt::skip]
    let cases = [
        (format!("{{../a: {digits}}}"), "the path `../a`, expected a path below the network's folder"),
        (format!("{{/a: {digits}}}"), "the path `/a`"),
        ("{a: 12}".to_owned(), "expected 64 hexadecimal digits"),
        ("a".to_owned(), "expected a map such as `NAME.onnx.data: DIGITS`"),
    ];
    for (weights, said) in cases {
        let error = with(&weights).expect_err(&weights).to_string();
        assert!(error.contains(said), "{weights}: {error}");
    }
}

#[test]
fn byte_inputs_reject_normalization() {
    let bytes = FULL.replace("type: float32", "type: uint8");
    let plain: String = bytes
        .lines()
        .filter(|line| !line.starts_with("  mean") && !line.starts_with("  scale"))
        .map(|line| format!("{line}\n"))
        .collect();
    let found = parse(&plain).expect("it is right").input.element;
    assert_eq!(found, InputElement::Uint8);
    let error = parse(&bytes).expect_err("mean and scale").to_string();
    for key in ["mean", "scale"] {
        let said = format!("a {key} for bytes, expected no {key} with `type: uint8`");
        assert!(error.contains(&said), "{error}");
    }
}
