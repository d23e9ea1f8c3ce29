// SPDX-License-Identifier: Apache-2.0
//! The stage that limits a real run in which one stage is slow on purpose: verdict, critical path, and who waits for whom name it
//! in a profile of Nsight Systems, and the verdict of `jetwatch bench` names it without one.
//!
//! The profiles are for `make nsys-test`, which installs nsys and asks for them; the benchmarks need none.

use crate::report_limits::{named, verdict};
use crate::support;

use std::fs;
use std::path::Path;

use support::classifier;
use support::clips::{self, gst_launch};
use support::daemon::{Setup, finish, stderr};
use support::onnx_file::TinyNetwork;

/// A run: its name, the stage that limits it, and its configuration without what is published.
struct Case {
    name: &'static str,
    limit: &'static str,
    yaml: String,
    /// Whether it runs a network, so that it needs ONNX Runtime.
    needs_network: bool,
    /// Whether a timeline does not show the work, so that only a benchmark names it.
    without_timeline: bool,
}

/// An image size that takes long to decode, and one that does not.
const LARGE: &str = "width=1280,height=720";
const SMALL: &str = "width=320&height=180";

/// Motion JPEG and H.264 of noise: nothing takes longer to decode.
fn write_clips(folder: &Path) {
    for (encoder, name) in [
        ("jpegenc quality=90 ! avimux", "jpeg.avi"),
        (
            "x264enc speed-preset=ultrafast bitrate=60000 ! mp4mux",
            "h264.mp4",
        ),
    ] {
        gst_launch(&format!(
            "videotestsrc num-buffers=45 pattern=snow ! video/x-raw,format=I420,{LARGE},framerate=30/1 ! {encoder} ! filesink location={}",
            folder.join(name).display()
        ));
    }
}

/// A network for 96×64 pixels that takes no time, and finds nothing.
fn write_fast_network(folder: &Path) {
    let network = TinyNetwork::yolox(Some(1), &[]);
    let keys = "input: {name: images, width: 96, height: 64, color: bgr, letterbox: {value: 0, placement: top_left}}\n\
                output: {layout: yolox, name: output}\nlabels: [person, car]\n";
    classifier::write_model(folder, &network.bytes(), keys);
}

fn source(name: &str, uri: &str, keys: &str) -> String {
    format!("  - {{name: {name}, uri: '{uri}'{keys}}}\n")
}

fn cases(folder: &Path) -> Vec<Case> {
    let clip = |name: &str| folder.join(name).display().to_string();
    let scene = |seed: u32, rest: &str| format!("synthetic://traffic?seed={seed}&{SMALL}&{rest}");
    let case = |name, limit, sources: Vec<String>, rest: &str| Case {
        name,
        limit,
        yaml: format!("sources:\n{}{rest}", sources.concat()),
        needs_network: rest.contains("backend: onnx"),
        without_timeline: false,
    };
    let still = |image: &str| {
        format!("launch:videotestsrc num-buffers=1 ! video/x-raw,framerate=30/1,{image}")
    };
    let scripted = "detector: {backend: scripted}\n";
    write_fast_network(&folder.join("fast"));
    let onnx = |keys: &str| {
        let model = folder.join("fast").display().to_string();
        format!("detector: {{backend: onnx, model: {model}{keys}}}\n")
    };
    clips::mp4(folder, "small.mp4", 320, 240, 60);
    let street_nano = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");
    let slow = format!("detector: {{backend: onnx, model: {street_nano}, workers: 1}}\n");
    let decode_keys = ", loop: true, decoder_threads: 1";
    #[rustfmt::skip]
    let mut cases = vec![
        case(
            "camera of 15 frames/s",
            "input",
            vec![source(
                "a",
                "launch:videotestsrc is-live=true ! video/x-raw,width=320,height=240,framerate=15/1",
                "",
            )],
            &onnx(""),
        ),
        case(
            "launch line with a slow element",
            "input",
            vec![source(
                "a",
                "launch:videotestsrc ! video/x-raw,width=320,height=240,framerate=30/1 ! identity sleep-time=100000",
                "",
            )],
            &onnx(""),
        ),
        case(
            "drawn cameras, two workers",
            "input",
            vec![
                source("a", &scene(1, "fps=10"), ""),
                source("b", &scene(2, "fps=10"), ""),
            ],
            "detector: {backend: scripted, workers: 2}\n",
        ),
        case("file of JPEG images", "video_decode", vec![source("a", &clip("jpeg.avi"), decode_keys)], &onnx("")),
        case("file of H.264, two workers", "video_decode", vec![source("a", &clip("h264.mp4"), decode_keys)], &onnx(", workers: 2")),
        case(
            "files of JPEG and H.264",
            "video_decode",
            vec![
                source("a", &clip("jpeg.avi"), decode_keys),
                source("b", &clip("h264.mp4"), decode_keys),
            ],
            &onnx(", workers: 2"),
        ),
        case("large images, scaled by elements", "scale", vec![source("a", &still("format=NV12,width=3840,height=2160 ! imagefreeze ! videoscale ! video/x-raw,width=1920,height=1080"), "")], &onnx("")),
        case("large images, scaled by jetwatch", "scale", vec![source("a", &still("format=I420,width=2560,height=1440 ! imagefreeze"), "")], &onnx("")),
        case("large images, drawn", "source", vec![source("a", "synthetic://traffic?width=1920&height=1080&realtime=false", "")], scripted),
        case(
            "slow network on a file",
            "infer",
            vec![source("a", &scene(1, "realtime=false"), "")],
            "detector: {backend: scripted, scripted: {frame_time_ms: 80}}\n",
        ),
        case(
            "slow network on files, two workers, batches",
            "infer",
            vec![
                source("a", &scene(1, "realtime=false"), ""),
                source("b", &scene(2, "realtime=false"), ""),
            ],
            "detector: {backend: scripted, workers: 2, batch_size: 4, scripted: {frame_time_ms: 60}}\n",
        ),
        case(
            "slow network on a camera, drops",
            "infer",
            vec![source("a", &scene(1, "fps=60"), "")],
            "detector: {backend: scripted, scripted: {frame_time_ms: 40}}\n",
        ),
        case("slow network on a decoded file", "infer", vec![source("a", &clip("small.mp4"), decode_keys)], &slow),
    ];
    // Crops of all objects in each frame, each a batch of a network with large images.
    let side = 1024;
    classifier::write_model(
        &folder.join("slow"),
        &classifier::network(None, side),
        &classifier::keys(side),
    );
    cases.push(Case {
        name: "secondary network that drops crops",
        limit: "secondary",
        yaml: format!(
            "sources:\n{}{scripted}secondary: [{{name: light, model: {}, batch_size: 1, min_object: 6x6, reinfer_interval: 1}}]\n",
            source("a", &scene(5, "objects=12&fps=30"), ""),
            folder.join("slow").display()
        ),
        needs_network: true,
        without_timeline: false,
    });
    cases.push(Case {
        without_timeline: true,
        ..case(
            "launch line with work on a thread of its own",
            "source",
            vec![source(
                "a",
                "launch:videotestsrc pattern=snow ! video/x-raw,format=GRAY8,width=1920,height=1080,framerate=30/1 ! queue ! \
                 videoscale method=nearest-neighbour ! video/x-raw,width=320,height=180",
                "",
            )],
            &onnx(""),
        )
    });
    cases
}

