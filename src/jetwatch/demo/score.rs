//! The demo's judgement: what the network and the tracker said of the built-in scene, against the truth about it.
//!
//! Only boxes are kept while the chain runs; the truth is computed when it has ended, for the frames that came through,
//! so that judging slows nothing down.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jetwatch_config::SyntheticScene;
use jetwatch_detect::model::ModelSpec;
use jetwatch_eval::{ClearMot, ClearMotCounter, GroundTruthObject, Hypothesis};
use jetwatch_pipeline::FrameCallback;
use jetwatch_source::scene::Scene;
use jetwatch_types::{Detection, FrameMeta, Track};

/// Boxes match at this IOU, as in the field's benchmarks.
const MIN_IOU: f32 = 0.5;

/// Objects of which less is to be seen are neither asked for nor counted as wrong: as `jetwatch dataset` writes them.
const MIN_VISIBLE: f32 = 0.25;

/// As small objects, in source pixels.
const MIN_SIDE: f32 = 6.0;

/// What came out of the chain for one frame of the scene.
struct ScoredFrame {
    /// Number of the frame in the scene.
    index: u64,
    /// Whether the network saw it; else the tracks were carried through it.
    inferred: bool,
    detections: Vec<Hypothesis>,
    tracks: Vec<Hypothesis>,
}

/// Listens to one scene.
pub(super) struct Scorer {
    scene: SyntheticScene,
    spec: ModelSpec,
    frames: Arc<Mutex<Vec<ScoredFrame>>>,
}

/// How good it was.
pub(super) struct Score {
    /// The network's boxes at its own threshold.
    pub(super) detections: ClearMot,
    /// The tracks as they are published.
    pub(super) tracks: ClearMot,
}

impl Scorer {
    /// A judge of `spec`'s network on `scene`, which must not loop.
    pub(super) fn new(scene: &SyntheticScene, spec: ModelSpec) -> Self {
        Self {
            scene: scene.clone(),
            spec,
            frames: Arc::default(),
        }
    }

    /// What has to see every frame.
    pub(super) fn tap(&self) -> FrameCallback {
        let (seen, fps) = (Arc::clone(&self.frames), f64::from(self.scene.fps.max(1)));
        let mut number = 0;
        Box::new(
            move |meta: &FrameMeta, found: Option<&[Detection]>, tracks: &[Track]| {
                let Some(pts) = meta.pts else { return };
                let was_looked_at = found.is_some();
                let detections = found.unwrap_or_default().iter().map(|found| {
                    number += 1;
                    Hypothesis {
                        id: number,
                        class: found.class,
                        xyxy: found.xyxy,
                    }
                });
                let detections = detections.collect();
                let tracks = tracks.iter().filter(|track| track.lost_frames == 0);
                let tracks = tracks.map(|track| Hypothesis {
                    id: track.id.0,
                    class: track.class,
                    xyxy: track.xyxy,
                });
                lock(&seen).push(ScoredFrame {
                    index: (pts.as_secs_f64() * fps).round() as u64,
                    inferred: was_looked_at,
                    detections,
                    tracks: tracks.collect(),
                });
            },
        )
    }

    /// Compares what was seen with the truth; `None` when no frame came through.
    pub(super) fn score(&self) -> Option<Score> {
        let frames = std::mem::take(&mut *lock(&self.frames));
        let mut scene = Scene::new(&self.scene);
        let (mut of_detections, mut of_tracks) =
            (ClearMotCounter::new(MIN_IOU), ClearMotCounter::new(MIN_IOU));
        let mut truth = Vec::new();
        for frame in &frames {
            scene.truth_into(frame.index, &mut truth);
            // What the network has no class for is nothing that it could find.
            let known = truth.iter().filter_map(|object| {
                let [left, top, right, bottom] = object.xyxy;
                Some(GroundTruthObject {
                    id: object.id,
                    class: self.spec.class_index(object.label)?,
                    xyxy: object.xyxy,
                    ignored: object.visible < MIN_VISIBLE
                        || (right - left).min(bottom - top) < MIN_SIDE,
                })
            });
            let known: Vec<GroundTruthObject> = known.collect();
            if frame.inferred {
                of_detections.frame(&known, &frame.detections);
            }
            of_tracks.frame(&known, &frame.tracks);
        }
        (!frames.is_empty()).then(|| Score {
            detections: of_detections.counts(),
            tracks: of_tracks.counts(),
        })
    }
}

fn lock(frames: &Mutex<Vec<ScoredFrame>>) -> MutexGuard<'_, Vec<ScoredFrame>> {
    frames.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Score {
    /// Two lines for people.
    pub(super) fn describe(&self) -> String {
        let share = |value: Option<f64>| {
            value.map_or_else(
                || "none".to_owned(),
                |value| format!("{:.1} %", value * 100.0),
            )
        };
        let (found, tracks) = (&self.detections, &self.tracks);
        format!(
            "Against the scene's truth, boxes that overlap by half, {} frames with {} objects:\n  \
             detections  recall {}, precision {}\n  \
             tracks      MOTA {}, {} misses, {} false, {} changes of identity",
            found.frames,
            found.objects,
            share(found.recall()),
            share(found.precision()),
            share(tracks.mota()),
            tracks.misses,
            tracks.false_positives,
            tracks.switches
        )
    }
}
