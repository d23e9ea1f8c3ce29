// SPDX-License-Identifier: Apache-2.0
//! Cars, vans and pickups: a body, a cabin narrower at its top, four wheels, glass and lights.

use super::appearance::Rgb;
use super::projector::{Canvas, CrossSection, Projector, Quad, patch};
use super::rng::Rng;
use super::wheel::{DARK, Wheel};

/// Proportions of one kind of car, in meters.
#[derive(Debug, Clone, Copy)]
struct Shape {
    length: f32,
    width: f32,
    height: f32,
    /// Height of the lower edge of the windows.
    belt: f32,
    /// From the front to the windshield's lower edge.
    hood: f32,
    /// From the rear window's lower edge to the rear.
    deck: f32,
    /// Horizontal depth of the windshield and of the rear window.
    lean: [f32; 2],
    wheel: f32,
}

const SEDAN: Shape = Shape {
    length: 4.65,
    width: 1.82,
    height: 1.46,
    belt: 0.93,
    hood: 1.15,
    deck: 0.62,
    lean: [0.80, 0.70],
    wheel: 0.32,
};
const HATCHBACK: Shape = Shape {
    length: 4.00,
    width: 1.76,
    height: 1.52,
    belt: 0.95,
    hood: 0.90,
    deck: 0.07,
    lean: [0.75, 0.42],
    wheel: 0.31,
};
const WAGON: Shape = Shape {
    length: 4.75,
    width: 1.83,
    height: 1.50,
    belt: 0.94,
    hood: 1.15,
    deck: 0.06,
    lean: [0.80, 0.50],
    wheel: 0.32,
};
const SUV: Shape = Shape {
    length: 4.60,
    width: 1.90,
    height: 1.72,
    belt: 1.06,
    hood: 1.05,
    deck: 0.07,
    lean: [0.65, 0.35],
    wheel: 0.37,
};
const VAN: Shape = Shape {
    length: 5.00,
    width: 1.95,
    height: 2.00,
    belt: 1.15,
    hood: 0.62,
    deck: 0.05,
    lean: [0.75, 0.15],
    wheel: 0.33,
};
const PICKUP: Shape = Shape {
    length: 5.30,
    width: 1.95,
    height: 1.82,
    belt: 1.05,
    hood: 1.25,
    deck: 1.75,
    lean: [0.65, 0.12],
    wheel: 0.39,
};

const PAINTS: [Rgb; 14] = [
    [0.90, 0.90, 0.90],
    [0.90, 0.90, 0.90],
    [0.66, 0.67, 0.69],
    [0.66, 0.67, 0.69],
    [0.40, 0.41, 0.43],
    [0.11, 0.11, 0.12],
    [0.11, 0.11, 0.12],
    [0.62, 0.08, 0.08],
    [0.12, 0.20, 0.48],
    [0.25, 0.42, 0.62],
    [0.10, 0.25, 0.17],
    [0.90, 0.68, 0.12],
    [0.62, 0.55, 0.42],
    [0.75, 0.33, 0.10],
];
/// Glass reflects the sky at its upper end; below, the dark interior is visible.
pub(super) const GLASS: [Rgb; 2] = [[0.34, 0.40, 0.46], [0.13, 0.16, 0.19]];

/// Shape and colors of one car.
#[derive(Debug, Clone)]
pub(super) struct Car {
    shape: Shape,
    paint: Rgb,
    roof: Rgb,
    /// Whether there are windows behind the front doors; cargo vans have none.
    rear_windows: bool,
    braking: bool,
    taxi: bool,
}

impl Car {
    /// A passenger car drawn from `rng`.
    pub(super) fn new(rng: &mut Rng) -> Self {
        let shape = rng.choose(&[SEDAN, SEDAN, HATCHBACK, HATCHBACK, WAGON, SUV, SUV, VAN]);
        let paint = rng.choose(&PAINTS).map(|c| c * rng.range(0.92, 1.06));
        let taxi = rng.bool(0.06);
        Self {
            shape,
            paint: if taxi { [0.93, 0.72, 0.10] } else { paint },
            roof: if rng.bool(0.12) {
                [0.12, 0.12, 0.13]
            } else {
                paint
            },
            rear_windows: shape.height < 1.9 || rng.bool(0.5),
            braking: rng.bool(0.4),
            taxi,
        }
    }

    /// A pickup drawn from `rng`.
    pub(super) fn new_pickup(rng: &mut Rng) -> Self {
        let paint = rng.choose(&PAINTS);
        Self {
            shape: PICKUP,
            paint,
            roof: paint,
            rear_windows: false,
            braking: rng.bool(0.4),
            taxi: false,
        }
    }

