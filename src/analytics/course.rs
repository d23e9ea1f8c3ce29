//! How one object moves: which of the known ways it goes, and whether it stands still.

use std::time::{Duration, SystemTime};

use crate::config::{DirectionRule, Point, StationaryRule};
use crate::types::{FactKind, Xyxy, intersection_over_union};

use super::hysteresis::Change;

/// Which way an object goes.
#[derive(Debug, Clone)]
pub(super) struct Heading {
    /// Where its way is measured from.
    from: Point,
    /// The place of the rule among the directions; `None` before it has come far enough, and for other ways.
    direction: Option<usize>,
}

impl Heading {
    /// An object that is first seen here.
    pub(super) fn new(foot: Point) -> Self {
        Self {
            from: foot,
            direction: None,
        }
    }

    /// Takes in where the object is in this frame; its direction when that has become another.
    ///
    /// The way is looked at when the object has come as far as every rule asks for, and is then measured anew from there:
    /// trembling boxes go nowhere.
    pub(super) fn step(&mut self, rules: &[DirectionRule], foot: Point) -> Option<Option<usize>> {
        let way = [foot[0] - self.from[0], foot[1] - self.from[1]];
        let distance = way[0].hypot(way[1]);
        let farthest = rules
            .iter()
            .map(|rule| rule.min_distance)
            .fold(None, |most: Option<f32>, least| {
                Some(most.map_or(least, |most| most.max(least)))
            })?;
        if distance < farthest {
            return None;
        }
        self.from = foot;
        let fits = |rule: &DirectionRule| {
            let (from, to) = (rule.line.from, rule.line.to);
            let wanted = [to[0] - from[0], to[1] - from[1]];
            let cosine =
                (way[0] * wanted[0] + way[1] * wanted[1]) / (distance * wanted[0].hypot(wanted[1]));
            cosine.clamp(-1.0, 1.0).acos().to_degrees() <= rule.tolerance_degrees
        };
        let direction = rules.iter().position(fits);
        if direction == self.direction {
            return None;
        }
        self.direction = direction;
        Some(direction)
    }
}

/// Whether an object stands still.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    /// The box that it had when it was first seen here, and since when.
    anchor: Xyxy,
    since: SystemTime,
    moved: Change,
    is_still: bool,
}

impl Rest {
    /// An object that is first seen here.
    pub(super) fn new(xyxy: Xyxy, at: SystemTime) -> Self {
        Self {
            anchor: xyxy,
            since: at,
            moved: Change::default(),
            is_still: false,
        }
    }

    /// Whether it counts as standing still.
    pub(super) fn is_still(&self) -> bool {
        self.is_still
    }

    /// Takes in the object's box in this frame.
    pub(super) fn step(
        &mut self,
        rule: &StationaryRule,
        xyxy: Xyxy,
        at: SystemTime,
    ) -> Option<FactKind> {
        let is_elsewhere = intersection_over_union(&self.anchor, &xyxy) < rule.min_iou;
        if self.moved.step(is_elsewhere, rule.inertia_frames).is_some() {
            let was_still = self.is_still;
            *self = Self::new(xyxy, at);
            return was_still.then_some(FactKind::Moving);
        }
        let since = at.duration_since(self.since).unwrap_or(Duration::ZERO);
        if self.is_still || since < rule.after {
            return None;
        }
        self.is_still = true;
        Some(FactKind::Stationary { since })
    }
}
