// SPDX-License-Identifier: Apache-2.0
//! A detector that repeats the ground truth of synthetic scenes, with chosen imperfections.
//!
//! For demonstrations and tests of everything behind the detector. It reads no pixels. Misses and shifts of boxes are a pure
//! function of seed, source, frame number and object, so that a run can be repeated exactly, whichever thread processes a
//! frame.

use super::{ClassFilter, DetectError, Detector, check_size};
use jetwatch_config::ScriptedConfig;
use jetwatch_telemetry::{Recorder, Stage};
use jetwatch_types::{Detection, Frame, FrameMeta, GroundTruthBox, Placement, Size, hash64};

/// Labels of the classes, as synthetic scenes name them.
pub const LABELS: [&str; 6] = ["person", "bicycle", "car", "motorcycle", "bus", "truck"];

/// Input size that sources scale their images to; the pixels are not read.
pub const INPUT: Size = Size::new(416, 416);

/// Position of images in that input.
pub(crate) const PLACEMENT: Placement = Placement::TopLeft;

/// Repeats [`Frame::truth`].
pub struct ScriptedDetector {
    config: ScriptedConfig,
    score_threshold: f32,
    filter: ClassFilter,
    recorder: Recorder,
}

impl ScriptedDetector {
    /// A detector with the imperfections of `config`; `filter` is made for [`LABELS`].
    pub fn new(
        config: ScriptedConfig,
        score_threshold: f32,
        filter: ClassFilter,
        recorder: Recorder,
    ) -> Self {
        Self {
            config,
            score_threshold,
            filter,
            recorder,
        }
    }
}

impl Detector for ScriptedDetector {
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError> {
        // It replaces the network, so its time counts as inference.
        let _range = self.recorder.range(Stage::Infer, batch.len());
        results.resize_with(batch.len(), Vec::new);
        for (frame, detections) in batch.iter().zip(results) {
            // Not needed here, but a pipeline that works with this detector must also work with a real one.
            check_size(frame, INPUT, PLACEMENT)?;
            detections.clear();
            for truth in &frame.truth {
                let class = class_index(truth)?;
                let simulated = simulate_detection(&self.config, &frame.meta, truth, class);
                detections.extend(simulated.filter(|detection| {
                    detection.score >= self.score_threshold && self.filter.accepts(detection.class)
                }));
            }
            // Stable: equal scores stay in the order of the scene.
            detections.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        let frames = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        let busy = self.config.frame_time.saturating_mul(frames);
        if !busy.is_zero() {
            std::thread::sleep(busy);
        }
        Ok(())
    }
}

fn class_index(truth: &GroundTruthBox) -> Result<u16, DetectError> {
    // At most six.
    let class = LABELS.iter().position(|label| *label == truth.label);
    class
        .map(|class| class as u16)
        .ok_or(DetectError::UnknownTruthLabel { label: truth.label })
}

/// The detection of one object; `None` when it is missed.
fn simulate_detection(
    config: &ScriptedConfig,
    meta: &FrameMeta,
    truth: &GroundTruthBox,
    class: u16,
) -> Option<Detection> {
    let chance = |purpose: u64| {
        uniform_hash(&[
            config.seed,
            u64::from(meta.source.0),
            meta.seq,
            u64::from(truth.id),
            purpose,
        ])
    };
    if truth.visible <= 0.0 || truth.visible < config.min_visible || chance(0) < config.miss_rate {
        return None;
    }
    let [left, top, right, bottom] = truth.xyxy;
    let shift = |purpose: u64, side: f32| (2.0 * chance(purpose) - 1.0) * config.jitter * side;
    let (w, h) = (right - left, bottom - top);
    let (max_x, max_y) = (
        meta.source_size.width as f32,
        meta.source_size.height as f32,
    );
    let x = [left + shift(1, w), right + shift(3, w)].map(|x| x.clamp(0.0, max_x));
    let y = [top + shift(2, h), bottom + shift(4, h)].map(|y| y.clamp(0.0, max_y));
    // Shifts of more than half a side can turn a box inside out.
    let xyxy = [
        x[0].min(x[1]),
        y[0].min(y[1]),
        x[0].max(x[1]),
        y[0].max(y[1]),
    ];
    let score = 0.5 + 0.5 * truth.visible.min(1.0);
    (jetwatch_types::area(&xyxy) > 0.0).then_some(Detection { class, score, xyxy })
}

/// A number from 0 to below 1 that depends on all of `words` and on their order.
fn uniform_hash(words: &[u64]) -> f32 {
    let mixed = words.iter().fold(0, |state, word| hash64(state ^ word));
    // The 24 highest bits: as many as an f32 holds exactly.
    (mixed >> 40) as f32 / (1 << 24) as f32
}

#[cfg(test)]
mod tests {

    use super::*;

    fn truth(id: u32, label: &'static str, xyxy: [f32; 4], visible: f32) -> GroundTruthBox {
        GroundTruthBox {
            id,
            label,
            xyxy,
            visible,
        }
    }

    fn frame(seq: u64, truth: Vec<GroundTruthBox>) -> Frame {
        Frame {
            meta: FrameMeta::for_test(1, seq, Size::new(640, 360)),
            truth,
            ..Frame::black(1, seq, Size::new(416, 234))
        }
    }

