// SPDX-License-Identifier: Apache-2.0
//! Seated people: from the positions of feet and hands, the joints are computed.

use super::appearance::Rgb;
use super::person::{Body, Joints, Person, Point};
use super::projector::{Canvas, Projector};

/// Contact points of a rider with the vehicle, in meters: ahead and up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) saddle_m: [f32; 2],
    pub(super) grips_m: [f32; 2],
    /// Left and right foot.
    pub(super) feet_m: [[f32; 2]; 2],
    /// Lateral distance of hands and feet from the vehicle's axis, in meters.
    pub(super) half_m: f32,
    pub(super) helmet: Option<Rgb>,
}

impl Person {
    /// The same person as a rider: no skirt, not a small child.
    pub(super) fn riding(mut self) -> Self {
        self.height_m = self.height_m.max(1.55);
        self.skirt = None;
        self
    }

    fn seated_leg(&self, seat: &Seat, left: bool) -> Joints {
        let h = self.height_m;
        let side = if left { 1.0 } else { -1.0 };
        let foot = seat.feet_m[usize::from(!left)];
        let hip = [
            seat.saddle_m[0] / h,
            (seat.saddle_m[1] + 0.06) / h,
            side * 0.048,
        ];
        let ankle = [
            foot[0] / h,
            foot[1] / h + 0.03,
            side * seat.half_m * 0.5 / h,
        ];
        [hip, bend(hip, ankle, [0.245, 0.245], 1.0), ankle]
    }
}

/// The joint of two bones between two points, bent forward (1) or backward (−1).
fn bend(from: Point, to: Point, bones: [f32; 2], forward: f32) -> Point {
    let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
    let length = (dx * dx + dy * dy).sqrt().max(1e-3);
    let along = ((length * length + bones[0] * bones[0] - bones[1] * bones[1]) / (2.0 * length))
        .clamp(0.0, bones[0]);
    let aside = (bones[0] * bones[0] - along * along).max(0.0).sqrt() * forward;
    let (ux, uy) = (dx / length, dy / length);
    [
        from[0] + ux * along - uy * aside,
        from[1] + uy * along + ux * aside,
        (from[2] + to[2]) * 0.5,
    ]
}

/// Draws the leg on the far side of the vehicle; call it before the vehicle is drawn.
pub(super) fn draw_rider_behind<C: Canvas>(
    projector: &mut Projector<'_, C>,
    person: &Person,
    seat: &Seat,
) {
    let left_is_near = projector.eye()[2] > 0.0;
    let joints = person.seated_leg(seat, !left_is_near);
    Body {
        projector,
        height_m: person.height_m,
    }
    .leg(person, joints);
}

/// Draws the rest of the rider; call it after the vehicle is drawn.
pub(super) fn draw_rider_before<C: Canvas>(
    projector: &mut Projector<'_, C>,
    person: &Person,
    seat: &Seat,
) {
    let left_is_near = projector.eye()[2] > 0.0;
    let h = person.height_m;
    let hips = [seat.saddle_m[0] / h, (seat.saddle_m[1] + 0.08) / h, 0.0];
    let grips = [seat.grips_m[0] / h, seat.grips_m[1] / h];
    // The upper body leans towards the grips.
    let lean = ((grips[0] - hips[0]) * 0.42).clamp(0.03, 0.16);
    let chest = [
        hips[0] + lean,
        hips[1] + (0.26_f32 * 0.26 - lean * lean).sqrt(),
        0.0,
    ];
    let arm = |side: f32| -> Joints {
        let shoulder = [chest[0], chest[1] + 0.02, side * 0.115 * person.build];
        let hand = [grips[0], grips[1], side * seat.half_m / h];
        [shoulder, bend(shoulder, hand, [0.17, 0.16], -1.0), hand]
    };
    let (near, far) = if left_is_near {
        (1.0, -1.0)
    } else {
        (-1.0, 1.0)
    };
    let near_leg = person.seated_leg(seat, left_is_near);
    let mut body = Body {
        projector,
        height_m: h,
    };
    body.arm(person, arm(far));
    body.leg(person, near_leg);
    body.torso(person, hips, chest);
    body.head(
        person,
        [chest[0] + 0.03, chest[1] + 0.062, 0.0],
        seat.helmet,
    );
    body.arm(person, arm(near));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bent_joint_keeps_its_bones() {
        let distance = |a: Point, b: Point| ((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt();
        for to in [[0.2, -0.3, 0.0], [-0.1, -0.4, 0.0], [0.3, 0.1, 0.0]] {
            let joint = bend([0.0; 3], to, [0.245, 0.225], 1.0);
            assert!(
                (distance([0.0; 3], joint) - 0.245).abs() < 1e-4
                    && (distance(joint, to) - 0.225).abs() < 1e-4,
                "{joint:?}"
            );
        }
    }
}
