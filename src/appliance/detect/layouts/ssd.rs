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
use crate::decoders::activation::{min_logit, sigmoid};
use crate::decoders::boxes::{BoxUnit, first_unbounded, from_center, from_corners};
use crate::decoders::candidates::CandidateCollector;
use crate::decoders::tensors::{check_axes, check_count, floats};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};
use crate::graph::Network;

use jetwatch_config::Words;
use jetwatch_pixels::argmax::{Span, argmax};
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
    (boxes.has_corners == Some(false)).then(|| boxes.name.to_owned())
}

fn recognize(outputs: &Outputs<'_>) -> Option<Recognized> {
    let pairs = outputs.pairs();
    let pair = anchor_pair(&pairs).filter(|pair| pair.boxes.has_corners != Some(false))?;
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

/// Activation to apply to the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SsdActivation {
    /// The softmax over the row.
    Softmax,
    /// The sigmoid of each.
    Sigmoid,
    /// Nothing: they are 0 to 1.
    None,
}

/// The boxes of one network.
#[derive(Debug, Clone)]
pub struct Ssd {
    parameters: SsdParameters,
    rows: usize,
    classes: usize,
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
        Ok(Self {
            parameters: parameters.clone(),
            rows,
            classes,
            input,
        })
    }

    fn row_len(&self) -> usize {
        self.classes + usize::from(self.parameters.background != SsdBackground::None)
    }

    /// The box of row number `row`, whose numbers are `raw`, in input pixels.
    fn decode_box(&self, row: usize, raw: [f32; 4]) -> Xyxy {
        match &self.parameters.boxes {
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
        let row_len = self.row_len();
        let boxes = floats(tensors, BOXES, self.rows * 4);
        let scores = floats(tensors, SCORES, self.rows * row_len);
        let least = ScoreThreshold::new(self.parameters.activation, collector.threshold);
        for (index, row) in scores.chunks_exact(row_len).enumerate() {
            let (start, background) = match self.parameters.background {
                SsdBackground::First => (1, Some(row[0])),
                SsdBackground::Last => (0, Some(row[self.classes])),
                SsdBackground::None => (0, None),
            };
            let classes = &row[start..start + self.classes];
            let span = Span::from_row(classes);
            if !least.is_valid(&span, background) {
                let numbers = row.iter().copied().enumerate();
                collector.report_invalid(
                    SCORES,
                    numbers.map(|(place, score)| (index * row_len + place, score)),
                );
                continue;
            }
            if !least.may_pass(&span, background, self.classes) {
                continue;
            }
            let score = match self.parameters.activation {
                SsdActivation::Softmax => softmax(row, span.max),
                SsdActivation::Sigmoid => sigmoid(span.max),
                SsdActivation::None => span.max,
            };
            if score < collector.threshold {
                continue;
            }
            let raw = [0, 1, 2, 3].map(|number| boxes[index * 4 + number]);
            let xyxy = self.decode_box(index, raw);
            if let Some(number) = first_unbounded(&raw, &xyxy) {
                collector.report_non_finite(BOXES, index * 4 + number);
                continue;
            }
            let class = argmax(classes.iter().copied(), span.max);
            collector.push(index, class, score, xyxy);
        }
    }
}

/// The minimum raw values with which a score may reach the threshold. Compared for each
/// row, so it needs no exponential.
struct ScoreThreshold {
    activation: SsdActivation,
    threshold: f32,
    logit: f32,
}

impl ScoreThreshold {
    fn new(activation: SsdActivation, threshold: f32) -> Self {
        Self {
            activation,
            threshold,
            logit: min_logit(threshold),
        }
    }

    /// Whether all relevant numbers are valid scores or logits.
    fn is_valid(&self, span: &Span, background: Option<f32>) -> bool {
        match self.activation {
            SsdActivation::Softmax => {
                span.sum.is_finite() && background.is_none_or(|background| background.is_finite())
            }
            SsdActivation::Sigmoid => span.sum.is_finite(),
            SsdActivation::None => span.is_valid(),
        }
    }

