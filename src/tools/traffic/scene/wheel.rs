// SPDX-License-Identifier: Apache-2.0
//! Wheels of cars, buses and trucks.

use super::appearance::Rgb;
use super::projector::{Canvas, Projector};
use super::rng::{cos_approx, sin_approx};

pub(super) const TIRE: Rgb = [0.07, 0.07, 0.075];
/// Bumpers, sills, wheel arches.
pub(super) const DARK: Rgb = [0.10, 0.10, 0.11];
const RIM: Rgb = [0.58, 0.59, 0.61];

/// A wheel with its axle `ahead` meters ahead and its outer face `left` meters from the vehicle's axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wheel {
    pub(super) ahead: f32,
    pub(super) left: f32,
    pub(super) radius: f32,
    pub(super) thick: f32,
}

impl Wheel {
    /// Draws the tire from any side: two discs and the tread between them.
    pub(super) fn draw_tire<C: Canvas>(&self, projector: &mut Projector<'_, C>) {
        let inner = self.left - self.thick * self.left.signum();
        let (a, r) = (self.ahead, self.radius);
        projector.face(
            &[
                [a, 0.0, self.left],
                [a, 2.0 * r, self.left],
                [a, 2.0 * r, inner],
                [a, 0.0, inner],
            ],
            TIRE,
        );
        projector.face(&disc(a, r, inner, r), TIRE);
        projector.face(&disc(a, r, self.left, r), TIRE);
    }

    /// Draws tire and rim of a wheel with a visible outer face, and its arch. `travelled_m` sets its rotation.
    pub(super) fn draw_face<C: Canvas>(&self, projector: &mut Projector<'_, C>, travelled_m: f32) {
        let (a, r) = (self.ahead, self.radius);
        let mut arch = disc(a, r, self.left, r * 1.17);
        for corner in &mut arch {
            corner[1] = corner[1].max(r * 0.9);
        }
        projector.face(&arch, DARK);
        projector.face(&disc(a, r, self.left, r), TIRE);
        // Not quite round, so that the rotation is visible.
        let turns = travelled_m / (std::f32::consts::TAU * r);
        let rim: [[f32; 3]; 10] = std::array::from_fn(|i| {
            let reach = if i % 2 == 0 { 0.68 } else { 0.60 } * r;
            let angle = i as f32 / 10.0 - turns;
            [
                a + reach * cos_approx(angle),
                r + reach * sin_approx(angle),
                self.left,
            ]
        });
        projector.face(&rim, RIM);
        let slots =
            rim.map(|[ahead, up, left]| [a + (ahead - a) * 0.35, r + (up - r) * 0.35, left]);
        projector.face(&slots, RIM.map(|c| c * 0.45));
    }
}

/// The two wheels of each axle.
pub(super) fn axle_wheels<const N: usize>(
    axles: [f32; N],
    half_width: f32,
    radius: f32,
) -> impl Iterator<Item = Wheel> {
    let both = move |ahead| {
        [1.0, -1.0].map(|side| Wheel {
            ahead,
            left: side * half_width,
            radius,
            thick: 0.3,
        })
    };
    axles.into_iter().flat_map(both)
}

fn disc(ahead: f32, up: f32, left: f32, radius: f32) -> [[f32; 3]; 16] {
    std::array::from_fn(|i| {
        let turn = i as f32 / 16.0;
        [
            ahead + radius * cos_approx(turn),
            up + radius * sin_approx(turn),
            left,
        ]
    })
}
