// SPDX-License-Identifier: Apache-2.0
//! `jetwatch facts` on a virtual Jetson, and `jetwatch check --offline`, which judges configurations by its facts.
//!
//! `UPDATE_GOLDEN=1 cargo nextest run --test tools -E 'test(/^facts::/)'` writes `tests/golden/facts_xavier_nx.json` again.

use crate::support::jetson_elements::JetsonElements;
use crate::support::project::root;
use crate::support::virtual_jetson::VirtualJetson;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// The facts of a Jetson Xavier NX with JetPack 5.1.2: those of the doubles, and what they do not have from [`given`].
fn golden() -> PathBuf {
    root().join("tests/golden/facts_xavier_nx.json")
}

fn jetwatch() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
    command.env_remove("RUST_LOG").env_remove("GST_DEBUG");
    command
}

/// The facts that differ from one test machine to the next, or that no double has.
fn given(facts: &mut Value) {
    let version = env!("CARGO_PKG_VERSION");
    facts["jetwatch"] = json!(version);
    facts["collected_at"] = json!("2026-11-26T12:00:00Z");
    facts["hostname"] = json!("gate");
    facts["architecture"] = json!("aarch64");
    facts["kernel"] = json!("5.10.120-tegra");
    facts["memory"] = json!({"total_bytes": 7_000_u64 << 20, "available_bytes": 4_000_u64 << 20});
    facts["gpu"] =
        json!({"found": {"name": "Xavier", "cuda": "11.4", "compute_capability": [7, 2]}});
    facts["tensorrt"] = json!({"found": {"version": "8.5.2", "path": "/usr/lib/aarch64-linux-gnu/libnvinfer.so.8"}});
    facts["onnxruntime"] = json!({"missing": "ONNX Runtime (libonnxruntime.so) was not found"});
    facts["gstreamer"]["found"]["version"] = json!("GStreamer 1.16.3");
    facts["gstreamer"]["found"]["h264_encoders"] = json!(["x264enc"]);
    let elements = facts["gstreamer"]["found"]["elements"].as_object_mut();
    for element in elements.expect("elements").values_mut() {
        element["version"] = json!("1.16.3");
    }
    facts["cameras"] = json!([{
        "device": "/dev/video0",
        "name": "A USB camera",
        "modes": {"found": [
            "video/x-raw, format=(string)YUY2, width=(int)640, height=(int)480, framerate=(fraction){ 30/1, 15/1 }",
            "image/jpeg, width=(int)1280, height=(int)720, framerate=(fraction)30/1",
        ]},
    }]);
    facts["disks"] = json!([
        {"mount": "/", "kind": "ext4", "total_bytes": 14_000_u64 << 20, "free_bytes": 2_000_u64 << 20},
        {"mount": "/run", "kind": "tmpfs", "total_bytes": 3_500_u64 << 20, "free_bytes": 3_400_u64 << 20},
    ]);
}

#[test]
fn facts_of_a_jetson_are_those_of_its_files_and_elements() {
    let jetson = VirtualJetson::xavier_nx();
    jetson.write(
        "/proc/device-tree/tegra-camera-platform/modules/module0/badge",
        "jakku_front_RBP194",
    );
    jetson.write(
        "/etc/passwd",
        "root:x:0:0::/root:/bin/sh\njetwatch:x:998:997::/:/usr/sbin/nologin\n",
    );
    jetson.write(
        "/etc/group",
        "video:x:44:jetwatch\nrender:x:109:jetwatch\njetwatch:x:997:\n",
    );
    jetson.write(
        "/proc/mounts",
        "none / tmpfs rw 0 0\nproc /proc proc rw 0 0\n",
    );
    let output = jetwatch()
        .args(["facts", "--root"])
        .arg(jetson.path("/"))
        .envs(JetsonElements::new().environment())
        .output()
        .expect("the binary starts");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let mut facts: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // What given() takes the place of is there.
    assert_eq!(facts["disks"][0]["mount"], "/");
    assert!(facts["disks"][0]["free_bytes"].as_u64() > Some(0));
    let gstreamer = facts["gstreamer"]["found"]["version"].as_str();
    assert!(gstreamer.is_some_and(|text| text.starts_with("GStreamer 1.")));
    given(&mut facts);
    let text = format!("{facts:#}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(golden(), &text).expect("written");
    }
    let wanted = fs::read_to_string(golden()).expect("the golden file");
    assert_eq!(text, wanted, "run this test with UPDATE_GOLDEN=1");
}

