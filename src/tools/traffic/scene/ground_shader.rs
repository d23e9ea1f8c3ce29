// SPDX-License-Identifier: Apache-2.0
//! The static background along a ray from the camera: sky, house fronts, pavement, road with its markings.
//!
//! Pure: a color for a point of the image. [`backdrop`](super::backdrop) calls it once per pixel of a size.

use super::appearance::{Appearance, Layout, Rgb};
use super::camera::Camera;
use super::rng::{lattice, noise};
use super::street::{LANE_M, Street, ZEBRA_M};

/// Width of a house, in meters.
const HOUSE_M: f32 = 11.0;
/// Height of the ground floor and of the floors above it, in meters.
const SHOP_M: f32 = 3.5;
const STOREY_M: f32 = 3.0;
/// Distance beyond which there is only haze, in meters.
const END_M: f32 = 260.0;

/// Shades the static background of one scene.
pub(super) struct GroundShader<'a> {
    pub(super) appearance: &'a Appearance,
    pub(super) camera: &'a Camera,
    pub(super) street: &'a Street,
    /// Seed of all textures.
    pub(super) salt: u32,
}

impl GroundShader<'_> {
    /// Red, green and blue at a point of the image.
    pub(super) fn color(&self, at: [f32; 2]) -> [u8; 3] {
        let ray = self.camera.ray(at);
        let mut nearest = f32::INFINITY;
        let mut color = None;
        for (front, inward) in [
            (Some(self.street.front), -1.0),
            (self.street.near_front, 1.0),
        ] {
            let Some(depth) = front.and_then(|front| self.camera.depth_at_lateral(ray, front))
            else {
                continue;
            };
            let up = self.camera.height_m + ray[1] * depth;
            if depth >= nearest || depth > END_M || up < 0.0 {
                continue;
            }
            let [s, l] = self.camera.to_street([ray[0] * depth, depth]);
            if let Some(paint) = self.front(s, up, l > 0.0, depth) {
                let [x, z] = self.camera.turn([0.0, inward]);
                nearest = depth;
                color = Some(self.finish(paint, [x, 0.0, z], depth));
            }
        }
        if ray[1] < 0.0 {
            let depth = -self.camera.height_m / ray[1];
            if depth < nearest && depth < END_M {
                let [s, l] = self.camera.to_street([ray[0] * depth, depth]);
                return self.finish((self.ground(s, l, depth), 0.0), [0.0, 1.0, 0.0], depth);
            }
        }
        color.unwrap_or_else(|| self.sky(at))
    }

    /// Bytes of a color with its glow; a glow above 0: not shaded.
    fn finish(&self, (color, glow): (Rgb, f32), normal: [f32; 3], depth: f32) -> [u8; 3] {
        if glow > 0.0 {
            self.appearance.tone_map(color, depth)
        } else {
            self.appearance.shade(color, normal, depth)
        }
    }

    fn sky(&self, [u, v]: [f32; 2]) -> [u8; 3] {
        let height =
            ((self.appearance.horizon - v) / self.appearance.horizon.max(0.05)).clamp(0.0, 1.0);
        let bands = noise(u * 5.0, v * 16.0, self.salt) * 0.6
            + noise(u * 13.0, v * 40.0, self.salt + 1) * 0.4;
        let cloud = ((bands - 0.5) * 3.0).clamp(0.0, 1.0)
            * if self.appearance.is_dark() { 0.05 } else { 0.5 };
        let mut light = [0, 1, 2].map(|i| {
            let clear = self.appearance.sky_bottom[i]
                + (self.appearance.sky_top[i] - self.appearance.sky_bottom[i]) * height;
            clear + (self.appearance.sky_bottom[i].max(0.75) - clear) * cloud
        });
        // A skyline where the road ends.
        let cell = (u * 22.0).floor();
        let roof = 0.02 + 0.07 * lattice(cell as i32, 3, self.salt);
        if self.appearance.horizon - v < roof {
            let tone = 0.55 + 0.12 * lattice(cell as i32, 4, self.salt);
            light = light.map(|c| c * tone);
        }
        self.appearance.tone_map(light, 0.0)
    }

    /// Color and glow of the house fronts at `s` meters along the road and `up` meters high; `None` above the roofs and in gaps.
    fn front(&self, s: f32, up: f32, far_side: bool, depth: f32) -> Option<(Rgb, f32)> {
        let salt = self.salt + u32::from(far_side) * 101;
        let shifted = s + 3.0 * lattice(0, 0, salt);
        let house = (shifted / HOUSE_M).floor();
        let index = house as i32;
        let trait_of = |which: i32| lattice(index, which, salt);
        let along = shifted - house * HOUSE_M;
        let grain = 0.92 + 0.16 * noise(s * 2.1, up * 2.1, salt + 2);
        if trait_of(0) < 0.14 {
            // A gap with a hedge and trees.
            let leaves = 0.6
                + 0.7
                    * noise(s * 3.0, up * 3.0, salt + 3)
                    * noise(s * 9.0, up * 9.0, salt + 4).max(0.4);
            let edge =
                3.4 + 1.6 * noise(s * 0.7, 0.0, salt + 5) + 0.5 * noise(s * 3.1, 0.0, salt + 6);
            return (up < edge).then_some(([0.20 * leaves, 0.33 * leaves, 0.14 * leaves], 0.0));
        }
        let floors = 1.0
            + (trait_of(1) * 4.0).floor()
            + if self.appearance.layout == Layout::Avenue {
                2.0
            } else {
                0.0
            };
        let roof = SHOP_M + STOREY_M * floors;
        if up > roof + 0.5 {
            return None;
        }
        const WALLS: [Rgb; 8] = [
            [0.72, 0.66, 0.56],
            [0.60, 0.34, 0.26],
            [0.78, 0.74, 0.66],
            [0.56, 0.55, 0.54],
            [0.70, 0.56, 0.42],
            [0.50, 0.30, 0.25],
            [0.64, 0.66, 0.64],
            [0.80, 0.70, 0.58],
        ];
        let wall = WALLS[(trait_of(2) * 7.99) as usize];
        let mut paint = wall.map(|c| c * grain * (0.80 + 0.05 * up.min(4.0)));
        if wall[0] - wall[2] > 0.22 && depth < 40.0 {
            let course = (up / 0.25).floor();
            let joint =
                (s / 0.6 + 0.5 * (course % 2.0)).fract().abs() < 0.06 || (up / 0.25).fract() < 0.18;
            paint = if joint {
                paint.map(|c| c * 1.10 + 0.02)
            } else {
                paint
            };
        }
        if !(0.12..HOUSE_M - 0.12).contains(&along)
            || up > roof
            || (up > SHOP_M - 0.25 && up < SHOP_M)
        {
            return Some((paint.map(|c| c * 0.78), 0.0));
        }
        Some(
            self.openings(s, up, along, index, salt)
                .unwrap_or((paint, 0.0)),
        )
    }

    /// Color and glow of windows, doors and awnings; `None`: wall.
    fn openings(&self, s: f32, up: f32, along: f32, index: i32, salt: u32) -> Option<(Rgb, f32)> {
        let dark = self.appearance.is_dark();
        let mirror = 0.75 + 0.5 * noise(s * 0.8, up * 0.8, salt + 7);
        if up < SHOP_M - 0.25 {
            if lattice(index, 3, salt) < 0.45 {
                // A shop: awning, shop window, door.
                let cloth = [
                    0.25 + 0.6 * lattice(index, 4, salt),
                    0.2 + 0.4 * lattice(index, 5, salt),
                    0.2 + 0.4 * lattice(index, 6, salt),
                ];
                if (2.55..3.1).contains(&up) {
                    let stripe = (along / 0.5).floor() as i32 % 2 == 0;
                    return Some((if stripe { cloth } else { [0.82, 0.80, 0.76] }, 0.0));
                }
                let pane = (along - 0.6).rem_euclid(2.5);
                if up < 2.5
                    && (0.15..2.35).contains(&pane)
                    && (up > 0.55 || (along / 2.5) as i32 == 2)
                {
                    return Some(if dark {
                        ([0.85, 0.72, 0.45], 1.0)
                    } else {
                        ([0.20, 0.24, 0.27].map(|c| c * mirror), 0.0)
                    });
                }
                return None;
            }
            let pane = (along - 0.9).rem_euclid(2.35);
            let door = (along / 2.35) as i32 == (lattice(index, 8, salt) * 4.0) as i32;
            if door && up < 2.3 && (0.3..1.3).contains(&pane) {
                return Some(([0.26, 0.17, 0.11].map(|c| c * mirror), 0.0));
            }
            return (!door && (0.95..2.5).contains(&up) && (0.35..1.55).contains(&pane))
                .then(|| ([0.22, 0.26, 0.30].map(|c| c * mirror), 0.0));
        }
        let floor = ((up - SHOP_M) / STOREY_M).floor();
        let high = up - SHOP_M - floor * STOREY_M;
        let column = ((along - 0.5) / 2.05).floor();
        let wide = along - 0.5 - column * 2.05;
        let framed =
            (0.72..2.38).contains(&high) && (0.42..1.62).contains(&wide) && along < HOUSE_M - 0.6;
        if !framed {
            return None;
        }
        if !(0.82..2.28).contains(&high)
            || !(0.52..1.52).contains(&wide)
            || (wide - 1.02).abs() < 0.05
        {
            return Some(([0.78, 0.77, 0.73], 0.0));
        }
        let lit = lattice(index * 31 + column as i32, floor as i32 + 40, salt) < 0.4;
        if dark && lit {
            return Some(([0.80, 0.66, 0.38], 1.0));
        }
        Some(([0.24, 0.29, 0.34].map(|c| c * mirror), 0.0))
    }

    fn ground(&self, s: f32, l: f32, depth: f32) -> Rgb {
        let side = l.abs();
        let salt = self.salt;
        // Fine grain fades with the distance, where it would alias.
        let detail = 1.0 / (1.0 + depth * depth / 500.0);
        let coarse = noise(s * 0.35, l * 0.6, salt + 10) - 0.5;
        let fine = (noise(s * 9.0, l * 9.0, salt + 11) - 0.5) * detail;
        if side < self.street.road_half {
            return self.road(s, l, coarse, fine);
        }
        if side < self.street.road_half + 0.18 {
            return [0.62 + 0.1 * fine; 3];
        }
        if side < self.street.pavement_out {
            let (row, column) = (
                (l / 0.8).floor(),
                (s / 0.8 + 0.5 * ((l / 0.8).floor() % 2.0)).floor(),
            );
            let slab = lattice(row as i32, column as i32, salt + 12) - 0.5;
            let joint = (l / 0.8).rem_euclid(1.0) < 0.05
                || (s / 0.8 + 0.5 * (row % 2.0)).rem_euclid(1.0) < 0.05;
            let tone = 0.56 + 0.06 * slab + 0.08 * coarse + 0.08 * fine
                - if joint { 0.12 * detail } else { 0.0 };
            return [tone * 1.02, tone, tone * 0.95];
        }
        if lattice(1, 1, salt + u32::from(l > 0.0)) < 0.55 {
            let blade = 0.9 + 0.5 * coarse + 0.6 * fine;
            return [0.24 * blade, 0.34 * blade, 0.14 * blade];
        }
        let cobble = lattice(
            (s / 0.22).floor() as i32,
            (l / 0.22).floor() as i32,
            salt + 13,
        ) - 0.5;
        let tone = 0.44 + 0.1 * cobble * detail + 0.1 * coarse;
        [tone, tone * 0.97, tone * 0.92]
    }

    fn road(&self, s: f32, l: f32, coarse: f32, fine: f32) -> Rgb {
        let street = self.street;
        let lane_at = (l + street.lanes_half) / LANE_M;
        let in_lane = lane_at - lane_at.floor() - 0.5;
        // Wheel tracks are lighter; the oil between them is darker.
        let polish = (1.0 - ((in_lane.abs() - 0.24) * 9.0).powi(2)).max(0.0) * 0.03
            - (1.0 - (in_lane * 7.0).powi(2)).max(0.0) * 0.03;
        let patch = if noise(s * 0.16, l * 0.5, self.salt + 14) > 0.74 {
            -0.045
        } else {
            0.0
        };
        let tone = 0.33 + 0.08 * coarse + 0.13 * fine + polish + patch;
        let mut paint = [tone, tone, tone * 1.03];
        if l.abs() > street.lanes_half + 0.1
            && self.appearance.cycle_lane_m > 0.0
            && lattice(2, 2, self.salt) < 0.5
        {
            paint = [tone * 1.35, tone * 0.82, tone * 0.72];
        }
        let worn = 0.70 + 0.35 * coarse + 0.4 * fine;
        let white: Rgb = [worn; 3];
        if let Some(zebra) = street.zebra {
            let into = s - zebra;
            if (0.0..ZEBRA_M).contains(&into) {
                return if (l + 40.0).rem_euclid(1.0) < 0.5 {
                    white
                } else {
                    paint
                };
            }
            if (-1.6..ZEBRA_M + 1.6).contains(&into) {
                let stop_line =
                    !(-1.3..ZEBRA_M + 1.3).contains(&into) && l.abs() < street.lanes_half;
                return if stop_line { white } else { paint };
            }
        }
        let border = lane_at.round();
        let from_border = (lane_at - border).abs() * LANE_M;
        let middle = border as u32 * 2 == street.lanes;
        if from_border < 0.07 && border > 0.0 && (border as u32) < street.lanes {
            let dashed = (s + 100.0).rem_euclid(6.0) < 2.8;
            if dashed || (middle && street.lanes >= 4) {
                return if middle && street.lanes >= 4 {
                    [worn, worn * 0.82, worn * 0.3]
                } else {
                    white
                };
            }
        }
        if (l.abs() - street.lanes_half).abs() < 0.06 {
            return white;
        }
        let cover = [(s / 14.0).floor(), lane_at.floor()];
        let place = [
            0.2 + 0.6 * lattice(cover[0] as i32, cover[1] as i32, self.salt + 15),
            0.5,
        ];
        let (ds, dl) = (
            (s / 14.0 - cover[0] - place[0]) * 14.0,
            (lane_at - cover[1] - place[1]) * LANE_M,
        );
        if ds * ds + dl * dl < 0.1
            && lattice(cover[0] as i32, cover[1] as i32, self.salt + 16) < 0.3
        {
            return [0.20; 3];
        }
        paint
    }
}
