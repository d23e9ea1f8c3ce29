// SPDX-License-Identifier: Apache-2.0
//! Time zones by their IANA names, out of the system's files in any version of their format, and the zone of the system itself.

use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{self, AmbiguousOffset, TimeZone};

/// The file that says which zone the system is in. Without it, that is UTC (localtime(5)).
const LOCALTIME: &str = "/etc/localtime";

/// A time zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

/// Why there is no such time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum ZoneError {
    #[error("this machine has no time zones in /usr/share/zoneinfo")]
    NoData,
    #[error("no time zone of this machine")]
    Unknown,
    #[error("the time zone of the system cannot be read (TZ, /etc/localtime): {0}")]
    System(String),
}

impl Zone {
    /// The zone with this IANA name, such as `Europe/Berlin`. Its file is read when it is used for the first time.
    ///
    /// # Errors
    /// There is no such zone, or there are none.
    pub fn named(name: &str) -> Result<Self, ZoneError> {
        if name == "UTC" {
            return Ok(Self(TimeZone::UTC));
        }
        let zone = tz::db().get(name).ok();
        // Names of a cached list may differ from those of the disk, so the list is no evidence that a zone is there.
        match zone.filter(|zone| !zone.is_unknown()) {
            Some(zone) => Ok(Self(zone)),
            None if Self::names().is_empty() => Err(ZoneError::NoData),
            None => Err(ZoneError::Unknown),
        }
    }

    /// The zone that the system is in: that of `TZ` or of `/etc/localtime`; without both UTC.
    ///
    /// # Errors
    /// What they name cannot be read.
    pub fn system() -> Result<Self, ZoneError> {
        let is_set = std::env::var_os("TZ").is_some();
        if !is_set && !Path::new(LOCALTIME).is_symlink() && !Path::new(LOCALTIME).exists() {
            return Ok(Self(TimeZone::UTC));
        }
        let zone = TimeZone::try_system();
        zone.map(Self)
            .map_err(|error| ZoneError::System(error.to_string()))
    }

    /// The zone of the content of a zoneinfo file; `None`: it is none.
    pub fn from_file(name: &str, content: &[u8]) -> Option<Self> {
        TimeZone::tzif(name, content).ok().map(Self)
    }

    /// The names of all zones of the machine.
    pub fn names() -> Vec<String> {
        let names = tz::db().available();
        names
            .map(|name| name.as_str().to_owned())
            .filter(|name| name != "UTC" && name != "Etc/Unknown")
            .collect()
    }

    /// What the clock shows.
    pub(crate) fn local(&self, at: Timestamp) -> DateTime {
        self.0.to_datetime(at)
    }

    /// By how much the clock differs from UTC when it shows `local`.
    pub(crate) fn offsets(&self, local: DateTime) -> AmbiguousOffset {
        self.0.to_ambiguous_timestamp(local).offset()
    }

    /// When the clock jumps after `at`.
    pub(crate) fn transitions(&self, at: Timestamp) -> impl Iterator<Item = Timestamp> {
        let mut last = at;
        let following = self.0.following(at);
        // Of a file without a rule for later years, the iterator repeats the last one for ever.
        following
            .map(|transition| transition.timestamp())
            .take_while(move |at| std::mem::replace(&mut last, *at) < *at)
    }

    /// The abbreviation at `at`, such as `CET`.
    pub(crate) fn abbreviation(&self, at: Timestamp) -> String {
        self.0.to_offset_info(at).abbreviation().to_owned()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("the zone of the system"))
    }
}
