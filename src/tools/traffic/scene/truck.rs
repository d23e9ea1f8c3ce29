// SPDX-License-Identifier: Apache-2.0
//! Trucks with a cab and a box.

use super::appearance::Rgb;
use super::car::GLASS;
use super::projector::{Canvas, CrossSection, Projector, patch};
use super::rng::Rng;
use super::wheel::{DARK, axle_wheels};

/// Colors and dimensions of one truck.
#[derive(Debug, Clone)]
pub(super) struct Truck {
    cab: Rgb,
    cargo: Rgb,
    mark: Rgb,
    height: f32,
    length: f32,
}

impl Truck {
    /// A truck drawn from `rng`.
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            cab: rng.choose(&[
                [0.90, 0.90, 0.90],
                [0.68, 0.10, 0.10],
                [0.14, 0.26, 0.52],
                [0.88, 0.62, 0.12],
                [0.20, 0.40, 0.28],
            ]),
            cargo: rng.choose(&[
                [0.90, 0.90, 0.89],
                [0.86, 0.86, 0.84],
                [0.60, 0.62, 0.64],
                [0.22, 0.36, 0.56],
                [0.70, 0.52, 0.18],
            ]),
            mark: rng.choose(&[
                [0.75, 0.12, 0.12],
                [0.12, 0.30, 0.60],
                [0.15, 0.45, 0.25],
                [0.92, 0.55, 0.10],
            ]),
            height: rng.range(2.7, 3.1),
            length: rng.range(6.2, 7.5),
        }
    }

    /// Draws the truck. `travelled_m` sets the rotation of the wheels.
    pub(super) fn draw<C: Canvas>(&self, projector: &mut Projector<'_, C>, travelled_m: f32) {
        let half = self.length * 0.5;
        let w = 1.15;
        let axles = [half - 1.1, 1.5 - half];
        for wheel in axle_wheels(axles, w - 0.02, 0.44) {
            wheel.draw_tire(projector);
        }
        let side = projector.visible_side(w);
        if side != 0.0 {
            projector.panel(
                side * (w - 0.1),
                [-half + 0.1, half - 0.3],
                [0.45, 0.95],
                DARK,
            );
        }
        let split = half - 1.95;
        if projector.eye()[0] > split {
            self.draw_cargo(projector, -half, split - 0.15);
            self.draw_cab(projector, split, half);
        } else {
            self.draw_cab(projector, split, half);
            self.draw_cargo(projector, -half, split - 0.15);
        }
        if side != 0.0 {
            for wheel in axle_wheels(axles, w, 0.44).filter(|wheel| wheel.left * side > 0.0) {
                wheel.draw_face(projector, travelled_m);
            }
        }
    }

    fn draw_cargo<C: Canvas>(&self, projector: &mut Projector<'_, C>, rear: f32, front: f32) {
        let w = 1.2;
        let sections: [CrossSection; 4] = [
            [rear, 0.85, w],
            [rear, self.height, w],
            [front, self.height, w],
            [front, 0.85, w],
        ];
        let middle = [(rear + front) * 0.5, 1.9, 0.0];
        for i in 0..3 {
            let Some(quad) = projector.strip(middle, sections[i], sections[i + 1]) else {
                continue;
            };
            projector.face(&quad, self.cargo);
            if i == 0 {
                projector.face(
                    &patch(&quad, [0.05, 0.49], [0.06, 0.95]),
                    self.cargo.map(|c| c * 0.88),
                );
                projector.face(
                    &patch(&quad, [0.51, 0.95], [0.06, 0.95]),
                    self.cargo.map(|c| c * 0.88),
                );
                projector.lamp(&patch(&quad, [0.02, 0.14], [0.0, 0.06]), [0.75, 0.07, 0.06]);
                projector.lamp(&patch(&quad, [0.86, 0.98], [0.0, 0.06]), [0.75, 0.07, 0.06]);
            }
        }
        if projector.eye()[0] < rear {
            // The chassis below the doors, with the license plate.
            projector.face(
                &[
                    [rear, 0.42, 0.95],
                    [rear, 0.85, 0.95],
                    [rear, 0.85, -0.95],
                    [rear, 0.42, -0.95],
                ],
                DARK,
            );
            projector.face(
                &[
                    [rear, 0.5, 0.25],
                    [rear, 0.68, 0.25],
                    [rear, 0.68, -0.25],
                    [rear, 0.5, -0.25],
                ],
                [0.85, 0.85, 0.80],
            );
        }
        projector.side(
            &sections,
            self.cargo.map(|c| c * 1.02),
            self.cargo.map(|c| c * 0.86),
        );
        let side = projector.visible_side(w);
        if side != 0.0 {
            let (left, middle) = (side * w, (rear + front) * 0.5);
            projector.panel(left, [middle - 1.3, middle + 1.1], [1.75, 2.15], self.mark);
            projector.panel(
                left,
                [middle - 1.3, middle + 0.3],
                [1.50, 1.62],
                self.mark.map(|c| c * 0.7),
            );
            projector.panel(
                left,
                [rear, front],
                [0.85, 0.95],
                self.cargo.map(|c| c * 0.55),
            );
        }
    }

    fn draw_cab<C: Canvas>(&self, projector: &mut Projector<'_, C>, rear: f32, front: f32) {
        let (w, h) = (1.1, self.height.min(2.45));
        let sections: [CrossSection; 6] = [
            [rear, 0.45, w],
            [rear, h, w - 0.08],
            [front - 0.5, h, w - 0.1],
            [front - 0.05, 1.45, w],
            [front, 1.2, w],
            [front, 0.38, w],
        ];
        let middle = [(rear + front) * 0.5, 1.4, 0.0];
        for i in 0..sections.len() - 1 {
            let Some(quad) = projector.strip(middle, sections[i], sections[i + 1]) else {
                continue;
            };
            projector.face(&quad, self.cab);
            if i == 2 {
                projector.shaded(
                    &patch(&quad, [0.06, 0.94], [0.12, 0.97]),
                    GLASS[0],
                    GLASS[1],
                );
            }
            if i == 4 {
                projector.face(&patch(&quad, [0.2, 0.8], [0.12, 0.52]), [0.10, 0.10, 0.11]);
                let light = projector.headlight();
                projector.lamp(&patch(&quad, [0.04, 0.20], [0.5, 0.74]), light);
                projector.lamp(&patch(&quad, [0.80, 0.96], [0.5, 0.74]), light);
                projector.face(&patch(&quad, [0.0, 1.0], [0.84, 1.0]), DARK);
            }
        }
        projector.side(
            &sections.map(|[a, u, _]| [a, u, w]),
            self.cab.map(|c| c * 1.05),
            self.cab.map(|c| c * 0.8),
        );
        let side = projector.visible_side(w);
        if side != 0.0 {
            let left = side * w;
            let window = [
                [rear + 0.45, 1.45, left],
                [front - 0.22, 1.45, left],
                [front - 0.52, h - 0.22, left],
                [rear + 0.45, h - 0.22, left],
            ];
            projector.shaded(&window, GLASS[0], GLASS[1]);
            projector.panel(
                left,
                [rear + 0.38, rear + 0.41],
                [0.6, h - 0.2],
                self.cab.map(|c| c * 0.5),
            );
        }
    }
}
