// SPDX-License-Identifier: Apache-2.0
//! SSD: each box relative to an anchor, with a score per class and usually one for the background. Pure; the only code
//! that knows this layout.
//!
//! ```text
//! boxes   [N, 4]                       x, y, width, height as deltas, or finished corners
//! scores  [N, classes + background]
//! ```
//!
//! With anchor `a` and variances `v`, all as fractions of the input:
//!
//! ```text
//! center = (aₓ + x·v₀·a_w, a_y + y·v₁·a_h)     size = (a_w·exp(width·v₂), a_h·exp(height·v₃))
//! score  = best class, after softmax or sigmoid if the network has none
//! ```
//!
//! The layout is that of Liu et al., "SSD: Single Shot MultiBox Detector" (2016). See [`anchors`].

use std::sync::Arc;

use jetwatch_config::Section;

use self::anchors::Anchor;
use self::keys::SsdKeys;
use super::keys::{ActivationKey, BoxesAreKey, TensorForm, single};
use super::recognize::{Certainty, MAX_OBJECTS, Outputs, Pair, Recognized};
use super::{DETECTOR, Layout, OutputLayout, Preprocessing, UNIT};
use crate::decoders::boxes::{BoxUnit, first_unbounded, from_center, from_corners};
use crate::decoders::candidates::CandidateCollector;
pub use crate::decoders::dense::Activation as SsdActivation;
use crate::decoders::dense::{Place, Scores};
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};
use crate::graph::Network;

use jetwatch_config::Words;
use jetwatch_types::{Size, Xyxy};

pub mod anchors;
pub(super) mod keys;

/// The layout.
pub const SSD: Layout = Layout {
    name: "ssd",
    networks: "SSD with MobileNet and the like",
    needs: "boxes [N, 4] and scores [N, C + 1]",
    input: Preprocessing {
        mean: [127.5; 3],
        scale: [0.007_843_137; 3],
        ..UNIT
    },
    tensors: &[TensorForm::Roles(&[single("boxes"), single("scores")])],
    keys: &[BoxesAreKey::KEYS, ActivationKey::KEYS, SsdKeys::KEYS],
    read: |map, _, read_text| Some(Arc::new(keys::read(map, read_text)?)),
    recognize: |outputs| recognize(outputs).into_iter().collect(),
    ..DETECTOR
};

/// Boxes and scores of anchors.
fn anchor_pair<'p, 'a>(pairs: &'p [Pair<'a>]) -> Option<&'p Pair<'a>> {
    pairs.iter().find(|pair| {
        let is_long = pair.rows.is_some_and(|rows| rows > MAX_OBJECTS);
        let is_dense = pair.is_dense && !pair.has_softmax();
        !pair.has_three_per_cell && !is_dense && is_long && pair.columns > 0
    })
}

/// Name of the output with boxes that are no corners, as a run showed: they refer to anchors, which the file does not contain.
pub fn raw_boxes(network: &Network, size: Size) -> Option<String> {
    let outputs = Outputs::new(network, Some(size))?;
    let pairs = outputs.pairs();
    let boxes = anchor_pair(&pairs)?.boxes;
    (boxes.tensor.has_corners == Some(false)).then(|| boxes.name.to_owned())
}

fn recognize(outputs: &Outputs<'_>) -> Option<Recognized> {
    let pairs = outputs.pairs();
    let pair = anchor_pair(&pairs).filter(|pair| pair.boxes.tensor.has_corners != Some(false))?;
    let scores = pair.columns as usize;
    let noted = outputs.names.as_ref().map(Vec::len);
    let background = SsdBackground::likely(scores, noted);
    let classes = background.classes(scores) as u64;
    if classes == 0 {
        return None;
    }
    let why = "as many as anchors, which the file does not contain";
    Some(Recognized {
        // Deltas would need the anchors; finished boxes do not.
        parameters: vec![
            ("boxes_are", "normalized".to_owned()),
            (BACKGROUND_KEY, background.word().to_owned()),
            ("activation", "none".to_owned()),
        ],
        ..pair.recognized(outputs, Certainty::Likely, classes, why)
    })
}

/// The key of the background in `output`.
pub const BACKGROUND_KEY: &str = "background";

impl SsdBackground {
    /// Every place.
    pub const ALL: [Self; 3] = [Self::First, Self::Last, Self::None];

    /// The place for an anchor with this number of scores: first, as most networks have it, unless all scores belong to the
    /// `labels`, or there is only one.
    pub fn likely(scores: usize, labels: Option<usize>) -> Self {
        match scores == 1 || labels == Some(scores) {
            true => Self::None,
            false => Self::First,
        }
    }

    /// Number of classes of a network with this number of scores for an anchor.
    #[must_use]
    pub fn classes(self, scores: usize) -> usize {
        match self {
            Self::First | Self::Last => scores.saturating_sub(1),
            Self::None => scores,
        }
    }
}

impl OutputLayout for SsdParameters {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(Ssd::new(self, network)?))
    }
}

const BOXES: usize = 0;
const SCORES: usize = 1;

/// The tensors as `model.yaml` specifies them.
#[derive(Debug, Clone, PartialEq)]
pub struct SsdParameters {
    /// Format of the four numbers of a box.
    pub boxes: SsdBoxes,
    /// Position of the background score.
    pub background: SsdBackground,
    /// Activation to apply to the scores.
    pub activation: SsdActivation,
}

