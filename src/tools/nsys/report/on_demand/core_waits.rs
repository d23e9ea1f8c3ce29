// SPDX-License-Identifier: Apache-2.0
//! Time in which the threads of a stage could run and had no CPU core.
//!
//! nsys records when a thread is put on a core and taken off it. From 2023 on, it also records the state in which the thread was taken
//! off: one that was running could have gone on. Earlier exports have no state: there a thread counts as waiting for a core while it
//! is off one, inside of the stage, and in no call of CUDA or of the operating system's libraries. Without such calls in the
//! capture nothing is known, since it may have waited for something else.

use std::collections::HashMap;

use jetwatch_telemetry::Stage;

use super::super::capture::Capture;
use super::super::tables::{AnalysisContext, overlap};

/// State of a thread that was taken off its core while it could go on: `Running` of nsys's ENUM_SAMPLING_THREAD_STATE.
const RUNNING: i64 = 1;

/// Times of a stage on its threads, and the waits for cores in them. Times are in ns.
#[derive(Debug, Default)]
pub(in crate::report) struct CoreWaits {
    stage: Option<Stage>,
    /// By nsys's number of the thread.
    threads: HashMap<i64, StageThread>,
    /// The capture has calls of the operating system, so that other waits are known.
    has_calls: bool,
    /// The export has states of threads.
    has_states: bool,
}

#[derive(Debug, Default)]
struct StageThread {
    name: String,
    /// Times in the stage.
    stage: Vec<(i64, i64)>,
    /// The same without the times in calls.
    outside_calls: Vec<(i64, i64)>,
    /// Off the core in the stage: after it was running, and outside of calls.
    preempted: i64,
    unexplained: i64,
}

/// The waits for cores of the stage that limits the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CoreWait {
    /// The stage.
    pub stage: Stage,
    /// The thread that waited most.
    pub thread: String,
    /// Its waits, in ns.
    pub waited_ns: i64,
    /// The waits of all threads as a share of their time in the stage, 0 to 1.
    pub share: f64,
    /// Cores on which a recorded thread ran.
    pub cores: usize,
    /// Share of their time in which no recorded thread ran on them, 0 to 1.
    pub idle: f64,
    /// The export says that the thread could run; else it was in no call that waits.
    pub has_states: bool,
}

impl CoreWaits {
    /// Of the stage that limits the pipeline; `None` where no stage limits it, or the stage is not work of a thread.
    pub(super) fn of_limit(context: &AnalysisContext<'_>) -> Option<Self> {
        let path = &context.critical_path;
        let limit = path.limit().filter(|stage| !stage.is_wait());
        let stage = limit.filter(|stage| *stage != Stage::Input)?;
        let capture = context.capture;
        let mut by_index: HashMap<u16, StageThread> = HashMap::new();
        for range in &capture.ranges {
            if range.start >= path.span.0 && capture.stage(range) == Some(stage) {
                let thread = by_index.entry(range.thread).or_default();
                thread.stage.push((range.start, range.end));
            }
        }
        let threads = by_index.into_iter().map(|(index, mut thread)| {
            thread.stage.sort_unstable();
            thread.outside_calls = outside_calls(capture, index, &thread.stage);
            let known = capture.thread(index);
            thread.name = known.title();
            (known.global, thread)
        });
        Some(Self {
            stage: Some(stage),
            threads: threads.collect(),
            has_calls: capture.has_waits,
            has_states: false,
        })
    }

    /// Forgets what was added.
    pub(super) fn clear(&mut self) {
        self.has_states = false;
        for thread in self.threads.values_mut() {
            (thread.preempted, thread.unexplained) = (0, 0);
        }
    }

    /// A thread was off its cores; `state` is that in which it was taken off, if the export has it.
    pub(super) fn add(&mut self, global: i64, from: i64, until: i64, state: Option<i64>) {
        let Some(thread) = self.threads.get_mut(&global) else {
            return;
        };
        if let Some(state) = state {
            self.has_states |= state != 0;
            if state == RUNNING {
                thread.preempted += overlap(&thread.stage, from, until);
            }
        }
        thread.unexplained += overlap(&thread.outside_calls, from, until);
    }

