// SPDX-License-Identifier: Apache-2.0
//! RT-DETR, D-FINE and similar: a fixed number of queries, each one object or none, without suppression. Pure.
//!
//! Exports differ in how much postprocessing they contain, for `Q` queries and `C` classes:
//!
//! ```text
//! queries   scores [Q, C]   boxes [Q, 4]               the transformer's own output: centers and sizes, normalized
//! joined    [Q, 4 + C]                                 the same in one tensor, scores after their sigmoid (Ultralytics)
//! ranked    labels [Q]      boxes [Q, 4]   scores [Q]  the authors' export: corners in units of its input `orig_target_sizes`
//! ```
//!
//! The authors rank all pairs of a query and a class, so that one query may become two objects at the same position. Here a
//! query is one object, of its best class: two tracks on one object are worse than a rare second class that is dropped.

use std::sync::Arc;

use jetwatch_config::{Map, Section};

use super::keys::{ActivationKey, TensorForm, Tensors, single};
use super::recognize::{self, Certainty, MAX_OBJECTS, Outputs, Recognized, THREE};
use super::{DETECTOR, Layout, OutputLayout};
use crate::decoders::activation::{min_logit, sigmoid};
use crate::decoders::boxes::{BoxUnit, first_unbounded, from_center, from_corners};
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::tensors::{check_axes, check_count, floats};
use crate::decoders::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::graph::Element;
use crate::yaml_values::invalid;
use crate::{Candidate, ClassFilter};
use jetwatch_pixels::argmax::{Span, argmax};
use jetwatch_types::Size;

/// The layout.
pub const DETR: Layout = Layout {
    name: "detr",
    networks: "RT-DETR, D-FINE",
    needs: "scores [Q, C] and boxes [Q, 4], or labels int64 [Q], boxes [Q, 4] and scores [Q], or one output [Q, 4 + C]",
    needs_suppression: false,
    tensors: &[
        TensorForm::Name,
        TensorForm::Roles(&[single("labels"), single("boxes"), single("scores")]),
        TensorForm::Roles(&[single("scores"), single("boxes")]),
    ],
    keys: &[ActivationKey::KEYS],
    read: |map, tensors, _| Some(Arc::new(read(map, tensors)?)),
    recognize: |outputs| {
        let found = ranked(outputs).into_iter();
        found
            .chain(joined(outputs))
            .chain(queries(outputs))
            .collect()
    },
    ..DETECTOR
};

fn read(map: &Map<'_>, tensors: Option<&Tensors>) -> Option<DetrParameters> {
    let activation = match map.get("activation") {
        Some(node) => {
            let found = node.one_of(&[
                ("sigmoid", DetrActivation::Sigmoid),
                ("none", DetrActivation::None),
            ]);
            if tensors.is_some_and(|tensors| tensors.is_name() || tensors.has("labels")) {
                let what = "given for scores that the network has finished";
                return invalid(&node, what, "only together with tensors {scores, boxes}");
            }
            found?
        }
        None => DetrActivation::Sigmoid,
    };
    let tensors = tensors?;
    Some(if tensors.is_name() {
        DetrParameters::Joined
    } else if tensors.has("labels") {
        DetrParameters::Ranked
    } else {
        DetrParameters::Queries { activation }
    })
}

/// Labels, boxes and scores of queries, with the size of the images as a second input.
fn ranked(outputs: &Outputs<'_>) -> Option<Recognized> {
    let list = &outputs.list;
    if list.len() != 3 {
        return None;
    }
    let labels = list
        .iter()
        .find(|output| output.element == Element::INT64 && output.axes.len() == 1)?;
    let boxes = list.iter().find(|output| output.is_boxes())?;
    let scores = list
        .iter()
        .find(|output| output.is_float() && output.axes.len() == 1)?;
    let sizes = outputs.extra_input(Element::INT64);
    let given = sizes.map_or("", |_| "; a further input takes the size of the images");
    let reason = format!(
        "labels in int64, boxes {} and scores of queries{given}",
        boxes.shape()
    );
    let tensors = vec![
        recognize::single("labels", labels),
        recognize::single("boxes", boxes),
        recognize::single("scores", scores),
    ];
    let classes = outputs.noted_classes();
    Some(Recognized::new(Certainty::Likely, classes, tensors, reason))
}

