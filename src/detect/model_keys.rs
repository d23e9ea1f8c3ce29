//! The keys of `model.yaml`: which there are, what they accept, what they default to.
//!
//! Every part is read before the first absence ends the reading, so that one report names all problems. Only
//! [`model`](super::model) calls this; the located values come from [`model_file`](super::model_file).

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use super::model::{
    ColorOrder, InputSpec, License, ModelFile, ModelSpec, OutputLayout, OutputSpec,
};
use super::model_file::{Map, Node};
use crate::types::{Placement, Size};

/// Sides of the networks that jetwatch runs, in pixels.
const SIDES: (u32, u32) = (32, 4096);

/// Most labels: classes travel as `u16`, and no detector of this family has more.
const MAX_LABELS: usize = 10_000;

/// Reads the outermost map of a `model.yaml` in `folder`; `read_labels` gives the text of the labels file.
pub(super) fn read_spec(
    root: &Node<'_>,
    folder: &Path,
    read_labels: impl FnOnce(&Path) -> Option<String>,
) -> Option<ModelSpec> {
    let map = root.map(&[
        "name",
        "input",
        "output",
        "labels",
        "labels_file",
        "score_threshold",
        "nms_iou",
        "max_detections",
        "license",
        "files",
    ])?;
    // Every part is read before the first `?`, so that one report names the problems of all of them.
    let name = text(&map, "name", "the model's name");
    let input = map
        .required("input", "a map that describes the input tensor")
        .and_then(|node| read_input(&node));
    let output = map
        .required("output", "a map that describes the output tensor")
        .and_then(|node| read_output(&node));
    let labels = labels_of(&map, read_labels);
    let score_threshold = share(&map, "score_threshold", 0.3);
    let nms_iou = share(&map, "nms_iou", 0.45);
    let max_detections = match map.optional("max_detections") {
        Some(node) => node.integer(1, 10_000),
        None => Some(300),
    };
    let license = map
        .required("license", "a map with spdx and source")
        .and_then(|node| read_license(&node));
    let files = map
        .required("files", "a map of precisions")
        .and_then(|node| read_files(&node, folder));
    Some(ModelSpec {
        folder: folder.to_owned(),
        name: name?,
        input: input?,
        output: output?,
        labels: labels?,
        score_threshold: score_threshold?,
        nms_iou: nms_iou?,
        max_detections: max_detections? as usize,
        license: license?,
        files: files?,
    })
}

fn read_input(node: &Node<'_>) -> Option<InputSpec> {
    let map = node.map(&[
        "name",
        "width",
        "height",
        "color",
        "layout",
        "type",
        "mean",
        "scale",
        "letterbox",
    ])?;
    let name = text(&map, "name", "the tensor's name in the network");
    let width = side(&map, "width");
    let height = side(&map, "height");
    let color = map
        .required("color", "bgr or rgb")
        .and_then(|node| node.one_of(&[("bgr", ColorOrder::Bgr), ("rgb", ColorOrder::Rgb)]));
    let layout = map
        .optional("layout")
        .map_or(Some(()), |node| node.one_of(&[("nchw", ())]));
    let element = map
        .optional("type")
        .map_or(Some(()), |node| node.one_of(&[("float32", ())]));
    let mean = map
        .optional("mean")
        .map_or(Some([0.0; 3]), |node| three(&node, (-1e6, 1e6)));
    let scale = map
        .optional("scale")
        .map_or(Some([1.0; 3]), |node| three(&node, (1e-9, 1e6)));
    let letterbox = map
        .required("letterbox", "a map with value and placement")
        .and_then(|node| read_letterbox(&node));
    layout.and(element)?;
    let (padding, placement) = letterbox?;
    Some(InputSpec {
        name: name?,
        size: Size::new(width?, height?),
        color: color?,
        mean: mean?,
        scale: scale?,
        placement,
        padding,
    })
}

fn read_letterbox(node: &Node<'_>) -> Option<(u8, Placement)> {
    let map = node.map(&["value", "placement"])?;
    let value = map
        .required("value", "a whole number from 0 to 255")
        .and_then(|node| node.integer(0, 255));
    let placement = map
        .required("placement", "top_left, center or stretch")
        .and_then(|node| {
            node.one_of(&[
                ("top_left", Placement::TopLeft),
                ("center", Placement::Center),
                ("stretch", Placement::Stretch),
            ])
        });
    Some((u8::try_from(value?).ok()?, placement?))
}

fn read_output(node: &Node<'_>) -> Option<OutputSpec> {
    let map = node.map(&["layout", "name"])?;
    let layout = map
        .required("layout", "yolox")
        .and_then(|node| node.one_of(&[("yolox", OutputLayout::Yolox)]));
    let name = text(&map, "name", "the tensor's name in the network");
    Some(OutputSpec {
        name: name?,
        layout: layout?,
    })
}

