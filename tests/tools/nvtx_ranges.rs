// SPDX-License-Identifier: Apache-2.0
//! NVTX ranges of the real daemon, counted by a tool of our own (`nvtx/counter.c`) without nsys: as many as frames and
//! batches, and as many as `--stats` reports.

use crate::support;
use crate::support::classifier;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use classifier::{keys, network, write_model};
use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_telemetry::{Stage, push_range};
use serde_json::Value;
use support::clips;
use support::collector::{Collector, config};
use support::daemon::{Setup, exits, stderr};

/// Frames of each of the two sources.
const FRAMES: u64 = 25;

/// Frames of a clip.
const CLIP: u32 = 100;

/// Builds the tool into `folder`.
fn build(folder: &Path) -> std::path::PathBuf {
    let library = folder.join("libcounter.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvtx/counter.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([&library, &source])
        .arg("-lpthread")
        .status()
        .expect("a C compiler; `.ci/setup build` installs it");
    assert!(built.success());
    library
}

/// Counts of the tool.
struct Counts {
    /// All of it.
    text: String,
    /// Ranges of a thread, by name.
    pushed: BTreeMap<String, u64>,
    /// Those that were started and ended across threads.
    across: BTreeMap<String, (u64, u64)>,
    others: BTreeMap<String, u64>,
    threads: Vec<String>,
}

impl Counts {
    /// From the tool's file.
    fn read(counts: &Path) -> Self {
        let text = fs::read_to_string(counts).expect("the tool was asked for");
        let mut found = Counts {
            text: text.clone(),
            pushed: BTreeMap::new(),
            across: BTreeMap::new(),
            others: BTreeMap::new(),
            threads: Vec::new(),
        };
        let number = |text: &str| text.parse::<u64>().expect("a count");
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["push", name, count, _] => {
                    found.pushed.insert((*name).to_owned(), number(count));
                }
                ["start", name, started, ended] => {
                    let both = (number(started), number(ended));
                    found.across.insert((*name).to_owned(), both);
                }
                ["thread", ..] => found.threads.push(line["thread ".len()..].to_owned()),
                [name, count] => {
                    found.others.insert((*name).to_owned(), number(count));
                }
                _ => panic!("{line}"),
            }
        }
        found
    }
}

/// Runs the daemon to its end with these `options`; returns its statistics and the counts of the tool.
fn count(setup: &Setup, options: &[&str]) -> (Value, Counts) {
    let (counts, stats) = (setup.path("counts"), setup.path("stats.json"));
    exits(
        0,
        setup
            .command("run")
            .args(options)
            .arg("--stats")
            .arg(&stats)
            .env("NVTX_INJECTION64_PATH", build(setup.folder.path()))
            .env("NVTX_COUNTS", &counts),
    );
    let stats = fs::read(&stats).expect("statistics");
    let stats = serde_json::from_slice(&stats).expect("JSON");
    (stats, Counts::read(&counts))
}

/// Clips of two coders: one whose decoder works on several images at once, one whose decoder gives each at once. NVTX looks
/// for a tool when it is first called, so that the test starts itself again with one.
#[test]
fn decoding_and_scaling_in_elements_are_ranges_too() {
    const NAME: &str = "nvtx_ranges::decoding_and_scaling_in_elements_are_ranges_too";
    const CLIP_AT: &str = "JETWATCH_TEST_CLIP";
    if let Some(clip) = std::env::var_os(CLIP_AT) {
        return decode(Path::new(&clip));
    }
    type Make = fn(&Path, &str, u32, u32, u32) -> std::path::PathBuf;
    let clips: [(Make, &str); 2] = [(clips::mp4, "a.mp4"), (clips::mjpeg, "a.avi")];
    for (make, name) in clips {
        let folder = tempfile::tempdir().expect("a folder");
        let counts = folder.path().join("counts");
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", NAME])
            .env(CLIP_AT, make(folder.path(), name, 320, 240, CLIP))
            .env("NVTX_INJECTION64_PATH", build(folder.path()))
            .env("NVTX_COUNTS", &counts)
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let counts = Counts::read(&counts);
        for stage in ["video_decode_stay", "scale_stay"] {
            let (started, ended) = counts.across[stage];
            // The elements are counted from the first image on; by then a decoder may have output some more.
            let all = u64::from(CLIP);
            assert!(
                started == ended && (all / 2..all).contains(&started),
                "{name}: {}",
                counts.text
            );
        }
        // Each image is in one part of the decoder's work at least: before and behind the push of its output.
        for stage in ["video_decode", "scale"] {
            assert!(
                counts.pushed[stage] >= u64::from(CLIP / 2),
                "{name}: {}",
                counts.text
            );
        }
        let pushed: u64 = counts.pushed.values().sum();
        assert_eq!(counts.others["pop"], pushed, "{}", counts.text);
        assert_eq!(counts.others["unbalanced"], 0, "{}", counts.text);
        assert_eq!(counts.pushed["own_step"], 2, "{name}: {}", counts.text);
        // The thread that decodes is named after its source and stage.
        let thread = "cam:video_decode".to_owned();
        assert!(counts.threads.contains(&thread), "{name}: {}", counts.text);
    }
}

