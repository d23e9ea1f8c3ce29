// SPDX-License-Identifier: Apache-2.0
//! The cost of an interval for each tracker: the same detections of drawn scenes, of all frames and of every fourth,
//! against the ground truth.
//!
//! The detections are random with a fixed seed, with typical errors of networks: boxes that jitter, scores that sink with the
//! visible part of an object, objects that are missed in several consecutive frames, and false positives.

use jetwatch_config::{Pacing, SyntheticScene, TrackerConfig, TrackerKind};
use jetwatch_eval::{ClearMotCounter, GroundTruthObject, Hypothesis};
use jetwatch_track::Tracker;
use jetwatch_traffic::scene::Scene;
use jetwatch_types::{Detection, GroundTruthBox, TrackState, Xyxy};

const FRAMES: u64 = 300;
const LABELS: [&str; 6] = ["person", "bicycle", "car", "motorcycle", "bus", "truck"];

/// Objects with a smaller visible part or size are ignored, as in the score of the demo.
const MIN_VISIBLE: f32 = 0.25;
const MIN_SIDE: f32 = 6.0;

/// Minimum score of the detections.
const THRESHOLD: f32 = 0.35;

/// xorshift64*: the same noise on every machine.
struct Noise(u64);

impl Noise {
    fn new(words: [u64; 3]) -> Self {
        let mix = |state: u64, word: u64| {
            (state ^ word)
                .wrapping_add(0x9e37_79b9_7f4a_7c15)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                .rotate_left(31)
        };
        Self(words.into_iter().fold(1, mix) | 1)
    }

    /// A number from -1 to below 1.
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40;
        bits as f32 / (1_u32 << 23) as f32 - 1.0
    }
}

fn class_of(label: &str) -> u16 {
    let place = LABELS.iter().position(|known| *known == label);
    place.expect("a label of the scene") as u16
}

/// The ground truth of every frame of a scene.
fn truth(seed: u64) -> Vec<Vec<GroundTruthBox>> {
    let mut scene = Scene::new(&SyntheticScene {
        seed,
        objects: 8,
        width: 640,
        height: 360,
        fps: 30,
        frames: Some(FRAMES),
        shake: 0,
        pacing: Pacing::Unlimited,
    });
    (0..FRAMES).map(|index| scene.truth(index)).collect()
}

/// Maximum shift of each edge, as a fraction of the box.
fn jittered([left, top, right, bottom]: Xyxy, share: f32, noise: &mut Noise) -> Xyxy {
    let (across, down) = ((right - left) * share, (bottom - top) * share);
    [
        left + noise.next() * across,
        top + noise.next() * down,
        right + noise.next() * across,
        bottom + noise.next() * down,
    ]
}

/// Detections in every frame of the scene.
fn detections(seed: u64, truth: &[Vec<GroundTruthBox>]) -> Vec<Vec<Detection>> {
    let of_frame = |(frame, objects): (u64, &Vec<GroundTruthBox>)| {
        let mut all = Vec::new();
        for object in objects {
            // The errors of an object change every ten frames, and a little with every frame.
            let mood = Noise::new([seed, u64::from(object.id), frame / 10]).next();
            let mut noise = Noise::new([seed, u64::from(object.id) + 1000, frame]);
            let score = 0.2 + 0.65 * object.visible + 0.25 * mood + 0.1 * noise.next();
            let score = score.min(0.99);
            if object.visible > 0.0 && score >= THRESHOLD {
                all.push(Detection {
                    class: class_of(object.label),
                    score,
                    xyxy: jittered(object.xyxy, 0.05, &mut noise),
                });
            }
        }
        let mut noise = Noise::new([seed, u64::MAX, frame]);
        if noise.next() > 0.8 {
            let (x, y) = (320.0 + 250.0 * noise.next(), 180.0 + 120.0 * noise.next());
            all.push(Detection {
                class: 0,
                score: 0.5 + 0.1 * noise.next(),
                xyxy: [x, y, x + 30.0, y + 60.0],
            });
        }
        all
    };
    (0..).zip(truth).map(of_frame).collect()
}

/// MOTA of one tracker that gets detections of every `every`-th frame, beginning with frame `first`, in points.
fn mota(
    truth: &[Vec<GroundTruthBox>],
    found: &[Vec<Detection>],
    kind: TrackerKind,
    every: usize,
    first: usize,
) -> f64 {
    let config = TrackerConfig::new(kind);
    let mut tracker = if every > 1 {
        Tracker::with_coasting(&config)
    } else {
        Tracker::new(&config)
    };
    let mut counter = ClearMotCounter::new(0.5);
    for (index, (truth, found)) in truth.iter().zip(found).enumerate() {
        let tracks = if index % every == first {
            tracker.update(found)
        } else {
            tracker.coast()
        };
        let known = truth.iter().map(|object| {
            let [left, top, right, bottom] = object.xyxy;
            GroundTruthObject {
                id: object.id,
                class: class_of(object.label),
                xyxy: object.xyxy,
                ignored: object.visible < MIN_VISIBLE
                    || (right - left).min(bottom - top) < MIN_SIDE,
            }
        });
        let reported = tracks
            .iter()
            .filter(|track| track.state == TrackState::Active);
        let reported = reported.map(|track| Hypothesis {
            id: track.id.0,
            class: track.class,
            xyxy: track.xyxy,
        });
        counter.frame(&known.collect::<Vec<_>>(), &reported.collect::<Vec<_>>());
    }
    100.0 * counter.counts().mota().expect("there are objects")
}

#[test]
fn every_fourth_frame_is_enough_for_every_tracker() {
    let scenes: Vec<_> = (201..=220)
        .map(|seed| {
            let truth = truth(seed);
            let found = detections(seed, &truth);
            (truth, found)
        })
        .collect();
    for kind in [
        TrackerKind::Iou,
        TrackerKind::Sort,
        TrackerKind::ByteTrack,
        TrackerKind::OcSort,
    ] {
        let (mut all, mut fourth) = (0.0, 0.0);
        for (truth, found) in &scenes {
            all += mota(truth, found, kind, 1, 0) / scenes.len() as f64;
            for first in 0..4 {
                fourth += mota(truth, found, kind, 4, first) / (4 * scenes.len()) as f64;
            }
        }
        eprintln!("{kind:?}: MOTA {all:.2} with every frame, {fourth:.2} with every fourth");
        assert!(all > 60.0, "{kind:?}: {all}: the detector is no detector");
        // The score that starts a track costs half a point here: one chance in four to reach it. A lower one costs real networks more
        // than it gains; see the page about intervals.
        assert!(all - fourth <= 3.6, "{kind:?}: {fourth} instead of {all}");
        assert!(fourth > 89.0, "{kind:?}: {fourth}");
    }
}
