//! `I420` images scaled and converted to `BGRx` in one pass, on the CPU.
//!
//! The result equals that of GStreamer's `videoscale` (bilinear) followed by `videoconvert`, byte for byte; a test of the source
//! crate compares them. It takes two thirds of their time: no scaled `I420` image is written, chroma is converted once for two
//! rows, and all loops but the horizontal one compile to vector instructions.
//!
//! Vertically a row lies between the two source rows around its center, with weights of 8 bits, rounded. Horizontally the first
//! and the last column of the image stay the first and the last; the position has 16 fractional bits, of which 8 are weights.
//! Chroma is repeated for each pair of columns and rows. [`I420Scaler::new`] refuses the sizes for which GStreamer does it
//! another way.

use std::ops::Range;

use jetwatch_types::{PIXEL_BYTES, Size};

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
    /// A scaled row of luma and of both chroma planes.
    rows: [Vec<[u8; GROUP]>; 3],
    /// What chroma adds to blue, green and red of the pixels of a row, plus 128.
    added: [Vec<i16>; 3],
    /// Blue and green, and red and 255, of a row of the result.
    halves: [Vec<u16>; 2],
}

impl I420Scaler {
    /// A scaler from `from` to `to`. `None` where GStreamer would scale another way: the image grows, a plane shrinks to exactly
    /// one half, or it loses only one or two rows; and where the width shrinks by more than a factor of 32.
    #[must_use]
    pub fn new(from: Size, to: Size, colors: YuvColors) -> Option<Self> {
        let luma = PlaneScaler::new(from, to)?;
        let chroma = PlaneScaler::new(chroma_size(from), chroma_size(to))?;
        let row = |scaler: &PlaneScaler| vec![[0; GROUP]; scaler.row_groups()];
        Some(Self {
            rows: [row(&luma), row(&chroma), row(&chroma)],
            added: [(); 3].map(|()| vec![0; 2 * GROUP * chroma.row_groups()]),
            halves: [(); 2].map(|()| vec![0; GROUP * luma.row_groups()]),
            luma,
            chroma,
            matrix: Matrix::new(colors),
            size: to,
        })
    }

