// SPDX-License-Identifier: Apache-2.0
//! Bodies of what people and schedules change: activity, and replies to commands.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use super::value::{SourceName, Utc};
use crate::activity::Activity;
use crate::command::Reply;

/// Whether detection of a source, or a rule, is active by switch and schedule.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "active", title = "Active", deny_unknown_fields)]
pub(super) struct ActiveBody<'a> {
    source: SourceName<'a>,
    /// Name of the rule, or `stationary`; null for detection.
    rule: Option<&'a str>,
    /// Whether it is active.
    active: bool,
    /// Whether it is switched on.
    switched_on: bool,
    /// Whether its schedule has it on; null without one.
    scheduled: Option<bool>,
    /// When its schedule changes next, whatever the switch.
    next_change: Option<Utc>,
    /// When this was found.
    changed_at: Utc,
}

impl<'a> ActiveBody<'a> {
    pub(super) fn new(source: &'a str, activity: &'a Activity<'_>, at: SystemTime) -> Self {
        Self {
            source: SourceName(source),
            rule: activity.rule,
            active: activity.is_active(),
            switched_on: activity.switched_on,
            scheduled: activity.scheduled,
            next_change: activity.next_change.map(Utc),
            changed_at: Utc(at),
        }
    }
}

/// Reply to a command.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "reply", title = "Reply to a command", deny_unknown_fields)]
pub(super) struct ReplyBody<'a> {
    /// The `id` of the command, if it had one.
    id: Option<&'a str>,
    /// The source that the command named.
    name: Option<&'a str>,
    /// Whether the command succeeded.
    ok: bool,
    /// Why the command failed.
    error: Option<&'a str>,
    /// When the command ended.
    at: Utc,
}

impl<'a> ReplyBody<'a> {
    pub(super) fn new(reply: &'a Reply, at: SystemTime) -> Self {
        Self {
            id: reply.id.as_deref(),
            name: reply.name.as_deref(),
            ok: reply.error.is_none(),
            error: reply.error.as_deref(),
            at: Utc(at),
        }
    }
}
