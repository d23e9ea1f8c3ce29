// SPDX-License-Identifier: Apache-2.0
//! Appearance and camera of one scene, all drawn from the seed: light, color, noise, lens, road.
//!
//! A dataset varies it from scene to scene; within a scene it is constant.

use super::rng::{Rng, cos_approx, sin_approx};

/// Red, green, blue from 0 to 1, gamma-encoded.
pub type Rgb = [f32; 3];

/// Where the light comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeOfDay {
    /// Low sun, cool shadows.
    Morning,
    /// High sun, short hard shadows.
    Noon,
    /// No sun, soft shadows, grey sky.
    Overcast,
    /// Low, warm sun, long shadows.
    Evening,
    /// Street lamps and headlights.
    Night,
}

/// Direction of the road in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// From left to right: vehicles are seen from the side.
    Across,
    /// At an angle: vehicles are seen from a corner.
    Oblique,
    /// Towards the horizon: vehicles are seen from the front and from behind.
    Avenue,
}

/// The appearance of one scene. To vary one property only, change its field and pass the result to
/// [`Scene::with_appearance`](super::Scene::with_appearance).
#[derive(Debug, Clone, PartialEq)]
pub struct Appearance {
    /// Where the light comes from.
    pub time: TimeOfDay,
    /// Unit vector to the sun: right, up, away from the camera. Up is above 0.
    pub sun: [f32; 3],
    /// Light of the sun on a face perpendicular to it, per channel; 0 without sun.
    pub sun_light: Rgb,
    /// Light of the sky on a horizontal face, per channel.
    pub sky_light: Rgb,
    /// Color of the sky high up.
    pub sky_top: Rgb,
    /// Color of the sky and of the haze at the horizon.
    pub sky_bottom: Rgb,
    /// Share of the haze that each meter adds, 0 (clear) to about 0.02 (fog).
    pub haze: f32,
    /// Contrast around middle grey; 1: unchanged.
    pub contrast: f32,
    /// Largest deviation of the sensor's noise, in levels of 255; 0: none.
    pub noise: u8,
    /// Row of the horizon, as a share of the image's height from the top.
    pub horizon: f32,
    /// Focal length in image heights.
    pub focal: f32,
    /// Height of the camera above the road, in meters.
    pub camera_m: f32,
    /// Direction of the road.
    pub layout: Layout,
    /// Angle of the road to the image's rows, in turns: 0 across, 0.25 straight ahead.
    pub yaw_turns: f32,
    /// Car lanes, both directions together; at least 1.
    pub lanes: u32,
    /// Width of the cycle lane on either side, in meters; 0: bicycles ride at the road's edge.
    pub cycle_lane_m: f32,
    /// Width of each pavement, in meters.
    pub pavement_m: f32,
    /// 1: traffic keeps right; −1: left.
    pub keeps: f32,
}

