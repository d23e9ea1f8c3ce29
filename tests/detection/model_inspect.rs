// SPDX-License-Identifier: Apache-2.0
//! ONNX files: summary, diagnostics and `model.yaml` templates of real ones, of ones that the test writes, and of damaged ones.

use crate::support::onnx_file;
use crate::support::picture::write_flat;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::onnx_message::{Message, external_tensor, node, tensor};
use jetwatch_detect::graph::{self, Network, Severity};
use jetwatch_detect::layouts::infer_layout;
use jetwatch_detect::model::ModelSpec;
use jetwatch_models::lint;
use onnx_file::TinyNetwork;

const FLOAT: u64 = 1;
const INT8: u64 = 3;
const INT32: u64 = 6;

/// A network whose output has the shape of YOLOX for 96×64 pixels and two classes.
fn tiny() -> TinyNetwork {
    TinyNetwork::yolox(Some(1), &[])
}

/// A file with these nodes and weights around the ports of [`tiny`].
fn file(
    nodes: &[Message],
    weights: &[Message],
    opset: u64,
    more: impl FnOnce(&mut Message),
) -> Vec<u8> {
    let port = |name: &str, axes: &[u64]| {
        let mut shape = Message::default();
        for axis in axes {
            let mut dimension = Message::default();
            dimension.number(1, *axis);
            shape.message(1, dimension);
        }
        let mut tensor = Message::default();
        tensor.number(1, FLOAT);
        tensor.message(2, shape);
        let mut kind = Message::default();
        kind.message(1, tensor);
        let mut port = Message::default();
        port.text(1, name);
        port.message(2, kind);
        port
    };
    let mut graph = Message::default();
    nodes.iter().for_each(|node| graph.message(1, node.clone()));
    graph.text(2, "made");
    weights
        .iter()
        .for_each(|weight| graph.message(5, weight.clone()));
    graph.message(11, port("images", &[1, 3, 64, 96]));
    graph.message(12, port("output", &[1, 126, 7]));
    let mut set = Message::default();
    set.number(2, opset);
    let mut model = Message::default();
    model.number(1, 8);
    model.message(7, graph);
    model.message(8, set);
    more(&mut model);
    model.0
}

fn summarize(bytes: &[u8]) -> Network {
    graph::summarize(Path::new("m/t.onnx"), bytes, |_| None).expect("it is whole")
}

/// Texts of the diagnostics of at least `severity`.
fn texts(network: &Network, severity: Severity) -> Vec<String> {
    lint(network)
        .into_iter()
        .filter(|finding| finding.severity >= severity)
        .map(|finding| finding.text)
        .collect()
}

/// A node of a custom domain.
fn custom_node(operator: &str, domain: &str) -> Message {
    let mut node = node(operator, &["images"], "output", &[]);
    node.text(3, "head/last");
    node.text(7, domain);
    node
}

#[test]
fn inspect_summarizes_file() {
    let network = summarize(&tiny().bytes());
    assert_eq!((network.ir_version, network.opset()), (7, Some(13)));
    assert_eq!(network.inputs[0].to_string(), "float32 [1, 3, 64, 96]");
    assert_eq!(network.outputs[0].to_string(), "float32 [1, 126, 7]");
    assert_eq!(network.parameters, 2 * 126 * 7 + 3);
    assert_eq!((network.count("Add"), network.operators.len()), (1, 4));
    assert_eq!(texts(&network, Severity::Note), [""; 0]);
    let guess = infer_layout(&network, None).expect("the shapes are YOLOX's");
    assert_eq!((guess.layout, guess.found.classes), ("yolox", 2));
}

