// SPDX-License-Identifier: Apache-2.0
//! Bicycles and motorcycles, with their rider as a separate part.

use super::appearance::Rgb;
use super::person::Person;
use super::projector::{Canvas, Projector};
use super::rider::{Seat, draw_rider_before, draw_rider_behind};
use super::rng::{Rng, cos_approx, sin_approx};
use super::wheel::TIRE;

/// Corners of a wheel's rim.
const SEGMENTS: usize = 14;

/// Colors of one bicycle or motorcycle, and its rider.
#[derive(Debug, Clone)]
pub(super) struct TwoWheeler {
    paint: Rgb,
    rider: Person,
    helmet: Option<Rgb>,
    basket: bool,
}

impl TwoWheeler {
    /// A bicycle drawn from `rng`; some riders wear a helmet.
    pub(super) fn new_bicycle(rng: &mut Rng) -> Self {
        let helmet = rng.bool(0.5);
        Self::new(rng, helmet)
    }

    /// A motorcycle; all riders wear a helmet.
    pub(super) fn new_motorcycle(rng: &mut Rng) -> Self {
        Self::new(rng, true)
    }

    fn new(rng: &mut Rng, helmet: bool) -> Self {
        let color = rng.choose(&[
            [0.85, 0.85, 0.86],
            [0.10, 0.10, 0.12],
            [0.70, 0.10, 0.10],
            [0.14, 0.26, 0.55],
            [0.85, 0.65, 0.12],
        ]);
        Self {
            paint: rng.choose(&[
                [0.10, 0.10, 0.11],
                [0.66, 0.10, 0.10],
                [0.12, 0.28, 0.55],
                [0.12, 0.38, 0.24],
                [0.80, 0.80, 0.80],
                [0.85, 0.55, 0.10],
            ]),
            rider: Person::new(rng).riding(),
            helmet: helmet.then_some(color),
            basket: rng.bool(0.35),
        }
    }

    /// Draws bicycle (part 0) and rider (part 1).
    pub(super) fn draw_bicycle<C: Canvas>(
        &self,
        projector: &mut Projector<'_, C>,
        travelled_m: f32,
    ) {
        let turn = -travelled_m / 4.6;
        let crank = [-0.08, 0.29];
        let pedal = |offset: f32| {
            [
                crank[0] + 0.16 * cos_approx(turn + offset),
                crank[1] + 0.16 * sin_approx(turn + offset),
            ]
        };
        let seat = Seat {
            saddle_m: [-0.28, 0.92],
            grips_m: [0.38, 1.06],
            feet_m: [pedal(0.0), pedal(0.5)],
            half_m: 0.24,
            helmet: self.helmet,
        };
        projector.canvas.part(1);
        draw_rider_behind(projector, &self.rider, &seat);
        projector.canvas.part(0);
        for ahead in [-0.54, 0.53] {
            wheel(projector, ahead, 0.34, 0.024);
        }
        let bar = |projector: &mut Projector<'_, C>,
                   from: [f32; 2],
                   to: [f32; 2],
                   radius: f32,
                   color: Rgb| {
            projector.limb(
                [from[0], from[1], 0.0],
                radius,
                [to[0], to[1], 0.0],
                radius,
                color,
            );
        };
        let (seat_top, head_top, head_low) = ([-0.25, 0.80], [0.36, 0.86], [0.39, 0.70]);
        for (from, to) in [
            (crank, seat_top),
            (seat_top, head_top),
            (crank, head_low),
            (crank, [-0.54, 0.34]),
            (seat_top, [-0.54, 0.34]),
            (head_top, [0.53, 0.34]),
        ] {
            bar(projector, from, to, 0.024, self.paint);
        }
        bar(projector, seat_top, [-0.27, 0.90], 0.016, [0.4, 0.4, 0.42]);
        bar(
            projector,
            [-0.38, 0.92],
            [-0.17, 0.92],
            0.04,
            [0.08, 0.07, 0.07],
        );
        bar(projector, head_top, [0.34, 1.0], 0.018, [0.4, 0.4, 0.42]);
        projector.limb(
            [0.36, 1.04, 0.27],
            0.02,
            [0.36, 1.04, -0.27],
            0.02,
            [0.12, 0.12, 0.12],
        );
        if self.basket {
            projector.limb(
                [0.58, 0.80, 0.0],
                0.12,
                [0.58, 0.90, 0.0],
                0.15,
                [0.36, 0.28, 0.18],
            );
        }
        projector.canvas.part(1);
        draw_rider_before(projector, &self.rider, &seat);
    }

