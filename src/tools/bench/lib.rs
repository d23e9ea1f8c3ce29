//! FLOOR 2: traces of benchmark runs to statistics, to `benchmark.json`, and to comparisons of configurations; the steps of the
//! ablation: pure.
//!
//! `cli` runs the chain and hands its trace over. The layout of `benchmark.json` is that of CV-CUDA's benchmark script, so
//! that the tools of its users read it.

mod compare;
mod error;
mod ablation;
mod benchmark_json;
mod aggregate;
mod trace_stats;
mod statistics;
mod sweep;

pub use compare::{Comparison, Noise};
pub use error::BenchmarkError;
pub use ablation::{Gain, Capabilities, StepConfig, AblationStep, CpuPerFrame, compute_gains, cpu_per_frame};
pub use benchmark_json::{ROOT, document};
pub use aggregate::mean;
pub use trace_stats::{Batch, LevelStats, TraceStats, RangeStats, Row, Times};
pub use statistics::Statistics;
pub use sweep::{Axis, cartesian};