#[test]
fn unsupported_operators_and_opsets_are_reported_with_node() {
    #[rustfmt::skip]
    let cases = [
        (custom_node("EfficientNMS_TRT", ""), 13, "operator `EfficientNMS_TRT` (1×, first in node `head/last`) is a plug-in"),
        (custom_node("EfficientNMS_TRT", "TRT"), 13, "plug-in of TensorRT"),
        (custom_node("Magic", "my.own"), 13, "operator `Magic` of the domain `my.own` (1×, first in node `head/last`) is known neither"),
        (custom_node("FusedConv", "com.microsoft"), 13, "ONNX Runtime's own"),
        (node("Relu", &["images"], "output", &[]), 21, "newer than ONNX Runtime 1.17 (20) and TensorRT 8.5 (17)"),
        (node("Relu", &["images"], "output", &[]), 18, "newer than TensorRT 8.5 of JetPack 5 reads (17)"),
        (node("Relu", &["images"], "output", &[]), 11, "operator set 11 has no scale for each channel"),
        (node("Relu", &["images"], "output", &[]), 5, "older than the runtimes promise"),
    ];
    for (node, opset, wanted) in cases {
        let network = summarize(&file(&[node], &[], opset, |_| {}));
        let found = texts(&network, Severity::Note);
        assert!(
            found.len() == 1 && found[0].contains(wanted),
            "{found:?}\ninstead of\n{wanted}"
        );
    }
    // A function that the file defines is known.
    let network = summarize(&file(&[custom_node("Mine", "local")], &[], 13, |model| {
        let mut function = Message::default();
        function.text(1, "Mine");
        function.text(10, "local");
        model.message(25, function);
    }));
    assert_eq!(texts(&network, Severity::Note), [""; 0]);
}

#[test]
fn quantization_is_read_from_its_nodes() {
    let quantize = |from: &str, name: &str, zero: &str| {
        [
            node(
                "QuantizeLinear",
                &[from, "scale", zero],
                &format!("{name}_q"),
                &[],
            ),
            node(
                "DequantizeLinear",
                &[&format!("{name}_q"), "scale", zero],
                name,
                &[],
            ),
        ]
    };
    let [a, b] = quantize("images", "x", "zero");
    let nodes = [
        a,
        b,
        node("DequantizeLinear", &["weight", "scales", "zeros"], "w", &[]),
        node("DequantizeLinear", &["bias", "scales"], "c", &[]),
        node("Conv", &["x", "w", "c"], "y", &[]),
        node("Conv", &["y", "float"], "output", &[]),
    ];
    #[rustfmt::skip]
    let weights = [
        tensor("scale", FLOAT, &[], vec![0, 0, 0x80, 0x3f]),
        tensor("zero", INT8, &[], vec![3]),
        tensor("scales", FLOAT, &[2], [1.0_f32, 1.0].map(f32::to_le_bytes).concat()),
        tensor("zeros", INT8, &[2], vec![0, 0]),
        tensor("weight", INT8, &[2, 3, 1, 1], vec![1; 6]),
        tensor("bias", INT32, &[2], vec![0; 8]),
        tensor("float", FLOAT, &[2, 2, 1, 1], vec![0; 16]),
    ];
    let network = summarize(&file(&nodes, &weights, 13, |_| {}));
    let quantized = network.quantization;
    assert_eq!(
        (
            quantized.layers,
            quantized.quantized_layers,
            quantized.quantized_biases
        ),
        (2, 1, 1)
    );
    assert_eq!(
        (quantized.signed_activations, quantized.unsigned_activations),
        (1, 0)
    );
    assert_eq!(
        (
            quantized.per_channel_weights,
            quantized.per_tensor_weights,
            quantized.asymmetric
        ),
        (1, 0, 1)
    );
    let found = texts(&network, Severity::Warning).join("\n");
    assert_has!(found => "1 of 2 layers have quantized biases", "1 zero points are not 0");
}

#[test]
fn external_weight_files_are_checked() {
    let weight = external_tensor("w", FLOAT, &[4], "t.onnx.data", 4096, Some(16));
    let bytes = file(
        &[node("Add", &["images", "w"], "output", &[])],
        &[weight],
        13,
        |_| {},
    );
    for (length, severity, wanted) in [
        (
            None,
            Severity::Error,
            "`t.onnx.data`, which holds 1 weight(s), is missing: put it next to",
        ),
        (
            Some(4111),
            Severity::Error,
            "has 4111 bytes, expected at least 4112",
        ),
        (Some(4112), Severity::Note, "has to stay next to"),
    ] {
        let network = graph::summarize(Path::new("m/t.onnx"), &bytes, |name| {
            assert_eq!(name, "t.onnx.data");
            length
        });
        let found = lint(&network.expect("it is whole"));
        let mut found_here = found.iter().filter(|finding| finding.severity == severity);
        let is_there = found_here.any(|finding| finding.text.contains(wanted));
        assert!(is_there, "{found:?}\nlacks\n{wanted}");
    }
}

