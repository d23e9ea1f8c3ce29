// SPDX-License-Identifier: Apache-2.0
//! One window of a schedule: days of the week, two times of the day, and their time zone.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Time, Weekday};

use crate::zone::Zone;

/// Seconds of a day by the clock.
const SECONDS: u32 = 24 * 60 * 60;

/// Days and times. One whose end is not after its beginning goes over midnight, and belongs to the day on which it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The days on which it begins.
    pub days: Days,
    /// When it begins.
    pub from: TimeOfDay,
    /// When it ends: the first time that is not in it.
    pub to: TimeOfDay,
    /// The time zone of days and times.
    pub zone: Zone,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl Day {
    /// All days, from Monday on.
    pub const ALL: [Self; 7] = [
        Self::Mon,
        Self::Tue,
        Self::Wed,
        Self::Thu,
        Self::Fri,
        Self::Sat,
        Self::Sun,
    ];

    /// The day with this name in a configuration: `mon`.
    pub fn from_key(key: &str) -> Option<Self> {
        let is_named = |day: &Self| day.short_name().to_ascii_lowercase() == key;
        Self::ALL.into_iter().find(is_named)
    }

    pub(crate) fn of(day: Weekday) -> Self {
        Self::ALL[day.to_monday_zero_offset() as usize]
    }

    pub(crate) fn before(self) -> Self {
        Self::ALL[(self as usize + 6) % 7]
    }

    pub(crate) fn short_name(self) -> &'static str {
        ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][self as usize]
    }
}

/// A set of days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Days(u8);

impl Days {
    /// All seven.
    pub const ALL: Self = Self(0x7f);

    /// Whether `day` is one of them.
    #[must_use]
    pub fn contains(self, day: Day) -> bool {
        self.0 & (1 << day as u8) != 0
    }
}

impl FromIterator<Day> for Days {
    fn from_iter<T: IntoIterator<Item = Day>>(days: T) -> Self {
        let bits = days.into_iter().map(|day| 1 << day as u8);
        Self(bits.fold(0, |all, bit: u8| all | bit))
    }
}

/// A time as the clock shows it, in seconds, or the end of the day, `24:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(u32);

impl TimeOfDay {
    /// `00:00`.
    pub const START: Self = Self(0);
    /// `24:00`.
    pub const END: Self = Self(SECONDS);

    pub(crate) fn of(time: Time) -> Self {
        let part = |part: i8| u32::from(part.unsigned_abs());
        Self((part(time.hour()) * 60 + part(time.minute())) * 60 + part(time.second()))
    }

    /// The same; `24:00` is `00:00` of the next day.
    pub(crate) fn time(self) -> Time {
        let part = |seconds: u32, units: u32| (self.0 % SECONDS / seconds % units) as i8;
        Time::constant(part(3600, 24), part(60, 60), part(1, 60), 0)
    }
}

/// Not `HH:MM` or `HH:MM:SS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time of the day, expected HH:MM or HH:MM:SS")]
pub struct NotATime;

/// Reads `HH:MM` or `HH:MM:SS`, from `00:00` to `24:00`.
impl FromStr for TimeOfDay {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let parts: Vec<&str> = text.split(':').collect();
        let (2 | 3) = parts.len() else {
            return Err(NotATime);
        };
        let mut seconds = 0;
        for (part, (units, scale)) in parts.iter().zip([(25, 3600), (60, 60), (60, 1)]) {
            let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            let number: u32 = part.parse().map_err(|_| NotATime)?;
            if !is_number || number >= units {
                return Err(NotATime);
            }
            seconds += number * scale;
        }
        (seconds <= SECONDS)
            .then_some(Self(seconds))
            .ok_or(NotATime)
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, seconds) = (self.0 / 3600, self.0 / 60 % 60, self.0 % 60);
        write!(f, "{hours:02}:{minutes:02}")?;
        match seconds {
            0 => Ok(()),
            _ => write!(f, ":{seconds:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_digits_each_and_end_at_24() {
        for (text, seconds) in [
            ("00:00", 0),
            ("06:30", 23_400),
            ("23:59:59", 86_399),
            ("24:00", 86_400),
            ("24:00:00", 86_400),
        ] {
            let time: TimeOfDay = text.parse().expect(text);
            assert_eq!(time.0, seconds, "{text}");
            let short = text.strip_suffix(":00").filter(|text| text.len() == 5);
            assert_eq!(time.to_string(), short.unwrap_or(text));
        }
        for text in [
            "",
            "6:00",
            "06",
            "06:60",
            "24:01",
            "24:00:01",
            "25:00",
            "06:00:60",
            "06:00:00:00",
            "+6:00",
            "06:00 ",
            "٠٦:00",
            "22h",
            "-1:00",
        ] {
            assert_eq!(text.parse::<TimeOfDay>(), Err(NotATime), "{text}");
        }
    }

    #[test]
    fn days_are_sets_in_a_circle() {
        let days: Days = [Day::Sun, Day::Mon].into_iter().collect();
        let contained = Day::ALL.map(|day| days.contains(day));
        assert_eq!(contained, [true, false, false, false, false, false, true]);
        assert!(Day::ALL.iter().all(|day| Days::ALL.contains(*day)));
        assert_eq!((Day::Mon.before(), Day::Tue.before()), (Day::Sun, Day::Mon));
        assert_eq!(Day::from_key("sat"), Some(Day::Sat));
        assert_eq!(
            (Day::from_key("Sat"), Day::from_key("saturday")),
            (None, None)
        );
    }
}
