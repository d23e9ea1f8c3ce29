// SPDX-License-Identifier: Apache-2.0
//! A trace as batches with their stages, and the speeds of a run without its warm-up.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;

use jetwatch_telemetry::{Entry, Level, Stage};
use jetwatch_types::Rate;

/// A run: the levels that had batches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TraceStats {
    /// In the order of [`Level::ALL`].
    pub levels: Vec<LevelStats>,
}

/// The batches of one level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LevelStats {
    /// The level.
    pub level: Level,
    /// Batches that are discarded at the start. Levels that work on single frames discard as many frames as the detector does.
    pub dropped_front: usize,
    /// Batches that are discarded at the end.
    pub dropped_back: usize,
    /// All batches, by number.
    pub batches: Vec<Batch>,
}

/// One batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Batch {
    /// When it began, since the trace was made.
    pub started: Duration,
    /// Times of the whole batch.
    pub times: Times,
    /// Times of the stages in it, by the stage's place in [`Stage::ALL`].
    pub stages: BTreeMap<usize, Times>,
}

/// Times of one range, or the sum over the ranges of one stage in one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Times {
    /// Frames.
    pub items: usize,
    /// Elapsed time.
    pub wall: Duration,
    /// CPU time of its thread in it.
    pub busy: Duration,
    /// Time of the GPU in it.
    pub gpu: Duration,
}

impl TraceStats {
    /// Sorts `entries` into batches. `warmup` batches of `batch_size` frames are dropped at both ends.
    ///
    /// # Errors
    /// The warm-up leaves no batch.
    pub(crate) fn new(entries: &[Entry], warmup: usize, batch_size: usize) -> anyhow::Result<Self> {
        let mut levels = Vec::new();
        for level in Level::ALL {
            let mut batches: BTreeMap<u64, Batch> = BTreeMap::new();
            let of_level = || entries.iter().filter(|entry| entry.level == level);
            for entry in of_level().filter(|entry| entry.stage.is_none()) {
                let batch = Batch {
                    started: entry.started,
                    times: times(entry),
                    stages: BTreeMap::new(),
                };
                batches.insert(entry.batch, batch);
            }
            for entry in of_level() {
                if let (Some(stage), Some(batch)) = (entry.stage, batches.get_mut(&entry.batch)) {
                    batch.add(stage, times(entry));
                }
            }
            for batch in batches.values_mut() {
                batch.limit_items();
            }
            if !batches.is_empty() {
                levels.push(LevelStats {
                    level,
                    dropped_front: 0,
                    dropped_back: 0,
                    batches: batches.into_values().collect(),
                });
            }
        }
        drop_warmup(&mut levels, warmup, batch_size);
        // The parts next to the pipeline may have been idle meanwhile.
        levels.retain(|run| !run.level.is_asynchronous() || !run.without_warmup().is_empty());
        let measured = Self { levels };
        let has_batches = |run: &LevelStats| !run.without_warmup().is_empty();
        // Of another level where the detector was not measured.
        let reference = measured.level(Level::Detect).or(measured.levels.first());
        ensure!(
            reference.is_some() && measured.levels.iter().all(has_batches),
            "no batch is left to measure: {} ran, and the warm-up drops {warmup} at the front and {warmup} at the end; run more of \
             them (--batches, --frames or --duration, or a longer source) or drop fewer (--warmup)",
            reference.map_or(0, |run| run.batches.len())
        );
        Ok(measured)
    }

    /// All batches of all levels.
    pub(super) fn batches(&self) -> impl Iterator<Item = &Batch> + Clone {
        self.levels.iter().flat_map(|run| &run.batches)
    }

    /// The start of the first batch.
    pub(super) fn began(&self) -> Duration {
        let starts = self.batches().map(|batch| batch.started);
        starts.min().unwrap_or_default()
    }

    /// The last level of the pipeline.
    pub(super) fn last_level(&self) -> Option<&LevelStats> {
        let mut levels = self.levels.iter();
        levels.rfind(|run| !run.level.is_asynchronous())
    }

    /// One level, where it had batches.
    pub(crate) fn level(&self, level: Level) -> Option<&LevelStats> {
        self.levels.iter().find(|run| run.level == level)
    }

