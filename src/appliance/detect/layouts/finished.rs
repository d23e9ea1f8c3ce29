// SPDX-License-Identifier: Apache-2.0
//! Detections that the network has suppressed already. Pure; the only code that knows this layout.
//!
//! A row `[K]` for each of `N` detections, where `columns` in `model.yaml` names the `K` numbers of a row:
//!
//! ```text
//! left top right bottom score class             YOLOv10, YOLO26, Ultralytics' nms=True, EfficientDet; DeepStream-Yolo, not suppressed
//! ignored left top right bottom class score     YOLOv7 with its suppression: the first is the number of the image
//! ignored left top right bottom score class     YOLO-NAS in its flat format
//! ignored top left bottom right score class     EfficientDet by its authors
//! ignored class score left top right bottom     DetectionOutput of SSDs, normalized
//! class score left top right bottom             PaddlePaddle's suppression
//! ```
//!
//! Scores and classes may be tensors of their own, and the number of valid rows may be another:
//!
//! ```text
//! boxes [N, K]   scores [N]   classes [N]   count [1]
//! ```
//!
//! The latter are those of TensorRT's plug-ins `EfficientNMS_TRT`, with whole classes, and `BatchedNMS_TRT`, with floats.
//!
//! Rows that only fill the tensors have a score of 0 or a class below 0, or are behind the count.

use std::sync::Arc;

use jetwatch_config::Section;

use self::keys::{BoxForm, CORNERS, Columns, FinishedKeys, PADDLE};
use super::keys::{BoxesAreKey, TensorForm, optional, single};
use super::{CENTERED, DETECTOR, Layout, OutputLayout};
use crate::decoders::boxes::{BoxUnit, first_unbounded, from_center, from_corners};
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::tensors::{check_axes, check_count, floats};
use crate::decoders::{
    BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorShape, TensorView,
};

use jetwatch_types::Xyxy;

pub(super) mod keys;
mod recognize;

pub use recognize::only_indices;

/// The layout.
pub(crate) const FINISHED: Layout = Layout {
    name: "finished",
    networks: "YOLOv10, YOLO26, exports with suppression in the network",
    needs: "one output [N, K] with a row for each detection, whose numbers are as columns names them, or boxes [N, 4], scores [N] \
            and classes [N], perhaps with a count",
    input: CENTERED,
    needs_suppression: false,
    tensors: &[
        TensorForm::Name,
        TensorForm::Roles(&[
            single(BOXES),
            optional(SCORES),
            optional(CLASSES),
            optional(COUNT),
        ]),
    ],
    keys: &[BoxesAreKey::KEYS, FinishedKeys::KEYS],
    read: |map, tensors, _| Some(Arc::new(keys::read(map, tensors)?)),
    recognize: |outputs| recognize::recognize(outputs).into_iter().collect(),
    ..DETECTOR
};

/// The roles of the tensors.
pub(super) const BOXES: &str = "boxes";
pub(super) const SCORES: &str = "scores";
pub(super) const CLASSES: &str = "classes";
pub(super) const COUNT: &str = "count";

/// Finished detections as `model.yaml` describes them.
#[derive(Debug, Clone)]
pub struct FinishedRows {
    /// Those of the tensors, in their order; `boxes` is one of them.
    roles: Vec<&'static str>,
    columns: Columns,
    first_class: u32,
    /// Of each image; `None`: they differ.
    rows: Option<usize>,
    suppressed: bool,
    box_unit: BoxUnit,
}

impl FinishedRows {
    /// One tensor as PaddlePaddle exports it, in pixels.
    pub fn paddle() -> Self {
        Self::new(&[BOXES], &PADDLE, BoxUnit::Pixels)
    }

    /// Tensors of `roles`, as they are suppressed by the network.
    ///
    /// # Panics
    /// The columns are not complete.
    pub(super) fn new(roles: &[&'static str], columns: &[&str], box_unit: BoxUnit) -> Self {
        Self {
            roles: roles.to_vec(),
            columns: Columns::new(columns, roles).expect("complete"),
            first_class: 0,
            rows: None,
            suppressed: true,
            box_unit,
        }
    }
}

impl OutputLayout for FinishedRows {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(Finished::new(self, network)?))
    }

    fn first_class(&self) -> u32 {
        self.first_class
    }

    fn rows_vary(&self) -> bool {
        self.rows.is_none()
    }
}

