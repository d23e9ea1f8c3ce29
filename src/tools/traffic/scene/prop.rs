// SPDX-License-Identifier: Apache-2.0
//! Static objects on the pavements that occlude others: trees, lamp posts, signs, bollards, planters.

use super::appearance::{Appearance, Layout, Rgb};
use super::camera::{Camera, Pose};
use super::object::Order;
use super::projector::{Canvas, Projector};
use super::rng::{Rng, cos_approx, sin_approx};
use super::street::{FAR_M, Street};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tree,
    Lamp,
    Sign,
    Bollard,
    Planter,
}

/// A static object.
#[derive(Debug, Clone)]
pub(super) struct Prop {
    kind: Kind,
    seed: u64,
    pub(super) pose: Pose,
    pub(super) order: Order,
}

/// All props of a street, farthest first.
pub(super) fn place_props(
    appearance: &Appearance,
    street: &Street,
    camera: &Camera,
    seed: u64,
) -> Vec<Prop> {
    let mut rng = Rng::new(&[seed, 0x7072_6f70]);
    let mut props = Vec::new();
    let stand = camera.stand();
    for side in [-1.0_f32, 1.0] {
        let l = side * (street.road_half + 0.55);
        // On the camera's side of the road, tree crowns would hide the street.
        let near_side = side < 0.0 && appearance.layout != Layout::Avenue;
        let mut s = -FAR_M + rng.range(0.0, 6.0);
        while s < FAR_M {
            let kind = rng.choose(if near_side {
                &[Kind::Lamp, Kind::Bollard, Kind::Sign, Kind::Planter]
            } else {
                &[
                    Kind::Tree,
                    Kind::Tree,
                    Kind::Lamp,
                    Kind::Planter,
                    Kind::Sign,
                ]
            });
            let at = camera.to_view([s, l]);
            let on_zebra = street
                .zebra
                .is_some_and(|zebra| (zebra - 1.0..zebra + 4.6).contains(&s));
            // A prop close to the camera would fill the image.
            let clear = (s - stand[0]).powi(2) + (l - stand[1]).powi(2) > 36.0;
            if !on_zebra && clear && camera.sees([s, l], 4.0, FAR_M) {
                props.push(Prop {
                    kind,
                    seed: rng.bits(),
                    // The arms of lamp posts point to the road.
                    pose: Pose {
                        at,
                        forward: camera.turn([0.0, -side]),
                    },
                    order: Order::new(camera, [s, l]),
                });
            }
            s += if near_side {
                rng.range(5.0, 11.0)
            } else {
                rng.range(4.5, 9.0)
            };
        }
    }
    props.sort_by(|a, b| a.order.compare(&b.order));
    props
}

const METAL: Rgb = [0.30, 0.32, 0.33];

impl Prop {
    /// Radius of the dark area on the ground below it, in meters.
    pub(super) fn shade_radius_m(&self) -> f32 {
        match self.kind {
            Kind::Tree => 1.7,
            Kind::Planter => 0.75,
            Kind::Lamp | Kind::Sign | Kind::Bollard => 0.22,
        }
    }

