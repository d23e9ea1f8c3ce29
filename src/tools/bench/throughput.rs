// SPDX-License-Identifier: Apache-2.0
//! Frames per second with their uncertainty, and the time of the GPU for a frame.

use jetwatch_telemetry::{Level, Stage};
use jetwatch_types::Rate;

use super::{Batch, TraceStats};

/// Whether a run had stages that a GPU timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gpu {
    Timed,
    Untimed,
}

impl TraceStats {
    /// Whether stages of a GPU are in it.
    pub(super) fn gpu(&self) -> Gpu {
        let is_on_gpu = |at: &usize| Stage::ALL[*at].is_on_gpu();
        let mut batches = self.levels.iter().flat_map(|run| &run.batches);
        match batches.any(|batch| batch.stages.keys().any(is_on_gpu)) {
            true => Gpu::Timed,
            false => Gpu::Untimed,
        }
    }

    /// The rate at which batches of the detector ended, or frames where it was not measured. Its value is not
    /// [`fps`](Self::fps), which has another begin: only its relative error and its blocks are of use.
    pub(super) fn rate(&self) -> Option<Rate> {
        let last = self.levels.iter().rfind(|run| !run.level.is_asynchronous());
        let run = self.level(Level::Detect).or(last)?;
        let end = |batch: &Batch| {
            let ended = batch.started + batch.times.wall;
            (ended.as_secs_f64(), batch.times.items as f64)
        };
        let mut ends: Vec<(f64, f64)> = run.without_warmup().iter().map(end).collect();
        Rate::from_ends(&mut ends)
    }

    /// Time of the GPU for each frame, in ms, over the batches in which a GPU was timed: of a recorded graph one run in some
    /// is. `None` where there is no such batch.
    pub(super) fn gpu_ms_per_frame(&self) -> Option<f64> {
        let batches = self.level(Level::Detect)?.without_warmup();
        let timed = || batches.iter().filter(|batch| !batch.times.gpu.is_zero());
        let frames: usize = timed().map(|batch| batch.times.items).sum();
        let gpu = timed().map(|batch| batch.times.gpu.as_secs_f64());
        (frames > 0).then(|| gpu.sum::<f64>() * 1e3 / frames as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jetwatch_telemetry::Entry;

    use super::*;

    fn entry(batch: u32, stage: Option<Stage>, ms: u32) -> Entry {
        Entry {
            level: Level::Detect,
            batch: batch.into(),
            stage,
            items: 2,
            started: Duration::from_millis(10) * batch,
            wall: Duration::from_millis(1) * ms,
            cpu: Duration::ZERO,
        }
    }

    #[test]
    fn gpu_time_is_unknown_without_stages_of_a_gpu() {
        let mut all = Vec::new();
        for batch in 0..5 {
            all.push(entry(batch, Some(Stage::Infer), 8));
            all.push(entry(batch, None, 9));
        }
        let without = TraceStats::new(&all, 1, 2).expect("three batches");
        assert_eq!(
            (without.gpu(), without.gpu_ms_per_frame()),
            (Gpu::Untimed, None)
        );
        // Three batches end at 19, 29 and 39 ms.
        let rate = without.rate().expect("three batches");
        assert!(
            (rate.per_second - 200.0).abs() < 1e-6 && rate.blocks == 2,
            "{rate:?}"
        );
        all.insert(2, entry(1, Some(Stage::GpuNetwork), 6));
        let with = TraceStats::new(&all, 1, 2).expect("three batches");
        assert_eq!(with.gpu(), Gpu::Timed);
        // 6 ms for two frames: the other batches were not timed.
        assert_eq!(with.gpu_ms_per_frame(), Some(3.0));
        assert_eq!(TraceStats::new(&all, 2, 2).expect("one batch").rate(), None);
    }
}
