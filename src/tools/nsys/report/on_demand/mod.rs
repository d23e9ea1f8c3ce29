// SPDX-License-Identifier: Apache-2.0
//! Tables below the stages, which are read from the export only when they are requested: scheduling of threads, samples of call
//! stacks, metrics of GPUs.
//!
//! These kinds of events are many, and no other table needs them: rows are summed while they are read and not kept.

mod core_waits;
pub(super) mod gpu_metrics;
pub(super) mod samples;
pub(super) mod scheduling;

use std::collections::HashMap;

use super::Result;
use super::capture::Thread;
use super::schema::SCHEDULING;
use super::tables::AnalysisContext;

pub(super) use core_waits::{CoreWait, CoreWaits};
pub(super) use scheduling::Schedule;

impl AnalysisContext<'_> {
    /// The waits for cores of the stage that limits the pipeline; `None` where they are unknown, or where there are more than
    /// `max` events. Reads the scheduling.
    pub(super) fn core_wait(&self, max: u64) -> Result<Option<CoreWait>> {
        // Without either, nothing is known of the reasons, and reading would be in vain.
        let export = self.export;
        let has_reasons = export.has_column(&SCHEDULING, "threadState") || self.capture.has_waits;
        if !export.has(&SCHEDULING) || !has_reasons || export.row_count(&SCHEDULING)? > max {
            return Ok(None);
        }
        let Some(waits) = CoreWaits::of_limit(self) else {
            return Ok(None);
        };
        self.core_waits.replace(waits);
        let schedule = self.schedule()?;
        let (cores, idle) = schedule.idle();
        Ok(self.core_waits.borrow().result(cores, idle))
    }

    /// Scheduling of threads, read at the first use.
    pub(super) fn schedule(&self) -> Result<&Schedule> {
        if self.schedule.get().is_none() {
            let _ = self.schedule.set(Schedule::read(self)?);
        }
        Ok(self.schedule.get_or_init(Schedule::default))
    }

    /// The text of an id; `unknown` for a missing one.
    fn texts(&self, ids: &[i64]) -> Result<HashMap<i64, String>> {
        let broken = |cause| self.export.database_error(cause);
        let connection = self.export.connect()?;
        let statement = connection.prepare("SELECT value FROM StringIds WHERE id = ?1");
        let mut statement = statement.map_err(broken)?;
        let texts = ids.iter().map(|id| {
            let found: Option<String> = statement.query_row([id], |row| row.get(0)).ok();
            (*id, found.unwrap_or_else(|| "unknown".to_owned()))
        });
        Ok(texts.collect())
    }

    /// The name of a thread by nsys's number: that of the capture, else that of the operating system.
    fn thread_title(&self, global: i64) -> String {
        let mut threads = self.capture.threads.iter();
        let known = threads.find_map(|it| it.name.as_ref().filter(|_| it.global == global));
        let name = known.or_else(|| self.capture.system_names.get(&global));
        let name = name.filter(|name| !name.is_empty()).cloned();
        Thread { global, name }.title()
    }
}
