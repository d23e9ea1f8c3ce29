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

/// One thing that never moves.
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
    let mut dice = Rng::new(&[seed, 0x7072_6f70]);
    let mut props = Vec::new();
    let stand = camera.stand();
    for side in [-1.0_f32, 1.0] {
        let l = side * (street.road_half + 0.55);
        // In front of a camera beside the road, crowns would hide the street.
        let near_side = side < 0.0 && appearance.layout != Layout::Avenue;
        let mut s = -FAR_M + dice.range(0.0, 6.0);
        while s < FAR_M {
            let kind = dice.choose(if near_side {
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
            // Nothing stands so near to the camera that it would fill the picture.
            let clear = (s - stand[0]).powi(2) + (l - stand[1]).powi(2) > 36.0;
            if !on_zebra && clear && camera.sees([s, l], 4.0, FAR_M) {
                props.push(Prop {
                    kind,
                    seed: dice.bits(),
                    // Arms of lamps reach over the road.
                    pose: Pose {
                        at,
                        forward: camera.turn([0.0, -side]),
                    },
                    order: Order::new(camera, [s, l]),
                });
            }
            s += if near_side {
                dice.range(5.0, 11.0)
            } else {
                dice.range(4.5, 9.0)
            };
        }
    }
    props.sort_by(|a, b| a.order.compare(&b.order));
    props
}

const METAL: Rgb = [0.30, 0.32, 0.33];

impl Prop {
    /// Radius of what it darkens under itself, in meters.
    pub(super) fn shade_radius_m(&self) -> f32 {
        match self.kind {
            Kind::Tree => 1.7,
            Kind::Planter => 0.75,
            Kind::Lamp | Kind::Sign | Kind::Bollard => 0.22,
        }
    }

    /// Draws it; the pen stands at its pose.
    pub(super) fn draw<C: Canvas>(&self, pen: &mut Projector<'_, C>) {
        let mut dice = Rng::new(&[self.seed]);
        let pole = |pen: &mut Projector<'_, C>, radius: f32, up: [f32; 2], color: Rgb| {
            pen.limb(
                [0.0, up[0], 0.0],
                radius,
                [0.0, up[1], 0.0],
                radius * 0.8,
                color,
            )
        };
        match self.kind {
            Kind::Tree => draw_tree(pen, &mut dice),
            Kind::Lamp => {
                let height = dice.range(4.8, 6.2);
                pole(pen, 0.08, [0.08, height], METAL);
                pole(pen, 0.13, [0.13, 0.8], METAL.map(|c| c * 0.8));
                pen.limb(
                    [0.0, height, 0.0],
                    0.05,
                    [1.3, height + 0.25, 0.0],
                    0.045,
                    METAL,
                );
                let light = if pen.appearance.is_dark() {
                    [1.6, 1.45, 1.1]
                } else {
                    [0.8, 0.8, 0.76]
                };
                pen.limb(
                    [1.1, height + 0.17, 0.0],
                    0.09,
                    [1.6, height + 0.27, 0.0],
                    0.08,
                    light,
                );
            }
            Kind::Sign => {
                pole(pen, 0.04, [0.04, 2.6], METAL.map(|c| c * 1.4));
                let (outer, inner) = dice.choose(&[
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
                pen.face(&ring(0.34, -0.05), outer);
                pen.face(&ring(0.22, -0.05), inner);
            }
            Kind::Bollard => {
                pole(pen, 0.09, [0.09, 0.85], [0.22, 0.23, 0.24]);
                pen.limb(
                    [0.0, 0.72, 0.0],
                    0.092,
                    [0.0, 0.74, 0.0],
                    0.092,
                    [0.85, 0.84, 0.80],
                );
            }
            Kind::Planter => {
                let paint =
                    dice.choose(&[[0.48, 0.46, 0.43], [0.42, 0.30, 0.22], [0.62, 0.60, 0.56]]);
                for i in 0..16 {
                    let at = [
                        dice.range(-0.3, 0.3),
                        dice.range(0.55, 0.95),
                        dice.range(-0.55, 0.55),
                    ];
                    let radius = dice.range(0.10, 0.19);
                    let leaf = [
                        0.16 + 0.02 * (i % 5) as f32,
                        0.30 + 0.035 * (i % 4) as f32,
                        0.14,
                    ];
                    let leaf = if i % 7 == 6 { [0.80, 0.30, 0.40] } else { leaf };
                    pen.limb(at, radius, at, radius, leaf);
                }
                let (a, w, h) = (0.38, 0.65, 0.55);
                for corners in [
                    [[-a, 0.0, -w], [-a, h, -w], [-a, h, w], [-a, 0.0, w]],
                    [[a, 0.0, -w], [a, h, -w], [a, h, w], [a, 0.0, w]],
                    [[-a, 0.0, w], [-a, h, w], [a, h, w], [a, 0.0, w]],
                    [[-a, 0.0, -w], [-a, h, -w], [a, h, -w], [a, 0.0, -w]],
                ] {
                    let eye = pen.eye();
                    let middle = [
                        (corners[0][0] + corners[2][0]) * 0.5,
                        (corners[0][2] + corners[2][2]) * 0.5,
                    ];
                    if middle[0] * (eye[0] - middle[0]) + middle[1] * (eye[2] - middle[1]) > 0.0 {
                        pen.face(&corners, paint);
                    }
                }
            }
        }
    }
}

fn draw_tree<C: Canvas>(pen: &mut Projector<'_, C>, dice: &mut Rng) {
    let (crown_up, crown) = (dice.range(4.0, 5.2), dice.range(1.2, 1.8));
    let bark = dice.choose(&[[0.30, 0.23, 0.17], [0.38, 0.34, 0.29], [0.24, 0.19, 0.15]]);
    let green = dice.choose(&[
        [0.20, 0.36, 0.13],
        [0.28, 0.40, 0.14],
        [0.14, 0.30, 0.14],
        [0.50, 0.38, 0.12],
    ]);
    pen.limb(
        [0.0, 0.1, 0.0],
        0.16,
        [0.05, crown_up - 0.4, 0.0],
        0.11,
        bark,
    );
    for side in [-1.0, 1.0] {
        pen.limb(
            [0.05, crown_up - 1.2, 0.0],
            0.08,
            [0.1, crown_up + 0.2, side * crown * 0.5],
            0.05,
            bark,
        );
    }
    // From the dark inside to the lit upper leaves.
    for i in 0..64 {
        let share = i as f32 / 64.0;
        let (turn, out) = (dice.unit(), dice.unit().sqrt() * (0.55 + 0.45 * share));
        let lift = dice.range(-0.8, 0.75) * (1.0 - 0.4 * out) + 0.25 * share;
        let at = [
            crown * out * cos_approx(turn) * 0.9,
            crown_up + crown * lift,
            crown * out * sin_approx(turn),
        ];
        let radius = crown * dice.range(0.13, 0.26) * (1.25 - 0.6 * share);
        let light = 0.62 + 0.55 * share + 0.18 * lift + dice.range(-0.1, 0.1);
        pen.limb(at, radius, at, radius, green.map(|c| c * light));
    }
}
