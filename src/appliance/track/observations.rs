// SPDX-License-Identifier: Apache-2.0
//! The last observations of a track: what OC-SORT trusts more than the estimate of its filter (Cao and others, 2023).
//!
//! - **Momentum (OCM).** The direction between two observations some frames apart. A detection that continues it is
//!   preferred.
//! - **Recovery (OCR).** The last observed box. An object that stopped while it was hidden is found there.
//! - **Re-update (ORU).** When a track is matched again, its filter is taken back to the last observation and corrected along
//!   a straight line to the new one. Errors that the filter accumulated meanwhile are gone.

use jetwatch_types::{Similarity, Xyxy};

use super::kalman::{KalmanBox, Visibility};

/// Frames between the two observations of a direction; the value of the authors.
const MOMENTUM_FRAMES: u32 = 3;

/// Enough for two observations [`MOMENTUM_FRAMES`] apart.
const KEPT: usize = MOMENTUM_FRAMES as usize + 1;

/// Longest gap that is corrected along a line, in frames. After more the line says nothing.
const MAX_REUPDATE_FRAMES: u32 = 300;

/// Last observations of a track.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observations {
    /// Age of the track in frames and box, newest last; the first `count` are set.
    kept: [(u32, Xyxy); KEPT],
    count: usize,
    /// Where the direction begins, and its unit vector; `None` without one.
    heading: Option<([f32; 2], [f32; 2])>,
    /// The filter after its last correction.
    corrected: Option<KalmanBox>,
}

impl Observations {
    /// The observations of a track in its first frame.
    pub(super) fn new(xyxy: &Xyxy, motion: Option<&KalmanBox>) -> Self {
        Self {
            kept: [(1, *xyxy); KEPT],
            count: 1,
            heading: None,
            corrected: motion.copied(),
        }
    }

    /// Adds an observation at the track age `age` in frames, after `motion` was corrected with it.
    pub(super) fn observe(&mut self, xyxy: &Xyxy, age: u32, motion: Option<&KalmanBox>) {
        if self.count == KEPT {
            self.kept.rotate_left(1);
            self.kept[KEPT - 1] = (age, *xyxy);
        } else {
            self.kept[self.count] = (age, *xyxy);
            self.count += 1;
        }
        self.corrected = motion.copied();
        self.heading = self.find_heading();
    }

    /// The direction from the observation [`MOMENTUM_FRAMES`] before the last one, or the oldest.
    fn find_heading(&self) -> Option<([f32; 2], [f32; 2])> {
        let (newest, last) = self.kept[self.count - 1];
        let older = &self.kept[..self.count - 1];
        let far_enough = |(age, _): &&(u32, Xyxy)| newest - age >= MOMENTUM_FRAMES;
        let (_, from) = older.iter().rev().find(far_enough).or(older.first())?;
        let from = middle(from);
        Some((from, direction(from, middle(&last))?))
    }

    /// The last observed box.
    pub(super) fn last(&self) -> &Xyxy {
        &self.kept[self.count - 1].1
    }

    /// How well a box continues the direction of the track, half the cosine of the angle: 0.5 straight on, 0 at a right angle,
    /// -0.5 back. 0 when the track has no direction yet. The authors take the angle itself, which costs more and orders alike.
    pub(super) fn momentum(&self, xyxy: &Xyxy) -> f32 {
        let Some((from, own)) = self.heading else {
            return 0.0;
        };
        let to = middle(xyxy);
        let (x, y) = (to[0] - from[0], to[1] - from[1]);
        let length = (x * x + y * y).sqrt();
        // One division for each pair of a track and a detection, of which a crowd has many.
        match length.is_finite() && length > 0.0 {
            true => 0.5 * (own[0] * x + own[1] * y) / length,
            false => 0.0,
        }
    }

