//! Solid objects as flat shapes: projects faces, limbs and prisms of one object onto a canvas.
//!
//! Boxes and pixels agree because both are canvases under the same pen: [`Raster`](super::raster::Raster) fills the
//! shapes, [`VisibilityBuffer`](super::census::Census) measures them. Shapes come in painter's order, farthest first.

use super::appearance::{Appearance, Rgb, unit};
use super::camera::{Camera, NEAREST_M, Pose};

/// Most corners of one face before it is cut at the near plane.
const MAX_CORNERS: usize = 30;

/// How a shape is filled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Paint {
    /// Red, green, blue at the shape's upper end.
    pub(super) top: [u8; 3],
    /// The same at its lower end.
    pub(super) bottom: [u8; 3],
    /// 1 covers, 0 is not seen.
    pub(super) opacity: f32,
}

/// Takes shapes in picture coordinates (see [`camera`](super::camera)), farthest first.
pub(super) trait Canvas {
    /// False when paint is not looked at and need not be mixed.
    const COLORED: bool;

    /// The following shapes belong to this part of the thing: 0 the thing itself, 1 its rider.
    fn part(&mut self, part: u8);

    /// A polygon without crossings.
    fn polygon(&mut self, corners: &[[f32; 2]], paint: Paint);

    /// The area swept by a disc on its way from one point to another, its radius changing from the first to the second.
    fn limb(
        &mut self,
        from: [f32; 2],
        from_radius: f32,
        to: [f32; 2],
        to_radius: f32,
        paint: Paint,
    );
}

/// Draws one thing that stands at a pose.
pub(super) struct Projector<'a, C> {
    pub(super) canvas: &'a mut C,
    pub(super) camera: &'a Camera,
    pub(super) appearance: &'a Appearance,
    pub(super) pose: Pose,
}

/// A place along a prism's outline: how far ahead, how high, and half its width there, in meters.
pub(super) type CrossSection = [f32; 3];

/// A face with four corners: left and right end of one rib, then right and left end of the next... in the order `[a left, b left, b right, a right]`.
pub(super) type Quad = [[f32; 3]; 4];

impl<C: Canvas> Projector<'_, C> {
    /// The camera's place, seen from the thing: forward, up, left.
    pub(super) fn eye(&self) -> [f32; 3] {
        self.pose.eye(self.camera.height_m)
    }

    /// A flat face in the thing's coordinates, lit.
    pub(super) fn face(&mut self, corners: &[[f32; 3]], color: Rgb) {
        self.shaded(corners, color, color);
    }

    /// A flat face whose color changes from its upper to its lower end in the picture, lit.
    pub(super) fn shaded(&mut self, corners: &[[f32; 3]], top: Rgb, bottom: Rgb) {
        self.fill(corners, |look, normal, depth| Paint {
            top: look.shade(top, normal, depth),
            bottom: look.shade(bottom, normal, depth),
            opacity: 1.0,
        });
    }

    /// The color of a vehicle's headlight: lit in the dark.
    pub(super) fn headlight(&self) -> Rgb {
        if self.appearance.is_dark() {
            [1.0, 0.97, 0.84]
        } else {
            [0.86, 0.87, 0.86]
        }
    }

    /// A face that shines by itself.
    pub(super) fn lamp(&mut self, corners: &[[f32; 3]], light: Rgb) {
        self.blend_haze(corners, light, 1.0);
    }

    /// A face of this very color, not lit, that lets part of what is behind it through.
    pub(super) fn blend_haze(&mut self, corners: &[[f32; 3]], light: Rgb, opacity: f32) {
        self.fill(corners, |look, _, depth| {
            let color = look.tone_map(light, depth);
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
            // Opacity counts everywhere: what can be seen through is not part of the outline.
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
            // The part beyond the near plane: one plane cuts a convex face into at most one corner more.
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

    /// A round limb between two points of the thing, radii in meters, lit as seen from the camera's side.
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

    /// The strip between two ribs of a prism, when its outer face is seen. `middle` is any point inside the prism.
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

    /// 1 when the left side of a thing of this half width is seen, −1 for the right side, 0 from straight ahead or behind.
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

    /// The end of a prism that looks to the seen side, from its ribs.
    pub(super) fn side<const N: usize>(&mut self, ribs: &[CrossSection; N], top: Rgb, bottom: Rgb) {
        let half_width = ribs.iter().map(|rib| rib[2]).fold(0.0, f32::max);
        let side = self.visible_side(half_width);
        if side != 0.0 {
            self.shaded(
                &ribs.map(|[ahead, up, left]| [ahead, up, left * side]),
                top,
                bottom,
            );
        }
    }

    /// An upright rectangle on a plane along the thing, `left` meters from its middle.
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

/// Part of a quad: `across` from its left (0) to its right (1), `along` from its first rib (0) to its second (1).
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

/// The unit normal of a face that points to the camera's side.
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