/// Receives all frames of a clip, and checks the counts.
fn decode(clip: &Path) {
    for _ in 0..2 {
        drop(push_range("own_step"));
    }
    let uri = SourceUri::File(clip.to_owned());
    let collector = Collector::start(&config(uri), usize::MAX);
    let recorder = collector.recorder.clone();
    let (frames, result) = collector.join();
    result.expect("the file is sound");
    assert_eq!(frames.len(), CLIP as usize);
    let summary = recorder.summary();
    for (work, stay) in [
        (Stage::VideoDecode, Stage::VideoDecodeStay),
        (Stage::Scale, Stage::ScaleStay),
    ] {
        let all = u64::from(CLIP);
        let times = summary.stage(work);
        assert!((all / 2..=all).contains(&times.count), "{times:?}");
        assert!(
            times.cpu_ms.is_some_and(|cpu| cpu > 0.0) && times.busy_ms == Some(times.total_ms),
            "{times:?}"
        );
        let times = summary.stage(stay);
        assert_eq!((times.cpu_ms, times.busy_ms), (None, None), "{times:?}");
        assert!((all / 2..all).contains(&times.count), "{times:?}");
        assert!(
            times.max_ms > 0.0 && times.items == times.count,
            "{times:?}"
        );
    }
}

#[test]
fn cpu_time_of_decoding_includes_the_threads_of_the_codec() {
    let folder = tempfile::tempdir().expect("a folder");
    let clip = folder.path().join("noise.mp4");
    clips::gst_launch(&format!(
        "videotestsrc num-buffers=120 pattern=snow ! video/x-raw,format=I420,width=640,height=360,framerate=30/1 \
         ! x264enc speed-preset=ultrafast bitrate=20000 ! mp4mux ! filesink location={}",
        clip.display()
    ));
    let cpu = [1, 4].map(|decoder_threads| {
        let config = SourceConfig {
            decoder_threads,
            ..config(SourceUri::File(clip.clone()))
        };
        let collector = Collector::start(&config, usize::MAX);
        let recorder = collector.recorder.clone();
        let (_, result) = collector.join();
        result.expect("the file is sound");
        let summary = recorder.summary();
        let decode = summary.stage(Stage::VideoDecode);
        decode.cpu_ms.expect("the CPU decodes") / decode.count as f64
    });
    // The thread that pushes images into a decoder with four threads of its own does a tenth of the work.
    assert!(cpu[1] > 0.4 * cpu[0], "{cpu:?} ms an image");
}