/// Where one number of each row is: in `tensor` from `first` on, in steps of `step`.
#[derive(Debug, Clone, Copy)]
struct Place {
    tensor: usize,
    first: usize,
    step: usize,
}

impl Place {
    fn index(self, row: usize) -> usize {
        self.first + row * self.step
    }
}

/// Finished detections.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Index of their tensor.
    boxes: usize,
    columns: Columns,
    score: Place,
    class: Option<Place>,
    /// Index of the tensor.
    count: Option<usize>,
    first_class: u32,
    classes: usize,
    suppressed: bool,
    /// Whether a class below 0 is that of a row that only fills the tensor.
    may_fill: bool,
    unit: [f32; 2],
}

impl Finished {
    /// A decoder for the tensors `shapes`. Axes of length 1 do not matter, but that of the rows.
    ///
    /// # Errors
    /// There is not one tensor for each role, a row of boxes does not have as many numbers as columns are named, or another
    /// tensor does not have one number for each box.
    pub fn new(layout: &FinishedRows, network: &NetworkShape<'_>) -> Result<Self, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let (roles, columns) = (&layout.roles, layout.columns);
        check_count(shapes, roles.len(), &roles.join(", "))?;
        let tensor_of = |wanted: &str| roles.iter().position(|role| *role == wanted);
        let boxes = tensor_of(BOXES).expect("every form has them");
        let lens: Vec<[usize; 1]> = shapes
            .iter()
            .map(|shape| [shape.axes.iter().product()])
            .collect();
        let matrix = matrix(shapes[boxes].axes);
        let mut flat: Vec<TensorShape<'_>> = shapes
            .iter()
            .zip(&lens)
            .map(|(shape, len)| TensorShape {
                axes: len,
                ..*shape
            })
            .collect();
        flat[boxes].axes = matrix.as_ref().map_or(shapes[boxes].axes, |axes| axes);
        let advice = "a row for each detection is read: name the numbers of a row in columns of model.yaml; scores and classes that \
                      have tensors of their own have one number for each row";
        let wanted = [(layout.rows, "boxes"), (Some(columns.count), "numbers")];
        check_axes(&flat, boxes, DType::F32, &wanted, advice)?;
        let rows = flat[boxes].axes[0];
        for (tensor, role) in roles.iter().enumerate() {
            let (element, len) = match *role {
                BOXES => continue,
                SCORES => (DType::F32, rows),
                COUNT => (shapes[tensor].element, 1),
                _ => (shapes[tensor].element, rows),
            };
            check_axes(&flat, tensor, element, &[(Some(len), "boxes")], advice)?;
        }
        let place = |column: Option<usize>, role| {
            let in_row = column.map(|first| Place {
                tensor: boxes,
                first,
                step: columns.count,
            });
            in_row.or_else(|| {
                Some(Place {
                    tensor: tensor_of(role)?,
                    first: 0,
                    step: 1,
                })
            })
        };
        Ok(Self {
            boxes,
            columns,
            score: place(columns.score, SCORES).expect("the columns were checked"),
            class: place(columns.class, CLASSES),
            count: tensor_of(COUNT),
            first_class: layout.first_class,
            classes,
            suppressed: layout.suppressed,
            may_fill: !roles.contains(&COUNT),
            unit: layout.box_unit.pixels(input),
        })
    }

