//! NVTX ranges of the real daemon, counted by a tool of our own (`nvtx/counter.c`) without nsys: as many as frames and
//! batches, and as many as `--stats` tells.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use jetwatch::config::SourceUri;
use jetwatch::telemetry::Stage;
use serde_json::Value;
use support::clips;
use support::collector::{Collector, config};
use support::daemon::{Setup, finish, stderr};

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

/// What the tool counted.
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

/// Runs the daemon to its end; gives its statistics and what the tool counted.
fn count(setup: &Setup) -> (Value, Counts) {
    let (counts, stats) = (setup.path("counts"), setup.path("stats.json"));
    let output = finish(
        setup
            .command("run")
            .arg("--stats")
            .arg(&stats)
            .env("NVTX_INJECTION64_PATH", build(setup.folder.path()))
            .env("NVTX_COUNTS", &counts),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let stats = fs::read(&stats).expect("statistics");
    let stats = serde_json::from_slice(&stats).expect("JSON");
    (stats, Counts::read(&counts))
}

/// Clips of two coders: one whose decoder works on several pictures at once, one whose decoder gives each at once. NVTX looks
/// for a tool when it is first called, so that the test starts itself again with one.
#[test]
fn decoding_and_scaling_in_elements_are_ranges_too() {
    const NAME: &str = "decoding_and_scaling_in_elements_are_ranges_too";
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
        for stage in ["video_decode", "scale"] {
            let (started, ended) = counts.across[stage];
            // The elements are looked at when the first picture has come; by then a decoder may have given some more.
            let all = u64::from(CLIP);
            assert!(
                started == ended && (all / 2..all).contains(&started),
                "{name}: {}",
                counts.text
            );
        }
        assert_eq!(counts.others["unbalanced"], 0, "{}", counts.text);
    }
}

/// Takes every frame of a clip, and looks at what was counted of it.
fn decode(clip: &Path) {
    let uri = SourceUri::File(clip.to_owned());
    let collector = Collector::start(&config(uri), usize::MAX);
    let recorder = collector.recorder.clone();
    let (frames, result) = collector.join();
    result.expect("the file is sound");
    assert_eq!(frames.len(), CLIP as usize);
    let summary = recorder.summary();
    for stage in [Stage::VideoDecode, Stage::Scale] {
        let times = summary.stage(stage);
        let all = u64::from(CLIP);
        assert!((all / 2..all).contains(&times.count), "{times:?}");
        assert!(
            times.max_ms > 0.0 && times.items == times.count,
            "{times:?}"
        );
    }
}

#[test]
fn ranges_are_as_many_as_frames_and_batches() {
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
    let (stats, counts) = count(&setup);
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
    // Each batch has one range of the network, between so many frames at once and one.
    let batches = pushed["infer"];
    assert!(
        (2 * FRAMES).div_ceil(4) <= batches && batches <= 2 * FRAMES,
        "{text}"
    );
    // Each of the two detectors waits once more, and learns that nothing comes.
    assert_eq!(pushed["batch"], batches + 2, "{text}");
    for stage in stats["stages"].as_array().expect("stages") {
        let name = stage["stage"].as_str().expect("a name");
        // Statistics leave out the waits that ended without a frame.
        let ended_empty = if name == "batch" { 2 } else { 0 };
        assert_eq!(stage["count"], pushed[name] - ended_empty, "{name}: {text}");
    }
    assert!(threads.len() >= 4, "{text}");
}
