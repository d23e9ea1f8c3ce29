// SPDX-License-Identifier: Apache-2.0
//! Line crossing of one object: its side of the line, and whether it crossed the line or went around its end.

use jetwatch_config::{LineRule, Point};
use jetwatch_types::Side;

/// State of one object relative to one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineCrossing {
    /// Confirmed side; `None` while the object was observed only on the line itself.
    side: Option<Side>,
    /// Consecutive frames on the other side.
    opposed: u32,
    before: Point,
    /// Whether the trajectory to the other side crossed the line.
    has_met: bool,
}

impl LineCrossing {
    /// An object that is observed for the first time.
    pub(super) fn new(rule: &LineRule, bottom_center: Point) -> Self {
        Self {
            side: side(rule, bottom_center),
            opposed: 0,
            before: bottom_center,
            has_met: false,
        }
    }

    /// Updates with the object's position in this frame; returns the side it has crossed to, once confirmed.
    pub(super) fn step(&mut self, rule: &LineRule, bottom_center: Point) -> Option<Side> {
        let met = rule.line.crosses(self.before, bottom_center);
        self.before = bottom_center;
        // An object on the line itself has not left its side; its next step from there counts as crossing the line.
        let side_now = side(rule, bottom_center).or(self.side);
        if self.side.is_none() || side_now == self.side {
            (self.side, self.opposed, self.has_met) = (side_now, 0, false);
            return None;
        }
        self.opposed = self.opposed.saturating_add(1);
        self.has_met |= met;
        if self.opposed < rule.inertia_frames {
            return None;
        }
        let has_met = self.has_met;
        (self.side, self.opposed, self.has_met) = (side_now, 0, false);
        side_now.filter(|_| has_met)
    }
}

/// Side of a point; `None` on the line.
fn side(rule: &LineRule, at: Point) -> Option<Side> {
    let side = rule.line.side(at);
    if side > 0.0 {
        Some(Side::Right)
    } else if side < 0.0 {
        Some(Side::Left)
    } else {
        None
    }
}