    /// Draws motorcycle (part 0) and rider (part 1).
    pub(super) fn draw_motorcycle<C: Canvas>(&self, projector: &mut Projector<'_, C>) {
        let seat = Seat {
            saddle_m: [-0.22, 0.80],
            grips_m: [0.34, 1.02],
            feet_m: [[-0.05, 0.32]; 2],
            half_m: 0.34,
            helmet: self.helmet,
        };
        projector.canvas.part(1);
        draw_rider_behind(projector, &self.rider, &seat);
        projector.canvas.part(0);
        for ahead in [-0.70, 0.70] {
            wheel(projector, ahead, 0.31, 0.062);
            projector.limb(
                [ahead, 0.31, 0.0],
                0.11,
                [ahead, 0.31, 0.0],
                0.11,
                [0.5, 0.5, 0.52],
            );
        }
        let mut lump =
            |from: [f32; 2], from_radius: f32, to: [f32; 2], to_radius: f32, color: Rgb| {
                projector.limb(
                    [from[0], from[1], 0.0],
                    from_radius,
                    [to[0], to[1], 0.0],
                    to_radius,
                    color,
                );
            };
        lump(
            [-0.70, 0.31],
            0.045,
            [-0.15, 0.42],
            0.06,
            [0.30, 0.30, 0.32],
        );
        lump([-0.10, 0.42], 0.17, [0.16, 0.44], 0.16, [0.27, 0.27, 0.29]);
        lump([-0.15, 0.28], 0.05, [-0.82, 0.36], 0.06, [0.62, 0.62, 0.64]);
        lump([0.70, 0.31], 0.04, [0.42, 0.92], 0.045, [0.55, 0.55, 0.57]);
        lump([-0.88, 0.66], 0.05, [-0.52, 0.66], 0.09, self.paint);
        lump([-0.50, 0.72], 0.08, [-0.05, 0.72], 0.08, [0.09, 0.09, 0.09]);
        lump([0.02, 0.76], 0.13, [0.30, 0.82], 0.12, self.paint);
        lump([0.52, 0.64], 0.05, [0.86, 0.62], 0.035, self.paint);
        lump(
            [0.42, 0.86],
            0.11,
            [0.50, 0.84],
            0.10,
            self.paint.map(|c| c * 0.85),
        );
        projector.limb(
            [0.36, 1.02, 0.36],
            0.025,
            [0.36, 1.02, -0.36],
            0.025,
            [0.12, 0.12, 0.12],
        );
        let (ahead, light) = if projector.eye()[0] > 0.0 {
            (0.58, [1.0, 0.97, 0.86])
        } else {
            (-0.92, [0.80, 0.07, 0.06])
        };
        projector.limb(
            [ahead, if ahead > 0.0 { 0.86 } else { 0.68 }, 0.0],
            0.055,
            [ahead, if ahead > 0.0 { 0.86 } else { 0.68 }, 0.0],
            0.055,
            light,
        );
        projector.canvas.part(1);
        draw_rider_before(projector, &self.rider, &seat);
    }
}

/// Draws a tire of this thickness around an axle; its inside is translucent.
fn wheel<C: Canvas>(projector: &mut Projector<'_, C>, ahead: f32, radius: f32, thick: f32) {
    let ring = radius - thick;
    let points: [[f32; 3]; SEGMENTS] = std::array::from_fn(|i| {
        let turn = i as f32 / SEGMENTS as f32;
        [
            ahead + ring * cos_approx(turn),
            radius + ring * sin_approx(turn),
            0.0,
        ]
    });
    projector.blend_haze(&points, [0.25, 0.25, 0.27], 0.22);
    for (i, point) in points.iter().enumerate() {
        projector.limb(*point, thick, points[(i + 1) % SEGMENTS], thick, TIRE);
    }
    projector.limb(
        [ahead, radius, 0.0],
        0.035,
        [ahead, radius, 0.0],
        0.035,
        [0.5, 0.5, 0.52],
    );
}
