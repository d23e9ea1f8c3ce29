// SPDX-License-Identifier: Apache-2.0
//! Embeddings: one vector for the whole image, no boxes. Pure; the only code that knows this layout.
//!
//! ```text
//! [length]   or with further axes of length 1, such as [length, 1, 1]
//! ```
//!
//! Networks for re-identification (ReID) give such vectors: those of one object point in about the same direction, whatever its pose.
//! Only the direction counts.

use super::candidates::CandidateCollector;
use super::tensors::{check_count, element_name, floats};
use super::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::{Candidate, ClassFilter};

/// Accepted lengths: a vector with one value has no direction.
const LENGTHS: std::ops::RangeInclusive<usize> = 2..=8192;

/// The vector of an image.
#[derive(Debug, Clone)]
pub struct Embedding {
    length: usize,
}

impl Embedding {
    /// A decoder for the tensor `shapes`.
    pub fn new(shapes: &[TensorShape<'_>]) -> Result<Self, Mismatch> {
        check_count(shapes, 1, "embedding")?;
        let shape = shapes[0];
        let length = shape.axes.iter().product::<usize>();
        let longer = shape.axes.iter().filter(|axis| **axis != 1).count();
        if longer != 1 || !LENGTHS.contains(&length) || shape.element != DType::F32 {
            return Err(Mismatch {
                tensor: 0,
                expected: format!(
                    "{} [length] with a length from {} to {}",
                    element_name(DType::F32),
                    LENGTHS.start(),
                    LENGTHS.end()
                ),
                advice: "the layout embedding takes one vector for each image: name the tensor behind the network's pooling in \
                         output, and not the scores that it was trained with"
                    .to_owned(),
            });
        }
        Ok(Self { length })
    }
}

impl OutputDecoder for Embedding {
    /// Finds nothing: only the values are checked.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        let values = floats(tensors, 0, self.length);
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            collector.report_non_finite(0, index);
        }
        collector.decoded
    }

    fn needs_suppression(&self) -> bool {
        false
    }

    fn embedding<'t>(&self, tensors: &[TensorView<'t>]) -> Option<&'t [f32]> {
        Some(floats(tensors, 0, self.length))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{DecoderFixture, check_refused, place};
    use super::*;

    #[test]
    fn a_vector_is_given_as_it_is_and_no_box() {
        let mut fixture = DecoderFixture::new(vec![vec![3, 1, 1]], Embedding::new);
        let values = [0.5, -2.0, 7.0];
        fixture.put(0, 0, 1, &values);
        let none = (Vec::new(), DecodeDiagnostics::default());
        assert_eq!(fixture.decode(0.0), none);
        let vector = Embedding { length: 3 }.embedding(&[TensorView::F32(&values)]);
        assert_eq!(vector, Some(&values[..]));
        fixture.floats[0][1] = f32::NAN;
        assert_eq!(fixture.decode(0.0).1.first_non_finite, place(0, 1));
    }

    #[test]
    fn only_one_vector_of_floats_fits() {
        for axes in [vec![128], vec![128, 1, 1], vec![1, 2]] {
            DecoderFixture::new(vec![axes], Embedding::new);
        }
        let (f32, expected) = (DType::F32, "float32 [length] with a length from 2 to 8192");
        let wrong: [&[usize]; 5] = [&[1], &[], &[16, 8], &[9000], &[128]];
        let cases = wrong.map(|axes| ([axes], if axes == [128] { DType::I64 } else { f32 }));
        for (axes, element) in &cases {
            check_refused(Embedding::new, "", &[(axes, *element, 0, expected)]);
        }
    }
}
