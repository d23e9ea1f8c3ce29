// SPDX-License-Identifier: Apache-2.0
//! Test fixture of the decoders: a decoder with tensors of floats, all 0, that a test fills, and the checks that all of them pass.

use std::mem;

use super::{
    DType, DecodeDiagnostics, ElementIndex, Mismatch, OutputDecoder, TensorShape, TensorView,
};
use crate::{Candidate, ClassFilter};
use jetwatch_types::Xyxy;

/// Numbers that are not finite.
pub(crate) const NON_FINITE: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

/// A decoder with tensors that fit it.
pub(crate) struct DecoderFixture<H> {
    /// The decoder.
    pub decoder: H,
    /// The numbers of each tensor.
    pub floats: Vec<Vec<f32>>,
}

impl<H: OutputDecoder> DecoderFixture<H> {
    /// With the decoder that `make` returns for tensors of floats with these axes. Panics when it refuses them.
    pub fn new(
        axes: Vec<Vec<usize>>,
        make: impl FnOnce(&[TensorShape<'_>]) -> Result<H, Mismatch>,
    ) -> Self {
        let shape = |axes| TensorShape {
            element: DType::F32,
            axes,
        };
        let shapes: Vec<_> = axes.iter().map(|axes| shape(axes.as_slice())).collect();
        let zeros = |axes: &Vec<usize>| vec![0.0; axes.iter().product()];
        Self {
            decoder: make(&shapes).expect("the tensors fit"),
            floats: axes.iter().map(zeros).collect(),
        }
    }

    /// Writes `numbers` into a tensor, the first at `first`, each `step` after the one before.
    pub fn put(&mut self, tensor: usize, first: usize, step: usize, numbers: &[f32]) {
        for (place, number) in numbers.iter().enumerate() {
            self.floats[tensor][first + place * step] = *number;
        }
    }

    /// Candidates of all classes, and diagnostics.
    pub fn decode(&self, threshold: f32) -> (Vec<Candidate>, DecodeDiagnostics) {
        self.decode_with_labels(threshold, &[], &[])
    }

    /// Candidates of the classes `kept` among `labels`, and diagnostics.
    pub(crate) fn decode_with_labels(
        &self,
        threshold: f32,
        labels: &[&str],
        kept: &[&str],
    ) -> (Vec<Candidate>, DecodeDiagnostics) {
        let view = |floats| TensorView::F32(floats);
        let tensors: Vec<_> = self.floats.iter().map(|tensor| view(tensor)).collect();
        decode(&self.decoder, &tensors, threshold, labels, kept)
    }

    /// In each of these places (tensor, index) a number that is not finite costs one candidate and is reported.
    pub(crate) fn check_non_finite(
        &mut self,
        threshold: f32,
        places: impl IntoIterator<Item = (usize, usize)>,
    ) {
        for (tensor, index) in places {
            for bad in NON_FINITE {
                let expected = DecodeDiagnostics {
                    non_finite: 1,
                    first_non_finite: place(tensor, index),
                    ..DecodeDiagnostics::default()
                };
                self.check_bad(threshold, tensor, index, bad, expected);
            }
        }
    }

    /// Each of these scores (tensor, index, score) costs one candidate and is reported as no probability.
    pub(crate) fn check_beyond_one(&mut self, threshold: f32, scores: &[(usize, usize, f32)]) {
        for (tensor, index, bad) in scores.iter().copied() {
            let expected = DecodeDiagnostics {
                first_beyond_one: place(tensor, index),
                ..DecodeDiagnostics::default()
            };
            self.check_bad(threshold, tensor, index, bad, expected);
        }
    }

    fn check_bad(
        &mut self,
        threshold: f32,
        tensor: usize,
        index: usize,
        bad: f32,
        expected: DecodeDiagnostics,
    ) {
        let all = self.decode(threshold).0.len();
        let good = mem::replace(&mut self.floats[tensor][index], bad);
        let (candidates, decoded) = self.decode(threshold);
        let found = (candidates.len() + 1, decoded);
        assert_eq!(
            found,
            (all, expected),
            "{bad} in tensor {tensor} at {index}"
        );
        self.floats[tensor][index] = good;
    }
}

/// Decodes `tensors` with `decoder`.
pub(crate) fn decode(
    decoder: &impl OutputDecoder,
    tensors: &[TensorView<'_>],
    threshold: f32,
    labels: &[&str],
    kept: &[&str],
) -> (Vec<Candidate>, DecodeDiagnostics) {
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(ToString::to_string).collect() };
    let filter = ClassFilter::new(&words(labels), &words(kept)).expect("they are known");
    // Candidates of an earlier image must be removed.
    let mut candidates = vec![candidate(99, 9, 9.0, [9.0; 4])];
    let decoded = decoder.decode(tensors, threshold, &filter, &mut candidates);
    (candidates, decoded)
}

/// Shorthand for a candidate.
pub(crate) fn candidate(cell: u32, class: u16, score: f32, xyxy: Xyxy) -> Candidate {
    Candidate {
        cell,
        class,
        score,
        xyxy,
    }
}

/// Where a number is that was reported.
pub(crate) fn place(tensor: usize, index: usize) -> Option<ElementIndex> {
    Some(ElementIndex { tensor, index })
}

/// `found` are `wanted` within the rounding of exponentials.
pub(crate) fn check_near(found: &[Candidate], wanted: &[Candidate]) {
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!((found.cell, found.class), (wanted.cell, wanted.class));
        assert!((found.score - wanted.score).abs() < 1e-6, "{found:?}");
        let mut edges = found.xyxy.iter().zip(wanted.xyxy);
        let near = edges.all(|(a, b)| (a - b).abs() < 1e-4);
        assert!(near, "{found:?} instead of {wanted:?}");
    }
}

/// Axes of tensors that are refused, their type, the tensor that is named, and what is expected of it.
pub(crate) type Refused<'a> = (&'a [&'a [usize]], DType, usize, &'a str);

/// `make` refuses the tensors of each case, with `advice` in its text.
pub(crate) fn check_refused<H>(
    make: impl Fn(&[TensorShape<'_>]) -> Result<H, Mismatch>,
    advice: &str,
    cases: &[Refused<'_>],
) {
    for (axes, element, tensor, expected) in cases {
        let shape = |axes| TensorShape {
            element: *element,
            axes,
        };
        let shapes: Vec<_> = axes.iter().map(|axes| shape(*axes)).collect();
        let Err(mismatch) = make(&shapes) else {
            panic!("{element:?} {axes:?} was taken, expected {expected}");
        };
        let found = (mismatch.tensor, mismatch.expected.as_str());
        assert_eq!(found, (*tensor, *expected), "{element:?} {axes:?}");
        let has_advice = mismatch.advice.contains(advice) || expected.contains(" tensors (");
        assert!(has_advice, "{}", mismatch.advice);
    }
}
