//! Finding again who was lost: a new track that begins where a lost one would have gone by now is that one. It looks at motion
//! and size alone, not at pixels, and is asked once for each new track, when its probation is over.
//!
//! How far the object may be from where it is expected follows from DeepSORT's published noises and no figure of our own: positions
//! and heights are known to a twentieth of the height, and change their velocity by a 160th of it in each frame (Wojke and
//! others, 2017, in `kalman_filter.py`). A pair is open where the squared Mahalanobis distance is within the 95 % of three
//! independent figures.

use jetwatch_types::Xyxy;

/// Standard deviation of a place or a height, as a share of the height.
const POSITION_STD: f32 = 1.0 / 20.0;

/// By how much a velocity changes in a frame, likewise.
const VELOCITY_STD: f32 = 1.0 / 160.0;

/// 95 % of the chi-squared distribution with three degrees of freedom: across, down, height.
const MAHALANOBIS_GATE: f32 = 7.815;

/// Sights over which a velocity is averaged.
const VELOCITY_WINDOW: f32 = 10.0;

fn midpoint([left, top, right, bottom]: &Xyxy) -> [f32; 2] {
    [f32::midpoint(*left, *right), f32::midpoint(*top, *bottom)]
}

/// Where a track was seen first and last, and how it went.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trajectory {
    /// Middle and height at the first sight.
    first: ([f32; 2], f32),
    /// The same at the last.
    last: ([f32; 2], f32),
    /// Age of the track at the last sight, in frames.
    last_matched_age: u32,
    /// Pixels per frame.
    velocity: [f32; 2],
    observations: u32,
}

impl Trajectory {
    /// The path of a track in its first frame.
    pub(super) fn new(box_: &Xyxy) -> Self {
        let place = (midpoint(box_), box_[3] - box_[1]);
        Self {
            first: place,
            last: place,
            last_matched_age: 1,
            velocity: [0.0; 2],
            observations: 1,
        }
    }

    /// The track was seen when it was `age` frames old.
    pub(super) fn observe(&mut self, box_: &Xyxy, age: u32) {
        let middle = midpoint(box_);
        let frames = age.saturating_sub(self.last_matched_age).max(1) as f32;
        self.observations = self.observations.saturating_add(1);
        // The mean of the first, then one that forgets.
        let weight = 1.0 / (self.observations as f32 - 1.0).min(VELOCITY_WINDOW);
        let moved = middle.iter().zip(&self.last.0);
        for (velocity, (now, before)) in self.velocity.iter_mut().zip(moved) {
            *velocity += ((now - before) / frames - *velocity) * weight;
        }
        self.last = (middle, box_[3] - box_[1]);
        self.last_matched_age = age;
    }

    /// The track is older than was known, by so many frames.
    pub(super) fn shift_age(&mut self, frames: u32) {
        self.last_matched_age = self.last_matched_age.saturating_add(frames);
    }

    /// How far a track that is `age` frames old now and began `began` frames ago lies from where this one, `own_age` frames old,
    /// was expected when it began: the squared Mahalanobis distance. `None` where they cannot be the same object.
    pub(super) fn distance(&self, own_age: u32, newer: &Self, newer_age: u32) -> Option<f32> {
        let frames_since_match = own_age.checked_sub(self.last_matched_age)?;
        // Frames from the last sight of the one to the first of the other.
        let gap = (frames_since_match + 1)
            .checked_sub(newer_age)
            .filter(|gap| *gap > 0)? as f32;
        if self.observations < 3 {
            // Nobody knows where it went.
            return None;
        }
        let (from, height) = self.last;
        let (to, other_height) = newer.first;
        let scale = height.max(other_height);
        if scale.is_nan() || scale <= 0.0 {
            return None;
        }
        // The velocity as a line through that many places has it.
        let sights = (self.observations as f32).min(VELOCITY_WINDOW);
        let velocity = 12.0 * POSITION_STD.powi(2) / (sights * (sights.powi(2) - 1.0));
        let wander = VELOCITY_STD.powi(2) * gap.powi(3) / 3.0;
        let place = 2.0 * POSITION_STD.powi(2) + velocity * gap.powi(2) + wander;
        let size = 2.0 * POSITION_STD.powi(2) + POSITION_STD.powi(2) * gap;
        let apart = |axis: usize| (from[axis] + self.velocity[axis] * gap - to[axis]) / scale;
        let taller = (height - other_height) / scale;
        let distance = (apart(0).powi(2) + apart(1).powi(2)) / place + taller.powi(2) / size;
        (distance <= MAHALANOBIS_GATE).then_some(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f32, y: f32) -> Xyxy {
        [x, y, x + 20.0, y + 40.0]
    }

    /// Seen in frames 1 to 10, four pixels to the right in each.
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
        // 20 frames later, and found for three frames by now: 40 - 8 frames after its last sight.
        let there = Trajectory::new(&at(4.0 * 29.0, 0.0));
        let distance = walker.distance(32, &there, 3).expect("it is open");
        assert!(distance < 0.1, "{distance}");
        for elsewhere in [at(0.0, 0.0), at(4.0 * 29.0, 300.0), at(400.0, 0.0)] {
            assert_eq!(
                walker.distance(32, &Trajectory::new(&elsewhere), 3),
                None,
                "{elsewhere:?}"
            );
        }
        let [x, y] = [4.0 * 29.0, 0.0];
        let child = Trajectory::new(&[x, y, x + 10.0, y + 6.0]);
        assert_eq!(walker.distance(32, &child, 3), None, "of another size");
    }

    #[test]
    fn tracks_that_overlap_in_time_are_not_the_same() {
        let walker = walker();
        let neighbor = Trajectory::new(&at(36.0, 0.0));
        // It was seen first when the walker was seen last.
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