impl Appearance {
    /// The appearance of this seed. Different seeds give different appearances.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(&[seed, 0x6c6f_6f6b]);
        // Consecutive seeds step through layouts and times, so that the first few differ clearly.
        let layout = [
            Layout::Across,
            Layout::Oblique,
            Layout::Avenue,
            Layout::Oblique,
            Layout::Across,
        ][(seed.wrapping_sub(1) % 5) as usize];
        let time = [
            TimeOfDay::Noon,
            TimeOfDay::Evening,
            TimeOfDay::Overcast,
            TimeOfDay::Morning,
        ][(seed.wrapping_sub(1) % 4) as usize];
        let time = if seed % 7 == 6 {
            TimeOfDay::Night
        } else {
            time
        };
        let side = if rng.bool(0.5) { 1.0 } else { -1.0 };
        let yaw_turns = side
            * match layout {
                Layout::Across => rng.range(0.0, 0.012),
                Layout::Oblique => rng.range(0.045, 0.12),
                Layout::Avenue => rng.range(0.225, 0.25),
            };
        let (elevation, power) = match time {
            TimeOfDay::Noon => (rng.range(0.13, 0.18), 0.62),
            TimeOfDay::Morning => (rng.range(0.07, 0.11), 0.55),
            TimeOfDay::Evening => (rng.range(0.055, 0.08), 0.60),
            TimeOfDay::Overcast | TimeOfDay::Night => (0.2, 0.0),
        };
        // The sun is behind the camera or to its side, so that not all visible faces are in shadow.
        let azimuth = rng.range(-0.3, 0.3);
        let sun = [
            cos_approx(elevation) * sin_approx(azimuth),
            sin_approx(elevation),
            -cos_approx(elevation) * cos_approx(azimuth),
        ];
        let (sun_tint, sky_light, sky_top, sky_bottom): (Rgb, Rgb, Rgb, Rgb) = match time {
            TimeOfDay::Noon => (
                [1.0, 0.97, 0.9],
                [0.60, 0.63, 0.68],
                [0.30, 0.52, 0.82],
                [0.74, 0.83, 0.92],
            ),
            TimeOfDay::Morning => (
                [1.0, 0.92, 0.78],
                [0.54, 0.58, 0.66],
                [0.42, 0.58, 0.80],
                [0.90, 0.86, 0.80],
            ),
            TimeOfDay::Evening => (
                [1.0, 0.78, 0.52],
                [0.52, 0.50, 0.54],
                [0.36, 0.42, 0.66],
                [0.96, 0.74, 0.52],
            ),
            TimeOfDay::Overcast => (
                [1.0; 3],
                [0.84, 0.86, 0.88],
                [0.62, 0.66, 0.70],
                [0.80, 0.82, 0.84],
            ),
            TimeOfDay::Night => (
                [1.0; 3],
                [0.52, 0.51, 0.56],
                [0.03, 0.04, 0.09],
                [0.13, 0.12, 0.16],
            ),
        };
        let hue = [
            rng.range(0.95, 1.05),
            rng.range(0.97, 1.03),
            rng.range(0.95, 1.05),
        ];
        let tint = |rgb: Rgb, gain: f32| [0, 1, 2].map(|i| rgb[i] * hue[i] * gain);
        let exposure = rng.range(0.92, 1.06);
        Self {
            time,
            sun: unit(sun),
            sun_light: tint(sun_tint, power * exposure),
            sky_light: tint(sky_light, exposure),
            sky_top: tint(sky_top, 1.0),
            sky_bottom: tint(sky_bottom, 1.0),
            haze: if time == TimeOfDay::Overcast {
                rng.range(0.002, 0.008)
            } else {
                rng.range(0.0008, 0.003)
            },
            contrast: rng.range(0.95, 1.18),
            noise: if time == TimeOfDay::Night {
                7
            } else {
                2 + rng.below(4) as u8
            },
            horizon: rng.range(0.14, 0.30),
            focal: rng.range(1.2, 1.5),
            camera_m: rng.range(3.4, 5.2),
            layout,
            yaw_turns,
            lanes: rng.choose(&[2, 2, 2, 3, 4]),
            cycle_lane_m: rng.choose(&[0.0, 1.7, 1.7]),
            pavement_m: rng.range(3.0, 4.4),
            keeps: if rng.bool(0.8) { 1.0 } else { -1.0 },
        }
    }

    /// Red, green and blue bytes of a lit face of this color, with this unit normal, `depth` meters away.
    pub(super) fn shade(&self, color: Rgb, normal: [f32; 3], depth: f32) -> [u8; 3] {
        let facing =
            (normal[0] * self.sun[0] + normal[1] * self.sun[1] + normal[2] * self.sun[2]).max(0.0);
        let open = 0.72 + 0.28 * normal[1];
        self.tone_map(
            [0, 1, 2].map(|i| color[i] * (self.sky_light[i] * open + self.sun_light[i] * facing)),
            depth,
        )
    }

    /// Red, green and blue bytes of light that is not shaded (lamps, sky), after haze, contrast and clipping.
    pub(super) fn tone_map(&self, light: Rgb, depth: f32) -> [u8; 3] {
        let haze = (depth * self.haze).min(0.85);
        [0, 1, 2].map(|i| {
            let hazed = light[i] + (self.sky_bottom[i] - light[i]) * haze;
            let contrasted = 0.45 + (hazed - 0.45) * self.contrast;
            // The cast saturates, and 0.5 rounds.
            (contrasted * 255.0 + 0.5) as u8
        })
    }

    /// Whether lamps are lit.
    pub(super) fn is_dark(&self) -> bool {
        self.time == TimeOfDay::Night
    }
}

/// The vector scaled to length 1; `[0, 1, 0]` for the null vector.
pub(super) fn unit(v: [f32; 3]) -> [f32; 3] {
    let length = (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
    if length > 0.0 {
        v.map(|c| c / length)
    } else {
        [0.0, 1.0, 0.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_yield_different_appearances_and_all_times_and_layouts() {
        let appearances: Vec<Appearance> = (0..40).map(Appearance::from_seed).collect();
        for (i, a) in appearances.iter().enumerate() {
            assert_eq!(*a, Appearance::from_seed(i as u64));
            assert!(
                appearances[..i].iter().all(|b| a != b),
                "seed {i} looks like an earlier one"
            );
            assert!(a.sun[1] > 0.0 && a.horizon < 0.5);
        }
        for time in [
            TimeOfDay::Morning,
            TimeOfDay::Noon,
            TimeOfDay::Overcast,
            TimeOfDay::Evening,
            TimeOfDay::Night,
        ] {
            assert!(
                appearances.iter().any(|appearance| appearance.time == time),
                "{time:?}"
            );
        }
        for layout in [Layout::Across, Layout::Oblique, Layout::Avenue] {
            assert!(
                appearances
                    .iter()
                    .any(|appearance| appearance.layout == layout),
                "{layout:?}"
            );
        }
    }

    #[test]
    fn sunlit_face_is_brighter() {
        let appearance = Appearance::from_seed(1);
        let lit = appearance.shade([0.5; 3], appearance.sun, 10.0);
        let shaded = appearance.shade([0.5; 3], appearance.sun.map(|c| -c), 10.0);
        assert!(lit[1] > shaded[1], "{lit:?} against {shaded:?}");
    }
}
