// SPDX-License-Identifier: Apache-2.0
//! A similarity transform of the plane: rotation, uniform scale and translation. It describes how the image of a static
//! scene moved between two frames because the camera moved. Computing it from images is not part of this; the tracker
//! applies it to its tracks.

use super::Xyxy;

/// Maps the point `(x, y)` to `(a·x − b·y + x_shift, b·x + a·y + y_shift)`, in source pixels. `a` and `b` are the scale times
/// the cosine and the sine of the angle of rotation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Similarity {
    /// Scale times the cosine of the angle.
    pub a: f64,
    /// Scale times the sine of the angle.
    pub b: f64,
    /// Shift to the right in pixels, after rotation and scaling about the origin, the top left corner of the image.
    pub x_shift: f64,
    /// Shift down in pixels, likewise.
    pub y_shift: f64,
}

impl Similarity {
    /// Maps every point to itself.
    pub const IDENTITY: Self = Self::shift(0.0, 0.0);

    /// A translation by this number of pixels to the right and down.
    pub const fn shift(x_shift: f64, y_shift: f64) -> Self {
        Self {
            a: 1.0,
            b: 0.0,
            x_shift,
            y_shift,
        }
    }

    /// Scales by `scale`, rotates by `angle` radians (clockwise in the image, whose y axis points down), and maps `center` to
    /// itself.
    pub fn about(center: [f64; 2], scale: f64, angle: f64) -> Self {
        let (a, b) = (scale * angle.cos(), scale * angle.sin());
        let [x, y] = center;
        Self {
            a,
            b,
            x_shift: x - (a * x - b * y),
            y_shift: y - (b * x + a * y),
        }
    }

    /// The scale: 1 where sizes do not change.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.a.hypot(self.b)
    }

    /// Maps a point.
    pub fn point(&self, point: [f64; 2]) -> [f64; 2] {
        let [x, y] = self.direction(point);
        [x + self.x_shift, y + self.y_shift]
    }

    /// Maps a difference of two points, such as a velocity: rotates and scales it.
    pub fn direction(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [self.a * x - self.b * y, self.b * x + self.a * y]
    }

    /// Maps the center of a box, and scales its width and height. The box stays upright: a rotation turns the picture of an
    /// object, and a detector draws an upright box around it again.
    pub fn xyxy(&self, xyxy: &Xyxy) -> Xyxy {
        let [left, top, right, bottom] = xyxy.map(f64::from);
        let [x, y] = self.point([f64::midpoint(left, right), f64::midpoint(top, bottom)]);
        let half = self.scale() / 2.0;
        let (across, down) = (half * (right - left), half * (bottom - top));
        [x - across, y - down, x + across, y + down].map(|edge| edge as f32)
    }

    /// This transform, then `next`.
    pub fn then(&self, next: &Self) -> Self {
        let [a, b] = next.direction([self.a, self.b]);
        let [x_shift, y_shift] = next.point([self.x_shift, self.y_shift]);
        Self {
            a,
            b,
            x_shift,
            y_shift,
        }
    }

    /// The transform in the opposite direction; `None` when the scale is 0 or a value is not finite.
    pub fn inverse(&self) -> Option<Self> {
        let square = self.a * self.a + self.b * self.b;
        let linear = Self {
            a: self.a / square,
            b: -self.b / square,
            x_shift: 0.0,
            y_shift: 0.0,
        };
        let [x, y] = linear.direction([self.x_shift, self.y_shift]);
        let inverse = Self {
            x_shift: -x,
            y_shift: -y,
            ..linear
        };
        inverse.is_finite().then_some(inverse)
    }

    /// Whether all values are finite and the scale is above 0.
    pub fn is_finite(&self) -> bool {
        [self.a, self.b, self.x_shift, self.y_shift]
            .iter()
            .all(|value| value.is_finite())
            && self.scale() > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: [f64; 2], expected: [f64; 2]) {
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-9, "{found:?} instead of {expected:?}");
        }
    }

    #[test]
    fn a_quarter_turn_with_scale_two_maps_known_points() {
        let turn = Similarity::about([10.0, 20.0], 2.0, std::f64::consts::FRAC_PI_2);
        assert_near(turn.point([10.0, 20.0]), [10.0, 20.0]);
        // One pixel to the right becomes two down.
        assert_near(turn.point([11.0, 20.0]), [10.0, 22.0]);
        assert_near(turn.direction([1.0, 0.0]), [0.0, 2.0]);
        assert!((turn.scale() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_box_moves_with_its_center_and_scales_its_sides() {
        let zoom = Similarity::about([0.0, 0.0], 2.0, 0.0).then(&Similarity::shift(5.0, -1.0));
        assert_eq!(
            zoom.xyxy(&[10.0, 20.0, 30.0, 60.0]),
            [25.0, 39.0, 65.0, 119.0]
        );
        assert_eq!(
            Similarity::IDENTITY.xyxy(&[1.0, 2.0, 3.0, 4.0]),
            [1.0, 2.0, 3.0, 4.0]
        );
    }

    #[test]
    fn inverse_and_composition_cancel() {
        let motion =
            Similarity::about([320.0, 180.0], 1.1, 0.05).then(&Similarity::shift(3.0, 7.0));
        let back = motion.inverse().expect("the scale is above 0");
        for point in [[0.0, 0.0], [640.0, 360.0], [-3.0, 99.5]] {
            assert_near(back.point(motion.point(point)), point);
            assert_near(motion.then(&back).point(point), point);
        }
        let flat = Similarity {
            a: 0.0,
            ..Similarity::IDENTITY
        };
        assert_eq!(flat.inverse(), None);
        assert!(!flat.is_finite());
    }
}
