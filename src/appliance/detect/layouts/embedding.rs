// SPDX-License-Identifier: Apache-2.0
//! Embeddings: one vector for the whole image, no boxes. Pure; the only code that knows this layout.
//!
//! ```text
//! [length]   or with further axes of length 1, such as [length, 1, 1]
//! ```
//!
//! Networks for re-identification (ReID) give such vectors: those of one object point in about the same direction, whatever its pose.
//! Only the direction counts.

use std::sync::Arc;

use super::recognize::{self, Certainty, Outputs, Recognized};
use super::{DETECTOR, IMAGENET, Layout, LayoutKind, OutputLayout};
use crate::decoders::candidates::CandidateCollector;
use crate::decoders::tensors::{check_count, element_name, floats};
use crate::decoders::{
    BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorShape, TensorView,
};

/// The layout.
pub(crate) const EMBEDDING: Layout = Layout {
    name: "embedding",
    networks: "networks that tell objects apart (ReID), trained with ImageNet's mean and deviation",
    needs: "one output [D]: a vector for each image, without classes",
    kind: LayoutKind::Embedding,
    input: IMAGENET,
    score_threshold: 0.5,
    needs_suppression: false,
    read: |_, _, _| Some(Arc::new(Vector)),
    recognize: |outputs| recognize(outputs).into_iter().collect(),
    ..DETECTOR
};

/// Numbers of an embedding of an object.
const USUAL_LENGTHS: std::ops::RangeInclusive<u64> = 64..=4096;

/// Operators whose outputs are scores and no embedding.
const SCORES: [&str; 4] = ["HardSigmoid", "LogSoftmax", "Sigmoid", "Softmax"];

/// A vector of the usual length, without names of classes and without an operator that makes scores.
fn recognize(outputs: &Outputs<'_>) -> Option<Recognized> {
    let output = outputs.vector()?;
    let length = (*output.axes.first()?)?;
    let makes_scores = output.made_by.is_some_and(|by| SCORES.contains(&by));
    if !USUAL_LENGTHS.contains(&length) || makes_scores || outputs.names.is_some() {
        return None;
    }
    let certainty = match outputs.is_high() {
        true => Certainty::Likely,
        false => Certainty::Possible,
    };
    let reason = format!(
        "output {} of an input of {}: one vector for each image, as networks have that tell objects apart (ReID)",
        output.shape(),
        outputs.size
    );
    let tensors = vec![recognize::single("name", output)];
    Some(Recognized::new(certainty, 0, tensors, reason))
}

/// Its parameters: none.
#[derive(Debug)]
pub struct Vector;

impl OutputLayout for Vector {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(Embedding::new(network.shapes)?))
    }

    fn kind(&self) -> LayoutKind {
        LayoutKind::Embedding
    }
}

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
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let values = floats(tensors, 0, self.length);
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            collector.report_non_finite(0, index);
        }
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
    use super::*;
    use crate::decoders::DecodeDiagnostics;
    use crate::decoders::fixture::{DecoderFixture, check_refused, place};

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
