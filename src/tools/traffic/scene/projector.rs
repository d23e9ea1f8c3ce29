// SPDX-License-Identifier: Apache-2.0
//! Solid objects as flat shapes: projects faces, limbs and prisms of one object onto a canvas.
//!
//! Boxes and pixels agree because both come from the same projector: [`Raster`](super::raster::Raster) fills the shapes,
//! [`VisibilityBuffer`](super::visibility::VisibilityBuffer) measures them. Shapes come in painter's order, farthest first.

use super::appearance::{Appearance, Rgb, unit};
use super::camera::{Camera, NEAREST_M, Pose};

/// Maximum number of corners of a face, before clipping at the near plane.
const MAX_CORNERS: usize = 30;

/// Color and opacity of a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Paint {
    /// Red, green, blue at the shape's upper end.
    pub(super) top: [u8; 3],
    /// The same at its lower end.
    pub(super) bottom: [u8; 3],
    /// From 0 (invisible) to 1 (opaque).
    pub(super) opacity: f32,
}

/// Receives shapes in image coordinates (see [`camera`](super::camera)), farthest first.
pub(super) trait Canvas {
    /// Whether the canvas uses colors; without, they are not computed.
    const COLORED: bool;

    /// Starts a part of the object, to which the following shapes belong: 0 the object itself, 1 its rider.
    fn part(&mut self, part: u8);

    /// A simple polygon.
    fn polygon(&mut self, corners: &[[f32; 2]], paint: Paint);

    /// The area swept by a disc that moves from one point to another while its radius changes linearly.
    fn limb(
        &mut self,
        from: [f32; 2],
        from_radius: f32,
        to: [f32; 2],
        to_radius: f32,
        paint: Paint,
    );
}

/// Draws one object at a pose.
pub(super) struct Projector<'a, C> {
    pub(super) canvas: &'a mut C,
    pub(super) camera: &'a Camera,
    pub(super) appearance: &'a Appearance,
    pub(super) pose: Pose,
}

/// A cross section of a prism: position ahead, height above ground and half width there, in meters.
pub(super) type CrossSection = [f32; 3];

/// A face between two cross sections `a` and `b`: `[a left, b left, b right, a right]`.
pub(super) type Quad = [[f32; 3]; 4];