fn read_license(node: &Node<'_>) -> Option<License> {
    let map = node.map(&["spdx", "source"])?;
    let spdx = text(&map, "spdx", "an SPDX identifier such as Apache-2.0");
    let source = text(&map, "source", "where the files come from");
    Some(License {
        spdx: spdx?,
        source: source?,
    })
}

fn read_files(node: &Node<'_>, folder: &Path) -> Option<Vec<ModelFile>> {
    let expected = "a map of precisions such as `fp32: {file: NAME, sha256: DIGITS}`";
    let entries = node.entries(expected)?;
    if entries.is_empty() {
        return node.refuse(expected);
    }
    let files: Vec<Option<ModelFile>> = entries
        .iter()
        .map(|(precision, node)| {
            let map = node.map(&["file", "sha256"])?;
            let path = map
                .required("file", "a file in the model's folder")
                .and_then(|node| inside(&node));
            let sha256 = map
                .required("sha256", "what `sha256sum FILE` prints")
                .and_then(|node| digest(&node));
            Some(ModelFile {
                precision: precision.clone(),
                path: folder.join(path?),
                sha256: sha256?,
            })
        })
        .collect();
    files.into_iter().collect()
}

fn labels_of(
    map: &Map<'_>,
    read_labels: impl FnOnce(&Path) -> Option<String>,
) -> Option<Vec<String>> {
    let labels: Vec<String> = match (map.optional("labels"), map.optional("labels_file")) {
        (Some(node), None) => {
            let items = node.list("a list of names")?;
            let names: Vec<Option<&str>> = items
                .iter()
                .map(|item| item.text("a name; quote it if it is a number"))
                .collect();
            names
                .into_iter()
                .map(|name| name.map(|name| name.trim().to_owned()))
                .collect::<Option<_>>()?
        }
        (None, Some(node)) => {
            let text = read_labels(&inside(&node)?)?;
            text.lines()
                .map(|line| line.trim().to_owned())
                .filter(|line| !line.is_empty())
                .collect()
        }
        (Some(_), Some(_)) => {
            return map.refuse("labels_file", "given beside labels", "only one of them");
        }
        (None, None) => {
            return map.refuse(
                "labels",
                "missing",
                "labels (a list of names) or labels_file",
            );
        }
    };
    if labels.is_empty() || labels.len() > MAX_LABELS {
        let what = format!("{} names", labels.len());
        return map.refuse("labels", &what, &format!("1 to {MAX_LABELS} names"));
    }
    let mut seen = HashSet::with_capacity(labels.len());
    if let Some(twice) = labels.iter().find(|label| !seen.insert(label.as_str())) {
        let what = format!("`{twice}` given twice");
        return map.refuse("labels", &what, "names that differ");
    }
    Some(labels)
}

/// A path below the model's folder.
fn inside(node: &Node<'_>) -> Option<PathBuf> {
    let expected = "a path inside the model's folder, without `..`";
    let path = Path::new(node.text(expected)?);
    if path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return Some(path.to_owned());
    }
    node.refuse(expected)
}

fn digest(node: &Node<'_>) -> Option<String> {
    let expected = "64 hexadecimal digits, as `sha256sum FILE` prints";
    let text = node.text(expected)?;
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(text.to_ascii_lowercase());
    }
    node.refuse(expected)
}

fn text(map: &Map<'_>, key: &str, expected: &str) -> Option<String> {
    map.required(key, expected)?
        .text(expected)
        .map(str::to_owned)
}

fn share(map: &Map<'_>, key: &str, default: f32) -> Option<f32> {
    match map.optional(key) {
        Some(node) => node.number(0.0, 1.0).map(|value| value as f32),
        None => Some(default),
    }
}

/// A side of the input. The strides of the grid divide it, or cells would be missing at the edge.
fn side(map: &Map<'_>, key: &str) -> Option<u32> {
    let expected = format!("a multiple of 32 from {} to {}", SIDES.0, SIDES.1);
    let node = map.required(key, &expected)?;
    let pixels = node.integer(SIDES.0, SIDES.1)?;
    if pixels.is_multiple_of(32) {
        Some(pixels)
    } else {
        node.refuse(expected)
    }
}

