// SPDX-License-Identifier: Apache-2.0
//! The output of YOLOv8, YOLO11 and their relatives: boxes and class scores, without objectness. Pure.
//!
//! `[4 + classes, boxes]`: four planes with center x and y, width and height in input pixels, then one plane for each class
//! with its scores after the sigmoid. The numbers of one box are far apart, so the planes are searched in parallel. Some exports
//! are transposed, with a row for each box, and those of TensorFlow have boxes from 0 to 1. Behind the classes, segmentation
//! networks have coefficients of their masks, which are not read.

use std::sync::Arc;

use jetwatch_config::Section;

use super::keys::{BoxesAreKey, DenseKeys, TransposedKey, UNITS};
use super::recognize::{Certainty, Matrix, Outputs, Recognized};
use super::yolo_nas::are_corners;
use super::{CENTERED, DETECTOR, Layout, OutputLayout};
use crate::decoders::boxes::BoxUnit;
use crate::decoders::dense::{Boxes, Dense, Place, Scores};
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape};

/// The layout.
pub(crate) const YOLOV8: Layout = Layout {
    name: "yolov8",
    networks: "YOLOv8, YOLO11",
    needs: "one output [4 + C, N] with a column for every cell of the grids of strides 8, 16 and 32, or [N, 4 + C]",
    input: CENTERED,
    keys: &[BoxesAreKey::KEYS, DenseKeys::KEYS, TransposedKey::KEYS],
    read: |map, _, _| {
        let box_unit = match map.get("boxes_are") {
            Some(node) => node.one_of(&UNITS),
            None => Some(BoxUnit::Pixels),
        };
        Some(Arc::new(Planes {
            transposed: TransposedKey::from_map(map)?.transposed,
            mask_coefficients: DenseKeys::from_map(map)?.mask_coefficients,
            box_unit: box_unit?,
        }))
    },
    recognize: |outputs| {
        let found = planes(outputs).into_iter();
        found.chain(transposed(outputs)).collect()
    },
    ..DETECTOR
};

fn planes(outputs: &Outputs<'_>) -> Option<Recognized> {
    let matrix = outputs.matrix()?;
    let strides = outputs.strides_with(matrix.columns, 1)?;
    if are_corners(outputs, &matrix) {
        return None;
    }
    let why = format!(
        "a column for each of {} cells of strides {strides:?}, with 4 numbers before the classes",
        matrix.columns
    );
    recognized(outputs, &matrix, Certainty::Likely, matrix.rows, &why)
}

/// YOLOv6 has the same rows with an objectness of 1, so the number of classes must be a usual or a noted one to be likely, where the
/// graph does not show that the scores are behind the boxes.
fn transposed(outputs: &Outputs<'_>) -> Option<Recognized> {
    let matrix = outputs.matrix()?;
    let strides = outputs.strides_with(matrix.rows, 1)?;
    // Without centers, the boxes are corners.
    let has_corners = matrix.output.tensor.has_corners == Some(true) || !outputs.has_centers();
    if outputs.is_paddle() || has_corners || are_corners(outputs, &matrix) {
        return None;
    }
    let why = format!(
        "a row for each of {} cells of strides {strides:?}, with 4 numbers before the classes",
        matrix.rows
    );
    let certainty = match outputs.noted_classes() {
        0 if matrix.columns == 4 + COCO || matrix.output.joins_scores() => Certainty::Likely,
        0 => Certainty::Possible,
        _ => Certainty::Likely,
    };
    let mut found = recognized(outputs, &matrix, certainty, matrix.columns, &why)?;
    found
        .parameters
        .insert(0, ("transposed", "true".to_owned()));
    Some(found)
}

/// Classes of COCO, which most published networks have.
pub(super) const COCO: u64 = 80;

/// The guess for boxes of this many `numbers`.
fn recognized(
    outputs: &Outputs<'_>,
    matrix: &Matrix<'_>,
    certainty: Certainty,
    numbers: u64,
    why: &str,
) -> Option<Recognized> {
    let (masks, masks_why) = outputs.mask_coefficients();
    let classes = numbers.checked_sub(BEFORE_CLASSES as u64 + masks);
    let mut found = matrix.recognized(outputs, certainty, classes, &format!("{why}{masks_why}"))?;
    found.parameters = outputs.mask_parameter();
    Some(found)
}

/// One tensor of boxes.
#[derive(Debug, Clone, Copy)]
pub struct Planes {
    /// Whether it has a row for each box instead of a column.
    pub transposed: bool,
    /// Numbers behind the classes that are not read.
    pub mask_coefficients: usize,
    /// Unit of the boxes.
    pub box_unit: BoxUnit,
}

impl OutputLayout for Planes {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(self.decoder(network)?))
    }
}

/// Numbers of a box before the classes.
const BEFORE_CLASSES: usize = 4;