    fn may_pass(&self, span: &Span, background: Option<f32>, classes: usize) -> bool {
        match (self.activation, background) {
            (SsdActivation::None, _) => span.max >= self.threshold,
            (SsdActivation::Sigmoid, _) => span.max >= self.logit,
            // The softmax of two numbers is the sigmoid of their difference, and further numbers only lower it.
            (SsdActivation::Softmax, Some(background)) => span.max - background >= self.logit,
            // The sum of the exponentials is at least what it would be if all logits were equal to their mean. Rounding is
            // far less than 0.001.
            (SsdActivation::Softmax, None) => {
                let count = classes as f32;
                let mean = span.sum / count;
                mean - span.max <= -(count * self.threshold).ln() + 0.001
            }
        }
    }
}

/// Share of the number `max` in the softmax of `row`.
fn softmax(row: &[f32], max: f32) -> f32 {
    let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = row.iter().map(|logit| (logit - greatest).exp()).sum();
    (max - greatest).exp() / sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_near, check_refused, place};
    use crate::decoders::{DecodeDiagnostics, TensorShape};

    const INPUT: Size = Size::new(100, 50);
    const ANCHOR: Anchor = [0.5, 0.5, 0.2, 0.4];
    /// The box of the anchor.
    const XYXY: Xyxy = [40.0, 15.0, 60.0, 35.0];

    fn deltas(rows: usize) -> SsdBoxes {
        SsdBoxes::Deltas {
            anchors: vec![ANCHOR; rows],
            variances: [0.1, 0.1, 0.2, 0.2],
        }
    }

    /// Three rows, two classes.
    fn fixture(
        boxes: SsdBoxes,
        background: SsdBackground,
        activation: SsdActivation,
    ) -> DecoderFixture<Ssd> {
        let row_len = match background {
            SsdBackground::None => 2,
            SsdBackground::First | SsdBackground::Last => 3,
        };
        let parameters = SsdParameters {
            boxes,
            background,
            activation,
        };
        DecoderFixture::new(vec![vec![3, 4], vec![3, row_len]], |shapes| {
            Ssd::new(&parameters, &NetworkShape::new(INPUT, 2, shapes))
        })
    }

    #[test]
    fn deltas_move_and_stretch_the_anchor() {
        let mut fixture = fixture(deltas(3), SsdBackground::First, SsdActivation::None);
        let double = 2.0_f32.ln() / 0.2;
        fixture.put(0, 4, 1, &[5.0, -2.5, double, -double]);
        fixture.floats[1] = vec![0.1, 0.3, 0.9, 0.9, 0.3, 0.2, 0.1, 0.299_999, 0.2];
        let (candidates, decoded) = fixture.decode(0.3);
        let wanted = [
            candidate(0, 1, 0.9, XYXY),
            // Half of the width to the right, a quarter of the height up; twice as wide, half as high.
            candidate(1, 0, 0.3, [40.0, 15.0, 80.0, 25.0]),
        ];
        check_near(&candidates, &wanted);
        assert_eq!(decoded, DecodeDiagnostics::default());
        let of_a = fixture.decode_with_labels(0.3, &["a", "b"], &["a"]).0;
        check_near(&of_a, &wanted[1..]);
    }

    #[test]
    fn decoded_ssd_boxes_are_corners() {
        for (unit, [w, h]) in [
            (BoxUnit::Normalized, [100.0, 50.0]),
            (BoxUnit::Pixels, [1.0, 1.0]),
        ] {
            let boxes = SsdBoxes::Decoded(unit);
            let mut fixture = fixture(boxes, SsdBackground::Last, SsdActivation::None);
            fixture.put(0, 4, 1, &[0.1, 0.2, 0.5, 0.4]);
            fixture.put(1, 3, 1, &[0.2, 0.7, 0.1]);
            let xyxy = [0.1 * w, 0.2 * h, 0.5 * w, 0.4 * h];
            check_near(&fixture.decode(0.3).0, &[candidate(1, 1, 0.7, xyxy)]);
        }
    }

    #[test]
    fn logits_become_scores() {
        let rows = [1.0_f32, 3.0, 2.5, -1.0, 0.0, 2.0, 4.0, -1.0, 0.5];
        let share = |row: &[f32], place: usize| {
            row[place].exp() / row.iter().map(|logit| logit.exp()).sum::<f32>()
        };
        for (background, place) in [(SsdBackground::First, 1), (SsdBackground::Last, 0)] {
            let mut fixture = fixture(deltas(3), background, SsdActivation::Softmax);
            fixture.put(1, 0, 1, &rows);
            let wanted = [0, 1, 2].map(|row| {
                let row_of = &rows[row * 3..row * 3 + 3];
                let class = usize::from(row_of[place + 1] > row_of[place]);
                candidate(row as u32, class as u16, share(row_of, place + class), XYXY)
            });
            let found = fixture.decode(0.001).0;
            check_near(&found, &wanted);
            // The threshold is included, and what it takes to pass it at least is never too much.
            for one in found {
                let passes = |threshold: f32| {
                    let found = fixture.decode(threshold).0;
                    found.iter().any(|found| found.cell == one.cell)
                };
                let around = (passes(one.score), passes(one.score + 1e-6));
                assert_eq!(around, (true, false), "{one:?}");
            }
        }
        let mut fixture = fixture(deltas(3), SsdBackground::None, SsdActivation::Softmax);
        fixture.put(1, 0, 1, &rows[..6]);
        let first = fixture.decode(0.001).0[0];
        assert!((first.score - share(&rows[..2], 1)).abs() < 1e-6);
        assert_eq!(fixture.decode(first.score).0[0].cell, 0);
        assert_eq!(fixture.decode(0.99).0, []);
        // Two equal logits: half of the whole for each.
        fixture.floats[1].fill(1.0);
        assert_eq!(fixture.decode(0.5).0.len(), 3);
    }

    #[test]
    fn sigmoid_scores_have_no_background_class() {
        let mut fixture = fixture(deltas(3), SsdBackground::None, SsdActivation::Sigmoid);
        fixture.put(1, 0, 1, &[0.0, -1.0, -1.0, 2.0, -9.0, -9.0]);
        let (candidates, decoded) = fixture.decode(0.5);
        let wanted = [candidate(0, 0, 0.5, XYXY), candidate(1, 1, 0.880_797, XYXY)];
        check_near(&candidates, &wanted);
        let fine = DecodeDiagnostics::default();
        assert_eq!(decoded, fine, "logits have no limits");
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        for activation in [SsdActivation::None, SsdActivation::Softmax] {
            let mut fixture = fixture(deltas(3), SsdBackground::First, activation);
            fixture.floats[1] = vec![-5.0, 0.9, 0.1, -5.0, 0.9, 0.1, 0.9, 0.0, 0.0];
            let sides = [4, 5, 6, 7].map(|index| (0, index));
            fixture.check_non_finite(0.5, [(1, 4), (1, 5)].into_iter().chain(sides));
        }
        // The background matters to the softmax.
        let mut background = fixture(deltas(3), SsdBackground::First, SsdActivation::Softmax);
        background.floats[1][3] = f32::NAN;
        let found = background.decode(0.5).1.first_non_finite;
        assert_eq!(found, place(1, 3));
        let mut beyond = fixture(deltas(3), SsdBackground::First, SsdActivation::None);
        beyond.floats[1][5] = 3.0;
        beyond.floats[1][1] = 0.9;
        beyond.floats[0][2] = 600.0;
        let (candidates, decoded) = beyond.decode(0.5);
        assert_eq!(candidates, []);
        assert_eq!(decoded.first_beyond_one, place(1, 5));
        let found = decoded.first_non_finite;
        assert_eq!(found, place(0, 2), "a width beyond all bounds");
        // What does not pass is not looked at.
        let mut below = fixture(deltas(3), SsdBackground::First, SsdActivation::None);
        below.floats[0].fill(f32::NAN);
        let none = (Vec::new(), DecodeDiagnostics::default());
        assert_eq!(below.decode(0.3), none);
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