impl<C: Canvas> Projector<'_, C> {
    /// Position of the camera in the object's coordinates: forward, up, left.
    pub(super) fn eye(&self) -> [f32; 3] {
        self.pose.eye(self.camera.height_m)
    }

    /// Draws a flat, lit face in the object's coordinates.
    pub(super) fn face(&mut self, corners: &[[f32; 3]], color: Rgb) {
        self.shaded(corners, color, color);
    }

    /// Draws a flat, lit face with a color gradient from its upper to its lower end in the image.
    pub(super) fn shaded(&mut self, corners: &[[f32; 3]], top: Rgb, bottom: Rgb) {
        self.fill(corners, |appearance, normal, depth| Paint {
            top: appearance.shade(top, normal, depth),
            bottom: appearance.shade(bottom, normal, depth),
            opacity: 1.0,
        });
    }

    /// Color of a vehicle's headlight, which is on in the dark.
    pub(super) fn headlight(&self) -> Rgb {
        if self.appearance.is_dark() {
            [1.0, 0.97, 0.84]
        } else {
            [0.86, 0.87, 0.86]
        }
    }

    /// Draws a face that emits light.
    pub(super) fn lamp(&mut self, corners: &[[f32; 3]], light: Rgb) {
        self.blend_haze(corners, light, 1.0);
    }

    /// Draws a translucent face of this color, not lit.
    pub(super) fn blend_haze(&mut self, corners: &[[f32; 3]], light: Rgb, opacity: f32) {
        self.fill(corners, |appearance, _, depth| {
            let color = appearance.tone_map(light, depth);
            Paint {
                top: color,
                bottom: color,
                opacity,
            }
        });
    }

    fn fill(&mut self, corners: &[[f32; 3]], paint: impl Fn(&Appearance, [f32; 3], f32) -> Paint) {
        debug_assert!(corners.len() <= MAX_CORNERS);
        let mut view = [[0.0; 3]; MAX_CORNERS];
        let count = corners.len().min(MAX_CORNERS);
        let mut nearest = f32::INFINITY;
        for (place, corner) in view.iter_mut().zip(corners) {
            *place = self.pose.to_view(*corner);
            nearest = nearest.min(place[2]);
        }
        let view = &view[..count];
        let paint = if C::COLORED {
            let normal = normal_to_camera(view, self.camera.height_m);
            let depth = view.iter().map(|corner| corner[2]).sum::<f32>() / count as f32;
            paint(self.appearance, normal, depth)
        } else {
            // The opacity is needed in any case: translucent faces do not belong to the extent.
            paint(self.appearance, [0.0, 1.0, 0.0], 1.0)
        };
        let mut flat = [[0.0; 2]; MAX_CORNERS + 2];
        let mut length = 0;
        if nearest >= NEAREST_M {
            for corner in view {
                flat[length] = self.camera.project(*corner);
                length += 1;
            }
        } else {
            // Clipping at one plane adds at most one corner to a convex face.
            for (i, corner) in view.iter().enumerate() {
                let next = view[(i + 1) % count];
                if corner[2] >= NEAREST_M {
                    flat[length] = self.camera.project(*corner);
                    length += 1;
                }
                if (corner[2] >= NEAREST_M) != (next[2] >= NEAREST_M) && length < flat.len() {
                    let share = (NEAREST_M - corner[2]) / (next[2] - corner[2]);
                    let mut cut = [0, 1, 2].map(|k| corner[k] + (next[k] - corner[k]) * share);
                    cut[2] = NEAREST_M;
                    flat[length] = self.camera.project(cut);
                    length += 1;
                }
            }
        }
        if length >= 3 {
            self.canvas.polygon(&flat[..length], paint);
        }
    }

    /// Draws a round limb between two points of the object, with radii in meters, lit from the camera's side.
    pub(super) fn limb(
        &mut self,
        from: [f32; 3],
        from_radius: f32,
        to: [f32; 3],
        to_radius: f32,
        color: Rgb,
    ) {
        let (a, b) = (self.pose.to_view(from), self.pose.to_view(to));
        if a[2] < NEAREST_M || b[2] < NEAREST_M {
            return;
        }
        let paint = if C::COLORED {
            let shade = self
                .appearance
                .shade(color, [0.0, 0.45, -0.89], 0.5 * (a[2] + b[2]));
            Paint {
                top: shade,
                bottom: shade,
                opacity: 1.0,
            }
        } else {
            Paint {
                top: [0; 3],
                bottom: [0; 3],
                opacity: 1.0,
            }
        };
        let (scale_a, scale_b) = (self.camera.focal / a[2], self.camera.focal / b[2]);
        self.canvas.limb(
            self.camera.project(a),
            from_radius * scale_a,
            self.camera.project(b),
            to_radius * scale_b,
            paint,
        );
    }

    /// The face between two cross sections of a prism, if its outer side is visible. `middle` is any point inside the prism.
    pub(super) fn strip(&self, middle: [f32; 3], a: CrossSection, b: CrossSection) -> Option<Quad> {
        let quad = [
            [a[0], a[1], a[2]],
            [b[0], b[1], b[2]],
            [b[0], b[1], -b[2]],
            [a[0], a[1], -a[2]],
        ];
        let along = subtract(quad[1], quad[0]);
        let across = subtract(quad[3], quad[0]);
        let normal = cross(along, across);
        let place = [(a[0] + b[0]) * 0.5, (a[1] + b[1]) * 0.5, 0.0];
        let outward = dot(normal, subtract(place, middle));
        (dot(normal, subtract(self.eye(), place)) * outward > 0.0).then_some(quad)
    }

    /// Visible side of an object of this half width: 1 left, −1 right, 0 neither (from straight ahead or behind).
    pub(super) fn visible_side(&self, half_width: f32) -> f32 {
        let left = self.eye()[2];
        if left > half_width {
            1.0
        } else if left < -half_width {
            -1.0
        } else {
            0.0
        }
    }

    /// Draws the visible side of a prism from its cross sections.
    pub(super) fn side<const N: usize>(
        &mut self,
        sections: &[CrossSection; N],
        top: Rgb,
        bottom: Rgb,
    ) {
        let half_width = sections
            .iter()
            .map(|section| section[2])
            .fold(0.0, f32::max);
        let side = self.visible_side(half_width);
        if side != 0.0 {
            self.shaded(
                &sections.map(|[ahead, up, left]| [ahead, up, left * side]),
                top,
                bottom,
            );
        }
    }

    /// Draws an upright rectangle parallel to the object's axis, `left` meters from it.
    pub(super) fn panel(&mut self, left: f32, ahead: [f32; 2], up: [f32; 2], color: Rgb) {
        self.face(
            &[
                [ahead[0], up[0], left],
                [ahead[1], up[0], left],
                [ahead[1], up[1], left],
                [ahead[0], up[1], left],
            ],
            color,
        );
    }
}

/// Part of a quad: `across` from left (0) to right (1), `along` from the first cross section (0) to the second (1).
pub(super) fn patch(quad: &Quad, across: [f32; 2], along: [f32; 2]) -> Quad {
    let point = |u: f32, v: f32| {
        [0, 1, 2].map(|k| {
            let first = quad[0][k] + (quad[3][k] - quad[0][k]) * u;
            let second = quad[1][k] + (quad[2][k] - quad[1][k]) * u;
            first + (second - first) * v
        })
    };
    [
        point(across[0], along[0]),
        point(across[0], along[1]),
        point(across[1], along[1]),
        point(across[1], along[0]),
    ]
}

fn subtract(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The unit normal of a face, towards the camera's side.
fn normal_to_camera(view: &[[f32; 3]], camera_m: f32) -> [f32; 3] {
    let third = view.len() / 3;
    let normal = unit(cross(
        subtract(view[third.max(1)], view[0]),
        subtract(view[(2 * third).max(2)], view[0]),
    ));
    let to_camera = subtract([0.0, camera_m, 0.0], view[0]);
    if dot(normal, to_camera) < 0.0 {
        normal.map(|c| -c)
    } else {
        normal
    }
}