fn joined(outputs: &Outputs<'_>) -> Option<Recognized> {
    let (matrix, cells) = (outputs.matrix()?, outputs.cells(&THREE));
    if matrix.rows > MAX_OBJECTS || matrix.rows >= cells {
        return None;
    }
    // With more columns than cells, the columns are the boxes.
    let certainty = match matrix.columns < cells {
        true => Certainty::Likely,
        false => Certainty::Possible,
    };
    let why = format!("{} queries, with 4 numbers before the classes", matrix.rows);
    let classes = matrix.columns.checked_sub(BOX as u64);
    matrix.recognized(outputs, certainty, classes, &why)
}

fn queries(outputs: &Outputs<'_>) -> Option<Recognized> {
    let pairs = outputs.pairs();
    let pair = pairs.iter().find(|pair| {
        !pair.has_three_per_cell && pair.rows.is_none_or(|rows| rows <= MAX_OBJECTS)
    })?;
    let (activation, why) = match pair.scores.name.contains("logit") {
        true => (
            "sigmoid",
            "queries, and the name indicates that the sigmoid is missing",
        ),
        false => ("none", "queries"),
    };
    Some(Recognized {
        parameters: vec![("activation", activation.to_owned())],
        ..pair.recognized(outputs, Certainty::Likely, pair.columns, why)
    })
}

impl OutputLayout for DetrParameters {
    fn create_decoder(
        &self,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Box<dyn OutputDecoder>, Mismatch> {
        Ok(Box::new(Detr::new(self, input, classes, shapes)?))
    }
}

/// Numbers of a box, which stand before the classes in one tensor.
const BOX: usize = 4;

/// The tensors as `model.yaml` specifies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetrParameters {
    /// `scores`, then `boxes`.
    Queries {
        /// Activation to apply to the scores.
        activation: DetrActivation,
    },
    /// One tensor.
    Joined,
    /// `labels`, `boxes`, `scores`. The boxes are in input pixels: the network gets the size of its own input.
    Ranked,
}

/// Activation to apply to the scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetrActivation {
    /// The scores are logits; the sigmoid is computed here.
    Sigmoid,
    /// The scores are 0 to 1.
    None,
}

/// The queries of one network.
#[derive(Debug, Clone)]
pub struct Detr {
    parameters: DetrParameters,
    queries: usize,
    classes: usize,
    input: Size,
}

