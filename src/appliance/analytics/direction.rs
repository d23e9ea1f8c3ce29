// SPDX-License-Identifier: Apache-2.0
//! Motion of one object: which configured direction it moves in, and whether it is stationary.

use std::time::Duration;

use jetwatch_config::{DirectionRule, Point, StationaryRule};
use jetwatch_types::{AnalyticsEventKind, Size, Xyxy, intersection_over_union};

use super::debounce::Debounce;

/// Direction of motion of one object.
#[derive(Debug, Clone)]
pub(super) struct Heading {
    /// Start of the measured displacement; `None`: the next position.
    from: Option<Point>,
    /// Index of the matching direction rule; `None` before the minimum distance, and when no rule matches.
    direction: Option<usize>,
}

impl Heading {
    /// An object that is observed for the first time.
    pub(super) fn new(bottom_center: Point) -> Self {
        Self {
            from: Some(bottom_center),
            direction: None,
        }
    }

    /// The rule `changed` was switched on or off: the displacement is measured from the next position, and the object does not move in that
    /// direction any more.
    pub(super) fn restart(&mut self, changed: usize) {
        self.from = None;
        self.direction = self.direction.filter(|direction| *direction != changed);
    }

    /// Updates with the object's position in this frame; returns its direction when that has changed. Rules that are `off` do not
    /// count.
    ///
    /// The direction is evaluated when the displacement reaches the minimum distance of every rule, and then measured
    /// again from there, so jitter has no direction. Angles are measured in pixels of an image of `image_size`: relative
    /// coordinates would distort all directions that are not parallel to a side.
    pub(super) fn step(
        &mut self,
        rules: &[DirectionRule],
        off: &[bool],
        bottom_center: Point,
        image_size: Size,
    ) -> Option<Option<usize>> {
        let from = *self.from.get_or_insert(bottom_center);
        let displacement = [bottom_center[0] - from[0], bottom_center[1] - from[1]];
        let distance = displacement[0].hypot(displacement[1]);
        let farthest = rules
            .iter()
            .zip(off)
            .filter(|(_, is_off)| !**is_off)
            .map(|(rule, _)| rule.min_distance)
            .fold(None, |max: Option<f32>, least| {
                Some(max.map_or(least, |most| most.max(least)))
            })?;
        if distance < farthest {
            return None;
        }
        self.from = Some(bottom_center);
        let sides = [
            image_size.width.max(1) as f32,
            image_size.height.max(1) as f32,
        ];
        let in_pixels = |vector: Point| [vector[0] * sides[0], vector[1] * sides[1]];
        let displacement = in_pixels(displacement);
        let fits = |rule: &DirectionRule| {
            let (from, to) = (rule.line.from, rule.line.to);
            let rule_vector = in_pixels([to[0] - from[0], to[1] - from[1]]);
            let lengths =
                displacement[0].hypot(displacement[1]) * rule_vector[0].hypot(rule_vector[1]);
            let cosine =
                (displacement[0] * rule_vector[0] + displacement[1] * rule_vector[1]) / lengths;
            cosine.clamp(-1.0, 1.0).acos().to_degrees() <= rule.tolerance_degrees
        };
        let mut all = rules.iter().zip(off);
        let direction = all.position(|(rule, is_off)| !is_off && fits(rule));
        if direction == self.direction {
            return None;
        }
        self.direction = direction;
        Some(direction)
    }
}

/// Whether an object is stationary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    /// Box at the start of the current rest, and its time.
    anchor: Xyxy,
    since: Duration,
    moved: Debounce,
    is_still: bool,
}

impl Rest {
    /// An object that is observed for the first time.
    pub(super) fn new(xyxy: Xyxy, now: Duration) -> Self {
        Self {
            anchor: xyxy,
            since: now,
            moved: Debounce::default(),
            is_still: false,
        }
    }

    /// Updates with the object's box in this frame; returns whether a stopped object moves again.
    pub(super) fn step(
        &mut self,
        rule: &StationaryRule,
        xyxy: Xyxy,
        now: Duration,
    ) -> Option<AnalyticsEventKind> {
        let has_moved = intersection_over_union(&self.anchor, &xyxy) < rule.min_iou;
        self.moved.step(has_moved, rule.inertia_frames)?;
        let was_still = self.is_still;
        *self = Self::new(xyxy, now);
        was_still.then_some(AnalyticsEventKind::Moving)
    }