    /// Draws the prop; the projector has its pose.
    pub(super) fn draw<C: Canvas>(&self, projector: &mut Projector<'_, C>) {
        let mut rng = Rng::new(&[self.seed]);
        let pole = |projector: &mut Projector<'_, C>, radius: f32, up: [f32; 2], color: Rgb| {
            projector.limb(
                [0.0, up[0], 0.0],
                radius,
                [0.0, up[1], 0.0],
                radius * 0.8,
                color,
            )
        };
        match self.kind {
            Kind::Tree => draw_tree(projector, &mut rng),
            Kind::Lamp => {
                let height = rng.range(4.8, 6.2);
                pole(projector, 0.08, [0.08, height], METAL);
                pole(projector, 0.13, [0.13, 0.8], METAL.map(|c| c * 0.8));
                projector.limb(
                    [0.0, height, 0.0],
                    0.05,
                    [1.3, height + 0.25, 0.0],
                    0.045,
                    METAL,
                );
                let light = if projector.appearance.is_dark() {
                    [1.6, 1.45, 1.1]
                } else {
                    [0.8, 0.8, 0.76]
                };
                projector.limb(
                    [1.1, height + 0.17, 0.0],
                    0.09,
                    [1.6, height + 0.27, 0.0],
                    0.08,
                    light,
                );
            }
            Kind::Sign => {
                pole(projector, 0.04, [0.04, 2.6], METAL.map(|c| c * 1.4));
                let (outer, inner) = rng.choose(&[
                    ([0.75, 0.10, 0.10], [0.92, 0.92, 0.90]),
                    ([0.12, 0.30, 0.68], [0.90, 0.92, 0.95]),
                    ([0.92, 0.92, 0.9], [0.9, 0.7, 0.1]),
                ]);
                // Signs face traffic, along the road.
                let ring = |radius: f32, ahead: f32| -> [[f32; 3]; 14] {
                    std::array::from_fn(|i| {
                        [
                            radius * cos_approx(i as f32 / 14.0) * 0.8,
                            2.45 + radius * sin_approx(i as f32 / 14.0),
                            ahead,
                        ]
                    })
                };
                projector.face(&ring(0.34, -0.05), outer);
                projector.face(&ring(0.22, -0.05), inner);
            }
            Kind::Bollard => {
                pole(projector, 0.09, [0.09, 0.85], [0.22, 0.23, 0.24]);
                projector.limb(
                    [0.0, 0.72, 0.0],
                    0.092,
                    [0.0, 0.74, 0.0],
                    0.092,
                    [0.85, 0.84, 0.80],
                );
            }
            Kind::Planter => {
                let paint =
                    rng.choose(&[[0.48, 0.46, 0.43], [0.42, 0.30, 0.22], [0.62, 0.60, 0.56]]);
                for i in 0..16 {
                    let at = [
                        rng.range(-0.3, 0.3),
                        rng.range(0.55, 0.95),
                        rng.range(-0.55, 0.55),
                    ];
                    let radius = rng.range(0.10, 0.19);
                    let leaf = [
                        0.16 + 0.02 * (i % 5) as f32,
                        0.30 + 0.035 * (i % 4) as f32,
                        0.14,
                    ];
                    let leaf = if i % 7 == 6 { [0.80, 0.30, 0.40] } else { leaf };
                    projector.limb(at, radius, at, radius, leaf);
                }
                let (a, w, h) = (0.38, 0.65, 0.55);
                for corners in [
                    [[-a, 0.0, -w], [-a, h, -w], [-a, h, w], [-a, 0.0, w]],
                    [[a, 0.0, -w], [a, h, -w], [a, h, w], [a, 0.0, w]],
                    [[-a, 0.0, w], [-a, h, w], [a, h, w], [a, 0.0, w]],
                    [[-a, 0.0, -w], [-a, h, -w], [a, h, -w], [a, 0.0, -w]],
                ] {
                    let eye = projector.eye();
                    let middle = [
                        (corners[0][0] + corners[2][0]) * 0.5,
                        (corners[0][2] + corners[2][2]) * 0.5,
                    ];
                    if middle[0] * (eye[0] - middle[0]) + middle[1] * (eye[2] - middle[1]) > 0.0 {
                        projector.face(&corners, paint);
                    }
                }
            }
        }
    }
}

fn draw_tree<C: Canvas>(projector: &mut Projector<'_, C>, rng: &mut Rng) {
    let (crown_up, crown) = (rng.range(4.0, 5.2), rng.range(1.2, 1.8));
    let bark = rng.choose(&[[0.30, 0.23, 0.17], [0.38, 0.34, 0.29], [0.24, 0.19, 0.15]]);
    let green = rng.choose(&[
        [0.20, 0.36, 0.13],
        [0.28, 0.40, 0.14],
        [0.14, 0.30, 0.14],
        [0.50, 0.38, 0.12],
    ]);
    projector.limb(
        [0.0, 0.1, 0.0],
        0.16,
        [0.05, crown_up - 0.4, 0.0],
        0.11,
        bark,
    );
    for side in [-1.0, 1.0] {
        projector.limb(
            [0.05, crown_up - 1.2, 0.0],
            0.08,
            [0.1, crown_up + 0.2, side * crown * 0.5],
            0.05,
            bark,
        );
    }
    // From the dark interior to the lit upper leaves.
    for i in 0..64 {
        let share = i as f32 / 64.0;
        let (turn, out) = (rng.unit(), rng.unit().sqrt() * (0.55 + 0.45 * share));
        let lift = rng.range(-0.8, 0.75) * (1.0 - 0.4 * out) + 0.25 * share;
        let at = [
            crown * out * cos_approx(turn) * 0.9,
            crown_up + crown * lift,
            crown * out * sin_approx(turn),
        ];
        let radius = crown * rng.range(0.13, 0.26) * (1.25 - 0.6 * share);
        let light = 0.62 + 0.55 * share + 0.18 * lift + rng.range(-0.1, 0.1);
        projector.limb(at, radius, at, radius, green.map(|c| c * light));
    }
}
