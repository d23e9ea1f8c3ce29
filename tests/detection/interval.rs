// SPDX-License-Identifier: Apache-2.0
//! Skipped frames, with the real binary: all of them are published, in order. Where their tracks are is tested in `camera_motion`, and
//! for each tracker in `interval_trackers`.

use crate::support;

use serde_json::Value;
use support::clips;
use support::daemon::{Setup, exits, start, terminate, wait_until_some};

const FRAMES: u64 = 300;

/// Video has no ground truth for the scripted detector.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

/// A run over one scene: its messages about frames, and its statistics.
fn run(interval: &str, tracker: &str) -> (Vec<Value>, Value) {
    let setup = Setup::new(&format!(
        "device: test
sources:
  - name: cam
    uri: synthetic://traffic?seed=5&objects=6&width=320&height=180&fps=30&frames={FRAMES}&realtime=false
detector:
  backend: scripted
  workers: 2
  interval: {interval}
  scripted: {{min_visible: 0.3, jitter: 0.02, miss_rate: 0.02}}
tracker: {{type: {tracker}}}
publish:
  mqtt: off
  detections: true
  json_lines: {{path: events.jsonl}}
"
    ));
    let mut command = setup.command("run");
    exits(0, command.arg("--stats").arg(setup.path("stats.json")));
    (setup.lines_of("detections"), setup.json("stats.json"))
}

#[test]
fn all_frames_are_output_in_order_and_quarter_is_inferred() {
    let (frames, stats) = run("3", "iou");
    let numbers = frames.iter().map(|frame| frame["frame"]["seq"].as_u64());
    let numbers: Vec<_> = numbers.collect();
    assert_eq!(numbers, (0..FRAMES).map(Some).collect::<Vec<_>>());
    let source = &stats["sources"][0];
    let found = (source["frames"].as_u64(), source["detected"].as_u64());
    assert_eq!(found, (Some(FRAMES), Some(FRAMES)), "{stats}");
    let skipped = source["skipped"].as_u64().expect("a number");
    // The first frame is always inferred, and the rounds start after it.
    assert_eq!(skipped, FRAMES - 1 - (FRAMES - 1).div_ceil(4), "{stats}");
    let infer = stats["stages"].as_array().expect("a list");
    let infer = infer
        .iter()
        .find(|stage| stage["stage"] == "infer")
        .expect("it ran");
    assert_eq!(infer["items"].as_u64(), Some(FRAMES - skipped), "{stats}");
}

#[test]
fn skipped_frames_are_not_scaled_but_recorded() {
    needs_onnx_runtime!();
    let setup = Setup::new(&format!(
        "device: test
sources: [{{name: cam, uri: clip.mp4}}]
detector:
  backend: onnx
  model: {MODEL}
  interval: 3
publish:
  mqtt: off
  detections: true
  json_lines: {{path: events.jsonl}}
"
    ));
    clips::mp4(setup.folder.path(), "clip.mp4", 320, 180, 80);
    let mut command = setup.command("run");
    command.arg("--record").arg(setup.path("out.mp4"));
    exits(0, command.arg("--stats").arg(setup.path("stats.json")));
    let stats = setup.json("stats.json");
    let reported = setup.lines_of("detections").into_iter();
    let numbers = reported.filter_map(|frame| frame["frame"]["seq"].as_u64());
    let numbers: Vec<_> = numbers.collect();
    assert_eq!(numbers.len(), 80, "{stats}");
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let source = &stats["sources"][0];
    let through = 80 - source["skipped"].as_u64().expect("a number");
    // The first, and one of each four that follow.
    assert_eq!(through, 1 + 79_u64.div_ceil(4), "{stats}");
    let stages = stats["stages"].as_array().expect("a list");
    let read = stages.iter().find(|stage| stage["stage"] == "source");
    let scaled = &read.expect("frames were read")["items"];
    assert_eq!(scaled.as_u64(), Some(through), "{stats}");
    assert_eq!(stats["recording"]["frames"].as_u64(), Some(80), "{stats}");
}

/// The sources of a `stats` message.
fn source_values(stats: &Value, key: &str) -> Vec<u64> {
    let sources = stats["sources"].as_array().expect("a list").iter();
    let numbers = sources.map(|source| source[key].as_u64().expect("a number"));
    numbers.collect()
}

#[test]
fn adaptive_interval_rises_for_all_sources_and_is_reported() {
    // Four sources of 25 frames/s, of which the detector can serve 20 frames/s in all.
    let sources: String = (0..4)
        .map(|n| {
            format!(
                "  - {{name: cam{n}, uri: \"synthetic://traffic?seed={n}&objects=3&width=160&height=96&fps=25\"}}\n"
            )
        })
        .collect();
    let setup = Setup::new(&format!(
        "device: test
sources:
{sources}detector:
  backend: scripted
  workers: 1
  batch_size: 1
  interval: adaptive
  max_interval: 8
  scripted: {{frame_time_ms: 50}}
publish:
  mqtt: off
  stats_interval_s: 1
  json_lines: {{path: events.jsonl}}
"
    ));
    let mut command = setup.command("run");
    let child = start(command.arg("--stats").arg(setup.path("stats.json")));
    let reported = || setup.lines_of("stats");
    let raised = wait_until_some("an interval of all sources", || {
        let last = reported().pop()?;
        let intervals = source_values(&last, "interval");
        let are_raised = intervals.len() == 4 && intervals.iter().all(|of_one| *of_one > 0);
        are_raised.then_some(last)
    });
    terminate(child);

    // One for all of them: all frames are too many.
    let intervals = source_values(&raised, "interval");
    assert_eq!(intervals, [intervals[0]; 4], "{raised}");
    assert!(intervals[0] <= 8, "{raised}");
    // The report equals the last message.
    let last = reported().pop().expect("one at the end");
    let report = setup.json("stats.json");
    let found = source_values(&report, "interval");
    assert_eq!(found, source_values(&last, "interval"));
    let found = source_values(&report, "skipped");
    assert_eq!(found, source_values(&last, "skipped_frames"));
    let (frames, skipped, gone): (u64, u64, u64) = (
        source_values(&report, "frames").iter().sum(),
        source_values(&report, "skipped").iter().sum(),
        source_values(&report, "dropped").iter().sum(),
    );
    let through: u64 = source_values(&report, "detected").iter().sum();
    // The queue may have been closed before the last frame of each.
    assert!(
        (through + gone..=through + gone + 4).contains(&frames),
        "{report}"
    );
    assert!(skipped > 0 && skipped < frames, "{report}");
}
