// SPDX-License-Identifier: Apache-2.0
//! `I420` images scaled and converted to `BGRx` in one pass, on the CPU.
//!
//! Images are scaled as GStreamer's `videoscale` does (bilinear), byte for byte; a test of the source crate compares them. Colors are
//! within one level of the exact formula, where `videoconvert` is up to six levels below it. It takes less than half of their time:
//! no scaled `I420` image is written, two rows are scaled horizontally at a time, chroma is converted once for two rows, and all
//! loops but the horizontal one compile to vector instructions, of AVX2 where the CPU has it.
//!
//! Vertically a row lies between the two source rows around its center, with weights of 8 bits, rounded. Horizontally the first
//! and the last column of the image stay the first and the last; the position has 16 fractional bits, of which 8 are weights.
//! Chroma is repeated for each pair of columns and rows. [`I420Scaler::new`] refuses the sizes for which GStreamer does it
//! another way.

use std::ops::Range;

use jetwatch_types::{PIXEL_BYTES, Size};
use multiversion::multiversion;

/// Columns that are computed together.
const GROUP: usize = 8;

/// Source bytes that a group can read: offsets are bytes, and each column reads a pair.
const WINDOW: usize = 257;

/// Largest factor by which the width shrinks: the columns of a group must lie in its window.
const MAX_FACTOR: usize = 32;

/// How a source encodes colors, for images of 8 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YuvColors {
    /// Weight of red in the luma, such as 0.2126 for BT.709.
    pub red: f64,
    /// Weight of blue in the luma.
    pub blue: f64,
    /// Whether luma and chroma use all 256 values, instead of 219 and 224.
    pub full_range: bool,
}

/// A plane of an image: its bytes from the first row on, and the distance of rows in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Plane<'p> {
    /// Bytes, of which each row begins at a multiple of `stride`.
    pub bytes: &'p [u8],
    /// Distance of rows.
    pub stride: usize,
}

/// Scales `I420` images of one size to `BGRx` images of another. Keeps its working memory from one image to the next.
#[derive(Debug)]
pub struct I420Scaler {
    luma: PlaneScaler,
    chroma: PlaneScaler,
    matrix: Matrix,
    size: Size,
    /// Two scaled rows of luma, and a row of both chroma planes.
    luma_rows: Vec<[u16; GROUP]>,
    chroma_rows: Vec<[u16; GROUP]>,
    /// What chroma and [`Matrix::offset`] add to blue, green and red of the pixels of a row.
    added: [Vec<i16>; 3],
    /// Blue and green, and red and 255, of a row of the result.
    halves: [Vec<u16>; 2],
}

impl I420Scaler {
    /// A scaler from `from` to `to`. `None` where GStreamer would scale another way: the image grows, a plane shrinks to exactly
    /// one half, or it loses only one or two rows; and where the width shrinks by more than a factor of 32.
    pub fn new(from: Size, to: Size, colors: YuvColors) -> Option<Self> {
        let luma = PlaneScaler::new(from, to)?;
        let chroma = PlaneScaler::new(chroma_size(from), chroma_size(to))?;
        let rows = |scaler: &PlaneScaler| vec![[0; GROUP]; scaler.row_groups()];
        Some(Self {
            matrix: Matrix::new(
                colors,
                GROUP * luma.row_groups(),
                GROUP * chroma.row_groups(),
            ),
            luma_rows: rows(&luma),
            chroma_rows: rows(&chroma),
            added: [(); 3].map(|()| vec![0; 2 * GROUP * chroma.row_groups()]),
            halves: [(); 2].map(|()| vec![0; GROUP * luma.row_groups()]),
            luma,
            chroma,
            size: to,
        })
    }

