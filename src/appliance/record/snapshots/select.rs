// SPDX-License-Identifier: Apache-2.0
//! Which picture of a track is the best. Pure.
//!
//! A picture is better the surer the network is, the larger the object, the more of it is in view, and the sharper it is. The first
//! three are known in the tracking stage, which compares them for every frame; the last one needs pixels, and is measured on the
//! pictures that were better so far.

use std::time::{Duration, Instant};

use jetwatch_types::{Image, PIXEL_BYTES, Size, Xyxy};

/// How much better a picture must be than the best one so far.
const IMPROVEMENT: f32 = 1.15;

/// Shortest time between two pictures of one track.
const MIN_INTERVAL: Duration = Duration::from_millis(300);

/// Weight of an object that is cut by the border of the image.
const CUT_WEIGHT: f32 = 0.5;

/// Share of the image's sides within which a box touches its border.
const BORDER: f32 = 0.005;

/// Points in each direction at which sharpness is measured.
const SAMPLES: u32 = 48;

/// Mean difference of neighbors, of 255, at which a picture counts as half as sharp as can be.
const HALF_SHARP: f32 = 6.0;

/// The best picture of one track so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct BestSoFar {
    quality: f32,
    at: Option<Instant>,
}

impl BestSoFar {
    /// Whether there is a picture.
    pub const fn is_some(&self) -> bool {
        self.at.is_some()
    }

    /// Whether a picture of `quality` at `now` is better; if so, it is the best one from now on.
    pub fn improves(&mut self, quality: f32, now: Instant) -> bool {
        let is_soon = self
            .at
            .is_some_and(|at| now.saturating_duration_since(at) < MIN_INTERVAL);
        if is_soon || quality <= self.quality * IMPROVEMENT {
            return false;
        }
        *self = Self {
            quality,
            at: Some(now),
        };
        true
    }
}

/// Quality of a picture without its sharpness: 0 to 1. `xyxy` in pixels of an image of `size`.
pub fn picture_quality(score: f32, xyxy: &Xyxy, size: Size) -> f32 {
    let (width, height) = (size.width.max(1) as f32, size.height.max(1) as f32);
    let [left, top, right, bottom] = [
        xyxy[0] / width,
        xyxy[1] / height,
        xyxy[2] / width,
        xyxy[3] / height,
    ];
    let inside = |edge: f32| edge.clamp(0.0, 1.0);
    let area = (inside(right) - inside(left)).max(0.0) * (inside(bottom) - inside(top)).max(0.0);
    let is_cut = left < BORDER || top < BORDER || right > 1.0 - BORDER || bottom > 1.0 - BORDER;
    let in_view = if is_cut { CUT_WEIGHT } else { 1.0 };
    let quality = score * area.sqrt() * in_view;
    if quality.is_finite() { quality } else { 0.0 }
}

/// Sharpness of the part `xyxy` of `image`, 0 to 1: the mean difference of neighboring pixels in green, which is near brightness.
/// 0 for a part outside.
pub(super) fn sharpness(image: &Image, xyxy: &Xyxy) -> f32 {
    let size = image.size;
    let range = |from: f32, to: f32, end: u32| {
        let from = from.max(0.0) as u32;
        let to = (to.max(0.0) as u32).min(end);
        // A neighbor on each side.
        (from.max(1), to.min(end.saturating_sub(1)))
    };
    let (left, right) = range(xyxy[0], xyxy[2], size.width);
    let (top, bottom) = range(xyxy[1], xyxy[3], size.height);
    if left >= right || top >= bottom {
        return 0.0;
    }
    let (step_x, step_y) = (
        ((right - left) / SAMPLES).max(1),
        ((bottom - top) / SAMPLES).max(1),
    );
    let (mut sum, mut count) = (0_u64, 0_u64);
    for y in (top..bottom).step_by(step_y as usize) {
        let rows = [image.row(y - 1), image.row(y), image.row(y + 1)];
        for x in (left..right).step_by(step_x as usize) {
            let green = |row: usize, x: u32| rows[row][x as usize * PIXEL_BYTES + 1];
            let across = green(1, x + 1).abs_diff(green(1, x - 1));
            let along = green(2, x).abs_diff(green(0, x));
            sum += u64::from(across) + u64::from(along);
            count += 2;
        }
    }
    let mean = sum as f32 / count.max(1) as f32;
    mean / (mean + HALF_SHARP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        width: 100,
        height: 100,
    };

    fn image(pixel: impl Fn(u32, u32) -> u8) -> Image {
        let mut bytes = Vec::new();
        for y in 0..SIZE.height {
            for x in 0..SIZE.width {
                bytes.extend([pixel(x, y); PIXEL_BYTES]);
            }
        }
        Image::new(SIZE, SIZE.width as usize * PIXEL_BYTES, Box::new(bytes)).expect("its size")
    }

    #[test]
    fn sure_large_and_whole_objects_are_better() {
        let best = picture_quality(0.9, &[20.0, 20.0, 80.0, 80.0], SIZE);
        for (score, xyxy) in [
            (0.5, [20.0, 20.0, 80.0, 80.0]),
            (0.9, [40.0, 40.0, 60.0, 60.0]),
            (0.9, [0.0, 20.0, 60.0, 80.0]),
            (0.9, [60.0, 20.0, 120.0, 80.0]),
            (f32::NAN, [20.0, 20.0, 80.0, 80.0]),
            (0.9, [80.0, 80.0, 20.0, 20.0]),
        ] {
            let other = picture_quality(score, &xyxy, SIZE);
            assert!((0.0..best).contains(&other), "{score} {xyxy:?}: {other}");
        }
    }

    #[test]
    fn sharp_pictures_are_better_than_blurred_ones() {
        let all = [0.0, 0.0, 100.0, 100.0];
        let sharp = image(|x, y| if (x / 2 + y / 2) % 2 == 0 { 0 } else { 255 });
        let blurred = image(|x, _| x as u8);
        let flat = image(|_, _| 90);
        assert!(sharpness(&sharp, &all) > 0.8);
        assert!((0.1..0.4).contains(&sharpness(&blurred, &all)));
        assert_eq!(sharpness(&flat, &all), 0.0);
        for outside in [
            [200.0, 0.0, 300.0, 50.0],
            [50.0, 50.0, 20.0, 20.0],
            [f32::NAN; 4],
        ] {
            assert_eq!(sharpness(&sharp, &outside), 0.0, "{outside:?}");
        }
    }

    #[test]
    fn pictures_are_taken_on_improvement_and_seldom() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut best = BestSoFar::default();
        let steps = [
            (0.0, 0, false),
            (0.2, 0, true),
            (0.4, 100, false),
            (0.21, 500, false),
            (0.4, 500, true),
            (0.2, 1000, false),
        ];
        for (quality, ms, wanted) in steps {
            assert_eq!(best.improves(quality, at(ms)), wanted, "{quality} {ms}");
        }
    }
}
