// SPDX-License-Identifier: Apache-2.0
//! YOLO-NAS, DAMO-YOLO and PP-YOLOE: corners in input pixels and scores of the classes for each cell, decoded by the network,
//! without objectness and without a class for the background. Pure.
//!
//! ```text
//! separate  boxes [N, 4]    scores [N, C] or [C, N]      scores in planes are PaddlePaddle's (exclude_nms)
//! joined    [N, 4 + C] or [4 + C, N]                     PaddlePaddle's exclude_post_process, LibreYOLO's networks
//! ```
//!
//! `N` is the number of cells of all grids, or of anchors in LibreYOLO's networks with anchors. The families differ in the images that they take:
//!
//! ```text
//! YOLO-NAS    red first, 0 to 1, centered on gray 114        super-gradients' own processing, which also leaves a margin of 2 pixels
//! DAMO-YOLO   red first, 0 to 255, stretched                 keep_ratio is False in its configurations; scores are its first output
//! PP-YOLOE+   red first, 0 to 1, stretched                   norm_type none still divides by 255
//! PP-YOLOE    red first, ImageNet's mean and deviation, stretched; the same for PicoDet
//! RTMDet      blue first, ImageNet's mean and deviation, top left on gray 114
//! LibreYOLO   its YOLOv9 and YOLOv7: red first, 0 to 1, top left on gray 114, unless `letterbox_pad` is noted as center
//! ```

use std::sync::Arc;

use super::keys::{TensorForm, single};
use super::recognize::{Certainty, Matrix, Outputs, Pair, Recognized};
use super::yolox::YOLOX;
use super::{CENTERED, DETECTOR, IMAGENET, Layout, OutputLayout, Preprocessing, RAW, UNIT, gfl};
use crate::decoders::boxes::BoxUnit;
use crate::decoders::dense::{Boxes, Dense, Place, Scores};
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape};
use jetwatch_types::Placement;

/// The layout.
pub(crate) const YOLO_NAS: Layout = Layout {
    name: "yolo_nas",
    networks: "YOLO-NAS, DAMO-YOLO, PP-YOLOE without suppression",
    needs: "boxes [N, 4] and scores [N, C] or [C, N], or one output [N, 4 + C], with a row for every cell of the grids of \
            strides 8, 16 and 32",
    input: CENTERED,
    tensors: &[
        TensorForm::Name,
        TensorForm::Roles(&[single("boxes"), single("scores")]),
    ],
    read: |_, tensors, _| {
        Some(Arc::new(match tensors?.is_name() {
            true => YoloNasForm::Joined,
            false => YoloNasForm::Separate,
        }))
    },
    recognize: |outputs| {
        let found = joined(outputs).into_iter();
        found.chain(separate(outputs)).flatten().collect()
    },
    ..DETECTOR
};

const NAS: (&str, Preprocessing) = ("YOLO-NAS", CENTERED);
pub(super) const DAMO: (&str, Preprocessing) = (
    "DAMO-YOLO",
    Preprocessing {
        scale: [1.0; 3],
        ..UNIT
    },
);
pub(super) const PPYOLOE_PLUS: (&str, Preprocessing) = ("PP-YOLOE+", UNIT);
const PICODET: (&str, Preprocessing) = ("PicoDet", IMAGENET);
const PADDLE: [(&str, Preprocessing); 2] = [PPYOLOE_PLUS, ("PP-YOLOE", IMAGENET)];

/// Also of its maps, and of its boxes behind a suppression.
pub(super) const RTMDET_ORIGIN: (&str, Preprocessing) = (
    "RTMDet",
    Preprocessing {
        placement: Placement::TopLeft,
        ..gfl::NANODET.input
    },
);

/// Part of the names of its weights.
pub(super) const RTMDET_WEIGHT: &str = "rtm_reg";