    /// Draws the car. `travelled_m` sets the rotation of the wheels.
    pub(super) fn draw<C: Canvas>(&self, projector: &mut Projector<'_, C>, travelled_m: f32) {
        let s = &self.shape;
        let half = s.length * 0.5;
        let w = s.width * 0.5;
        let wheels: [Wheel; 4] = std::array::from_fn(|i| Wheel {
            ahead: if i < 2 { half - 0.86 } else { 0.84 - half },
            left: if i % 2 == 0 { w - 0.01 } else { 0.01 - w },
            radius: s.wheel,
            thick: 0.22,
        });
        for wheel in &wheels {
            wheel.draw_tire(projector);
        }
        self.draw_body(projector, half, w);
        let side = projector.visible_side(w);
        if side != 0.0 {
            self.draw_side(projector, half, w * side);
            for wheel in wheels.iter().filter(|wheel| wheel.left * side > 0.0) {
                wheel.draw_face(projector, travelled_m);
            }
        }
        if self.shape.deck > 1.0 {
            // From above, the bed of a pickup is dark.
            let up = s.belt - 0.02;
            let bed = [
                [-half + 0.12, up, w - 0.14],
                [-half + s.deck, up, w - 0.14],
                [-half + s.deck, up, 0.14 - w],
                [-half + 0.12, up, 0.14 - w],
            ];
            projector.face(&bed, [0.13, 0.13, 0.13]);
        }
        self.draw_cabin(projector, half, w);
    }

    fn draw_body<C: Canvas>(&self, projector: &mut Projector<'_, C>, half: f32, w: f32) {
        let s = &self.shape;
        let nose = s.belt - 0.16;
        let low = s.wheel * 0.62;
        let sections: [CrossSection; 8] = [
            [-half + 0.10, low, w - 0.06],
            [-half, 0.52, w - 0.05],
            [-half + 0.05, s.belt - 0.03, w - 0.10],
            [-half + s.deck.max(0.25), s.belt, w - 0.03],
            [half - s.hood, s.belt, w - 0.03],
            [half - 0.16, nose, w - 0.12],
            [half, 0.50, w - 0.07],
            [half - 0.08, low, w - 0.08],
        ];
        let middle = [0.0, 0.55, 0.0];
        let dim = self.paint.map(|c| c * 0.80);
        for i in 0..sections.len() - 1 {
            let Some(quad) = projector.strip(middle, sections[i], sections[i + 1]) else {
                continue;
            };
            projector.face(&quad, if i == 0 || i == 6 { dim } else { self.paint });
            match i {
                0 => projector.face(&patch(&quad, [0.0, 1.0], [0.0, 0.35]), DARK),
                1 => self.draw_rear(projector, &quad),
                5 => self.draw_front(projector, &quad),
                6 => {
                    projector.face(
                        &patch(&quad, [0.18, 0.82], [0.12, 0.75]),
                        [0.06, 0.06, 0.07],
                    );
                    projector.face(
                        &patch(&quad, [0.40, 0.60], [0.10, 0.45]),
                        [0.82, 0.82, 0.80],
                    );
                }
                _ => {}
            }
        }
        let sections = sections.map(|[a, u, l]| [a, u, l.max(w - 0.06)]);
        projector.side(
            &sections,
            self.paint.map(|c| c * 1.08),
            self.paint.map(|c| c * 0.74),
        );
    }

    fn draw_rear<C: Canvas>(&self, projector: &mut Projector<'_, C>, quad: &Quad) {
        let glow = if self.braking {
            [0.95, 0.10, 0.08]
        } else {
            [0.60, 0.06, 0.06]
        };
        projector.lamp(&patch(quad, [0.02, 0.20], [0.45, 0.88]), glow);
        projector.lamp(&patch(quad, [0.80, 0.98], [0.45, 0.88]), glow);
        projector.face(&patch(quad, [0.37, 0.63], [0.28, 0.58]), [0.85, 0.85, 0.82]);
        projector.face(&patch(quad, [0.0, 1.0], [0.0, 0.12]), DARK);
    }

    fn draw_front<C: Canvas>(&self, projector: &mut Projector<'_, C>, quad: &Quad) {
        // The quad goes from the edge of the hood down to the bumper.
        let light = if projector.appearance.is_dark() {
            [1.0, 0.98, 0.86]
        } else {
            [0.86, 0.88, 0.90]
        };
        projector.face(&patch(quad, [0.26, 0.74], [0.30, 0.80]), [0.09, 0.09, 0.10]);
        projector.lamp(&patch(quad, [0.03, 0.24], [0.22, 0.66]), light);
        projector.lamp(&patch(quad, [0.76, 0.97], [0.22, 0.66]), light);
    }