    /// Frames per second of the whole pipeline without the warm-up, at the last pipeline level that was measured.
    pub(crate) fn fps(&self) -> f64 {
        let Some(run) = self.last_level() else {
            return 0.0;
        };
        // In the order of their ends: several workers end batches out of turn, and one that was held up in the warm-up may
        // end after all others.
        let mut ends: Vec<(Duration, usize)> = (run.batches.iter())
            .map(|batch| (batch.ended(), batch.times.items))
            .collect();
        ends.sort_unstable();
        let measured = &ends[run.dropped_front..ends.len() - run.dropped_back];
        // From the end of the warm-up: results arrive in bursts, and the start of the first burst is too late.
        let began = match run.dropped_front.checked_sub(1) {
            Some(last) => ends[last].0,
            None => self.began(),
        };
        let ended = measured.last().map_or(began, |(ended, _)| *ended);
        let items = measured.iter().map(|(_, items)| items).sum();
        per_second(items, ended.saturating_sub(began))
    }

    /// Frames per second of the networks without the rest of the pipeline: frames per second of inference times workers. `None`: none ran.
    pub(crate) fn inference_fps(&self, workers: usize) -> Option<f64> {
        let batches = self.level(Level::Detect)?.without_warmup();
        let times = batches.iter();
        let times = times.filter_map(|batch| batch.stages.get(&(Stage::Infer as usize)));
        let infer = times.copied().reduce(|mut sum, times| {
            sum.add(times);
            sum
        })?;
        // By the time of the GPU where only that was measured.
        let time = match infer.wall.is_zero() {
            true => infer.gpu,
            false => infer.wall,
        };
        Some(per_second(infer.items, time) * workers as f64)
    }
}

fn times(entry: &Entry) -> Times {
    let is_on_gpu = entry.stage.is_some_and(Stage::is_on_gpu);
    let (wall, gpu) = match is_on_gpu {
        true => (Duration::ZERO, entry.wall),
        false => (entry.wall, Duration::ZERO),
    };
    Times {
        items: entry.items,
        wall,
        busy: entry.cpu,
        gpu,
    }
}

impl Batch {
    pub(super) fn ended(&self) -> Duration {
        self.started + self.times.wall
    }

    /// Counts a frame once for each stage: a stage may have several ranges for the same frames, as where the worker scales
    /// them before it writes their tensors.
    fn limit_items(&mut self) {
        for times in self.stages.values_mut() {
            times.items = times.items.min(self.times.items);
        }
    }

    fn add(&mut self, stage: Stage, times: Times) {
        self.stages.entry(stage as usize).or_default().add(times);
        if stage.is_on_gpu() {
            // Times of the GPU are inside the range of the network, which is in the batch.
            let infer = self.stages.entry(Stage::Infer as usize).or_default();
            infer.gpu += times.gpu;
            self.times.gpu += times.gpu;
        }
    }
}

impl Times {
    pub(super) fn add(&mut self, other: Self) {
        self.items += other.items;
        self.wall += other.wall;
        self.busy += other.busy;
        self.gpu += other.gpu;
    }
}

impl LevelStats {
    /// Number of batches at the start that began before `began`, and of those at the end that ended after `ended`.
    fn count_outside(&self, began: Duration, ended: Duration) -> (usize, usize) {
        let is_early = |batch: &&Batch| batch.started < began;
        let is_late = |batch: &&Batch| batch.ended() > ended;
        let front = self.batches.iter().take_while(is_early).count();
        let back = self.batches.iter().rev().take_while(is_late).count();
        (front, back)
    }

    /// The batches without the warm-up.
    pub(crate) fn without_warmup(&self) -> &[Batch] {
        let end = self.batches.len().saturating_sub(self.dropped_back);
        self.batches
            .get(self.dropped_front..end)
            .unwrap_or_default()
    }
}

