// SPDX-License-Identifier: Apache-2.0
//! RT-DETR, D-FINE and similar: a fixed number of queries, each one object or none, without suppression. Pure.
//!
//! Exports differ in how much postprocessing they contain, for `Q` queries and `C` classes:
//!
//! ```text
//! queries   scores [Q, C]   boxes [Q, 4]               the transformer's own output: centers and sizes, normalized; perhaps
//!                                                      with one more score behind the classes, of no object
//! joined    [Q, 4 + C]                                 the same in one tensor, scores after their sigmoid (Ultralytics)
//! ranked    labels [Q]      boxes [Q, 4]   scores [Q]  the authors' export: corners in units of its input `orig_target_sizes`
//! ```
//!
//! The authors rank all pairs of a query and a class, so that one query may become two objects at the same position. Here a
//! query is one object, of its best class: two tracks on one object are worse than a rare second class that is dropped.

use std::sync::Arc;

use jetwatch_config::{Map, Section};
use jetwatch_types::Placement;

use super::finished::Finished;
use super::keys::{ActivationKey, TensorForm, Tensors, single};
use super::recognize::{self, Certainty, MAX_OBJECTS, Outputs, Recognized, THREE};
use super::{DETECTOR, IMAGENET, Layout, OutputLayout, Preprocessing, UNIT};
use crate::decoders::boxes::BoxUnit;
pub use crate::decoders::dense::Activation as DetrActivation;
use crate::decoders::dense::{Activation, Boxes, Dense, Place, Scores};
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape};
use crate::graph::Element;
use crate::yaml_values::invalid;

