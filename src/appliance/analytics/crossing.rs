//! One object and one line: on which side it is, and whether it came there over the line or around its end.

use jetwatch_config::{LineRule, Point};
use jetwatch_types::Side;

/// Where an object is, seen from a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    /// The side on which it counts as being; `None` while it was only seen on the line itself.
    side: Option<Side>,
    /// Frames in a row in which it was seen on the other side.
    opposed: u32,
    before: Point,
    /// Whether its way to the other side met the line.
    has_met: bool,
}

impl Passage {
    /// An object that is first seen here.
    pub(super) fn new(rule: &LineRule, foot: Point) -> Self {
        Self {
            side: side(rule, foot),
            opposed: 0,
            before: foot,
            has_met: false,
        }
    }

    /// Takes in where the object is in this frame; the side to which it has crossed, once that is sure.
    pub(super) fn step(&mut self, rule: &LineRule, foot: Point) -> Option<Side> {
        let met = rule.line.is_met(self.before, foot);
        self.before = foot;
        // Who stands on the line itself has not left its side, and who comes from there meets it with the next step.
        let seen = side(rule, foot).or(self.side);
        if self.side.is_none() || seen == self.side {
            (self.side, self.opposed, self.has_met) = (seen, 0, false);
            return None;
        }
        self.opposed = self.opposed.saturating_add(1);
        self.has_met |= met;
        if self.opposed < rule.inertia_frames {
            return None;
        }
        let has_met = self.has_met;
        (self.side, self.opposed, self.has_met) = (seen, 0, false);
        seen.filter(|_| has_met)
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
