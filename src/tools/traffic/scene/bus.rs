//! City buses.

use super::appearance::Rgb;
use super::car::GLASS;
use super::projector::{Canvas, CrossSection, Projector, Quad, patch};
use super::rng::Rng;
use super::wheel::{DARK, axle_wheels};

/// How one bus looks.
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
    /// A bus drawn from these dice.
    pub(super) fn new(dice: &mut Rng) -> Self {
        Self {
            length: dice.choose(&[8.6, 10.6, 11.2]),
            height: dice.range(2.9, 3.1),
            paint: dice.choose(&BUS_PAINTS),
            band: dice.choose(&BUS_PAINTS),
            poster: dice
                .bool(0.4)
                .then(|| [dice.unit(), dice.unit(), dice.unit()]),
        }
    }

    /// Draws it; `travelled_m` turns the wheels.
    pub(super) fn draw<C: Canvas>(&self, pen: &mut Projector<'_, C>, travelled_m: f32) {
        let half = self.length * 0.5;
        let (w, h) = (1.25, self.height);
        let axles = [half - 2.3, 2.6 - half];
        for wheel in axle_wheels(axles, w - 0.01, 0.47) {
            wheel.draw_tire(pen);
        }
        let ribs: [CrossSection; 7] = [
            [-half + 0.04, 0.34, w],
            [-half, 1.3, w],
            [-half + 0.06, h - 0.12, w - 0.05],
            [-half + 0.25, h, w - 0.14],
            [half - 0.30, h, w - 0.14],
            [half - 0.02, 1.25, w],
            [half, 0.34, w],
        ];
        let middle = [0.0, 1.5, 0.0];
        for i in 0..ribs.len() - 1 {
            let Some(quad) = pen.strip(middle, ribs[i], ribs[i + 1]) else {
                continue;
            };
            pen.face(
                &quad,
                if i == 3 {
                    self.paint.map(|c| c * 0.5 + 0.42)
                } else {
                    self.paint
                },
            );
            match i {
                0 => self.draw_rear_low(pen, &quad),
                1 => pen.shaded(
                    &patch(&quad, [0.12, 0.88], [0.28, 0.86]),
                    GLASS[0],
                    GLASS[1],
                ),
                4 => self.draw_windshield(pen, &quad),
                5 => {
                    pen.face(&patch(&quad, [0.0, 1.0], [0.82, 1.0]), DARK);
                    let light = pen.headlight();
                    pen.lamp(&patch(&quad, [0.05, 0.22], [0.38, 0.60]), light);
                    pen.lamp(&patch(&quad, [0.78, 0.95], [0.38, 0.60]), light);
                    pen.face(
                        &patch(&quad, [0.41, 0.59], [0.62, 0.78]),
                        [0.85, 0.85, 0.82],
                    );
                }
                _ => {}
            }
        }
        let side_ribs = ribs.map(|[a, u, _]| [a, u, w]);
        pen.side(
            &side_ribs,
            self.paint.map(|c| c * 1.05),
            self.paint.map(|c| c * 0.82),
        );
        let side = pen.visible_side(w);
        if side != 0.0 {
            self.draw_side(pen, half, w * side, side);
            for wheel in axle_wheels(axles, w, 0.47).filter(|wheel| wheel.left * side > 0.0) {
                wheel.draw_face(pen, travelled_m);
            }
        }
    }

    fn draw_rear_low<C: Canvas>(&self, pen: &mut Projector<'_, C>, quad: &Quad) {
        pen.face(&patch(quad, [0.0, 1.0], [0.0, 0.2]), DARK);
        pen.face(
            &patch(quad, [0.25, 0.75], [0.35, 0.8]),
            self.paint.map(|c| c * 0.6),
        );
        pen.lamp(&patch(quad, [0.03, 0.14], [0.4, 0.85]), [0.75, 0.07, 0.06]);
        pen.lamp(&patch(quad, [0.86, 0.97], [0.4, 0.85]), [0.75, 0.07, 0.06]);
    }

    fn draw_windshield<C: Canvas>(&self, pen: &mut Projector<'_, C>, quad: &Quad) {
        pen.face(&patch(quad, [0.06, 0.94], [0.02, 0.97]), [0.08, 0.09, 0.10]);
        pen.shaded(&patch(quad, [0.08, 0.92], [0.24, 0.96]), GLASS[0], GLASS[1]);
        pen.lamp(&patch(quad, [0.25, 0.75], [0.06, 0.19]), [0.95, 0.62, 0.12]);
        pen.face(&patch(quad, [0.64, 0.76], [0.55, 0.93]), [0.10, 0.09, 0.09]);
    }

    fn draw_side<C: Canvas>(&self, pen: &mut Projector<'_, C>, half: f32, left: f32, side: f32) {
        let h = self.height;
        pen.panel(
            left,
            [-half + 0.08, half - 0.06],
            [0.34, 0.55],
            self.band.map(|c| c * 0.7),
        );
        pen.panel(left, [-half + 0.1, half - 0.1], [1.22, 1.32], self.band);
        pen.panel(
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
            pen.shaded(&pane, GLASS[0], GLASS[1]);
        }
        // Doors are on the side of the pavement; the other side carries posters.
        if side < 0.0 {
            for ahead in [half - 1.75, -0.6] {
                pen.panel(
                    left,
                    [ahead, ahead + 1.2],
                    [0.42, h - 0.5],
                    [0.07, 0.08, 0.09],
                );
                for leaf in [ahead + 0.06, ahead + 0.64] {
                    pen.panel(
                        left,
                        [leaf, leaf + 0.5],
                        [0.6, h - 0.6],
                        GLASS[1].map(|c| c * 1.5),
                    );
                }
            }
        } else if let Some(color) = self.poster {
            pen.panel(left, [-1.6, 1.9], [0.62, 1.18], color);
            pen.panel(left, [-1.3, 0.2], [0.82, 0.98], color.map(|c| 1.0 - c));
        }
    }
}
