// SPDX-License-Identifier: Apache-2.0
//! Scaling of `BGRx` images to any size, with vector instructions where the CPU has them (AVX2, NEON).
//!
//! For what the hardware scalers of a platform do not serve: crops for secondary networks, which are small, many and all of
//! different size, and sources without a GStreamer pipeline.

use fast_image_resize::images::TypedImage;
use fast_image_resize::pixels::U8x4;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions};
use jetwatch_types::{Crop, Image, PIXEL_BYTES, Size};

/// How the pixels of the result are weighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// The weighted mean of all pixels that a pixel of the result covers: bilinear where the image grows, without aliasing where
    /// it shrinks. What training code does.
    Triangle,
    /// Between the four nearest pixels at any scale, as GStreamer's and a Jetson's scalers are set here.
    Bilinear,
}

/// Scales images; keeps its working memory from one to the next.
#[derive(Debug, Default)]
pub struct Resizer {
    scaler: fast_image_resize::Resizer,
    /// The pixels to scale, in rows without padding.
    packed: Vec<u8>,
}

impl Resizer {
    /// Scales `pixels`, packed rows of an image of `from`, to `to`, in packed rows too. The unused bytes are scaled like the others.
    ///
    /// Panics when one of the sizes has no pixel, or when the memory does not have them.
    pub fn scale(
        &mut self,
        pixels: &[u8],
        from: Size,
        to: Size,
        filter: Filter,
        result: &mut [u8],
    ) {
        self.packed.clear();
        self.packed.extend_from_slice(pixels);
        self.scale_packed(from, to, filter, result);
    }

    /// Scales the part `part` of `image` to `to`, in packed rows.
    ///
    /// Panics when the part is not inside, when the pixels cannot be read, and where [`scale`](Self::scale) does.
    pub fn scale_part(
        &mut self,
        image: &Image,
        part: Crop,
        to: Size,
        filter: Filter,
        result: &mut [u8],
    ) {
        let left = part.left as usize * PIXEL_BYTES;
        let row = left..left + part.size.width as usize * PIXEL_BYTES;
        self.packed.clear();
        self.packed.reserve(byte_len(part.size));
        for y in part.top..part.top + part.size.height {
            self.packed.extend_from_slice(&image.row(y)[row.clone()]);
        }
        self.scale_packed(part.size, to, filter, result);
    }

    /// Scales `packed`.
    fn scale_packed(&mut self, from: Size, to: Size, filter: Filter, result: &mut [u8]) {
        assert!(
            byte_len(from) > 0 && byte_len(to) > 0,
            "scaling from {from} to {to}: expected at least one pixel"
        );
        assert_eq!(self.packed.len(), byte_len(from), "bytes of the image");
        assert_eq!(result.len(), byte_len(to), "bytes of the result");
        if from == to {
            result.copy_from_slice(&self.packed);
            return;
        }
        let algorithm = match filter {
            Filter::Triangle => ResizeAlg::Convolution(FilterType::Bilinear),
            Filter::Bilinear => ResizeAlg::Interpolation(FilterType::Bilinear),
        };
        // The fourth byte is no alpha channel.
        let options = ResizeOptions::new().resize_alg(algorithm).use_alpha(false);
        // Both images, and the library's own between them, are of one type, so that its code is compiled once: a second type for the
        // source doubles the time of compiling this crate and adds 0.2 MB to the program. That is why the pixels are copied.
        let source = TypedImage::<U8x4>::from_buffer(from.width, from.height, &mut self.packed)
            .expect("the length is checked above");
        let mut target = TypedImage::<U8x4>::from_buffer(to.width, to.height, result)
            .expect("the length is checked above");
        self.scaler
            .resize_typed(&source, &mut target, &options)
            .expect("the whole image is scaled");
    }
}

/// Halves the sides of `BGRx` rows without padding, of an image of this size; each pixel becomes the mean of four.
pub fn halve(pixels: &mut Vec<u8>, size: Size) {
    let row_bytes = size.width as usize * PIXEL_BYTES;
    let mut written = 0;
    for y in 0..size.height as usize / 2 {
        for x in 0..size.width as usize / 2 {
            let first = 2 * y * row_bytes + 2 * x * PIXEL_BYTES;
            for byte in first..first + PIXEL_BYTES {
                let below = byte + row_bytes;
                let four = [byte, byte + PIXEL_BYTES, below, below + PIXEL_BYTES];
                let sum: u16 = four.iter().map(|at| u16::from(pixels[*at])).sum();
                // Never ahead of what is still to be read.
                pixels[written] = u8::try_from(sum / 4).unwrap_or(u8::MAX);
                written += 1;
            }
        }
    }
    pixels.truncate(written);
}

fn byte_len(size: Size) -> usize {
    size.width as usize * size.height as usize * PIXEL_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(pixels: &[[u8; 3]], from: Size, to: Size) -> Vec<[u8; 3]> {
        let bytes: Vec<u8> = pixels
            .iter()
            .flat_map(|[b, g, r]| [*b, *g, *r, 7])
            .collect();
        let mut result = vec![9; (to.width * to.height) as usize * PIXEL_BYTES];
        Resizer::default().scale(&bytes, from, to, Filter::Triangle, &mut result);
        let (pixels, _) = result.as_chunks::<PIXEL_BYTES>();
        pixels.iter().map(|[b, g, r, _]| [*b, *g, *r]).collect()
    }

    #[test]
    fn uniform_color_is_preserved_at_any_size() {
        for (width, height) in [(1, 1), (3, 5), (64, 2), (7, 100)] {
            for to in [Size::new(1, 1), Size::new(8, 8), Size::new(100, 3)] {
                let from = Size::new(width, height);
                let flat = vec![[10, 200, 255]; (width * height) as usize];
                let found = scaled(&flat, from, to);
                assert!(
                    found.iter().all(|pixel| *pixel == [10, 200, 255]),
                    "{from} to {to}"
                );
            }
        }
    }

    #[test]
    fn resize_matches_known_pixels() {
        let line = [[0; 3], [100; 3], [200; 3], [100; 3]];
        let values = |to| -> Vec<u8> {
            let found = scaled(&line, Size::new(4, 1), Size::new(to, 1));
            found.iter().map(|pixel| pixel[0]).collect()
        };
        assert_eq!(values(4), [0, 100, 200, 100]);
        // Centers at 1 and 3, reach 2: (0.75·0 + 0.75·100 + 0.25·200)/1.75, (0.25·100 + 0.75·200 + 0.75·100)/1.75.
        assert_eq!(values(2), [71, 143]);
        // Twice as wide: three quarters of the nearer one, one quarter of the other.
        assert_eq!(values(8), [0, 25, 75, 125, 175, 175, 125, 100]);
    }

    #[test]
    fn transposing_the_image_transposes_the_result() {
        let noise = |index: usize| (index * 7919 % 251) as u8;
        let (width, height) = (13_usize, 9_usize);
        let upright: Vec<[u8; 3]> = (0..width * height).map(|index| [noise(index); 3]).collect();
        let turned: Vec<[u8; 3]> = (0..width * height)
            .map(|index| upright[(index % height) * width + index / height])
            .collect();
        let a = scaled(&upright, Size::new(13, 9), Size::new(5, 20));
        let b = scaled(&turned, Size::new(9, 13), Size::new(20, 5));
        for y in 0..20 {
            for x in 0..5 {
                let (a, b) = (a[y * 5 + x][0], b[x * 20 + y][0]);
                assert!(a.abs_diff(b) <= 1, "{a} and {b} at {x},{y}");
            }
        }
    }
}
