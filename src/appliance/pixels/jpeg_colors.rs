// SPDX-License-Identifier: Apache-2.0
//! `BGRx` as I420 in the colors of JPEG: BT.601 in the full range, each chroma sample the mean of four pixels.

use jetwatch_types::{PIXEL_BYTES, Size};
use multiversion::multiversion;

/// Converts images of one size to I420, in planes as GStreamer expects them.
#[derive(Debug)]
pub struct JpegColors {
    size: Size,
    /// Bytes from one row to the next, of Y and of U and V.
    strides: [usize; 2],
}

impl JpegColors {
    /// For images of this size, whose sides are even.
    pub fn new(size: Size) -> Self {
        let width = size.width as usize;
        Self {
            size,
            strides: [width.next_multiple_of(4), (width / 2).next_multiple_of(4)],
        }
    }

    /// Bytes of an image in I420.
    pub const fn bytes(&self) -> usize {
        let [luma, chroma] = self.plane_bytes();
        luma + 2 * chroma
    }

    const fn plane_bytes(&self) -> [usize; 2] {
        let height = self.size.height as usize;
        [self.strides[0] * height, self.strides[1] * height / 2]
    }

    /// Writes `pixels`, rows of `BGRx` without padding, to the first [`bytes`](Self::bytes) of `planes`. What one of them has less is
    /// left.
    pub fn convert(&self, pixels: &[u8], planes: &mut [u8]) {
        convert_on_this_cpu(self, pixels, planes);
    }

    /// Inlined, like all that it calls, into a copy for each set of vector instructions.
    #[inline(always)]
    fn convert_planes(&self, pixels: &[u8], planes: &mut [u8]) {
        let row_bytes = self.size.width as usize * PIXEL_BYTES;
        let [luma_bytes, chroma_bytes] = self.plane_bytes();
        let (y_plane, chroma) = planes.split_at_mut(luma_bytes.min(planes.len()));
        let (u_plane, v_plane) = chroma.split_at_mut(chroma_bytes.min(chroma.len()));
        let [y_stride, c_stride] = self.strides;
        let chroma_rows = u_plane
            .chunks_exact_mut(c_stride)
            .zip(v_plane.chunks_exact_mut(c_stride));
        let pairs = pixels.chunks_exact(2 * row_bytes);
        for ((rows, y_rows), (u_row, v_row)) in pairs
            .zip(y_plane.chunks_exact_mut(2 * y_stride))
            .zip(chroma_rows)
        {
            let (top, bottom) = rows.split_at(row_bytes);
            let (y_top, y_bottom) = y_rows.split_at_mut(y_stride);
            luma_row(top, y_top);
            luma_row(bottom, y_bottom);
            chroma_row(top, bottom, u_row, v_row);
        }
    }
}

/// [`JpegColors::convert_planes`] with the vector instructions of this CPU: without AVX2 it takes three times as long on x86-64.
#[multiversion(targets("x86_64+avx2"))]
fn convert_on_this_cpu(colors: &JpegColors, pixels: &[u8], planes: &mut [u8]) {
    colors.convert_planes(pixels, planes);
}

/// In 256ths, rounded.
#[inline(always)]
fn luma_row(pixels: &[u8], row: &mut [u8]) {
    for (pixel, luma) in pixels.as_chunks::<PIXEL_BYTES>().0.iter().zip(row) {
        // Words of 32 bits: the compiler makes vector instructions of them.
        let pixel = u32::from_le_bytes(*pixel);
        let [blue, green, red] = [pixel & 0xff, pixel >> 8 & 0xff, pixel >> 16 & 0xff];
        *luma = ((29 * blue + 150 * green + 77 * red + 128) >> 8) as u8;
    }
}

