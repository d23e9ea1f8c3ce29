//! A trace as batches with their stages, and the numbers of each range with and without its warm-up.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::telemetry::{Entry, Level, Stage};

use super::{BenchmarkError, Statistics};

/// A run: the levels that had batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// In the order of [`Level::ALL`].
    pub levels: Vec<LevelRun>,
}

/// The batches of one level.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelRun {
    /// Which.
    pub level: Level,
    /// Batches that are dropped at the front and at the end: as many frames as the detector's warm-up has.
    pub warmup: usize,
    /// All of them in the order of their numbers.
    pub batches: Vec<Batch>,
}

/// One batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// When it began, since the trace was made.
    pub started: Duration,
    /// Its own times.
    pub times: Times,
    /// Times of the stages in it, by the stage's place in [`Stage::ALL`].
    pub stages: BTreeMap<usize, Times>,
}

/// Times of one range; of several of one stage in one batch, their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Frames.
    pub items: usize,
    /// How long it took on its thread's timeline.
    pub wall: Duration,
    /// CPU time of its thread in it.
    pub busy: Duration,
    /// Time of the GPU in it.
    pub gpu: Duration,
}

impl Measured {
    /// Sorts `entries` into batches. `warmup` batches of `batch_size` frames are dropped at both ends.
    ///
    /// # Errors
    /// The warm-up leaves no batch.
    pub fn new(
        entries: &[Entry],
        warmup: usize,
        batch_size: usize,
    ) -> Result<Self, BenchmarkError> {
        let mut levels = Vec::new();
        for level in Level::ALL {
            let mut batches: BTreeMap<u64, Batch> = BTreeMap::new();
            let whole = |entry: &&Entry| entry.level == level && entry.stage.is_none();
            for entry in entries.iter().filter(whole) {
                let batch = Batch {
                    started: entry.started,
                    times: times(entry),
                    stages: BTreeMap::new(),
                };
                batches.insert(entry.batch, batch);
            }
            for entry in entries.iter().filter(|entry| entry.level == level) {
                let (Some(stage), Some(batch)) = (entry.stage, batches.get_mut(&entry.batch))
                else {
                    continue;
                };
                batch.add(stage, times(entry));
            }
            let warmup = match level {
                Level::Detect => warmup,
                Level::Source | Level::Follow => warmup * batch_size,
            };
            if !batches.is_empty() {
                levels.push(LevelRun {
                    level,
                    warmup,
                    batches: batches.into_values().collect(),
                });
            }
        }
        let measured = Self { levels };
        let total = measured.most_batches();
        if measured.levels.is_empty()
            || (measured.levels.iter()).any(|level| level.measured().is_empty())
        {
            return Err(BenchmarkError::NothingLeft {
                batches: total,
                warmup,
            });
        }
        Ok(measured)
    }

    /// Batches of the detector; of another level where the detector was not measured.
    fn most_batches(&self) -> usize {
        let counts = self.level(Level::Detect).or(self.levels.first());
        counts.map_or(0, |level| level.batches.len())
    }

    /// One level, where it had batches.
    #[must_use]
    pub fn level(&self, level: Level) -> Option<&LevelRun> {
        self.levels.iter().find(|run| run.level == level)
    }

    /// Frames per second from one end of the chain to the other, without the warm-up: of the last level that was measured.
    #[must_use]
    pub fn fps(&self) -> f64 {
        self.levels.last().map_or(0.0, LevelRun::items_per_second)
    }

    /// Frames per second that the networks alone would do: frames per second inside them, times the workers. `None`: none ran.
    #[must_use]
    pub fn inference_fps(&self, workers: usize) -> Option<f64> {
        let numbers = RangeNumbers::of(
            self.level(Level::Detect)?
                .measured()
                .iter()
                .filter_map(|batch| batch.stages.get(&(Stage::Infer as usize))),
        )?;
        Some(numbers.throughput * workers as f64)
    }

    /// Every range: each level, and each of its stages.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for run in &self.levels {
            let whole = |batches: &[Batch]| RangeNumbers::of(batches.iter().map(|b| &b.times));
            rows.extend(row(run.level.name().to_owned(), run, whole));
            for stage in Stage::ALL {
                let name = format!("{}/{}", run.level.name(), stage.name());
                let of_stage = |batches: &[Batch]| {
                    let of_one = |batch: &'_ Batch| batch.stages.get(&(stage as usize)).copied();
                    let all: Vec<Times> = batches.iter().filter_map(of_one).collect();
                    RangeNumbers::of(all.iter())
                };
                rows.extend(row(name, run, of_stage));
            }
        }
        rows
    }
}

