//! A picture in memory that is drawn on, in one of four layouts. Filled rectangles are all there is: everything else is made of
//! them, and they alone know planes, strides and the picture's edges.
//!
//! Only the samples of a rectangle are read and written. In planes with colors of half the size, a color sample belongs to
//! every rectangle that touches one of its four pixels.

use crate::types::Size;

use super::color::{Color, Matrix};

/// Pixels from `left` to before `right` and from `top` to before `bottom`; empty when a side is not positive. It may lie outside of
/// the picture, whole or in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rectangle {
    /// First column.
    pub left: i32,
    /// First row.
    pub top: i32,
    /// Column behind the last.
    pub right: i32,
    /// Row below the last.
    pub bottom: i32,
}

impl Rectangle {
    /// Shorthand for `Rectangle { left, top, right, bottom }`.
    #[must_use]
    pub const fn new(left: i32, top: i32, right: i32, bottom: i32) -> Self {
        Self {
            left,
            top,
            right,
            bottom,
        }
    }

    /// The part inside of a picture: columns and rows; `None` when there is none.
    fn inside(&self, size: Size) -> Option<Span> {
        let clip = |value: i32, most: u32| u32::try_from(value).unwrap_or(0).min(most) as usize;
        let span = Span {
            left: clip(self.left, size.width),
            top: clip(self.top, size.height),
            right: clip(self.right, size.width),
            bottom: clip(self.bottom, size.height),
        };
        (span.left < span.right && span.top < span.bottom).then_some(span)
    }
}

/// A rectangle that lies in its plane and is not empty.
#[derive(Debug, Clone, Copy)]
struct Span {
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
}

impl Span {
    /// The color samples that belong to it where they have half the size.
    fn halved(self) -> Self {
        Self {
            left: self.left / 2,
            top: self.top / 2,
            right: self.right.div_ceil(2),
            bottom: self.bottom.div_ceil(2),
        }
    }
}

/// A color made ready for one canvas.
#[derive(Debug, Clone, Copy)]
pub struct Ink {
    /// As the samples of a pixel where they lie side by side.
    packed: [u8; 4],
    yuv: [u8; 3],
    /// 255 covers what is there, 0 leaves it.
    alpha: u8,
}

/// Rows of samples.
struct Plane<'a> {
    bytes: &'a mut [u8],
    stride: usize,
}

impl<'a> Plane<'a> {
    /// `None` when `bytes` does not hold `rows` rows of `row` bytes.
    fn new(bytes: &'a mut [u8], stride: usize, row: usize, rows: usize) -> Option<Self> {
        let needed = match rows {
            0 => 0,
            rows => stride.checked_mul(rows - 1)?.checked_add(row)?,
        };
        let is_whole = stride >= row.max(1) && bytes.len() >= needed;
        is_whole.then_some(Self { bytes, stride })
    }

    /// Colors the samples of `span`, each `N` bytes.
    fn paint<const N: usize>(&mut self, span: Span, value: [u8; N], alpha: u8) {
        let rows = self.bytes.chunks_mut(self.stride);
        for row in rows.take(span.bottom).skip(span.top) {
            let (samples, _) = row[span.left * N..span.right * N].as_chunks_mut::<N>();
            if alpha == 255 {
                samples.fill(value);
                continue;
            }
            for sample in samples {
                for (below, above) in sample.iter_mut().zip(value) {
                    *below = blend(*below, above, alpha);
                }
            }
        }
    }
}

fn blend(below: u8, above: u8, alpha: u8) -> u8 {
    let (below, above, alpha) = (u32::from(below), u32::from(above), u32::from(alpha));
    // A mean of two bytes is one.
    ((below * (255 - alpha) + above * alpha + 127) / 255) as u8
}

/// The order of a pixel's four bytes.
#[derive(Debug, Clone, Copy)]
enum Order {
    Bgrx,
    Rgba,
}

