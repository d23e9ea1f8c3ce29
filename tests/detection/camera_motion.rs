// SPDX-License-Identifier: Apache-2.0
//! Tracks of a camera that shakes, with and without the estimate of its motion: the real program on drawn scenes, against their
//! ground truth. What the scripted detector sees is the same in both runs.

use crate::support;

use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_eval::{Metrics, TrackRow, TruthRow};
use jetwatch_traffic::scene::Scene;
use jetwatch_types::{TrackId, Xyxy};
use serde_json::Value;
use support::daemon::{Setup, exits};

const FRAMES: u64 = 100;
const MIN_VISIBLE: f32 = 0.3;

/// A run over one scene: its messages about frames.
fn run(seed: u64, shake: u32, interval: u32, tracker: &str) -> Vec<Value> {
    let setup = Setup::new(&format!(
        "device: test
sources:
  - name: cam
    uri: synthetic://traffic?seed={seed}&objects=8&width=640&height=360&fps=15&frames={FRAMES}&shake={shake}&realtime=false
detector:
  backend: scripted
  workers: 2
  interval: {interval}
  scripted: {{min_visible: {MIN_VISIBLE}, jitter: 0.03, miss_rate: 0.05}}
tracker: {{{tracker}}}
publish:
  mqtt: off
  detections: true
  json_lines: {{path: events.jsonl}}
"
    ));
    exits(0, &mut setup.command("run"));
    setup.lines_of("detections")
}

fn boxes_of(frame: &Value) -> impl Iterator<Item = (u64, Xyxy)> {
    let tracks = frame["tracks"].as_array().expect("a list");
    let active = tracks.iter().filter(|track| track["state"] == "active");
    active.map(|track| {
        let edge = |at: usize| track["box"][at].as_f64().expect("a number") as f32;
        let id = track["track_id"].as_u64().expect("a number");
        (id, [edge(0), edge(1), edge(2), edge(3)])
    })
}

/// The tracks of the messages against the ground truth of the scene.
fn score(seed: u64, shake: u32, frames: &[Value]) -> Metrics {
    let mut scene = Scene::new(&SyntheticScene {
        seed,
        objects: 8,
        width: 640,
        height: 360,
        fps: 15,
        frames: Some(FRAMES),
        shake,
        pacing: Pacing::Unlimited,
    });
    assert_eq!(frames.len() as u64, FRAMES);
    let (mut truth, mut tracks) = (Vec::new(), Vec::new());
    for (index, frame) in (0_u32..).zip(frames) {
        let number = index + 1;
        let visible = scene.truth(u64::from(index));
        let visible = visible.iter().filter(|one| one.visible >= MIN_VISIBLE);
        truth.extend(visible.map(|object| TruthRow {
            frame: number,
            object: u64::from(object.id),
            xyxy: object.xyxy,
        }));
        tracks.extend(boxes_of(frame).map(|(id, xyxy)| TrackRow {
            frame: number,
            id: TrackId(id),
            xyxy,
            score: 1.0,
            class: 0,
        }));
    }
    Metrics::new(&truth, &tracks)
}

/// MOTA, IDF1 and identity switches over two scenes.
fn total(shake: u32, interval: u32, tracker: &str) -> (f64, f64, u64) {
    let mut sum = Metrics::default();
    for seed in [21, 22] {
        sum += &score(seed, shake, &run(seed, shake, interval, tracker));
    }
    (sum.mota(), sum.idf1(), sum.switches())
}

#[test]
fn tracks_of_a_shaking_camera_keep_their_ids() {
    for (tracker, interval) in [("iou", 0), ("bytetrack", 0), ("iou", 2)] {
        let without = total(30, interval, &format!("type: {tracker}"));
        let with = total(
            30,
            interval,
            &format!("type: {tracker}, camera_motion: similarity"),
        );
        let line = |(mota, idf1, switches): (f64, f64, u64)| {
            format!(
                "MOTA {:.1}, IDF1 {:.1}, {switches} switches",
                100.0 * mota,
                100.0 * idf1
            )
        };
        eprintln!(
            "{tracker}, interval {interval}: {} without, {} with",
            line(without),
            line(with)
        );
        assert!(with.0 > without.0 + 0.05, "{tracker}, interval {interval}");
        assert!(with.1 > without.1 + 0.1, "{tracker}, interval {interval}");
        assert!(with.2 < without.2, "{tracker}, interval {interval}");
    }
}

#[test]
fn a_still_camera_gives_the_same_tracks() {
    let tracks = |tracker: &str| -> Vec<Vec<(u64, Xyxy)>> {
        let frames = run(21, 0, 0, tracker);
        frames
            .iter()
            .map(|frame| boxes_of(frame).collect())
            .collect()
    };
    let found = tracks("type: sort, camera_motion: similarity");
    assert_eq!(found, tracks("type: sort"));
}
