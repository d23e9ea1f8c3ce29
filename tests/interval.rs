//! Frames that skip the network, with the real binary: all of them come through, in order, with their tracks, and the tracks
//! lie where the truth says.

mod support;

use std::fs;

use jetwatch::accuracy::{ClearMot, ClearMotCounter, Hypothesis, KnownObject};
use jetwatch::config::{Pace, SyntheticScene};
use jetwatch::source::scene::Scene;
use serde_json::Value;
use support::daemon::{Setup, finish, json_lines, stderr};

const FRAMES: u64 = 300;

/// A run over one scene: its messages about frames, and its numbers.
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
  json_lines: {{path: frames.jsonl}}
"
    ));
    let mut command = setup.command("run");
    let output = finish(command.arg("--stats").arg(setup.path("stats.json")));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let stats = fs::read(setup.path("stats.json")).expect("the report was written");
    let lines = json_lines(&setup.path("frames.jsonl"));
    let frames = lines
        .into_iter()
        .filter(|line| line["kind"] == "detections");
    (
        frames.collect(),
        serde_json::from_slice(&stats).expect("JSON"),
    )
}

/// The tracks of the messages against the truth about the scene.
fn judge(frames: &[Value]) -> ClearMot {
    let mut scene = Scene::new(&SyntheticScene {
        seed: 5,
        objects: 6,
        width: 320,
        height: 180,
        fps: 30,
        frames: Some(FRAMES),
        pace: Pace::AsFast,
    });
    let mut counter = ClearMotCounter::new(0.5);
    for (index, frame) in (0..).zip(frames) {
        let truth = scene.truth(index);
        let objects: Vec<_> = truth
            .iter()
            .map(|object| KnownObject {
                id: object.id,
                class: 0,
                xyxy: object.xyxy,
                ignored: object.visible < 0.3,
            })
            .collect();
        let tracks = frame["tracks"].as_array().expect("a list");
        let seen = tracks.iter().filter(|track| track["state"] == "active");
        let tracks: Vec<_> = seen
            .map(|track| Hypothesis {
                id: track["track_id"].as_u64().expect("a number"),
                class: 0,
                xyxy: std::array::from_fn(|edge| {
                    track["box"][edge].as_f64().expect("a number") as f32
                }),
            })
            .collect();
        counter.frame(&objects, &tracks);
    }
    counter.counts()
}

#[test]
fn every_frame_comes_through_in_order_and_a_quarter_through_the_network() {
    let (frames, stats) = run("3", "iou");
    let numbers: Vec<_> = frames
        .iter()
        .map(|frame| frame["frame"]["seq"].as_u64())
        .collect();
    assert_eq!(numbers, (0..FRAMES).map(Some).collect::<Vec<_>>());
    let source = &stats["sources"][0];
    assert_eq!(
        (source["frames"].as_u64(), source["detected"].as_u64()),
        (Some(FRAMES), Some(FRAMES)),
        "{stats}"
    );
    let carried = source["carried"].as_u64().expect("a number");
    // The first is always drawn, and the turns begin behind it.
    assert_eq!(carried, FRAMES - 1 - (FRAMES - 1).div_ceil(4), "{stats}");
    let infer = stats["stages"].as_array().expect("a list");
    let infer = infer
        .iter()
        .find(|stage| stage["stage"] == "infer")
        .expect("it ran");
    assert_eq!(infer["items"].as_u64(), Some(FRAMES - carried), "{stats}");
}

#[test]
fn carried_tracks_stay_within_three_points_of_those_that_are_always_seen() {
    let [all, carried] = ["0", "3"].map(|interval| judge(&run(interval, "iou").0));
    let [all, carried] = [all, carried].map(|counts| counts.mota().expect("objects"));
    assert!(all > 0.85, "{all}");
    assert!(
        carried >= all - 0.03,
        "{carried} with an interval of 3, {all} without"
    );
}
