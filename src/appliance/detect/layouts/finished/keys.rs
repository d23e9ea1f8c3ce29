// SPDX-License-Identifier: Apache-2.0
//! The keys of the layout `finished`: what the numbers of a row are, and what the network's file does not contain of them.

use jetwatch_config::{Map, Section, ValueType};

use super::super::keys::{Tensors, UNITS};
use super::{BOXES, CLASSES, FinishedRows, SCORES};
use crate::decoders::boxes::BoxUnit;
use crate::yaml_values::invalid;

/// Of the layout `finished`.
#[derive(Section)]
pub(crate) struct FinishedKeys {
    /// Layout finished: the numbers in a row, in order: edges, or left, top, width and height, or center_x, center_y, width and height; score and class, unless they have tensors of their own. `ignored` is a number that is not used. Without a class, all detections have the first label. Default: [left, top, right, bottom, score, class], without those that have tensors of their own.
    #[key(value = COLUMNS, read = read_columns)]
    columns: Option<Vec<&'static str>>,
    /// Layout finished: class of the first label; 1 where 0 is the background, as in torchvision and TensorFlow.
    #[key(range = 0..=1, default = 0)]
    first_class: u32,
    /// Layout finished: fixed number of rows of each image. Default: it differs, and the network takes one image at a time.
    #[key(range = 1..=100_000)]
    rows: Option<usize>,
    /// Layout finished: the network has applied NMS. `false` for DeepStream-Yolo: `nms_iou` then applies.
    #[key(default = true)]
    suppressed: bool,
}

const COLUMNS: ValueType = ValueType::Other {
    form: "a list of left, top, right, bottom, center_x, center_y, width, height, score, class and ignored",
    schema: r#"{"type": "array", "minItems": 4, "items": {"enum": ["left", "top", "right", "bottom", "center_x", "center_y", "width", "height", "score", "class", "ignored"]}}"#,
};

pub(in super::super) const CORNERS: [&str; 4] = ["left", "top", "right", "bottom"];
const CENTER: [&str; 4] = ["center_x", "center_y", "width", "height"];
pub(super) const CORNER_AND_SIZE: [&str; 4] = ["left", "top", "width", "height"];
pub(super) const SCORE: &str = "score";
pub(super) const CLASS: &str = "class";
pub(super) const IGNORED: &str = "ignored";

/// What the four numbers of a box are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoxForm {
    Corners,
    Center,
    CornerAndSize,
}

/// Where the numbers are in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    /// Numbers of a row.
    pub(super) count: usize,
    /// Of the numbers of the box, in the order of its form.
    pub(super) box_of: [usize; 4],
    pub(super) form: BoxForm,
    /// `None`: they have a tensor.
    pub(super) score: Option<usize>,
    /// `None`: they have a tensor, or there is one class only.
    pub(super) class: Option<usize>,
}

/// The columns of Ultralytics' exports.
pub(super) const ULTRALYTICS: [&str; 6] = ["left", "top", "right", "bottom", SCORE, CLASS];
/// Those of YOLOv7's.
pub(super) const YOLOV7: [&str; 7] = [IGNORED, "left", "top", "right", "bottom", CLASS, SCORE];
/// Those of PaddlePaddle's.
pub(super) const PADDLE: [&str; 6] = [CLASS, SCORE, "left", "top", "right", "bottom"];

impl Columns {
    /// Those of these names, where the tensors of `roles` are given.
    ///
    /// # Errors
    /// What is missing or given twice.
    pub(super) fn new(names: &[&str], roles: &[&str]) -> Result<Self, String> {
        let place = |wanted: &str| names.iter().position(|name| *name == wanted);
        let twice = |name: &&str| names.iter().filter(|other| other == &name).count() > 1;
        if let Some(name) = names.iter().find(|name| **name != IGNORED && twice(name)) {
            return Err(format!("{name} given twice"));
        }
        let given = |words: &[&str]| words.iter().any(|word| place(word).is_some());
        let (form, wanted) = if given(&CENTER[..2]) {
            (BoxForm::Center, CENTER)
        } else if given(&CENTER[2..]) {
            (BoxForm::CornerAndSize, CORNER_AND_SIZE)
        } else {
            (BoxForm::Corners, CORNERS)
        };
        match form {
            BoxForm::Center if given(&CORNERS) => {
                return Err("corners given together with a center".to_owned());
            }
            BoxForm::CornerAndSize if given(&CORNERS[2..]) => {
                return Err("right or bottom given together with width or height".to_owned());
            }
            _ => {}
        }
        let required = |name: &str| place(name).ok_or_else(|| format!("{name} missing"));
        let mut box_of = [0; 4];
        for (place, name) in box_of.iter_mut().zip(wanted) {
            *place = required(name)?;
        }
        for (column, role) in [(SCORE, SCORES), (CLASS, CLASSES)] {
            if roles.contains(&role) && place(column).is_some() {
                return Err(format!("{column} given together with the tensor {role}"));
            }
        }
        if !roles.contains(&SCORES) {
            required(SCORE)?;
        }
        Ok(Self {
            count: names.len(),
            box_of,
            form,
            score: place(SCORE),
            class: place(CLASS),
        })
    }
}

fn read_columns(map: &Map<'_>) -> Option<Option<Vec<&'static str>>> {
    let known = [&CORNERS[..], &CENTER, &[SCORE, CLASS, IGNORED]].concat();
    let words: Vec<(&str, &'static str)> = known.into_iter().map(|word| (word, word)).collect();
    let Some(node) = map.get("columns") else {
        return Some(None);
    };
    let names = node.items("a list of words")?;
    let names: Vec<Option<&str>> = names.iter().map(|name| name.one_of(&words)).collect();
    names.into_iter().collect::<Option<_>>().map(Some)
}

pub(super) fn read(map: &Map<'_>, tensors: Option<&Tensors>) -> Option<FinishedRows> {
    let keys = FinishedKeys::from_map(map)?;
    let box_unit = match map.get("boxes_are") {
        Some(node) => node.one_of(&UNITS)?,
        None => BoxUnit::Pixels,
    };
    let roles = tensors?.roles_or(BOXES);
    let columns = keys.columns.unwrap_or_else(|| default_columns(&roles));
    let columns = match (Columns::new(&columns, &roles), map.get("columns")) {
        (Ok(columns), _) => columns,
        (Err(what), Some(node)) => {
            let expected = "score and class, unless these have tensors, and left, top, right, bottom, or left, top, width, height, or \
                            center_x, center_y, width, height, each once";
            return invalid(&node, &what, expected);
        }
        (Err(what), None) => unreachable!("{what} in the default"),
    };
    Some(FinishedRows {
        roles,
        columns,
        first_class: keys.first_class,
        rows: keys.rows,
        suppressed: keys.suppressed,
        box_unit,
    })
}

/// The columns of Ultralytics' exports, without those that have tensors; where scores have, classes are not in the rows either.
fn default_columns(roles: &[&str]) -> Vec<&'static str> {
    let has = |role| roles.contains(&role);
    let len = match (has(SCORES), has(CLASSES)) {
        (true, _) => 4,
        (false, true) => 5,
        (false, false) => 6,
    };
    ULTRALYTICS[..len].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (
                &["left", "top", "width", "bottom", "score"],
                "right or bottom given together with width or height",
            ),
            (&["left", "top", "height", "score"], "width missing"),
        ] {
            assert_eq!(Columns::new(columns, &[]), Err(wanted.to_owned()));
        }
    }
}
