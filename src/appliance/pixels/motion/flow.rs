// SPDX-License-Identifier: Apache-2.0
//! Optical flow of single points, from the smallest level of a pyramid to the full size (Lucas and Kanade, 1981; Bouguet, 2000).
//!
//! Patches are compared at equal mean and equal contrast, so that a change of exposure is no motion.

use super::pyramid::Pyramid;

/// Side of the patch around a point. Sums are taken by columns, which the compiler turns into vector instructions.
const SIDE: usize = 8;

/// The same with one more pixel on each side, for gradients.
const WIDE: usize = SIDE + 2;

/// Most steps on one level.
const MAX_STEPS: usize = 8;

/// A step of this length, in pixels, is the last: of the full size, and of the smaller ones, from which the search goes on.
const LAST_STEP: f32 = 0.02;
const LAST_COARSE_STEP: f32 = 0.1;

/// Largest difference of two patches of the same point, as a share of the contrast of the first.
const MAX_DIFFERENCE: f32 = 0.5;

/// Largest change of the contrast of a patch between two frames, as a factor.
const MAX_GAIN: f32 = 2.0;

/// A patch of the first image with the gradients of it.
struct Template {
    patch: [f32; SIDE * SIDE],
    gradients: [[f32; SIDE * SIDE]; 2],
    /// The inverse of the matrix of sums of products of the gradients: xx, xy, yy.
    inverse: [f32; 3],
    /// Sum of the squares of the patch.
    contrast: f32,
}

/// Where the point `at` of `from` is in `to`, given where it may be. Points are in pixels of the full size. `None` where it cannot
/// be followed: it has left the image, its surroundings have changed, or they have no contrast.
pub(crate) fn follow(
    from: &Pyramid,
    to: &Pyramid,
    at: [f32; 2],
    expected: [f32; 2],
) -> Option<[f32; 2]> {
    let mut moved = [expected[0] - at[0], expected[1] - at[1]];
    let levels = from.planes().iter().zip(to.planes()).enumerate();
    for (level, (first, second)) in levels.rev() {
        let factor = (1_usize << level) as f32;
        let center = [at[0] / factor, at[1] / factor];
        let mut wide = [0.0; WIDE * WIDE];
        let is_last = level == 0;
        let template = first
            .sample(center, WIDE, &mut wide)
            .then(|| Template::new(&wide))
            .flatten();
        let Some(template) = template else {
            // At the edge, or without contrast: the next level may do.
            if is_last {
                return None;
            }
            continue;
        };
        let mut shift = [moved[0] / factor, moved[1] / factor];
        let mut patch = [0.0; SIDE * SIDE];
        for step in 0.. {
            let place = [center[0] + shift[0], center[1] + shift[1]];
            if !second.sample(place, SIDE, &mut patch) {
                if is_last {
                    return None;
                }
                shift = [moved[0] / factor, moved[1] / factor];
                break;
            }
            let (delta, difference) = template.step(&patch);
            let length = delta[0].abs().max(delta[1].abs());
            let enough = if is_last { LAST_STEP } else { LAST_COARSE_STEP };
            if step == MAX_STEPS || length < enough {
                if is_last && difference > MAX_DIFFERENCE * template.contrast {
                    return None;
                }
                break;
            }
            shift = [shift[0] + delta[0], shift[1] + delta[1]];
        }
        moved = [shift[0] * factor, shift[1] * factor];
    }
    Some([at[0] + moved[0], at[1] + moved[1]])
}

impl Template {
    /// The inner part of a wide patch; `None` where it has no contrast in some direction.
    fn new(wide: &[f32; WIDE * WIDE]) -> Option<Self> {
        let mut patch = [0.0; SIDE * SIDE];
        let mut gradients = [[0.0; SIDE * SIDE]; 2];
        for y in 0..SIDE {
            for x in 0..SIDE {
                let middle = (y + 1) * WIDE + x + 1;
                patch[y * SIDE + x] = wide[middle];
                gradients[0][y * SIDE + x] = (wide[middle + 1] - wide[middle - 1]) * 0.5;
                gradients[1][y * SIDE + x] = (wide[middle + WIDE] - wide[middle - WIDE]) * 0.5;
            }
        }
        remove_mean(&mut patch);
        gradients.iter_mut().for_each(remove_mean);
        let [gx, gy] = &gradients;
        let (xx, xy, yy) = (product(gx, gx), product(gx, gy), product(gy, gy));
        let determinant = xx * yy - xy * xy;
        // An edge has a determinant near 0.
        let has_contrast = determinant > 1e-3 * (xx + yy) * (xx + yy) && xx + yy > 1.0;
        has_contrast.then(|| Self {
            contrast: product(&patch, &patch),
            inverse: [yy / determinant, -xy / determinant, xx / determinant],
            patch,
            gradients,
        })
    }

