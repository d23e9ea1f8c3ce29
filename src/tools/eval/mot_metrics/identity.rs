// SPDX-License-Identifier: Apache-2.0
//! Identity matches (Ristani and others, 2016): each object is assigned at most one track for the whole sequence, so that
//! the number of matching boxes is maximal.

use jetwatch_track::HungarianSolver;
use serde::Serialize;

use super::MIN_IOU;
use super::sequence::Sequence;

/// Counts over a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Identity {
    /// Boxes of objects that match the track assigned to their object.
    pub(super) matches: u64,
}

impl Identity {
    pub(super) fn new(sequence: &Sequence) -> Self {
        let (objects, tracks) = (sequence.object_frames.len(), sequence.track_frames.len());
        let mut together = vec![0.0; objects * tracks];
        for frame in &sequence.frames {
            for (object, track) in frame.pairs() {
                if frame.iou(object, track) >= MIN_IOU {
                    together[frame.objects[object] * tracks + frame.tracks[track]] += 1.0;
                }
            }
        }
        let mut solver = HungarianSolver::default();
        let given = solver.solve(objects, tracks, &together);
        let matches = given
            .iter()
            .enumerate()
            .filter_map(|(object, track)| track.map(|track| together[object * tracks + track]))
            .sum::<f64>();
        Self {
            // A sum of ones, which is exact.
            matches: matches as u64,
        }
    }
}
