// SPDX-License-Identifier: Apache-2.0
//! Scheduling of threads: which ran on which core, when, and how long cores were idle.
//!
//! nsys records when a thread is put on a core and taken off it, of the profiled processes or, as root, of all. A core counts as
//! idle while no recorded thread is on it.

use std::cmp::Reverse;

use super::super::Result;
use super::super::blocks::{Block, least, push_block};
use super::super::capture::TimeWindow;
use super::super::capture::fields::for_each_row;
use super::super::interner::Interner;
use super::super::schema::SCHEDULING;
use super::super::summary_stats::share_of;
use super::super::table::Table;
use super::{AnalysisContext, CoreWaits};
use foldhash::HashMap;

/// Bits of a thread's number that hold the thread id; zero is the idle task of the kernel.
const THREAD_ID: i64 = 0x00ff_ffff;

/// Sums over the window.
#[derive(Debug, Default)]
pub(in crate::report) struct Schedule {
    /// From the first event to the last, in ns.
    span: (i64, i64),
    /// By core number.
    pub(in crate::report) cores: Vec<Core>,
    /// In the order of their first event.
    threads: Vec<Scheduled>,
    /// Names of the threads.
    pub(in crate::report) titles: Vec<String>,
}

#[derive(Debug, Default, Clone)]
pub(in crate::report) struct Core {
    pub(in crate::report) number: i64,
    busy: i64,
    /// Times that a thread was put on it.
    switches: u64,
    /// Time of each thread, by index.
    by_thread: HashMap<u32, i64>,
    /// Begin, end, thread and number of events, short ones merged.
    pub(in crate::report) blocks: Vec<Block>,
}

#[derive(Debug, Default, Clone)]
struct Scheduled {
    global: i64,
    first: i64,
    last: i64,
    running: i64,
    runs: u64,
    longest_off: i64,
    /// Begin and core of the current run.
    open: Option<(i64, usize)>,
    last_core: Option<usize>,
    moves: u64,
    /// State in which it was last taken off a core, if the export has it.
    off_state: Option<i64>,
}

impl Schedule {
    /// Reads all events. Those of a thread must be in order of time, as nsys writes them; otherwise they are sorted first.
    pub(super) fn read(data: &AnalysisContext<'_>) -> Result<Self> {
        let mut schedule = match Self::read_in(data, "")? {
            Some(schedule) => schedule,
            None => Self::read_in(data, "ORDER BY start, isSchedIn")?.unwrap_or_default(),
        };
        let threads = schedule.threads.iter();
        schedule.titles = threads.map(|it| data.thread_title(it.global)).collect();
        schedule.cores.sort_by_key(|core| core.number);
        Ok(schedule)
    }

    /// `None` if the rows are not in order of time.
    fn read_in(data: &AnalysisContext<'_>, order: &str) -> Result<Option<Self>> {
        let mut reader = Reader {
            window: data.window,
            least: least(data.capture.span().unwrap_or_default()),
            waits: data.core_waits.take(),
            ..Reader::default()
        };
        reader.waits.clear();
        let mut is_ordered = true;
        for_each_row(data.export, &SCHEDULING, order, |fields| {
            let (at, core) = (fields.required(0)?, fields.required(1)?);
            let begins = fields.required(2)? != 0;
            let Some(global) = fields.optional(3)? else {
                return Ok(());
            };
            if global & THREAD_ID != 0 && is_ordered {
                let state = fields.optional(4)?;
                is_ordered = reader.event((at, core), begins, global, state);
            }
            Ok(())
        })?;
        data.core_waits.replace(std::mem::take(&mut reader.waits));
        Ok(is_ordered.then(|| reader.finish()))
    }

    /// Number of cores, and the share of their time in which no recorded thread ran on them, 0 to 1.
    pub(super) fn idle(&self) -> (usize, f64) {
        let length = (self.span.1 - self.span.0).max(1) as f64;
        let busy: i64 = self.cores.iter().map(|core| core.busy).sum();
        let all = length * self.cores.len().max(1) as f64;
        (self.cores.len(), (1.0 - busy as f64 / all).clamp(0.0, 1.0))
    }
}

/// State while rows are read.
#[derive(Default)]
struct Reader {
    window: TimeWindow,
    least: i64,
    span: Option<(i64, i64)>,
    places: Interner<i64>,
    threads: Vec<Scheduled>,
    core_places: Interner<i64>,
    cores: Vec<Core>,
    waits: CoreWaits,
}

