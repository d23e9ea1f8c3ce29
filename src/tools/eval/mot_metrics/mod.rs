// SPDX-License-Identifier: Apache-2.0
//! Tracking metrics over whole sequences: CLEAR MOT, IDF1 and HOTA, as TrackEval computes them.
//!
//! [`Metrics::new`] compares the tracks of one sequence with its ground truth; the counts can be added up over
//! sequences, and the metrics of the sum are those of all sequences together, as in the benchmarks.
//! `jetwatch track --metrics` prints them. Boxes match at an IOU of a half, and HOTA uses nineteen overlaps.
//! [`ClearMotCounter`](crate::ClearMotCounter) counts CLEAR MOT frame by frame with the same matching.

mod clear;
mod hota;
mod identity;
mod sequence;

use std::ops::AddAssign;

use serde::Serialize;

use crate::mot_format::TrackRow;
use crate::mot_truth::TruthRow;

pub(crate) use self::clear::{ClearMatcher, mota};
pub(crate) use self::sequence::iou;

use self::clear::Clear;
use self::hota::Hota;
use self::identity::Identity;
use self::sequence::Sequence;

/// Minimum IOU of a match, except for HOTA.
const MIN_IOU: f64 = 0.5;

/// Counts over one or more sequences. All shares are 0 to 1, and 0 without anything to count, except MOTA, which has no
/// minimum.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Metrics {
    /// Boxes of the ground truth.
    pub objects: u64,
    /// Boxes of the tracks.
    pub boxes: u64,
    clear: Clear,
    identity: Identity,
    hota: Hota,
}

impl Metrics {
    /// Compares the tracks of one sequence with its ground truth. Each id may be in a frame once, as in the rows of
    /// [`track_offline`](crate::track_offline) and [`parse_truth`](crate::parse_truth); of others, the first counts.
    pub fn new(truth: &[TruthRow], tracks: &[TrackRow]) -> Self {
        let sequence = Sequence::new(truth, tracks);
        Self {
            objects: truth.len() as u64,
            boxes: tracks.len() as u64,
            clear: Clear::new(&sequence),
            identity: Identity::new(&sequence),
            hota: Hota::new(&sequence),
        }
    }

    /// Multiple object tracking accuracy: `1 − (misses + false positives + switches) / objects`.
    pub fn mota(&self) -> f64 {
        let errors = self.misses() + self.false_positives() + self.switches();
        mota(errors, self.objects).unwrap_or(0.0)
    }

    /// Multiple object tracking precision: the mean IOU of the pairs. Some programs print one minus this.
    #[must_use]
    pub fn motp(&self) -> f64 {
        share(self.clear.iou_sum, self.clear.matches as f64)
    }

    /// Boxes of the ground truth without a track.
    pub fn misses(&self) -> u64 {
        self.objects - self.clear.matches
    }

    /// Boxes of tracks without an object.
    pub fn false_positives(&self) -> u64 {
        self.boxes - self.clear.matches
    }

    /// Number of changes of an object's track.
    pub fn switches(&self) -> u64 {
        self.clear.switches
    }

    /// The harmonic mean of identity precision and identity recall, each track standing for at most one object.
    pub fn idf1(&self) -> f64 {
        share(
            2.0 * self.identity.matches as f64,
            (self.objects + self.boxes) as f64,
        )
    }

    /// Higher order tracking accuracy, the mean over the overlaps 0.05 to 0.95.
    #[must_use]
    pub fn hota(&self) -> f64 {
        self.hota.mean(|at| at.hota(self.objects, self.boxes))
    }

    /// Detection accuracy of HOTA.
    #[must_use]
    pub(crate) fn detection_accuracy(&self) -> f64 {
        self.hota
            .mean(|at| at.detection_accuracy(self.objects, self.boxes))
    }

    /// Association accuracy of HOTA.
    pub(crate) fn association_accuracy(&self) -> f64 {
        self.hota.mean(hota::AtAlpha::association_accuracy)
    }
}

impl AddAssign<&Metrics> for Metrics {
    fn add_assign(&mut self, other: &Metrics) {
        self.objects += other.objects;
        self.boxes += other.boxes;
        self.clear.matches += other.clear.matches;
        self.clear.switches += other.clear.switches;
        self.clear.iou_sum += other.clear.iou_sum;
        self.identity.matches += other.identity.matches;
        self.hota.add(&other.hota);
    }
}

/// `part / whole`, or 0 without a whole.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests;