#[test]
fn truncated_weights_and_weights_as_inputs_are_reported() {
    let torn = tensor("w", FLOAT, &[4], vec![0; 15]);
    let network = summarize(&file(
        &[node("Add", &["images", "w"], "output", &[])],
        &[torn],
        13,
        |_| {},
    ));
    assert!(texts(&network, Severity::Error)[0].contains("weight `w` does not have the bytes"));
    let mut listed = tiny();
    listed.second_input = true;
    let network = summarize(&listed.bytes());
    assert!(texts(&network, Severity::Error)[0].contains("another input `unused` float32 [1]"));
    let listed = tensor("images", FLOAT, &[1], vec![0; 4]);
    let network = summarize(&file(
        &[node("Relu", &["images"], "output", &[])],
        &[listed],
        13,
        |_| {},
    ));
    assert_eq!(network.listed_weights, 1);
}

#[test]
fn damaged_and_foreign_files_are_readable_errors() {
    let whole = tiny().bytes();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let reported = |bytes: &[u8]| {
        let path = folder.path().join("x.onnx");
        fs::write(&path, bytes).expect("written");
        graph::read(&path)
            .map(drop)
            .expect_err("it is no network")
            .to_string()
    };
    #[rustfmt::skip]
    let cases: [(&[u8], &str); 7] = [
        (&whole[..whole.len() / 2], "a length beyond the end of its message at byte"),
        (b"", "found no network in its 0 bytes, expected an ONNX file (it is empty)"),
        (b"PK\x03\x04rest", "ZIP archive"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"<html>", "web page"),
        (b"\x18\0\0\0ORTM", "ONNX Runtime's own format"),
        (b"\x08\x07", "found no network in its 2 bytes"),
    ];
    for (bytes, wanted) in cases {
        let error = reported(bytes);
        assert!(error.contains(wanted), "{error}\ninstead of\n{wanted}");
    }
    for path in ["/dev/zero", "/nonexistent/x.onnx"] {
        let error = graph::read(Path::new(path))
            .map(drop)
            .expect_err(path)
            .to_string();
        assert_has!(error => "cannot read");
    }
    // A sparse file takes no disk space, and would take all memory if it were read.
    let huge = folder.path().join("huge.onnx");
    fs::File::create(&huge)
        .and_then(|file| file.set_len(1 << 40))
        .expect("a file with holes");
    let error = graph::read(&huge)
        .map(drop)
        .expect_err("it is huge")
        .to_string();
    assert_has!(error => "found 1099511627776 bytes");
}

#[test]
fn nesting_depth_and_node_count_are_limited() {
    let mut body = Message::default();
    for _ in 0..40 {
        let mut attribute = Message::default();
        attribute.message(6, body);
        let mut branch = node("If", &["a"], "b", &[]);
        branch.message(5, attribute);
        body = Message::default();
        body.message(1, branch);
    }
    let mut model = Message::default();
    model.message(7, body);
    let error = graph::summarize(Path::new("x"), &model.0, |_| None).map(drop);
    assert_has!(error.expect_err("too deep").to_string() => "nested too deep");
    // A million empty nodes in two megabytes.
    let mut model = Message::default();
    model.bytes(7, &[0x0a, 0].repeat(1_000_000));
    let error = graph::summarize(Path::new("x"), &model.0, |_| None).map(drop);
    assert_has!(error.expect_err("too many").to_string() => "more parts than");
}

/// `jetwatch model` with the arguments.
fn model(arguments: &[&str], paths: &[&Path]) -> (bool, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .arg("model")
        .args(arguments)
        .args(paths)
        .env_remove("RUST_LOG")
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.success(), text(stdout), text(stderr))
}

