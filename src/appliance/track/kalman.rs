// SPDX-License-Identifier: Apache-2.0
//! Predicts boxes: a constant-velocity Kalman filter, in the forms published with SORT and BoT-SORT.
//!
//! In both, the measured values of a box (center and size) are independent of each other in the model, and the noise is
//! diagonal. The filter of seven or eight values therefore splits into four filters of two, a value and its rate, with the
//! same result and no matrices. [`Tracker`](super::Tracker) keeps one for each track.

use jetwatch_types::{Similarity, Xyxy};

/// The values that describe a box, and their noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MotionModel {
    /// SORT: center, area and aspect; the aspect has no rate. Noises are in pixels, but only their ratios matter, so that boxes
    /// of every size are smoothed alike.
    AreaAspect,
    /// BoT-SORT: center, width and height. Horizontal noises are shares of the width, vertical ones of the height. A box
    /// that is gradually uncovered in one direction, at the image's edge or behind another object, changes its aspect at a
    /// steady rate, which the other forms cannot predict through frames without inference.
    WidthHeight,
}

/// The motion of one box.
#[derive(Debug, Clone, Copy)]
pub(super) struct KalmanBox {
    model: MotionModel,
    /// Center x, center y, and the two size values of the model.
    axes: [Axis; 4],
}

/// A value and its rate per frame, with their covariance.
#[derive(Debug, Clone, Copy)]
struct Axis {
    value: f64,
    rate: f64,
    value_variance: f64,
    covariance: f64,
    rate_variance: f64,
}

/// Per axis: variance of the value and variance of its rate.
type Noise = [(f64, f64); 4];

/// SORT's initial variances, process noise per frame, and measurement noise. The area's process noise is 2 instead of 1: on
/// public sequences the boxes of objects that come nearer lag less.
const AREA_START: Noise = [(10.0, 1e4), (10.0, 1e4), (10.0, 1e4), (10.0, 0.0)];
const AREA_FRAME: Noise = [(1.0, 0.01), (1.0, 0.01), (2.0, 1e-4), (1.0, 0.0)];
const AREA_MEASURED: [f64; 4] = [1.0, 1.0, 10.0, 10.0];

/// BoT-SORT's standard deviations of positions and rates, as shares of a side. The initial ones are twice those of the
/// position and ten times those of the rate.
const POSITION_SHARE: f64 = 1.0 / 20.0;
const RATE_SHARE: f64 = 1.0 / 160.0;

impl KalmanBox {
    /// A box detected for the first time, with velocity 0.
    pub(super) fn new(model: MotionModel, xyxy: &Xyxy) -> Self {
        let measured = measure(model, xyxy);
        let noise = match model {
            MotionModel::AreaAspect => AREA_START,
            MotionModel::WidthHeight => sides_noise(measured[2], measured[3], 2.0, 10.0),
        };
        let axis = |index: usize| Axis {
            value: measured[index],
            rate: 0.0,
            value_variance: noise[index].0,
            covariance: 0.0,
            rate_variance: noise[index].1,
        };
        Self {
            model,
            axes: [axis(0), axis(1), axis(2), axis(3)],
        }
    }

    /// Advances by one frame. With widths and heights, the size of a box that is not visible does not change at its last
    /// rate, as in ByteTrack: when an object walks behind another, only its visible part shrinks.
    pub(super) fn predict(&mut self, visibility: Visibility) {
        let noise = match self.model {
            MotionModel::AreaAspect => AREA_FRAME,
            MotionModel::WidthHeight => {
                if visibility == Visibility::Hidden {
                    self.axes[2].rate = 0.0;
                    self.axes[3].rate = 0.0;
                }
                sides_noise(self.axes[2].value, self.axes[3].value, 1.0, 1.0)
            }
        };
        for (index, (axis, noise)) in self.axes.iter_mut().zip(noise).enumerate() {
            // A size that would become zero or negative stays as it is, as in SORT.
            if index >= 2 && axis.value + axis.rate <= 0.0 {
                axis.rate = 0.0;
            }
            axis.predict(noise);
        }
    }

