// SPDX-License-Identifier: Apache-2.0
//! What a schedule says, evaluated again only when that may have changed: for a caller that asks with every frame.

use std::time::SystemTime;

use crate::{Schedule, Status};

/// A schedule with what it said last.
#[derive(Debug, Clone)]
pub struct ScheduleState {
    schedule: Schedule,
    at: SystemTime,
    status: Status,
}

impl ScheduleState {
    /// With what `schedule` says at `at`.
    pub fn new(schedule: Schedule, at: SystemTime) -> Self {
        let status = schedule.status(at);
        Self {
            schedule,
            at,
            status,
        }
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What it said last.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Takes the time; returns whether the status is another one. A clock that was set back counts as any other time.
    pub fn step(&mut self, at: SystemTime) -> bool {
        let is_over = self.status.next_change.is_some_and(|change| at >= change);
        if !is_over && at >= self.at {
            return false;
        }
        let before = self.status;
        self.status = self.schedule.status(at);
        self.at = at;
        self.status != before
    }
}
