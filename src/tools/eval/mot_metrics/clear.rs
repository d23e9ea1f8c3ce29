// SPDX-License-Identifier: Apache-2.0
//! CLEAR MOT: matches and switches (Bernardin and Stiefelhagen, 2008), with TrackEval's matching.
//!
//! A pair of the last frame with both sides is preferred while it still overlaps enough; the others are paired for the
//! greatest total overlap. A switch is counted against the last track that the object ever had.

use std::collections::HashMap;
use std::hash::Hash;

use jetwatch_track::HungarianSolver;
use serde::Serialize;

use super::MIN_IOU;
use super::sequence::Sequence;

/// Counts over a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Clear {
    pub(crate) matches: u64,
    pub(crate) switches: u64,
    /// Sum of the matches' overlaps.
    pub(crate) iou_sum: f64,
}

/// Weight of a pair that continues: more than the sum of all overlaps of a frame.
const CONTINUATION_BONUS: f64 = 1_000.0;

impl Clear {
    /// Counts over a whole sequence.
    pub(super) fn new(sequence: &Sequence) -> Self {
        let mut matcher = ClearMatcher::new(MIN_IOU);
        for frame in &sequence.frames {
            matcher.frame(&frame.objects, &frame.tracks, |object, track| {
                frame.iou(object, track)
            });
        }
        matcher.counts()
    }
}

/// `1 − errors / objects`: multiple object tracking accuracy, where `errors` are misses, false positives and switches. At most 1
/// and without a minimum; `None` without objects.
pub(crate) fn mota(errors: u64, objects: u64) -> Option<f64> {
    (objects > 0).then(|| 1.0 - errors as f64 / objects as f64)
}

/// Pairs objects with tracks frame by frame. `O` and `T` are the identities of objects and tracks over the sequence.
#[derive(Debug)]
pub(crate) struct ClearMatcher<O, T> {
    min_iou: f64,
    solver: HungarianSolver,
    /// The last track of each object.
    last: HashMap<O, T>,
    /// The pairs of the last frame with objects and tracks.
    previous: HashMap<O, T>,
    /// IOU of each object with each track, by rows of objects; reused from frame to frame.
    ious: Vec<f64>,
    weights: Vec<f64>,
    counts: Clear,
}

impl<O: Copy + Eq + Hash, T: Copy + Eq> ClearMatcher<O, T> {
    /// Boxes match at an IOU of at least `min_iou`, above 0 to 1.
    pub(crate) fn new(min_iou: f64) -> Self {
        Self {
            min_iou,
            solver: HungarianSolver::default(),
            last: HashMap::new(),
            previous: HashMap::new(),
            ious: Vec::new(),
            weights: Vec::new(),
            counts: Clear::default(),
        }
    }

    /// Pairs the objects and tracks of the next frame, each at most once. `iou` takes their indices in the slices; 0 means that the
    /// two may not be paired.
    ///
    /// Returns the index of each object's track; nothing where one of the slices is empty.
    pub(crate) fn frame(
        &mut self,
        objects: &[O],
        tracks: &[T],
        iou: impl Fn(usize, usize) -> f64,
    ) -> &[Option<usize>] {
        if objects.is_empty() || tracks.is_empty() {
            return &[];
        }
        self.ious.clear();
        self.weights.clear();
        for (row, object) in objects.iter().enumerate() {
            let continued = self.previous.get(object);
            for (column, track) in tracks.iter().enumerate() {
                let iou = iou(row, column);
                self.ious.push(iou);
                self.weights.push(if iou < self.min_iou - f64::EPSILON {
                    0.0
                } else if continued == Some(track) {
                    CONTINUATION_BONUS + iou
                } else {
                    iou
                });
            }
        }
        let pairs = self
            .solver
            .solve(objects.len(), tracks.len(), &self.weights);
        self.previous.clear();
        for (row, pair) in pairs.iter().enumerate() {
            let Some(column) = *pair else {
                continue;
            };
            let (object, track) = (objects[row], tracks[column]);
            self.counts.matches += 1;
            self.counts.iou_sum += self.ious[row * tracks.len() + column];
            let last = self.last.insert(object, track);
            self.counts.switches += u64::from(last.is_some_and(|last| last != track));
            self.previous.insert(object, track);
        }
        pairs
    }

    /// Counts so far.
    pub(crate) fn counts(&self) -> Clear {
        self.counts
    }
}
