// SPDX-License-Identifier: Apache-2.0
//! People: clothes, body parts and gait. [`rider`](super::rider) draws seated people.
//!
//! Lengths are in body heights unless their name ends in `_m`.

use super::appearance::Rgb;
use super::projector::{Canvas, Projector};
use super::rng::{Rng, cos_approx, sin_approx};

/// Proportions and colors of one person.
#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) height_m: f32,
    pub(super) build: f32,
    skin: Rgb,
    hair: Rgb,
    shirt: Rgb,
    stripe: Option<Rgb>,
    legs: Rgb,
    shoes: Rgb,
    pub(super) skirt: Option<Rgb>,
    backpack: Option<Rgb>,
    bag: Option<Rgb>,
    short_sleeves: bool,
    phase: f32,
}

const SKINS: [Rgb; 5] = [
    [0.93, 0.76, 0.66],
    [0.85, 0.65, 0.52],
    [0.70, 0.50, 0.38],
    [0.50, 0.34, 0.25],
    [0.36, 0.24, 0.18],
];
const HAIRS: [Rgb; 6] = [
    [0.09, 0.07, 0.06],
    [0.16, 0.11, 0.08],
    [0.33, 0.21, 0.12],
    [0.66, 0.51, 0.29],
    [0.62, 0.61, 0.60],
    [0.42, 0.16, 0.10],
];
const CLOTHES: [Rgb; 14] = [
    [0.88, 0.88, 0.87],
    [0.12, 0.12, 0.14],
    [0.38, 0.40, 0.43],
    [0.66, 0.11, 0.12],
    [0.14, 0.22, 0.46],
    [0.22, 0.42, 0.66],
    [0.14, 0.36, 0.22],
    [0.86, 0.70, 0.20],
    [0.80, 0.40, 0.14],
    [0.45, 0.20, 0.42],
    [0.85, 0.62, 0.66],
    [0.50, 0.44, 0.32],
    [0.30, 0.18, 0.13],
    [0.56, 0.66, 0.60],
];
const TROUSERS: [Rgb; 6] = [
    [0.10, 0.10, 0.12],
    [0.16, 0.20, 0.32],
    [0.24, 0.32, 0.48],
    [0.45, 0.40, 0.32],
    [0.30, 0.30, 0.31],
    [0.20, 0.15, 0.12],
];

impl Person {
    /// A person drawn from `rng`.
    pub(super) fn new(rng: &mut Rng) -> Self {
        let child = rng.bool(0.1);
        let mut cloth = |probability: f32| rng.bool(probability).then(|| rng.choose(&CLOTHES));
        let (stripe, skirt, backpack, bag) = (cloth(0.25), cloth(0.2), cloth(0.22), cloth(0.2));
        Self {
            height_m: if child {
                rng.range(1.15, 1.4)
            } else {
                rng.range(1.56, 1.9)
            },
            build: rng.range(0.92, 1.18),
            skin: rng.choose(&SKINS),
            hair: rng.choose(&HAIRS),
            shirt: rng.choose(&CLOTHES),
            stripe,
            legs: rng.choose(&TROUSERS),
            shoes: rng.choose(&[[0.08, 0.08, 0.08], [0.75, 0.75, 0.74], [0.30, 0.20, 0.14]]),
            skirt,
            backpack,
            bag,
            short_sleeves: rng.bool(0.45),
            phase: rng.unit(),
        }
    }
}

/// A point of the body: ahead, up, left.
pub(super) type Point = [f32; 3];

/// Hip, knee and ankle, or shoulder, elbow and hand.
pub(super) type Joints = [Point; 3];

/// Draws limbs with lengths in body heights.
pub(super) struct Body<'p, 'a, C> {
    pub(super) projector: &'p mut Projector<'a, C>,
    pub(super) height_m: f32,
}