/// Sets the batches that each level discards: `warmup` batches of the detector at both ends, the frames of those batches in the other levels
/// of the pipeline, and in levels outside of it the batches that are not between them.
fn drop_warmup(levels: &mut [LevelStats], warmup: usize, batch_size: usize) {
    let detect = levels.iter().find(|run| run.level == Level::Detect);
    let frames = |batches: &mut dyn Iterator<Item = &Batch>| -> usize {
        batches.take(warmup).map(|batch| batch.times.items).sum()
    };
    let (front, back) = detect.map_or((warmup * batch_size, warmup * batch_size), |run| {
        let batches = run.batches.iter();
        (frames(&mut batches.clone()), frames(&mut batches.rev()))
    });
    let mut began = Duration::ZERO;
    let mut ended = Duration::MAX;
    for run in levels {
        (run.dropped_front, run.dropped_back) = match run.level {
            Level::Detect => (warmup, warmup),
            Level::Source | Level::Track => (front, back),
            // They come after the pipeline's.
            Level::Secondary | Level::Record => run.count_outside(began, ended),
        };
        let measured = run.without_warmup();
        if !run.level.is_asynchronous()
            && let (Some(first), Some(last)) = (measured.first(), measured.last())
        {
            (began, ended) = (first.started, last.ended());
        }
    }
}

fn per_second(items: usize, time: Duration) -> f64 {
    match time.is_zero() {
        true => 0.0,
        false => items as f64 / time.as_secs_f64(),
    }
}

impl TraceStats {
    /// Whether stages of a GPU are in it.
    pub(super) fn is_timed_on_gpu(&self) -> bool {
        let is_on_gpu = |at: &usize| Stage::ALL[*at].is_on_gpu();
        let mut batches = self.batches();
        batches.any(|batch| batch.stages.keys().any(is_on_gpu))
    }