/// A configuration, what its judgement must contain, and whether it is accepted.
struct Case {
    yaml: &'static str,
    lines: &'static [&'static str],
    code: i32,
}

const DETECTOR: &str = "detector: {backend: scripted}";

fn check(yaml: &str, facts: &Value, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    };
    let config = path("gate.yaml", yaml);
    let facts = path("box.json", &facts.to_string());
    jetwatch()
        .args(["check", "--offline", "--facts"])
        .arg(facts)
        .args(arguments)
        .arg(config)
        .output()
        .expect("the binary starts")
}

fn facts() -> Value {
    let text = fs::read_to_string(golden()).expect("the golden file");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_configuration_is_judged_by_the_facts_of_the_box() {
    let model = root().join("models/street-nano");
    let model = model.display();
    for case in [
        Case {
            yaml: "sources: [{name: a, uri: 'v4l2:///dev/video0', format: mjpeg, width: 1280, height: 720, fps: 30}]\ndetector: {model: MODEL}",
            lines: &[
                "ok     machine: gate: Jetson Xavier NX (p3668-0001), L4T 35.4.1, JetPack 5.1.2 (aarch64)",
                "ok     detector: TensorRT 8.5.2 on Xavier\n",
                "ok     model: street-nano in int8\n",
                "unknown model: whether the box has the engine is not checked",
                "ok     GStreamer: GStreamer 1.16.3\n",
                "ok     source a: /dev/video0, A USB camera\n",
                "ok     plan a: capture by CPU (v4l2src); decode by NVJPG (nvv4l2decoder, if it is Motion JPEG)",
                "ok     memory: 4000 MiB of 7000 MiB were free\n",
                "ok     spool: max_bytes is 256 MiB, 2000 of 14000 MiB were free at /\n",
                "ok     user: jetwatch is in video and render\n",
                "unknown broker: not contacted",
            ],
            code: 0,
        },
        Case {
            yaml: "sources: [{name: a, uri: 'v4l2:///dev/video0', width: 1920, height: 1080}, {name: b, uri: 'v4l2:///dev/video2'}, \
                   {name: c, uri: 'csi://0'}, {name: d, uri: 'csi://1'}]\ndetector: {model: /no/model, backend: onnx}",
            lines: &[
                "wrong  detector: ONNX Runtime (libonnxruntime.so) was not found",
                "unknown model: /no/model is not on this machine: whether the box has it",
                "wrong  source a: /dev/video0: the camera does not offer 1920×1080, it offers: raw 640×480 at 30 or 15 frames/s; mjpeg \
                 1280×720 at 30 frames/s\n",
                "wrong  source b: the box has no /dev/video2, it has /dev/video0 (A USB camera)\n",
                "wrong  source d: the box has no sensor 1, its device tree has 1, numbered from 0: jakku_front_RBP194\n",
                "ok     plan c: capture by ISP (nvarguscamerasrc)",
            ],
            code: 1,
        },
        Case {
            yaml: "sources: [{name: a, uri: 'rtsp://camera/1'}]\ndetector: {model: MODEL, precision: fp64, backend: tensorrt, tensorrt: {dla: 2}}",
            lines: &[
                "wrong  detector: tensorrt.dla is 2, and Jetson Xavier NX has 2 DLA cores, numbered from 0\n",
                "wrong  model: model street-nano has no precision `fp64`",
                "unknown source a: not opened",
            ],
            code: 1,
        },
        Case {
            yaml: "sources: [{name: a, uri: 'rtsp://camera/1'}]\ndetector: {model: MODEL, precision: fp32, backend: tensorrt, tensorrt: {dla: 0}}",
            lines: &[
                "ok     detector: TensorRT 8.5.2 on Xavier, DLA core 0\n",
                "wrong  model: ",
            ],
            code: 1,
        },
        Case {
            yaml: "sources: [{name: a, uri: 'rtsp://camera/1'}]\ndetector: {model: MODEL, classes: [unicorn]}\n\
                   publish: {mqtt: {spool: {max_bytes: 20GiB}}}\nrecord: {continuous: {enabled: true}, retention: {min_free_bytes: 20GiB}}",
            lines: &[
                "wrong  spool: max_bytes is 20480 MiB, 2000 of 14000 MiB were free at /: lower publish.mqtt.spool.max_bytes\n",
                "20480 stay free by record.retention: nothing would be recorded\n",
            ],
            code: 1,
        },
        Case {
            yaml: "sources: [{name: a, uri: 'rtsp://camera/1', classes: [unicorn]}]\ndetector: {model: MODEL}\n\
                   publish: {mqtt: {spool: {max_bytes: 4GiB, state_folder: /run/spool}}}\n\
                   record: {clips: {enabled: true, ring_bytes: 1GiB}}",
            lines: &[
                "wrong  labels: ",
                "wrong  spool: /run/spool/jetwatch-",
                "it is a tmpfs",
                "ok     memory: 4000 MiB of 7000 MiB were free, 1024 are for record.clips.ring_bytes\n",
                "ok     record: /var/lib/jetwatch/media: 2000 of 14000 MiB were free at /",
            ],
            code: 1,
        },
    ] {
        let yaml = case.yaml.replace("MODEL", &model.to_string());
        let output = check(&yaml, &facts(), &[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        for line in case.lines {
            assert!(text.contains(line), "{yaml}: {line:?} is not in\n{text}");
        }
        assert_eq!(output.status.code(), Some(case.code), "{yaml}\n{text}");
    }
}

#[test]
fn what_the_box_lacks_is_named() {
    let yaml = format!("sources: [{{name: a, uri: 'synthetic://traffic'}}]\n{DETECTOR}\n");
    let fine = check(&yaml, &facts(), &[]);
    assert_eq!(fine.status.code(), Some(0), "{fine:?}");
    let camera = "sources: [{name: a, uri: 'v4l2:///dev/video0', decoder: hardware, record: {clips: true}}]\n\
                  detector: {model: /no/model, backend: tensorrt}\n";
    let mut lacking = facts();
    let gstreamer = &mut lacking["gstreamer"]["found"];
    gstreamer["version"] = json!("GStreamer 1.14.5");
    gstreamer["h264_encoders"] = json!([]);
    let elements = gstreamer["elements"].as_object_mut().expect("elements");
    elements.remove("v4l2src").expect("it was there");
    elements.remove("nvv4l2decoder").expect("it was there");
    elements.remove("nvjpegdec").expect("it was there");
    lacking["gpu"] = json!({"missing": "libcuda.so.1 was not found"});
    lacking["user"]["groups"] = json!(["video"]);
    lacking["memory"]["available_bytes"] = json!(100_u64 << 20);
    lacking["jetwatch"] = json!("0.0.1");
    lacking["disks"] = json!([]);
    let output = check(camera, &lacking, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_has!(text =>
        "unknown version: the box has jetwatch 0.0.1", "wrong  detector: TensorRT needs a GPU: libcuda.so.1 was not found\n",
        "wrong  GStreamer: GStreamer 1.14.5, expected 1.16 or newer\n",
        "wrong  element v4l2src: missing; install it with: sudo apt install gstreamer1.0-plugins-good\n", "wrong  plan a: ",
        "GStreamer element nvv4l2decoder is missing on the box; install it with: apt-get install nvidia-l4t-gstreamer",
        "wrong  source a: record keeps its video, but the box has no H.264 encoder",
        "wrong  memory: 100 MiB of 7000 MiB were free, 32 are for record.clips.ring_bytes, expected 432",
        "unknown spool: the facts have no file system for /var/lib/jetwatch/spool/",
        "wrong  user: jetwatch is not in render: sudo usermod -aG render jetwatch");
    assert_eq!(output.status.code(), Some(1), "{text}");
}

#[test]
fn facts_that_cannot_be_read_are_an_error() {
    let yaml = format!("sources: [{{name: a, uri: 'synthetic://traffic'}}]\n{DETECTOR}\n");
    let output = check(&yaml, &json!({"version": 9}), &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_has!(text => "box.json: found version 9, expected 1; write it again on the box");
    assert!(!output.status.success());
}

#[test]
fn without_a_file_the_facts_are_those_of_this_machine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("gate.yaml");
    let yaml = format!(
        "sources: [{{name: a, uri: 'synthetic://traffic'}}]\n{DETECTOR}\npublish: {{mqtt: off}}\n"
    );
    fs::write(&config, yaml).expect("written");
    let output = jetwatch()
        .args(["check", "--offline", "--config"])
        .arg(&config)
        .output()
        .expect("the binary starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_has!(text => "ok     detector: scripted\n", "memory: ");
    // One of the two ways to name the file.
    let both = jetwatch()
        .args(["check", "a.yaml", "--config", "b.yaml"])
        .output()
        .expect("the binary starts");
    assert_eq!(both.status.code(), Some(2));
}
