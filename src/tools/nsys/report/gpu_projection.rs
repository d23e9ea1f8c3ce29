// SPDX-License-Identifier: Apache-2.0
//! NVTX ranges projected onto the GPU: for each range, from the first begin to the last end of the GPU operations of the calls within it.
//!
//! An operation is matched with its call by process and correlation id, and a call is in a range when it begins and ends inside of
//! it on the same thread. Ranges and calls of a thread are gone through once, in the order of time, next to a list of the
//! ranges that are open; with SQL the same takes minutes for a million of them.

use std::cmp::Reverse;

use super::capture::{Capture, Style, durations};

/// No parent.
pub(crate) const NO_RANGE: u32 = u32::MAX;

/// Nesting of ranges.
#[derive(Debug)]
pub(crate) struct Nesting {
    /// Ranges that began and ended on one thread, by thread, begin and length.
    pub order: Vec<u32>,
    /// For each range of the capture the shortest that it is in on its thread, or [`NO_RANGE`].
    pub parent: Vec<u32>,
}

impl Nesting {
    /// Of all ranges of the capture.
    pub(crate) fn from_capture(capture: &Capture) -> Self {
        let ranges = &capture.ranges;
        let mut order: Vec<u32> = (0..ranges.len() as u32)
            .filter(|at| ranges[*at as usize].style != Style::CrossThread)
            .collect();
        order.sort_by_key(|at| {
            let range = &ranges[*at as usize];
            (range.thread, range.start, Reverse(range.end), range.row)
        });
        let mut parent = vec![NO_RANGE; ranges.len()];
        let mut open: Vec<u32> = Vec::new();
        let mut thread = None;
        for at in &order {
            let range = &ranges[*at as usize];
            if thread.replace(range.thread) != Some(range.thread) {
                open.clear();
            }
            open.retain(|other| ranges[*other as usize].end >= range.start);
            let around = open.iter().rev();
            let around = around.filter(|other| ranges[**other as usize].end >= range.end);
            let around = around.min_by_key(|other| ranges[**other as usize].duration());
            parent[*at as usize] = around.copied().unwrap_or(NO_RANGE);
            open.push(*at);
        }
        Self { order, parent }
    }

    /// The ranges that a range is in, the innermost first.
    pub(crate) fn around(&self, range: u32) -> impl Iterator<Item = u32> {
        let parent = |at: &u32| Some(self.parent[*at as usize]).filter(|at| *at != NO_RANGE);
        std::iter::successors(parent(&range), parent)
    }
}

/// A range with GPU operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Projected {
    /// Index of the range.
    pub range: u32,
    /// Begin of the first operation, in ns.
    pub start: i64,
    /// End of the last, in ns.
    pub end: i64,
    /// Number of calls within it with GPU operations.
    pub operations: u32,
}

durations! { Projected }

/// All projections, in the order of the capture's ranges.
pub(crate) fn project(
    capture: &Capture,
    nesting: &Nesting,
    pairs: &[(u32, u32)],
) -> Vec<Projected> {
    let empty = Projected {
        range: NO_RANGE,
        start: i64::MAX,
        end: i64::MIN,
        operations: 0,
    };
    // A place for each range only when it is met with an operation: most ranges of the CPU have none.
    let mut place = vec![NO_RANGE; capture.ranges.len()];
    let mut found: Vec<Projected> = Vec::new();
    let mut next = nesting.order.iter().copied().peekable();
    let mut open: Vec<u32> = Vec::new();
    let mut thread = None;
    let mut last = None;
    for (call, operation) in pairs {
        let call = &capture.calls[*call as usize];
        let operation = &capture.operations[*operation as usize];
        // One call may start many kernels, as a graph does: nsys counts calls. Pairs of one call follow each other.
        let made = (call.thread, call.correlation);
        let is_next = last.replace(made) != Some(made);
        if thread.replace(call.thread) != Some(call.thread) {
            open.clear();
        }
        while let Some(at) = next.next_if(|at| {
            let range = &capture.ranges[*at as usize];
            (range.thread, range.start) <= (call.thread, call.start)
        }) {
            let range = &capture.ranges[at as usize];
            if range.thread == call.thread && range.end >= call.start {
                open.push(at);
            }
        }
        open.retain(|at| capture.ranges[*at as usize].end >= call.start);
        for at in &open {
            if capture.ranges[*at as usize].end < call.end {
                continue;
            }
            let place = &mut place[*at as usize];
            if *place == NO_RANGE {
                *place = found.len() as u32;
                found.push(empty);
            }
            let projected = &mut found[*place as usize];
            if projected.operations == 0 || is_next {
                projected.operations += 1;
            }
            projected.range = *at;
            projected.start = projected.start.min(operation.start);
            projected.end = projected.end.max(operation.end);
        }
    }
    found.sort_unstable_by_key(|projected| projected.range);
    found
}

/// Number of projected ranges directly inside of each. Operations of a child are also its parent's, so the parent is projected.
pub(crate) fn children(nesting: &Nesting, projections: &[Projected]) -> Vec<u32> {
    let mut children = vec![0; projections.len()];
    let parents = projections.iter();
    for parent in parents.filter_map(|it| nesting.around(it.range).next()) {
        if let Ok(at) = projections.binary_search_by_key(&parent, |it| it.range) {
            children[at] += 1;
        }
    }
    children
}

/// Calls with the operations that they made, by thread and begin. An operation whose process is not known
/// belongs to every call of its id.
pub(crate) fn pairs(capture: &Capture) -> Vec<(u32, u32)> {
    // Where one stream's process is not known, none is compared.
    let is_known = capture.streams.iter().all(|it| it.process.is_some());
    let process = |global: Option<i64>| global.filter(|_| is_known);
    let of_thread = capture.threads.iter();
    let of_thread = of_thread.map(|it| process(Some(it.global_process())));
    let of_thread: Vec<Option<i64>> = of_thread.collect();
    let of_stream = capture.streams.iter().map(|it| process(it.process));
    let of_stream: Vec<Option<i64>> = of_stream.collect();
    let call_key = |at: &u32| {
        let call = &capture.calls[*at as usize];
        (of_thread[usize::from(call.thread)], call.correlation)
    };
    let operation_key = |at: &u32| {
        let done = &capture.operations[*at as usize];
        (of_stream[usize::from(done.stream)], done.correlation)
    };
    let mut calls: Vec<u32> = (0..capture.calls.len() as u32).collect();
    let mut operations: Vec<u32> = (0..capture.operations.len() as u32).collect();
    // Both are nearly in order, which a stable sort makes use of.
    calls.sort_by_key(call_key);
    operations.sort_by_key(operation_key);
    let mut pairs = Vec::with_capacity(operations.len());
    let mut first = 0;
    for operation in operations {
        let key = operation_key(&operation);
        while first < calls.len() && call_key(&calls[first]) < key {
            first += 1;
        }
        let same = calls[first..].iter();
        let same = same.take_while(|call| call_key(call) == key);
        // Zero is no correlation id.
        if key.1 != 0 {
            pairs.extend(same.map(|call| (*call, operation)));
        }
    }
    drop(calls);
    pairs.sort_unstable();
    pairs
}