impl Planes {
    /// For `[4 + classes, boxes]`, or the same transposed, with any number of boxes and any input size.
    ///
    /// # Errors
    /// There is not exactly one tensor, or it does not have 4 numbers and one for each of `classes` for a box.
    fn decoder(&self, network: &NetworkShape<'_>) -> Result<Dense, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let advice = format!(
            "YOLOv8 has 4 numbers before those of the classes; check labels ({classes}), transposed and mask_coefficients \
             in model.yaml, and export without suppression (nms) in the network"
        );
        let numbers = BEFORE_CLASSES + classes + self.mask_coefficients;
        let mut axes = [(Some(numbers), "planes"), (None, "boxes")];
        if self.transposed {
            axes.reverse();
        }
        check_count(shapes, 1, "planes")?;
        check_axes(shapes, 0, DType::F32, &axes, &advice)?;
        let cells = shapes[0].axes[usize::from(!self.transposed)];
        let place = |before| match self.transposed {
            true => Place::rows(0, cells, numbers, before),
            false => Place::planes(0, cells, numbers, before),
        };
        Ok(Dense {
            boxes: Boxes {
                place: place(0),
                are_centers: true,
                unit: self.box_unit.pixels(input),
            },
            scores: Scores::finished(place(BEFORE_CLASSES), cells, classes),
            needs_suppression: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::recognize::tests::{Guess, Shapes, guesses, network, tensors};
    use super::*;
    use crate::decoders::DecodeDiagnostics;
    use crate::decoders::fixture::{DecoderFixture, check_refused};
    use jetwatch_types::Size;

    use jetwatch_pixels::argmax::BLOCK;

    const INPUT: Size = Size::new(640, 640);
    /// More than one block, and not a multiple of it.
    const BOXES: usize = 2 * BLOCK + 9;
    const PLANES: usize = 4 + 3;
    const PLAIN: Planes = Planes {
        transposed: false,
        mask_coefficients: 0,
        box_unit: BoxUnit::Pixels,
    };

    /// Planes of which the given boxes have these numbers and all others zeros.
    fn fixture(boxes: &[(usize, [f32; PLANES])]) -> DecoderFixture<Dense> {
        let mut fixture = DecoderFixture::new(vec![vec![PLANES, BOXES]], |shapes| {
            PLAIN.decoder(&NetworkShape::new(INPUT, 3, shapes))
        });
        for (place, numbers) in boxes {
            fixture.put(0, *place, BOXES, numbers);
        }
        fixture
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let (f32, i32, expected) = (DType::F32, DType::I32, "float32 [7, boxes]");
        #[rustfmt::skip]
        check_refused(|shapes| PLAIN.decoder(&NetworkShape::new(INPUT, 3, shapes)), "labels (3)", &[
            (&[&[8, 100]], f32, 0, expected),
            (&[&[100, 7]], f32, 0, expected),
            (&[&[7]], f32, 0, expected),
            (&[&[1, 7, 100]], f32, 0, expected),
            (&[&[7, 100]], i32, 0, expected),
        ]);
    }

    #[test]
    fn transposed_boxes_with_mask_coefficients_are_the_same() {
        let numbers = |index: usize| (index * 7919 % 1009) as f32 / 1009.0;
        let mut planes = fixture(&[]);
        planes.floats[0] = (0..PLANES * BOXES).map(numbers).collect();
        let rows = Planes {
            transposed: true,
            mask_coefficients: 2,
            box_unit: BoxUnit::Normalized,
        };
        let mut rows = DecoderFixture::new(vec![vec![BOXES, PLANES + 2]], |shapes| {
            rows.decoder(&NetworkShape::new(INPUT, 3, shapes))
        });
        for place in 0..BOXES {
            let number = |plane: usize| planes.floats[0][plane * BOXES + place];
            let row: Vec<f32> = (0..PLANES).map(number).collect();
            rows.put(
                0,
                place * (PLANES + 2),
                1,
                &[&row[..], &[9.0, f32::NAN]].concat(),
            );
        }
        let (mut wanted, _) = planes.decode(0.3);
        for found in &mut wanted {
            found.xyxy = found.xyxy.map(|edge| edge * 640.0);
        }
        let (found, decoded) = rows.decode(0.3);
        assert!(found.len() > 10 && decoded == DecodeDiagnostics::default());
        crate::decoders::fixture::check_near(&found, &wanted);
    }

    #[test]
    fn heads_of_two_to_four_strides_are_recognized_in_both_directions() {
        let (plain, coefficients) = (&[][..], &[("mask_coefficients", "32")][..]);
        let rows = &[("transposed", "true")][..];
        let (likely, possible) = (Certainty::Likely, Certainty::Possible);
        let proto = ("proto", &[1, 32, 160, 160][..]);
        #[rustfmt::skip]
        let cases: [(Shapes<'_>, usize, Option<Guess<'_>>); 9] = [
            (&[("o", &[1, 84, 8400])], 0, Some((likely, 80, plain))),
            // With strides of 4, of 64, and without 8.
            (&[("o", &[1, 84, 34000])], 0, Some((likely, 80, plain))),
            (&[("o", &[1, 84, 8500])], 0, Some((likely, 80, plain))),
            (&[("o", &[1, 84, 2000])], 0, Some((likely, 80, plain))),
            (&[("o", &[1, 116, 8400]), proto], 0, Some((likely, 80, coefficients))),
            (&[("o", &[1, 8400, 84])], 0, Some((likely, 80, rows))),
            (&[("o", &[1, 8400, 7])], 0, Some((possible, 3, rows))),
            (&[("o", &[1, 8400, 7])], 3, Some((likely, 3, rows))),
            (&[("o", &[1, 84, 8401])], 0, None),
        ];
        for (outputs, names, wanted) in cases {
            let network = network(outputs, &["Softmax", "Sub", "Div"], names);
            guesses(&network, "yolov8", &Vec::from_iter(wanted));
        }
        // The main branch of YOLOv9 comes behind its auxiliary one.
        let dual = network(&[("aux", &[1, 84, 8400]), ("o", &[1, 84, 8400])], &[], 0);
        let unnamed = network(&[("a", &[1, 84, 8400]), ("b", &[1, 84, 8400])], &[], 0);
        assert_eq!(tensors(&dual, "yolov8"), [["o"]]);
        assert_eq!(tensors(&unnamed, "yolov8"), [["b"]]);
        // Without distances to the sides, rows are those of other networks.
        guesses(
            &network(&[("o", &[1, 8400, 84])], &["Exp"], 0),
            "yolov8",
            &[],
        );
    }
}
