//! What is drawn with rectangles: frames of boxes, straight lines, and text. Sizes of strokes and letters come from the picture's.

use jetwatch_types::{Size, Xyxy};

use super::canvas::{Canvas, Fill, PixelRun, Rectangle};
use super::font;

/// Coordinates beyond this are as good as there: no picture is as large.
const FAR: f32 = 1e6;

/// How thick strokes and how large letters are, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Painter {
    /// Thickness of a box's frame.
    pub stroke: i32,
    /// Pixels of the picture to one pixel of the font.
    pub scale: i32,
}

impl Painter {
    /// For a picture of this size: 2 and 1 at 360 rows, 2 and 2 at 720, 3 and 2 at 1080, 6 and 4 at 2160.
    #[must_use]
    pub fn for_size(size: Size) -> Self {
        let rows = size.height.min(size.width).min(1 << 15).cast_signed();
        Self {
            stroke: (rows / 360).max(2),
            scale: ((rows + 360) / 540).max(1),
        }
    }

    /// Draws the frames of boxes, inside of their edges. Edges outside of the picture are not drawn; a box that is inverted or not made
    /// of numbers is none.
    pub fn draw_boxes(self, canvas: &mut Canvas<'_>, boxes: impl Iterator<Item = (Xyxy, Fill)>) {
        let stroke = self.stroke;
        let mut sides = Vec::new();
        for (xyxy, ink) in boxes {
            let Some(outer) = pixels(&xyxy) else { continue };
            let Rectangle {
                left,
                top,
                right,
                bottom,
            } = outer;
            if right - left <= 2 * stroke || bottom - top <= 2 * stroke {
                canvas.fill(outer, &ink);
                continue;
            }
            let rows = [top + stroke, bottom - stroke];
            canvas.fill(Rectangle::new(left, top, right, rows[0]), &ink);
            canvas.fill(Rectangle::new(left, rows[1], right, bottom), &ink);
            let columns = [[left, left + stroke], [right - stroke, right]];
            let runs = columns.map(|columns| PixelRun { columns, fill: ink });
            sides.push(Sides { rows, runs });
        }
        draw_sides(canvas, &sides);
    }

    /// Draws a straight line from `from` to `to`, in pixels. What is not made of numbers is no line. The ink should be opaque, as
    /// neighboring parts overlap.
    pub fn draw_line(self, canvas: &mut Canvas<'_>, from: [f32; 2], to: [f32; 2], ink: &Fill) {
        let stroke = self.stroke;
        let Some([from, to]) = clipped(canvas.size(), stroke, from, to) else {
            return;
        };
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let is_flat = dx.abs() >= dy.abs();
        let steps = dx.abs().max(dy.abs()).ceil().max(1.0);
        // Columns, or rows, that have the same place across are drawn together.
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
                    canvas.fill(before, ink);
                    spot
                }
                None => spot,
            });
        }
        if let Some(last) = drawn {
            canvas.fill(last, ink);
        }
    }

    /// Writes text with the upper left corner of its first letter at `left`, `top`, in pixels. It is not clipped to anything but the
    /// picture.
    pub fn draw_text(self, canvas: &mut Canvas<'_>, left: i32, top: i32, text: &str, ink: &Fill) {
        let scale = self.scale;
        let advance = font::ADVANCE * scale;
        // What is left of the picture is not looked at, nor what is right of it.
        let visible = text
            .chars()
            .zip((0_i32..).map(|place| left.saturating_add(place.saturating_mul(advance))));
        let visible = visible.take_while(|(_, x)| *x < canvas.size().width.cast_signed());
        let letters: Vec<_> = visible
            .map(|(letter, x)| (font::glyph(letter), x))
            .collect();
        let mut runs = Vec::with_capacity(letters.len() * 3);
        for row in 0..font::HEIGHT {
            runs.clear();
            for (rows, x) in &letters {
                push_runs(rows[row as usize], *x, scale, ink, &mut runs);
            }
            let y = top.saturating_add(row * scale);
            canvas.fill_runs([y, y.saturating_add(scale)], &runs);
        }
    }

    /// Draws `text` on a filled background whose lower left corner is at `left`, `bottom`, moved as little as it takes to be in the
    /// picture.
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
        // One pixel of the font around the letters.
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

/// The inks of a label.
#[derive(Debug, Clone, Copy)]
pub struct Colors {
    /// Behind the letters.
    pub background: Fill,
    /// The letters.
    pub text: Fill,
}

/// The runs of drawn pixels in one row of a letter.
fn push_runs(bits: u8, x: i32, scale: i32, ink: &Fill, runs: &mut Vec<PixelRun>) {
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
                fill: *ink,
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

/// Draws the sides of all frames from the top of the picture to the bottom. Each row is in another page of memory, and one after the
/// other they would all be asked for again and again.
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

/// A box in whole pixels, at least one wide and high; `None` when it is inverted or not made of numbers.
pub(super) fn pixels(xyxy: &Xyxy) -> Option<Rectangle> {
    let [left, top, right, bottom] = *xyxy;
    // False where one of them is no number.
    let is_box = left <= right && top <= bottom;
    is_box.then(|| {
        let whole = |value: f32| value.clamp(-FAR, FAR).round() as i32;
        let (left, top) = (whole(left), whole(top));
        let (right, bottom) = (whole(right).max(left + 1), whole(bottom).max(top + 1));
        Rectangle::new(left, top, right, bottom)
    })
}

/// The part of a line that can be seen, after Liang and Barsky; `None` when there is none.
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
        for (delta, room) in [
            (-delta, from[axis] + f64::from(stroke)),
            (delta, max[axis] - from[axis]),
        ] {
            if delta == 0.0 {
                if room < 0.0 {
                    return None;
                }
            } else if delta < 0.0 {
                first = first.max(room / delta);
            } else {
                last = last.min(room / delta);
            }
        }
    }
    let at = |share: f64| [0, 1].map(|axis: usize| from[axis] + (to[axis] - from[axis]) * share);
    (first <= last).then(|| [at(first), at(last)])
}

#[cfg(test)]
mod tests;
