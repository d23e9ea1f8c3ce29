// SPDX-License-Identifier: Apache-2.0
//! Appearance of a track: the mean direction of the embeddings of its detections, as in JDE and BoT-SORT. An embedding is a
//! vector that a network computes from the pixels of a box, so that two of the same object point in about the same direction.
//! Computing them is not part of this crate; [`Tracker::update_with_embeddings`](super::Tracker::update_with_embeddings) takes them.

/// Weight of the past when a new embedding is added: the value of JDE's and BoT-SORT's authors.
const MOMENTUM: f32 = 0.9;

/// Smoothed embedding of a track; empty until its first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Appearance(Vec<f32>);

impl Appearance {
    /// Adds an embedding: an exponential moving average of unit vectors. One without a direction is ignored, and one of
    /// another length replaces the mean, as the network changed.
    pub(super) fn observe(&mut self, embedding: &[f32]) {
        let length = norm(embedding);
        if !(length.is_finite() && length > 0.0) {
            return;
        }
        if self.0.len() == embedding.len() {
            for (mean, value) in self.0.iter_mut().zip(embedding) {
                *mean = MOMENTUM * *mean + (1.0 - MOMENTUM) * value / length;
            }
            let length = norm(&self.0);
            if length > 0.0 {
                self.0.iter_mut().for_each(|value| *value /= length);
            }
        } else {
            self.0.clear();
            self.0.extend(embedding.iter().map(|value| value / length));
        }
    }

    /// The mean direction; `None` before the first embedding.
    pub(super) fn vector(&self) -> Option<&[f32]> {
        (!self.0.is_empty()).then_some(&self.0)
    }

    /// Cosine similarity with an embedding, -1 to 1; `None` when either is missing or they cannot be compared.
    pub(super) fn similarity(&self, embedding: &[f32]) -> Option<f32> {
        if self.0.is_empty() || self.0.len() != embedding.len() {
            return None;
        }
        let length = norm(embedding);
        let product: f32 = self.0.iter().zip(embedding).map(|(a, b)| a * b).sum();
        (length.is_finite() && length > 0.0).then(|| product / length)
    }

    /// Cosine similarity with another track.
    pub(super) fn similarity_to(&self, other: &Self) -> Option<f32> {
        self.similarity(&other.0)
    }
}

fn norm(vector: &[f32]) -> f32 {
    vector.iter().map(|value| value * value).sum::<f32>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_the_cosine_whatever_the_lengths() {
        let mut appearance = Appearance::default();
        assert_eq!(appearance.similarity(&[1.0, 0.0]), None, "nothing known");
        appearance.observe(&[3.0, 0.0]);
        assert_eq!(appearance.similarity(&[0.5, 0.0]), Some(1.0));
        assert_eq!(appearance.similarity(&[0.0, 2.0]), Some(0.0));
        assert_eq!(appearance.similarity(&[-1.0, 0.0]), Some(-1.0));
        assert_eq!(appearance.similarity(&[1.0]), None, "another length");
        assert_eq!(appearance.similarity(&[0.0, 0.0]), None, "no direction");
        assert_eq!(appearance.similarity(&[f32::NAN, 0.0]), None);
    }

    #[test]
    fn the_mean_moves_slowly_and_ignores_what_has_no_direction() {
        let mut appearance = Appearance::default();
        appearance.observe(&[1.0, 0.0]);
        appearance.observe(&[0.0, 0.0]);
        appearance.observe(&[f32::INFINITY, 0.0]);
        assert_eq!(appearance.similarity(&[1.0, 0.0]), Some(1.0));
        appearance.observe(&[0.0, 7.0]);
        let similarity = appearance.similarity(&[1.0, 0.0]).expect("both are known");
        assert!(
            (similarity - 0.9 / 0.82_f32.sqrt()).abs() < 1e-6,
            "{similarity}"
        );
        let mut other = Appearance::default();
        assert_eq!(appearance.similarity_to(&other), None);
        other.observe(&[1.0, 0.0]);
        assert_eq!(appearance.similarity_to(&other), Some(similarity));
    }
}