/// The same outputs for each network of PaddleDetection that may be meant. PicoDet has another activation than the others.
pub(super) fn of_paddle(outputs: &Outputs<'_>, found: &Recognized) -> Vec<Recognized> {
    let count = |operator| outputs.network.count(operator);
    // Before operator set 14, it consists of others.
    let others = count("HardSigmoid") + count("Clip");
    match count("HardSwish") > 0 || 2 * others > count("Conv") {
        true => of_families(found, [(Certainty::Likely, PICODET)]),
        false => of_families(found, PADDLE.map(|family| (Certainty::Likely, family))),
    }
}

/// The same outputs for networks of several families, each with its own certainty.
fn of_families<const N: usize>(
    found: &Recognized,
    families: [(Certainty, (&'static str, Preprocessing)); N],
) -> Vec<Recognized> {
    let of = |(certainty, origin): (Certainty, _)| Recognized {
        certainty: certainty.min(found.certainty),
        origin: Some(origin),
        ..found.clone()
    };
    families.map(of).to_vec()
}

/// Where LibreYOLO's images are not those of its YOLO networks: by `model_family` in its metadata.
const LIBREYOLO: [(&str, (&str, Preprocessing)); 9] = [
    ("picodet", PICODET),
    ("rtmdet", RTMDET_ORIGIN),
    ("yolonas", NAS),
    ("ppyoloe", PADDLE[1]),
    ("yolox", ("YOLOX", YOLOX.input)),
    ("efficientdet", EFFICIENTDET),
    (
        "centernet",
        (
            "CenterNet of LibreYOLO",
            Preprocessing {
                mean: [104.04, 113.985, 119.85],
                scale: [0.013_57, 0.014_312, 0.014_106],
                placement: Placement::Center,
                padding: 0,
                ..RAW
            },
        ),
    ),
    ("retinanet", ("RetinaNet of torchvision", TOP_LEFT_IMAGENET)),
    (
        "ssd",
        (
            "SSD of torchvision",
            Preprocessing {
                mean: [123.0, 117.0, 104.0],
                scale: [1.0; 3],
                ..UNIT
            },
        ),
    ),
];

const TOP_LEFT_IMAGENET: Preprocessing = Preprocessing {
    placement: Placement::TopLeft,
    ..IMAGENET
};
/// Of all its exporters.
pub(super) const EFFICIENTDET: (&str, Preprocessing) = ("EfficientDet", TOP_LEFT_IMAGENET);

/// The network that LibreYOLO notes.
pub(super) fn of_libreyolo(outputs: &Outputs<'_>) -> Option<(&'static str, Preprocessing)> {
    let family = outputs.family();
    let placement = match outputs.network.metadata_value("letterbox_pad") {
        Some("center") => Placement::Center,
        _ => Placement::TopLeft,
    };
    match LIBREYOLO.iter().find(|(known, _)| *known == family) {
        Some((_, origin)) => Some(*origin),
        None if family.starts_with("yolo") => {
            Some(("LibreYOLO", Preprocessing { placement, ..UNIT }))
        }
        None => None,
    }
}

/// Whether one tensor has corners and scores of each box in a column or a row, as LibreYOLO notes it, or by a run. YOLOv8 has
/// centers there, which are computed by a division.
pub(super) fn are_corners(outputs: &Outputs<'_>, matrix: &Matrix<'_>) -> bool {
    let has_corners = matrix.output.tensor.has_corners == Some(true);
    is_libreyolo(outputs, matrix) || has_corners && !outputs.has_centers()
}

fn is_libreyolo(outputs: &Outputs<'_>, matrix: &Matrix<'_>) -> bool {
    let numbers = matrix.rows.min(matrix.columns);
    let is_agreed = outputs.noted_classes() + BOX as u64 == numbers;
    !outputs.family().is_empty() && is_agreed && matrix.output.tensor.has_corners != Some(false)
}

/// Corners and scores in one tensor.
fn joined(outputs: &Outputs<'_>) -> Option<Vec<Recognized>> {
    let matrix = outputs.matrix()?;
    let (is_libreyolo, are_corners) = (
        is_libreyolo(outputs, &matrix),
        are_corners(outputs, &matrix),
    );
    let (count, numbers, each) = match matrix.columns > matrix.rows && are_corners {
        true => (matrix.columns, matrix.rows, "column"),
        false => (matrix.rows, matrix.columns, "row"),
    };
    let of = match outputs.strides_with(count, 1) {
        Some(strides) => format!("cell of strides {strides:?}"),
        None if is_libreyolo => "anchor, as LibreYOLO has them".to_owned(),
        None => return None,
    };
    let why = format!("corners in a {each} for each {of}");
    let classes = numbers.checked_sub(BOX as u64);
    let found = matrix.recognized(outputs, Certainty::Likely, classes, &why)?;
    let has_distances = outputs.has_distances() && !outputs.has_centers();
    let unknown = [
        (Certainty::Possible, NAS),
        (Certainty::Possible, RTMDET_ORIGIN),
    ];
    Some(match () {
        () if is_libreyolo => vec![Recognized {
            origin: of_libreyolo(outputs),
            ..found
        }],
        () if outputs.is_paddle() => of_paddle(outputs, &found),
        () if are_corners || matrix.output.tensor.has_corners == Some(true) || has_distances => {
            of_families(&found, unknown)
        }
        () => return None,
    })
}

fn separate(outputs: &Outputs<'_>) -> Option<Vec<Recognized>> {
    let fits = |pair: &Pair<'_>| {
        let has_centers = pair.boxes.tensor.has_corners == Some(false);
        pair.is_dense && !pair.has_three_per_cell && !pair.has_softmax() && !has_centers
    };
    let rows = outputs.pairs().into_iter().find(fits);
    let planes = outputs.pairs_in_planes();
    let planes = planes
        .into_iter()
        .find(|pair| fits(pair) || outputs.is_paddle());
    let in_planes = rows.is_none();
    let pair = rows.or(planes)?;
    let why = "a row for each cell, without background";
    let found = pair.recognized(outputs, Certainty::Likely, pair.columns, why);
    let order = |name: &str| outputs.list.iter().position(|output| output.name == name);
    let (likely, possible) = (Certainty::Likely, Certainty::Possible);
    Some(match of_libreyolo(outputs) {
        Some(origin) => of_families(&found, [(likely, origin)]),
        _ if outputs.is_paddle() || in_planes => of_paddle(outputs, &found),
        _ if order(pair.scores.name) < order(pair.boxes.name) => {
            of_families(&found, [(likely, DAMO), (possible, NAS)])
        }
        _ => of_families(&found, [(likely, NAS), (possible, DAMO)]),
    })
}

/// Number of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YoloNasForm {
    /// One.
    Joined,
    /// Boxes, then scores.
    Separate,
}

/// Numbers of a box.
const BOX: usize = 4;

impl YoloNasForm {
    fn decoder(self, network: &NetworkShape<'_>) -> Result<Dense, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let (float, advice) = (
            DType::F32,
            "scores of the layout yolo_nas have one number for each label and cell: check the labels",
        );
        let (boxes, scores, cells) = match self {
            Self::Joined => {
                check_count(shapes, 1, "boxes and scores in one")?;
                let numbers = BOX + classes;
                let in_planes = matches!(*shapes[0].axes, [first, cells] if first == numbers && cells != numbers);
                let mut wanted = [(None, "cells"), (Some(numbers), "box and classes")];
                if in_planes {
                    wanted.reverse();
                }
                check_axes(shapes, 0, float, &wanted, advice)?;
                let cells = shapes[0].axes[usize::from(in_planes)];
                let place = |before| match in_planes {
                    true => Place::planes(0, cells, numbers, before),
                    false => Place::rows(0, cells, numbers, before),
                };
                (place(0), place(BOX), cells)
            }
            Self::Separate => {
                check_count(shapes, 2, "boxes, scores")?;
                check_axes(
                    shapes,
                    0,
                    float,
                    &[(None, "cells"), (Some(BOX), "box")],
                    advice,
                )?;
                let cells = shapes[0].axes[0];
                let in_planes = shapes[1].axes == [classes, cells] && classes != cells;
                let mut wanted = [(Some(cells), "cells"), (Some(classes), "classes")];
                if in_planes {
                    wanted.reverse();
                }
                check_axes(shapes, 1, float, &wanted, advice)?;
                let scores = match in_planes {
                    true => Place::planes(1, cells, classes, 0),
                    false => Place::rows(1, cells, classes, 0),
                };
                (Place::rows(0, cells, BOX, 0), scores, cells)
            }
        };
        Ok(Dense {
            boxes: Boxes {
                place: boxes,
                are_centers: false,
                unit: BoxUnit::Pixels.pixels(input),
            },
            scores: Scores::finished(scores, cells, classes),
            needs_suppression: true,
        })
    }
}

