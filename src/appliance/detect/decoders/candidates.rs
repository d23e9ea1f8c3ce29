// SPDX-License-Identifier: Apache-2.0
//! Collects the candidates of a decoder: keeps a box, drops it, or records why it is invalid. Pure.
//!
//! Independent of the layout; reads no tensor. Decoders create one per image.

use super::{DecodeDiagnostics, ElementIndex, MAX_SCORE};
use crate::{Candidate, ClassFilter};
use jetwatch_pixels::argmax::MIN_SCORE;
use jetwatch_types::Xyxy;

/// Collects the candidates of one image.
#[derive(Debug)]
pub struct CandidateCollector<'a> {
    /// Minimum score of a candidate.
    pub threshold: f32,
    filter: &'a ClassFilter,
    candidates: &'a mut Vec<Candidate>,
    /// Invalid values found so far.
    pub decoded: DecodeDiagnostics,
}

impl<'a> CandidateCollector<'a> {
    /// Clears `candidates` and collects into it.
    pub fn new(
        threshold: f32,
        filter: &'a ClassFilter,
        candidates: &'a mut Vec<Candidate>,
    ) -> Self {
        candidates.clear();
        Self {
            threshold,
            filter,
            candidates,
            decoded: DecodeDiagnostics::default(),
        }
    }

    /// Keeps a valid box if its score reaches the threshold and its class is accepted. The score is clamped to 1.
    /// `cell` is its index in the output.
    pub fn push(&mut self, cell: usize, class: u16, score: f32, xyxy: Xyxy) {
        if score >= self.threshold && self.filter.accepts(class) {
            self.candidates.push(Candidate {
                // Grids, anchors and queries of one image are far fewer than 2³².
                cell: cell as u32,
                class,
                score: score.min(1.0),
                xyxy,
            });
        }
    }

    /// Reports a box with a number that is not finite.
    pub(crate) fn report_non_finite(&mut self, tensor: usize, index: usize) {
        self.decoded.non_finite += 1;
        self.decoded
            .first_non_finite
            .get_or_insert(ElementIndex { tensor, index });
    }

    /// Reports a box whose class has no label.
    pub(crate) fn report_unknown_class(&mut self, tensor: usize, index: usize) {
        self.decoded
            .first_unknown_class
            .get_or_insert(ElementIndex { tensor, index });
    }

    /// Reports why a box is invalid: its first score that is not finite, else the first out of range.
    /// `scores` yields each score with its index in `tensor`.
    pub(crate) fn report_invalid(
        &mut self,
        tensor: usize,
        scores: impl Iterator<Item = (usize, f32)> + Clone,
    ) {
        if let Some((index, _)) = scores.clone().find(|(_, score)| !score.is_finite()) {
            self.report_non_finite(tensor, index);
        } else if let Some((index, _)) = scores.clone().find(|(_, score)| !is_valid(*score)) {
            self.decoded
                .first_beyond_one
                .get_or_insert(ElementIndex { tensor, index });
        }
    }
}

/// Whether this score is within [`MIN_SCORE`] and [`MAX_SCORE`].
pub(crate) fn is_valid(score: f32) -> bool {
    (MIN_SCORE..=MAX_SCORE).contains(&score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_is_inclusive_and_scores_are_clamped_to_one() {
        let labels = ["a".to_owned(), "b".to_owned()];
        let filter = ClassFilter::new(&labels, &labels[1..]).expect("it is known");
        let mut candidates = vec![Candidate {
            cell: 9,
            class: 1,
            score: 0.9,
            xyxy: [0.0; 4],
        }];
        let mut collector = CandidateCollector::new(0.5, &filter, &mut candidates);
        for (cell, class, score) in [(0, 1, 0.5), (1, 1, 0.499_999), (2, 0, 0.9), (3, 1, 1.04)] {
            collector.push(cell, class, score, [1.0; 4]);
        }
        assert_eq!(collector.decoded, DecodeDiagnostics::default());
        let kept: Vec<_> = candidates
            .iter()
            .map(|kept| (kept.cell, kept.score))
            .collect();
        assert_eq!(kept, [(0, 0.5), (3, 1.0)]);
    }

    #[test]
    fn non_finite_is_reported_before_beyond_one() {
        let filter = ClassFilter::new(&[], &[]).expect("nothing to look up");
        let mut candidates = Vec::new();
        let mut collector = CandidateCollector::new(0.5, &filter, &mut candidates);
        collector.report_invalid(1, [(10, 0.5), (11, 1.04), (12, -0.04)].into_iter());
        assert_eq!(
            collector.decoded,
            DecodeDiagnostics::default(),
            "all three are sound"
        );
        collector.report_invalid(1, [(20, 0.5), (21, 7.0), (22, f32::NAN)].into_iter());
        collector.report_invalid(2, [(30, 0.5), (31, -3.0), (32, 7.0)].into_iter());
        collector.report_invalid(2, [(40, f32::INFINITY)].into_iter());
        collector.report_unknown_class(3, 4);
        collector.report_unknown_class(3, 5);
        let place = |tensor, index| Some(ElementIndex { tensor, index });
        let wanted = DecodeDiagnostics {
            non_finite: 2,
            first_non_finite: place(1, 22),
            first_beyond_one: place(2, 31),
            first_unknown_class: place(3, 4),
            other_rows: None,
        };
        assert_eq!(collector.decoded, wanted);
        assert!(candidates.is_empty());
    }
}
