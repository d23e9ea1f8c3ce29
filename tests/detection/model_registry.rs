//! Networks out of packages of PyPI: a small network in PaddlePaddle's format, in a wheel of a local server, becomes a model
//! folder that detects what the network computes; and what happens when the index, the wheel or the address is not there.
//!
//! What the converted network computes needs `ORT_DYLIB_PATH`; the real package needs `JETWATCH_TEST_DATA` and PyPI. Without
//! them these tests are skipped with a message.

use crate::support::file_server::{Answer, FileServer};
use crate::support::onnx_runtime::{config, frame, gray_pixels, library_is_missing};
use crate::support::paddle::wheel;
use crate::support::paddle_detector::{SIDE, expected, network};

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use jetwatch_detect::load;
use jetwatch_files::Sha256Digest;
use jetwatch_models::model_zoo::{
    Entry, FetchError, RegistryDownload, RetryPolicy, fetch_and_convert, parse_manifest,
};
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Detection, Size};

/// The manifest of the network in a wheel of these bytes.
fn manifest(wheel: &[u8], network: Sha256Digest) -> Entry {
    let text = format!(
        "title: a small network\nfile: tiny.onnx\nsha256: '{network}'\nverified: by the test\nlicense: Apache-2.0\nlabels: coco80\n\
         registry:\n  package: Tiny_Net\n  version: '1.0'\n  wheel: tiny_net-1.0-py3-none-any.whl\n  wheel_bytes: {}\n  wheel_sha256: '{}'\n  \
         program: tiny/model.pdmodel\n  parameters: tiny/model.pdiparams\n  license_file: tiny/LICENSE\n  authors: the test\n  \
         input: image\n  width: {SIDE}\n  height: {SIDE}\n  outputs:\n    - {{name: scores_8, variable: score}}\n    \
         - {{name: boxes_8, variable: box}}\n\
         model: |\n  name: tiny\n  input: {{name: image, width: {SIDE}, height: {SIDE}, color: rgb, scale: 0.01, letterbox: {{value: 0, \
         placement: stretch}}}}\n  output: {{layout: picodet, tensors: {{scores: [scores_8], boxes: [boxes_8]}}}}\n  score_threshold: 0.1\n  \
         nms_iou: 0.9\n  labels: [first, second]\n  license: {{spdx: Apache-2.0, source: made by the test}}\n  \
         files: {{fp32: {{file: tiny.onnx, sha256: $sha256}}}}\n",
        wheel.len(),
        Sha256Digest::of(wheel),
    );
    parse_manifest("tiny", &text).expect("it is right")
}

/// A server of the wheel, a server of the index's page of its project, and a folder.
struct Registry {
    wheel: Vec<u8>,
    files: FileServer,
    index: FileServer,
    folder: tempfile::TempDir,
}

