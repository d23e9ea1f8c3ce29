// SPDX-License-Identifier: Apache-2.0
//! The objects on the street at a frame, as a pure function of seed and frame.
//!
//! A slot has a track and a period. In each period one object passes along the track: passage `k` of slot `i` is drawn from
//! a hash of seed, `i` and `k`, so that frame 1,000,000 costs as much as frame 0. All slots of a lane have the same speed
//! and are spread over its period, so that vehicles do not collide.

use super::camera::{Camera, Pose};
use super::object::{ObjectKind, Order, SceneObject};
use super::rng::{Rng, sin_approx};
use super::street::{Mobility, Street, Track};

#[derive(Debug, Clone)]
struct TrafficSlot {
    track: usize,
    /// Phase at frame 0, in periods.
    phase: f64,
    /// Seconds from the start of one passage to the next.
    period: f64,
    /// Length of a passage, in meters.
    trajectory_m: f32,
    /// Distance to the slot ahead, in meters.
    gap_m: f32,
}

/// All slots of a scene.
#[derive(Debug, Clone)]
pub(super) struct Traffic {
    seed: u64,
    slots: Vec<TrafficSlot>,
}

/// Trucks and buses need a gap above this, in meters.
const LONG_VEHICLE_GAP_M: f32 = 15.0;
/// Maximum delay of a vehicle, in meters.
const LATE_M: f32 = 2.5;
/// Period in seconds in which the speed of a lane varies between 0.7 and 1.3 of its mean.
const SURGE_PERIOD_S: f64 = 19.0;
const SURGE: f64 = 0.3;

impl Traffic {
    /// The slots that give `objects` objects in the image on average.
    pub(super) fn new(seed: u64, objects: u32, street: &Street) -> Self {
        let mut rng = Rng::new(&[seed, 0x736c_6f74]);
        let pattern = [
            Mobility::Drive,
            Mobility::Walk,
            Mobility::Drive,
            Mobility::Walk,
            Mobility::Cycle,
            Mobility::Drive,
            Mobility::Walk,
            Mobility::Drive,
        ];
        let first = rng.below(pattern.len());
        let mut counts = vec![0_usize; street.tracks.len()];
        let mut order = Vec::new();
        let mut expected = 0.0;
        while expected + 0.4 < objects as f32 {
            let wanted = pattern[(first + order.len()) % pattern.len()];
            // The track of this kind with the most length per object; any track if there is none of this kind.
            let room = |index: &usize| street.tracks[*index].length() / (counts[*index] + 1) as f32;
            let all = 0..street.tracks.len();
            let fitting = all
                .clone()
                .filter(|index| street.tracks[*index].mobility == wanted)
                .max_by(|a, b| room(a).total_cmp(&room(b)));
            let Some(track) = fitting.or_else(|| all.max_by(|a, b| room(a).total_cmp(&room(b))))
            else {
                break;
            };
            counts[track] += 1;
            order.push(track);
            expected += Self::visible_share(&street.tracks[track]);
        }
        // About 20 km/h: at 30 frames/s even the narrow box of a rider overlaps its previous one by about half.
        let lane_speeds: Vec<f32> = street.tracks.iter().map(|_| rng.range(4.5, 6.2)).collect();
        let lane_phases: Vec<f32> = street.tracks.iter().map(|_| rng.unit()).collect();
        let mut placed = vec![0_usize; street.tracks.len()];
        let slots = order.into_iter().map(|index| {
            let track = &street.tracks[index];
            let trajectory_m = Self::trajectory(track);
            let count = counts[index] as f32;
            let place = placed[index] as f32 / count;
            placed[index] += 1;
            let (speed, phase) = match track.mobility {
                Mobility::Drive => (lane_speeds[index], place + lane_phases[index]),
                Mobility::Cycle => (3.8 + lane_phases[index], place + lane_phases[index]),
                Mobility::Walk => (rng.range(1.0, 1.45), place + rng.unit() / count),
            };
            TrafficSlot {
                track: index,
                phase: f64::from(phase),
                period: f64::from(trajectory_m / speed),
                trajectory_m,
                gap_m: trajectory_m / count,
            }
        });
        Self {
            seed,
            slots: slots.collect(),
        }
    }

    /// Distance from the entry to the exit of the longest object, in meters.
    fn trajectory(track: &Track) -> f32 {
        let longest = match track.mobility {
            Mobility::Drive => ObjectKind::Bus,
            Mobility::Cycle => ObjectKind::Bicycle,
            Mobility::Walk => ObjectKind::Person,
        };
        track.length()
            + 2.0 * longest.half_extent()[0]
            + if track.mobility == Mobility::Walk {
                0.0
            } else {
                LATE_M
            }
    }

    /// Share of a period in which the object is in the image.
    fn visible_share(track: &Track) -> f32 {
        let usual = match track.mobility {
            Mobility::Drive => 4.4,
            Mobility::Cycle | Mobility::Walk => 0.0,
        };
        ((track.length() + usual) / Self::trajectory(track)).min(1.0)
    }

    /// Replaces `objects` by everything on the street `seconds` after frame 0, farthest first.
    pub(super) fn at(
        &self,
        seconds: f64,
        street: &Street,
        camera: &Camera,
        objects: &mut Vec<SceneObject>,
    ) {
        objects.clear();
        for (index, slot) in self.slots.iter().enumerate() {
            objects.extend(self.object(
                index as u64,
                slot,
                seconds,
                &street.tracks[slot.track],
                camera,
            ));
        }
        objects.sort_unstable_by(|a, b| a.order.compare(&b.order).then(a.id.cmp(&b.id)));
    }