impl OutputLayout for YoloNasForm {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(self.decoder(network)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recognize::tests::{guesses, network, of_paddle, origins, tensors};
    use super::*;
    use crate::decoders::TensorShape;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused};
    use crate::decoders::{DecodeDiagnostics, OutputDecoder};
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(64, 64);
    const CELLS: usize = 84;
    const CLASSES: usize = 3;

    /// Boxes and scores of two cells, in each of the three forms.
    fn fixtures() -> [DecoderFixture<impl OutputDecoder>; 3] {
        let fixture = |form: YoloNasForm, axes: &[[usize; 2]]| {
            let axes = axes.iter().map(|axes| axes.to_vec()).collect();
            DecoderFixture::new(axes, |shapes| {
                form.decoder(&NetworkShape::new(INPUT, CLASSES, shapes))
            })
        };
        let boxes = [CELLS, 4];
        let mut rows = fixture(YoloNasForm::Separate, &[boxes, [CELLS, CLASSES]]);
        let mut planes = fixture(YoloNasForm::Separate, &[boxes, [CLASSES, CELLS]]);
        let mut joined = fixture(YoloNasForm::Joined, &[[CELLS, 4 + CLASSES]]);
        for (cell, xyxy, scores) in [
            (7, [1.0, 2.0, 30.0, 40.0], [0.1, 0.2, 0.9]),
            (80, [-8.0, 0.0, 64.0, 64.0], [0.3, 0.2, 0.1]),
            (81, [0.0, 0.0, 64.0, 64.0], [0.29, 0.2, 0.1]),
        ] {
            rows.put(0, cell * 4, 1, &xyxy);
            rows.put(1, cell * CLASSES, 1, &scores);
            planes.put(0, cell * 4, 1, &xyxy);
            planes.put(1, cell, CELLS, &scores);
            let row = [&xyxy[..], &scores].concat();
            joined.put(0, cell * (4 + CLASSES), 1, &row);
        }
        [rows, planes, joined]
    }

