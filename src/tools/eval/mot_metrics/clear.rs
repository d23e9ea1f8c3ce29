//! CLEAR MOT: matches and switches (Bernardin and Stiefelhagen, 2008), with TrackEval's way of pairing.
//!
//! A pair of the last frame with both sides is preferred while it still overlaps enough; the others are paired for the
//! greatest total overlap. A switch is counted against the last track that the object ever had.

use super::super::hungarian::HungarianSolver;
use super::MIN_IOU;
use super::sequence::Sequence;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Clear {
    pub(super) matches: u64,
    pub(super) switches: u64,
    /// Sum of the matches' overlaps.
    pub(super) iou_sum: f64,
}

/// What a pair that goes on is worth: more than all overlaps of a frame together.
const CONTINUATION_BONUS: f64 = 1_000.0;

impl Clear {
    pub(super) fn new(sequence: &Sequence) -> Self {
        let mut counts = Self::default();
        let mut solver = HungarianSolver::default();
        let mut last = vec![None; sequence.object_frames.len()];
        let mut frame_before = last.clone();
        let mut weights = Vec::new();
        for frame in &sequence.frames {
            if frame.objects.is_empty() || frame.tracks.is_empty() {
                continue;
            }
            weights.clear();
            weights.extend(frame.pairs().map(|(object, track)| {
                let iou = frame.iou(object, track);
                if iou < MIN_IOU - f64::EPSILON {
                    0.0
                } else if frame_before[frame.objects[object]] == Some(frame.tracks[track]) {
                    CONTINUATION_BONUS + iou
                } else {
                    iou
                }
            }));
            let pairs = solver.solve(frame.objects.len(), frame.tracks.len(), &weights);
            frame_before.fill(None);
            for (object, track) in pairs.iter().enumerate() {
                let Some(track) = track else {
                    continue;
                };
                let owner = frame.objects[object];
                let now = Some(frame.tracks[*track]);
                counts.matches += 1;
                counts.iou_sum += frame.iou(object, *track);
                counts.switches += u64::from(last[owner].is_some() && last[owner] != now);
                (last[owner], frame_before[owner]) = (now, now);
            }
        }
        counts
    }
}
