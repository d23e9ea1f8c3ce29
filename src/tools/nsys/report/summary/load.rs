// SPDX-License-Identifier: Apache-2.0
//! What each process and each GPU of a report did.

use std::collections::BTreeMap;

use jetwatch_telemetry::Stage;

use super::super::gpu_projection::NO_RANGE;
use super::super::tables::AnalysisContext;

/// Work of one process or one GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Load {
    /// `process 10` or `GPU 0`; empty: the whole report.
    pub part: String,
    /// Frames per second.
    pub fps: Option<f64>,
    /// Time of its threads in ranges except waits for frames, in ns.
    pub work_ns: Option<f64>,
    /// Time in which a GPU was busy, in ns.
    pub gpu_ns: Option<f64>,
}

impl Load {
    /// Loads of the processes of a capture, then of its GPUs.
    pub(crate) fn from_capture(context: &AnalysisContext<'_>) -> Vec<Self> {
        let capture = context.capture;
        let nesting = &context.nesting;
        let seconds = capture
            .span()
            .map_or(0.0, |(from, until)| (until - from) as f64 / 1e9);
        // Frames and work.
        let mut processes: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for at in &nesting.order {
            let range = &capture.ranges[*at as usize];
            let process = capture.threads[usize::from(range.thread)].process();
            let sums = processes.entry(process).or_default();
            match capture.stage(range) {
                Some(stage) if stage.is_wait() || stage.is_stay() => {}
                Some(stage) => {
                    if stage == Stage::Infer {
                        sums.0 += f64::from(range.payload);
                    }
                    sums.1 += range.duration() as f64;
                }
                // Of other programs the outermost ranges count.
                None if !capture.is_ours() && nesting.parent[*at as usize] == NO_RANGE => {
                    sums.1 += range.duration() as f64;
                }
                None => {}
            }
        }
        let mut gpus: BTreeMap<i64, f64> = BTreeMap::new();
        let mut of_process: BTreeMap<i64, f64> = BTreeMap::new();
        for busy in &context.busy {
            let (from, until) = busy.span();
            let time = busy.within(from, until) as f64;
            *gpus.entry(busy.device).or_default() += time;
            *of_process.entry(busy.process).or_default() += time;
        }
        let of_processes = processes.iter().map(|(process, (frames, work))| Self {
            part: format!("process {process}"),
            fps: (*frames > 0.0 && seconds > 0.0).then(|| frames / seconds),
            work_ns: Some(*work),
            gpu_ns: of_process.get(process).copied(),
        });
        let of_gpus = gpus.iter().map(|(device, time)| Self {
            part: format!("GPU {device}"),
            gpu_ns: Some(*time),
            ..Self::default()
        });
        of_processes.chain(of_gpus).collect()
    }
}