    /// The step that makes `found` more like the template, and the sum of the squares of their difference before it.
    fn step(&self, found: &[f32; SIDE * SIDE]) -> ([f32; 2], f32) {
        let mut difference = *found;
        remove_mean(&mut difference);
        let found_contrast = product(&difference, &difference).max(f32::MIN_POSITIVE);
        let gain = (self.contrast / found_contrast).sqrt();
        let gain = gain.clamp(1.0 / MAX_GAIN, MAX_GAIN);
        for (value, wanted) in difference.iter_mut().zip(&self.patch) {
            *value = wanted - gain * *value;
        }
        let x = product(&self.gradients[0], &difference);
        let y = product(&self.gradients[1], &difference);
        let [xx, xy, yy] = self.inverse;
        (
            [xx * x + xy * y, xy * x + yy * y],
            product(&difference, &difference),
        )
    }
}

fn remove_mean(patch: &mut [f32; SIDE * SIDE]) {
    let mut columns = [0.0; SIDE];
    for row in patch.chunks_exact(SIDE) {
        for (sum, value) in columns.iter_mut().zip(row) {
            *sum += value;
        }
    }
    let mean = columns.iter().sum::<f32>() / (SIDE * SIDE) as f32;
    patch.iter_mut().for_each(|value| *value -= mean);
}

fn product(a: &[f32; SIDE * SIDE], b: &[f32; SIDE * SIDE]) -> f32 {
    let mut columns = [0.0; SIDE];
    for (a, b) in a.chunks_exact(SIDE).zip(b.chunks_exact(SIDE)) {
        for (sum, (a, b)) in columns.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    columns.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::motion::scenes::texture;

    /// The texture moved by `shift`, with its brightness times `gain`.
    fn image(shift: [f32; 2], gain: f32, brighter: f32) -> Pyramid {
        let at = |index: u32| {
            let (x, y) = ((index % 160) as f32 + 0.5, (index / 160) as f32 + 0.5);
            let value = texture([x - shift[0], y - shift[1]]) * gain + brighter;
            value.round().clamp(0.0, 255.0) as u8
        };
        let pixels: Vec<u8> = (0..160 * 90).map(at).collect();
        let mut pyramid = Pyramid::default();
        pyramid.build(&pixels, 160, 90);
        pyramid
    }

    /// How many of 20 points were followed, and how many of them to within 0.15 pixels. They are no corners: some have little contrast.
    fn followed(shift: [f32; 2], to: &Pyramid, expected: [f32; 2]) -> (usize, usize) {
        let from = image([0.0, 0.0], 0.6, 30.0);
        let points = (0..20).map(|n| [40.0 + 4.0 * n as f32, 30.0 + (n * 7 % 30) as f32]);
        let errors = points.filter_map(|at| {
            let guess = [at[0] + expected[0], at[1] + expected[1]];
            let [x, y] = follow(&from, to, at, guess)?;
            let (dx, dy) = (x - at[0] - shift[0], y - at[1] - shift[1]);
            Some(dx.abs().max(dy.abs()))
        });
        let errors: Vec<f32> = errors.collect();
        let good = errors.iter().filter(|error| **error < 0.15).count();
        (errors.len(), good)
    }

    #[test]
    fn parts_of_a_pixel_are_measured() {
        for shift in [[0.0, 0.0], [0.3, -0.45], [2.25, 1.5], [-5.5, 3.75]] {
            let to = image(shift, 0.6, 30.0);
            let (all, good) = followed(shift, &to, [0.0, 0.0]);
            assert!(good >= 17 && all - good <= 1, "{shift:?}: {good} of {all}");
        }
    }

    #[test]
    fn large_shifts_are_followed_from_where_they_are_expected() {
        let shift = [-21.5, 13.25];
        let to = image(shift, 0.6, 30.0);
        let (all, good) = followed(shift, &to, [-20.0, 12.0]);
        assert!(good >= 17 && all - good <= 1, "{good} of {all}");
    }

    #[test]
    fn a_change_of_exposure_is_no_motion() {
        let shift = [1.5, -0.75];
        let to = image(shift, 0.5, 70.0);
        let (all, good) = followed(shift, &to, [0.0, 0.0]);
        assert!(good >= 15 && all - good <= 3, "{good} of {all}");
    }

    #[test]
    fn points_of_other_images_and_outside_are_not_followed() {
        // Some patches resemble others by chance; what they say is left to the fit.
        let other = image([97.0, 61.0], 0.6, 30.0);
        let (all, _) = followed([0.0, 0.0], &other, [0.0, 0.0]);
        assert!(all <= 10, "{all} points of another image");
        let from = image([0.0, 0.0], 0.6, 30.0);
        assert_eq!(follow(&from, &from, [2.0, 40.0], [2.0, 40.0]), None);
        assert_eq!(follow(&from, &from, [80.0, 40.0], [180.0, 40.0]), None);
        let flat = image([0.0, 0.0], 0.0, 90.0);
        assert_eq!(follow(&flat, &from, [80.0, 40.0], [80.0, 40.0]), None);
    }
}
