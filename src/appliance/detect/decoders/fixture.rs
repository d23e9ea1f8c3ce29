//! Test fixture of the decoders: a decoder with tensors of floats, all 0, that a test fills.

use super::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::{Candidate, ClassFilter};
use jetwatch_types::Xyxy;

/// A decoder with tensors that fit it.
pub(super) struct DecoderFixture<H> {
    decoder: H,
    /// The numbers of each tensor.
    pub floats: Vec<Vec<f32>>,
}

impl<H: OutputDecoder> DecoderFixture<H> {
    /// With the decoder that `make` returns for tensors of floats with these axes. Panics when it refuses them.
    pub fn new(
        axes: Vec<Vec<usize>>,
        make: impl FnOnce(&[TensorShape<'_>]) -> Result<H, Mismatch>,
    ) -> Self {
        let shapes: Vec<_> = axes
            .iter()
            .map(|axes| TensorShape {
                element: DType::F32,
                axes,
            })
            .collect();
        Self {
            decoder: make(&shapes).expect("the tensors fit"),
            floats: axes
                .iter()
                .map(|axes| vec![0.0; axes.iter().product()])
                .collect(),
        }
    }

    /// Candidates of all classes, and diagnostics.
    pub fn decode(&self, threshold: f32) -> (Vec<Candidate>, DecodeDiagnostics) {
        self.decode_with_labels(threshold, &[], &[])
    }

    /// Candidates of the classes `kept` among `labels`, and diagnostics.
    pub fn decode_with_labels(
        &self,
        threshold: f32,
        labels: &[String],
        kept: &[String],
    ) -> (Vec<Candidate>, DecodeDiagnostics) {
        let tensors: Vec<_> = self
            .floats
            .iter()
            .map(|floats| TensorView::F32(floats))
            .collect();
        decode(&self.decoder, &tensors, threshold, labels, kept)
    }
}

/// Decodes `tensors` with `decoder`.
pub(super) fn decode(
    decoder: &impl OutputDecoder,
    tensors: &[TensorView<'_>],
    threshold: f32,
    labels: &[String],
    kept: &[String],
) -> (Vec<Candidate>, DecodeDiagnostics) {
    let filter = ClassFilter::new(labels, kept).expect("they are known");
    // Candidates of an earlier image must be removed.
    let mut candidates = vec![candidate(99, 9, 9.0, [9.0; 4])];
    let decoded = decoder.decode(tensors, threshold, &filter, &mut candidates);
    (candidates, decoded)
}

/// Shorthand for a candidate.
pub(super) fn candidate(cell: u32, class: u16, score: f32, xyxy: Xyxy) -> Candidate {
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