/// The configuration of a case; messages go into a file.
fn setup(case: &Case) -> Setup {
    Setup::new(&format!(
        "device: test\n{}publish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n",
        case.yaml
    ))
}

/// Whether a case cannot run here; says so.
fn is_skipped(case: &Case) -> bool {
    let has_runtime = std::env::var_os("ORT_DYLIB_PATH").is_some_and(|path| !path.is_empty());
    let skipped = case.needs_network && !has_runtime;
    if skipped {
        eprintln!("skipped: {}: ORT_DYLIB_PATH is not set", case.name);
    }
    skipped
}

/// Runs all cases by `run`, of a profile those with a timeline, and fails with those that do not name their stage.
fn check(is_profile: bool, run: impl Fn(&Case) -> Result<Vec<String>, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    write_clips(folder.path());
    let mut wrong = Vec::new();
    for case in cases(folder.path()) {
        if is_skipped(&case) || is_profile && case.without_timeline {
            continue;
        }
        match run(&case) {
            Ok(found) if found.iter().all(|stage| stage == case.limit) => {
                println!("{}: {}", case.name, case.limit);
            }
            found => wrong.push(format!(
                "{}: expected {}, found {found:?}",
                case.name, case.limit
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn bench_names_the_stage_that_limits() {
    check(false, |case| {
        let setup = setup(case);
        let output = finish(
            setup
                .command("bench")
                // In a shorter time, one wait for a core outweighs all stages.
                .args(["--duration", "4s", "--warmup", "3", "--output"])
                .arg(setup.path("out")),
        );
        if !output.status.success() {
            return Err(stderr(&output));
        }
        let found = verdict(&setup.path("out/benchmark.json"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The same words stand below the table of the run.
        let is_told = found["Finding"]
            .as_str()
            .is_some_and(|words| text.contains(words));
        if text.contains("which stage limits is not measurable") {
            return Ok(Vec::new());
        }
        match found["Limiting Stage"].as_str().filter(|_| is_told) {
            Some(stage) => Ok(vec![stage.to_owned()]),
            None => Err(format!("{found}\n{text}")),
        }
    });
}

#[test]
fn profiles_name_the_stage_that_limits() {
    if std::env::var_os("JETWATCH_TEST_NSYS").is_none() {
        eprintln!("skipped: `make nsys-test` asks for it");
        return;
    }
    check(true, |case| {
        let setup = setup(case);
        // Its own processes do not always find each other at the start, which `jetwatch profile` knows.
        let output = finish(
            setup
                .command("profile")
                .args(["--trace", "nvtx", "--sampling", "off", "--duration", "4s"])
                .args(["--fetch-only", "--output"])
                .arg(setup.path("real")),
        );
        if !output.status.success() {
            return Err(stderr(&output));
        }
        // The profile alone is judged.
        fs::remove_file(setup.path("real.stats.json")).expect("statistics of the run");
        named(&setup.path("real.nsys-rep")).map(|found| found.to_vec())
    });
}
