// SPDX-License-Identifier: Apache-2.0
//! Whether detection of a source, or one of its rules, is active: by its switch and by its schedule.

use std::collections::BTreeSet;
use std::time::SystemTime;

use crate::SourceInfo;

/// What is active of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity<'a> {
    /// Name of the zone, line or direction, or `stationary`; `None`: detection of the source.
    pub rule: Option<&'a str>,
    /// Whether it is switched on.
    pub switched_on: bool,
    /// Whether its schedule has it on; `None`: it has no schedule.
    pub scheduled: Option<bool>,
    /// When its schedule changes; `None`: it does not.
    pub next_change: Option<SystemTime>,
}

impl Activity<'_> {
    /// Whether it is active: switched on, and on by its schedule.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.switched_on && self.scheduled.unwrap_or(true)
    }
}

impl SourceInfo {
    /// What has a schedule: detection (`None`) and rules.
    pub(crate) fn scheduled(&self) -> BTreeSet<Option<String>> {
        let rules = self.rules.names().zip(self.rules.schedules());
        let rules = rules.filter(|(_, schedule)| schedule.is_some());
        let detection = self.has_schedule.then_some(None);
        let rules = rules.map(|(name, _)| Some(name.to_owned()));
        detection.into_iter().chain(rules).collect()
    }
}
