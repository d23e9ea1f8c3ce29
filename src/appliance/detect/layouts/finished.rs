// SPDX-License-Identifier: Apache-2.0
//! Detections that the network has suppressed already, one row for each. Pure; the only code that knows this layout.
//!
//! `[N, K]`, where `columns` in `model.yaml` names the `K` numbers of a row:
//!
//! ```text
//! left top right bottom score class             YOLOv10, YOLO26, Ultralytics' nms=True, DeepStream-Yolo
//! ignored left top right bottom class score     YOLOv7 with its suppression: the first is the number of the image
//! ignored class score left top right bottom     DetectionOutput of SSDs, normalized
//! class score left top right bottom             PaddlePaddle's suppression
//! ```
//!
//! Rows that only fill the tensor have a score of 0 or a class below 0.

use std::sync::Arc;

use jetwatch_config::{Map, Section, ValueType};

use super::keys::{BoxesAreKey, TensorForm, UNITS};
use super::recognize::{self, Certainty, MAX_OBJECTS, Outputs, Recognized, THREE};
use super::{CENTERED, DETECTOR, Layout, OutputLayout};
use crate::decoders::boxes::{BoxUnit, first_unbounded, from_center, from_corners};
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::yaml_values::invalid;
use crate::{Candidate, ClassFilter};
use jetwatch_types::Size;

/// The layout.
pub const FINISHED: Layout = Layout {
    name: "finished",
    networks: "YOLOv10, YOLO26, exports with suppression in the network",
    needs: "one output [N, K] with a row for each detection, whose numbers are as columns names them",
    input: CENTERED,
    needs_suppression: false,
    tensors: &[TensorForm::Name],
    keys: &[BoxesAreKey::KEYS, FinishedKeys::KEYS],
    read: |map, _, _| {
        let keys = FinishedKeys::from_map(map)?;
        let box_unit = match map.get("boxes_are") {
            Some(node) => node.one_of(&UNITS)?,
            None => BoxUnit::Pixels,
        };
        let ultralytics = || Columns::new(&ULTRALYTICS).expect("complete");
        Some(Arc::new(FinishedRows {
            columns: keys.columns.unwrap_or_else(ultralytics),
            first_class: keys.first_class,
            rows: keys.rows,
            box_unit,
        }))
    },
    recognize: |outputs| recognize(outputs).into_iter().collect(),
    ..DETECTOR
};

/// Of the layout `finished`.
#[derive(Section)]
pub(crate) struct FinishedKeys {
    /// Layout finished: what the numbers of a row are, in their order: score, class, and either left, top, right and bottom or center_x, center_y, width and height; `ignored` stands for a number that is not used. Without class, all detections have the first label. Default: [left, top, right, bottom, score, class].
    #[key(value = COLUMNS, read = read_columns)]
    columns: Option<Columns>,
    /// Layout finished: number of the class with the first label. 1 where 0 is the background.
    #[key(range = 0..=1, default = 0)]
    first_class: u32,
    /// Layout finished: rows of each image, where their number is fixed. Default: it differs, and the network takes one image at a time.
    #[key(range = 1..=100_000)]
    rows: Option<usize>,
}

const COLUMNS: ValueType = ValueType::Other {
    form: "a list of left, top, right, bottom, center_x, center_y, width, height, score, class and ignored",
    schema: r#"{"type": "array", "minItems": 5, "items": {"enum": ["left", "top", "right", "bottom", "center_x", "center_y", "width", "height", "score", "class", "ignored"]}}"#,
};

/// The places of a box's edges in a list of columns.
const CORNERS: [&str; 4] = ["left", "top", "right", "bottom"];
const CENTER: [&str; 4] = ["center_x", "center_y", "width", "height"];
const IGNORED: &str = "ignored";

/// Where the numbers are in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    /// Numbers of a row.
    count: usize,
    /// Of the corners, or of center and size.
    box_of: [usize; 4],
    is_center: bool,
    score: usize,
    class: Option<usize>,
}

/// The columns of Ultralytics' exports.
const ULTRALYTICS: [&str; 6] = ["left", "top", "right", "bottom", "score", "class"];
/// Those of YOLOv7's.
const YOLOV7: [&str; 7] = [IGNORED, "left", "top", "right", "bottom", "class", "score"];
/// Those of PaddlePaddle's.
const PADDLE: [&str; 6] = ["class", "score", "left", "top", "right", "bottom"];