    /// Returns the event when the object has become stationary. Call it after [`step`](Self::step). Not while the newest frame
    /// has the object at another position: it may have started to move, however long it has been here.
    pub(super) fn settle(
        &mut self,
        rule: &StationaryRule,
        now: Duration,
    ) -> Option<AnalyticsEventKind> {
        let since = now.saturating_sub(self.since);
        if self.is_still || self.moved.is_opposed() || since < rule.after {
            return None;
        }
        self.is_still = true;
        Some(AnalyticsEventKind::Stationary { since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_config::Segment;

    const RULE: StationaryRule = StationaryRule {
        after: Duration::from_secs(2),
        min_iou: 0.8,
        inertia_frames: 3,
        objects: Vec::new(),
        schedule: None,
    };

    /// Events of boxes 100 pixels wide, given as (second, left edge).
    fn events_of(boxes: &[(u64, f32)]) -> Vec<(u64, AnalyticsEventKind)> {
        let at = Duration::from_secs;
        let xyxy = |left: f32| [left, 0.0, left + 100.0, 100.0];
        let mut rest = Rest::new(xyxy(boxes[0].1), at(boxes[0].0));
        let mut events = Vec::new();
        for &(second, left) in boxes {
            let moving = rest.step(&RULE, xyxy(left), at(second));
            let still = rest.settle(&RULE, at(second));
            events.extend(moving.into_iter().chain(still).map(|kind| (second, kind)));
        }
        events
    }

    #[test]
    fn an_object_at_another_place_is_not_stationary_however_few_frames_there_are() {
        let walk: Vec<_> = (0..12)
            .map(|second| (second, second as f32 * 30.0))
            .collect();
        assert_eq!(events_of(&walk), []);
        // After an occlusion it is found at another position and stays there.
        let since = Duration::from_secs(2);
        let found = [(0, 0.0), (9, 60.0), (10, 60.0), (11, 60.0), (12, 60.0)];
        assert_eq!(events_of(&found), []);
        let stays: Vec<_> = found.into_iter().chain([(13, 60.0)]).collect();
        assert_eq!(
            events_of(&stays),
            [(13, AnalyticsEventKind::Stationary { since })]
        );
        // A single jitter of the box does not restart the time.
        let jitter = [(0, 0.0), (1, 0.0), (2, 40.0), (3, 0.0)];
        let since = Duration::from_secs(3);
        assert_eq!(
            events_of(&jitter),
            [(3, AnalyticsEventKind::Stationary { since })]
        );
    }

    #[test]
    fn angles_are_measured_in_image_pixels() {
        let rule = |to: Point| DirectionRule {
            name: "way".to_owned(),
            line: Segment::new(&[[0.5, 0.5], to]).expect("a line"),
            tolerance_degrees: 45.0,
            min_distance: 0.01,
            schedule: None,
        };
        let image_size = Size::new(640, 360);
        // Displacement in pixels, direction of the rule, whether they are within 45 degrees of each other.
        for (displacement, to, fits) in [
            ([-26.0, -21.0], [0.0, 0.5], true),
            ([-21.0, -26.0], [0.0, 0.5], false),
            ([20.0, 30.0], [0.5, 1.0], true),
            ([30.0, 20.0], [0.5, 1.0], false),
            // From the middle to a corner the direction rises by 29 degrees.
            ([10.0, -31.0], [1.0, 0.0], true),
            ([31.0, 10.0], [1.0, 0.0], false),
            ([100.0, 0.0], [1.0, 0.0], true),
            ([0.0, -100.0], [1.0, 0.0], false),
        ] {
            let foot = |x: f32, y: f32| [x / 640.0, y / 360.0];
            let mut heading = Heading::new(foot(320.0, 180.0));
            let at = foot(320.0 + displacement[0], 180.0 + displacement[1]);
            let event = heading.step(&[rule(to)], &[false], at, image_size);
            assert_eq!(
                event,
                fits.then_some(Some(0)),
                "{displacement:?} against {to:?}"
            );
        }
    }
}