impl Detr {
    /// A decoder for the tensors `shapes`; the number of queries is theirs.
    ///
    /// # Errors
    /// The tensors are not those of the form in `parameters`, or do not have the same number of queries, or not `classes`.
    pub fn new(
        parameters: &DetrParameters,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Self, Mismatch> {
        let float = DType::F32;
        let queries = match parameters {
            DetrParameters::Queries { .. } => {
                check_count(shapes, 2, "scores, boxes")?;
                let advice = "scores of the layout detr have one number for each query and label, boxes four for each \
                              query: check the labels, and the order of the tensors in output";
                let wanted = [(None, "queries"), (Some(classes), "classes")];
                check_axes(shapes, 0, float, &wanted, advice)?;
                let queries = shapes[0].axes[0];
                let wanted = [(Some(queries), "queries"), (Some(BOX), "box")];
                check_axes(shapes, 1, float, &wanted, advice)?;
                queries
            }
            DetrParameters::Joined => {
                check_count(shapes, 1, "boxes and scores in one")?;
                let advice = "one tensor of the layout detr has the box and one number for each label in each row: check \
                              the labels";
                let wanted = [(None, "queries"), (Some(BOX + classes), "box and classes")];
                check_axes(shapes, 0, float, &wanted, advice)?;
                shapes[0].axes[0]
            }
            DetrParameters::Ranked => {
                check_count(shapes, 3, "labels, boxes, scores")?;
                let advice = "the layout detr with labels has one label, one box and one score for each query, in this \
                              order";
                // TensorRT gives 64-bit numbers as 32-bit ones.
                let whole = match shapes[0].element {
                    DType::I32 => DType::I32,
                    DType::F32 | DType::I64 => DType::I64,
                };
                check_axes(shapes, 0, whole, &[(None, "queries")], advice)?;
                let queries = Some(shapes[0].axes[0]);
                let wanted = [(queries, "queries"), (Some(BOX), "box")];
                check_axes(shapes, 1, float, &wanted, advice)?;
                check_axes(shapes, 2, float, &[(queries, "queries")], advice)?;
                shapes[0].axes[0]
            }
        };
        Ok(Self {
            parameters: *parameters,
            queries,
            classes,
            input,
        })
    }

    /// Decodes queries that have one score per class. `scores` and `boxes` give their tensor, their offset in a row,
    /// and the row length.
    fn decode_rows(
        &self,
        scores: Rows<'_>,
        boxes: Rows<'_>,
        least: ScoreThreshold,
        collector: &mut CandidateCollector<'_>,
    ) {
        let unit = BoxUnit::Normalized.pixels(self.input);
        for query in 0..self.queries {
            let row = scores.row(query, self.classes);
            let span = Span::from_row(row);
            let is_valid = match least.activation {
                DetrActivation::Sigmoid => span.sum.is_finite(),
                DetrActivation::None => span.is_valid(),
            };
            if !is_valid {
                let first = scores.index(query);
                let numbers = row.iter().copied().enumerate();
                collector.report_invalid(
                    scores.tensor,
                    numbers.map(|(class, score)| (first + class, score)),
                );
                continue;
            }
            if span.max < least.raw {
                continue;
            }
            let score = match least.activation {
                DetrActivation::Sigmoid => sigmoid(span.max),
                DetrActivation::None => span.max,
            };
            if score < collector.threshold {
                continue;
            }
            let raw = boxes.four(query);
            let xyxy = from_center(raw, unit);
            if let Some(place) = first_unbounded(&raw, &xyxy) {
                collector.report_non_finite(boxes.tensor, boxes.index(query) + place);
                continue;
            }
            let class = argmax(row.iter().copied(), span.max);
            collector.push(query, class, score, xyxy);
        }
    }

    /// Decodes queries for which the network has selected class and score.
    fn decode_ranked(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let boxes = Rows::new(tensors, 1, self.queries, BOX, 0);
        let scores = floats(tensors, 2, self.queries);
        let unit = BoxUnit::Pixels.pixels(self.input);
        for (query, score) in scores.iter().copied().enumerate() {
            if !is_valid(score) {
                collector.report_invalid(2, [(query, score)].into_iter());
                continue;
            }
            if score < collector.threshold {
                continue;
            }
            let label = match tensors[0] {
                TensorView::I32(labels) => i64::from(labels[query]),
                TensorView::I64(labels) => labels[query],
                TensorView::F32(_) => panic!("labels were checked to be whole numbers"),
            };
            let Some(class) = usize::try_from(label)
                .ok()
                .filter(|class| *class < self.classes)
            else {
                collector.report_unknown_class(0, query);
                continue;
            };
            let raw = boxes.four(query);
            let xyxy = from_corners(raw, unit);
            if let Some(place) = first_unbounded(&raw, &xyxy) {
                collector.report_non_finite(1, boxes.index(query) + place);
                continue;
            }
            collector.push(query, class as u16, score, xyxy);
        }
    }
}

impl OutputDecoder for Detr {
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        match self.parameters {
            DetrParameters::Queries { activation } => {
                let scores = Rows::new(tensors, 0, self.queries, self.classes, 0);
                let boxes = Rows::new(tensors, 1, self.queries, BOX, 0);
                let least = ScoreThreshold::new(activation, threshold);
                self.decode_rows(scores, boxes, least, &mut collector);
            }
            DetrParameters::Joined => {
                let row_len = BOX + self.classes;
                let scores = Rows::new(tensors, 0, self.queries, row_len, BOX);
                let boxes = Rows::new(tensors, 0, self.queries, row_len, 0);
                let least = ScoreThreshold::new(DetrActivation::None, threshold);
                self.decode_rows(scores, boxes, least, &mut collector);
            }
            DetrParameters::Ranked => self.decode_ranked(tensors, &mut collector),
        }
        collector.decoded
    }

    fn needs_suppression(&self) -> bool {
        false
    }
}

/// Rows of one tensor, or the part of them that begins at `start`.
#[derive(Clone, Copy)]
struct Rows<'a> {
    tensor: usize,
    numbers: &'a [f32],
    row_len: usize,
    start: usize,
}

