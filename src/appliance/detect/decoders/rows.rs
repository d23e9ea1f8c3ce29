// SPDX-License-Identifier: Apache-2.0
//! Rows of box, objectness and classes, as YOLOX and YOLOv5 write them. Pure; they differ only in the box format.

use super::MAX_SCORE;
use super::candidates::CandidateCollector;
use jetwatch_pixels::argmax::{Span, argmax};
use jetwatch_types::Xyxy;

/// Numbers of a row before the classes: four of the box, and the objectness.
pub(crate) const BEFORE_CLASSES: usize = 5;

/// Decodes the boxes of `rows`, each `[four numbers of the box, objectness, class 0, class 1, …]` with `row_len` numbers, of which
/// those behind the classes are not read.
/// `decode_box` returns the box of the row with the given index. The score is objectness times best class.
///
/// Rows whose objectness is below the threshold are skipped, because none of their classes can reach it.
#[inline(always)]
pub(crate) fn decode(
    rows: &[f32],
    row_len: usize,
    classes: usize,
    collector: &mut CandidateCollector<'_>,
    decode_box: impl Fn(usize, [f32; 4]) -> Xyxy,
) {
    for (index, row) in rows.chunks_exact(row_len).enumerate() {
        let row = &row[..BEFORE_CLASSES + classes];
        // Written so that NaN and both infinities are not skipped.
        if row[4] < collector.threshold && row[4] > f32::NEG_INFINITY {
            continue;
        }
        let (raw, classes) = ([row[0], row[1], row[2], row[3]], &row[BEFORE_CLASSES..]);
        let (span, xyxy) = (Span::from_row(classes), decode_box(index, raw));
        let start = index * row_len;
        if let Some(within) = first_non_finite(&raw, &xyxy) {
            collector.report_non_finite(0, start + within);
        } else if !row[4].is_finite() || row[4] > MAX_SCORE || !span.is_valid() {
            let scores = row.iter().enumerate().skip(BEFORE_CLASSES - 1);
            collector.report_invalid(0, scores.map(|(within, score)| (start + within, *score)));
        } else {
            let class = argmax(classes.iter().copied(), span.max);
            collector.push(index, class, row[4] * span.max, xyxy);
        }
    }
}

/// Index of the number of a box that is not finite, or that makes an edge infinite. Checks numbers and box: a
/// logarithm of -∞ gives a box that is finite and empty.
pub(crate) fn first_non_finite(raw: &[f32; 4], xyxy: &Xyxy) -> Option<usize> {
    if raw.iter().chain(xyxy).all(|number| number.is_finite()) {
        return None;
    }
    let found = raw.iter().position(|number| !number.is_finite());
    // Otherwise the width or height overflows.
    Some(found.unwrap_or(if raw[2] > raw[3] { 2 } else { 3 }))
}

/// The box of this center and size.
pub(crate) fn from_center([x, y, w, h]: [f32; 4]) -> Xyxy {
    let (half_w, half_h) = (w * 0.5, h * 0.5);
    [x - half_w, y - half_h, x + half_w, y + half_h]
}
