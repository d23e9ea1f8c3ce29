// SPDX-License-Identifier: Apache-2.0
//! GPU operations and CUDA calls: sums by name; of kernels also histograms of their times, their pace, and the command that looks into
//! the slowest one.

use std::collections::HashMap;

use super::super::capture::{Capture, Kind, Name, Operation};
use super::super::summary_stats::{SummaryStats, share_of};
use super::super::table::{Table, Unit};
use super::pace;
use super::{AnalysisContext, Sums, sums};

/// A function's name without the version that CUDA's runtime appends, such as `_v3020`.
pub(super) fn function(name: &str) -> &str {
    let version_start = name.len().checked_sub(6);
    match version_start.and_then(|start| name.split_at_checked(start)) {
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

/// Times of kernels by name.
fn times(context: &AnalysisContext<'_>) -> Sums<Name> {
    sums(kernels(context.capture).map(|done| (done.name, done.duration())))
}

pub(super) fn kernel_sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let (rows, all) = times(context);
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

/// Number of bins of a histogram.
const BINS: usize = 10;

/// Bins of equal ratio between the shortest and the longest time of each kernel, the kernel with the most time first. Empty bins
/// are left out.
pub(super) fn histogram(context: &AnalysisContext<'_>) -> Table {
    let (sums, _) = times(context);
    let empty = |spread: &SummaryStats| (edges(spread.min, spread.max), [0; BINS]);
    let bins = sums.iter().map(|(name, spread)| (*name, empty(spread)));
    let mut bins: HashMap<Name, (Vec<i64>, [u64; BINS])> = bins.collect();
    for done in kernels(context.capture) {
        if let Some((edges, counts)) = bins.get_mut(&done.name) {
            counts[bin(edges, done.duration())] += 1;
        }
    }
    let mut rows = Vec::new();
    for (name, spread) in &sums {
        let (edges, counts) = &bins[name];
        let filled = edges.windows(2).zip(counts);
        let filled = filled.filter(|(_, count)| **count > 0);
        rows.extend(filled.map(|(edges, count)| (*name, edges, *count, spread.count)));
    }
    Table::unnamed(&rows)
        .limit(context.rows)
        .plain("Name", |(name, ..)| context.capture.name(*name))
        .ns("From", |(_, edges, ..)| edges[0])
        .ns("To", |(_, edges, ..)| edges[1])
        .plain("Instances", |(_, _, count, _)| *count)
        .percent("Share", |(_, _, count, all)| {
            *count as f64 * 100.0 / *all as f64
        })
        .build()
}

/// Edges of bins whose limits grow by one factor.
fn edges(min: i64, max: i64) -> Vec<i64> {
    let (low, high) = (min.max(1) as f64, max.max(1) as f64);
    let mut edges: Vec<i64> = (0..=BINS)
        .map(|at| (low * (high / low).powf(at as f64 / BINS as f64)).round() as i64)
        .collect();
    edges[0] = min;
    edges[BINS] = max;
    edges
}

/// The bin of a time: from its lower edge, up to below its upper edge; the last one includes it.
fn bin(edges: &[i64], time: i64) -> usize {
    let after = edges.partition_point(|edge| *edge <= time);
    after.saturating_sub(1).min(BINS - 1)
}

/// From each start to the next of the same kernel in one process on one GPU.
pub(super) fn pace(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let kernels: Vec<&Operation> = kernels(context.capture).collect();
    let paces = pace::paces(kernels.len(), |at| {
        let done = kernels[at];
        let stream = capture.stream(done);
        let key = (done.name, stream.process_number(), stream.device);
        (key, done.start, done.end)
    });
    Table::unnamed(&paces)
        .limit(context.rows)
        .plain("Name", |pace| capture.name(pace.key.0))
        .plain("PID", |pace| pace.key.1)
        .plain("Device ID", |pace| pace.key.2)
        .with(pace::numbers)
        .build()
}

/// The command that measures one launch of the kernel with the most time, in the middle of the run.
pub(super) fn ncu_command(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let (with, command) = match &capture.command {
        Some(command) => ("command of this capture", command.as_str()),
        None => (
            "configuration of this capture as FILE",
            "jetwatch run --config FILE",
        ),
    };
    let title = format!("The slowest kernel in Nsight Compute, with the {with}");
    let (mut sums, all) = times(context);
    sums.truncate(1);
    let base = |name: Name| base_name(capture.name(name));
    let measure = |(name, _): &(Name, _)| {
        let base = base(*name);
        // Nsight Compute counts the launches of all kernels that the expression matches, such as other instances of a template.
        let launches =
            kernels(context.capture).filter(|done| base_name(capture.name(done.name)) == base);
        let skip = launches.count() / 2;
        let pattern = base.replace(|c: char| !c.is_alphanumeric() && c != '_', ".");
        format!(
            "ncu --set full --kernel-name 'regex:(^|::){pattern}$' --launch-skip {skip} --launch-count 1 --export kernel \
             {command}"
        )
    };
    Table::of("ncu_command", title, &sums)
        .percent("Time", |(_, times)| share_of(times.total, all))
        .ns("Avg", |(_, times)| times.mean)
        .plain("Instances", |(_, times)| times.count)
        .plain("Kernel", |(name, _)| base(*name))
        .plain("Command", measure)
        .build()
}

/// The function of a kernel without return type, namespaces, template arguments and parameters, as Nsight Compute compares it.
fn base_name(demangled: &str) -> &str {
    let text = demangled
        .strip_prefix("void ")
        .unwrap_or(demangled)
        .trim_start_matches("(anonymous namespace)::");
    let (mut depth, mut start) = (0_usize, 0);
    // Where the template arguments of the name begin.
    let mut template = None;
    for (at, c) in text.char_indices() {
        match c {
            '<' => {
                if depth == 0 {
                    template = template.or(Some(at));
                }
                depth += 1;
            }
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && !text[at..].starts_with("(anonymous namespace)") => {
                return &text[start..template.unwrap_or(at)];
            }
            ':' | ' ' if depth == 0 => {
                start = at + 1;
                template = None;
            }
            _ => {}
        }
    }
    &text[start..template.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_version_suffix_is_stripped() {
        assert_eq!(function("cudaMemcpyAsync_v3020"), "cudaMemcpyAsync");
        assert_eq!(function("cuLaunchKernel"), "cuLaunchKernel");
        assert_eq!(function("_v"), "_v");
    }

    #[test]
    fn base_names_have_no_namespace_template_and_parameters() {
        for (demangled, base) in [
            ("void net<int>(float*)", "net"),
            ("resize", "resize"),
            ("void at::native::copy<float, 4>(int, float*)", "copy"),
            (
                "sm80_xmma_fprop_implicit_gemm_f16",
                "sm80_xmma_fprop_implicit_gemm_f16",
            ),
            ("void a::B<c::D<int>>::run(int)", "run"),
            ("void f<a::B<int>::C>(int)", "f"),
            ("void (anonymous namespace)::fill<float>(float*)", "fill"),
            ("letterbox(unsigned char const*, Params)", "letterbox"),
        ] {
            assert_eq!(base_name(demangled), base, "{demangled}");
        }
    }

    #[test]
    fn bins_cover_all_times() {
        let edges = edges(100, 100_000);
        assert_eq!((edges[0], edges[BINS]), (100, 100_000));
        assert_eq!(bin(&edges, 100), 0);
        assert_eq!(bin(&edges, 100_000), BINS - 1);
        assert_eq!(bin(&edges, edges[4]), 4);
        // One time only.
        assert_eq!(bin(&super::edges(7, 7), 7), BINS - 1);
    }
}