impl<'a> Rows<'a> {
    fn new(
        tensors: &[TensorView<'a>],
        tensor: usize,
        count: usize,
        row_len: usize,
        start: usize,
    ) -> Self {
        Self {
            tensor,
            numbers: floats(tensors, tensor, count * row_len),
            row_len,
            start,
        }
    }

    fn index(&self, row: usize) -> usize {
        row * self.row_len + self.start
    }

    fn row(&self, row: usize, len: usize) -> &'a [f32] {
        &self.numbers[self.index(row)..][..len]
    }

    fn four(&self, row: usize) -> [f32; 4] {
        let first = self.index(row);
        [0, 1, 2, 3].map(|place| self.numbers[first + place])
    }
}

/// The minimum raw value whose score may reach the threshold.
#[derive(Clone, Copy)]
struct ScoreThreshold {
    activation: DetrActivation,
    raw: f32,
}

impl ScoreThreshold {
    fn new(activation: DetrActivation, threshold: f32) -> Self {
        let raw = match activation {
            DetrActivation::None => threshold,
            DetrActivation::Sigmoid => min_logit(threshold),
        };
        Self { activation, raw }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused, decode, place};

    const INPUT: Size = Size::new(64, 32);
    const F32: DType = DType::F32;

    /// Four queries, two classes.
    fn queries(activation: DetrActivation) -> DecoderFixture<Detr> {
        let parameters = DetrParameters::Queries { activation };
        let mut fixture = DecoderFixture::new(vec![vec![4, 2], vec![4, 4]], |shapes| {
            Detr::new(&parameters, INPUT, 2, shapes)
        });
        if activation == DetrActivation::Sigmoid {
            fixture.floats[0].fill(-9.0);
        }
        fixture
    }

    #[test]
    fn detr_query_gives_box_of_best_class() {
        let mut fixture = queries(DetrActivation::None);
        fixture.floats[0] = vec![0.9, 0.8, 0.1, 0.3, 0.299_999, 0.0, 0.0, 1.02];
        fixture.put(1, 0, 1, &[0.5, 0.5, 0.25, 0.5, 0.25, 0.25, 0.5, 0.5]);
        fixture.put(1, 12, 1, &[1.0, 1.0, 0.5, 0.5]);
        let (candidates, decoded) = fixture.decode(0.3);
        let wanted = [
            candidate(0, 0, 0.9, [24.0, 8.0, 40.0, 24.0]),
            candidate(1, 1, 0.3, [0.0, 0.0, 32.0, 16.0]),
            candidate(3, 1, 1.0, [48.0, 24.0, 80.0, 40.0]),
        ];
        assert_eq!(candidates, wanted, "the threshold is included");
        assert_eq!(decoded, DecodeDiagnostics::default());
        let of_b = fixture.decode_with_labels(0.3, &["a", "b"], &["b"]).0;
        assert_eq!(of_b, wanted[1..]);

        // The same in one tensor.
        let mut joined = DecoderFixture::new(vec![vec![4, 6]], |shapes| {
            Detr::new(&DetrParameters::Joined, INPUT, 2, shapes)
        });
        let rows = fixture.floats[1].chunks(4).zip(fixture.floats[0].chunks(2));
        joined.floats[0] = rows
            .flat_map(|(four, scores)| [four, scores].concat())
            .collect();
        let found = joined.decode(0.3);
        assert_eq!(found, (wanted.to_vec(), DecodeDiagnostics::default()));
    }

    #[test]
    fn the_sigmoid_of_logits_is_compared_with_the_threshold() {
        let mut fixture = queries(DetrActivation::Sigmoid);
        // ln(0.3 / 0.7), a little less, and 0.
        fixture.floats[0] = vec![-9.0, -0.847_297_8, -0.8474, -9.0, 0.0, -1.0, -9.0, -9.0];
        let (candidates, decoded) = fixture.decode(sigmoid(-0.847_297_8));
        let found = |index: usize| (candidates[index].cell, candidates[index].class);
        assert_eq!((candidates.len(), found(0), found(1)), (2, (0, 1), (2, 0)));
        assert_eq!(candidates[1].score, 0.5);
        let fine = DecodeDiagnostics::default();
        assert_eq!(decoded, fine, "logits have no limits");
        assert_eq!(fixture.decode(0.0).0.len(), 4);
        fixture.floats[0][0] = 40.0;
        assert_eq!(fixture.decode(1.0).0.len(), 1);
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        for activation in [DetrActivation::None, DetrActivation::Sigmoid] {
            let mut fixture = queries(activation);
            fixture.put(0, 0, 1, &[0.9, 0.1, 0.9, 0.1]);
            let places = (2..4).map(|i| (0, i)).chain((4..8).map(|i| (1, i)));
            fixture.check_non_finite(0.3, places);
        }
        let mut fixture = queries(DetrActivation::None);
        fixture.floats[0][4] = 0.9;
        fixture.check_beyond_one(0.3, &[(0, 5, -3.0)]);
        // What does not pass is not looked at.
        let mut fixture = queries(DetrActivation::None);
        fixture.floats[1].fill(f32::NAN);
        let none = (Vec::new(), DecodeDiagnostics::default());
        assert_eq!(fixture.decode(0.3), none);
    }