    fn object(
        &self,
        index: u64,
        slot: &TrafficSlot,
        seconds: f64,
        track: &Track,
        camera: &Camera,
    ) -> Option<SceneObject> {
        let time = match track.mobility {
            Mobility::Drive => {
                let turns = seconds / SURGE_PERIOD_S + slot.track as f64 * 0.37;
                seconds
                    + SURGE * SURGE_PERIOD_S / std::f64::consts::TAU
                        * f64::from(sin_approx((turns - turns.floor()) as f32))
            }
            Mobility::Cycle | Mobility::Walk => seconds,
        };
        // The varying speed can give a time before 0; the 1.0 keeps the number of the passage positive.
        let lived = time / slot.period + slot.phase + 1.0;
        let life = lived.floor();
        let elapsed = (lived - life) as f32;
        let life = life as u64;
        let mut rng = Rng::new(&[self.seed, index, life]);
        let kind = random_kind(track.mobility, slot.gap_m, &mut rng);
        let half = kind.half_extent()[0];
        let (begin, end) = (track.visible[0] - half, track.visible[1] + half);
        let (travelled, stride, sideways, direction) = if track.mobility == Mobility::Walk {
            let walk = Walk::new(&mut rng);
            let (share, stride) = walk.at(elapsed, slot.period as f32);
            (
                share * (end - begin),
                stride,
                rng.range(-1.0, 1.0) * track.spread_m,
                if rng.bool(0.5) { 1.0 } else { -1.0 },
            )
        } else {
            let late = rng.range(0.0, LATE_M);
            (
                elapsed * slot.trajectory_m - late,
                1.0,
                rng.range(-1.0, 1.0) * track.spread_m,
                1.0,
            )
        };
        if travelled < 0.0 || begin + travelled > end {
            return None;
        }
        let along = if direction > 0.0 {
            begin + travelled
        } else {
            end - travelled
        };
        let [ds, dl] = track.direction;
        let place = [
            track.origin[0] + ds * along - dl * sideways,
            track.origin[1] + dl * along + ds * sideways,
        ];
        let identity = life
            .wrapping_mul(self.slots.len() as u64)
            .wrapping_add(index)
            .wrapping_mul(2)
            .wrapping_add(1);
        Some(SceneObject {
            kind,
            // Ids repeat after two billion passages.
            id: identity as u32,
            seed: rng.bits(),
            pose: Pose {
                at: camera.to_view(place),
                forward: camera.turn([ds * direction, dl * direction]),
            },
            travelled,
            stride,
            order: Order::new(camera, place),
        })
    }
}

fn random_kind(mobility: Mobility, gap_m: f32, rng: &mut Rng) -> ObjectKind {
    let roll = rng.unit();
    match mobility {
        Mobility::Walk => ObjectKind::Person,
        Mobility::Cycle => ObjectKind::Bicycle,
        Mobility::Drive => match roll {
            _ if roll < 0.15 => ObjectKind::Motorcycle,
            _ if roll < 0.25 => ObjectKind::Pickup,
            _ if roll < 0.36 && gap_m > LONG_VEHICLE_GAP_M => ObjectKind::Truck,
            _ if roll < 0.48 && gap_m > LONG_VEHICLE_GAP_M => ObjectKind::Bus,
            _ => ObjectKind::Car,
        },
    }
}

/// Movement of a pedestrian along a track: at constant speed, in some passages with a stop.
struct Walk {
    /// Share of the period spent walking.
    moving: f32,
    /// Share of the distance before the stop.
    stop_after: f32,
}

impl Walk {
    fn new(rng: &mut Rng) -> Self {
        let stops = rng.bool(0.3);
        Self {
            moving: if stops { rng.range(0.72, 0.88) } else { 1.0 },
            stop_after: rng.range(0.25, 0.75),
        }
    }

    /// Share of the distance, and swing of the legs, after the share `elapsed` of the period.
    fn at(&self, elapsed: f32, period_s: f32) -> (f32, f32) {
        let stop_begin = self.stop_after * self.moving;
        let stop_end = stop_begin + 1.0 - self.moving;
        let share = if elapsed < stop_begin {
            elapsed / self.moving
        } else if elapsed < stop_end {
            self.stop_after
        } else {
            (elapsed - 1.0 + self.moving) / self.moving
        };
        // The legs come together within a third of a second.
        let into_stop_s = (elapsed - stop_begin).min(stop_end - elapsed) * period_s;
        (share, 1.0 - 0.85 * (into_stop_s * 3.0).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_from_end_to_end_without_jumps() {
        for seed in 0..20 {
            let walk = Walk::new(&mut Rng::new(&[seed]));
            assert_eq!(walk.at(0.0, 12.0).0, 0.0);
            let mut before = 0.0;
            for step in 1..=1000 {
                let (share, stride) = walk.at(step as f32 / 1000.0, 12.0);
                assert!(
                    (-1e-6..0.002).contains(&(share - before)) && (0.1..=1.0).contains(&stride),
                    "seed {seed}, step {step}"
                );
                before = share;
            }
            assert!((before - 1.0).abs() < 1e-3);
        }
    }
}
