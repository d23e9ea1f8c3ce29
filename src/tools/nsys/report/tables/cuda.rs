// SPDX-License-Identifier: Apache-2.0
//! GPU operations and CUDA calls: sums by name.

use super::super::capture::{Capture, Kind, Operation};
use super::super::table::{Table, Unit};
use super::{AnalysisContext, Sums, sums};

/// A function's name without the version that CUDA's runtime appends, such as `_v3020`.
pub(super) fn function(name: &str) -> &str {
    let suffix = name
        .len()
        .checked_sub(6)
        .map(|cut| name.split_at_checked(cut));
    match suffix.flatten() {
        Some((stem, version)) if version.starts_with("_v") => stem,
        _ => name,
    }
}

pub(super) fn api_sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let calls = capture.calls.iter();
    let (rows, all) = sums(calls.map(|call| (call.name, call.duration())));
    Table::unnamed(&rows)
        .times("Num Calls", all)
        .plain("Name", |(name, _)| function(capture.name(*name)))
        .build()
}

/// The kernels of a capture.
pub(in crate::report) fn kernels(capture: &Capture) -> impl Iterator<Item = &Operation> + Clone {
    let operations = capture.operations.iter();
    operations.filter(|done| done.kind == Kind::Kernel)
}

pub(super) fn kernel_sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let (rows, all) = sums(kernels(capture).map(|done| (done.name, done.duration())));
    Table::unnamed(&rows)
        .times("Instances", all)
        .plain("Name", |(name, _)| capture.name(*name))
        .build()
}

pub(super) fn kernel_grid_sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let (rows, all) =
        sums(kernels(capture).map(|done| ((done.name, done.detail), done.duration())));
    let launch = |detail: u32| &capture.launches[detail as usize];
    let three = |[x, y, z]: [i32; 3]| format!("{x:4} {y:4} {z:4}");
    Table::unnamed(&rows)
        .times("Instances", all)
        .plain("GridXYZ", |((_, detail), _)| three(launch(*detail).grid))
        .plain("BlockXYZ", |((_, detail), _)| three(launch(*detail).block))
        .plain("Name", |((name, _), _)| capture.name(*name))
        .build()
}

/// nsys's words for directions of copies, by CUPTI's number.
const DIRECTIONS: [&str; 14] = [
    "[CUDA memcpy Unknown]",
    "[CUDA memcpy HtoD]",
    "[CUDA memcpy DtoH]",
    "[CUDA memcpy HtoA]",
    "[CUDA memcpy AtoH]",
    "[CUDA memcpy AtoA]",
    "[CUDA memcpy AtoD]",
    "[CUDA memcpy DtoA]",
    "[CUDA memcpy DtoD]",
    "[CUDA memcpy HtoH]",
    "[CUDA memcpy PtoP]",
    "[CUDA Unified Memory memcpy HtoD]",
    "[CUDA Unified Memory memcpy DtoH]",
    "[CUDA Unified Memory memcpy DtoD]",
];

/// Copies and sets: what they are called, how long they took or how much they moved, and the sum of that.
fn memory(context: &AnalysisContext<'_>, value: fn(&Operation, i64) -> i64) -> Sums<&'static str> {
    let capture = context.capture;
    sums(capture.operations.iter().filter_map(|done| {
        let transfer = || capture.transfers[done.detail as usize];
        let name = match done.kind {
            Kind::Copy => {
                let direction = usize::try_from(transfer().direction).unwrap_or(0);
                DIRECTIONS.get(direction).copied().unwrap_or(DIRECTIONS[0])
            }
            Kind::Set => "[CUDA memset]",
            Kind::Kernel | Kind::Graph => return None,
        };
        Some((name, value(done, transfer().bytes)))
    }))
}

pub(super) fn memory_time_sum(context: &AnalysisContext<'_>) -> Table {
    let (rows, all) = memory(context, |done, _| done.duration());
    Table::unnamed(&rows)
        .times("Count", all)
        .plain("Operation", |(name, _)| *name)
        .build()
}

pub(super) fn memory_size_sum(context: &AnalysisContext<'_>) -> Table {
    let (rows, _) = memory(context, |_, bytes| bytes);
    Table::unnamed(&rows)
        .bytes("Total", |(_, sizes)| sizes.total)
        .plain("Count", |(_, sizes)| sizes.count)
        .spread("", Unit::Bytes, |(_, sizes)| sizes)
        .plain("Operation", |(name, _)| *name)
        .build()
}

#[cfg(test)]
mod tests {
    use super::function;

    #[test]
    fn api_version_suffix_is_stripped() {
        assert_eq!(function("cudaMemcpyAsync_v3020"), "cudaMemcpyAsync");
        assert_eq!(function("cuLaunchKernel"), "cuLaunchKernel");
        assert_eq!(function("_v"), "_v");
    }
}
