//! A head on trial: its tensors of floats, all 0, to be changed number by number. For the tests of the heads only.

use super::{Decoded, ElementKind, Head, Mismatch, Numbers, Shape};
use crate::{Candidate, ClassFilter};
use jetwatch_types::Xyxy;

/// A head with tensors that fit it.
pub(super) struct Trial<H> {
    head: H,
    /// The numbers of each tensor.
    pub floats: Vec<Vec<f32>>,
}

impl<H: Head> Trial<H> {
    /// With the head that `make` gives for tensors of floats with these axes. Panics when it refuses them.
    pub fn new(
        axes: Vec<Vec<usize>>,
        make: impl FnOnce(&[Shape<'_>]) -> Result<H, Mismatch>,
    ) -> Self {
        let shapes: Vec<_> = axes
            .iter()
            .map(|axes| Shape {
                element: ElementKind::F32,
                axes,
            })
            .collect();
        Self {
            head: make(&shapes).expect("the tensors fit"),
            floats: axes
                .iter()
                .map(|axes| vec![0.0; axes.iter().product()])
                .collect(),
        }
    }

    /// Candidates of all classes, and what was noted.
    pub fn decode(&self, threshold: f32) -> (Vec<Candidate>, Decoded) {
        self.decode_kept(threshold, &[], &[])
    }

    /// Candidates of the classes `kept` among `labels`, and what was noted.
    pub fn decode_kept(
        &self,
        threshold: f32,
        labels: &[String],
        kept: &[String],
    ) -> (Vec<Candidate>, Decoded) {
        let tensors: Vec<_> = self
            .floats
            .iter()
            .map(|floats| Numbers::F32(floats))
            .collect();
        decode(&self.head, &tensors, threshold, labels, kept)
    }
}

/// What `head` makes of `tensors`.
pub(super) fn decode(
    head: &impl Head,
    tensors: &[Numbers<'_>],
    threshold: f32,
    labels: &[String],
    kept: &[String],
) -> (Vec<Candidate>, Decoded) {
    let filter = ClassFilter::new(labels, kept).expect("they are known");
    // What an earlier picture left must go.
    let mut candidates = vec![keep(99, 9, 9.0, [9.0; 4])];
    let decoded = head.decode(tensors, threshold, &filter, &mut candidates);
    (candidates, decoded)
}

/// A candidate in one line.
pub(super) fn keep(cell: u32, class: u16, score: f32, xyxy: Xyxy) -> Candidate {
    Candidate {
        cell,
        class,
        score,
        xyxy,
    }
}

/// Words as labels.
pub(super) fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
