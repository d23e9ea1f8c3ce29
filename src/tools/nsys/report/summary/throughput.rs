// SPDX-License-Identifier: Apache-2.0
//! Frames per second of a report, and what a frame costs.

use jetwatch_platform::Occupancy;
use jetwatch_telemetry::{Latency, Stage};
use jetwatch_types::Rate;

use super::super::tables::AnalysisContext;

/// Nanoseconds of a second.
const S: f64 = 1e9;

/// Frames per second of one report, after the first batch. Times per frame in ns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Throughput {
    /// Frames per second.
    pub fps: f64,
    /// The same with its error within the report; `None` where the report has no times of single batches, or fewer than three.
    pub rate: Option<Rate>,
    /// Time of the GPU; `None` where no GPU was traced.
    pub gpu_ns: Option<f64>,
    /// CPU time of the whole process.
    pub cpu_ns: Option<f64>,
    /// Energy in joules.
    pub joules: Option<f64>,
    /// Latency of the frames of live sources, in ms; `None` without any.
    pub latency: Option<Latency>,
    /// Who used the CPU; `None`: unknown.
    pub occupancy: Option<Occupancy>,
}

impl Throughput {
    /// Of the stages in a capture; `None` if it has no inference with a number of frames, which only jetwatch records.
    pub(crate) fn from_capture(context: &AnalysisContext<'_>) -> Option<Self> {
        let capture = context.capture;
        let mut ends = Vec::new();
        let (mut inferred, mut tracked) = (0.0, 0.0);
        for range in &capture.ranges {
            match capture.stage(range) {
                Some(Stage::Infer) => {
                    inferred += f64::from(range.payload);
                    ends.push((range.end as f64 / S, f64::from(range.payload)));
                }
                Some(Stage::Track) => tracked += 1.0,
                _ => {}
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (*ends.first()?, *ends.last()?);
        // With an interval, frames without inference are tracked, too.
        let of_inferred = if tracked > inferred && inferred > 0.0 {
            tracked / inferred
        } else {
            1.0
        };
        let rate = Rate::from_ends(&mut ends).map(|rate| rate.scaled(of_inferred));
        let frames = (inferred - first.1) * of_inferred;
        let time = last.0 - first.0;
        let fps = rate.map_or(frames / time, |rate| rate.per_second);
        if !fps.is_finite() || frames <= 0.0 {
            return None;
        }
        let (from, until) = ((first.0 * S) as i64, (last.0 * S) as i64);
        let busy = &context.busy;
        let gpu: i64 = busy.iter().map(|busy| busy.within(from, until)).sum();
        Some(Self {
            fps,
            rate,
            gpu_ns: (!busy.is_empty()).then(|| gpu as f64 / frames),
            ..Self::default()
        })
    }

    /// Who took the CPU, where other programs disturbed the run.
    pub(crate) fn disturbance(&self) -> Option<&Occupancy> {
        self.occupancy.as_ref().filter(|found| found.is_disturbed())
    }

    /// Time from frame to frame, in ns.
    pub(crate) fn frame_ns(&self) -> Option<f64> {
        (self.fps > 0.0).then(|| S / self.fps)
    }
}
