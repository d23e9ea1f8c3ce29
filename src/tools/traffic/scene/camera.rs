// SPDX-License-Identifier: Apache-2.0
//! Projection from the street to the image: a lens with a shifted axis, so that vertical lines stay vertical.
//!
//! Three coordinate systems, the first two in meters:
//!
//! ```text
//! street   s along the road, l across it; the origin is on the center line
//! view     x right, y up, z away from the camera; the road is y = 0
//! image    u right, v down, in image heights, from the top left corner
//! ```

use super::appearance::{Appearance, Layout};
use super::rng::{cos_approx, sin_approx};

/// Distance of the near plane, in meters.
pub(super) const NEAREST_M: f32 = 0.7;

/// The lens, and the position of the road relative to it.
#[derive(Debug, Clone)]
pub(super) struct Camera {
    /// Width of the image in image heights.
    pub(super) aspect: f32,
    pub(super) focal: f32,
    pub(super) horizon: f32,
    pub(super) height_m: f32,
    cos: f32,
    sin: f32,
    /// Origin of the street: view x and z.
    origin: [f32; 2],
}

impl Camera {
    /// The camera of this appearance. The corridor, `half_m` meters to either side of the center line, is in front of it.
    pub(super) fn new(appearance: &Appearance, aspect: f32, half_m: f32) -> Self {
        let (cos, sin) = (
            cos_approx(appearance.yaw_turns),
            sin_approx(appearance.yaw_turns),
        );
        let length = (cos * cos + sin * sin).sqrt();
        let (cos, sin) = (cos / length, sin / length);
        let first_row_m = appearance.focal * appearance.camera_m / (1.0 - appearance.horizon);
        let origin = match appearance.layout {
            // The near pavement starts slightly above the lower edge of the image.
            Layout::Across | Layout::Oblique => {
                [0.0, first_row_m + half_m - appearance.pavement_m * 0.45]
            }
            // The camera is above the road, off its center line.
            Layout::Avenue => [(appearance.pavement_m - 3.4) * 2.0, 0.0],
        };
        Self {
            aspect,
            focal: appearance.focal,
            horizon: appearance.horizon,
            height_m: appearance.camera_m,
            cos,
            sin,
            origin,
        }
    }

    /// Street to view: `[x, z]`.
    pub(super) fn to_view(&self, street: [f32; 2]) -> [f32; 2] {
        let turned = self.turn(street);
        [turned[0] + self.origin[0], turned[1] + self.origin[1]]
    }

    /// Direction on the street to direction in the view.
    pub(super) fn turn(&self, [s, l]: [f32; 2]) -> [f32; 2] {
        [s * self.cos - l * self.sin, s * self.sin + l * self.cos]
    }

    /// View to street: the inverse of [`to_view`](Self::to_view).
    pub(super) fn to_street(&self, [x, z]: [f32; 2]) -> [f32; 2] {
        let (x, z) = (x - self.origin[0], z - self.origin[1]);
        [x * self.cos + z * self.sin, z * self.cos - x * self.sin]
    }

    /// Position of the camera on the street.
    pub(super) fn stand(&self) -> [f32; 2] {
        self.to_street([0.0, 0.0])
    }

    /// View to image. `z` must be at least [`NEAREST_M`].
    pub(super) fn project(&self, [x, y, z]: [f32; 3]) -> [f32; 2] {
        let scale = self.focal / z;
        [
            self.aspect * 0.5 + x * scale,
            self.horizon + (self.height_m - y) * scale,
        ]
    }

    /// The ray through a point of the image, as the view vector with `z = 1`.
    pub(super) fn ray(&self, [u, v]: [f32; 2]) -> [f32; 3] {
        [
            (u - self.aspect * 0.5) / self.focal,
            (self.horizon - v) / self.focal,
            1.0,
        ]
    }

    /// Depth at which this ray meets the plane at lateral position `l`; `None` where it is parallel or points away.
    pub(super) fn depth_at_lateral(&self, ray: [f32; 3], l: f32) -> Option<f32> {
        let slope = self.cos - ray[0] * self.sin;
        let distance = l - self.stand()[1];
        let depth = distance / slope;
        (slope != 0.0 && depth > 0.0).then_some(depth)
    }

    /// Whether part of a vertical line of `height_m` meters at this point of the street is in the image and within `far_m`.
    pub(super) fn sees(&self, street: [f32; 2], height_m: f32, far_m: f32) -> bool {
        let [x, z] = self.to_view(street);
        if z < NEAREST_M || z > far_m {
            return false;
        }
        let [u, foot] = self.project([x, 0.0, z]);
        let [_, head] = self.project([x, height_m, z]);
        (0.0..=self.aspect).contains(&u) && head < 1.0 && foot > 0.0
    }
}

/// Position and heading of an object, in the view.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pose {
    /// Its center on the ground: x and z.
    pub(super) at: [f32; 2],
    /// Unit vector of its forward direction: x and z.
    pub(super) forward: [f32; 2],
}

impl Pose {
    /// A point of the object, given as forward, up, left, in the view.
    pub(super) fn to_view(self, [ahead, up, left]: [f32; 3]) -> [f32; 3] {
        let [fx, fz] = self.forward;
        [
            self.at[0] + ahead * fx - left * fz,
            up,
            self.at[1] + ahead * fz + left * fx,
        ]
    }

    /// Position of the camera in the object's coordinates: forward, up, left.
    pub(super) fn eye(self, height_m: f32) -> [f32; 3] {
        let [fx, fz] = self.forward;
        let [x, z] = self.at;
        [-x * fx - z * fz, height_m, x * fz - z * fx]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projection_and_unprojection_are_inverse() {
        for seed in 0..10 {
            let camera = Camera::new(&Appearance::from_seed(seed), 16.0 / 9.0, 8.0);
            for street in [[0.0, 0.0], [12.0, -3.0], [-40.0, 7.5]] {
                let back = camera.to_street(camera.to_view(street));
                assert!(
                    (back[0] - street[0]).abs() < 1e-3 && (back[1] - street[1]).abs() < 1e-3,
                    "seed {seed}: {street:?} {back:?}"
                );
            }
        }
    }

    #[test]
    fn rays_hit_the_plane_that_they_came_from() {
        for seed in 0..10 {
            let camera = Camera::new(&Appearance::from_seed(seed), 16.0 / 9.0, 8.0);
            let [x, z] = camera.to_view([25.0, 9.0]);
            if z < 1.0 {
                continue;
            }
            let depth = camera.depth_at_lateral(camera.ray(camera.project([x, 2.0, z])), 9.0);
            assert!(
                depth.is_some_and(|depth| (depth - z).abs() < z * 0.01),
                "seed {seed}: {depth:?} for {z}"
            );
        }
    }

    #[test]
    fn the_eye_is_where_the_camera_is() {
        let pose = Pose {
            at: [3.0, 10.0],
            forward: [0.6, 0.8],
        };
        let [x, y, z] = pose.to_view(pose.eye(4.0));
        assert!(x.abs() < 1e-5 && z.abs() < 1e-5 && y == 4.0);
    }
}
