// SPDX-License-Identifier: Apache-2.0
//! Classifiers: one score per label, no boxes. Pure; the only code that knows these layouts.
//!
//! ```text
//! [classes]   or with further axes of length 1, such as [classes, 1, 1]
//! ```
//!
//! - `softmax`: the network ends with its softmax; the labels exclude each other.
//! - `logits`: it ends before that, and the softmax is computed here.
//! - `sigmoid`: scores after a sigmoid; several labels may apply at once.
//!
//! Each label that is found is a candidate whose box is the whole input, so that later stages are the same as for other
//! layouts: of exclusive labels the best one, of others all that reach the threshold.

use std::sync::Arc;

use super::recognize::{self, Certainty, Outputs, Recognized};
use super::{DETECTOR, IMAGENET, Layout, LayoutKind, OutputLayout, Preprocessing, UNIT};
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::tensors::{check_count, element_name, floats};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};

use jetwatch_types::Xyxy;

/// The layout of exclusive labels.
pub(crate) const SOFTMAX: Layout = Layout {
    name: "softmax",
    networks: "classifiers trained with ImageNet's mean and deviation",
    needs: "one output [C], behind the network's own Softmax: one probability for each label of a classifier",
    kind: LayoutKind::Classifier,
    input: IMAGENET,
    score_threshold: 0.5,
    needs_suppression: false,
    read: |_, _, _| Some(Arc::new(ClassifierScores::Softmax)),
    recognize: |outputs| {
        recognize(outputs, ClassifierScores::Softmax)
            .into_iter()
            .collect()
    },
    ..DETECTOR
};

/// The layout of exclusive labels before their softmax.
pub(crate) const LOGITS: Layout = Layout {
    name: "logits",
    needs: "one output [C] without a Softmax or Sigmoid behind it: the logits of a classifier with exclusive labels",
    read: |_, _, _| Some(Arc::new(ClassifierScores::Logits)),
    recognize: |outputs| {
        recognize(outputs, ClassifierScores::Logits)
            .into_iter()
            .collect()
    },
    ..SOFTMAX
};

/// The layout of labels that may apply together.
pub(crate) const SIGMOID: Layout = Layout {
    name: "sigmoid",
    needs: "one output [C], behind the network's own Sigmoid: one score for each label of a multi-label classifier",
    read: |_, _, _| Some(Arc::new(ClassifierScores::Sigmoid)),
    recognize: |outputs| {
        recognize(outputs, ClassifierScores::Sigmoid)
            .into_iter()
            .collect()
    },
    ..SOFTMAX
};

/// Operators whose outputs are not scores yet. A `LogSoftmax` is one of them: a softmax of its outputs gives the
/// probabilities.
const RAW: [&str; 11] = [
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Conv",
    "Gemm",
    "GlobalAveragePool",
    "LogSoftmax",
    "MatMul",
    "QGemm",
    "ReduceMean",
    "Sub",
];

/// Ultralytics trains its classifiers without mean and deviation; its exporter writes the task into the metadata.
const ULTRALYTICS: (&str, Preprocessing) = ("classifiers of Ultralytics", UNIT);

