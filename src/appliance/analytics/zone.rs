// SPDX-License-Identifier: Apache-2.0
//! One object and one zone: entry, dwell, exit.

use std::time::Duration;

use jetwatch_config::{Point, ZoneRule};
use jetwatch_types::AnalyticsEventKind;

use super::debounce::Debounce;

/// Visit of an object to a zone, or its absence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ZoneVisit {
    inside: Debounce,
    /// First and last frame inside, of this visit or of one that is not confirmed yet.
    first: Option<Duration>,
    last: Option<Duration>,
    has_loitered: bool,
}

impl ZoneVisit {
    /// Updates with the object's position in this frame.
    pub(super) fn step(
        &mut self,
        zone: usize,
        rule: &ZoneRule,
        bottom_center: Point,
        now: Duration,
        emit: &mut impl FnMut(AnalyticsEventKind),
    ) {
        let is_in = rule.area.contains(bottom_center);
        if is_in {
            self.first.get_or_insert(now);
            self.last = Some(now);
        }
        match self.inside.step(is_in, rule.inertia_frames) {
            Some(true) => emit(AnalyticsEventKind::ZoneEntered { zone }),
            Some(false) => {
                emit(AnalyticsEventKind::ZoneLeft {
                    zone,
                    dwell: self.dwell(),
                });
                *self = Self::default();
            }
            // Too few frames inside: the visit was not confirmed.
            None if !is_in && !self.inside.holds() => *self = Self::default(),
            None => {}
        }
        if let Some(loitering) = rule.loitering
            && self.inside.holds()
            && !self.has_loitered
            && self.dwell() >= loitering
        {
            self.has_loitered = true;
            emit(AnalyticsEventKind::Loitering {
                zone,
                dwell: self.dwell(),
            });
        }
    }

    /// Whether the object counts as inside.
    pub(super) fn is_inside(&self) -> bool {
        self.inside.holds()
    }

    /// Dwell time of the visit that ends with the track; `None` when the object is not inside.
    pub(super) fn end(self) -> Option<Duration> {
        self.is_inside().then(|| self.dwell())
    }

    fn dwell(&self) -> Duration {
        let stay = self.first.zip(self.last);
        stay.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first))
    }
}