impl Reader {
    /// Takes one event; `false` if it is earlier than the one before of its thread.
    fn event(
        &mut self,
        (at, core): (i64, i64),
        begins: bool,
        global: i64,
        state: Option<i64>,
    ) -> bool {
        let place = self.places.number(global);
        if place as usize == self.threads.len() {
            self.threads.push(Scheduled {
                global,
                first: at,
                last: at,
                ..Scheduled::default()
            });
        }
        let last = self.threads[place as usize].last;
        if at < last {
            return false;
        }
        self.span = Some(match self.span {
            Some((first, last)) => (first.min(at), last.max(at)),
            None => (at, at),
        });
        let number = core;
        let core = self.core_places.number(number) as usize;
        if core == self.cores.len() {
            self.cores.push(Core {
                number,
                ..Core::default()
            });
        }
        if begins {
            let thread = &mut self.threads[place as usize];
            if thread.open.is_none() && thread.runs > 0 {
                thread.longest_off = thread.longest_off.max(at - last);
                self.waits.add(global, last, at, thread.off_state);
            }
            if thread.last_core.replace(core).is_some_and(|it| it != core) {
                thread.moves += 1;
            }
            thread.open = Some((at, core));
        } else if let Some((start, core)) = self.threads[place as usize].open.take() {
            self.threads[place as usize].off_state = state;
            self.run(place, core, start, at);
        }
        self.threads[place as usize].last = at;
        true
    }

    /// Adds a run of a thread on a core.
    fn run(&mut self, place: u32, core: usize, start: i64, end: i64) {
        let (start, end) = (start.max(self.window.from), end.min(self.window.until));
        if end <= start {
            return;
        }
        let thread = &mut self.threads[place as usize];
        thread.running += end - start;
        thread.runs += 1;
        let core = &mut self.cores[core];
        core.busy += end - start;
        core.switches += 1;
        *core.by_thread.entry(place).or_default() += end - start;
        push_block(&mut core.blocks, (start, end, place), self.least);
    }

    /// Threads that are still on a core ran until the last event.
    fn finish(mut self) -> Schedule {
        let (first, last) = self.span.unwrap_or_default();
        for place in 0..self.threads.len() as u32 {
            if let Some((start, core)) = self.threads[place as usize].open.take() {
                self.run(place, core, start, last);
                self.threads[place as usize].last = last;
            }
        }
        Schedule {
            span: (first.max(self.window.from), last.min(self.window.until)),
            cores: self.cores,
            threads: self.threads,
            titles: Vec::new(),
        }
    }
}

/// Busy and idle time of each core.
pub(in crate::report) fn cores(schedule: &Schedule) -> Table {
    let length = (schedule.span.1 - schedule.span.0).max(1);
    let title_of = |place: u32| schedule.titles[place as usize].as_str();
    let most = |core: &Core| {
        let threads = core.by_thread.iter().map(|(place, time)| (*place, *time));
        threads.max_by_key(|(place, time)| (*time, Reverse(*place)))
    };
    Table::unnamed(&schedule.cores)
        .plain("Core", |core| core.number)
        .percent("Busy", |core| share_of(core.busy, length))
        .ns("Busy Time", |core| core.busy)
        .ns("Idle Time", |core| (length - core.busy).max(0))
        .plain("Switches", |core| core.switches)
        .plain("Most Time", |core| Some(title_of(most(core)?.0)))
        .percent("Its Share", |it| Some(share_of(most(it)?.1, length)))
        .build()
}

/// Each thread's time on and off the cores, the busiest first.
pub(in crate::report) fn threads(schedule: &Schedule, max: usize) -> Table {
    let length = (schedule.span.1 - schedule.span.0).max(1);
    let threads = schedule.titles.iter().zip(&schedule.threads);
    let threads = threads.filter(|(_, thread)| thread.runs > 0);
    let mut rows: Vec<(&String, &Scheduled)> = threads.collect();
    rows.sort_by_key(|(_, thread)| Reverse(thread.running));
    let off = |it: &Scheduled| (it.last - it.first - it.running).max(0);
    Table::unnamed(&rows)
        .limit(max)
        .plain("Thread", |(title, _)| title.as_str())
        .percent("Running", |(_, it)| share_of(it.running, length))
        .ns("Running Time", |(_, it)| it.running)
        .ns("Off-CPU Time", |(_, it)| off(it))
        .ns("Longest Off-CPU", |(_, it)| it.longest_off)
        .plain("Runs", |(_, it)| it.runs)
        .ns("Run Avg", |(_, it)| it.running as f64 / it.runs as f64)
        .plain("Core Changes", |(_, it)| it.moves)
        .plain("TID", |(_, it)| it.global & THREAD_ID)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: &[(i64, i64, bool, i64)]) -> Option<Schedule> {
        let mut reader = Reader {
            window: TimeWindow::default(),
            least: 1,
            ..Reader::default()
        };
        let ordered = events
            .iter()
            .all(|(at, core, begins, thread)| reader.event((*at, *core), *begins, *thread, None));
        ordered.then(|| reader.finish())
    }

    #[test]
    fn a_thread_that_is_still_on_a_core_runs_until_the_last_event() {
        let schedule =
            read(&[(0, 0, true, 1), (50, 1, true, 2), (90, 1, false, 2)]).expect("in order");
        assert_eq!(schedule.threads[0].running, 90);
        assert!(read(&[(10, 0, true, 1), (5, 0, false, 1)]).is_none());
    }
}