    fn draw_side<C: Canvas>(&self, projector: &mut Projector<'_, C>, half: f32, left: f32) {
        let s = &self.shape;
        let line = self.paint.map(|c| c * 0.45);
        let low = s.wheel * 0.62;
        projector.panel(left, [0.90 - half, half - 0.95], [low, low + 0.10], DARK);
        projector.panel(
            left,
            [0.2 - half, half - 0.25],
            [s.belt - 0.22, s.belt - 0.20],
            self.paint.map(|c| c * 0.68),
        );
        let front_door = half - s.hood - 0.35;
        for ahead in [front_door, front_door - 1.05, front_door - 1.95] {
            if ahead > s.deck - half + 0.5 {
                projector.panel(left, [ahead, ahead + 0.025], [0.34, s.belt], line);
                projector.panel(
                    left,
                    [ahead - 0.22, ahead - 0.06],
                    [s.belt - 0.16, s.belt - 0.125],
                    line,
                );
            }
        }
        let (front, rear) = if projector.appearance.is_dark() {
            ([1.0, 0.95, 0.8], [0.9, 0.1, 0.1])
        } else {
            ([0.84, 0.85, 0.86], [0.62, 0.07, 0.07])
        };
        projector.panel(
            left,
            [half - 0.36, half - 0.10],
            [s.belt - 0.32, s.belt - 0.21],
            front,
        );
        projector.panel(
            left,
            [0.04 - half, 0.24 - half],
            [s.belt - 0.30, s.belt - 0.10],
            rear,
        );
    }

    fn draw_cabin<C: Canvas>(&self, projector: &mut Projector<'_, C>, half: f32, w: f32) {
        let s = &self.shape;
        let (base, top) = (w - 0.07, w - 0.25);
        let rear = s.deck - half + 0.02;
        let front = half - s.hood;
        let sections: [CrossSection; 4] = [
            [rear, s.belt, base],
            [rear + s.lean[1], s.height, top],
            [front - s.lean[0], s.height, top],
            [front, s.belt, base],
        ];
        let middle = [(rear + front) * 0.5, (s.belt + s.height) * 0.5, 0.0];
        for (i, color) in [(0, self.paint), (2, self.paint), (1, self.roof)] {
            let Some(quad) = projector.strip(middle, sections[i], sections[i + 1]) else {
                continue;
            };
            projector.face(&quad, color);
            if i != 1 {
                let pane = patch(&quad, [0.05, 0.95], [0.08, 0.93]);
                projector.shaded(&pane, GLASS[0], GLASS[1]);
                if i == 2 {
                    // The driver behind the windshield.
                    projector.face(
                        &patch(&quad, [0.22, 0.36], [0.45, 0.88]),
                        [0.10, 0.09, 0.09],
                    );
                }
            }
        }
        projector.side(&sections, self.roof, self.paint);
        let side = projector.visible_side(base);
        if side != 0.0 {
            self.draw_windows(projector, &sections, side);
        }
        if self.taxi {
            let up = s.height;
            let sign = [
                [0.0, up, 0.25],
                [0.0, up + 0.16, 0.2],
                [0.0, up + 0.16, -0.2],
                [0.0, up, -0.25],
            ];
            projector.lamp(&sign, [0.95, 0.9, 0.7]);
        }
        // Side mirrors.
        for side in [-1.0, 1.0] {
            let at = [front - 0.25, s.belt + 0.09, side * (w + 0.02)];
            projector.limb(
                at,
                0.075,
                [at[0] - 0.02, at[1], at[2]],
                0.075,
                self.paint.map(|c| c * 0.7),
            );
        }
    }

    fn draw_windows<C: Canvas>(
        &self,
        projector: &mut Projector<'_, C>,
        sections: &[CrossSection; 4],
        side: f32,
    ) {
        let [a, b, c, d] = *sections;
        let height = b[1] - a[1];
        // A point of the inclined side: `up` from 0 to 1, `along` from 0 (rear) to 1 (front) of the side at that height.
        let point = |along: f32, up: f32| {
            let (back, ahead) = (a[0] + (b[0] - a[0]) * up, d[0] + (c[0] - d[0]) * up);
            [
                back + (ahead - back) * along,
                a[1] + height * up,
                side * (a[2] + (b[2] - a[2]) * up),
            ]
        };
        let panes: &[[f32; 2]] = if self.rear_windows {
            &[[0.53, 0.965], [0.20, 0.505], [0.04, 0.175]]
        } else {
            &[[0.60, 0.965]]
        };
        for [from, to] in panes {
            let pane = [
                point(*from, 0.08),
                point(*to, 0.08),
                point(*to, 0.86),
                point(*from, 0.86),
            ];
            projector.shaded(&pane, GLASS[0], GLASS[1]);
        }
    }
}
