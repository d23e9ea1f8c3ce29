// SPDX-License-Identifier: Apache-2.0
//! The journal and the status of an update, as it goes on and ends.

use std::time::{SystemTime, UNIX_EPOCH};

use jetwatch_telemetry::update_status::{STATUS_VERSION, UpdateState, UpdateStatus};
use jetwatch_telemetry::with_causes;

use super::super::{Journal, Step, System, UpdateError};
use super::Updater;

impl<S: System> Updater<S> {
    /// Writes that `step` begins.
    pub(super) fn begin(&mut self, journal: &mut Journal, step: Step) -> Result<(), UpdateError> {
        journal.step = step;
        self.store.set_journal(journal)?;
        self.report_step(journal)
    }

    /// The same where there is no way but on: the journal on disk is then of an earlier step, from which a resume comes to the same end.
    pub(super) fn begin_always(&mut self, journal: &mut Journal, step: Step) {
        if let Err(error) = self.begin(journal, step) {
            log::warn!("{}; going on", with_causes(&error));
        }
    }

    fn report_step(&mut self, journal: &Journal) -> Result<(), UpdateError> {
        self.report(
            UpdateState::InProgress,
            &journal.from,
            &journal.to,
            Some(journal.step.text()),
        )
    }

    /// The update is over before anything was changed.
    pub(super) fn abandon(&mut self, installed: &str, reason: &str) -> Result<(), UpdateError> {
        let latest = self.store.journal()?;
        let latest = latest.map_or(installed.to_owned(), |journal| journal.to);
        self.store.release_reserve()?;
        self.store.drop_program()?;
        self.store.clear_journal()?;
        self.store.clean()?;
        let status = self.status(UpdateState::Refused, installed, &latest, Some(reason))?;
        self.store.set_last_status(&status)
    }

    /// The update is over.
    pub(super) fn finish(
        &mut self,
        state: UpdateState,
        installed: &str,
        reason: Option<&str>,
        journal: &Journal,
    ) -> Result<(), UpdateError> {
        self.store.release_reserve()?;
        let mut status = self.status(state, installed, &journal.to, reason)?;
        status.held = match state {
            UpdateState::RolledBack if journal.hold => Some(journal.to.clone()),
            UpdateState::Installed => None,
            _ => status.held,
        };
        self.store.set_last_status(&status)?;
        self.store.drop_program()?;
        self.store.clear_journal()?;
        self.store.clean()
    }

    pub(super) fn report(
        &mut self,
        state: UpdateState,
        installed: &str,
        latest: &str,
        reason: Option<&str>,
    ) -> Result<(), UpdateError> {
        let status = self.status(state, installed, latest, reason)?;
        self.store.set_status(&status)
    }

    fn status(
        &self,
        state: UpdateState,
        installed: &str,
        latest: &str,
        reason: Option<&str>,
    ) -> Result<UpdateStatus, UpdateError> {
        // An unreadable status is replaced.
        let held = self.store.status().ok().flatten();
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(UpdateStatus {
            version: STATUS_VERSION,
            state,
            installed: installed.to_owned(),
            latest: latest.to_owned(),
            held: held.and_then(|status| status.held),
            previous: self.store.kept()?.previous_version,
            reason: reason.map(str::to_owned),
            at_ms: at.map_or(0, |at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX)),
        })
    }
}