impl<C: Canvas> Body<'_, '_, C> {
    fn limb(&mut self, from: Point, from_radius: f32, to: Point, to_radius: f32, color: Rgb) {
        let h = self.height_m;
        self.projector.limb(
            from.map(|c| c * h),
            from_radius * h,
            to.map(|c| c * h),
            to_radius * h,
            color,
        );
    }

    pub(super) fn leg(&mut self, person: &Person, [hip, knee, ankle]: Joints) {
        let thick = person.build;
        let bare = person.skirt.is_some();
        self.limb(hip, 0.052 * thick, knee, 0.040 * thick, person.legs);
        self.limb(
            knee,
            0.037 * thick,
            ankle,
            0.026 * thick,
            if bare { person.skin } else { person.legs },
        );
        let toe = [ankle[0] + 0.085, ankle[1] - 0.008, ankle[2]];
        self.limb(
            [ankle[0] - 0.02, ankle[1] - 0.005, ankle[2]],
            0.026,
            toe,
            0.02,
            person.shoes,
        );
    }

    pub(super) fn arm(&mut self, person: &Person, [shoulder, elbow, hand]: Joints) {
        let lower = if person.short_sleeves {
            person.skin
        } else {
            person.shirt.map(|c| c * 0.94)
        };
        self.limb(
            shoulder,
            0.037 * person.build,
            elbow,
            0.029,
            person.shirt.map(|c| c * 0.94),
        );
        self.limb(elbow, 0.027, hand, 0.021, lower);
        self.limb(hand, 0.023, hand, 0.023, person.skin);
    }

    /// Draws the torso from hips to neck; `hips` and `chest` are points on the body's axis.
    pub(super) fn torso(&mut self, person: &Person, hips: Point, chest: Point) {
        let b = person.build;
        let offset = |p: Point, left: f32| [p[0], p[1], p[2] + left];
        let far = if self.projector.eye()[2] > 0.0 {
            -1.0
        } else {
            1.0
        };
        self.limb(
            hips,
            0.062 * b,
            [hips[0], hips[1] - 0.03, hips[2]],
            0.06 * b,
            person.legs,
        );
        for side in [far, -far] {
            self.limb(
                offset(chest, side * 0.068 * b),
                0.058 * b,
                offset(hips, side * 0.042 * b),
                0.054 * b,
                person.shirt,
            );
        }
        self.limb(chest, 0.066 * b, hips, 0.064 * b, person.shirt);
        if let Some(stripe) = person.stripe {
            let at = |share: f32| [0, 1, 2].map(|i| hips[i] + (chest[i] - hips[i]) * share);
            for share in [0.45, 0.8] {
                self.limb(
                    offset(at(share), far * 0.06 * b),
                    0.018,
                    offset(at(share), -far * 0.06 * b),
                    0.018,
                    stripe,
                );
            }
        }
    }

    pub(super) fn head(&mut self, person: &Person, neck: Point, helmet: Option<Rgb>) {
        let from_front = self.projector.eye()[0] > 0.0;
        let up = |ahead: f32, up: f32| [neck[0] + ahead, neck[1] + up, neck[2]];
        self.limb(up(0.0, -0.02), 0.03, up(0.01, 0.04), 0.03, person.skin);
        let face = |body: &mut Self| {
            body.limb(up(0.018, 0.062), 0.046, up(0.016, 0.092), 0.05, person.skin)
        };
        if !from_front {
            face(self);
        }
        match helmet {
            Some(color) => self.limb(up(-0.008, 0.105), 0.064, up(-0.004, 0.085), 0.066, color),
            None => self.limb(
                up(-0.012, 0.102),
                0.056,
                up(-0.016, 0.078),
                0.052,
                person.hair,
            ),
        }
        if from_front {
            face(self);
        }
        if helmet.is_some() {
            self.limb(
                up(0.005, 0.122),
                0.052,
                up(0.0, 0.122),
                0.052,
                helmet.unwrap_or(person.hair),
            );
        }
    }
}

