//! One object and one line: on which side it is, and whether it came there over the line or around its end.

use jetwatch_config::{LineRule, Point};
use jetwatch_types::Side;

/// Position of an object relative to a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineCrossing {
    /// The side on which it counts as being; `None` while it was only seen on the line itself.
    side: Option<Side>,
    /// Frames in a row in which it was seen on the other side.
    opposed: u32,
    before: Point,
    /// Whether its way to the other side met the line.
    has_met: bool,
}

impl LineCrossing {
    /// An object that is first seen here.
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
        // An object on the line itself has not left its side; coming from there, it meets the line with its next step.
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

/// On which side a place lies; `None` on the line.
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