fn row(
    name: String,
    run: &LevelRun,
    numbers: impl Fn(&[Batch]) -> Option<RangeNumbers>,
) -> Option<Row> {
    Some(Row {
        name,
        with_warmup: numbers(&run.batches)?,
        minus_warmup: numbers(run.measured())?,
    })
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
    fn add(&mut self, stage: Stage, times: Times) {
        self.stages.entry(stage as usize).or_default().add(times);
        if stage.is_on_gpu() {
            // The GPU works inside of the network's range, which is in the batch.
            let infer = self.stages.entry(Stage::Infer as usize).or_default();
            infer.gpu += times.gpu;
            self.times.gpu += times.gpu;
        }
    }
}

impl Times {
    fn add(&mut self, other: Self) {
        self.items += other.items;
        self.wall += other.wall;
        self.busy += other.busy;
        self.gpu += other.gpu;
    }
}

impl LevelRun {
    /// The batches without the warm-up.
    #[must_use]
    pub fn measured(&self) -> &[Batch] {
        let end = self.batches.len().saturating_sub(self.warmup);
        self.batches.get(self.warmup..end).unwrap_or_default()
    }

    /// Frames per second from the beginning of the first measured batch to the end of the last.
    #[must_use]
    pub fn items_per_second(&self) -> f64 {
        let measured = self.measured();
        let began = measured.iter().map(|batch| batch.started).min();
        let ended = measured
            .iter()
            .map(|batch| batch.started + batch.times.wall)
            .max();
        let seconds = ended
            .unwrap_or_default()
            .saturating_sub(began.unwrap_or_default());
        let items: usize = measured.iter().map(|batch| batch.times.items).sum();
        per_second(items, seconds)
    }
}

fn per_second(items: usize, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        items as f64 / time.as_secs_f64()
    }
}

/// The numbers of one range of the chain.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// `level` or `level/stage`.
    pub name: String,
    /// Of all batches.
    pub with_warmup: RangeNumbers,
    /// Without those of the warm-up.
    pub minus_warmup: RangeNumbers,
}

/// What the batches of one range took, in ms.
#[derive(Debug, Clone, Serialize)]
pub struct RangeNumbers {
    /// Batches that had this range.
    pub batches: usize,
    /// Frames in them.
    pub items: usize,
    /// Time on the thread's timeline.
    pub cpu_time: Statistics,
    /// The same, per frame.
    pub cpu_time_per_item: Statistics,
    /// CPU time of the thread.
    pub busy_time: Statistics,
    /// Time of the GPU; `None` where it did nothing.
    pub gpu_time: Option<Statistics>,
    /// The same, per frame.
    pub gpu_time_per_item: Option<Statistics>,
    /// Frames per second of one thread that would do nothing else; by the GPU's time where only it was measured.
    pub throughput: f64,
}

impl RangeNumbers {
    fn of<'t>(times: impl Iterator<Item = &'t Times>) -> Option<Self> {
        let times: Vec<&Times> = times.collect();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let each = |number: &dyn Fn(&Times) -> f64| -> Vec<f64> {
            times.iter().map(|times| number(times)).collect()
        };
        let per_item = |time: Duration, items: usize| ms(time) / items.max(1) as f64;
        let items = times.iter().map(|times| times.items).sum();
        let wall: Duration = times.iter().map(|times| times.wall).sum();
        let gpu: Duration = times.iter().map(|times| times.gpu).sum();
        let on_gpu = |numbers: Vec<f64>| match gpu.is_zero() {
            true => None,
            false => Statistics::of(&numbers),
        };
        Some(Self {
            batches: times.len(),
            items,
            cpu_time: Statistics::of(&each(&|t| ms(t.wall)))?,
            cpu_time_per_item: Statistics::of(&each(&|t| per_item(t.wall, t.items)))?,
            busy_time: Statistics::of(&each(&|t| ms(t.busy)))?,
            gpu_time: on_gpu(each(&|t| ms(t.gpu))),
            gpu_time_per_item: on_gpu(each(&|t| per_item(t.gpu, t.items))),
            throughput: per_second(items, if wall.is_zero() { gpu } else { wall }),
        })
    }
}
