// SPDX-License-Identifier: Apache-2.0
//! The output of YOLOv5, of YOLOv7 exported with its grid, and of other networks with the same rows. Pure.
//!
//! A row is `[x, y, w, h, objectness, class 0, class 1, …]`: center and size in input pixels, objectness and classes after
//! their sigmoid. The network has applied grids and anchors, so the number of rows depends on the export. Behind the classes,
//! segmentation networks have coefficients of their masks, which are not read.
//!
//! ```text
//! box = (x ∓ w/2, y ∓ h/2)     score = objectness · best class
//! ```

use std::sync::Arc;

use jetwatch_config::Section;

use super::keys::DenseKeys;
use super::recognize::{Certainty, Outputs, Recognized};
use super::yolov8::COCO;
use super::{CENTERED, DETECTOR, Layout, OutputLayout, Preprocessing, yolox};
use crate::decoders::boxes::from_center;
use crate::decoders::candidates::CandidateCollector;
use crate::decoders::dense::{Activation, Place};
use crate::decoders::objects::{BEFORE_CLASSES, Objects};
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};

/// The layout.
pub const YOLOV5: Layout = Layout {
    name: "yolov5",
    networks: "Ultralytics YOLOv5, YOLOv7 with its grid",
    needs: "one output [N, 5 + C] with three rows for every cell of the grids of strides 8, 16 and 32, or one row where the \
            network decodes it",
    input: CENTERED,
    keys: &[DenseKeys::KEYS],
    read: |map, _, _| {
        let mask_coefficients = DenseKeys::from_map(map)?.mask_coefficients;
        Some(Arc::new(Rows { mask_coefficients }))
    },
    recognize,
    ..DETECTOR
};

/// Three rows for each cell are YOLOv5's and YOLOv7's. One row is YOLOX's or YOLOv6's, which take other images: YOLOX's sizes are
/// exponentials; YOLOv6's boxes are distances to the sides, and its objectness is the constant 1.
fn recognize(outputs: &Outputs<'_>) -> Vec<Recognized> {
    let Some(matrix) = outputs.matrix() else {
        return Vec::new();
    };
    let strides = |each| outputs.strides_with(matrix.rows, each);
    let (masks, masks_why) = outputs.mask_coefficients();
    let classes = matrix.columns.checked_sub(BEFORE_CLASSES as u64 + masks);
    let of = |certainty, why: &str, origin| {
        let recognized =
            matrix.recognized(outputs, certainty, classes, &format!("{why}{masks_why}"))?;
        Some(Recognized {
            parameters: outputs.mask_parameter(),
            origin,
            ..recognized
        })
    };
    if let Some(strides) = strides(3) {
        let why = format!(
            "{} = three anchors in each cell of strides {strides:?}, with 5 numbers before the classes",
            matrix.rows
        );
        return of(Certainty::Likely, &why, None).into_iter().collect();
    }
    let Some(strides) = strides(1).filter(|_| !outputs.is_paddle()) else {
        return Vec::new();
    };
    let is_yolox = outputs.has_operator(&["Exp"]);
    let is_yolov6 = outputs.has_centers() && !matrix.output.joins_scores();
    let cells = format!("{} cells of strides {strides:?}", matrix.rows);
    let yolox = is_yolox.then(|| {
        let why =
            format!("{cells}, and the network decodes sizes by exponentials itself, as YOLOX does");
        of(Certainty::Likely, &why, Some(YOLOX))
    });
    let yolov6 = is_yolov6.then(|| {
        let why = format!(
            "{cells}, and the network decodes distances to the sides itself, as YOLOv6 does"
        );
        // With as many columns it is probably without objectness.
        let certainty = match matrix.columns == 4 + COCO && outputs.noted_classes() == 0 {
            true => Certainty::Possible,
            false => Certainty::Likely,
        };
        of(certainty, &why, Some(YOLOV6))
    });
    let found = yolox.into_iter().chain(yolov6);
    found.flatten().collect()
}

const YOLOX: (&str, Preprocessing) = ("YOLOX exported with its decoding", yolox::YOLOX.input);
const YOLOV6: (&str, Preprocessing) = ("YOLOv6", CENTERED);

/// Rows of boxes.
#[derive(Debug)]
pub struct Rows {
    /// Numbers behind the classes that are not read.
    pub mask_coefficients: usize,
}

impl OutputLayout for Rows {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(Yolov5::new(self, network)?))
    }
}

/// Rows of boxes in input pixels for one number of classes.
#[derive(Debug, Clone)]
pub struct Yolov5(Objects);