    fn detect(config: &ScriptedConfig, batch: &[Frame]) -> Vec<Vec<Detection>> {
        let filter = ClassFilter::new(&[], &[]).expect("nothing to look up");
        let mut detector = ScriptedDetector::new(config.clone(), 0.3, filter, Recorder::default());
        let mut results = vec![
            vec![Detection {
                class: 9,
                score: 9.0,
                xyxy: [0.0; 4]
            }];
            5
        ];
        detector
            .detect(batch, &mut results)
            .expect("the labels are known");
        results
    }

    #[test]
    fn scripted_detector_returns_truth_sorted_by_score() {
        let car = truth(7, "car", [10.0, 20.0, 110.0, 80.0], 0.5);
        let person = truth(8, "person", [200.0, 20.0, 220.0, 90.0], 1.0);
        let hidden = truth(9, "bus", [300.0, 20.0, 400.0, 90.0], 0.0);
        let results = detect(
            &ScriptedConfig::default(),
            &[frame(0, vec![car, person, hidden]), frame(1, vec![])],
        );
        let wanted = vec![
            Detection {
                class: 0,
                score: 1.0,
                xyxy: person.xyxy,
            },
            Detection {
                class: 2,
                score: 0.75,
                xyxy: car.xyxy,
            },
        ];
        assert_eq!(results, [wanted, vec![]]);
    }

    #[test]
    fn scripted_misses_have_configured_rate_and_are_deterministic() {
        let config = ScriptedConfig {
            miss_rate: 0.25,
            seed: 3,
            ..ScriptedConfig::default()
        };
        let batch: Vec<Frame> = (0..400)
            .map(|seq| frame(seq, vec![truth(1, "car", [0.0, 0.0, 9.0, 9.0], 1.0); 5]))
            .collect();
        let counts = |config: &ScriptedConfig| {
            detect(config, &batch)
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };
        let seen = counts(&config).iter().filter(|count| **count > 0).count();
        assert!(
            (270..330).contains(&seen),
            "{seen} of 400, expected about 300"
        );
        assert_eq!(counts(&config), counts(&config));
        let found = counts(&config);
        assert_ne!(found, counts(&ScriptedConfig { seed: 4, ..config }));
        let blind = ScriptedConfig {
            miss_rate: 1.0,
            ..ScriptedConfig::default()
        };
        assert!(counts(&blind).iter().all(|count| *count == 0));
    }

    #[test]
    fn edges_move_at_most_by_their_share_and_stay_in_the_image() {
        let config = ScriptedConfig {
            jitter: 0.1,
            seed: 5,
            ..ScriptedConfig::default()
        };
        let wanted = [600.0, 10.0, 640.0, 30.0];
        let batch: Vec<Frame> = (0..200)
            .map(|seq| frame(seq, vec![truth(1, "car", wanted, 1.0)]))
            .collect();
        let boxes: Vec<[f32; 4]> = detect(&config, &batch)
            .into_iter()
            .flatten()
            .map(|found| found.xyxy)
            .collect();
        assert_eq!(boxes.len(), 200);
        for xyxy in &boxes {
            for (edge, max_shift) in [(0, 4.0), (1, 2.0), (2, 4.0), (3, 2.0)] {
                assert!(
                    (xyxy[edge] - wanted[edge]).abs() <= max_shift + 1e-3,
                    "{xyxy:?}"
                );
            }
            assert!(
                xyxy[2] <= 640.0 && xyxy[0] < xyxy[2] && xyxy[1] < xyxy[3],
                "{xyxy:?}"
            );
        }
        assert!(
            boxes.windows(2).any(|pair| pair[0] != pair[1]),
            "they do move"
        );
    }

    #[test]
    fn mostly_hidden_objects_are_not_detected() {
        let config = ScriptedConfig {
            min_visible: 0.4,
            ..ScriptedConfig::default()
        };
        let boxes = [0.39, 0.4, 0.9].map(|visible| truth(1, "bus", [0.0, 0.0, 9.0, 9.0], visible));
        let results = detect(&config, &[frame(0, boxes.to_vec())]);
        assert_eq!(
            results[0]
                .iter()
                .map(|found| found.score)
                .collect::<Vec<_>>(),
            [0.95, 0.7]
        );
    }

    #[test]
    fn an_unknown_label_and_an_image_of_another_size_are_errors() {
        let filter = ClassFilter::new(&[], &[]).expect("nothing to look up");
        let mut detector =
            ScriptedDetector::new(ScriptedConfig::default(), 0.3, filter, Recorder::default());
        let dragon = frame(0, vec![truth(1, "dragon", [0.0, 0.0, 9.0, 9.0], 1.0)]);
        let error = detector
            .detect(&[dragon], &mut Vec::new())
            .expect_err("no such class")
            .to_string();
        assert!(
            error.contains("`dragon`") && error.contains("person, bicycle"),
            "{error}"
        );
        let mut small = frame(4, vec![]);
        small.meta.source_size = Size::new(640, 480);
        let error = detector
            .detect(&[small], &mut Vec::new())
            .expect_err("another size")
            .to_string();
        assert!(
            error.contains("416×234") && error.contains("416×312"),
            "{error}"
        );
    }
}
