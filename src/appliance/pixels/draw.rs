// SPDX-License-Identifier: Apache-2.0
//! Drawing with rectangles: box frames, straight lines, and text. Stroke and letter sizes depend on the image size.

use jetwatch_types::{Size, Xyxy};

use super::canvas::{Canvas, Fill, PixelRun, Rectangle};
use super::font;

/// Limit of coordinates, in pixels; no image is as large.
const FAR: f32 = 1e6;

/// Stroke thickness and letter size, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Painter {
    /// Thickness of a box's frame.
    pub stroke: i32,
    /// Image pixels per font pixel.
    pub scale: i32,
}

impl Painter {
    /// Stroke and scale for an image of this size: 2 and 1 at 360 rows, 2 and 2 at 720, 3 and 2 at 1080, 6 and 4 at 2160.
    pub fn for_size(size: Size) -> Self {
        let rows = size.height.min(size.width).min(1 << 15).cast_signed();
        Self {
            stroke: (rows / 360).max(2),
            scale: ((rows + 360) / 540).max(1),
        }
    }

    /// Draws the frames of boxes, inside their edges. Edges outside of the image are not drawn; inverted boxes and boxes with
    /// NaN are skipped.
    pub fn draw_boxes(self, canvas: &mut Canvas<'_>, boxes: &[(Xyxy, Fill)]) {
        let stroke = self.stroke;
        let mut sides = Vec::new();
        for (xyxy, fill) in boxes {
            let Some(outer) = whole_pixels(xyxy) else {
                continue;
            };
            let Rectangle {
                left,
                top,
                right,
                bottom,
            } = outer;
            if right - left <= 2 * stroke || bottom - top <= 2 * stroke {
                canvas.fill(outer, fill);
                continue;
            }
            let rows = [top + stroke, bottom - stroke];
            canvas.fill(Rectangle::new(left, top, right, rows[0]), fill);
            canvas.fill(Rectangle::new(left, rows[1], right, bottom), fill);
            let columns = [[left, left + stroke], [right - stroke, right]];
            let runs = columns.map(|columns| PixelRun {
                columns,
                fill: *fill,
            });
            sides.push(Sides { rows, runs });
        }
        draw_sides(canvas, &sides);
    }

    /// Draws a straight line from `from` to `to`, in pixels; skipped when a coordinate is NaN. `fill` should be opaque, since
    /// neighboring segments overlap.
    pub fn draw_line(self, canvas: &mut Canvas<'_>, from: [f32; 2], to: [f32; 2], fill: &Fill) {
        let stroke = self.stroke;
        let Some([from, to]) = clipped(canvas.size(), stroke, from, to) else {
            return;
        };
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let is_flat = dx.abs() >= dy.abs();
        let steps = dx.abs().max(dy.abs()).ceil().max(1.0);
        // Columns, or rows, with the same cross position are drawn together.
        let mut drawn: Option<Rectangle> = None;
        for step in 0..=steps as u32 {
            let share = f64::from(step) / steps;
            let x = (from[0] + dx * share).floor() as i32;
            let y = (from[1] + dy * share).floor() as i32;
            let spot = match is_flat {
                true => Rectangle::new(x, y - stroke / 2, x + 1, y - stroke / 2 + stroke),
                false => Rectangle::new(x - stroke / 2, y, x - stroke / 2 + stroke, y + 1),
            };
            drawn = Some(match drawn {
                Some(before) if is_flat && before.top == spot.top => before.union(spot),
                Some(before) if !is_flat && before.left == spot.left => before.union(spot),
                Some(before) => {
                    canvas.fill(before, fill);
                    spot
                }
                None => spot,
            });
        }
        if let Some(last) = drawn {
            canvas.fill(last, fill);
        }
    }

    /// Draws text with the upper left corner of its first letter at `left`, `top`, in pixels. It is clipped to the image only.
    pub(crate) fn draw_text(
        self,
        canvas: &mut Canvas<'_>,
        left: i32,
        top: i32,
        text: &str,
        fill: &Fill,
    ) {
        let scale = self.scale;
        let advance = font::ADVANCE * scale;
        // Letters left and right of the image are skipped.
        let visible = text
            .chars()
            .zip((0_i32..).map(|index| left.saturating_add(index.saturating_mul(advance))));
        let visible = visible.take_while(|(_, x)| *x < canvas.size().width.cast_signed());
        let letters: Vec<_> = visible
            .map(|(letter, x)| (font::glyph(letter), x))
            .collect();
        let mut runs = Vec::with_capacity(letters.len() * 3);
        for row in 0..font::HEIGHT {
            runs.clear();
            for (rows, x) in &letters {
                push_runs(rows[row as usize], *x, scale, fill, &mut runs);
            }
            let y = top.saturating_add(row * scale);
            canvas.fill_runs([y, y.saturating_add(scale)], &runs);
        }
    }

