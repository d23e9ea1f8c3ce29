// SPDX-License-Identifier: Apache-2.0
//! Benchmarks: the pipeline or a part of it is run and timed, to `benchmark.json`; series of runs are compared.
//!
//! [`measure_pipeline`], [`measure_stage`] and [`measure_layers`] run in this process. A [`RunPlan`] starts the program again
//! for each of several runs, so that a failure does not affect the others, and none finds the caches of another. Statistics,
//! comparisons, sweeps and the gains of an ablation are pure. Called by `jetwatch bench`, which prints.
//!
//! The layout of `benchmark.json` is that of CV-CUDA's benchmark script, so that the tools of its users read it.

mod ablation;
mod aggregate;
mod benchmark_json;
mod best_point;
mod compare;
mod detector_only;
mod explanation;
mod options;
mod processes;
mod results;
mod run;
mod secondary;
mod series;
mod single_stage;
mod statistics;
mod streams;
mod sweep;
mod system_info;
mod trace_stats;

pub use detector_only::{DetectorAlone, LayerRun, bench_detector, measure_layers};
pub use options::{BenchOptions, DEFAULT_FRAMES, StreamGoal};
pub use processes::{Point, end_with_parent, pin};
pub use results::{SeriesResult, prepare_folder};
pub use run::{SingleRun, Speed, measure_pipeline, measure_stage, run_summary};
pub use series::RunPlan;
pub use single_stage::BenchStage;

use aggregate::mean;
use benchmark_json::document;
use compare::Comparison;
use detector_only::RunLimit;
use explanation::{Explanation, RunCost};
use secondary::SecondaryResult;
use single_stage::bench_stage;
use statistics::Statistics;
use sweep::{Axis, Settings, cartesian, one_by_one, setting_texts};
use trace_stats::{Batch, LevelStats, Times, TraceStats};