enum Planes<'a> {
    Packed(Plane<'a>, Order),
    Nv12 {
        luma: Plane<'a>,
        chroma: Plane<'a>,
    },
    I420 {
        luma: Plane<'a>,
        blue: Plane<'a>,
        red: Plane<'a>,
    },
}

/// A picture that is drawn on.
pub struct Canvas<'a> {
    size: Size,
    planes: Planes<'a>,
}

impl<'a> Canvas<'a> {
    /// Blue, green, red and an unused byte, in rows of `stride` bytes; `None` when `bytes` is too small.
    pub fn bgrx(size: Size, bytes: &'a mut [u8], stride: usize) -> Option<Self> {
        Self::packed(size, bytes, stride, Order::Bgrx)
    }

    /// Red, green, blue and alpha, in rows of `stride` bytes; `None` when `bytes` is too small.
    pub fn rgba(size: Size, bytes: &'a mut [u8], stride: usize) -> Option<Self> {
        Self::packed(size, bytes, stride, Order::Rgba)
    }

    /// Brightness, and pairs of color differences of half the size, rounded up; each with its stride in bytes. `None` when a plane is
    /// too small.
    pub fn nv12(
        size: Size,
        luma: (&'a mut [u8], usize),
        chroma: (&'a mut [u8], usize),
    ) -> Option<Self> {
        let (width, height) = (size.width as usize, size.height as usize);
        let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
        let luma = Plane::new(luma.0, luma.1, width, height)?;
        let chroma = Plane::new(chroma.0, chroma.1, columns * 2, rows)?;
        let planes = Planes::Nv12 { luma, chroma };
        Some(Self { size, planes })
    }

    /// Brightness, and two planes of color differences of half the size, rounded up; each with its stride in bytes. `None` when a
    /// plane is too small.
    pub fn i420(
        size: Size,
        luma: (&'a mut [u8], usize),
        blue: (&'a mut [u8], usize),
        red: (&'a mut [u8], usize),
    ) -> Option<Self> {
        let (width, height) = (size.width as usize, size.height as usize);
        let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
        let luma = Plane::new(luma.0, luma.1, width, height)?;
        let blue = Plane::new(blue.0, blue.1, columns, rows)?;
        let red = Plane::new(red.0, red.1, columns, rows)?;
        let planes = Planes::I420 { luma, blue, red };
        Some(Self { size, planes })
    }

    fn packed(size: Size, bytes: &'a mut [u8], stride: usize, order: Order) -> Option<Self> {
        let plane = Plane::new(bytes, stride, size.width as usize * 4, size.height as usize)?;
        let planes = Planes::Packed(plane, order);
        Some(Self { size, planes })
    }

    /// Its size in pixels.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// `color` for this canvas; `alpha` from 0, nothing, to 255, opaque.
    #[must_use]
    pub fn ink(&self, color: Color, alpha: u8) -> Ink {
        let Color { red, green, blue } = color;
        let packed = match &self.planes {
            Planes::Packed(_, Order::Rgba) => [red, green, blue, 255],
            _ => [blue, green, red, 255],
        };
        Ink {
            packed,
            yuv: color.to_yuv(Matrix::of_height(self.size.height)),
            alpha,
        }
    }

    /// Colors the part of `rectangle` that is in the picture.
    pub fn fill(&mut self, rectangle: Rectangle, ink: &Ink) {
        let Some(span) = rectangle.inside(self.size) else {
            return;
        };
        let [y, u, v] = ink.yuv;
        match &mut self.planes {
            Planes::Packed(plane, _) => plane.paint(span, ink.packed, ink.alpha),
            Planes::Nv12 { luma, chroma } => {
                luma.paint(span, [y], ink.alpha);
                chroma.paint(span.halved(), [u, v], ink.alpha);
            }
            Planes::I420 { luma, blue, red } => {
                luma.paint(span, [y], ink.alpha);
                blue.paint(span.halved(), [u], ink.alpha);
                red.paint(span.halved(), [v], ink.alpha);
            }
        }
    }
}

#[cfg(test)]
mod tests;