    #[test]
    fn corners_in_pixels_are_read_in_every_form() {
        let wanted = vec![
            candidate(7, 2, 0.9, [1.0, 2.0, 30.0, 40.0]),
            candidate(80, 0, 0.3, [-8.0, 0.0, 64.0, 64.0]),
        ];
        for fixture in fixtures() {
            let found = fixture.decode(0.3);
            assert_eq!(found, (wanted.clone(), DecodeDiagnostics::default()));
        }
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let [mut rows, mut planes, mut joined] = fixtures();
        let boxes = || (7 * 4..8 * 4).map(|index| (0, index));
        rows.check_non_finite(0.3, boxes().chain((21..24).map(|index| (1, index))));
        let scores = [0, 1, 2].map(|class| (1, class * CELLS + 7));
        planes.check_non_finite(0.3, boxes().chain(scores));
        joined.check_non_finite(0.3, (49..56).map(|index| (0, index)));
        rows.check_beyond_one(0.3, &[(1, 22, 1.2), (1, 22, -3.0)]);
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let make = |form: YoloNasForm| {
            move |shapes: &[TensorShape<'_>]| {
                form.decoder(&NetworkShape::new(INPUT, CLASSES, shapes))
            }
        };
        let (f32, i64) = (DType::F32, DType::I64);
        #[rustfmt::skip]
        check_refused(make(YoloNasForm::Separate), "", &[
            (&[&[84, 4], &[84, 4]], f32, 1, "float32 [84, 3]"),
            (&[&[84, 4], &[4, 84]], f32, 1, "float32 [84, 3]"),
            (&[&[84, 5], &[84, 3]], f32, 0, "float32 [cells, 4]"),
            (&[&[84, 4], &[84, 3]], i64, 0, "float32 [cells, 4]"),
            (&[&[84, 4]], f32, 1, "2 tensors (boxes, scores) instead of 1"),
        ]);
        #[rustfmt::skip]
        check_refused(make(YoloNasForm::Joined), "", &[
            (&[&[84, 8]], f32, 0, "float32 [cells, 7]"),
        ]);
    }