    /// Scales the planes of luma, blue and red difference to packed `BGRx` rows. The fourth byte is 255.
    ///
    /// # Panics
    /// A plane has too few bytes, or `result` is not as large as the image.
    pub fn scale(&mut self, planes: [Plane<'_>; 3], result: &mut [u8]) {
        scale_on_this_cpu(self, &planes, result);
    }

    /// Inlined, like all that it calls but [`scale_groups`], into a copy for each set of vector instructions.
    #[inline(always)]
    fn scale_planes(&mut self, &[luma, blue, red]: &[Plane<'_>; 3], result: &mut [u8]) {
        let (width, height) = (self.size.width as usize, self.size.height as usize);
        assert_eq!(
            result.len(),
            width * height * PIXEL_BYTES,
            "bytes of the result"
        );
        let last_row = height - 1;
        let row_len = width * PIXEL_BYTES;
        for (index, target) in result.chunks_mut(2 * row_len).enumerate() {
            let chroma = [(blue, index), (red, index)];
            self.chroma.scale_rows(chroma, &mut self.chroma_rows);
            let chroma_rows = self.chroma_rows.as_flattened();
            self.matrix.add_chroma(chroma_rows, &mut self.added);
            let rows = [2 * index, last_row.min(2 * index + 1)];
            self.luma
                .scale_rows(rows.map(|row| (luma, row)), &mut self.luma_rows);
            let luma_rows = self.luma_rows.as_flattened();
            let (first, second) = target.split_at_mut(row_len);
            self.matrix.write_row(
                luma_rows,
                |pair| pair & 0xff,
                &self.added,
                &mut self.halves,
                first,
            );
            self.matrix.write_row(
                luma_rows,
                |pair| pair >> 8,
                &self.added,
                &mut self.halves,
                second,
            );
        }
    }
}

/// [`I420Scaler::scale_planes`] with the vector instructions of this CPU. The instructions that every CPU of the architecture has take
/// twice as long on x86-64, where they are SSE2.
#[multiversion(targets("x86_64+avx2"))]
fn scale_on_this_cpu(scaler: &mut I420Scaler, planes: &[Plane; 3], result: &mut [u8]) {
    scaler.scale_planes(planes, result);
}

/// Size of the chroma planes of an image.
fn chroma_size(size: Size) -> Size {
    Size::new(size.width.div_ceil(2), size.height.div_ceil(2))
}

/// Scales rows of one plane.
#[derive(Debug)]
struct PlaneScaler {
    from: Size,
    /// For each row of the result.
    vertical: Vec<Between>,
    /// For each group of columns; empty where the width stays the same.
    groups: Vec<Group>,
    /// Two rows, each between two source rows, with room for the last window.
    blended: Vec<u16>,
}

/// A position between two source rows.
#[derive(Debug, Clone, Copy)]
struct Between {
    rows: [usize; 2],
    /// Weight of the second one, of 256.
    weight: u16,
}

/// The source columns of [`GROUP`] columns of the result.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// Where the window begins.
    start: usize,
    /// The first column of each pair, from `start`.
    offsets: [u8; GROUP],
    /// Weight of the second column of each pair, of 256.
    weights: [u16; GROUP],
}

impl PlaneScaler {
    fn new(from: Size, to: Size) -> Option<Self> {
        let shrinks = |from: u32, to: u32| to > 0 && to <= from && from != 2 * to;
        let is_supported = shrinks(from.width, to.width)
            && shrinks(from.height, to.height)
            // With so few rows to lose, GStreamer scales horizontally first.
            && (from.height == to.height || from.height > to.height + 2)
            && from.width as usize <= to.width as usize * MAX_FACTOR;
        is_supported.then(|| Self {
            from,
            vertical: (0..to.height)
                .map(|row| Between::new(row, from.height, to.height))
                .collect(),
            groups: match from.width == to.width {
                true => Vec::new(),
                false => groups(from.width as usize, to.width as usize),
            },
            blended: vec![0; from.width as usize + WINDOW],
        })
    }

    /// Groups of columns in a scaled row.
    fn row_groups(&self) -> usize {
        match self.groups.len() {
            0 => (self.from.width as usize).div_ceil(GROUP),
            groups => groups,
        }
    }

