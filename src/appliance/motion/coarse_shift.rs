//! The shift of the whole image, to one pixel of the smallest level: where the search for each corner begins.
//!
//! Lucas and Kanade's method follows a corner over a few pixels only. A camera that is hit moves farther between two frames, and
//! more so when frames are skipped.

use crate::pyramid::Plane;

/// Largest shift as a share of each side.
const MAX_SHARE: f32 = 0.25;

/// Least share of pixels that both images must have in common.
const MIN_COMMON: f32 = 0.3;

/// How much better than no shift another shift must be: the mean difference of brightness as a share.
const MIN_GAIN: f32 = 0.9;

/// The shift, in pixels of the planes, at which `to` resembles `from` most. `masked` has one value for each pixel of the full size,
/// which is `factor` times as large; masked pixels do not count. The means of both images do not matter.
pub(crate) fn coarse_shift(
    from: &Plane,
    to: &Plane,
    masked: &[bool],
    (factor, full_width): (usize, usize),
    counted: &mut Vec<(usize, usize)>,
) -> [f32; 2] {
    counted.clear();
    for y in 0..from.height {
        for x in 0..from.width {
            let center = (y * factor + factor / 2) * full_width + x * factor + factor / 2;
            if !masked.get(center).copied().unwrap_or(true) {
                counted.push((x, y));
            }
        }
    }
    let bias = mean(&to.pixels) - mean(&from.pixels);
    let least = (counted.len() as f32 * MIN_COMMON) as usize;
    let reach = |side: usize| (side as f32 * MAX_SHARE) as isize;
    let (reach_x, reach_y) = (reach(from.width), reach(from.height));
    let difference = |dx: isize, dy: isize| {
        let (mut sum, mut count) = (0.0_f32, 0_usize);
        for &(x, y) in counted.iter() {
            let (column, row) = (x.wrapping_add_signed(dx), y.wrapping_add_signed(dy));
            if column < to.width && row < to.height {
                let before = from.pixels[y * from.width + x];
                sum += (to.pixels[row * to.width + column] - bias - before).abs();
                count += 1;
            }
        }
        (count > least).then(|| sum / count as f32)
    };
    let Some(unmoved) = difference(0, 0) else {
        return [0.0, 0.0];
    };
    let mut best = (unmoved * MIN_GAIN, [0.0, 0.0]);
    for dy in -reach_y..=reach_y {
        for dx in -reach_x..=reach_x {
            if let Some(found) = difference(dx, dy)
                && found < best.0
            {
                best = (found, [dx as f32, dy as f32]);
            }
        }
    }
    best.1
}

fn mean(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len().max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::texture;

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
        let mut counted = Vec::new();
        for shift in [[0.0, 0.0], [3.0, -2.0], [-9.0, 5.0], [10.0, 6.0]] {
            let (from, to) = (plane([0.0, 0.0], 10.0), plane(shift, 40.0));
            let masked = vec![false; 160 * 96];
            let found = coarse_shift(&from, &to, &masked, (4, 160), &mut counted);
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
        let mut counted = Vec::new();
        let found = coarse_shift(&from, &to, &masked, (4, 160), &mut counted);
        assert_eq!(found, [6.0, 0.0]);
        masked.chunks_mut(160).for_each(|row| row[..120].fill(true));
        let found = coarse_shift(&from, &to, &masked, (4, 160), &mut counted);
        assert_eq!(found, [0.0, 0.0]);
        masked.fill(true);
        let found = coarse_shift(&from, &to, &masked, (4, 160), &mut counted);
        assert_eq!(found, [0.0, 0.0]);
    }
}
