// SPDX-License-Identifier: Apache-2.0
//! The message about updates of the package.

use std::time::{Duration, SystemTime};

use jetwatch_telemetry::update_status::{UpdateState, UpdateStatus};
use schemars::JsonSchema;
use serde::Serialize;

use super::value::Utc;
use super::words::UpdateStateWord;

/// What `jetwatch-update` knows: published at the start and at each change, where it was used.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "update",
    title = "Update of the package",
    deny_unknown_fields
)]
pub(super) struct UpdateBody<'a> {
    state: UpdateStateWord,
    /// An update or a roll-back is under way.
    in_progress: bool,
    /// The installed version, with those of models, such as `1.1.0, street 8`.
    installed: &'a str,
    /// The newest known version.
    latest: &'a str,
    /// The version that was rolled back.
    held: Option<&'a str>,
    /// The version to which `jetwatch-update rollback` returns.
    previous: Option<&'a str>,
    /// The present step, or why the last update was not installed.
    reason: Option<&'a str>,
    /// When this was found.
    at: Utc,
}

impl<'a> UpdateBody<'a> {
    pub(super) fn new(status: &'a UpdateStatus) -> Self {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(status.at_ms));
        Self {
            state: status.state.into(),
            in_progress: status.state == UpdateState::InProgress,
            installed: &status.installed,
            latest: &status.latest,
            held: status.held.as_deref(),
            previous: status.previous.as_deref(),
            reason: status.reason.as_deref(),
            at: Utc(at.unwrap_or(SystemTime::UNIX_EPOCH)),
        }
    }
}