impl Registry {
    fn start(answers: Vec<Answer>) -> Self {
        let network = network();
        let wheel = wheel(&[
            ("tiny/model.pdmodel", &network.program()),
            ("tiny/model.pdiparams", &network.parameters()),
            ("tiny/LICENSE", b"the terms\n"),
        ]);
        let files = FileServer::start(wheel.clone(), "\"w\"", answers);
        let link = files
            .url()
            .replace("models/net.onnx", "files/tiny_net-1.0-py3-none-any.whl");
        let page = format!(
            "<!DOCTYPE html><a href=\"tiny_net-0.9-py3-none-any.whl\">old</a><a href=\"{link}#sha256=0\">new</a>"
        );
        Self {
            wheel,
            files,
            index: FileServer::start(page.into_bytes(), "\"i\"", vec![Answer::File]),
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("models/tiny/tiny.onnx")
    }

    fn fetch(&self, entry: &Entry) -> Result<Sha256Digest, FetchError> {
        let policy = RetryPolicy {
            attempts: 2,
            first_wait: Duration::from_millis(1),
            ..RetryPolicy::default()
        };
        let request = RegistryDownload {
            entry,
            package: entry.registry.as_ref().expect("it has a package"),
            index: &self.index.url(),
            url: None,
            cache: &self.folder.path().join("cache"),
            path: &self.path(),
        };
        fetch_and_convert(&request, &policy, &mut |_| {}).map(|result| result.sha256)
    }

    /// The hash that the conversion gives: one without a hash to compare with cannot be declared.
    fn converted(&self) -> Sha256Digest {
        match self.fetch(&manifest(&self.wheel, [0; 32].into())) {
            Err(FetchError::Converted { found, .. }) => found,
            other => panic!("found {other:?}, expected another hash"),
        }
    }
}

#[test]
fn network_of_a_wheel_becomes_a_model_folder() {
    let registry = Registry::start(vec![Answer::CutAfter(1000), Answer::File]);
    let hash = registry.converted();
    assert!(!registry.path().exists(), "another hash is never written");
    let requests = registry.files.requests();
    assert!(requests[1].contains("range: bytes=1000-"), "{requests:?}");
    assert!(
        requests[0].starts_with("get /files/tiny_net-1.0"),
        "{requests:?}"
    );
    assert!(registry.index.requests()[0].starts_with("get /models/net.onnx/tiny-net/ "));

    let entry = manifest(&registry.wheel, hash);
    assert_eq!(registry.fetch(&entry).expect("the wheel is there"), hash);
    assert_eq!(registry.files.requests().len(), 2, "the wheel was kept");
    assert_eq!(registry.index.requests().len(), 1);
    let folder = registry.path().parent().expect("a folder").to_owned();
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it is there");
    assert_eq!(read("LICENSE"), "the terms\n");
    let notice = read("NOTICE");
    assert_has!(notice => "Tiny_Net 1.0", "Made by the test");

    fs::write(folder.join("model.yaml"), entry.model_yaml(hash)).expect("written");
    let detected = detect(&folder, 120);
    let Some(mut detected) = detected else { return };
    detected.sort_by(|a, b| {
        (a.xyxy[1], a.xyxy[0])
            .partial_cmp(&(b.xyxy[1], b.xyxy[0]))
            .expect("finite")
    });
    let (scores, [left, top, right, bottom]) = expected(1.2);
    let class = usize::from(scores[1] > scores[0]);
    assert_eq!(detected.len(), 16, "{detected:?}");
    for (cell, detection) in detected.iter().enumerate() {
        let (x, y) = (4.0 + 8.0 * (cell % 4) as f64, 4.0 + 8.0 * (cell / 4) as f64);
        let wanted =
            [x - left, y - top, x + right, y + bottom].map(|edge| edge.clamp(0.0, f64::from(SIDE)));
        assert_eq!(usize::from(detection.class), class);
        assert!(
            (f64::from(detection.score) - scores[class]).abs() < 1e-5,
            "{detection:?}, expected {scores:?}"
        );
        for (edge, wanted) in detection.xyxy.iter().zip(wanted) {
            assert!(
                (f64::from(*edge) - wanted).abs() < 1e-3,
                "{detection:?}, expected {wanted}"
            );
        }
    }
}

/// Detections in an image of one gray; `None` without ONNX Runtime.
fn detect(folder: &Path, gray: u8) -> Option<Vec<Detection>> {
    if library_is_missing() {
        return None;
    }
    let prepared = load(&config(folder), &Recorder::default()).expect("it can be run");
    let size = Size::new(SIDE, SIDE);
    let frame = frame(0, 0, size, size, gray_pixels(size, gray));
    let mut results = Vec::new();
    let mut detector = prepared.create(0).expect("it can be created");
    detector.detect(&[frame], &mut results).expect("it runs");
    results.pop()
}

#[test]
fn missing_links_and_damaged_wheels_are_reported() {
    let registry = Registry::start(vec![Answer::File]);
    let hash = registry.converted();
    let text = |entry: &Entry| {
        registry
            .fetch(entry)
            .expect_err("something is missing")
            .to_string()
    };
    let changed = |change: &dyn Fn(&mut Entry)| {
        let mut entry = manifest(&registry.wheel, hash);
        change(&mut entry);
        entry
    };
    let other = changed(&|entry| {
        let package = entry.registry.as_mut().expect("it has one");
        package.wheel = "tiny_net-2.0-py3-none-any.whl".to_owned();
    });
    let error = text(&other);
    assert_has!(error => "found no link to tiny_net-2.0", "PIP_INDEX_URL");
    let other = changed(&|entry| {
        entry.registry.as_mut().expect("it has one").program = "tiny/gone".to_owned();
    });
    let error = text(&other);
    assert!(error.contains("has no file tiny/gone"), "{error}");
    let other = changed(&|entry| {
        entry.registry.as_mut().expect("it has one").outputs[0].variable = "gone".to_owned();
    });
    let error = text(&other);
    assert!(error.contains("no variable `gone`"), "{error}");
    let other = changed(&|entry| {
        entry.registry.as_mut().expect("it has one").outputs[0].variable = "end".to_owned();
    });
    let error = text(&other);
    assert_has!(error => "`erf`", "not supported");
    let other = changed(&|entry| {
        entry.registry.as_mut().expect("it has one").width = 40;
    });
    let error = text(&other);
    assert!(error.contains("multiple of the greatest stride"), "{error}");
    assert!(!registry.path().exists());
}

/// `jetwatch` with arguments in `folder`, where every address but those of this machine is refused, and `index` is the package index.
fn jetwatch(folder: &Path, index: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", folder)
        .env("HTTPS_PROXY", refused())
        .env("NO_PROXY", "127.0.0.1")
        .env("PIP_INDEX_URL", index)
        .output()
        .expect("it runs")
}

/// An address of this machine where no server listens.
fn refused() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("it is bound"))
}