/// The layout.
pub const DETR: Layout = Layout {
    name: "detr",
    networks: "RT-DETR, D-FINE, RF-DETR, DETR",
    needs: "scores [Q, C] and boxes [Q, 4], or labels int64 [Q], boxes [Q, 4] and scores [Q], or one output [Q, 4 + C]",
    needs_suppression: false,
    tensors: &[
        TensorForm::Name,
        TensorForm::Roles(&[single("labels"), single("boxes"), single("scores")]),
        TensorForm::Roles(&[single("scores"), single("boxes")]),
    ],
    keys: &[ActivationKey::KEYS, NoObjectKey::KEYS],
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

/// Of DETR.
#[derive(Section)]
pub(crate) struct NoObjectKey {
    /// Layout detr with tensors scores and boxes: the last score of a query means no object, as always with softmax.
    #[key(default = false)]
    no_object: bool,
}

fn read(map: &Map<'_>, tensors: Option<&Tensors>) -> Option<DetrParameters> {
    let given = ["activation", "no_object"].map(|key| map.get(key));
    if tensors.is_some_and(|tensors| tensors.is_name() || tensors.has("labels"))
        && let Some(node) = given.iter().flatten().next()
    {
        let what = "given for scores that the network has finished";
        return invalid(node, what, "only together with tensors {scores, boxes}");
    }
    let activation = match &given[0] {
        Some(node) => node.one_of(&[
            ("sigmoid", DetrActivation::Sigmoid),
            ("softmax", DetrActivation::Softmax),
            ("none", DetrActivation::None),
        ])?,
        None => DetrActivation::Sigmoid,
    };
    let no_object = NoObjectKey::from_map(map)?.no_object;
    let tensors = tensors?;
    Some(if tensors.is_name() {
        DetrParameters::Joined
    } else if tensors.has("labels") {
        DetrParameters::Ranked
    } else {
        DetrParameters::Queries {
            activation,
            no_object,
        }
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
    Some(Recognized {
        origin: of_backbone(outputs),
        ..Recognized::new(Certainty::Likely, classes, tensors, reason)
    })
}

/// Networks by parts of the names of weights of backbones that take ImageNet's mean and deviation. DEIMv2's smaller networks have no
/// DINOv3, and take 0 to 1.
pub(super) const BACKBONES: [(&str, (&str, Preprocessing)); 4] = [
    ("owlvit", ("OWL-ViT", CLIP)),
    ("owlv2", ("OWLv2", CLIP_PADDED)),
    ("dinov3", ("DEIMv2 with DINOv3", IMAGENET)),
    ("register_token", ("EdgeCrafter", IMAGENET)),
];

/// Of CLIP's training.
const CLIP: Preprocessing = Preprocessing {
    mean: [122.770_94, 116.746_01, 104.093_73],
    scale: [0.014_600_5, 0.015_007_7, 0.014_220_1],
    ..UNIT
};

/// OWLv2 keeps the shape of images.
const CLIP_PADDED: Preprocessing = Preprocessing {
    placement: Placement::TopLeft,
    padding: 128,
    ..CLIP
};

/// Part of the names of weights of networks with a query for each patch of the image: as many as there are cells.
const OF_PATCHES: &str = "owlv";

fn of_backbone(outputs: &Outputs<'_>) -> Option<(&'static str, Preprocessing)> {
    let found = BACKBONES.iter().find(|(part, _)| outputs.has_weight(part));
    found.map(|(_, origin)| *origin)
}

/// Parts of the names of weights: of the heads of RT-DETR and D-FINE, and of those of DETR's other successors.
pub(super) const SCORE_WEIGHT: &str = "score_head";
const CLASS_WEIGHTS: [&str; 2] = ["class_embed", "class_labels_classifier"];
pub(super) const AUTHORS: (&str, Preprocessing) = ("RT-DETR, D-FINE", UNIT);

fn joined(outputs: &Outputs<'_>) -> Option<Recognized> {
    let (matrix, cells) = (outputs.matrix()?, outputs.cells(&THREE));
    let classes = matrix.columns.checked_sub(BOX as u64)?;
    // With more columns than cells, the columns are the boxes; what joins no tensors is an image.
    let is_joined = matches!(matrix.output.made_by, None | Some("Concat"));
    let is_agreed = [0, classes].contains(&outputs.noted_classes());
    if matrix.rows > MAX_OBJECTS.min(cells) || matrix.columns >= cells || !is_joined || !is_agreed {
        return None;
    }
    let why = format!("{} queries, with 4 numbers before the classes", matrix.rows);
    matrix.recognized(outputs, Certainty::Likely, Some(classes), &why)
}

/// Numbers of classes of networks that use COCO's own numbers of categories, 1 to 90, so that some have no object.
const COCO_NUMBERS: u64 = 91;
/// Queries of DETR's successors, which use sigmoids; DETR, YOLOS and Table Transformer have fewer and need a softmax.
const SUCCESSORS_QUERIES: u64 = 300;
/// Parts of the names of weights that only its successors have, also with fewer queries.
const SUCCESSORS_WEIGHTS: [&str; 3] = [SCORE_WEIGHT, "ref_point_head", "sampling_offsets"];

/// Scores and boxes. RF-DETR names them `labels` and `dets`; it and DETR take images by ImageNet's mean and deviation, while
/// RT-DETR and D-FINE take 0 to 1.
///
/// RF-DETR has one score more than a network's own classes, the last of which is never an object; the published networks have
/// COCO's numbers instead. Its documentation says so, and that only the names distinguish the tensors where both have four columns.
fn queries(outputs: &Outputs<'_>) -> Vec<Recognized> {
    let pairs = outputs.pairs();
    let is_of_patches = outputs.has_weight(OF_PATCHES);
    let found = pairs.iter().find(|pair| {
        !pair.has_three_per_cell
            && !pair.is_dense
            && (is_of_patches || pair.rows.is_none_or(|rows| rows <= MAX_OBJECTS))
    });
    let Some(pair) = found else {
        return Vec::new();
    };
    let (columns, noted) = (pair.columns, outputs.noted_classes());
    let is_rf_detr = pair.boxes.name == "dets" && pair.scores.name == "labels";
    let has_any = |parts: &[&str]| parts.iter().any(|part| outputs.has_weight(part));
    let are_few =
        pair.rows.is_some_and(|rows| rows < SUCCESSORS_QUERIES) && !has_any(&SUCCESSORS_WEIGHTS);
    let is_detr = (are_few || columns == COCO_NUMBERS + 1) && !is_rf_detr;
    let are_logits = match pair.scores.made_by {
        Some(operator) => !["Sigmoid", "Softmax"].contains(&operator),
        None => is_rf_detr || pair.scores.name.contains("logit"),
    };
    // Without a noted number of classes, the last score of DETR may be that of a class, too: then the labels decide.
    let rests = match noted {
        0 if columns == COCO_NUMBERS + 1 => &[true][..],
        0 if is_rf_detr => &[columns != COCO_NUMBERS],
        0 if is_detr && are_logits => &[true, false],
        noted => &[columns == noted + 1],
    };
    let is_successor = has_any(&CLASS_WEIGHTS) && !outputs.has_weight(SCORE_WEIGHT);
    let origin = match (is_rf_detr, is_detr || columns.abs_diff(COCO_NUMBERS) <= 1) {
        (true, _) => ("RF-DETR", IMAGENET),
        (false, true) => ("DETR", IMAGENET),
        (false, false) => of_backbone(outputs).unwrap_or(match is_successor {
            true => ("DINO, Deformable and Conditional DETR", IMAGENET),
            false => AUTHORS,
        }),
    };
    let read = |has_rest: &bool| {
        let (activation, why) = match (are_logits, is_detr && *has_rest) {
            (true, true) => ("softmax", "queries, whose softmax is missing"),
            (true, false) => ("sigmoid", "queries, whose sigmoid is missing"),
            (false, _) => ("none", "queries"),
        };
        let rest = match has_rest {
            true => "; the last score is of no object",
            false => "",
        };
        let classes = columns - u64::from(*has_rest);
        let certainty = match classes {
            0 => return None,
            _ if is_detr && noted == 0 && columns != COCO_NUMBERS + 1 => Certainty::Possible,
            _ => Certainty::Likely,
        };
        let mut parameters = vec![("activation", activation.to_owned())];
        parameters.extend(has_rest.then(|| ("no_object", "true".to_owned())));
        Some(Recognized {
            parameters,
            origin: Some(origin),
            ..pair.recognized(outputs, certainty, classes, &format!("{why}{rest}"))
        })
    };
    rests.iter().filter_map(read).collect()
}

impl OutputLayout for DetrParameters {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(match self {
            Self::Ranked => Box::new(ranked_decoder(network)?),
            Self::Queries { .. } | Self::Joined => Box::new(self.decoder(network)?),
        })
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
        /// Whether the last score of a query is that of no object, as it always is with a softmax.
        no_object: bool,
    },
    /// One tensor.
    Joined,
    /// `labels`, `boxes`, `scores`. The boxes are in input pixels: the network gets the size of its own input.
    Ranked,
}

impl DetrParameters {
    /// A decoder for one score of each class; the number of queries is that of the tensors.
    ///
    /// # Errors
    /// The tensors are not those of the form, or do not have the same number of queries, or not that of the classes.
    fn decoder(&self, network: &NetworkShape<'_>) -> Result<Dense, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let float = DType::F32;
        let (scores, boxes) = match *self {
            Self::Queries {
                activation,
                no_object,
            } => {
                check_count(shapes, 2, "scores, boxes")?;
                let advice = "scores of the layout detr have one number for each query and label, and one more with \
                              no_object, boxes four for each query: check the labels, no_object, and the order of the \
                              tensors in output";
                let has_rest = no_object || activation == Activation::Softmax;
                let columns = classes + usize::from(has_rest);
                let wanted = [(None, "queries"), (Some(columns), "classes")];
                check_axes(shapes, 0, float, &wanted, advice)?;
                let queries = shapes[0].axes[0];
                let wanted = [(Some(queries), "queries"), (Some(BOX), "box")];
                check_axes(shapes, 1, float, &wanted, advice)?;
                let scores = Scores {
                    activation,
                    background: has_rest.then(|| Place::rows(0, queries, columns, classes)),
                    ..Scores::finished(Place::rows(0, queries, columns, 0), queries, classes)
                };
                (scores, Place::rows(1, queries, BOX, 0))
            }
            Self::Joined | Self::Ranked => {
                check_count(shapes, 1, "boxes and scores in one")?;
                let advice = "one tensor of the layout detr has the box and one number for each label in each row: check \
                              the labels";
                let wanted = [(None, "queries"), (Some(BOX + classes), "box and classes")];
                check_axes(shapes, 0, float, &wanted, advice)?;
                let queries = shapes[0].axes[0];
                let place = |before| Place::rows(0, queries, BOX + classes, before);
                (Scores::finished(place(BOX), queries, classes), place(0))
            }
        };
        Ok(Dense {
            boxes: Boxes {
                place: boxes,
                are_centers: true,
                unit: BoxUnit::Normalized.pixels(input),
            },
            scores,
            needs_suppression: false,
        })
    }
}

/// A decoder for queries for which the network has selected class and score.
fn ranked_decoder(network: &NetworkShape<'_>) -> Result<Finished, Mismatch> {
    let (float, shapes) = (DType::F32, network.shapes);
    check_count(shapes, 3, "labels, boxes, scores")?;
    let advice = "the layout detr with labels has one label, one box and one score for each query, in this order";
    // TensorRT gives 64-bit numbers as 32-bit ones.
    let whole = match shapes[0].element {
        DType::I32 => DType::I32,
        DType::F32 | DType::I64 => DType::I64,
    };
    check_axes(shapes, 0, whole, &[(None, "queries")], advice)?;
    let queries = shapes[0].axes[0];
    let wanted = [(Some(queries), "queries"), (Some(BOX), "box")];
    check_axes(shapes, 1, float, &wanted, advice)?;
    check_axes(shapes, 2, float, &[(Some(queries), "queries")], advice)?;
    Finished::ranked(network)
}

#[cfg(test)]
mod tests {
    use super::super::recognize::tests::{guesses, network, origins, tensors};
    use super::*;

    use crate::decoders::TensorShape;
    use crate::decoders::fixture::{DecoderFixture, check_refused};
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(64, 32);
    const F32: DType = DType::F32;

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let separate = DetrParameters::Queries {
            activation: DetrActivation::None,
            no_object: false,
        };
        let refused = |parameters: DetrParameters, axes: &[&[usize]], tensor, expected: &str| {
            let make = |shapes: &[TensorShape<'_>]| {
                parameters.create_decoder(&NetworkShape::new(INPUT, 2, shapes))
            };
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

    #[test]
    fn a_score_of_no_object_is_part_of_the_softmax_only() {
        let make = |activation| {
            let parameters = DetrParameters::Queries {
                activation,
                no_object: true,
            };
            let mut fixture = DecoderFixture::new(vec![vec![2, 3], vec![2, 4]], |shapes| {
                parameters.decoder(&NetworkShape::new(INPUT, 2, shapes))
            });
            fixture.floats[0] = vec![0.0, 2.0_f32.ln(), 5.0_f32.ln(), 0.0, 0.0, 40.0];
            fixture
        };
        let mut softmax = make(DetrActivation::Softmax);
        let found = |fixture: &DecoderFixture<Dense>| -> Vec<(u32, u16, f32)> {
            let found = fixture.decode(0.2).0.into_iter();
            found
                .map(|found| (found.cell, found.class, found.score))
                .collect()
        };
        let [(0, 1, score)] = found(&softmax)[..] else {
            panic!("only the first query has an object")
        };
        assert!((score - 0.25).abs() < 1e-6, "{score}");
        softmax.check_non_finite(0.2, [(0, 0), (0, 1), (0, 2)]);
        let sigmoid = found(&make(DetrActivation::Sigmoid));
        assert_eq!(sigmoid.len(), 2);
        assert_eq!(sigmoid[1], (1, 0, 0.5), "the last number is not read");
    }

    #[test]
    fn families_are_recognized_by_names_operators_and_counts() {
        let (likely, possible) = (Certainty::Likely, Certainty::Possible);
        let sigmoid = &[("activation", "sigmoid")][..];
        let none = &[("activation", "none")][..];
        let rest = &[("activation", "sigmoid"), ("no_object", "true")][..];
        let softmax = &[("activation", "softmax"), ("no_object", "true")][..];
        let (rt, rf, first) = ("RT-DETR, D-FINE", "RF-DETR", "DETR");
        // Name and columns of the scores, name of the boxes, queries, noted names, and the guess.
        #[rustfmt::skip]
        let cases = [
            ("labels/Add", 91, "dets", 300, 0, (likely, 91, sigmoid), rf),
            ("labels/Add", 4, "dets", 300, 0, (likely, 3, rest), rf),
            ("labels/Add", 4, "dets", 300, 3, (likely, 3, rest), rf),
            ("labels/Add", 4, "dets", 300, 4, (likely, 4, sigmoid), rf),
            ("logits/Add", 80, "pred_boxes", 300, 0, (likely, 80, sigmoid), rt),
            ("logits", 80, "pred_boxes", 300, 0, (likely, 80, sigmoid), rt),
            ("scores/Sigmoid", 80, "boxes", 300, 0, (likely, 80, none), rt),
            ("scores", 80, "boxes", 300, 0, (likely, 80, none), rt),
            ("logits/Add", 92, "pred_boxes", 100, 0, (likely, 91, softmax), first),
            ("logits/Add", 6, "pred_boxes", 100, 5, (likely, 5, softmax), first),
            ("logits/Add", 7, "pred_boxes", 125, 0, (possible, 6, softmax), first),
            ("logits/Add", 6, "pred_boxes", 100, 0, (possible, 5, softmax), first),
        ];
        for (scores, columns, boxes, queries, names, wanted, networks) in cases {
            let (of_scores, of_boxes) = ([1, queries, columns], [1, queries, 4]);
            let masks = ("masks", &[1, queries, 78, 78][..]);
            let outputs = [(boxes, &of_boxes[..]), (scores, &of_scores[..]), masks];
            for outputs in [outputs, [outputs[1], outputs[0], outputs[2]]] {
                let network = network(&outputs, &["Softmax"], names);
                // The last score of a few queries may be that of a class, too.
                let mut wanted = vec![wanted];
                wanted.extend((wanted[0].0 == possible).then_some((
                    possible,
                    columns as usize,
                    sigmoid,
                )));
                guesses(&network, "detr", &wanted);
                let from: Vec<_> = wanted.iter().map(|guess| (guess.0, networks)).collect();
                assert_eq!(origins(&network, "detr"), from);
                let scores = scores.split('/').next().expect("a name");
                assert_eq!(tensors(&network, "detr"), [[boxes], [scores]]);
            }
        }
    }
}