/// Draws a pedestrian after `travelled_m` meters; `stride` is 1 for walking, 0 for standing.
pub(super) fn draw_walker<C: Canvas>(
    projector: &mut Projector<'_, C>,
    person: &Person,
    travelled_m: f32,
    stride: f32,
) {
    let left_is_near = projector.eye()[2] > 0.0;
    let height_m = person.height_m;
    let turns = person.phase + travelled_m / (0.82 * height_m);
    let pace = |side: f32| if side > 0.0 { turns } else { turns + 0.5 };
    // The lower foot is on the ground, which gives the height of the hips.
    let leg = |side: f32| -> Joints {
        let swing = pace(side);
        let thigh = 0.072 * stride * sin_approx(swing);
        let shin = thigh - 0.10 * stride * sin_approx(swing + 0.3).max(0.0);
        let knee = [
            0.245 * sin_approx(thigh),
            -0.245 * cos_approx(thigh),
            side * 0.05,
        ];
        [
            [0.0, 0.0, side * 0.048],
            knee,
            [
                knee[0] + 0.225 * sin_approx(shin),
                knee[1] - 0.225 * cos_approx(shin),
                side * 0.05,
            ],
        ]
    };
    let legs = [leg(1.0), leg(-1.0)];
    let hips_up = 0.031 - legs[0][2][1].min(legs[1][2][1]);
    let raise = |joints: Joints| joints.map(|[ahead, up, left]| [ahead, up + hips_up, left]);
    let chest = [0.012, hips_up + 0.275, 0.0];
    let arm = |side: f32| -> Joints {
        let swing = -0.065 * stride * sin_approx(pace(side));
        let shoulder = [chest[0], chest[1] + 0.022, side * 0.118 * person.build];
        let elbow = [
            shoulder[0] + 0.17 * sin_approx(swing),
            shoulder[1] - 0.17 * cos_approx(swing),
            side * 0.135 * person.build,
        ];
        let lower = swing + 0.03 + 0.02 * stride;
        [
            shoulder,
            elbow,
            [
                elbow[0] + 0.15 * sin_approx(lower),
                elbow[1] - 0.15 * cos_approx(lower),
                side * 0.13 * person.build,
            ],
        ]
    };
    let (near, far) = if left_is_near {
        (1.0, -1.0)
    } else {
        (-1.0, 1.0)
    };
    let near_leg = usize::from(!left_is_near);
    let from_front = projector.eye()[0] > 0.0;
    let mut body = Body {
        projector,
        height_m,
    };
    body.arm(person, arm(far));
    body.leg(person, raise(legs[1 - near_leg]));
    body.leg(person, raise(legs[near_leg]));
    let pack = |body: &mut Body<'_, '_, C>| {
        if let Some(color) = person.backpack {
            body.limb(
                [-0.085, chest[1] + 0.01, 0.0],
                0.05,
                [-0.085, chest[1] - 0.13, 0.0],
                0.058,
                color,
            );
        }
    };
    if from_front {
        pack(&mut body);
    }
    let hips = [0.0, hips_up + 0.02, 0.0];
    if let Some(color) = person.skirt {
        body.limb(
            [0.0, hips_up + 0.02, 0.0],
            0.072 * person.build,
            [0.0, hips_up - 0.17, 0.0],
            0.088 * person.build,
            color,
        );
    }
    body.torso(person, hips, chest);
    if !from_front {
        pack(&mut body);
    }
    body.head(person, [0.018, chest[1] + 0.068, 0.0], None);
    let arm = arm(near);
    if let Some(color) = person.bag {
        let hand = arm[2];
        body.limb(
            [hand[0], hand[1] - 0.05, hand[2]],
            0.04,
            [hand[0], hand[1] - 0.10, hand[2]],
            0.045,
            color,
        );
    }
    body.arm(person, arm);
}