impl Yolov5 {
    /// For `[rows, 5 + classes]` with any number of rows and any input size.
    ///
    /// # Errors
    /// There is not exactly one tensor, or its rows do not have 5 numbers and one for each of `classes`.
    pub fn new(layout: &Rows, network: &NetworkShape<'_>) -> Result<Self, Mismatch> {
        let (_, classes, shapes) = network.parts();
        let row_len = BEFORE_CLASSES + classes + layout.mask_coefficients;
        let advice = format!(
            "a row has 5 numbers before the classes; check labels ({classes}) in model.yaml, or set output.layout to \
             yolov8 if there is no objectness"
        );
        let axes = [(None, "rows"), (Some(row_len), "numbers")];
        check_count(shapes, 1, "rows")?;
        check_axes(shapes, 0, DType::F32, &axes, &advice)?;
        let cells = shapes[0].axes[0];
        Ok(Self(Objects {
            place: Place::rows(0, cells, row_len, 0),
            cells,
            classes,
            activation: Activation::None,
        }))
    }
}

impl OutputDecoder for Yolov5 {
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let unit = [1.0; 2];
        self.0
            .decode(tensors, 0, collector, |_, raw| from_center(raw, unit));
    }
}

#[cfg(test)]
mod tests {
    use super::super::recognize::tests::{From, guesses, network, origins};
    use super::*;
    use crate::decoders::DecodeDiagnostics;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused};
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(64, 64);
    const ROW: usize = 7;
    const PLAIN: Rows = Rows {
        mask_coefficients: 0,
    };

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let (f32, i64, expected) = (DType::F32, DType::I64, "float32 [rows, 7]");
        #[rustfmt::skip]
        check_refused(|shapes| Yolov5::new(&PLAIN, &NetworkShape::new(INPUT, 2, shapes)), "labels (2)", &[
            (&[&[100, 8]], f32, 0, expected),
            (&[&[100, 6]], f32, 0, expected),
            (&[&[7, 100]], f32, 0, expected),
            (&[&[700]], f32, 0, expected),
            (&[&[1, 100, 7]], f32, 0, expected),
            (&[&[100, 7]], i64, 0, expected),
        ]);
    }

    #[test]
    fn the_rows_of_segmentation_networks_end_with_coefficients() {
        let layout = Rows {
            mask_coefficients: 3,
        };
        let mut fixture = DecoderFixture::new(vec![vec![2, ROW + 3]], |shapes| {
            Yolov5::new(&layout, &NetworkShape::new(INPUT, 2, shapes))
        });
        let coefficients = [f32::NAN, 7.0, -7.0];
        let row = [&[1.0, 2.0, 6.0, 8.0, 1.0, 0.2, 0.5], &coefficients[..]].concat();
        fixture.put(0, ROW + 3, 1, &row);
        let wanted = vec![candidate(1, 1, 0.5, [-2.0, -2.0, 4.0, 6.0])];
        assert_eq!(fixture.decode(0.3), (wanted, DecodeDiagnostics::default()));
    }

    /// Axes of the output, operators, noted names, and the guesses.
    type Case<'a> = (&'a [i64], &'a [&'a str], usize, &'a [From]);

    #[test]
    fn families_with_the_same_rows_are_recognized_by_operators() {
        let (v5, x, v6) = (YOLOV5.networks, YOLOX.0, YOLOV6.0);
        let (likely, possible) = (Certainty::Likely, Certainty::Possible);
        #[rustfmt::skip]
        let cases: [Case<'_>; 14] = [
            (&[1, 25200, 85], &[], 0, &[(likely, v5)]),
            (&[1, 25500, 85], &[], 0, &[(likely, v5)]),
            (&[1, 102_000, 85], &[], 0, &[(likely, v5)]),
            (&[1, 6000, 85], &[], 0, &[(likely, v5)]),
            (&[1, 25200, 85], &[], 3, &[(possible, v5)]),
            (&[1, 8400, 85], &["Exp"], 0, &[(likely, x)]),
            (&[1, 8400, 85], &["Sub", "Softmax", "Div"], 0, &[(likely, v6)]),
            (&[1, 8400, 85], &["Sub", "Sub", "Div"], 0, &[(likely, v6)]),
            // Without objectness.
            (&[1, 8400, 84], &["Sub", "Sub", "Div"], 0, &[(possible, v6)]),
            (&[1, 8400, 84], &["Sub", "Sub", "Div"], 79, &[(likely, v6)]),
            (&[1, 8400, 85], &["Exp", "Sub", "Sub", "Div"], 0, &[(likely, x), (likely, v6)]),
            // Score and class of the best.
            (&[1, 8400, 6], &["Sub", "Sub", "Div", "ArgMax"], 0, &[]),
            // Not decoded, with images normalized in the network.
            (&[1, 8400, 85], &["Sub", "Div"], 0, &[]),
            (&[1, 8400, 85], &[], 0, &[]),
        ];
        for (axes, operators, names, wanted) in cases {
            let network = network(&[("o", axes)], operators, names);
            let found = origins(&network, "yolov5");
            assert_eq!(found, wanted, "{axes:?} {operators:?}");
        }
        let masks = ("proto", &[1, 32, 160, 160][..]);
        let network = network(&[("o", &[1, 25200, 117]), masks], &[], 0);
        guesses(
            &network,
            "yolov5",
            &[(likely, 80, &[("mask_coefficients", "32")])],
        );
    }
}
