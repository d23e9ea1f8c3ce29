// SPDX-License-Identifier: Apache-2.0
//! Scores of the network and the tracker on a drawn scene, against its ground truth. `jetwatch demo` calls it.
//!
//! The same results can be written as a sequence for `jetwatch track`.
//!
//! While the pipeline runs only boxes are kept. The truth is computed after its end, for the frames that were processed,
//! so that scoring does not slow the pipeline down.

use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;

use jetwatch_config::SyntheticScene;
use jetwatch_eval::{ClearMot, ClearMotCounter, GroundTruthObject, Hypothesis};
use jetwatch_types::{Detection, FrameMeta, GroundTruthBox, Track};

use super::scene::Scene;

/// IoU at which boxes match, as in MOT benchmarks.
const MIN_IOU: f32 = 0.5;

/// Objects with a smaller visible share are ignored, as in what `jetwatch dataset` writes.
const MIN_VISIBLE: f32 = 0.25;

/// So are objects with a shorter side, in source pixels.
const MIN_SIDE: f32 = 6.0;

/// Frames that are scored, the first ones: someone may look at the scene for hours.
const MAX_FRAMES: usize = 100_000;

/// Results of the pipeline for one frame of the scene.
struct ScoredFrame {
    /// Number of the frame in the scene.
    index: u64,
    /// Whether it went through the network; without, its tracks are predictions.
    inferred: bool,
    detections: Vec<Detection>,
    tracks: Vec<Hypothesis>,
}

/// Detections and ground truth of a scene, as the text of files in the format of MOTChallenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SceneSequence {
    /// A line for each detection: `frame,-1,x,y,width,height,score,class,-1,-1`.
    pub detections: String,
    /// A line for each object and frame: `frame,id,x,y,width,height,counts,class`. Hidden and tiny objects do not count.
    pub truth: String,
}

/// Gives the class id of a label; `None`: the network does not have it.
type ClassOf = Box<dyn Fn(&str) -> Option<u16>>;

/// Collects the results of one scene.
pub struct Scorer {
    scene: SyntheticScene,
    class_of: ClassOf,
    frames: Arc<Mutex<Vec<ScoredFrame>>>,
}

/// Accuracy over all processed frames.
#[derive(Debug, Clone, Copy)]
pub struct Score {
    /// The network's boxes at its own threshold.
    pub detections: ClearMot,
    /// The tracks as they are published.
    pub tracks: ClearMot,
}

impl Scorer {
    /// For a network on `scene`, which must not loop. `class_of` maps a label of the scene to a class of the network; objects
    /// without a class are left out.
    pub fn new(scene: &SyntheticScene, class_of: impl Fn(&str) -> Option<u16> + 'static) -> Self {
        Self {
            scene: scene.clone(),
            class_of: Box::new(class_of),
            frames: Arc::default(),
        }
    }

    /// The callback for the detections and tracks of every frame. No detections (`None`): the frame skipped the network.
    pub fn frame_callback(
        &self,
    ) -> impl FnMut(&FrameMeta, Option<&[Detection]>, &[Track]) + Send + use<> {
        let (frames, fps) = (Arc::clone(&self.frames), f64::from(self.scene.fps.max(1)));
        move |meta: &FrameMeta, found: Option<&[Detection]>, tracks: &[Track]| {
            let Some(pts) = meta.pts else { return };
            let tracks = tracks.iter().filter(|track| track.lost_frames == 0);
            let tracks = tracks.map(|track| Hypothesis {
                id: track.id.0,
                class: track.class,
                xyxy: track.xyxy,
            });
            let mut frames = frames.lock();
            if frames.len() >= MAX_FRAMES {
                return;
            }
            frames.push(ScoredFrame {
                index: (pts.as_secs_f64() * fps).round() as u64,
                inferred: found.is_some(),
                detections: found.unwrap_or_default().to_vec(),
                tracks: tracks.collect(),
            });
        }
    }

    /// Compares the results so far with the truth; `None` without a frame. The next call starts with no frames.
    #[must_use]
    pub fn score(&self) -> Option<Score> {
        let frames = std::mem::take(&mut *self.frames.lock());
        let mut scene = Scene::new(&self.scene);
        let (mut of_detections, mut of_tracks) =
            (ClearMotCounter::new(MIN_IOU), ClearMotCounter::new(MIN_IOU));
        let mut truth = Vec::new();
        let mut number = 0;
        for frame in &frames {
            scene.truth_into(frame.index, &mut truth);
            let known: Vec<GroundTruthObject> = self.known(&truth).collect();
            if frame.inferred {
                let found = frame.detections.iter().map(|found| {
                    number += 1;
                    Hypothesis {
                        id: number,
                        class: found.class,
                        xyxy: found.xyxy,
                    }
                });
                of_detections.frame(&known, &found.collect::<Vec<_>>());
            }
            of_tracks.frame(&known, &frame.tracks);
        }
        (!frames.is_empty()).then(|| Score {
            detections: of_detections.counts(),
            tracks: of_tracks.counts(),
        })
    }

