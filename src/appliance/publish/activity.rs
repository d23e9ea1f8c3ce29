//! Whether detection of a source, or one of its rules, is active: by its switch and by its schedule.

use std::collections::BTreeSet;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use crate::SourceInfo;
use crate::wire::{Device, SCHEMA_VERSION, SourceName, Utc, version};

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

    pub(crate) fn body<'a>(
        &'a self,
        device: &'a str,
        source: &'a str,
        at: SystemTime,
    ) -> ActiveBody<'a> {
        ActiveBody {
            version: SCHEMA_VERSION,
            kind: "active",
            device: Device(device),
            source: SourceName(source),
            rule: self.rule,
            active: self.is_active(),
            switched_on: self.switched_on,
            scheduled: self.scheduled,
            next_change: self.next_change.map(Utc),
            changed_at: Utc(at),
        }
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

/// Whether detection of a source, or one of its rules, is active. Only where it has a schedule.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "active", title = "Active", deny_unknown_fields)]
pub(crate) struct ActiveBody<'a> {
    #[schemars(schema_with = "version")]
    version: u32,
    #[schemars(extend("const" = "active"))]
    kind: &'static str,
    device: Device<'a>,
    source: SourceName<'a>,
    /// Name of the zone, line or direction, or `stationary`; null for detection of the source.
    rule: Option<&'a str>,
    /// Whether it is active: switched on, and on by its schedule.
    active: bool,
    /// Whether it is switched on.
    switched_on: bool,
    /// Whether its schedule has it on; null once a reload has removed the schedule.
    scheduled: Option<bool>,
    /// When its schedule changes next, whatever the switch; null where it does not.
    next_change: Option<Utc>,
    /// When this was found.
    changed_at: Utc,
}