impl Columns {
    /// # Errors
    /// What is missing or given twice.
    fn new(names: &[&str]) -> Result<Self, String> {
        let place = |wanted: &str| names.iter().position(|name| *name == wanted);
        let twice = |name: &&str| names.iter().filter(|other| other == &name).count() > 1;
        if let Some(name) = names.iter().find(|name| **name != IGNORED && twice(name)) {
            return Err(format!("{name} given twice"));
        }
        let is_center = CENTER.iter().any(|name| place(name).is_some());
        let (wanted, other) = match is_center {
            true => (CENTER, CORNERS),
            false => (CORNERS, CENTER),
        };
        if other.iter().any(|name| place(name).is_some()) {
            return Err("corners given together with a center".to_owned());
        }
        let required = |name: &str| place(name).ok_or_else(|| format!("{name} missing"));
        let mut box_of = [0; 4];
        for (place, name) in box_of.iter_mut().zip(wanted) {
            *place = required(name)?;
        }
        Ok(Self {
            count: names.len(),
            box_of,
            is_center,
            score: required("score")?,
            class: place("class"),
        })
    }
}

fn read_columns(map: &Map<'_>) -> Option<Option<Columns>> {
    let known = [&CORNERS[..], &CENTER, &["score", "class", IGNORED]].concat();
    let words: Vec<(&str, &str)> = known.into_iter().map(|word| (word, word)).collect();
    let Some(node) = map.get("columns") else {
        return Some(None);
    };
    let names = node.items("a list of words")?;
    let names: Vec<Option<&str>> = names.iter().map(|name| name.one_of(&words)).collect();
    let names: Vec<&str> = names.into_iter().collect::<Option<_>>()?;
    let expected = "score, class, and left, top, right, bottom or center_x, center_y, width, height, each once";
    match Columns::new(&names) {
        Ok(columns) => Some(Some(columns)),
        Err(what) => invalid(&node, &what, expected),
    }
}

/// One output of 6 or 7 numbers for each of a few rows, or behind an operator of suppression.
fn recognize(outputs: &Outputs<'_>) -> Option<Recognized> {
    let [output] = outputs.list.as_slice() else {
        return None;
    };
    let is_behind = outputs.is_behind_suppression();
    let (rows, width) = match *output.axes.as_slice() {
        [Some(rows), Some(width)] if is_behind || rows <= MAX_OBJECTS => (Some(rows), width),
        // The number of rows differs; where there is no batch axis, it is the first.
        [None, Some(width)] | [Some(width)] if is_behind => (None, width),
        _ => return None,
    };
    let columns: &[&str] = match width {
        6 if outputs.is_paddle() => &PADDLE,
        6 => &ULTRALYTICS,
        7 if is_behind => &YOLOV7,
        _ => return None,
    };
    let is_grid = rows.is_some_and(|rows| rows % outputs.cells(&THREE).max(1) == 0);
    let is_doubtful = is_grid || outputs.is_paddle() || outputs.noted_classes() == width - 4;
    let (certainty, why) = match (is_behind, is_doubtful) {
        (true, false) => (Certainty::Certain, ", behind a suppression"),
        (false, false) => (Certainty::Likely, ""),
        (_, true) => (Certainty::Possible, ""),
    };
    let reason = format!("output {}: rows of {width} numbers{why}", output.shape());
    let tensors = vec![recognize::single("name", output)];
    let classes = outputs.noted_classes();
    let mut parameters = vec![("columns", format!("[{}]", columns.join(", ")))];
    parameters.extend(rows.map(|rows| ("rows", rows.to_string())));
    Some(Recognized {
        parameters,
        ..Recognized::new(certainty, classes, tensors, reason)
    })
}

/// One tensor of finished detections.
#[derive(Debug, Clone)]
pub struct FinishedRows {
    columns: Columns,
    first_class: u32,
    /// Of each image; `None`: they differ.
    rows: Option<usize>,
    box_unit: BoxUnit,
}

impl FinishedRows {
    /// As PaddlePaddle exports them, in pixels.
    #[must_use]
    pub fn paddle() -> Self {
        Self {
            columns: Columns::new(&PADDLE).expect("complete"),
            first_class: 0,
            rows: None,
            box_unit: BoxUnit::Pixels,
        }
    }
}