#[test]
fn init_writes_a_folder_that_the_daemon_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, out) = (
        folder.path().join("tiny net.onnx"),
        folder.path().join("models/tiny"),
    );
    fs::write(&source, tiny().bytes()).expect("written");
    let (is_well, stdout, stderr) = model(&["init", "--out"], &[&out, &source]);
    assert!(is_well, "{stderr}");
    assert_has!(stdout => "layout yolox (a guess", "class_0, class_1");
    let spec = ModelSpec::load(&out).expect("it was checked");
    let found = (spec.labels.len(), spec.files[0].precision.as_str());
    assert_eq!(found, (2, "fp32"));
    spec.files[0].verify().expect("the hash is right");
    assert_eq!(spec.license.spdx, "NOASSERTION");

    // Nothing is overwritten, and a refusal changes nothing.
    let before = fs::read(out.join("model.yaml")).expect("it is there");
    let (is_well, _, stderr) = model(&["init", "--out"], &[&out, &source]);
    assert!(
        !is_well && stderr.contains("model.yaml exists already") && stderr.contains("--force"),
        "{stderr}"
    );
    let found = fs::read(out.join("model.yaml")).expect("it is there");
    assert_eq!(found, before);
    let labels = folder.path().join("names");
    fs::write(&labels, "cat\n\ndog\n").expect("written");
    let (is_well, _, stderr) = model(
        &["init", "--force", "--labels"],
        &[&labels, Path::new("--out"), &out, &source],
    );
    assert!(is_well, "{stderr}");
    let found = ModelSpec::load(&out).expect("it was checked").labels;
    assert_eq!(found, ["cat", "dog"]);

    // A file in its folder is not moved.
    let own = folder.path().join("own");
    fs::create_dir(&own).expect("made");
    let file = own.join("n.onnx");
    fs::copy(&source, &file).expect("copied");
    let (is_well, _, stderr) = model(&["init", "--out"], &[&own, &file]);
    assert!(is_well, "{stderr}");
    let mut names: Vec<PathBuf> = fs::read_dir(&own)
        .expect("it is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    assert_eq!(names, [own.join("model.yaml"), file]);
}

#[test]
fn failed_init_reports_error_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (one, twice) = (path("one"), path("twice"));
    fs::write(&one, "cat\n").expect("written");
    fs::write(&twice, "cat\ncat\n").expect("written");
    let mut odd = tiny();
    (odd.output_shape, odd.rows, odd.mask) = ([5, 3], vec![0.0; 15], vec![0.0; 15]);
    let mut open = tiny();
    open.input_shape = [None, Some(3), None, None];
    let [tiny, odd, open] = [tiny(), odd, open].map(|network| network.bytes());
    let none_fits = "no layout fits the outputs at an input of 96×64: found `output` float32 [1, 5, 3]; expected one of";
    let fastestdet = "\n  fastestdet: one output [5 + C, height, width] at stride 16";
    let no_layout = "found the layout `yolo`, expected one of yolox, yolov5, ";
    let no_background = "--background is given, but the layout is yolox";
    let one_label = "1 labels were given, but the network has 2 classes";
    let cases: [(&[u8], &[&str], &str); 11] = [
        (&odd, &[], none_fits),
        (&odd, &[], fastestdet),
        (
            &odd,
            &["--layout", "yolov8"],
            "do not fit the layout yolov8",
        ),
        (&tiny, &["--layout", "yolo"], no_layout),
        (&tiny, &["--background", "none"], no_background),
        (&tiny, &["--background", "no"], "expected first, last, none"),
        (
            &tiny,
            &["--size", "64x64"],
            "found --size 64×64, expected 96×64",
        ),
        (&open, &[], "input `images` has a dynamic size"),
        (b"PK\x03\x04", &[], "ZIP archive"),
        (&tiny, &["--labels", &one], one_label),
        (&tiny, &["--labels", &twice], "`cat` is given twice"),
    ];
    let (source, out) = (folder.path().join("n.onnx"), folder.path().join("out"));
    for (bytes, arguments, wanted) in cases {
        fs::write(&source, bytes).expect("written");
        let arguments = [&["init"], arguments, &["--out"]].concat();
        let (is_well, _, stderr) = model(&arguments, &[&out, &source]);
        assert!(!is_well && !out.exists(), "{wanted}");
        assert_has!(stderr => wanted);
    }
}