/// The layouts have the same shape; the operator that computes the scores tells them apart.
fn recognize(outputs: &Outputs<'_>, scores: ClassifierScores) -> Option<Recognized> {
    use ClassifierScores::{Logits, Sigmoid, Softmax};
    let output = outputs.vector()?;
    let columns = *output.axes.first()?;
    // The probability of a single label is always 1.
    if columns == Some(0) || columns == Some(1) && scores != Sigmoid {
        return None;
    }
    let behind = |operator: &str| format!("from the operator {operator}");
    let (certainty, why) = match (output.made_by, scores) {
        (Some(operator @ "Softmax"), Softmax)
        | (Some(operator @ ("Sigmoid" | "HardSigmoid")), Sigmoid) => {
            (Certainty::Certain, behind(operator))
        }
        (Some("Softmax" | "Sigmoid" | "HardSigmoid"), Logits) => return None,
        (Some(operator @ ("Softmax" | "Sigmoid" | "HardSigmoid")), _) => {
            (Certainty::Possible, behind(operator))
        }
        (Some(operator), Logits) if RAW.contains(&operator) => {
            // A vector of a high input is rather an embedding.
            let certainty = match outputs.is_high() {
                true => Certainty::Possible,
                false => Certainty::Likely,
            };
            let why = "and no Softmax or Sigmoid comes behind it";
            (certainty, format!("{}, {why}", behind(operator)))
        }
        (Some(operator), _) if RAW.contains(&operator) => return None,
        (other, _) => {
            let operator = other.unwrap_or("that makes them, which was not found");
            let why = "which does not show what they are; if they are not probabilities, the daemon reports it: use --layout logits then";
            (Certainty::Possible, format!("{}, {why}", behind(operator)))
        }
    };
    let count = columns.unwrap_or(outputs.noted_classes());
    let reason = format!(
        "output {}: one number for each label, {why}{}",
        output.shape(),
        outputs.agrees(count)
    );
    let tensors = vec![recognize::single("name", output)];
    let is_ultralytics = outputs.network.metadata_value("task") == Some("classify");
    Some(Recognized {
        origin: is_ultralytics.then_some(ULTRALYTICS),
        ..Recognized::new(certainty, count, tensors, reason)
    })
}

impl OutputLayout for ClassifierScores {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(Classifier::new(*self, network)?))
    }

    fn kind(&self) -> LayoutKind {
        LayoutKind::Classifier
    }

    fn allows_several(&self) -> bool {
        matches!(self, Self::Sigmoid)
    }
}

/// Kind of scores of a classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassifierScores {
    /// Probabilities of labels that exclude each other.
    Softmax,
    /// Logits, before a softmax.
    Logits,
    /// An independent score for each label.
    Sigmoid,
}

/// A classifier with a number of labels.
#[derive(Debug, Clone)]
pub struct Classifier {
    scores: ClassifierScores,
    classes: usize,
    image_box: Xyxy,
}

impl Classifier {
    /// A decoder for the tensor `shapes`.
    ///
    /// # Errors
    /// There is not exactly one tensor, or it does not have one score for each of `classes`.
    pub fn new(scores: ClassifierScores, network: &NetworkShape<'_>) -> Result<Self, Mismatch> {
        let (input, classes, shapes) = network.parts();
        check_count(shapes, 1, "scores")?;
        let shape = shapes[0];
        let longer = shape.axes.iter().filter(|axis| **axis != 1).count();
        let fits = longer <= 1
            && !shape.axes.is_empty()
            && shape.axes.iter().product::<usize>() == classes;
        if !fits || shape.element != DType::F32 {
            return Err(Mismatch {
                tensor: 0,
                expected: format!("{} [{classes}]", element_name(DType::F32)),
                advice: "a classifier gives one score for each label: check the labels in model.yaml against those that the \
                         network was trained with, and name the tensor of scores in output"
                    .to_owned(),
            });
        }
        Ok(Self {
            scores,
            classes,
            image_box: [0.0, 0.0, input.width as f32, input.height as f32],
        })
    }

    /// The best label, where labels exclude each other.
    fn keep_best(&self, scores: &[f32], collector: &mut CandidateCollector<'_>) {
        let mut best = (0, f32::NEG_INFINITY);
        for (class, score) in scores.iter().copied().enumerate() {
            if score > best.1 {
                best = (class, score);
            }
        }
        let (class, most) = best;
        let score = match self.scores {
            ClassifierScores::Logits => {
                let sum: f32 = scores.iter().map(|score| (score - most).exp()).sum();
                sum.recip()
            }
            ClassifierScores::Softmax | ClassifierScores::Sigmoid => most,
        };
        // There are at most 10 000 labels.
        collector.push(class, class as u16, score, self.image_box);
    }
}

