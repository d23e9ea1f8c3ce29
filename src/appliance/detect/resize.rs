//! Crops to the size that a network wants: `BGRx` scaled by a triangle filter, as training code does it. Pure.
//!
//! Each pixel of the result is the weighted mean of those that it covers, by their distance: bilinear where the crop grows, and
//! without aliasing where it shrinks. Sources scale whole pictures on the VIC or with GStreamer; crops are small and many,
//! and every one has another size, which their units take too long to be set up for.

use jetwatch_types::{PIXEL_BYTES, Size};

/// Values of a pixel that count; the fourth byte is unused.
const CHANNELS: usize = 3;

/// Scales crops; keeps its working memory from one to the next.
#[derive(Debug, Default)]
pub struct Resizer {
    across: FilterTaps,
    down: FilterTaps,
    /// The crop with the width of the result: rows of `CHANNELS` numbers for each pixel.
    resized_rows: Vec<f32>,
    row: Vec<f32>,
}

/// Which pixels of a line make each pixel of the result.
#[derive(Debug, Default)]
struct FilterTaps {
    /// First pixel of the line, and first weight; the weights end where those of the next pixel begin.
    starts: Vec<(usize, usize)>,
    weights: Vec<f32>,
}

impl Resizer {
    /// Scales `pixels`, packed rows of a picture of `from`, to `to`, in packed rows too. The unused bytes become 0.
    ///
    /// Panics when one of the sizes has no pixel, or when the memory does not have them.
    pub fn scale(&mut self, pixels: &[u8], from: Size, to: Size, result: &mut [u8]) {
        let bytes = |size: Size| size.width as usize * size.height as usize * PIXEL_BYTES;
        assert!(bytes(from) > 0 && bytes(to) > 0, "{from} to {to}");
        assert_eq!(pixels.len(), bytes(from), "bytes of the crop");
        assert_eq!(result.len(), bytes(to), "bytes of the result");
        if from == to {
            result.copy_from_slice(pixels);
            return;
        }
        let (width, height) = (to.width as usize, to.height as usize);
        self.across.compute(from.width as usize, width);
        self.down.compute(from.height as usize, height);
        self.resize_rows(pixels, from);
        let row_len = width * CHANNELS;
        self.row.resize(row_len, 0.0);
        for (y, line) in result.chunks_exact_mut(width * PIXEL_BYTES).enumerate() {
            let (first, weights) = self.down.get(y);
            self.row.fill(0.0);
            let rows = self.resized_rows[first * row_len..].chunks_exact(row_len);
            for (weight, row) in weights.iter().zip(rows) {
                for (sum, value) in self.row.iter_mut().zip(row) {
                    *sum += weight * value;
                }
            }
            let (targets, _) = line.as_chunks_mut::<PIXEL_BYTES>();
            let (sums, _) = self.row.as_chunks::<CHANNELS>();
            for (target, [blue, green, red]) in targets.iter_mut().zip(sums) {
                // A float becomes the nearest byte that there is.
                *target = [
                    (blue + 0.5) as u8,
                    (green + 0.5) as u8,
                    (red + 0.5) as u8,
                    0,
                ];
            }
        }
    }

    /// Every row of the crop with the width of the result.
    fn resize_rows(&mut self, pixels: &[u8], from: Size) {
        self.resized_rows.clear();
        for row in pixels.chunks_exact(from.width as usize * PIXEL_BYTES) {
            let (row, _) = row.as_chunks::<PIXEL_BYTES>();
            for x in 0..self.across.starts.len() {
                let (first, weights) = self.across.get(x);
                let mut sums = [0.0; CHANNELS];
                for (weight, pixel) in weights.iter().zip(&row[first..]) {
                    for (sum, value) in sums.iter_mut().zip(pixel) {
                        *sum += weight * f32::from(*value);
                    }
                }
                self.resized_rows.extend(sums);
            }
        }
    }
}

impl FilterTaps {
    /// For lines of `from` pixels that become `to` pixels.
    fn compute(&mut self, from: usize, to: usize) {
        self.starts.clear();
        self.weights.clear();
        let step = from as f32 / to as f32;
        let reach = step.max(1.0);
        for index in 0..to {
            let center = (index as f32 + 0.5) * step;
            let first = (center - reach).floor().max(0.0) as usize;
            let end = ((center + reach).ceil() as usize).min(from);
            let start = self.weights.len();
            self.starts.push((first, start));
            let weight =
                |pixel: usize| (1.0 - (pixel as f32 + 0.5 - center).abs() / reach).max(0.0);
            self.weights.extend((first..end).map(weight));
            let sum: f32 = self.weights[start..].iter().sum();
            for weight in &mut self.weights[start..] {
                *weight /= sum;
            }
        }
    }

    /// First pixel of the line and the weights from there on, for pixel `index` of the result.
    fn get(&self, index: usize) -> (usize, &[f32]) {
        let (first, start) = self.starts[index];
        let end = self
            .starts
            .get(index + 1)
            .map_or(self.weights.len(), |(_, next)| *next);
        (first, &self.weights[start..end])
    }
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
        Resizer::default().scale(&bytes, from, to, &mut result);
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