/// Format of the four numbers of a box.
#[derive(Debug, Clone, PartialEq)]
pub enum SsdBoxes {
    /// Deltas of center and size.
    Deltas {
        /// One for each row of the output.
        anchors: Vec<Anchor>,
        /// Factors of x, y, width and height: mostly 0.1, 0.1, 0.2 and 0.2.
        variances: [f32; 4],
    },
    /// Corners: the network has applied its anchors.
    Decoded(BoxUnit),
}

/// Position of the background score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum SsdBackground {
    /// Before the classes.
    First,
    /// After the classes.
    Last,
    /// There is none.
    None,
}

/// The boxes of one network.
#[derive(Debug, Clone)]
pub struct Ssd {
    boxes: SsdBoxes,
    place: Place,
    scores: Scores,
    input: Size,
}

impl Ssd {
    /// A decoder for the tensors `shapes`, which have one row for each anchor.
    ///
    /// # Errors
    /// There are not two tensors with one row for each anchor, or scores do not have the columns of `classes` and the background.
    pub fn new(parameters: &SsdParameters, network: &NetworkShape<'_>) -> Result<Self, Mismatch> {
        let (input, classes, shapes) = network.parts();
        check_count(shapes, 2, "boxes, scores")?;
        let (anchors, advice) = match &parameters.boxes {
            SsdBoxes::Deltas { anchors, .. } => (
                Some(anchors.len()),
                "boxes of the layout ssd have one row for each anchor: check feature_maps, scales and aspect_ratios, or \
                 name an anchors_file",
            ),
            SsdBoxes::Decoded(_) => (
                None,
                "boxes of the layout ssd have four numbers in each row",
            ),
        };
        let wanted = [(anchors, "boxes"), (Some(4), "box")];
        check_axes(shapes, BOXES, DType::F32, &wanted, advice)?;
        let rows = shapes[BOXES].axes[0];
        let advice = "scores of the layout ssd have one number for each label, and one for the background if there is one: \
                      check the labels and background";
        let row_len = classes + usize::from(parameters.background != SsdBackground::None);
        let wanted = [(Some(rows), "boxes"), (Some(row_len), "scores")];
        check_axes(shapes, SCORES, DType::F32, &wanted, advice)?;
        let column = |column| Place::rows(SCORES, rows, row_len, column);
        let (first, background) = match parameters.background {
            SsdBackground::First => (1, Some(column(0))),
            SsdBackground::Last => (0, Some(column(classes))),
            SsdBackground::None => (0, None),
        };
        Ok(Self {
            boxes: parameters.boxes.clone(),
            place: Place::rows(BOXES, rows, 4, 0),
            scores: Scores {
                activation: parameters.activation,
                background,
                ..Scores::finished(column(first), rows, classes)
            },
            input,
        })
    }

    /// The box of row number `row`, whose numbers are `raw`, in input pixels.
    fn decode_box(&self, row: usize, raw: [f32; 4]) -> Xyxy {
        match &self.boxes {
            SsdBoxes::Deltas { anchors, variances } => {
                let [x, y, width, height] = anchors[row];
                let delta = |number: usize| raw[number] * variances[number];
                from_center(
                    [
                        x + delta(0) * width,
                        y + delta(1) * height,
                        width * delta(2).exp(),
                        height * delta(3).exp(),
                    ],
                    BoxUnit::Normalized.pixels(self.input),
                )
            }
            SsdBoxes::Decoded(unit) => from_corners(raw, unit.pixels(self.input)),
        }
    }
}

impl OutputDecoder for Ssd {
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let boxes = self.place.numbers(tensors);
        self.scores.decode(tensors, 0, None, collector, |row| {
            let raw = [0, 1, 2, 3].map(|number| boxes[self.place.index(row, number)]);
            let xyxy = self.decode_box(row, raw);
            match first_unbounded(&raw, &xyxy) {
                Some(number) => Err(self.place.element(row, number)),
                None => Ok(xyxy),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::TensorShape;
    use crate::decoders::fixture::check_refused;

    const INPUT: Size = Size::new(100, 50);
    const ANCHOR: Anchor = [0.5, 0.5, 0.2, 0.4];

    fn deltas(rows: usize) -> SsdBoxes {
        SsdBoxes::Deltas {
            anchors: vec![ANCHOR; rows],
            variances: [0.1, 0.1, 0.2, 0.2],
        }
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let make = |boxes: SsdBoxes| {
            let parameters = SsdParameters {
                boxes,
                background: SsdBackground::First,
                activation: SsdActivation::None,
            };
            move |shapes: &[TensorShape<'_>]| {
                Ssd::new(&parameters, &NetworkShape::new(INPUT, 2, shapes))
            }
        };
        let f32 = DType::F32;
        let decoded = make(SsdBoxes::Decoded(BoxUnit::Normalized));
        #[rustfmt::skip]
        check_refused(make(deltas(7)), "", &[(&[&[9, 4], &[9, 3]], f32, 0, "float32 [7, 4]")]);
        #[rustfmt::skip]
        check_refused(&decoded, "", &[
            (&[&[9, 5], &[9, 3]], f32, 0, "float32 [boxes, 4]"),
            (&[&[9, 4], &[9, 2]], f32, 1, "float32 [9, 3]"),
            (&[&[9, 4], &[8, 3]], f32, 1, "float32 [9, 3]"),
        ]);
        // Boxes of floats with scores of whole numbers.
        let shapes = [(f32, &[9, 4]), (DType::I64, &[9, 3])].map(|(element, axes)| TensorShape {
            element,
            axes: axes.as_slice(),
        });
        let mismatch = decoded(&shapes).expect_err("whole scores");
        let found = (mismatch.tensor, mismatch.expected.as_str());
        assert_eq!(found, (1, "float32 [9, 3]"));
    }
}