    /// The rate at which batches of the detector ended, or frames where it was not measured. Its value is not
    /// [`fps`](Self::fps), which has another begin: only its relative error and its blocks are of use.
    pub(super) fn rate(&self) -> Option<Rate> {
        let run = self.level(Level::Detect).or(self.last_level())?;
        let end = |batch: &Batch| (batch.ended().as_secs_f64(), batch.times.items as f64);
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
    use super::*;
    use jetwatch_telemetry::Entry;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    fn entry(level: Level, batch: u64, stage: Option<Stage>, from_ms: u32, ms: u32) -> Entry {
        Entry {
            level,
            batch,
            stage,
            items: 2,
            started: MS * from_ms,
            wall: MS * ms,
            cpu: MS * ms / 2,
        }
    }

    /// Five batches of two frames, each 10 ms long with 6 ms of network, of which the GPU works 4; the last number is missing.
    fn entries() -> Vec<Entry> {
        let mut all = Vec::new();
        for batch in 0..5_u32 {
            let (number, at) = (u64::from(batch), batch * 10);
            all.push(entry(Level::Detect, number, Some(Stage::GpuNetwork), at, 4));
            all.push(entry(Level::Detect, number, Some(Stage::Infer), at, 6));
            all.push(entry(Level::Detect, number, None, at, 10));
            for frame in 0..2 {
                let number = number * 2 + frame;
                let track = |stage| Entry {
                    items: 1,
                    ..entry(Level::Track, number, stage, at + 10, 1)
                };
                all.extend([track(Some(Stage::Track)), track(None)]);
            }
        }
        all.push(entry(Level::Detect, 6, Some(Stage::Batch), 50, 9));
        all
    }

    #[test]
    fn values_equal_hand_computed_ones() {
        let measured = TraceStats::new(&entries(), 1, 8).expect("three batches are left");
        // From 11 ms, the end of the second frame, to 41 ms: six frames.
        assert!(
            (measured.fps() - 6.0 / 0.030).abs() < 1e-9,
            "{}",
            measured.fps()
        );
        // Two frames in 6 ms, on two workers.
        let inference = measured.inference_fps(2).expect("a network");
        assert!((inference - 2.0 * 2.0 / 0.006).abs() < 1e-6, "{inference}");
        let counts = |run: &LevelStats| {
            let items = |batches: &[Batch]| -> usize {
                batches.iter().map(|batch| batch.times.items).sum()
            };
            (run.level, items(&run.batches), items(run.without_warmup()))
        };
        let counts: Vec<_> = measured.levels.iter().map(counts).collect();
        assert_eq!(counts, [(Level::Detect, 10, 6), (Level::Track, 10, 6)]);
        let infer = measured.levels[0].batches[1].stages[&(Stage::Infer as usize)];
        let wanted = Times {
            items: 2,
            wall: MS * 6,
            busy: MS * 3,
            gpu: MS * 4,
        };
        assert_eq!(infer, wanted);
    }

    #[test]
    fn a_batch_of_the_warmup_may_end_after_all_others() {
        let mut all: Vec<Entry> = (1..6_u32)
            .map(|batch| entry(Level::Detect, batch.into(), None, batch * 10, 5))
            .collect();
        // On a second worker, from 0 to 90 ms.
        all.push(entry(Level::Detect, 0, None, 0, 90));
        let measured = TraceStats::new(&all, 1, 2).expect("four batches are left");
        // From 15 ms, the first end, to 55 ms: the last end is outside of it.
        assert!(
            (measured.fps() - 8.0 / 0.040).abs() < 1e-9,
            "{}",
            measured.fps()
        );
    }

    #[test]
    fn frames_in_two_ranges_of_a_stage_are_counted_once() {
        let mut all = Vec::new();
        for batch in 0..3_u32 {
            for (stage, ms) in [
                (Some(Stage::Tensor), 5),
                (Some(Stage::Tensor), 3),
                (None, 9),
            ] {
                all.push(entry(Level::Detect, batch.into(), stage, batch * 10, ms));
            }
        }
        let measured = TraceStats::new(&all, 0, 2).expect("three batches");
        for batch in &measured.levels[0].batches {
            let tensor = batch.stages[&(Stage::Tensor as usize)];
            assert_eq!((tensor.items, tensor.wall), (2, MS * 8));
        }
    }

    #[test]
    fn async_stages_are_measured_during_pipeline_run() {
        let mut all = entries();
        // The track thread's frames without a warm-up of one batch: from 20 ms to 41 ms.
        for (batch, from_ms, ms) in [(0, 11, 3), (1, 21, 2), (2, 30, 4), (3, 40, 9)] {
            for stage in [Some(Stage::Secondary), None] {
                all.push(entry(Level::Secondary, batch, stage, from_ms, ms));
            }
        }
        all.push(entry(Level::Record, 0, None, 60, 5));
        let measured = TraceStats::new(&all, 1, 8).expect("three batches are left");
        let alone = TraceStats::new(&entries(), 1, 8).expect("three batches are left");
        assert!((measured.fps() - alone.fps()).abs() < 1e-9);
        let levels: Vec<Level> = measured.levels.iter().map(|run| run.level).collect();
        assert_eq!(levels, [Level::Detect, Level::Track, Level::Secondary]);
        let secondary = measured.levels[2].without_warmup().iter();
        let times: Vec<Times> = secondary.map(|batch| batch.times).collect();
        let counted: Vec<_> = times.iter().map(|it| (it.items, it.wall)).collect();
        assert_eq!(counted, [(2, MS * 2), (2, MS * 4)]);
    }

    #[test]
    fn warmup_that_drops_all_batches_is_error() {
        let error = TraceStats::new(&entries(), 3, 8)
            .expect_err("nothing is left")
            .to_string();
        assert!(
            error.contains("5 ran") && error.contains("drops 3"),
            "{error}"
        );
        assert!(TraceStats::new(&[], 0, 1).is_err());
        // Without a warm-up the run counts from its beginning: ten frames in 51 ms.
        let all = TraceStats::new(&entries(), 0, 8).expect("all are left");
        assert!((all.fps() - 10.0 / 0.051).abs() < 1e-9, "{}", all.fps());
    }

    #[test]
    fn gpu_time_is_unknown_without_stages_of_a_gpu() {
        let entry =
            |batch: u32, stage, ms| entry(Level::Detect, batch.into(), stage, batch * 10, ms);
        let mut all = Vec::new();
        for batch in 0..5 {
            all.push(entry(batch, Some(Stage::Infer), 8));
            all.push(entry(batch, None, 9));
        }
        let without = TraceStats::new(&all, 1, 2).expect("three batches");
        assert!(!without.is_timed_on_gpu());
        assert_eq!(without.gpu_ms_per_frame(), None);
        // Three batches end at 19, 29 and 39 ms.
        let rate = without.rate().expect("three batches");
        assert!(
            (rate.per_second - 200.0).abs() < 1e-6 && rate.blocks == 2,
            "{rate:?}"
        );
        all.insert(2, entry(1, Some(Stage::GpuNetwork), 6));
        let with = TraceStats::new(&all, 1, 2).expect("three batches");
        assert!(with.is_timed_on_gpu());
        // 6 ms for two frames: the other batches were not timed.
        assert_eq!(with.gpu_ms_per_frame(), Some(3.0));
        assert_eq!(TraceStats::new(&all, 2, 2).expect("one batch").rate(), None);
    }
}