    /// Classes, corners in pixels and scores of the queries of a transformer, each of which is an object.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn ranked(network: &NetworkShape<'_>) -> Result<Self, Mismatch> {
        let roles = [CLASSES, BOXES, SCORES];
        let layout = FinishedRows::new(&roles, &CORNERS, BoxUnit::Pixels);
        Ok(Self {
            may_fill: false,
            ..Self::new(&layout, network)?
        })
    }

    /// The label's number for `class`; `None` without a label.
    fn label(&self, class: i64) -> Option<u16> {
        let label = usize::try_from(class - i64::from(self.first_class)).ok()?;
        // There are at most 10 000 labels.
        (label < self.classes).then_some(label as u16)
    }

    /// The box in these numbers of its form, in input pixels.
    fn xyxy(&self, raw: [f32; 4]) -> Xyxy {
        let [left, top, width, height] = raw;
        match self.columns.form {
            BoxForm::Corners => from_corners(raw, self.unit),
            BoxForm::Center => from_center(raw, self.unit),
            BoxForm::CornerAndSize => {
                from_corners([left, top, left + width, top + height], self.unit)
            }
        }
    }
}

/// Rows and columns of a tensor with these axes, if no further axis is longer than 1.
fn matrix(axes: &[usize]) -> Option<[usize; 2]> {
    let (columns, rows) = axes.split_last()?;
    let long = rows.iter().filter(|axis| **axis != 1).count();
    (!rows.is_empty() && long <= 1).then(|| [rows.iter().product(), *columns])
}

/// The number at `index`, if it is whole.
fn whole(tensor: TensorView<'_>, index: usize) -> Option<i64> {
    match tensor {
        TensorView::I32(numbers) => Some(i64::from(numbers[index])),
        TensorView::I64(numbers) => Some(numbers[index]),
        TensorView::F32(numbers) => {
            // NaN becomes 0 here, and is unequal to it.
            let number = numbers[index] as i64;
            (number as f32 == numbers[index]).then_some(number)
        }
    }
}

impl OutputDecoder for Finished {
    /// A count that is negative, above the number of rows or not whole is reported as a number that is not finite: the whole
    /// output of such an image is unreliable.
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let columns = &self.columns;
        let rows = tensors[self.boxes].len() / columns.count;
        // The number of rows may differ from image to image, so that the shapes of the first run say nothing of it.
        let places = [Some(self.score), self.class];
        let mut other_rows = places
            .into_iter()
            .flatten()
            .filter(|place| tensors[place.tensor].len() != rows * place.step);
        if let Some(place) = other_rows.next() {
            collector.decoded.other_rows = Some(place.tensor);
            return;
        }
        let boxes = floats(tensors, self.boxes, rows * columns.count);
        let scores = floats(tensors, self.score.tensor, rows * self.score.step);
        let mut count = rows;
        if let Some(tensor) = self.count {
            let given = whole(tensors[tensor], 0).and_then(|count| usize::try_from(count).ok());
            let Some(given) = given.filter(|count| *count <= rows) else {
                collector.report_non_finite(tensor, 0);
                return;
            };
            count = given;
        }
        for row in 0..count {
            let class = match self.class {
                Some(place) => whole(tensors[place.tensor], place.index(row)),
                None => Some(i64::from(self.first_class)),
            };
            // Rows that only fill the tensor have no valid score either.
            if self.may_fill && class.is_some_and(|class| class < 0) {
                continue;
            }
            let at = self.score.index(row);
            let score = scores[at];
            if !is_valid(score) {
                collector.report_invalid(self.score.tensor, [(at, score)].into_iter());
                continue;
            }
            if score < collector.threshold {
                continue;
            }
            let Some(label) = class.and_then(|class| self.label(class)) else {
                // Without classes, every row has the first label.
                let place = self.class.unwrap_or(self.score);
                collector.report_unknown_class(place.tensor, place.index(row));
                continue;
            };
            let first = row * columns.count;
            let raw = columns.box_of.map(|column| boxes[first + column]);
            let xyxy = self.xyxy(raw);
            if let Some(place) = first_unbounded(&raw, &xyxy) {
                collector.report_non_finite(self.boxes, first + columns.box_of[place]);
                continue;
            }
            collector.push(row, label, score, xyxy);
        }
    }

    fn needs_suppression(&self) -> bool {
        !self.suppressed
    }
}