/// One number for all planes or a list of three.
fn three(node: &Node<'_>, (least, most): (f64, f64)) -> Option<[f32; 3]> {
    if !node.is_list() {
        return node.number(least, most).map(|value| [value as f32; 3]);
    }
    let expected = "one number or a list of three";
    let items = node.list(expected)?;
    let values: Vec<Option<f64>> = items.iter().map(|item| item.number(least, most)).collect();
    match values.as_slice() {
        [a, b, c] => Some([(*a)? as f32, (*b)? as f32, (*c)? as f32]),
        _ => node.refuse(expected),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::detect::model::ModelError;

    /// A description with every key, of which the tests change one thing at a time.
    pub(in crate::detect) const FULL: &str = "\
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

    fn parse(text: &str) -> Result<ModelSpec, ModelError> {
        ModelSpec::parse(Path::new("models/tiny"), text, |path| {
            Ok(format!("{}\n\n dog \n", path.display()))
        })
    }

    #[test]
    fn a_full_description() {
        let spec = parse(FULL).expect("it is right");
        assert_eq!(spec.name, "tiny");
        assert_eq!(
            spec.input,
            InputSpec {
                name: "images".to_owned(),
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
                name: "output".to_owned(),
                layout: OutputLayout::Yolox
            }
        );
        assert_eq!(spec.labels, ["person", "car"]);
        assert_eq!(
            (spec.score_threshold, spec.nms_iou, spec.max_detections),
            (0.25, 0.5, 50)
        );
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
        assert_eq!(
            spec.files[0].sha256,
            "a".repeat(64),
            "digits are compared in lower case"
        );
    }

    #[test]
    fn what_may_be_left_out() {
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
        assert_eq!(
            (spec.score_threshold, spec.nms_iou, spec.max_detections),
            (0.3, 0.45, 300)
        );
        assert_eq!(
            spec.labels,
            ["names.txt", "dog"],
            "one name a line, blank lines skipped"
        );
    }

    #[test]
    fn every_wrong_value_is_named_with_its_line_and_key() {
        let cases = [
            (
                "name: tiny",
                "name: 5",
                "line 1: name: found `5`, expected the model's name",
            ),
            (
                "name: tiny",
                "nam: tiny",
                "line 1: nam: unknown key, expected one of name, input",
            ),
            (
                "width: 96",
                "width: 100",
                "line 4: input.width: found `100`, expected a multiple of 32 from 32 to 4096",
            ),
            (
                "width: 96",
                "width: 0",
                "line 4: input.width: found `0`, expected a whole number from 32 to 4096",
            ),
            (
                "color: rgb",
                "color: gbr",
                "line 6: input.color: found `gbr`, expected bgr or rgb",
            ),
            (
                "  color: rgb\n",
                "",
                "input.color: missing, expected bgr or rgb",
            ),
            (
                "nchw",
                "nhwc",
                "line 7: input.layout: found `nhwc`, expected nchw",
            ),
            (
                "float32",
                "float16",
                "line 8: input.type: found `float16`, expected float32",
            ),
            (
                "[123.7, 116.3, 103.5]",
                "[1, 2]",
                "line 9: input.mean: found a list of 2, expected one number or a list of three",
            ),
            (
                "scale: 0.017",
                "scale: 0",
                "line 10: input.scale: found `0`, expected a number from 0.000000001",
            ),
            (
                "value: 114",
                "value: 256",
                "line 11: input.letterbox.value: found `256`",
            ),
            (
                "placement: center",
                "placement: middle",
                "found `middle`, expected top_left or center or stretch",
            ),
            (
                "layout: yolox",
                "layout: ssd",
                "line 12: output.layout: found `ssd`, expected yolox",
            ),
            (
                "[person, car]",
                "[]",
                "labels: 0 names, expected 1 to 10000 names",
            ),
            (
                "[person, car]",
                "[person, person]",
                "labels: `person` given twice, expected names that differ",
            ),
            (
                "[person, car]",
                "[person, 7]",
                "line 13: labels[1]: found `7`, expected a name; quote it",
            ),
            (
                "labels: [person, car]\n",
                "",
                "labels: missing, expected labels (a list of names) or labels_file",
            ),
            (
                "labels: [",
                "labels_file: x\nlabels: [",
                "labels_file: given beside labels, expected only one of them",
            ),
            (
                "labels: [person, car]",
                "labels_file: ../x",
                "found `../x`, expected a path inside the model's folder",
            ),
            (
                "score_threshold: 0.25",
                "score_threshold: 1.5",
                "found `1.5`, expected a number from 0 to 1",
            ),
            (
                "max_detections: 50",
                "max_detections: 0",
                "expected a whole number from 1 to 10000",
            ),
            (
                "{spdx: Apache-2.0,",
                "{",
                "license.spdx: missing, expected an SPDX identifier",
            ),
            (
                "sub/tiny.onnx",
                "/etc/passwd",
                "files.fp32.file: found `/etc/passwd`, expected a path inside",
            ),
            (
                "sub/tiny.onnx",
                "sub/../../x",
                "files.fp32.file: found `sub/../../x`, expected a path inside",
            ),
            (
                "bbbbbbb}",
                "bbbbbbg}",
                "expected 64 hexadecimal digits, as `sha256sum FILE` prints",
            ),
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
}
