// SPDX-License-Identifier: Apache-2.0
//! Re-association: a new track that begins where a lost one is predicted to be continues the lost one. It compares motion
//! and size only, no pixels. It runs once for each new track, when its probation is over.
//!
//! The tolerance follows from DeepSORT's published noise parameters: the standard deviation of positions and heights is 1/20
//! of the height, that of velocities 1/160 of it per frame (Wojke and others, 2017, `kalman_filter.py`). A pair is accepted
//! when the squared Mahalanobis distance is within the 95 % quantile for three independent values.

use jetwatch_types::{Similarity, Xyxy};

/// Standard deviation of a position or a height, as a share of the height.
const POSITION_STD: f32 = 1.0 / 20.0;

/// Standard deviation of a velocity per frame, as a share of the height.
const VELOCITY_STD: f32 = 1.0 / 160.0;

/// 95 % quantile of the chi-squared distribution with three degrees of freedom: x, y, height.
const MAHALANOBIS_GATE: f32 = 7.815;

/// Number of observations over which a velocity is averaged.
const VELOCITY_WINDOW: f32 = 10.0;

fn midpoint([left, top, right, bottom]: &Xyxy) -> [f32; 2] {
    [f32::midpoint(*left, *right), f32::midpoint(*top, *bottom)]
}

/// First and last observation of a track, and its velocity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trajectory {
    /// Midpoint and height in the first observation.
    first: ([f32; 2], f32),
    /// Midpoint and height in the last observation.
    last: ([f32; 2], f32),
    /// Age of the track at the last observation, in frames.
    last_matched_age: u32,
    /// Pixels per frame.
    velocity: [f32; 2],
    observations: u32,
}

impl Trajectory {
    /// The trajectory of a track in its first frame.
    pub(super) fn new(box_: &Xyxy) -> Self {
        let observation = (midpoint(box_), box_[3] - box_[1]);
        Self {
            first: observation,
            last: observation,
            last_matched_age: 1,
            velocity: [0.0; 2],
            observations: 1,
        }
    }

    /// Adds an observation at the track age `age`, in frames.
    pub(super) fn observe(&mut self, box_: &Xyxy, age: u32) {
        let middle = midpoint(box_);
        let frames = age.saturating_sub(self.last_matched_age).max(1) as f32;
        self.observations = self.observations.saturating_add(1);
        // Mean of the first observations, then an exponential moving average.
        let weight = 1.0 / (self.observations as f32 - 1.0).min(VELOCITY_WINDOW);
        let moved = middle.iter().zip(&self.last.0);
        for (velocity, (now, before)) in self.velocity.iter_mut().zip(moved) {
            *velocity += ((now - before) / frames - *velocity) * weight;
        }
        self.last = (middle, box_[3] - box_[1]);
        self.last_matched_age = age;
    }

    /// Adds `frames` to the age, when the track takes over the age of an older one.
    pub(super) fn shift_age(&mut self, frames: u32) {
        self.last_matched_age = self.last_matched_age.saturating_add(frames);
    }

    /// Moves the trajectory into the coordinates of an image that `motion` maps the previous one to.
    pub(super) fn transform(&mut self, motion: &Similarity) {
        for (middle, height) in [&mut self.first, &mut self.last] {
            *middle = motion
                .point(middle.map(f64::from))
                .map(|value| value as f32);
            *height *= motion.scale() as f32;
        }
        let velocity = motion.direction(self.velocity.map(f64::from));
        self.velocity = velocity.map(|value| value as f32);
    }

    /// Squared Mahalanobis distance between the first observation of `newer` and the position predicted for it by this
    /// trajectory. `own_age` and `newer_age` are the current ages of both tracks in frames. `None` when they cannot be the
    /// same object.
    pub(super) fn distance(&self, own_age: u32, newer: &Self, newer_age: u32) -> Option<f32> {
        let frames_since_match = own_age.checked_sub(self.last_matched_age)?;
        // Frames from the last observation of this track to the first of the other.
        let gap = (frames_since_match + 1)
            .checked_sub(newer_age)
            .filter(|gap| *gap > 0)? as f32;
        if self.observations < 3 {
            // The velocity is unknown.
            return None;
        }
        let (from, height) = self.last;
        let (to, other_height) = newer.first;
        let scale = height.max(other_height);
        if scale.is_nan() || scale <= 0.0 {
            return None;
        }
        // Variance of the slope of a line fitted through that many positions.
        let count = (self.observations as f32).min(VELOCITY_WINDOW);
        let velocity = 12.0 * POSITION_STD.powi(2) / (count * (count.powi(2) - 1.0));
        let drift = VELOCITY_STD.powi(2) * gap.powi(3) / 3.0;
        let position = 2.0 * POSITION_STD.powi(2) + velocity * gap.powi(2) + drift;
        let size = 2.0 * POSITION_STD.powi(2) + POSITION_STD.powi(2) * gap;
        let offset = |axis: usize| (from[axis] + self.velocity[axis] * gap - to[axis]) / scale;
        let taller = (height - other_height) / scale;
        let distance = (offset(0).powi(2) + offset(1).powi(2)) / position + taller.powi(2) / size;
        (distance <= MAHALANOBIS_GATE).then_some(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f32, y: f32) -> Xyxy {
        [x, y, x + 20.0, y + 40.0]
    }

    /// Observed in frames 1 to 10, moving four pixels to the right per frame.
    fn walker() -> Trajectory {
        let mut path = Trajectory::new(&at(0.0, 0.0));
        for age in 2..=10 {
            path.observe(&at(4.0 * (age - 1) as f32, 0.0), age);
        }
        path
    }

    #[test]
    fn a_new_track_on_the_predicted_trajectory_is_the_lost_one() {
        let walker = walker();
        // First observed 20 frames after the last observation, three frames ago.
        let there = Trajectory::new(&at(4.0 * 29.0, 0.0));
        let distance = walker.distance(32, &there, 3).expect("accepted");
        assert!(distance < 0.1, "{distance}");
        for other in [at(0.0, 0.0), at(4.0 * 29.0, 300.0), at(400.0, 0.0)] {
            assert_eq!(walker.distance(32, &Trajectory::new(&other), 3), None);
        }
        let [x, y] = [4.0 * 29.0, 0.0];
        let smaller = Trajectory::new(&[x, y, x + 10.0, y + 6.0]);
        assert_eq!(walker.distance(32, &smaller, 3), None, "different size");
    }

    #[test]
    fn tracks_that_overlap_in_time_are_not_the_same() {
        let walker = walker();
        let neighbor = Trajectory::new(&at(36.0, 0.0));
        // First observed in the frame of the walker's last observation.
        assert_eq!(walker.distance(12, &neighbor, 3), None);
        assert!(walker.distance(13, &neighbor, 3).is_some());
    }

    #[test]
    fn a_track_without_a_known_velocity_is_not_reassociated() {
        let mut short = Trajectory::new(&at(0.0, 0.0));
        short.observe(&at(1.0, 0.0), 2);
        assert_eq!(short.distance(6, &Trajectory::new(&at(1.0, 0.0)), 3), None);
    }
}
