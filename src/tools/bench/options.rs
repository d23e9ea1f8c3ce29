// SPDX-License-Identifier: Apache-2.0
//! What a benchmark measures, for how long, and where its results go.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jetwatch_config::{Config, ConfigError};
use jetwatch_platform::SysRoot;

use super::Axis;

/// Default number of frames of a run.
pub const DEFAULT_FRAMES: u64 = 1000;

/// Default number of rounds of a comparison.
const ROUNDS: u32 = 5;

/// Default time of a trial of streams.
const TRIAL_TIME: Duration = Duration::from_secs(10);

/// Default number of trials of the numbers of streams on both sides of the answer.
const TRIALS: u32 = 3;

/// How many streams are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamGoal {
    /// The largest number without drops is searched for.
    Search {
        /// The most to try.
        max: usize,
    },
    /// This number.
    Exactly(usize),
}

impl StreamGoal {
    /// The largest number that may be tried.
    pub(super) fn most(self) -> usize {
        match self {
            Self::Search { max } => max,
            Self::Exactly(count) => count,
        }
    }
}

/// What is measured, for how long, and where the results go.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Configuration file; `None`: `source` and `model` in its place.
    pub config: Option<PathBuf>,
    /// Any source, instead of a configuration.
    pub source: Option<String>,
    /// Model folder for `source`; `None`: ground truth of a synthetic source replaces the network.
    pub model: Option<String>,
    /// Keys of the configuration and their values.
    pub settings: Vec<(String, String)>,
    /// Name of the only part that is measured, for the result's metadata; `None`: the whole pipeline.
    pub part: Option<String>,
    /// Stop after this many batches, including warm-up.
    pub batches: Option<u64>,
    /// Stop after this many frames, including warm-up.
    pub frames: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Batches that are discarded at the start, and as many at the end.
    pub warmup: u32,
    /// Number of frames that are loaded before a part is measured; at least 1.
    pub preload: u16,
    /// Folder for all output files.
    pub output: PathBuf,
    /// Keys of the configuration with several values each: `KEY=VALUE,VALUE…`.
    pub sweep: Vec<String>,
    /// Second configuration file, which is compared with `config`.
    pub compare: Option<PathBuf>,
    /// Whether the keys of the sweep change one after the other, in place of all combinations.
    pub ablation: bool,
    /// How many copies of the sources are tried, each at the pace of a camera.
    pub streams: Option<StreamGoal>,
    /// Frames per second of each copy; `None`: those of the source itself.
    pub fps: Option<u32>,
    /// Number of copies of the sources that this process runs.
    pub copies: Option<usize>,
    /// Number of rounds; `None`: 5 with `compare`, 3 for the answer of a search for streams, else 1.
    pub repeat: Option<u32>,
    /// Number of concurrent processes on each GPU; at least 1.
    pub processes: u16,
    /// Number of GPUs; at least 1.
    pub gpus: u16,
    /// Whether the clocks are held at their maximum meanwhile, for the result's metadata.
    pub maximize_clocks: bool,
    /// Whether single ranges are kept; otherwise only speeds are measured.
    pub keeps_ranges: bool,
    /// What the series that this run belongs to varies, with the values of this run, for the result's metadata: keys of the
    /// configuration, or `config` with the file.
    pub varied: Vec<(String, String)>,
    /// Root of the system's files.
    pub root: SysRoot,
}

impl BenchOptions {
    /// The configuration with [`settings`](Self::settings).
    ///
    /// # Errors
    /// The configuration or a setting is wrong.
    pub fn load_config(&self) -> Result<Config, ConfigError> {
        self.config(self.config.as_deref(), &self.settings)
    }

    /// Time of each trial of streams.
    #[must_use]
    pub fn trial_time(&self) -> Duration {
        self.duration.unwrap_or(TRIAL_TIME)
    }

    /// The configuration, from `file` or from [`source`](Self::source).
    pub(super) fn config(
        &self,
        file: Option<&Path>,
        settings: &[(String, String)],
    ) -> Result<Config, ConfigError> {
        match (file, &self.source) {
            (Some(file), _) => Config::load_with(file, settings),
            (None, source) => Config::for_source_with(
                source.as_deref().unwrap_or_default(),
                self.model.as_deref(),
                settings,
            ),
        }
    }

    pub(super) fn axes(&self) -> anyhow::Result<Vec<Axis>> {
        self.sweep.iter().map(|text| Axis::read(text)).collect()
    }

    pub(super) fn rounds(&self) -> u32 {
        let usual = match self.streams {
            Some(StreamGoal::Search { .. }) => TRIALS,
            _ if self.compare.is_some() => ROUNDS,
            _ => 1,
        };
        self.repeat.unwrap_or(usual)
    }

    /// The limit in frames; `None` where batches or a time are the limit.
    #[must_use]
    pub fn max_frames(&self) -> Option<u64> {
        let is_open = self.batches.is_none() && self.duration.is_none();
        self.frames.or(is_open.then_some(DEFAULT_FRAMES))
    }
}