    /// The result; `idle` is the share of the time of the `cores` cores in which none of the recorded threads ran. `None` where
    /// nothing is known.
    pub(super) fn result(&self, cores: usize, idle: f64) -> Option<CoreWait> {
        let stage = self.stage.filter(|_| self.has_states || self.has_calls)?;
        let waited = |thread: &StageThread| match self.has_states {
            true => thread.preempted,
            false => thread.unexplained,
        };
        let threads = || self.threads.values();
        let all: i64 = threads().map(waited).sum();
        let time: i64 = threads()
            .flat_map(|it| &it.stage)
            .map(|it| it.1 - it.0)
            .sum();
        let most = threads().max_by_key(|it| (waited(it), std::cmp::Reverse(it.name.as_str())))?;
        Some(CoreWait {
            stage,
            thread: most.name.clone(),
            waited_ns: waited(most),
            share: all as f64 / (time as f64).max(1.0),
            cores,
            idle,
            has_states: self.has_states,
        })
    }
}

/// The parts of `times`, which are in order and apart, in which the thread was in no call.
fn outside_calls(capture: &Capture, thread: u16, times: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut calls = capture.outermost_calls(thread).peekable();
    let mut outside = Vec::with_capacity(times.len());
    for (start, end) in times {
        let mut at = *start;
        while let Some((_, call)) = calls.next_if(|(_, call)| call.start < *end) {
            if call.end <= at {
                continue;
            }
            if call.start > at {
                outside.push((at, call.start));
            }
            at = call.end;
        }
        if at < *end {
            outside.push((at, *end));
        }
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(stage: &[(i64, i64)], outside_calls: &[(i64, i64)], has_calls: bool) -> CoreWaits {
        let thread = StageThread {
            name: "detect-0".to_owned(),
            stage: stage.to_vec(),
            outside_calls: outside_calls.to_vec(),
            ..StageThread::default()
        };
        CoreWaits {
            stage: Some(Stage::Infer),
            threads: HashMap::from([(7, thread)]),
            has_calls,
            has_states: false,
        }
    }

    #[test]
    fn time_off_a_core_in_no_call_is_a_wait_for_a_core() {
        // From 40 to 60 it waited in a call.
        let mut found = waits(
            &[(0, 100), (200, 300)],
            &[(0, 40), (60, 100), (200, 300)],
            true,
        );
        found.add(7, 30, 70, None);
        found.add(7, 100, 200, None);
        found.add(7, 290, 320, None);
        found.add(8, 0, 300, None);
        let result = found.result(2, 0.25).expect("calls are known");
        assert_eq!(result.thread, "detect-0");
        assert_eq!(result.waited_ns, 10 + 10 + 10);
        assert!((result.share - 30.0 / 200.0).abs() < 1e-9);
        let mut unknown = waits(&[(0, 100)], &[(0, 100)], false);
        unknown.add(7, 30, 70, None);
        assert_eq!(
            unknown.result(2, 0.25),
            None,
            "it may have waited for a lock"
        );
    }

    #[test]
    fn states_decide_where_the_export_has_them() {
        let mut found = waits(&[(0, 100)], &[(0, 100)], false);
        found.add(7, 10, 30, Some(RUNNING));
        // Taken off when it began to sleep.
        found.add(7, 50, 90, Some(2));
        let result = found.result(2, 0.0).expect("states are known");
        assert_eq!((result.waited_ns, result.has_states), (20, true));
        // The column is there, and nothing in it.
        let mut found = waits(&[(0, 100)], &[(0, 100)], true);
        found.add(7, 10, 30, Some(0));
        let result = found.result(2, 0.0).expect("calls are known");
        assert_eq!((result.waited_ns, result.has_states), (20, false));
    }
}
