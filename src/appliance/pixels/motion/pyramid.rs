// SPDX-License-Identifier: Apache-2.0
//! A gray image in several sizes, each half of the one before.

/// Most levels, the full size included.
const MAX_LEVELS: usize = 3;

/// Smallest side of a level, in pixels.
const MIN_LEVEL_SIDE: usize = 18;

/// One size.
#[derive(Debug, Default)]
pub(crate) struct Plane {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Brightness, 0 to 255, row by row.
    pub(crate) pixels: Vec<f32>,
}

/// All sizes; level 0 is the full one. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Pyramid {
    planes: [Plane; MAX_LEVELS],
    levels: usize,
}

impl Pyramid {
    /// Replaces it by the pyramid of an image.
    pub(crate) fn build(&mut self, pixels: &[u8], width: usize, height: usize) {
        let base = &mut self.planes[0];
        (base.width, base.height) = (width, height);
        base.pixels.clear();
        base.pixels
            .extend(pixels.iter().map(|&value| f32::from(value)));
        self.levels = 1;
        while self.levels < MAX_LEVELS {
            let (finer, coarser) = self.planes.split_at_mut(self.levels);
            if !coarser[0].halve(&finer[self.levels - 1]) {
                break;
            }
            self.levels += 1;
        }
    }

    /// The sizes, the full one first.
    pub(crate) fn planes(&self) -> &[Plane] {
        &self.planes[..self.levels]
    }
}

impl Plane {
    /// Replaces it by `finer` at half of its size; false where that is too small.
    fn halve(&mut self, finer: &Self) -> bool {
        let (width, height) = (finer.width / 2, finer.height / 2);
        if width.min(height) < MIN_LEVEL_SIDE {
            return false;
        }
        (self.width, self.height) = (width, height);
        self.pixels.clear();
        for y in 0..height {
            let upper = &finer.pixels[2 * y * finer.width..][..2 * width];
            let lower = &finer.pixels[(2 * y + 1) * finer.width..][..2 * width];
            let pairs = upper.chunks_exact(2).zip(lower.chunks_exact(2));
            self.pixels
                .extend(pairs.map(|(u, l)| (u[0] + u[1] + l[0] + l[1]) * 0.25));
        }
        true
    }

    /// Replaces `patch`, a square of `side` pixels, by the brightness around the point `at`, interpolated. The center of the
    /// first pixel of the plane is at 0.5. False where the square is not inside of the plane.
    #[inline]
    pub(crate) fn sample(&self, at: [f32; 2], side: usize, patch: &mut [f32]) -> bool {
        let half = side as f32 * 0.5;
        let (left, top) = (at[0] - half, at[1] - half);
        // Also false for NaN.
        let is_inside = left >= 0.0
            && top >= 0.0
            && left + (side as f32) < self.width as f32 - 1.0
            && top + (side as f32) < self.height as f32 - 1.0;
        if !is_inside {
            return false;
        }
        let (column, row) = (left as usize, top as usize);
        let (fx, fy) = (left - column as f32, top - row as f32);
        let weights = [
            (1.0 - fx) * (1.0 - fy),
            fx * (1.0 - fy),
            (1.0 - fx) * fy,
            fx * fy,
        ];
        for (y, line) in patch.chunks_exact_mut(side).take(side).enumerate() {
            let upper = &self.pixels[(row + y) * self.width + column..][..side + 1];
            let lower = &self.pixels[(row + y + 1) * self.width + column..][..side + 1];
            for (x, value) in line.iter_mut().enumerate() {
                *value = weights[0] * upper[x]
                    + weights[1] * upper[x + 1]
                    + weights[2] * lower[x]
                    + weights[3] * lower[x + 1];
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_halves_down_to_the_smallest() {
        let pixels: Vec<u8> = (0..90_u32 * 160).map(|at| (at % 160) as u8).collect();
        let mut pyramid = Pyramid::default();
        pyramid.build(&pixels, 160, 90);
        let sizes: Vec<(usize, usize)> = pyramid
            .planes()
            .iter()
            .map(|plane| (plane.width, plane.height))
            .collect();
        assert_eq!(sizes, [(160, 90), (80, 45), (40, 22)]);
        assert_eq!(pyramid.planes()[1].pixels[..3], [0.5, 2.5, 4.5]);
        pyramid.build(&pixels[..60 * 30], 60, 30);
        assert_eq!(pyramid.planes().len(), 1, "the memory of others is kept");
    }

    #[test]
    fn a_patch_is_interpolated_at_its_place() {
        let pixels: Vec<u8> = (0..40 * 40)
            .map(|at| (at % 40 * 2 + at / 40) as u8)
            .collect();
        let mut pyramid = Pyramid::default();
        pyramid.build(&pixels, 40, 40);
        let plane = &pyramid.planes()[0];
        let mut patch = [0.0; 9];
        assert!(plane.sample([10.5, 20.5], 3, &mut patch));
        assert_eq!(patch[4], 40.0, "the pixel at (10, 20)");
        assert_eq!(patch[0], 37.0);
        assert!(plane.sample([10.75, 20.0], 3, &mut patch));
        assert_eq!(patch[4], 40.0, "half a brightness more, half a row less");
        assert!(!plane.sample([1.4, 20.0], 3, &mut patch));
        assert!(!plane.sample([20.0, 38.6], 3, &mut patch));
        assert!(!plane.sample([f32::NAN, 20.0], 3, &mut patch));
    }
}