    /// The detections so far and the ground truth of their frames, for `jetwatch track`. Frames count from 1, in the scene.
    #[must_use]
    pub fn sequence(&self) -> SceneSequence {
        let frames = self.frames.lock();
        let mut scene = Scene::new(&self.scene);
        let (mut detections, mut text) = (String::new(), String::new());
        let mut truth = Vec::new();
        for frame in frames.iter() {
            let number = frame.index + 1;
            // Writing to a string does not fail.
            for found in &frame.detections {
                let [left, top, right, bottom] = found.xyxy;
                let (width, height) = (right - left, bottom - top);
                let (score, class) = (found.score, found.class);
                let _ = writeln!(
                    detections,
                    "{number},-1,{left:.3},{top:.3},{width:.3},{height:.3},{score:.6},{class},-1,-1"
                );
            }
            scene.truth_into(frame.index, &mut truth);
            for object in self.known(&truth) {
                let [left, top, right, bottom] = object.xyxy;
                let (width, height) = (right - left, bottom - top);
                let (id, class, counts) = (object.id, object.class, u8::from(!object.ignored));
                let _ = writeln!(
                    text,
                    "{number},{id},{left:.3},{top:.3},{width:.3},{height:.3},{counts},{class}"
                );
            }
        }
        SceneSequence {
            detections,
            truth: text,
        }
    }

    /// The objects that the network has a class for: it cannot find others.
    fn known(&self, truth: &[GroundTruthBox]) -> impl Iterator<Item = GroundTruthObject> {
        truth.iter().filter_map(|object| {
            let [left, top, right, bottom] = object.xyxy;
            Some(GroundTruthObject {
                id: object.id,
                class: (self.class_of)(object.label)?,
                xyxy: object.xyxy,
                ignored: object.visible < MIN_VISIBLE
                    || (right - left).min(bottom - top) < MIN_SIDE,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use jetwatch_config::Pacing;
    use jetwatch_eval::{parse_detections, parse_truth};
    use jetwatch_types::{Size, SourceId};

    use super::*;

    #[test]
    fn a_sequence_has_the_detections_and_the_truth_of_the_processed_frames() {
        let scene = SyntheticScene {
            seed: 1,
            objects: 12,
            width: 640,
            height: 360,
            fps: 10,
            frames: None,
            shake: 0,
            pacing: Pacing::Unlimited,
        };
        let scorer = Scorer::new(&scene, |label| (label == "person").then_some(3));
        let mut callback = scorer.frame_callback();
        let found = Detection {
            class: 3,
            score: 0.5,
            xyxy: [1.0, 2.0, 11.0, 22.0],
        };
        // Frame 1 was dropped.
        for index in [0, 2] {
            let meta = FrameMeta {
                source: SourceId(0),
                seq: index,
                pts: Some(Duration::from_millis(100 * index)),
                captured_at: SystemTime::UNIX_EPOCH,
                received_at: Instant::now(),
                source_size: Size::new(640, 360),
            };
            callback(&meta, Some(&[found]), &[]);
        }
        let sequence = scorer.sequence();
        let rows = parse_detections(&sequence.detections).expect("well formed");
        let rows: Vec<_> = rows.iter().map(|row| (row.frame, row.detection)).collect();
        assert_eq!(rows, [(1, found), (3, found)]);
        let rows = parse_truth(&sequence.truth).expect("well formed");
        let mut drawn = Scene::new(&scene);
        for (number, index) in [(1, 0), (3, 2)] {
            let truth = drawn.truth(index);
            let counts = |object: &&GroundTruthBox| {
                let [left, top, right, bottom] = object.xyxy;
                let is_small = (right - left).min(bottom - top) < MIN_SIDE;
                object.label == "person" && object.visible >= MIN_VISIBLE && !is_small
            };
            let mut ids: Vec<u64> = truth
                .iter()
                .filter(counts)
                .map(|it| u64::from(it.id))
                .collect();
            ids.sort_unstable();
            let of_frame = rows.iter().filter(|row| row.frame == number);
            assert_eq!(of_frame.map(|row| row.object).collect::<Vec<_>>(), ids);
            assert!(!ids.is_empty(), "the scene has people");
        }
        assert!(scorer.score().is_some(), "the frames are still there");
        assert!(scorer.score().is_none(), "each frame is scored once");
    }
}