fn printed(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn unreachable_address_leads_to_the_package_and_wrong_wheels_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = FileServer::start(vec![1; 1000], "\"w\"", vec![Answer::File]);
    let link = files
        .url()
        .replace("net.onnx", "paddlelabel_ml-1.0.0-py3-none-any.whl");
    let page = format!("<a href='{link}'>x</a>").into_bytes();
    let index = FileServer::start(page, "\"i\"", vec![Answer::File]);
    let output = jetwatch(folder.path(), &index.url(), &["model", "fetch"]);
    let text = printed(&output);
    assert!(!output.status.success(), "{text}");
    assert_has!(text =>
        "picodet_s: https://paddledet.", "fetching picodet_s_lcnet instead",
        &format!(
            "picodet_s_lcnet: PyPI paddlelabel-ml 1.0.0 (index {})",
            index.url()
        ),
        "found 1000 bytes, expected 67196952");
    assert!(
        !folder
            .path()
            .join("models/picodet_s_lcnet/model.yaml")
            .exists()
    );
}

#[test]
fn demo_without_a_network_for_real_video_says_what_to_expect() {
    if Path::new("/usr/share/jetwatch/models").exists()
        || Path::new("/var/lib/jetwatch/models").exists()
    {
        eprintln!("skipped: jetwatch is installed on this machine, with networks");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let demo = ["demo", "--source", "missing.mp4", "--duration", "1s"];
    let text = printed(&jetwatch(folder.path(), &refused(), &demo));
    assert_has!(text => "none could be fetched", "--model");

    fs::create_dir(folder.path().join("models")).expect("created");
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/street-nano");
    std::os::unix::fs::symlink(network, folder.path().join("models/street-nano")).expect("a link");
    let text = printed(&jetwatch(folder.path(), &refused(), &demo));
    assert_has!(text => "street-nano is a test network for drawn scenes", "Detector: ONNX Runtime with models/street-nano.");
}

/// The real package, its conversion, and the accuracy of another conversion of the same network.
#[test]
fn published_network_is_converted_and_as_accurate_as_another_conversion() {
    let Some(data) = env::var_os("JETWATCH_TEST_DATA").map(PathBuf::from) else {
        eprintln!("skipped: JETWATCH_TEST_DATA is not set");
        return;
    };
    if library_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, other) in [
        ("picodet_s_lcnet", "picodet_s_lcnet_416"),
        ("picodet_s_lcnet_416x256", "picodet_s_lcnet_416x256"),
    ] {
        let model = folder.path().join(name);
        let fetched = Command::new(env!("CARGO_BIN_EXE_jetwatch"))
            .args(["model", "fetch", name, "--into"])
            .arg(&model)
            // The wheel is kept for the next run.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .output()
            .expect("it runs");
        let text = printed(&fetched);
        if text.contains("failed after") || text.contains("the server returned") {
            eprintln!("skipped: the package index cannot be reached: {text}");
            return;
        }
        assert!(fetched.status.success(), "{text}");
        let reference = folder.path().join(other).join("reference");
        fs::create_dir_all(&reference).expect("created");
        let onnx = fs::read(data.join(format!("models/{other}.onnx"))).expect("it is there");
        let yaml = fs::read_to_string(model.join("model.yaml")).expect("it is there");
        let lines: Vec<String> = yaml
            .lines()
            .map(|line| match line.contains("fp32: {file:") {
                true => format!(
                    "  fp32: {{file: {name}.onnx, sha256: {}}}",
                    Sha256Digest::of(&onnx)
                ),
                false => line.to_owned(),
            })
            .collect();
        fs::write(reference.join("model.yaml"), lines.join("\n")).expect("written");
        fs::write(reference.join(format!("{name}.onnx")), onnx).expect("written");
        fs::copy(model.join("labels.txt"), reference.join("labels.txt")).expect("copied");
        let (own, other) = (accuracy(&data, &model), accuracy(&data, &reference));
        assert!(
            (own - other).abs() < 0.002,
            "{name}: AP {own}, expected {other}"
        );
    }
}

/// AP of the model in `folder` on the images of the data.
fn accuracy(data: &Path, folder: &Path) -> f64 {
    let out = folder.join("eval.json");
    let output = Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .arg("eval")
        .arg("--model")
        .arg(folder)
        .arg("--images")
        .arg(data.join("images/train2017"))
        .arg("--annotations")
        .arg(data.join("images/instances_train2017_128.json"))
        .arg("--out")
        .arg(&out)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", printed(&output));
    let report = fs::read(out).expect("it is there");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    report["networks"][0]["ap"].as_f64().expect("a number")
}
