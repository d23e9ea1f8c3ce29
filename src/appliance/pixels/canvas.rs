// SPDX-License-Identifier: Apache-2.0
//! An image in memory to draw on, in one of four layouts. The only primitive is the filled rectangle, which handles planes,
//! strides and clipping; everything else is composed of rectangles.
//!
//! Only the samples of a rectangle are read and written. In subsampled chroma planes, a sample belongs to every rectangle
//! that touches one of its four pixels.

use std::ops::Range;

use jetwatch_types::Size;

use super::color::{Color, Matrix};

/// Pixels from `left` to before `right` and from `top` to before `bottom`; empty when a side is not positive. It may be
/// partly or completely outside the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rectangle {
    /// First column.
    pub left: i32,
    /// First row.
    pub top: i32,
    /// One past the last column.
    pub right: i32,
    /// One past the last row.
    pub bottom: i32,
}

impl Rectangle {
    /// The bounding rectangle of both.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    /// Shorthand for `Rectangle { left, top, right, bottom }`.
    pub const fn new(left: i32, top: i32, right: i32, bottom: i32) -> Self {
        Self {
            left,
            top,
            right,
            bottom,
        }
    }
}

/// A color converted for one canvas.
#[derive(Debug, Clone, Copy)]
pub struct Fill {
    /// The sample bytes of one pixel.
    bgrx: [u8; 4],
    yuv: [u8; 3],
    /// 255 is opaque, 0 transparent.
    alpha: u8,
}

/// Column ranges to fill in some rows.
#[derive(Debug, Clone, Copy)]
pub struct PixelRun {
    /// First column and one past the last; empty unless the second is larger. They may be partly or
    /// completely outside the image.
    pub columns: [i32; 2],
    /// The color.
    pub fill: Fill,
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

    /// Fills samples of `N` bytes in these rows: from the first to before the second of each run.
    fn paint<const N: usize>(
        &mut self,
        rows: Range<usize>,
        runs: impl Iterator<Item = ([usize; 2], [u8; N], u8)> + Clone,
    ) {
        let all = self.bytes.chunks_mut(self.stride);
        for row in all.take(rows.end).skip(rows.start) {
            for ([first, end], value, alpha) in runs.clone() {
                let run = &mut row[first * N..end * N];
                if alpha == 255 {
                    run.as_chunks_mut::<N>().0.fill(value);
                } else {
                    AlphaFill::new(value, alpha).over(run);
                }
            }
        }
    }
}

/// Alpha blending of several samples at once, at little more cost than writing them.
struct AlphaFill {
    /// Contribution of the color to each byte, in 1/255², repeated.
    above: [u16; ALPHA_FILL_BYTES],
    /// Weight of the existing value, in 1/255.
    keep: u16,
}

/// Block size of blending, in bytes: a multiple of all sample sizes.
const ALPHA_FILL_BYTES: usize = 16;

impl AlphaFill {
    fn new<const N: usize>(value: [u8; N], alpha: u8) -> Self {
        Self {
            above: std::array::from_fn(|at| u16::from(value[at % N]) * u16::from(alpha) + 127),
            keep: u16::from(255 - alpha),
        }
    }

    fn blend(&self, below: u8, above: u16) -> u8 {
        let sum = u16::from(below) * self.keep + above;
        // Division by 255: exact for all possible sums, at most 255 * 255 + 127.
        ((sum + 1 + (sum >> 8)) >> 8) as u8
    }

    fn over(&self, run: &mut [u8]) {
        // Full blocks separately: the compiler knows their length and vectorizes them.
        let (wholes, rest) = run.as_chunks_mut::<ALPHA_FILL_BYTES>();
        for whole in wholes {
            for (byte, above) in whole.iter_mut().zip(&self.above) {
                *byte = self.blend(*byte, *above);
            }
        }
        for (byte, above) in rest.iter_mut().zip(&self.above) {
            *byte = self.blend(*byte, *above);
        }
    }
}

enum Planes<'a> {
    Bgrx(Plane<'a>),
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

/// An image to draw on.
pub struct Canvas<'a> {
    size: Size,
    planes: Planes<'a>,
}

impl<'a> Canvas<'a> {
    /// Blue, green, red and an unused byte, in rows of `stride` bytes; `None` when `bytes` is too small.
    pub fn bgrx(size: Size, bytes: &'a mut [u8], stride: usize) -> Option<Self> {
        let plane = Plane::new(bytes, stride, size.width as usize * 4, size.height as usize)?;
        let planes = Planes::Bgrx(plane);
        Some(Self { size, planes })
    }

    /// NV12: luma, and interleaved chroma of half the size, rounded up; each with its stride in bytes. `None` when a plane is
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

    /// I420: luma, and two chroma planes of half the size, rounded up; each with its stride in bytes. `None` when a
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

    /// Size in pixels.
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Converts `color` for this canvas; `alpha` from 0, transparent, to 255, opaque.
    pub fn color_fill(&self, color: Color, alpha: u8) -> Fill {
        let Color { red, green, blue } = color;
        Fill {
            bgrx: [blue, green, red, 255],
            yuv: color.to_yuv(Matrix::for_height(self.size.height)),
            alpha,
        }
    }

    /// Fills the part of `rectangle` inside the image.
    pub fn fill(&mut self, rectangle: Rectangle, fill: &Fill) {
        let Rectangle {
            left,
            top,
            right,
            bottom,
        } = rectangle;
        let run = PixelRun {
            columns: [left, right],
            fill: *fill,
        };
        self.fill_runs([top, bottom], &[run]);
    }

    /// Fills several rectangles of the same `rows`, clipped to the image, from the first to before the second column. One pass
    /// over the rows accesses memory once, which costs less than separate calls.
    pub(crate) fn fill_runs(&mut self, rows: [i32; 2], runs: &[PixelRun]) {
        let [width, height] = [self.size.width, self.size.height];
        let inside = |[first, end]: [i32; 2], side: u32| {
            let clip = |value: i32| u32::try_from(value).unwrap_or(0).min(side) as usize;
            [clip(first), clip(end)]
        };
        let [top, bottom] = inside(rows, height);
        if top >= bottom {
            return;
        }
        let runs = runs
            .iter()
            .map(|run| (inside(run.columns, width), run.fill))
            .filter(|([first, end], _)| first < end);
        let halved = runs
            .clone()
            .map(|([first, end], fill)| ([first / 2, end.div_ceil(2)], fill));
        let (rows, half_rows) = (top..bottom, top / 2..bottom.div_ceil(2));
        // Luma and chroma sample.
        let of = |index: usize| {
            move |(run, fill): ([usize; 2], Fill)| (run, [fill.yuv[index]], fill.alpha)
        };
        match &mut self.planes {
            Planes::Bgrx(plane) => {
                plane.paint(rows, runs.map(|(run, fill)| (run, fill.bgrx, fill.alpha)));
            }
            Planes::Nv12 { luma, chroma } => {
                luma.paint(rows, runs.map(of(0)));
                let pair = |fill: Fill| [fill.yuv[1], fill.yuv[2]];
                let pairs = halved.map(|(run, fill)| (run, pair(fill), fill.alpha));
                chroma.paint(half_rows, pairs);
            }
            Planes::I420 { luma, blue, red } => {
                luma.paint(rows, runs.map(of(0)));
                blue.paint(half_rows.clone(), halved.clone().map(of(1)));
                red.paint(half_rows, halved.map(of(2)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