impl OutputLayout for FinishedRows {
    fn create_decoder(
        &self,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Box<dyn OutputDecoder>, Mismatch> {
        Ok(Box::new(Finished::new(self, input, classes, shapes)?))
    }

    fn rows_vary(&self) -> bool {
        self.rows.is_none()
    }
}

/// Finished detections, one per row.
#[derive(Debug, Clone)]
pub struct Finished {
    columns: Columns,
    first_class: u32,
    classes: usize,
    unit: [f32; 2],
}

impl Finished {
    /// A decoder for the tensor `shapes`.
    ///
    /// # Errors
    /// There is not exactly one tensor of rows with as many numbers as columns are named.
    pub fn new(
        layout: &FinishedRows,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Self, Mismatch> {
        let columns = layout.columns;
        check_count(shapes, 1, "finished boxes")?;
        let advice = "one tensor with a row for each detection is read; name the numbers of a row in columns of model.yaml";
        let wanted = [(layout.rows, "boxes"), (Some(columns.count), "numbers")];
        check_axes(shapes, 0, DType::F32, &wanted, advice)?;
        Ok(Self {
            columns,
            first_class: layout.first_class,
            classes,
            unit: layout.box_unit.pixels(input),
        })
    }

    /// The label's number for `class`; `None` without a label. A fractional class is invalid.
    fn label(&self, class: f32) -> Option<u16> {
        // NaN becomes 0 here, and is unequal to it.
        let whole = class as u32;
        let label = whole.checked_sub(self.first_class)?;
        let has_label = whole as f32 == class && (label as usize) < self.classes;
        // There are at most 10 000 labels.
        has_label.then_some(label as u16)
    }
}

impl OutputDecoder for Finished {
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        let TensorView::F32(numbers) = tensors[0] else {
            panic!("the tensor was checked to hold 32-bit floats");
        };
        let columns = &self.columns;
        assert_eq!(numbers.len() % columns.count, 0, "whole rows");
        for (index, row) in numbers.chunks_exact(columns.count).enumerate() {
            let first = index * columns.count;
            let class = columns.class.map(|column| row[column]);
            // Rows that only fill the tensor have no valid score either.
            if class.is_some_and(|class| class < 0.0 && class.is_finite()) {
                continue;
            }
            let score = row[columns.score];
            if !is_valid(score) {
                collector.report_invalid(0, [(first + columns.score, score)].into_iter());
                continue;
            }
            if score < collector.threshold {
                continue;
            }
            let class = class.unwrap_or(self.first_class as f32);
            let Some(label) = self.label(class) else {
                collector.report_unknown_class(0, first + columns.class.unwrap_or_default());
                continue;
            };
            let raw = columns.box_of.map(|column| row[column]);
            let xyxy = match columns.is_center {
                true => from_center(raw, self.unit),
                false => from_corners(raw, self.unit),
            };
            if let Some(place) = first_unbounded(&raw, &xyxy) {
                collector.report_non_finite(0, first + columns.box_of[place]);
                continue;
            }
            collector.push(index, label, score, xyxy);
        }
        collector.decoded
    }

    fn needs_suppression(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused, place};

    const INPUT: Size = Size::new(64, 32);

    fn layout(columns: &[&str], box_unit: BoxUnit, first_class: u32) -> FinishedRows {
        FinishedRows {
            columns: Columns::new(columns).expect("complete"),
            first_class,
            rows: None,
            box_unit,
        }
    }

    fn fixture(layout: &FinishedRows, rows: &[&[f32]]) -> DecoderFixture<Finished> {
        let axes = vec![vec![rows.len().max(1), layout.columns.count]];
        let mut fixture =
            DecoderFixture::new(axes, |shapes| Finished::new(layout, INPUT, 2, shapes));
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
        assert_eq!(
            (candidates.len(), decoded.first_unknown_class),
            (0, place(0, 0))
        );
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let (f32, i64, expected) = (DType::F32, DType::I64, "float32 [boxes, 6]");
        let make =
            |shapes: &[TensorShape<'_>]| Finished::new(&FinishedRows::paddle(), INPUT, 2, shapes);
        #[rustfmt::skip]
        check_refused(make, "", &[
            (&[&[100, 6]], i64, 0, expected),
            (&[&[100, 7]], f32, 0, expected),
            (&[&[6]], f32, 0, expected),
        ]);
    }

    #[test]
    fn incomplete_columns_are_named() {
        for (columns, wanted) in [
            (
                &["left", "top", "right", "score", "class"][..],
                "bottom missing",
            ),
            (
                &["left", "top", "right", "bottom", "class"],
                "score missing",
            ),
            (
                &["left", "left", "right", "bottom", "score"],
                "left given twice",
            ),
            (
                &["left", "top", "center_x", "bottom", "score"],
                "corners given together with a center",
            ),
            (
                &["center_x", "center_y", "width", "score", "class"],
                "height missing",
            ),
        ] {
            assert_eq!(Columns::new(columns), Err(wanted.to_owned()));
        }
    }
}