    #[test]
    fn families_are_recognized_by_the_number_of_cells_and_the_exporter() {
        let (likely, possible) = (Certainty::Likely, Certainty::Possible);
        let boxes: (&str, &[i64]) = ("b", &[1, 8400, 4]);
        let scores: (&str, &[i64]) = ("s", &[1, 8400, 80]);
        let planes: (&str, &[i64]) = ("s", &[1, 80, 8400]);
        let nas = network(&[boxes, scores], &["Softmax"], 0);
        let damo = network(&[scores, boxes], &["Softmax"], 0);
        let paddle = of_paddle(network(&[boxes, planes], &["Softmax"], 0));
        let joined = of_paddle(network(&[("o", &[1, 8400, 84])], &["Softmax"], 0));
        let anchors: [(&str, &[i64]); 2] = [("b", &[1, 25200, 4]), ("s", &[1, 7, 25200])];
        let anchors = of_paddle(network(&anchors, &[], 0));
        let of_paddle = [(likely, "PP-YOLOE+"), (likely, "PP-YOLOE")];
        for (network, classes, wanted) in [
            (&nas, 80, [(likely, "YOLO-NAS"), (possible, "DAMO-YOLO")]),
            (&damo, 80, [(likely, "DAMO-YOLO"), (possible, "YOLO-NAS")]),
            (&paddle, 80, of_paddle),
            (&joined, 80, of_paddle),
            (&anchors, 7, of_paddle),
        ] {
            assert_eq!(origins(network, "yolo_nas"), wanted);
            let wanted = wanted.map(|(certainty, _)| (certainty, classes, &[][..]));
            guesses(network, "yolo_nas", &wanted);
            for other in ["ssd", "detr", "yolov8", "yolov5"] {
                guesses(network, other, &[]);
            }
        }
        assert_eq!(tensors(&damo, "yolo_nas"), [["b"], ["s"]]);
        // Corners in rows: as LibreYOLO notes them, or by the operators.
        let rows = |operators: &[&str], family: &str| {
            let names = if family.is_empty() { 0 } else { 80 };
            let mut network = network(&[("o", &[1, 8400, 84])], operators, names);
            let family = ("model_family".to_owned(), family.to_owned());
            network.metadata.push(family);
            network
        };
        let (corners, centers) = (&["Sub"][..], &["Sub", "Sub", "Div"][..]);
        let unknown = [(possible, "YOLO-NAS"), (possible, "RTMDet")];
        for (operators, family, wanted) in [
            (centers, "rtmdet", &[(likely, "RTMDet")][..]),
            (centers, "picodet", &[(likely, "PicoDet")]),
            (corners, "", &unknown),
            (centers, "", &[]),
        ] {
            let network = rows(operators, family);
            assert_eq!(origins(&network, "yolo_nas"), wanted);
            assert_eq!(origins(&network, "yolov8").is_empty(), !wanted.is_empty());
        }
        // The scores of a softmax have a background.
        let ssd = network(&[boxes, ("s/Softmax", &[1, 8400, 21])], &[], 0);
        guesses(&ssd, "yolo_nas", &[]);
        assert_eq!(origins(&ssd, "ssd").len(), 1);
        // As many boxes as no grid has cells.
        let other = network(&[("b", &[1, 8401, 4]), ("s", &[1, 8401, 80])], &[], 0);
        guesses(&other, "yolo_nas", &[]);
    }
}