    /// Scales two rows, each of a plane and with its index in the result. `result` has [`row_groups`](Self::row_groups); a number
    /// holds the value of the first row in its lower byte and that of the second in its upper one.
    #[inline(always)]
    fn scale_rows(&mut self, rows: [(Plane<'_>, usize); 2], result: &mut [[u16; GROUP]]) {
        let width = self.from.width as usize;
        let lines = rows.map(|(plane, index)| {
            let Between { rows, weight } = self.vertical[index];
            let [above, below] = rows.map(|row| &plane.bytes[row * plane.stride..][..width]);
            Line {
                above,
                below,
                weight,
            }
        });
        if self.groups.is_empty() {
            return blend(lines, result.as_flattened_mut());
        }
        blend(lines, &mut self.blended);
        scale_groups(&self.groups, &self.blended, result);
    }
}

impl Between {
    /// The position of row `index` of `to` among `from` rows.
    fn new(index: u32, from: u32, to: u32) -> Self {
        let center = (f64::from(index) + 0.5) * f64::from(from) / f64::from(to) - 0.5;
        let above = center.floor();
        let inside = |row: f64| row.clamp(0.0, f64::from(from) - 1.0) as usize;
        Self {
            rows: [inside(above), inside(above + 1.0)],
            weight: ((center - above) * 256.0 + 0.5).floor() as u16,
        }
    }
}

/// The groups of `to` columns from a row of `from`.
fn groups(from: usize, to: usize) -> Vec<Group> {
    let step = match to {
        1 => 0,
        _ => (((from - 1) << 16) / (to - 1)).saturating_sub(1),
    };
    let group = |columns: Range<usize>| {
        let start = (columns.start * step) >> 16;
        let mut group = Group {
            start,
            offsets: [0; GROUP],
            weights: [0; GROUP],
        };
        for (place, column) in columns.enumerate() {
            let position = column * step;
            // Columns of a group are at most 7 · 32 apart.
            group.offsets[place] = ((position >> 16) - start) as u8;
            group.weights[place] = ((position >> 8) & 0xff) as u16;
        }
        group
    };
    (0..to)
        .step_by(GROUP)
        .map(|start| group(start..to.min(start + GROUP)))
        .collect()
}

/// Scales two rows horizontally, the first in the lower bytes.
///
/// Not inlined, so that it is compiled without AVX2 and AVX-512: with them the compiler assembles wider vectors out of single pairs,
/// and the whole image takes more than twice as long.
#[inline(never)]
fn scale_groups(groups: &[Group], rows: &[u16], result: &mut [[u16; GROUP]]) {
    for (group, result) in groups.iter().zip(result) {
        group.scale(rows, result);
    }
}

impl Group {
    /// Scales two rows at a time: their values share the loads, which are the larger part of the work.
    #[inline(always)]
    fn scale(&self, rows: &[u16], result: &mut [u16; GROUP]) {
        let window: &[u16; WINDOW] = rows[self.start..]
            .first_chunk()
            .expect("the rows have room for it");
        let mut pairs = [0_u32; GROUP];
        for (pair, &offset) in pairs.iter_mut().zip(&self.offsets) {
            let offset = usize::from(offset);
            *pair = u32::from(window[offset]) | u32::from(window[offset + 1]) << 16;
        }
        let (mut lefts, mut rights) = ([0_u16; GROUP], [0_u16; GROUP]);
        for ((left, right), &pair) in lefts.iter_mut().zip(&mut rights).zip(&pairs) {
            (*left, *right) = (pair as u16, (pair >> 16) as u16);
        }
        let columns = lefts.iter().zip(&rights).zip(&self.weights);
        for (result, ((&left, &right), &weight)) in result.iter_mut().zip(columns) {
            let first = (left & 0xff) * (256 - weight) + (right & 0xff) * weight;
            let second = (left >> 8) * (256 - weight) + (right >> 8) * weight;
            *result = first >> 8 | second & 0xff00;
        }
    }
}

/// A row between two source rows.
#[derive(Clone, Copy)]
struct Line<'p> {
    above: &'p [u8],
    below: &'p [u8],
    /// Weight of the row below, of 256.
    weight: u16,
}

/// Computes two rows, the first in the lower bytes of the result.
#[inline(always)]
fn blend([first, second]: [Line<'_>; 2], result: &mut [u16]) {
    let mean = |above: &u8, below: &u8, weight: u16| {
        u16::from(*above) * (256 - weight) + u16::from(*below) * weight + 128
    };
    let first_pixels = first.above.iter().zip(first.below);
    let second_pixels = second.above.iter().zip(second.below);
    for ((result, (a, b)), (c, d)) in result.iter_mut().zip(first_pixels).zip(second_pixels) {
        *result = mean(a, b, first.weight) >> 8 | mean(c, d, second.weight) & 0xff00;
    }
}

/// Fractional bits of the sums of the color conversion, which fit into 16 bits with them: at most 551 levels.
const FRACTION: u32 = 5;

/// Factors of the color conversion, of `256 << FRACTION`.
///
/// Each is repeated for all columns. Only where the factor is read along with the value does the compiler use the instruction for
/// the upper half of a product.
#[derive(Debug)]
struct Matrix {
    luma: Vec<i16>,
    blue_of_u: Vec<i16>,
    green_of_u: Vec<i16>,
    green_of_v: Vec<i16>,
    red_of_v: Vec<i16>,
    /// The gray of luma 128, and one half.
    offset: i16,
}

impl Matrix {
    /// For rows of this many columns of luma and of chroma.
    fn new(colors: YuvColors, luma_len: usize, chroma_len: usize) -> Self {
        let YuvColors {
            red,
            blue,
            full_range,
        } = colors;
        let green = 1.0 - red - blue;
        let (luma, chroma, black) = match full_range {
            true => (1.0, 1.0, 0.0),
            false => (255.0 / 219.0, 255.0 / 224.0, 16.0),
        };
        let one = f64::from(1 << FRACTION);
        let fixed = |factor: f64| (factor * 256.0 * one).round() as i16;
        let of_chroma = |factor: f64| vec![fixed(factor * chroma); chroma_len];
        Self {
            luma: vec![fixed(luma); luma_len],
            blue_of_u: of_chroma(2.0 * (1.0 - blue)),
            green_of_u: of_chroma(-2.0 * (1.0 - blue) * blue / green),
            green_of_v: of_chroma(-2.0 * (1.0 - red) * red / green),
            red_of_v: of_chroma(2.0 * (1.0 - red)),
            offset: (((128.0 - black) * luma + 0.5) * one).round() as i16,
        }
    }

    /// Computes what the chroma of a row adds to the colors of its pixels. The lower bytes of `chroma` are blue differences, the
    /// upper ones red differences.
    #[inline(always)]
    fn add_chroma(&self, chroma: &[u16], [blue, green, red]: &mut [Vec<i16>; 3]) {
        let (blue, _) = blue.as_chunks_mut::<2>();
        let (green, _) = green.as_chunks_mut::<2>();
        let (red, _) = red.as_chunks_mut::<2>();
        let factors = self.blue_of_u.iter().zip(&self.red_of_v);
        for ((pair, (of_u, of_v)), (blue, red)) in
            chroma.iter().zip(factors).zip(blue.iter_mut().zip(red))
        {
            *blue = [product(pair & 0xff, *of_u) + self.offset; 2];
            *red = [product(pair >> 8, *of_v) + self.offset; 2];
        }
        let factors = self.green_of_u.iter().zip(&self.green_of_v);
        for ((pair, (of_u, of_v)), green) in chroma.iter().zip(factors).zip(green) {
            *green = [product(pair & 0xff, *of_u) + product(pair >> 8, *of_v) + self.offset; 2];
        }
    }

    /// Writes the pixels of a row of luma and what chroma adds. `halves` is working memory: blue and green of the row's pixels as
    /// numbers of 16 bits, and red and 255. Vectors of such numbers hold twice as many as those of whole pixels.
    #[inline(always)]
    fn write_row(
        &self,
        luma: &[u16],
        value: impl Fn(u16) -> u16,
        [blue, green, red]: &[Vec<i16>; 3],
        [blue_green, red_x]: &mut [Vec<u16>; 2],
        row: &mut [u8],
    ) {
        let halves = blue_green.iter_mut().zip(red_x.iter_mut());
        let added = blue.iter().zip(green).zip(red);
        let luma = luma.iter().zip(&self.luma);
        for (((luma, factor), (blue_green, red_x)), ((blue, green), red)) in
            luma.zip(halves).zip(added)
        {
            let luma = product(value(*luma), *factor);
            let color = |added: &i16| ((luma + added) >> FRACTION).clamp(0, 255).cast_unsigned();
            *blue_green = color(blue) | color(green) << 8;
            *red_x = color(red) | 0xff00;
        }
        let (row, _) = row.as_chunks_mut::<PIXEL_BYTES>();
        for ((pixel, blue_green), red_x) in row.iter_mut().zip(blue_green).zip(red_x) {
            *pixel = (u32::from(*blue_green) | u32::from(*red_x) << 16).to_le_bytes();
        }
    }
}

/// The product of a value of 8 bits, as its difference from 128, and a factor, with [`FRACTION`] bits.
#[inline(always)]
fn product(value: u16, factor: i16) -> i16 {
    let difference = ((value ^ 0x80) << 8).cast_signed();
    ((i32::from(difference) * i32::from(factor)) >> 16) as i16
}

#[cfg(test)]
mod tests;
