//! FLOOR 2: traces of benchmark runs to statistics, to `benchmark.json`, and to comparisons of configurations; the steps of the
//! ablation: pure.
//!
//! `cli` runs the chain and hands its trace over. The layout of `benchmark.json` is that of CV-CUDA's benchmark script, so
//! that the tools of its users read it.

mod ablation;
mod aggregate;
mod benchmark_json;
mod compare;
mod error;
mod statistics;
mod sweep;
mod trace_stats;

pub use ablation::{
    AblationStep, Capabilities, CpuPerFrame, Gain, StepConfig, compute_gains, cpu_per_frame,
};
pub use aggregate::mean;
pub use benchmark_json::{ROOT, document};
pub use compare::{Comparison, Noise};
pub use error::BenchmarkError;
pub use statistics::Statistics;
pub use sweep::{Axis, cartesian};
pub use trace_stats::{Batch, LevelStats, RangeStats, Row, Times, TraceStats};