    /// Updates the filter with the box of a detection.
    pub(super) fn correct(&mut self, xyxy: &Xyxy) {
        let variance = match self.model {
            MotionModel::AreaAspect => AREA_MEASURED,
            MotionModel::WidthHeight => {
                let across = (POSITION_SHARE * self.axes[2].value).powi(2);
                let down = (POSITION_SHARE * self.axes[3].value).powi(2);
                [across, down, across, down]
            }
        };
        let measured = measure(self.model, xyxy);
        for ((axis, measured), variance) in self.axes.iter_mut().zip(measured).zip(variance) {
            axis.correct(measured, variance);
        }
    }

    /// Moves the estimate into the coordinates of an image that `motion` maps the previous one to. The two positions keep
    /// independent errors, which is exact without rotation.
    pub(super) fn transform(&mut self, motion: &Similarity) {
        let scale = motion.scale();
        let [x, y, third, fourth] = &mut self.axes;
        [x.value, y.value] = motion.point([x.value, y.value]);
        [x.rate, y.rate] = motion.direction([x.rate, y.rate]);
        let scales = match self.model {
            MotionModel::AreaAspect => [scale * scale, 1.0],
            MotionModel::WidthHeight => [scale, scale],
        };
        for (axis, scale) in [third, fourth].into_iter().zip(scales) {
            axis.value *= scale;
            axis.rate *= scale;
        }
        for (axis, scale) in self
            .axes
            .iter_mut()
            .zip([scale, scale, scales[0], scales[1]])
        {
            let square = scale * scale;
            axis.value_variance *= square;
            axis.covariance *= square;
            axis.rate_variance *= square;
        }
    }

    /// The estimated box; it may be partly outside the image.
    pub(super) fn xyxy(&self) -> Xyxy {
        let [x, y, third, fourth] = self.axes.map(|axis| axis.value);
        let (width, height) = match self.model {
            MotionModel::AreaAspect => {
                let width = (third * fourth).max(0.0).sqrt();
                (width, if width > 0.0 { third / width } else { 0.0 })
            }
            MotionModel::WidthHeight => (third, fourth),
        };
        [
            (x - width / 2.0) as f32,
            (y - height / 2.0) as f32,
            (x + width / 2.0) as f32,
            (y + height / 2.0) as f32,
        ]
    }
}

/// Whether the object was matched in the previous frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visibility {
    Visible,
    Hidden,
}

impl Axis {
    fn predict(&mut self, (value, rate): (f64, f64)) {
        self.value += self.rate;
        self.value_variance += 2.0 * self.covariance + self.rate_variance + value;
        self.covariance += self.rate_variance;
        self.rate_variance += rate;
    }

    fn correct(&mut self, measured: f64, variance: f64) {
        let innovation = measured - self.value;
        let total = self.value_variance + variance;
        let (gain, rate_gain) = (self.value_variance / total, self.covariance / total);
        self.value += gain * innovation;
        self.rate += rate_gain * innovation;
        self.rate_variance -= rate_gain * self.covariance;
        self.covariance *= 1.0 - gain;
        self.value_variance *= 1.0 - gain;
    }
}

/// The values of a box in the model's order.
fn measure(model: MotionModel, xyxy: &Xyxy) -> [f64; 4] {
    let [left, top, right, bottom] = xyxy.map(f64::from);
    let (width, height) = (right - left, bottom - top);
    let (x, y) = (left + width / 2.0, top + height / 2.0);
    match model {
        MotionModel::AreaAspect => [x, y, width * height, width / height],
        MotionModel::WidthHeight => [x, y, width, height],
    }
}