#[cfg(test)]
mod tests {
    use super::keys::{CORNER_AND_SIZE, CORNERS, IGNORED, ULTRALYTICS, YOLOV7};
    use super::*;
    use crate::decoders::DecodeDiagnostics;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused, decode, place};
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(64, 32);

    fn layout(columns: &[&str], box_unit: BoxUnit, first_class: u32) -> FinishedRows {
        FinishedRows {
            first_class,
            ..FinishedRows::new(&[BOXES], columns, box_unit)
        }
    }

    fn fixture(layout: &FinishedRows, rows: &[&[f32]]) -> DecoderFixture<Finished> {
        let axes = vec![vec![rows.len().max(1), layout.columns.count]];
        let mut fixture = DecoderFixture::new(axes, |shapes| {
            Finished::new(layout, &NetworkShape::new(INPUT, 2, shapes))
        });
        fixture.floats = vec![rows.concat()];
        fixture
    }

    /// Columns, unit, number of the first class, rows.
    type Family<'a> = (&'a [&'a str], BoxUnit, u32, [&'a [f32]; 4]);

    /// The same two detections, as four families write them; the last row of each only fills the tensor.
    #[test]
    fn rows_are_read_by_their_columns() {
        let wanted = [
            candidate(0, 1, 1.0, [16.0, 8.0, 32.0, 24.0]),
            candidate(1, 0, 0.3, [0.0, 0.0, 64.0, 32.0]),
        ];
        let center = ["score", "center_x", "center_y", "width", "height", "class"];
        let background = [IGNORED, "class", "score", "left", "top", "right", "bottom"];
        #[rustfmt::skip]
        let cases: [Family<'_>; 5] = [
            (&ULTRALYTICS, BoxUnit::Pixels, 0, [
                &[16.0, 8.0, 32.0, 24.0, 1.02, 1.0], &[0.0, 0.0, 64.0, 32.0, 0.3, 0.0],
                &[0.0, 0.0, 64.0, 32.0, 0.299_999, 0.0], &[0.0; 6],
            ]),
            (&YOLOV7, BoxUnit::Pixels, 0, [
                &[0.0, 16.0, 8.0, 32.0, 24.0, 1.0, 1.0], &[0.0, 0.0, 0.0, 64.0, 32.0, 0.0, 0.3],
                &[0.0, 0.0, 0.0, 64.0, 32.0, 0.0, 0.2], &[0.0; 7],
            ]),
            (&PADDLE, BoxUnit::Pixels, 0, [
                &[1.0, 1.0, 16.0, 8.0, 32.0, 24.0], &[0.0, 0.3, 0.0, 0.0, 64.0, 32.0],
                &[0.0, 0.2, 0.0, 0.0, 64.0, 32.0], &[-1.0, 0.9, 0.0, 0.0, 9.0, 9.0],
            ]),
            (&center, BoxUnit::Normalized, 0, [
                &[1.0, 0.375, 0.5, 0.25, 0.5, 1.0], &[0.3, 0.5, 0.5, 1.0, 1.0, 0.0],
                &[0.1, 0.5, 0.5, 1.0, 1.0, 0.0], &[0.0; 6],
            ]),
            (&background, BoxUnit::Normalized, 1, [
                &[0.0, 2.0, 1.0, 0.25, 0.25, 0.5, 0.75], &[0.0, 1.0, 0.3, 0.0, 0.0, 1.0, 1.0],
                &[0.0, 1.0, 0.2, 0.0, 0.0, 1.0, 1.0], &[0.0; 7],
            ]),
        ];
        for (columns, unit, first_class, rows) in cases {
            let fixture = fixture(&layout(columns, unit, first_class), &rows);
            let fine = DecodeDiagnostics::default();
            assert_eq!(fixture.decode(0.3), (wanted.to_vec(), fine), "{columns:?}");
            let of_a = fixture.decode_with_labels(0.3, &["a", "b"], &["a"]);
            assert_eq!(of_a.0, wanted[1..], "{columns:?}");
            assert!(!fixture.decoder.needs_suppression());
        }
        let none = fixture(&FinishedRows::paddle(), &[]);
        assert_eq!(none.decode(0.3), (Vec::new(), DecodeDiagnostics::default()));
        let of_one_class = layout(
            &["left", "top", "right", "bottom", "score"],
            BoxUnit::Pixels,
            0,
        );
        let one = fixture(&of_one_class, &[&[16.0, 8.0, 32.0, 24.0, 0.9]]);
        assert_eq!(one.decode(0.3).0[0].class, 0);
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let good: &[f32] = &[1.0, 0.9, 1.0, 2.0, 3.0, 4.0];
        let mut rows = fixture(&FinishedRows::paddle(), &[good; 2]);
        let width = good.len();
        rows.check_non_finite(0.3, (1..width).map(|index| (0, width + index)));
        rows.check_beyond_one(0.3, &[(0, width + 1, 1.2), (0, width + 1, -0.2)]);
        for class in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.0, 0.5] {
            rows.floats[0][width] = class;
            let (candidates, decoded) = rows.decode(0.3);
            let found = (candidates.len(), decoded.first_unknown_class);
            assert_eq!(found, (1, place(0, width)), "{class}");
        }
        let with_background = layout(&PADDLE, BoxUnit::Pixels, 1);
        let (candidates, decoded) =
            fixture(&with_background, &[&[0.0, 0.9, 1.0, 2.0, 3.0, 4.0]]).decode(0.3);
        let wanted = (0, place(0, 0));
        assert_eq!((candidates.len(), decoded.first_unknown_class), wanted);
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let (f32, i64, expected) = (DType::F32, DType::I64, "float32 [boxes, 6]");
        let make = |shapes: &[TensorShape<'_>]| {
            Finished::new(
                &FinishedRows::paddle(),
                &NetworkShape::new(INPUT, 2, shapes),
            )
        };
        #[rustfmt::skip]
        check_refused(make, "", &[
            (&[&[100, 6]], i64, 0, expected),
            (&[&[100, 7]], f32, 0, expected),
            (&[&[6]], f32, 0, expected),
        ]);
    }

    const F32: DType = DType::F32;
    const I32: DType = DType::I32;
    const I64: DType = DType::I64;

    /// A decoder for tensors of these types and axes.
    fn of_parts(
        layout: &FinishedRows,
        tensors: &[(DType, &[usize])],
    ) -> Result<Finished, Mismatch> {
        let shapes: Vec<_> = tensors
            .iter()
            .map(|&(element, axes)| TensorShape { element, axes })
            .collect();
        Finished::new(layout, &NetworkShape::new(INPUT, 2, &shapes))
    }

    fn parts(roles: &[&'static str], columns: &[&str], box_unit: BoxUnit) -> FinishedRows {
        FinishedRows::new(roles, columns, box_unit)
    }

    /// Axes and numbers of each tensor.
    type Tensors<'a> = Vec<(&'a [usize], TensorView<'a>)>;

    /// The same two detections in tensors of their own, as four families write them, before a row that only fills them.
    #[test]
    fn tensors_of_each_role_are_read_together() {
        let wanted = [
            candidate(0, 1, 0.9, [16.0, 8.0, 32.0, 24.0]),
            candidate(1, 0, 0.3, [0.0, 0.0, 64.0, 32.0]),
        ];
        let top_first = ["top", "left", "bottom", "right"];
        let pixels: &[f32] = &[
            16.0, 8.0, 32.0, 24.0, 0.0, 0.0, 64.0, 32.0, 0.0, 0.0, 9.0, 9.0,
        ];
        let sizes: &[f32] = &[
            16.0, 8.0, 16.0, 16.0, 0.0, 0.0, 64.0, 32.0, 0.0, 0.0, 9.0, 9.0,
        ];
        let shares: &[f32] = &[
            0.25, 0.25, 0.75, 0.5, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.5, 0.5,
        ];
        let scored: &[f32] = &[
            16.0, 8.0, 32.0, 24.0, 0.9, 0.0, 0.0, 64.0, 32.0, 0.3, 0.0, 0.0, 9.0, 9.0, 0.2,
        ];
        let (scores, all_high): (&[f32], &[f32]) = (&[0.9, 0.3, 0.2], &[0.9, 0.3, 0.9]);
        let three = [BOXES, SCORES, CLASSES];
        let four = [BOXES, SCORES, CLASSES, COUNT];
        let view = |floats| TensorView::F32(floats);
        #[rustfmt::skip]
        let cases: [(FinishedRows, u32, Tensors<'_>); 7] = [
            (parts(&three, &CORNERS, BoxUnit::Pixels), 1,
             vec![(&[3, 4], view(pixels)), (&[3], view(scores)), (&[3], TensorView::I64(&[2, 1, 1]))]),
            (parts(&three, &CORNERS, BoxUnit::Pixels), 0,
             vec![(&[3, 4], view(pixels)), (&[3, 1], view(scores)), (&[3, 1], view(&[1.0, 0.0, 0.0]))]),
            (parts(&three, &CORNER_AND_SIZE, BoxUnit::Pixels), 0,
             vec![(&[3, 4], view(sizes)), (&[3], view(all_high)), (&[3], TensorView::I32(&[1, 0, -1]))]),
            (parts(&four, &top_first, BoxUnit::Normalized), 1,
             vec![(&[3, 4], view(shares)), (&[3], view(all_high)), (&[3], view(&[2.0, 1.0, 1.0])), (&[], view(&[2.0]))]),
            (parts(&four, &top_first, BoxUnit::Normalized), 0,
             vec![(&[1, 3, 4], view(shares)), (&[3], view(all_high)), (&[3], view(&[1.0, 0.0, 0.0])), (&[1], TensorView::I32(&[2]))]),
            (parts(&four, &CORNERS, BoxUnit::Pixels), 0,
             vec![(&[3, 4], view(pixels)), (&[3], view(all_high)), (&[3], TensorView::I64(&[1, 0, 0])), (&[1, 1], TensorView::I64(&[2]))]),
            (parts(&[BOXES, CLASSES], &ULTRALYTICS[..5], BoxUnit::Pixels), 0,
             vec![(&[3, 5], view(scored)), (&[3], TensorView::I64(&[1, 0, 0]))]),
        ];
        for (layout, first_class, tensors) in cases {
            let layout = FinishedRows {
                first_class,
                ..layout
            };
            let element = |view| match view {
                TensorView::F32(_) => F32,
                TensorView::I32(_) => I32,
                TensorView::I64(_) => I64,
            };
            let shapes: Vec<_> = tensors
                .iter()
                .map(|(axes, view)| (element(*view), *axes))
                .collect();
            let decoder = of_parts(&layout, &shapes).expect("they fit");
            let views: Vec<TensorView<'_>> = tensors.iter().map(|(_, view)| *view).collect();
            let found = decode(&decoder, &views, 0.3, &[], &[]);
            let fine = DecodeDiagnostics::default();
            assert_eq!(found, (wanted.to_vec(), fine), "{layout:?}");
        }
        // All of one class, and left to suppress.
        let layout = FinishedRows {
            suppressed: false,
            ..parts(&[BOXES, SCORES], &CORNERS, BoxUnit::Pixels)
        };
        let decoder = of_parts(&layout, &[(F32, &[3, 4]), (F32, &[3])]).expect("they fit");
        let (found, _) = decode(&decoder, &[view(pixels), view(scores)], 0.3, &[], &[]);
        assert_eq!((found[0].class, found.len()), (0, 2));
        assert!(decoder.needs_suppression());
        // Nothing found, in the form without a number of rows.
        let (found, decoded) = decode(&decoder, &[view(&[]), view(&[])], 0.3, &[], &[]);
        assert_eq!((found, decoded), (Vec::new(), DecodeDiagnostics::default()));
    }

    #[test]
    fn invalid_numbers_of_each_tensor_are_reported_with_their_index() {
        let layout = parts(
            &[BOXES, SCORES, CLASSES, COUNT],
            &["top", "left", "bottom", "right"],
            BoxUnit::Pixels,
        );
        let shapes: [(DType, &[usize]); 4] = [(F32, &[2, 4]), (F32, &[2]), (F32, &[2]), (F32, &[])];
        let decoder = of_parts(&layout, &shapes).expect("they fit");
        let good = || [vec![1.0_f32; 8], vec![0.9; 2], vec![0.0; 2], vec![2.0]];
        let (non_finite, unknown, beyond) = (0, 1, 2);
        for (tensor, index, bad, kept, reported) in [
            (0, 5, f32::NAN, 1, non_finite),
            (1, 1, f32::INFINITY, 1, non_finite),
            (1, 1, 7.0, 1, beyond),
            (2, 1, 2.0, 1, unknown),
            (2, 1, -1.0, 1, unknown),
            (2, 1, 0.5, 1, unknown),
            (3, 0, 3.0, 0, non_finite),
            (3, 0, -1.0, 0, non_finite),
            (3, 0, 1.5, 0, non_finite),
            (3, 0, f32::NAN, 0, non_finite),
        ] {
            let mut numbers = good();
            numbers[tensor][index] = bad;
            let views = numbers.each_ref().map(|numbers| TensorView::F32(numbers));
            let (candidates, found) = decode(&decoder, &views, 0.3, &[], &[]);
            let places = [
                found.first_non_finite,
                found.first_unknown_class,
                found.first_beyond_one,
            ];
            let found = (candidates.len(), places[reported]);
            let wanted = (kept, place(tensor, index));
            assert_eq!(found, wanted, "{bad} in tensor {tensor}");
        }
    }

    /// The number of rows differs from image to image; a network that gives more boxes than scores is at fault.
    #[test]
    fn rows_that_differ_in_a_later_image_are_reported_with_their_tensor() {
        let layout = parts(&[BOXES, SCORES, CLASSES], &CORNERS, BoxUnit::Pixels);
        let shapes: [(DType, &[usize]); 3] = [(F32, &[3, 4]), (F32, &[3]), (I64, &[3])];
        let decoder = of_parts(&layout, &shapes).expect("they fit");
        let boxes = [1.0; 8];
        let cases: [(&[f32], &[i64], Option<usize>); 4] = [
            (&[0.9, 0.8], &[0, 1], None),
            (&[0.9], &[0, 1], Some(1)),
            (&[0.9, 0.8], &[0, 1, 0], Some(2)),
            (&[], &[], Some(1)),
        ];
        for (scores, classes, other_rows) in cases {
            let views = [
                TensorView::F32(&boxes),
                TensorView::F32(scores),
                TensorView::I64(classes),
            ];
            let (candidates, found) = decode(&decoder, &views, 0.3, &[], &[]);
            let expected = DecodeDiagnostics {
                other_rows,
                ..DecodeDiagnostics::default()
            };
            assert_eq!(found, expected);
            assert_eq!(candidates.is_empty(), other_rows.is_some());
        }
    }

    #[test]
    fn other_tensors_of_a_role_are_rejected_with_expected_tensors() {
        let four = [BOXES, SCORES, CLASSES, COUNT];
        let layout = FinishedRows {
            rows: Some(3),
            ..parts(&four, &CORNERS, BoxUnit::Pixels)
        };
        let good: [(DType, &[usize]); 4] = [(F32, &[3, 4]), (F32, &[3]), (I64, &[3]), (F32, &[1])];
        assert!(of_parts(&layout, &good).is_ok());
        #[rustfmt::skip]
        let cases: [(usize, DType, &[usize], &str); 7] = [
            (0, F32, &[4, 4], "float32 [3, 4]"),
            (0, F32, &[3, 5], "float32 [3, 4]"),
            (0, F32, &[3, 2, 4], "float32 [3, 4]"),
            (1, F32, &[3, 2], "float32 [3]"),
            (1, I32, &[3], "float32 [3]"),
            (2, I64, &[4], "int64 [3]"),
            (3, I32, &[3], "int32 [1]"),
        ];
        for (tensor, element, axes, expected) in cases {
            let mut shapes = good;
            shapes[tensor] = (element, axes);
            let mismatch = of_parts(&layout, &shapes).expect_err(expected);
            let found = (mismatch.tensor, mismatch.expected.as_str());
            assert_eq!(found, (tensor, expected));
        }
        let mismatch = of_parts(&layout, &good[..3]).expect_err("no count");
        assert!(
            mismatch
                .expected
                .contains("4 tensors (boxes, scores, classes, count)"),
            "{}",
            mismatch.expected
        );
    }
}