    #[test]
    fn ranked_queries_carry_their_class() {
        let shapes = |element| {
            [(element, &[4_usize][..]), (F32, &[4, 4]), (F32, &[4])]
                .map(|(element, axes)| TensorShape { element, axes })
        };
        let decoder = |element| Detr::new(&DetrParameters::Ranked, INPUT, 2, &shapes(element));
        let labels = [1_i64, 2, 0, -1];
        let narrow = labels.map(|label| label as i32);
        let boxes = [[1.0_f32, 2.0, 3.0, 4.0]; 4].concat();
        let scores = [0.9_f32, 0.8, 0.3, 0.2];
        for (element, labels) in [
            (DType::I64, TensorView::I64(&labels)),
            (DType::I32, TensorView::I32(&narrow)),
        ] {
            let decoder = decoder(element).expect("it fits");
            assert!(!decoder.needs_suppression());
            let tensors = [labels, TensorView::F32(&boxes), TensorView::F32(&scores)];
            let (candidates, decoded) = decode(&decoder, &tensors, 0.3, &[], &[]);
            let xyxy = [1.0, 2.0, 3.0, 4.0];
            let wanted = [candidate(0, 1, 0.9, xyxy), candidate(2, 0, 0.3, xyxy)];
            assert_eq!(candidates, wanted);
            assert_eq!(decoded.first_unknown_class, place(0, 1));
        }
        let mismatch = decoder(F32).expect_err("labels are whole numbers");
        let found = (mismatch.tensor, mismatch.expected.as_str());
        assert_eq!(found, (0, "int64 [queries]"));

        let decoder = decoder(DType::I64).expect("it fits");
        for (tensor, index, bad) in [(1, 3, f32::NAN), (2, 0, f32::INFINITY), (2, 0, 4.0)] {
            let (mut boxes, mut scores) = (boxes.clone(), scores);
            match tensor {
                1 => boxes[index] = bad,
                _ => scores[index] = bad,
            }
            let floats = [TensorView::F32(&boxes), TensorView::F32(&scores)];
            let tensors = [TensorView::I64(&labels), floats[0], floats[1]];
            let (candidates, decoded) = decode(&decoder, &tensors, 0.3, &[], &[]);
            let reported = match bad {
                4.0 => decoded.first_beyond_one,
                _ => decoded.first_non_finite,
            };
            assert_eq!((candidates.len(), reported), (1, place(tensor, index)));
        }
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let activation = DetrActivation::None;
        let separate = DetrParameters::Queries { activation };
        let refused = |parameters: DetrParameters, axes: &[&[usize]], tensor, expected: &str| {
            let make = |shapes: &[TensorShape<'_>]| Detr::new(&parameters, INPUT, 2, shapes);
            check_refused(make, "", &[(axes, F32, tensor, expected)]);
        };
        let (joined, ranked) = (DetrParameters::Joined, DetrParameters::Ranked);
        refused(separate, &[&[300, 3], &[300, 4]], 0, "float32 [queries, 2]");
        refused(separate, &[&[300, 2], &[299, 4]], 1, "float32 [300, 4]");
        refused(
            separate,
            &[&[300, 2]],
            1,
            "2 tensors (scores, boxes) instead of 1",
        );
        refused(joined, &[&[300, 84]], 0, "float32 [queries, 6]");
        refused(joined, &[&[6, 300, 1]], 0, "float32 [queries, 6]");
        let three = "3 tensors (labels, boxes, scores) instead of 2";
        refused(ranked, &[&[300], &[300, 4]], 2, three);
    }
}
