// SPDX-License-Identifier: Apache-2.0
//! The shift of the whole image, to one pixel of the smallest level: where the search for each corner begins.
//!
//! Lucas and Kanade's method follows a corner over a few pixels only. A camera that is hit moves farther between two frames, and
//! more so when frames are skipped.

use super::pyramid::Plane;

/// Largest shift as a share of each side.
const MAX_SHARE: f32 = 0.25;

/// Least share of pixels that both images must have in common.
const MIN_COMMON: f32 = 0.3;

/// How much better than no shift another shift must be: the mean difference of brightness as a share.
const MIN_GAIN: f32 = 0.9;

/// Finds shifts. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct CoarseShift {
    /// Both images as bytes, of equal mean: the sums are then those of vector instructions.
    from: Vec<u8>,
    to: Vec<u8>,
    /// For each pixel of the first image all bits, or none where it does not count.
    counted: Vec<u8>,
}

impl CoarseShift {
    /// The shift, in pixels of the planes, at which `to` resembles `from` most. `masked` has one value for each pixel of the full
    /// size, which is `full_width` pixels wide and `factor` times as large; masked pixels do not count. The means of both images do
    /// not matter.
    pub(crate) fn find(
        &mut self,
        from: &Plane,
        to: &Plane,
        masked: &[bool],
        (factor, full_width): (usize, usize),
    ) -> [f32; 2] {
        self.counted.clear();
        for y in 0..from.height {
            let row = (y * factor + factor / 2) * full_width + factor / 2;
            let is_masked = |x: usize| masked.get(row + x * factor).copied().unwrap_or(true);
            let row = (0..from.width).map(|x| if is_masked(x) { 0 } else { u8::MAX });
            self.counted.extend(row);
        }
        as_bytes(from, &mut self.from);
        as_bytes(to, &mut self.to);
        let all = self.counted.iter().filter(|counted| **counted != 0).count();
        let least = (all as f32 * MIN_COMMON) as u32;
        let (width, height) = (from.width, from.height);
        let mean = |shift| {
            let (sum, count) = self.difference(width, height, shift);
            (count > least).then(|| sum as f32 / count as f32)
        };
        let Some(unmoved) = mean([0, 0]) else {
            return [0.0, 0.0];
        };
        let reach = |side: usize| (side as f32 * MAX_SHARE) as isize;
        let mut best = (unmoved * MIN_GAIN, [0, 0]);
        for dy in -reach(height)..=reach(height) {
            for dx in -reach(width)..=reach(width) {
                if let Some(found) = mean([dx, dy])
                    && found < best.0
                {
                    best = (found, [dx, dy]);
                }
            }
        }
        best.1.map(|shift| shift as f32)
    }

    /// Sum of the differences of all counted pixels that both images have at this shift, and their number.
    fn difference(&self, width: usize, height: usize, [dx, dy]: [isize; 2]) -> (u32, u32) {
        let (columns, left) = overlap(width, dx);
        let (rows, _) = overlap(height, dy);
        let (mut sum, mut count) = (0, 0);
        for y in rows {
            let start = y * width;
            let before = &self.from[start..][columns.clone()];
            let counted = &self.counted[start..][columns.clone()];
            let after = &self.to[y.wrapping_add_signed(dy) * width + left..][..columns.len()];
            for ((a, b), counted) in before.iter().zip(after).zip(counted) {
                sum += u32::from(a.abs_diff(*b) & counted);
                count += u32::from(counted & 1);
            }
        }
        (sum, count)
    }
}

/// Positions along one axis that are inside of both images at this shift, and where the first of them is in the second image.
fn overlap(side: usize, shift: isize) -> (std::ops::Range<usize>, usize) {
    let moved = shift.unsigned_abs().min(side);
    match shift < 0 {
        true => (moved..side, 0),
        false => (0..side - moved, moved),
    }
}

/// The plane as bytes around 128, its mean.
fn as_bytes(plane: &Plane, bytes: &mut Vec<u8>) {
    let count = plane.pixels.len().max(1) as f32;
    let bias = 128.0 - plane.pixels.iter().sum::<f32>() / count;
    bytes.clear();
    // A float beyond a byte becomes the nearest byte.
    bytes.extend(
        plane
            .pixels
            .iter()
            .map(|value| (value + bias).round() as u8),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::motion::scenes::texture;

    fn plane(shift: [f32; 2], brighter: f32) -> Plane {
        let at = |index: usize| {
            let (x, y) = ((index % 40) as f32, (index / 40) as f32);
            texture([(x - shift[0]) * 4.0, (y - shift[1]) * 4.0]) * 0.8 + brighter
        };
        Plane {
            width: 40,
            height: 24,
            pixels: (0..40 * 24).map(at).collect(),
        }
    }

    #[test]
    fn shifts_up_to_a_quarter_of_the_image_are_found() {
        let mut coarse = CoarseShift::default();
        for shift in [[0.0, 0.0], [3.0, -2.0], [-9.0, 5.0], [10.0, 6.0]] {
            let (from, to) = (plane([0.0, 0.0], 10.0), plane(shift, 40.0));
            let masked = vec![false; 160 * 96];
            let found = coarse.find(&from, &to, &masked, (4, 160));
            assert_eq!(found, shift);
        }
    }

    #[test]
    fn masked_pixels_do_not_count() {
        let from = plane([0.0, 0.0], 10.0);
        let mut to = plane([0.0, 0.0], 10.0);
        let moved = plane([6.0, 0.0], 10.0);
        let mut masked = vec![false; 160 * 96];
        // The left three quarters move, as a bus does.
        for y in 0..24 {
            to.pixels[y * 40..][..30].copy_from_slice(&moved.pixels[y * 40..][..30]);
        }
        let mut coarse = CoarseShift::default();
        let found = coarse.find(&from, &to, &masked, (4, 160));
        assert_eq!(found, [6.0, 0.0]);
        masked.chunks_mut(160).for_each(|row| row[..120].fill(true));
        let found = coarse.find(&from, &to, &masked, (4, 160));
        assert_eq!(found, [0.0, 0.0]);
        masked.fill(true);
        let found = coarse.find(&from, &to, &masked, (4, 160));
        assert_eq!(found, [0.0, 0.0]);
    }
}
