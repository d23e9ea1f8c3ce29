// SPDX-License-Identifier: Apache-2.0
//! HOTA (Luiten and others, 2021): detection accuracy and association accuracy at nineteen
//! overlaps.
//!
//! Frames are paired once: for the greatest sum of overlaps, each weighted by how much object and track belong together
//! over the whole sequence. At each overlap those pairs count that reach it.

use jetwatch_track::HungarianSolver;
use serde::Serialize;

use super::sequence::Sequence;
use super::share;

/// Overlaps from 0.05 on, each 0.05 more than the one before.
const ALPHA_COUNT: usize = 19;

/// Counts at all overlaps.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct Hota {
    at_alpha: [AtAlpha; ALPHA_COUNT],
}

/// Counts at one overlap.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(super) struct AtAlpha {
    matches: u64,
    /// Sum over all matches of the share of the frames of either side in which the two are matched.
    association_sum: f64,
}

impl AtAlpha {
    /// Matches among all boxes of either side.
    pub(super) fn detection_accuracy(&self, objects: u64, boxes: u64) -> f64 {
        share(self.matches as f64, (objects + boxes - self.matches) as f64)
    }

    /// The mean share of a match.
    pub(super) fn association_accuracy(&self) -> f64 {
        share(self.association_sum, self.matches as f64)
    }

    /// The geometric mean of both.
    pub(super) fn hota(&self, objects: u64, boxes: u64) -> f64 {
        (self.detection_accuracy(objects, boxes) * self.association_accuracy()).sqrt()
    }
}

impl Hota {
    pub(super) fn new(sequence: &Sequence) -> Self {
        let alignment = alignment(sequence);
        let tracks = sequence.track_frames.len();
        let mut solver = HungarianSolver::default();
        let mut weights = Vec::new();
        // The overlaps at which two were paired, by pair of object and track.
        let mut paired: Vec<[u64; ALPHA_COUNT]> = vec![[0; ALPHA_COUNT]; alignment.len()];
        for frame in &sequence.frames {
            weights.clear();
            weights.extend(frame.pairs().map(|(object, track)| {
                frame.iou(object, track)
                    * alignment[frame.objects[object] * tracks + frame.tracks[track]]
            }));
            let pairs = solver.solve(frame.objects.len(), frame.tracks.len(), &weights);
            for (object, track) in pairs.iter().enumerate() {
                let Some(track) = track else {
                    continue;
                };
                let iou = frame.iou(object, *track);
                let counts = &mut paired[frame.objects[object] * tracks + frame.tracks[*track]];
                for (index, count) in counts.iter_mut().enumerate() {
                    *count += u64::from(iou >= alpha(index) - f64::EPSILON);
                }
            }
        }
        let mut sums = Self::default();
        for (pair, counts) in paired.iter().enumerate() {
            let frames =
                sequence.object_frames[pair / tracks] + sequence.track_frames[pair % tracks];
            for (at, count) in sums.at_alpha.iter_mut().zip(counts) {
                at.matches += count;
                at.association_sum += *count as f64 * share(*count as f64, (frames - count) as f64);
            }
        }
        sums
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (at, other) in self.at_alpha.iter_mut().zip(&other.at_alpha) {
            at.matches += other.matches;
            at.association_sum += other.association_sum;
        }
    }

    /// The mean over all overlaps.
    pub(super) fn mean(&self, figure: impl Fn(&AtAlpha) -> f64) -> f64 {
        self.at_alpha.iter().map(figure).sum::<f64>() / ALPHA_COUNT as f64
    }
}

/// The overlap of an index.
fn alpha(index: usize) -> f64 {
    0.05 * (index + 1) as f64
}

/// Alignment of each object with each track: shared overlap among the frames of either.
fn alignment(sequence: &Sequence) -> Vec<f64> {
    let tracks = sequence.track_frames.len();
    let mut together = vec![0.0; sequence.object_frames.len() * tracks];
    for frame in &sequence.frames {
        let of_object = |object: usize| -> f64 {
            (0..frame.tracks.len())
                .map(|track| frame.iou(object, track))
                .sum()
        };
        let of_track = |track: usize| -> f64 {
            (0..frame.objects.len())
                .map(|object| frame.iou(object, track))
                .sum()
        };
        for (object, track) in frame.pairs() {
            let iou = frame.iou(object, track);
            let all = of_object(object) + of_track(track) - iou;
            together[frame.objects[object] * tracks + frame.tracks[track]] +=
                if all > f64::EPSILON { iou / all } else { 0.0 };
        }
    }
    for (pair, shared) in together.iter_mut().enumerate() {
        let frames = sequence.object_frames[pair / tracks] + sequence.track_frames[pair % tracks];
        *shared /= frames as f64 - *shared;
    }
    together
}
