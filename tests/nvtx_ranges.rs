//! NVTX ranges of the real daemon, counted by a tool of our own (`nvtx/counter.c`) without nsys: as many as frames and
//! batches, and as many as `--stats` tells.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::daemon::{Setup, finish, stderr};

/// Frames of each of the two sources.
const FRAMES: u64 = 25;

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
    let counts = setup.path("counts");
    let stats = setup.path("stats.json");
    let output = finish(
        setup
            .command("run")
            .arg("--stats")
            .arg(&stats)
            .env("NVTX_INJECTION64_PATH", build(setup.folder.path()))
            .env("NVTX_COUNTS", &counts),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let text = fs::read_to_string(&counts).expect("the tool was asked for");
    let mut pushed = BTreeMap::new();
    let mut others = BTreeMap::new();
    let mut threads = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["push", name, count, _] => {
                pushed.insert((*name).to_owned(), count.parse::<u64>().expect("a count"));
            }
            ["thread", ..] => threads.push(line["thread ".len()..].to_owned()),
            [name, count] => {
                others.insert(*name, count.parse::<u64>().expect("a count"));
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(others["pop"], pushed.values().sum::<u64>(), "{text}");
    assert_eq!(others["unbalanced"], 0, "{text}");

    let stats: Value =
        serde_json::from_slice(&fs::read(&stats).expect("statistics")).expect("JSON");
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