/// BoT-SORT's variances for a box of these sides, with factors on the standard deviations.
fn sides_noise(width: f64, height: f64, position_factor: f64, rate_factor: f64) -> Noise {
    let [across, down] = [width, height].map(|side| {
        let position = (position_factor * POSITION_SHARE * side).powi(2);
        let rate = (rate_factor * RATE_SHARE * side).powi(2);
        (position, rate)
    });
    [across, down, across, down]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODELS: [MotionModel; 2] = [MotionModel::AreaAspect, MotionModel::WidthHeight];

    /// A box of 40 × 80 whose left edge is at `x`.
    fn at(x: f32) -> Xyxy {
        [x, 10.0, x + 40.0, 90.0]
    }

    fn assert_near(found: &Xyxy, expected: &Xyxy, within: f32) {
        for (a, b) in found.iter().zip(expected) {
            assert!(
                (a - b).abs() <= within,
                "{found:?} instead of {expected:?} within {within}"
            );
        }
    }

    #[test]
    fn a_box_measured_once_stays_where_it_is() {
        for model in MODELS {
            let mut motion = KalmanBox::new(model, &at(5.0));
            for _ in 0..10 {
                motion.predict(Visibility::Visible);
                assert_near(&motion.xyxy(), &at(5.0), 1e-3);
            }
        }
    }

    #[test]
    fn steady_motion_is_learned_and_predicted_without_measurements() {
        for model in MODELS {
            let mut motion = KalmanBox::new(model, &at(0.0));
            for frame in 1..=30 {
                motion.predict(Visibility::Visible);
                motion.correct(&at(3.0 * frame as f32));
            }
            assert_near(&motion.xyxy(), &at(90.0), 0.5);
            for _ in 0..10 {
                motion.predict(Visibility::Hidden);
            }
            assert_near(&motion.xyxy(), &at(120.0), 3.0);
        }
    }

    #[test]
    fn a_box_that_enters_the_image_keeps_its_height_between_measurements() {
        // Its right edge moves, and its left one is that of the image.
        let entering_box = |frame: f32| [0.0, 10.0, 20.0 + 5.0 * frame, 90.0];
        let mut motion = KalmanBox::new(MotionModel::WidthHeight, &entering_box(0.0));
        for update in 1..=6 {
            (0..4).for_each(|_| motion.predict(Visibility::Visible));
            motion.correct(&entering_box(4.0 * update as f32));
        }
        (0..3).for_each(|_| motion.predict(Visibility::Visible));
        assert_near(&motion.xyxy(), &entering_box(27.0), 4.0);
    }

    #[test]
    fn decoupled_filters_equal_full_kalman_filter() {
        // SORT's position filter by hand: variance 10 and rate 10000, one frame, then a measurement of variance 1.
        let mut motion = KalmanBox::new(MotionModel::AreaAspect, &at(0.0));
        motion.predict(Visibility::Visible);
        motion.correct(&at(10.0));
        let before = 10.0 + 1e4 + 1.0;
        let (gain, rate_gain) = (before / (before + 1.0), 1e4 / (before + 1.0));
        let axis = motion.axes[0];
        assert!((axis.value - (20.0 + 10.0 * gain)).abs() < 1e-9);
        assert!((axis.rate - 10.0 * rate_gain).abs() < 1e-9);
        assert!((axis.value_variance - (1.0 - gain) * before).abs() < 1e-9);
        assert!((axis.covariance - (1.0 - gain) * 1e4).abs() < 1e-9);
        assert!((axis.rate_variance - (1e4 + 0.01 - rate_gain * 1e4)).abs() < 1e-9);
    }

    #[test]
    fn shrinking_box_keeps_positive_size() {
        for model in MODELS {
            let mut motion = KalmanBox::new(model, &[0.0, 0.0, 100.0, 100.0]);
            for frame in 1..=9 {
                motion.predict(Visibility::Visible);
                let half = 50.0 - 5.0 * frame as f32;
                motion.correct(&[50.0 - half, 50.0 - half, 50.0 + half, 50.0 + half]);
            }
            for _ in 0..100 {
                motion.predict(Visibility::Visible);
                let [left, top, right, bottom] = motion.xyxy();
                assert!(
                    right >= left && bottom >= top,
                    "{model:?}: {:?}",
                    motion.xyxy()
                );
            }
        }
    }
}
