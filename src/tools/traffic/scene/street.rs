// SPDX-License-Identifier: Apache-2.0
//! The street: widths, house fronts, crossing, and the tracks along which objects move.
//!
//! Built once per scene from its [`Appearance`]. [`traffic`](super::traffic) moves objects on the tracks.

use super::appearance::{Appearance, Layout};
use super::camera::Camera;
use super::rng::Rng;

/// Maximum distance of objects, in meters.
pub(super) const FAR_M: f32 = 58.0;
/// Width of a car lane, in meters.
pub(super) const LANE_M: f32 = 3.3;
/// Length of a zebra crossing along the road, in meters.
pub(super) const ZEBRA_M: f32 = 3.6;
/// Margin at the road's edge without a cycle lane, in meters.
const EDGE_M: f32 = 0.5;
/// Step of the search for the visible part of a track, in meters.
const SEARCH_STEP_M: f32 = 0.25;

/// Kind of traffic on a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mobility {
    /// Cars, buses, trucks and motorcycles, which keep their distance.
    Drive,
    /// Bicycles.
    Cycle,
    /// Pedestrians, in either direction.
    Walk,
}

/// A straight path through the image.
#[derive(Debug, Clone)]
pub(super) struct Track {
    pub(super) mobility: Mobility,
    /// A point of the path on the street.
    pub(super) origin: [f32; 2],
    /// Direction on the street, a unit vector.
    pub(super) direction: [f32; 2],
    /// First and last visible point, in meters from the origin.
    pub(super) visible: [f32; 2],
    /// Maximum lateral offset of an object, in meters.
    pub(super) spread_m: f32,
}

impl Track {
    /// Length of its visible part, in meters.
    pub(super) fn length(&self) -> f32 {
        self.visible[1] - self.visible[0]
    }
}

/// The parts of the street, as distances from the center line in meters.
#[derive(Debug, Clone)]
pub(super) struct Street {
    /// Kerbs.
    pub(super) road_half: f32,
    /// Outer edge of the car lanes.
    pub(super) lanes_half: f32,
    /// Number of car lanes.
    pub(super) lanes: u32,
    /// Outer edge of the pavement.
    pub(super) pavement_out: f32,
    /// House fronts on the far side.
    pub(super) front: f32,
    /// House fronts on the camera's side, if the camera is between the fronts.
    pub(super) near_front: Option<f32>,
    /// Start of the zebra crossing along the road.
    pub(super) zebra: Option<f32>,
    pub(super) tracks: Vec<Track>,
}

impl Street {
    /// Half of the width that the camera keeps in view, in meters.
    pub(super) fn corridor_half(appearance: &Appearance) -> f32 {
        Self::road_half_of(appearance) + appearance.pavement_m
    }

    fn road_half_of(appearance: &Appearance) -> f32 {
        appearance.lanes.max(1) as f32 * LANE_M * 0.5
            + if appearance.cycle_lane_m > 0.0 {
                appearance.cycle_lane_m
            } else {
                EDGE_M
            }
    }

    /// The street of this appearance in front of this camera.
    pub(super) fn new(appearance: &Appearance, camera: &Camera, seed: u64) -> Self {
        let mut rng = Rng::new(&[seed, 0x726f_6164]);
        let lanes = appearance.lanes.max(1);
        let lanes_half = lanes as f32 * LANE_M * 0.5;
        let road_half = Self::road_half_of(appearance);
        let pavement_out = road_half + appearance.pavement_m;
        let front = pavement_out + rng.choose(&[0.3, 0.3, 2.5, 5.0]);
        let zebra = rng.bool(0.75).then(|| match appearance.layout {
            Layout::Across => rng.range(-5.0, 4.0),
            Layout::Oblique => rng.range(-4.0, 4.0),
            Layout::Avenue => rng.range(13.0, 19.0),
        });
        let mut street = Self {
            road_half,
            lanes_half,
            lanes,
            pavement_out,
            front,
            near_front: (camera.stand()[1] > -front + 0.5).then_some(-front),
            zebra,
            tracks: Vec::new(),
        };
        street.build_tracks(appearance, camera);
        street
    }

    fn build_tracks(&mut self, appearance: &Appearance, camera: &Camera) {
        for lane in 0..self.lanes {
            let l = -self.lanes_half + LANE_M * (lane as f32 + 0.5);
            // With right-hand traffic the near lanes go right. With an odd number the far side has one lane more.
            let heading = if lane < self.lanes / 2 {
                appearance.keeps
            } else {
                -appearance.keeps
            };
            self.build(camera, Mobility::Drive, [0.0, l], [heading, 0.0], 0.0);
        }
        for side in [-1.0, 1.0] {
            let l = side
                * if appearance.cycle_lane_m > 0.0 {
                    self.road_half - appearance.cycle_lane_m * 0.5
                } else {
                    self.lanes_half - 0.3
                };
            self.build(
                camera,
                Mobility::Cycle,
                [0.0, l],
                [-side * appearance.keeps, 0.0],
                0.2,
            );
            let middle = side * (self.road_half + self.pavement_out) * 0.5;
            self.build(
                camera,
                Mobility::Walk,
                [0.0, middle],
                [1.0, 0.0],
                (appearance.pavement_m * 0.5 - 0.7).max(0.2),
            );
        }
        if let Some(zebra) = self.zebra {
            self.build(
                camera,
                Mobility::Walk,
                [zebra + ZEBRA_M * 0.5, 0.0],
                [0.0, 1.0],
                ZEBRA_M * 0.3,
            );
        }
    }

    fn build(
        &mut self,
        camera: &Camera,
        mobility: Mobility,
        origin: [f32; 2],
        direction: [f32; 2],
        spread_m: f32,
    ) {
        let steps = (2.5 * FAR_M / SEARCH_STEP_M) as i32;
        let seen = |step: &i32| {
            let ahead = *step as f32 * SEARCH_STEP_M;
            let place = [
                origin[0] + direction[0] * ahead,
                origin[1] + direction[1] * ahead,
            ];
            // Tracks end at the house fronts.
            place[1].abs() < self.front && camera.sees(place, 1.7, FAR_M)
        };
        let first = (-steps..=steps).find(seen);
        let last = (-steps..=steps).rev().find(seen);
        if let (Some(first), Some(last)) = (first, last)
            && last - first > 8
        {
            let seen = [first as f32 * SEARCH_STEP_M, last as f32 * SEARCH_STEP_M];
            self.tracks.push(Track {
                mobility,
                origin,
                direction,
                visible: seen,
                spread_m,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_street_has_space_for_all_objects() {
        for seed in 0..60 {
            let appearance = Appearance::from_seed(seed);
            for aspect in [1.0, 4.0 / 3.0, 16.0 / 9.0] {
                let camera = Camera::new(&appearance, aspect, Street::corridor_half(&appearance));
                let street = Street::new(&appearance, &camera, seed);
                for mobility in [Mobility::Drive, Mobility::Cycle, Mobility::Walk] {
                    let longest = street
                        .tracks
                        .iter()
                        .filter(|track| track.mobility == mobility)
                        .map(Track::length)
                        .fold(0.0, f32::max);
                    assert!(
                        longest > 6.0,
                        "seed {seed}, aspect {aspect}: {mobility:?} has {longest} m of {:?}",
                        appearance.layout
                    );
                }
            }
        }
    }
}
