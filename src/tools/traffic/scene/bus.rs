// SPDX-License-Identifier: Apache-2.0
//! City buses.

use super::appearance::Rgb;
use super::car::GLASS;
use super::projector::{Canvas, CrossSection, Projector, Quad, patch};
use super::rng::Rng;
use super::wheel::{DARK, axle_wheels};

/// Colors and dimensions of one bus.
#[derive(Debug, Clone)]
pub(super) struct Bus {
    length: f32,
    height: f32,
    paint: Rgb,
    band: Rgb,
    poster: Option<Rgb>,
}

const BUS_PAINTS: [Rgb; 6] = [
    [0.88, 0.86, 0.80],
    [0.72, 0.10, 0.10],
    [0.14, 0.32, 0.58],
    [0.88, 0.68, 0.14],
    [0.22, 0.48, 0.30],
    [0.80, 0.82, 0.84],
];

impl Bus {
    /// A bus drawn from `rng`.
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            length: rng.choose(&[8.6, 10.6, 11.2]),
            height: rng.range(2.9, 3.1),
            paint: rng.choose(&BUS_PAINTS),
            band: rng.choose(&BUS_PAINTS),
            poster: rng.bool(0.4).then(|| [rng.unit(), rng.unit(), rng.unit()]),
        }
    }

    /// Draws the bus. `travelled_m` sets the rotation of the wheels.
    pub(super) fn draw<C: Canvas>(&self, projector: &mut Projector<'_, C>, travelled_m: f32) {
        let half = self.length * 0.5;
        let (w, h) = (1.25, self.height);
        let axles = [half - 2.3, 2.6 - half];
        for wheel in axle_wheels(axles, w - 0.01, 0.47) {
            wheel.draw_tire(projector);
        }
        let sections: [CrossSection; 7] = [
            [-half + 0.04, 0.34, w],
            [-half, 1.3, w],
            [-half + 0.06, h - 0.12, w - 0.05],
            [-half + 0.25, h, w - 0.14],
            [half - 0.30, h, w - 0.14],
            [half - 0.02, 1.25, w],
            [half, 0.34, w],
        ];
        let middle = [0.0, 1.5, 0.0];
        for i in 0..sections.len() - 1 {
            let Some(quad) = projector.strip(middle, sections[i], sections[i + 1]) else {
                continue;
            };
            projector.face(
                &quad,
                if i == 3 {
                    self.paint.map(|c| c * 0.5 + 0.42)
                } else {
                    self.paint
                },
            );
            match i {
                0 => self.draw_rear_low(projector, &quad),
                1 => projector.shaded(
                    &patch(&quad, [0.12, 0.88], [0.28, 0.86]),
                    GLASS[0],
                    GLASS[1],
                ),
                4 => self.draw_windshield(projector, &quad),
                5 => {
                    projector.face(&patch(&quad, [0.0, 1.0], [0.82, 1.0]), DARK);
                    let light = projector.headlight();
                    projector.lamp(&patch(&quad, [0.05, 0.22], [0.38, 0.60]), light);
                    projector.lamp(&patch(&quad, [0.78, 0.95], [0.38, 0.60]), light);
                    projector.face(
                        &patch(&quad, [0.41, 0.59], [0.62, 0.78]),
                        [0.85, 0.85, 0.82],
                    );
                }
                _ => {}
            }
        }
        let side_ribs = sections.map(|[a, u, _]| [a, u, w]);
        projector.side(
            &side_ribs,
            self.paint.map(|c| c * 1.05),
            self.paint.map(|c| c * 0.82),
        );
        let side = projector.visible_side(w);
        if side != 0.0 {
            self.draw_side(projector, half, w * side, side);
            for wheel in axle_wheels(axles, w, 0.47).filter(|wheel| wheel.left * side > 0.0) {
                wheel.draw_face(projector, travelled_m);
            }
        }
    }

    fn draw_rear_low<C: Canvas>(&self, projector: &mut Projector<'_, C>, quad: &Quad) {
        projector.face(&patch(quad, [0.0, 1.0], [0.0, 0.2]), DARK);
        projector.face(
            &patch(quad, [0.25, 0.75], [0.35, 0.8]),
            self.paint.map(|c| c * 0.6),
        );
        projector.lamp(&patch(quad, [0.03, 0.14], [0.4, 0.85]), [0.75, 0.07, 0.06]);
        projector.lamp(&patch(quad, [0.86, 0.97], [0.4, 0.85]), [0.75, 0.07, 0.06]);
    }

    fn draw_windshield<C: Canvas>(&self, projector: &mut Projector<'_, C>, quad: &Quad) {
        projector.face(&patch(quad, [0.06, 0.94], [0.02, 0.97]), [0.08, 0.09, 0.10]);
        projector.shaded(&patch(quad, [0.08, 0.92], [0.24, 0.96]), GLASS[0], GLASS[1]);
        projector.lamp(&patch(quad, [0.25, 0.75], [0.06, 0.19]), [0.95, 0.62, 0.12]);
        projector.face(&patch(quad, [0.64, 0.76], [0.55, 0.93]), [0.10, 0.09, 0.09]);
    }

    fn draw_side<C: Canvas>(
        &self,
        projector: &mut Projector<'_, C>,
        half: f32,
        left: f32,
        side: f32,
    ) {
        let h = self.height;
        projector.panel(
            left,
            [-half + 0.08, half - 0.06],
            [0.34, 0.55],
            self.band.map(|c| c * 0.7),
        );
        projector.panel(left, [-half + 0.1, half - 0.1], [1.22, 1.32], self.band);
        projector.panel(
            left,
            [-half + 0.3, half - 0.15],
            [1.40, h - 0.42],
            [0.09, 0.10, 0.11],
        );
        let panes = (self.length / 1.45) as usize;
        let step = (self.length - 0.7) / panes as f32;
        for i in 0..panes {
            let from = -half + 0.4 + step * i as f32;
            let pane = [
                [from, 1.45, left],
                [from + step - 0.12, 1.45, left],
                [from + step - 0.12, h - 0.47, left],
                [from, h - 0.47, left],
            ];
            projector.shaded(&pane, GLASS[0], GLASS[1]);
        }
        // Doors are on the pavement's side, posters on the other.
        if side < 0.0 {
            for ahead in [half - 1.75, -0.6] {
                projector.panel(
                    left,
                    [ahead, ahead + 1.2],
                    [0.42, h - 0.5],
                    [0.07, 0.08, 0.09],
                );
                for leaf in [ahead + 0.06, ahead + 0.64] {
                    projector.panel(
                        left,
                        [leaf, leaf + 0.5],
                        [0.6, h - 0.6],
                        GLASS[1].map(|c| c * 1.5),
                    );
                }
            }
        } else if let Some(color) = self.poster {
            projector.panel(left, [-1.6, 1.9], [0.62, 1.18], color);
            projector.panel(left, [-1.3, 0.2], [0.82, 0.98], color.map(|c| 1.0 - c));
        }
    }
}