#[test]
fn nvtx_range_counts_equal_frames_and_batches() {
    let mut yaml = "device: test\nsources:\n".to_owned();
    for seed in [1, 2] {
        yaml.push_str(&format!(
            "  - name: cam{seed}\n    uri: synthetic://traffic?seed={seed}&objects=3&width=160&height=120&fps=100&frames={FRAMES}&realtime=false\n"
        ));
    }
    yaml.push_str(
        "detector: {backend: scripted, workers: 2, batch_size: 4}\npublish: {mqtt: off, json_lines: {path: events.jsonl}}\n",
    );
    let setup = Setup::new(&yaml);
    let (stats, counts) = count(&setup, &[]);
    let Counts {
        text,
        pushed,
        others,
        threads,
        ..
    } = counts;
    assert_eq!(others["pop"], pushed.values().sum::<u64>(), "{text}");
    assert_eq!(others["unbalanced"], 0, "{text}");

    assert_eq!(stats["frames"], 2 * FRAMES);
    for stage in ["source", "track", "publish"] {
        assert_eq!(pushed[stage], 2 * FRAMES, "{stage}: {text}");
    }
    // Each batch has one range of the network; a batch has one frame or more.
    let batches = pushed["infer"];
    assert!(
        (2 * FRAMES).div_ceil(4) <= batches && batches <= 2 * FRAMES,
        "{text}"
    );
    // Each of the two detectors waits once more, without a frame.
    assert_eq!(pushed["batch"], batches + 2, "{text}");
    for stage in stats["stages"].as_array().expect("stages") {
        let name = stage["stage"].as_str().expect("a name");
        // Statistics leave out the waits that ended without a frame.
        let ended_empty = if name == "batch" { 2 } else { 0 };
        assert_eq!(stage["count"], pushed[name] - ended_empty, "{name}: {text}");
    }
    assert!(threads.len() >= 4, "{text}");
}

/// The numbers of a stage in the statistics.
fn stage<'s>(stats: &'s Value, name: &str) -> &'s Value {
    let stages = stats["stages"].as_array().expect("stages");
    let found = stages.iter().find(|stage| stage["stage"] == name);
    found.unwrap_or_else(|| panic!("{name} is missing: {stats:#}"))
}

#[test]
fn drawn_frames_have_nvtx_ranges() {
    // With one source, every frame is an image of the file; with another one, images are fewer.
    for sources in [1, 2] {
        let mut yaml = "device: test\nsources:\n".to_owned();
        for seed in 1..=sources {
            yaml.push_str(&format!(
                "  - name: cam{seed}\n    uri: synthetic://traffic?seed={seed}&objects=3&width=160&height=120&fps=50&frames={FRAMES}\n"
            ));
        }
        yaml.push_str("detector: {backend: scripted}\npublish: {mqtt: off, json_lines: {path: events.jsonl}}\n");
        let setup = Setup::new(&yaml);
        let video = setup.path("out.mkv");
        let video = video.to_str().expect("a plain path");
        let (stats, Counts { text, pushed, .. }) = count(&setup, &["--record", video]);
        let recording = &stats["recording"];
        assert!(recording["frames"].as_u64() > Some(0), "{recording}");
        for (name, counted) in [("render", "frames"), ("encode", "images")] {
            assert_eq!(pushed[name], recording[counted], "{name}: {text}");
            assert_eq!(stage(&stats, name)["count"], recording[counted], "{stats}");
        }
        assert_eq!(pushed["record_frame"], recording["frames"], "{text}");
    }
}

#[test]
fn crop_batches_have_nvtx_ranges() {
    needs_onnx_runtime!();
    let setup = Setup::new(&format!(
        "sources: [{{name: cam, uri: 'synthetic://traffic?seed=5&objects=12&width=320&height=180&fps=30&frames={FRAMES}'}}]\n\
         detector: {{backend: scripted, batch_size: 2}}\n\
         publish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n\
         secondary: [{{name: light, model: bright, batch_size: 4, workers: 2, min_object: 6x6, reinfer_interval: 2}}]\n"
    ));
    write_model(&setup.path("bright"), &network(None, 16), &keys(16));
    let (stats, Counts { text, pushed, .. }) = count(&setup, &[]);
    let light = &stats["secondary"][0];
    assert!(light["crops"].as_u64() > Some(0), "{light}");
    assert_eq!(light["batch_size"], 4);
    assert_eq!(pushed["secondary"], light["batches"], "{text}");
    // Each of the two workers waits once more, without a crop.
    let waits = light["batches"].as_u64().expect("a number") + 2;
    assert_eq!(pushed["secondary_wait"], waits, "{text}");
    assert_eq!(pushed["secondary_batch"], waits, "{text}");
    for name in ["secondary", "secondary_wait"] {
        let counted = stage(&stats, name);
        assert_eq!(counted["count"], light["batches"], "{counted}");
        assert_eq!(counted["items"], light["crops"], "{counted}");
    }
    // Inside of a batch of crops, no range is named like the primary detector's.
    assert_eq!(pushed["infer"], stage(&stats, "infer")["count"], "{text}");
}