    /// Scales the planes of luma, blue and red difference to packed `BGRx` rows. The fourth byte is 255.
    ///
    /// # Panics
    /// A plane has too few bytes, or `result` is not as large as the image.
    pub fn scale(&mut self, [luma, blue, red]: [Plane<'_>; 3], result: &mut [u8]) {
        let (width, height) = (self.size.width as usize, self.size.height as usize);
        assert_eq!(
            result.len(),
            width * height * PIXEL_BYTES,
            "bytes of the result"
        );
        let [y_row, u_row, v_row] = &mut self.rows;
        for (index, target) in result.chunks_exact_mut(width * PIXEL_BYTES).enumerate() {
            if index % 2 == 0 {
                self.chroma.scale_row(blue, index / 2, u_row);
                self.chroma.scale_row(red, index / 2, v_row);
                let (u_row, v_row) = (u_row.as_flattened(), v_row.as_flattened());
                self.matrix.add_chroma(u_row, v_row, &mut self.added);
            }
            self.luma.scale_row(luma, index, y_row);
            let (target, _) = target.as_chunks_mut::<PIXEL_BYTES>();
            let y_row = y_row.as_flattened();
            self.matrix
                .write_row(y_row, &self.added, &mut self.halves, target);
        }
    }
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
    /// A row between two source rows, with room for the last window.
    blended: Vec<u8>,
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

    /// Writes row `index` of the scaled plane to `result`, which has [`row_groups`](Self::row_groups).
    fn scale_row(&mut self, plane: Plane<'_>, index: usize, result: &mut [[u8; GROUP]]) {
        let width = self.from.width as usize;
        let Between {
            rows: [above, below],
            weight,
        } = self.vertical[index];
        let row = |index: usize| &plane.bytes[index * plane.stride..][..width];
        let blended = match self.groups.is_empty() {
            true => result.as_flattened_mut(),
            false => self.blended.as_mut_slice(),
        };
        match weight {
            0 => blended[..width].copy_from_slice(row(above)),
            weight => blend(row(above), row(below), weight, &mut blended[..width]),
        }
        for (group, result) in self.groups.iter().zip(result) {
            group.scale(&self.blended, result);
        }
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

impl Group {
    #[inline(always)]
    fn scale(&self, row: &[u8], result: &mut [u8; GROUP]) {
        let window: &[u8; WINDOW] = row[self.start..]
            .first_chunk()
            .expect("the row has room for it");
        let mut pairs = [0_u16; GROUP];
        for (pair, &offset) in pairs.iter_mut().zip(&self.offsets) {
            let offset = usize::from(offset);
            *pair = u16::from_le_bytes([window[offset], window[offset + 1]]);
        }
        for ((result, pair), weight) in result.iter_mut().zip(pairs).zip(self.weights) {
            let (left, right) = (pair & 0xff, pair >> 8);
            *result = ((left * (256 - weight) + right * weight) >> 8) as u8;
        }
    }
}

/// The row between `above` and `below`.
fn blend(above: &[u8], below: &[u8], weight: u16, result: &mut [u8]) {
    for ((result, above), below) in result.iter_mut().zip(above).zip(below) {
        let sum = u16::from(*above) * (256 - weight) + u16::from(*below) * weight;
        *result = ((sum + 128) >> 8) as u8;
    }
}

/// Factors of the color conversion.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    luma: Factor,
    blue_of_u: Factor,
    green_of_u: Factor,
    green_of_v: Factor,
    red_of_v: Factor,
}

impl Matrix {
    fn new(colors: YuvColors) -> Self {
        let YuvColors {
            red,
            blue,
            full_range,
        } = colors;
        let green = 1.0 - red - blue;
        let (luma, chroma) = match full_range {
            true => (1.0, 1.0),
            false => (255.0 / 219.0, 255.0 / 224.0),
        };
        Self {
            luma: Factor::new(luma),
            blue_of_u: Factor::new(2.0 * (1.0 - blue) * chroma),
            green_of_u: Factor::new(-2.0 * (1.0 - blue) * blue / green * chroma),
            green_of_v: Factor::new(-2.0 * (1.0 - red) * red / green * chroma),
            red_of_v: Factor::new(2.0 * (1.0 - red) * chroma),
        }
    }

    /// Computes what the chroma of a row adds to the colors of its pixels.
    fn add_chroma(&self, u_row: &[u8], v_row: &[u8], [blue, green, red]: &mut [Vec<i16>; 3]) {
        let matrix = *self;
        let (blue, _) = blue.as_chunks_mut::<2>();
        let (green, _) = green.as_chunks_mut::<2>();
        let (red, _) = red.as_chunks_mut::<2>();
        let colors = blue.iter_mut().zip(green).zip(red);
        for ((u, v), ((blue, green), red)) in u_row.iter().zip(v_row).zip(colors) {
            let (u, v) = (i16::from(*u) - 128, i16::from(*v) - 128);
            *blue = [matrix.blue_of_u.times(u) + 128; 2];
            *green = [matrix.green_of_u.times(u) + matrix.green_of_v.times(v) + 128; 2];
            *red = [matrix.red_of_v.times(v) + 128; 2];
        }
    }

    /// Writes the pixels of a row of luma and what chroma adds. `halves` is working memory: blue and green of the row's pixels as
    /// numbers of 16 bits, and red and 255. Vectors of such numbers hold twice as many as those of whole pixels.
    fn write_row(
        &self,
        luma: &[u8],
        [blue, green, red]: &[Vec<i16>; 3],
        [blue_green, red_x]: &mut [Vec<u16>; 2],
        row: &mut [[u8; PIXEL_BYTES]],
    ) {
        let factor = self.luma;
        let halves = blue_green.iter_mut().zip(red_x.iter_mut());
        let added = blue.iter().zip(green).zip(red);
        for ((luma, (blue_green, red_x)), ((blue, green), red)) in
            luma.iter().zip(halves).zip(added)
        {
            let luma = factor.times(i16::from(*luma) - 128);
            let color = |added: &i16| (luma + added).clamp(0, 255).cast_unsigned();
            *blue_green = color(blue) | color(green) << 8;
            *red_x = color(red) | 0xff00;
        }
        for ((pixel, blue_green), red_x) in row.iter_mut().zip(blue_green).zip(red_x) {
            *pixel = (u32::from(*blue_green) | u32::from(*red_x) << 16).to_le_bytes();
        }
    }
}

/// A factor of the color conversion: 256 times it is `256 · whole + rest`, with a rest of at most 128.
#[derive(Debug, Clone, Copy)]
struct Factor {
    whole: i16,
    rest: i16,
}

impl Factor {
    fn new(factor: f64) -> Self {
        let fixed = (factor * 256.0).round_ties_even() as i16;
        let whole = (fixed + 128) >> 8;
        Self {
            whole,
            rest: fixed - (whole << 8),
        }
    }

    /// The upper 16 bits of the product of 256 times the factor and of a number whose bytes both are `value`, which is -128 to 127.
    /// Such a number is `257 · value`, and 256 more where `value` is negative. By 16-bit numbers throughout, for which there are
    /// vector instructions on every CPU.
    #[inline(always)]
    fn times(self, value: i16) -> i16 {
        let (whole, rest) = (value * self.whole, value * self.rest);
        let is_negative = value >> 15;
        let (whole_more, rest_more) = (self.whole & is_negative, self.rest & is_negative);
        whole + whole_more + ((rest + rest_more + (rest >> 8) + whole) >> 8)
    }
}

#[cfg(test)]
mod tests;
