// SPDX-License-Identifier: Apache-2.0
//! Schedules: windows of days and times in a time zone. Whether one is active at a time, and when that changes next. Pure: the
//! time is an argument; only [`Zone`] reads files, when it is looked up. Not a timer: the pipeline asks.
//!
//! A window holds while the clock on the wall shows a time within it. Everything at a change of daylight saving time follows from
//! that: a time that the clock leaves out does not occur, and one that it shows twice counts both times. Rejected: fixed
//! instants for the two ends, which need a rule for each end that falls into such an hour, and then differ from the clock.

mod state;
#[cfg(test)]
mod tests;
mod window;
mod zone;

use std::fmt::Write as _;
use std::time::SystemTime;

use jiff::civil::{Date, Time};
use jiff::tz::AmbiguousOffset;
use jiff::{Span, Timestamp};

pub use self::state::ScheduleState;
pub use self::window::{Day, Days, TimeOfDay, Window};
pub use self::zone::{Zone, ZoneError};

/// Days around the present one that are looked at for the next change. Windows repeat each week; one that a change of daylight
/// saving time leaves out comes a week later.
const DAYS_BEFORE: i64 = 1;
const DAYS_AFTER: i64 = 22;

/// When something is active: while at least one of the windows holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    windows: Vec<Window>,
}

/// What a schedule says at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Whether it is active.
    pub active: bool,
    /// When that changes; `None`: it does not.
    pub next_change: Option<SystemTime>,
}

impl Schedule {
    /// A schedule of these windows.
    pub fn new(windows: Vec<Window>) -> Self {
        Self { windows }
    }

    /// What it says at `at`.
    pub fn status(&self, at: SystemTime) -> Status {
        let now = timestamp(at);
        let active = self.is_active(now);
        let next = self.changes_after(now).into_iter();
        let mut next = next.filter(|change| self.is_active(*change) != active);
        Status {
            active,
            next_change: next.next().map(SystemTime::from),
        }
    }

    /// What it says at `at`, as text: `active until Thu 2026-11-26 06:00 CET (Europe/Berlin)`.
    pub fn describe(&self, at: SystemTime) -> String {
        let Status {
            active,
            next_change,
        } = self.status(at);
        let word = if active { "active" } else { "not active" };
        let Some((change, window)) = next_change.zip(self.windows.first()) else {
            return format!("{word}, always");
        };
        let mut text = format!("{word} until ");
        let (zone, change) = (&window.zone, timestamp(change));
        let local = zone.local(change);
        let (date, time) = (local.date(), local.time());
        let day = Day::of(date.weekday());
        // A text takes everything.
        let _ = write!(
            text,
            "{} {date} {:02}:{:02}",
            day.short_name(),
            time.hour(),
            time.minute()
        );
        if time.second() != 0 {
            let _ = write!(text, ":{:02}", time.second());
        }
        let _ = write!(text, " {} ({zone})", zone.abbreviation(change));
        text
    }

    fn is_active(&self, at: Timestamp) -> bool {
        self.windows.iter().any(|window| window.holds(at))
    }

    /// Times after `now` at which a window may begin or end, in order.
    fn changes_after(&self, now: Timestamp) -> Vec<Timestamp> {
        let mut changes = Vec::new();
        for window in &self.windows {
            let zone = &window.zone;
            let today = zone.local(now).date();
            for offset in -DAYS_BEFORE..=DAYS_AFTER {
                let Ok(date) = today.checked_add(Span::new().days(offset)) else {
                    continue;
                };
                if window.days.contains(Day::of(date.weekday())) {
                    changes.extend(window.ends(date).into_iter().flatten());
                }
            }
            if let Some(last) = changes.iter().max().copied() {
                // Where the clock jumps, it may jump into a window or out of one.
                changes.extend(zone.transitions(now).take_while(|at| *at <= last));
            }
        }
        changes.retain(|at| *at > now);
        changes.sort_unstable();
        changes.dedup();
        changes
    }
}

impl Window {
    /// Whether the clock in its zone shows a time within it.
    fn holds(&self, at: Timestamp) -> bool {
        let local = self.zone.local(at);
        let (today, time) = (Day::of(local.weekday()), TimeOfDay::of(local.time()));
        let is_today = self.days.contains(today);
        if self.from < self.to {
            return is_today && self.from <= time && time < self.to;
        }
        let is_since_yesterday = self.days.contains(today.before());
        (is_today && self.from <= time) || (is_since_yesterday && time < self.to)
    }

    /// When it begins and ends if it begins on `date`: twice where the clock shows that time twice, and not at all where the
    /// clock leaves it out.
    fn ends(&self, date: Date) -> [Option<Timestamp>; 4] {
        let is_next_day = self.to <= self.from || self.to == TimeOfDay::END;
        let last = if is_next_day {
            date.tomorrow()
        } else {
            Ok(date)
        };
        let [begin, again] = self.instants(date, self.from.time());
        let [end, last] = last.map_or([None, None], |date| self.instants(date, self.to.time()));
        [begin, again, end, last]
    }

    fn instants(&self, date: Date, time: Time) -> [Option<Timestamp>; 2] {
        let local = date.to_datetime(time);
        match self.zone.offsets(local) {
            AmbiguousOffset::Unambiguous { offset } => [offset.to_timestamp(local).ok(), None],
            AmbiguousOffset::Gap { .. } => [None, None],
            AmbiguousOffset::Fold { before, after } => {
                [before, after].map(|offset| offset.to_timestamp(local).ok())
            }
        }
    }
}

/// Times that only a broken clock can show count as the last or the first one that calendars have.
fn timestamp(at: SystemTime) -> Timestamp {
    let end = match at < SystemTime::UNIX_EPOCH {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    };
    Timestamp::try_from(at).unwrap_or(end)
}
