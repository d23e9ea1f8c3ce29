// SPDX-License-Identifier: Apache-2.0
//! The critical path by the calls of CUDA and of the operating system's libraries that its threads were in.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::capture::{CallKind, Name, ThreadIndex};
use super::super::critical_path::Segment;
use super::super::summary_stats::share_of;
use super::super::table::Table;
use super::{AnalysisContext, cuda};

/// Time on the path without a call.
const NO_CALL: &str = "(no traced call)";

/// What a row sums: a thread, and a function; `None`: time without a call.
type Key = (ThreadIndex, Option<(CallKind, Name)>);

/// Time and number of calls of one row.
#[derive(Default, Clone, Copy)]
struct Sum {
    ns: i64,
    calls: u64,
}

/// A row for each function and thread. The time of a call counts as far as it is on the path. A call in another one is part of it.
pub(super) fn sum(context: &AnalysisContext<'_>) -> Table {
    let path = &context.critical_path;
    let capture = context.capture;
    let threads: BTreeSet<ThreadIndex> = path.segments.iter().map(|it| it.thread).collect();
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    // There may be millions of segments: those of one thread at a time.
    for thread in threads {
        let own = path.segments.iter().filter(|it| it.thread == thread);
        let mut segments: Vec<Segment> = own.copied().collect();
        segments.sort_unstable_by_key(|segment| segment.start);
        let mut rest: i64 = segments.iter().map(|it| it.end - it.start).sum();
        let mut first = 0;
        for (kind, call) in capture.outermost_calls(thread) {
            while segments.get(first).is_some_and(|it| it.end <= call.start) {
                first += 1;
            }
            let on_path = segments[first..].iter();
            let on_path = on_path.take_while(|segment| segment.start < call.end);
            let ns: i64 = on_path
                .map(|segment| segment.end.min(call.end) - segment.start.max(call.start))
                .sum();
            if ns > 0 {
                let sum = sums.entry((thread, Some((kind, call.name)))).or_default();
                sum.ns += ns;
                sum.calls += 1;
                rest -= ns;
            }
        }
        sums.entry((thread, None)).or_default().ns += rest;
    }
    let all: i64 = sums.values().map(|sum| sum.ns).sum();
    let mut rows: Vec<(Key, Sum)> = sums.into_iter().filter(|(_, sum)| sum.ns > 0).collect();
    rows.sort_by_key(|(key, sum)| (Reverse(sum.ns), *key));
    Table::unnamed(&rows)
        .limit(context.rows)
        .percent("Critical Path", |(_, sum)| share_of(sum.ns, all))
        .ns("Total Time", |(_, sum)| sum.ns)
        .plain("Num Calls", |((_, call), sum)| call.map(|_| sum.calls))
        .ns("Avg", |((_, call), sum)| {
            call.map(|_| sum.ns as f64 / sum.calls.max(1) as f64)
        })
        .plain("Thread", |((thread, _), _)| capture.thread(*thread).title())
        .plain("Kind", |((_, call), _)| match call {
            Some((CallKind::Cuda, _)) => "CUDA",
            Some((CallKind::System, _)) => "OS",
            None => "-",
        })
        .plain("Name", |((_, call), _)| match call {
            Some((CallKind::Cuda, name)) => cuda::function(capture.name(*name)),
            Some((CallKind::System, name)) => capture.name(*name),
            None => NO_CALL,
        })
        .build()
}