#[inline(always)]
fn chroma_row(top: &[u8], bottom: &[u8], u_row: &mut [u8], v_row: &mut [u8]) {
    /// Two bytes of each pixel, in 16 bits each.
    const EVERY_SECOND: u64 = 0x00ff_00ff_00ff_00ff;
    /// 128 in 1024ths, and a half for rounding, less one so that 255 is the greatest.
    const OFFSET: i32 = (128 << 10) + 511;
    let squares = top.as_chunks::<8>().0.iter().zip(bottom.as_chunks::<8>().0);
    for (((above, below), u), v) in squares.zip(u_row).zip(v_row) {
        let rows = [u64::from_le_bytes(*above), u64::from_le_bytes(*below)];
        let sums = |shift: u32| -> u64 {
            let both: u64 = rows.iter().map(|row| row >> shift & EVERY_SECOND).sum();
            both + (both >> 32)
        };
        let (blue_red, green) = (sums(0), sums(8));
        let part = |sums: u64| i32::from(sums as u16);
        let [blue, green, red] = [part(blue_red), part(green), part(blue_red >> 16)];
        *u = ((128 * blue - 85 * green - 43 * red + OFFSET) >> 10) as u8;
        *v = ((128 * red - 107 * green - 21 * blue + OFFSET) >> 10) as u8;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// BT.601 in the full range, as JFIF says.
    fn expected([blue, green, red]: [f32; 3]) -> [f32; 3] {
        let y = 0.299 * red + 0.587 * green + 0.114 * blue;
        [y, 128.0 + (blue - y) / 1.772, 128.0 + (red - y) / 1.402]
    }

    proptest! {
        #[test]
        fn all_pixels_have_the_colors_of_jfif(
            half_width in 1_u32..20,
            half_height in 1_u32..4,
            seed in prop::collection::vec(any::<u8>(), 64),
        ) {
            let size = Size::new(2 * half_width, 2 * half_height);
            let pixels: Vec<u8> = (0..size.width as usize * size.height as usize * PIXEL_BYTES)
                .map(|at| seed[at * 7 % 64] ^ seed[at / 64 % 64])
                .collect();
            let layout = JpegColors::new(size);
            let mut planes = vec![0; layout.bytes()];
            layout.convert(&pixels, &mut planes);
            let pixel = |x: usize, y: usize| -> [f32; 3] {
                let first = (y * size.width as usize + x) * PIXEL_BYTES;
                [0, 1, 2].map(|part| f32::from(pixels[first + part]))
            };
            let [luma_bytes, chroma_bytes] = layout.plane_bytes();
            for y in 0..size.height as usize {
                for x in 0..size.width as usize {
                    let found = planes[y * layout.strides[0] + x];
                    prop_assert!((f32::from(found) - expected(pixel(x, y))[0]).abs() < 1.5);
                }
            }
            for y in 0..half_height as usize {
                for x in 0..half_width as usize {
                    let four = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(dx, dy)| pixel(2 * x + dx, 2 * y + dy));
                    let mean = [0, 1, 2].map(|part| four.iter().map(|one| one[part]).sum::<f32>() / 4.0);
                    let at = y * layout.strides[1] + x;
                    for (plane, part) in [(0, 1), (1, 2)] {
                        let found = planes[luma_bytes + plane * chroma_bytes + at];
                        let wanted = expected(mean)[part];
                        prop_assert!((f32::from(found) - wanted).abs() < 1.5, "{found} {wanted}");
                    }
                }
            }
        }
    }

    #[test]
    fn extreme_colors_stay_in_a_byte() {
        let size = Size::new(2, 2);
        let layout = JpegColors::new(size);
        for (color, wanted) in [
            ([255, 0, 0, 0], [29, 255, 107]),
            ([0, 0, 255, 0], [77, 85, 255]),
            ([0, 255, 255, 9], [226, 0, 149]),
            ([255, 255, 0, 9], [178, 171, 0]),
            ([255; 4], [255, 128, 128]),
            ([0; 4], [0, 128, 128]),
        ] {
            let mut planes = vec![7; layout.bytes()];
            layout.convert(&color.repeat(4), &mut planes);
            assert_eq!([planes[0], planes[8], planes[12]], wanted, "{color:?}");
        }
    }
}