impl OutputDecoder for Classifier {
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let scores = floats(tensors, 0, self.classes);
        let is_score = |score: &f32| match self.scores {
            ClassifierScores::Logits => score.is_finite(),
            ClassifierScores::Softmax | ClassifierScores::Sigmoid => is_valid(*score),
        };
        match scores.iter().position(|score| !is_score(score)) {
            None if self.scores.allows_several() => {
                for (class, score) in scores.iter().copied().enumerate() {
                    collector.push(class, class as u16, score, self.image_box);
                }
            }
            None => self.keep_best(scores, collector),
            Some(index) if self.scores == ClassifierScores::Logits => {
                collector.report_non_finite(0, index);
            }
            Some(_) => collector.report_invalid(0, scores.iter().copied().enumerate()),
        }
    }

    fn needs_suppression(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused, place};
    use crate::decoders::{DecodeDiagnostics, TensorShape};
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(64, 32);
    const IMAGE_BOX: Xyxy = [0.0, 0.0, 64.0, 32.0];

    fn fixture(scores: ClassifierScores, numbers: &[f32]) -> DecoderFixture<Classifier> {
        let mut fixture = DecoderFixture::new(vec![vec![numbers.len(), 1, 1]], |shapes| {
            Classifier::new(scores, &NetworkShape::new(INPUT, numbers.len(), shapes))
        });
        fixture.put(0, 0, 1, numbers);
        fixture
    }

    #[test]
    fn of_exclusive_labels_the_best_is_kept() {
        let softmax = fixture(ClassifierScores::Softmax, &[0.1, 0.6, 0.3]);
        assert_eq!(softmax.decode(0.5).0, [candidate(1, 1, 0.6, IMAGE_BOX)]);
        assert_eq!(softmax.decode(0.7).0, []);
        let of_c = softmax.decode_with_labels(0.0, &["a", "b", "c"], &["c"]).0;
        assert_eq!(of_c, [], "b is the best, and not wanted");
        // e⁰/(e⁰ + e⁻¹ + e⁻²), also far from zero.
        let logits = fixture(ClassifierScores::Logits, &[998.0, 1000.0, 999.0]);
        let (found, decoded) = logits.decode(0.5);
        assert_eq!(decoded, DecodeDiagnostics::default());
        assert_eq!((found.len(), found[0].class), (1, 1));
        assert!((found[0].score - 0.665_241).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn independent_labels_keep_all_above_threshold() {
        let sigmoid = fixture(ClassifierScores::Sigmoid, &[0.9, 0.2, 0.5]);
        let wanted = [(0, 0.9), (2, 0.5)]
            .map(|(label, score)| candidate(label, label as u16, score, IMAGE_BOX));
        assert_eq!(sigmoid.decode(0.5).0, wanted);
    }

    #[test]
    fn invalid_scores_are_reported() {
        for scores in [ClassifierScores::Softmax, ClassifierScores::Sigmoid] {
            let (found, decoded) = fixture(scores, &[0.5, 3.0]).decode(0.1);
            assert_eq!((found.len(), decoded.first_beyond_one), (0, place(0, 1)));
        }
        for scores in [ClassifierScores::Logits, ClassifierScores::Softmax] {
            let (found, decoded) = fixture(scores, &[0.5, 0.5, f32::NAN]).decode(0.1);
            assert_eq!((found.len(), decoded.first_non_finite), (0, place(0, 2)));
        }
    }

    #[test]
    fn classifier_tensor_needs_one_value_per_label() {
        let make = |classes| {
            move |shapes: &[TensorShape<'_>]| {
                Classifier::new(
                    ClassifierScores::Softmax,
                    &NetworkShape::new(INPUT, classes, shapes),
                )
            }
        };
        for axes in [vec![3], vec![3, 1, 1], vec![1, 3]] {
            DecoderFixture::new(vec![axes], make(3));
        }
        DecoderFixture::new(vec![vec![1]], make(1));
        let (f32, i64, expected) = (DType::F32, DType::I64, "float32 [3]");
        #[rustfmt::skip]
        check_refused(make(3), "", &[
            (&[&[4]], f32, 0, expected),
            (&[&[3, 2]], f32, 0, expected),
            (&[&[3]], i64, 0, expected),
        ]);
    }
}