    /// The filter as it would be at the track age `age`, before the correction with `xyxy`, had the object gone on a straight
    /// line from the last observation to `xyxy`. `None` without a gap, or after a very long one.
    pub(super) fn reupdated(&self, xyxy: &Xyxy, age: u32) -> Option<KalmanBox> {
        let (before, from) = self.kept[self.count - 1];
        let frames = age.saturating_sub(before);
        if !(2..=MAX_REUPDATE_FRAMES).contains(&frames) {
            return None;
        }
        let mut motion = self.corrected?;
        for frame in 1..frames {
            let share = frame as f32 / frames as f32;
            let mut between = from;
            for (edge, to) in between.iter_mut().zip(xyxy) {
                *edge += share * (to - *edge);
            }
            motion.predict(Visibility::Visible);
            motion.correct(&between);
        }
        motion.predict(Visibility::Visible);
        Some(motion)
    }

    /// Adds `frames` to all ages, when the track takes over the age of an older one.
    pub(super) fn shift_age(&mut self, frames: u32) {
        for (age, _) in &mut self.kept {
            *age = age.saturating_add(frames);
        }
    }

    /// Moves the observations into the coordinates of an image that `motion` maps the previous one to.
    pub(super) fn transform(&mut self, motion: &Similarity) {
        for (_, xyxy) in &mut self.kept {
            *xyxy = motion.xyxy(xyxy);
        }
        if let Some(corrected) = &mut self.corrected {
            corrected.transform(motion);
        }
        self.heading = self.find_heading();
    }
}

/// The center of a box. `f32::midpoint` computes in `f64`, which no box in an image needs.
fn middle(xyxy: &Xyxy) -> [f32; 2] {
    [0.5 * (xyxy[0] + xyxy[2]), 0.5 * (xyxy[1] + xyxy[3])]
}

/// Unit vector from one point to another; `None` when they coincide.
fn direction(from: [f32; 2], to: [f32; 2]) -> Option<[f32; 2]> {
    let (x, y) = (to[0] - from[0], to[1] - from[1]);
    let length = (x * x + y * y).sqrt();
    (length.is_finite() && length > 0.0).then(|| [x / length, y / length])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kalman::MotionModel;

    fn at(x: f32, y: f32) -> Xyxy {
        [x, y, x + 20.0, y + 40.0]
    }

    #[test]
    fn momentum_compares_directions() {
        let mut path = Observations::new(&at(0.0, 0.0), None);
        assert_eq!(path.momentum(&at(9.0, 0.0)), 0.0, "no direction yet");
        for age in 2..=9 {
            path.observe(&at(5.0 * (age - 1) as f32, 0.0), age, None);
        }
        // The direction begins three frames before the newest observation, at x = 25.
        for (to, expected) in [
            (at(45.0, 0.0), 0.5),
            (at(5.0, 0.0), -0.5),
            (at(25.0, 30.0), 0.0),
            (at(25.0, 0.0), 0.0),
        ] {
            assert!((path.momentum(&to) - expected).abs() < 1e-3, "{to:?}");
        }
    }

    #[test]
    fn reupdate_replaces_the_drift_of_a_gap_by_a_straight_line() {
        // It goes right by 5 pixels per frame, turns while hidden, and is found below.
        let mut motion = KalmanBox::new(MotionModel::AreaAspect, &at(0.0, 0.0));
        let mut path = Observations::new(&at(0.0, 0.0), Some(&motion));
        for age in 2..=20 {
            let xyxy = at(5.0 * (age - 1) as f32, 0.0);
            motion.predict(Visibility::Visible);
            motion.correct(&xyxy);
            path.observe(&xyxy, age, Some(&motion));
        }
        (0..10).for_each(|_| motion.predict(Visibility::Hidden));
        let found = at(95.0, 60.0);
        let mut without = motion;
        without.correct(&found);
        let mut with = path.reupdated(&found, 30).expect("there was a gap");
        with.correct(&found);
        let after = |mut motion: KalmanBox| {
            motion.predict(Visibility::Visible);
            motion.xyxy()
        };
        // Six pixels down per frame.
        let error = |xyxy: Xyxy| (xyxy[0] - 95.0).abs() + (xyxy[1] - 66.0).abs();
        let (with, without) = (error(after(with)), error(after(without)));
        assert!(with < 8.0, "{with}");
        assert!(with < without / 1.1, "{with}, {without}");
        assert!(path.reupdated(&found, 21).is_none(), "no gap");
        assert!(path.reupdated(&found, 20 + 301).is_none(), "too long");
    }
}