    /// Draws `text` on a filled background whose lower left corner is at `left`, `bottom`, moved as little as necessary to be
    /// inside the image.
    pub fn draw_label(
        self,
        canvas: &mut Canvas<'_>,
        left: i32,
        bottom: i32,
        text: &str,
        colors: &Colors,
    ) {
        let (size, scale) = (canvas.size(), self.scale);
        let letters = i32::try_from(text.chars().count()).unwrap_or(i32::MAX);
        let letters = letters.min(size.width.cast_signed());
        // A border of one font pixel around the letters.
        let width = (letters * font::ADVANCE + 1) * scale;
        let height = (font::HEIGHT + 2) * scale;
        let left = left.min(size.width.cast_signed() - width).max(0);
        let top = (bottom - height)
            .min(size.height.cast_signed() - height)
            .max(0);
        canvas.fill(
            Rectangle::new(left, top, left + width, top + height),
            &colors.background,
        );
        self.draw_text(canvas, left + scale, top + scale, text, &colors.text);
    }
}

/// The colors of a label.
#[derive(Debug, Clone, Copy)]
pub struct Colors {
    /// Background.
    pub background: Fill,
    /// Letters.
    pub text: Fill,
}

/// The runs of drawn pixels in one row of a letter.
fn push_runs(bits: u8, x: i32, scale: i32, fill: &Fill, runs: &mut Vec<PixelRun>) {
    let is_drawn = |column: i32| bits & (16 >> column) != 0;
    let mut column = 0;
    while column < font::WIDTH {
        let start = column;
        while column < font::WIDTH && is_drawn(column) {
            column += 1;
        }
        if column > start {
            let columns = [start, column].map(|column| x.saturating_add(column * scale));
            runs.push(PixelRun {
                columns,
                fill: *fill,
            });
        }
        column += 1;
    }
}

/// The left and the right side of a frame, between its upper and its lower one.
struct Sides {
    rows: [i32; 2],
    runs: [PixelRun; 2],
}

/// Draws the sides of all frames from the top of the image to the bottom: each row is in another memory page, and box
/// by box the pages would be loaded repeatedly.
fn draw_sides(canvas: &mut Canvas<'_>, sides: &[Sides]) {
    let mut bounds: Vec<i32> = sides.iter().flat_map(|sides| sides.rows).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut runs = Vec::with_capacity(sides.len() * 2);
    for rows in bounds.windows(2) {
        let [first, end] = [rows[0], rows[1]];
        runs.clear();
        let there = sides
            .iter()
            .filter(|sides| sides.rows[0] <= first && sides.rows[1] >= end);
        runs.extend(there.flat_map(|sides| sides.runs));
        canvas.fill_runs([first, end], &runs);
    }
}

/// A box in whole pixels, at least one wide and high; `None` when it is inverted or has NaN.
pub fn whole_pixels(xyxy: &Xyxy) -> Option<Rectangle> {
    let [left, top, right, bottom] = *xyxy;
    // False for NaN.
    let is_box = left <= right && top <= bottom;
    is_box.then(|| {
        let whole = |value: f32| value.clamp(-FAR, FAR).round() as i32;
        let (left, top) = (whole(left), whole(top));
        let (right, bottom) = (whole(right).max(left + 1), whole(bottom).max(top + 1));
        Rectangle::new(left, top, right, bottom)
    })
}

/// The visible part of a line (Liang–Barsky clipping); `None` when it is invisible.
fn clipped(size: Size, stroke: i32, from: [f32; 2], to: [f32; 2]) -> Option<[[f64; 2]; 2]> {
    if !from.iter().chain(&to).all(|value| value.is_finite()) {
        return None;
    }
    let near = |value: f32| f64::from(value.clamp(-FAR, FAR));
    let (from, to) = (from.map(near), to.map(near));
    let max = [size.width, size.height].map(|side| f64::from(side) + f64::from(stroke));
    let (mut first, mut last) = (0.0_f64, 1.0_f64);
    for axis in 0..2 {
        let delta = to[axis] - from[axis];
        for (delta, distance) in [
            (-delta, from[axis] + f64::from(stroke)),
            (delta, max[axis] - from[axis]),
        ] {
            if delta == 0.0 {
                if distance < 0.0 {
                    return None;
                }
            } else if delta < 0.0 {
                first = first.max(distance / delta);
            } else {
                last = last.min(distance / delta);
            }
        }
    }
    let at = |share: f64| [0, 1].map(|axis: usize| from[axis] + (to[axis] - from[axis]) * share);
    (first <= last).then(|| [at(first), at(last)])
}

#[cfg(test)]
mod tests;
