// SPDX-License-Identifier: Apache-2.0
//! Shadows on the street and the light of headlights, drawn before all objects.

use super::object::ObjectKind;
use super::projector::{Canvas, Projector};

/// Longest shadow, in multiples of the object's height.
const MAX_LENGTH: f32 = 2.4;

/// Draws the shadow of one object; at night also the light of a vehicle's headlights.
pub(super) fn draw_shadow<C: Canvas>(projector: &mut Projector<'_, C>, kind: ObjectKind) {
    let [half_length, half_width, height] = kind.half_extent();
    let on_foot = kind == ObjectKind::Person;
    let two_wheeled = matches!(kind, ObjectKind::Bicycle | ObjectKind::Motorcycle);
    let (a, w) = if on_foot {
        (0.17, 0.20)
    } else {
        (
            half_length * 0.97,
            half_width * if two_wheeled { 0.35 } else { 1.0 },
        )
    };
    let appearance = projector.appearance;
    if appearance.is_dark() && !on_foot {
        let light = [1.0, 0.95, 0.78];
        for (reach, opacity) in [(8.0, 0.05), (6.0, 0.06), (4.5, 0.06), (3.0, 0.07)] {
            let spread = w + reach * 0.2;
            projector.blend_haze(
                &[
                    [a, 0.0, w],
                    [a + reach, 0.0, spread],
                    [a + reach, 0.0, -spread],
                    [a, 0.0, -w],
                ],
                light,
                opacity,
            );
        }
    }
    let strength = appearance.sun_light[1];
    if strength > 0.0 {
        // The direction away from the sun, in the object's coordinates.
        let [fx, fz] = projector.pose.forward;
        let per_meter = (1.0 / appearance.sun[1])
            .min(MAX_LENGTH / (appearance.sun[0].abs() + appearance.sun[2].abs()).max(0.1));
        let fall = |up: f32| {
            let (x, z) = (
                -appearance.sun[0] * per_meter * up,
                -appearance.sun[2] * per_meter * up,
            );
            [x * fx + z * fz, z * fx - x * fz]
        };
        let top = fall(height * if on_foot || two_wheeled { 0.95 } else { 0.85 });
        let mut points = [[0.0; 2]; 8];
        for (i, (ahead, left)) in [(a, w), (a, -w), (-a, -w), (-a, w)].into_iter().enumerate() {
            points[i] = [ahead, left];
            points[i + 4] = [ahead * 0.9 + top[0], left * 0.9 + top[1]];
        }
        let (hull, count) = hull(points);
        let hull = hull.map(|[ahead, left]| [ahead, 0.0, left]);
        projector.blend_haze(
            &hull[..count],
            appearance.sky_light.map(|c| c * 0.12),
            0.5 * strength / (strength + 0.35),
        );
    }
    // Contact shadow, in any light.
    for (grow, opacity) in [(1.15, 0.25), (0.97, 0.50)] {
        let (a, w) = (a * grow, w * grow);
        projector.blend_haze(
            &[[a, 0.0, w], [a, 0.0, -w], [-a, 0.0, -w], [-a, 0.0, w]],
            [0.02, 0.02, 0.03],
            opacity,
        );
    }
}

/// The convex hull of eight points: its corners in order, and their number.
fn hull(mut points: [[f32; 2]; 8]) -> ([[f32; 2]; 8], usize) {
    points.sort_unstable_by(|p, q| p[0].total_cmp(&q[0]).then(p[1].total_cmp(&q[1])));
    let mut corners = [[0.0; 2]; 17];
    let mut count = 0;
    let turn = |o: [f32; 2], p: [f32; 2], q: [f32; 2]| {
        (p[0] - o[0]) * (q[1] - o[1]) - (p[1] - o[1]) * (q[0] - o[0])
    };
    let mut base = 0;
    let upper = points.iter().rev().skip(1);
    for (i, point) in points.iter().chain(upper).enumerate() {
        if i == points.len() {
            base = count - 1;
        }
        while count >= base + 2 && turn(corners[count - 2], corners[count - 1], *point) <= 0.0 {
            count -= 1;
        }
        corners[count] = *point;
        count += 1;
    }
    // The last corner repeats the first.
    let count = (count - 1).clamp(1, 8);
    (std::array::from_fn(|i| corners[i]), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hull_of_a_box_and_its_shifted_copy_has_six_corners() {
        let square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]];
        let mut points = [[0.0; 2]; 8];
        for (i, [x, y]) in square.into_iter().enumerate() {
            points[i] = [x, y];
            points[i + 4] = [x + 2.0, y + 1.5];
        }
        let (corners, count) = hull(points);
        assert_eq!(count, 6, "{corners:?}");
        for wanted in [
            [0.0, 0.0],
            [1.0, 0.0],
            [3.0, 1.5],
            [3.0, 2.5],
            [2.0, 2.5],
            [0.0, 1.0],
        ] {
            assert!(
                corners[..count].contains(&wanted),
                "{wanted:?} in {corners:?}"
            );
        }
    }
}
