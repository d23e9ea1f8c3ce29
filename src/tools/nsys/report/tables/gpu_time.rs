// SPDX-License-Identifier: Apache-2.0
//! Busy and idle times of GPUs.

use std::cmp::Reverse;

use super::super::capture::Capture;
use super::super::table::Table;
use super::AnalysisContext;

/// Number of parts of the capture for utilization, as in nsys.
const INTERVALS: usize = 30;

/// One GPU in one process: the times in which it did anything, however much at once.
#[derive(Debug, Clone)]
pub(crate) struct BusyTimes {
    /// The process's number.
    pub process: i64,
    /// The GPU.
    pub device: i64,
    /// Begin and end of each time, in order and apart, in ns.
    pub times: Vec<(i64, i64)>,
}

impl BusyTimes {
    /// From the first begin to the last end.
    pub(crate) fn span(&self) -> (i64, i64) {
        let first = self.times.first().map_or(0, |time| time.0);
        (first, self.times.last().map_or(first, |time| time.1))
    }

    /// Busy time between two times, in ns.
    pub(crate) fn within(&self, from: i64, until: i64) -> i64 {
        overlap(&self.times, from, until)
    }

    /// Share of the time in which it was busy, in `parts` equal parts from `from` to `until`, each 0 to 1.
    pub(crate) fn shares(&self, (from, until): (i64, i64), parts: usize) -> Vec<f64> {
        let width = (until - from) as f64 / parts as f64;
        let share = |part| {
            let [start, end] = [part, part + 1].map(|edge| from + (width * edge as f64) as i64);
            self.within(start, end) as f64 / ((end - start) as f64).max(1.0)
        };
        (0..parts).map(share).collect()
    }
}

/// Time that an interval shares with `times`, which are in order and apart, in ns.
pub(in crate::report) fn overlap(times: &[(i64, i64)], from: i64, until: i64) -> i64 {
    let first = times.partition_point(|time| time.1 <= from);
    let shared = times[first..].iter().take_while(|time| time.0 < until);
    let shared = shared.map(|time| time.1.min(until) - time.0.max(from));
    shared.sum()
}

/// When each GPU was busy, for each process that used it.
pub(crate) fn busy_times(capture: &Capture) -> Vec<BusyTimes> {
    let mut order: Vec<u32> = (0..capture.operations.len() as u32).collect();
    let key = |at: u32| {
        let done = &capture.operations[at as usize];
        let stream = capture.stream(done);
        (stream.process, stream.device)
    };
    // Nearly in order already, which a stable sort makes use of.
    order.sort_by_key(|at| (key(*at), capture.operations[*at as usize].start));
    let all = order.chunk_by(|a, b| key(*a) == key(*b)).map(|operations| {
        let mut times: Vec<(i64, i64)> = Vec::new();
        for at in operations {
            let done = &capture.operations[*at as usize];
            match times.last_mut() {
                Some(last) if last.1 >= done.start => last.1 = last.1.max(done.end),
                _ => times.push((done.start, done.end)),
            }
        }
        let first = &capture.operations[operations[0] as usize];
        let stream = capture.stream(first);
        BusyTimes {
            process: stream.process_number(),
            device: stream.device,
            times,
        }
    });
    all.collect()
}

pub(super) fn gaps(context: &AnalysisContext<'_>) -> Table {
    // As numbers of the GPU and of the work after the gap: there are millions of them.
    let gaps = (0_u32..).zip(&context.busy).flat_map(|(gpu, busy)| {
        let after = 1..busy.times.len() as u32;
        after.map(move |after| (gpu, after))
    });
    let mut found: Vec<(u32, u32)> = gaps.collect();
    let gap = |(gpu, after): &(u32, u32)| {
        let busy = &context.busy[*gpu as usize];
        let start = busy.times[*after as usize - 1].1;
        (busy.times[*after as usize].0 - start, start, busy)
    };
    found.sort_by_key(|it| (Reverse(gap(it).0), gap(it).1));
    let mut number = 0_u64;
    Table::unnamed(&found)
        .limit(context.rows)
        .plain("Row#", |_| {
            number += 1;
            number
        })
        .ns("Duration", |it| gap(it).0)
        .ns("Start", |it| gap(it).1)
        .plain("PID", |it| gap(it).2.process)
        .plain("Device ID", |it| gap(it).2.device)
        .build()
}

pub(super) fn utilization(context: &AnalysisContext<'_>) -> Table {
    let mut rows = Vec::new();
    for busy in &context.busy {
        let (from, until) = busy.span();
        let width = (until - from) as f64 / INTERVALS as f64;
        for (part, share) in busy.shares((from, until), INTERVALS).iter().enumerate() {
            let start = from + (width * part as f64) as i64;
            rows.push((part, *share, width as i64, start, busy));
        }
    }
    Table::unnamed(&rows)
        .plain("Row#", |(part, ..)| part + 1)
        .percent("In-Use", |(_, share, ..)| share * 100.0)
        .ns("Duration", |(_, _, width, ..)| *width)
        .ns("Start", |(.., start, _)| *start)
        .plain("PID", |(.., busy)| busy.process)
        .plain("Device ID", |(.., busy)| busy.device)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_gpu_work_counts_once() {
        let busy = BusyTimes {
            process: 1,
            device: 0,
            times: vec![(0, 10), (20, 30), (90, 100)],
        };
        assert_eq!(busy.within(5, 25), 10);
        assert_eq!(busy.within(10, 20), 0);
        assert_eq!(busy.span(), (0, 100));
        assert_eq!(
            busy.shares((0, 100), 4),
            [15.0 / 25.0, 5.0 / 25.0, 0.0, 10.0 / 25.0]
        );
    }
}