#[test]
fn a_picture_shows_what_a_drafted_network_finds() {
    needs_onnx_runtime!();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let mut network = tiny();
    // In the cell at 8, 8 of stride 8: a center half a cell further, and twice its size.
    let row = [0.5, 0.5, 2.0_f32.ln(), 2.0_f32.ln(), 0.9, 1.0, 0.0];
    network.rows[13 * 7..][..7].copy_from_slice(&row);
    fs::write(path("n.onnx"), network.bytes()).expect("written");
    write_flat(&path("gray.png"), 192, 128, [128; 3]);
    let (is_well, printed, stderr) = model(
        &["init", "--image"],
        &[
            &path("gray.png"),
            Path::new("--out"),
            &path("out"),
            &path("n.onnx"),
        ],
    );
    assert!(is_well, "{stderr}");
    assert_has!(printed => "gray.png: 1 found, drawn in ", "  class_0 0.90 at 8,8, 32x32");
    let drawn = fs::read(path("out/boxes.jpg")).expect("drawn");
    let drawn = jetwatch_pixels::decode(drawn).expect("a picture");
    assert_eq!((drawn.size.width, drawn.size.height), (192, 128));
    let at = |x: usize, y: usize| &drawn.pixels[4 * (y * 192 + x)..][..3];
    let is_gray = |pixel: &[u8]| pixel.iter().all(|value| value.abs_diff(128) < 24);
    assert!(!is_gray(at(8, 30)), "the left side: {:?}", at(8, 30));
    assert!(is_gray(at(100, 64)), "{:?}", at(100, 64));

    let (is_well, _, stderr) = model(
        &["init", "--force", "--image"],
        &[
            &path("none.png"),
            Path::new("--out"),
            &path("out"),
            &path("n.onnx"),
        ],
    );
    assert!(!is_well && stderr.contains("none.png"), "{stderr}");
}

#[test]
fn real_networks_are_inspected() {
    let Some(data) = std::env::var_os("JETWATCH_TEST_DATA").filter(|path| !path.is_empty()) else {
        eprintln!("skipped: JETWATCH_TEST_DATA is not set");
        return;
    };
    let models = Path::new(&data).join("models");
    let (is_well, report, stderr) = model(&["inspect"], &[&models.join("yolox_nano.onnx")]);
    assert!(is_well, "{stderr}");
    assert_has!(report =>
        "pytorch 2.1.1", "ai.onnx 11", "input       `images` float32 [1, 3, 416, 416]",
        "output      `output` float32 [1, 3549, 85]", "quantized   no",
        "layout      yolox (a guess), output [3549, 85]: 3549 cells", "classes     80");
    let (_, json, _) = model(
        &["inspect", "--json"],
        &[&models.join("yolox_nano_int8_s8.onnx")],
    );
    let report: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let quantized = &report["network"]["quantization"];
    let found = (
        &quantized["unsigned_activations"],
        &quantized["quantized_biases"],
    );
    assert_eq!(found, (&0.into(), &0.into()));
    assert_eq!(quantized["float_weights"], quantized["per_channel_weights"]);
    assert!(
        quantized["quantized_layers"].as_u64() > Some(50),
        "{quantized}"
    );
    let (_, report, _) = model(
        &["inspect"],
        &[&models.join("yolox_nano_int8_s8_bias_quantized.onnx")],
    );
    assert_has!(report => "have quantized biases, which TensorRT's parser refuses");
    let (_, report, _) = model(&["inspect"], &[&models.join("yolox_nano_int8_u8.onnx")]);
    assert_has!(report => "activations are unsigned bytes");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("nano");
    let (is_well, _, stderr) = model(&["init", "--out"], &[&out, &models.join("yolox_nano.onnx")]);
    assert!(is_well, "{stderr}");
    let spec = ModelSpec::load(&out).expect("it was checked");
    let shipped = include_str!("../support/yolox_nano.yaml");
    assert!(
        shipped.contains(&spec.files[0].sha256.to_string()),
        "the file is the one that the project describes by hand"
    );
    let found = (spec.input.size.width, spec.input.padding, spec.labels.len());
    assert_eq!(found, (416, 114, 80));
}

#[test]
fn truncated_network_is_error_or_complete() {
    let bytes = tiny().bytes();
    for len in 0..bytes.len() {
        // A cut between two fields leaves a valid message; then the network is complete or absent.
        if let Ok(network) = graph::summarize(Path::new("x"), &bytes[..len], |_| None) {
            let found = (network.outputs.len(), network.operators.len());
            assert_eq!(found, (1, 4), "cut after {len} bytes");
        }
    }
}
