//! Benchmarks: runs of single stages and of the detector, execution modes of a pipeline, the steps of the ablation; traces to
//! statistics, to `benchmark.json`, and to comparisons of configurations.
//!
//! What only benchmarks need wraps the pipeline from outside ([`ExecutionMode`]). The layout of `benchmark.json` is that of
//! CV-CUDA's benchmark script, so that the tools of its users read it.

mod ablation;
mod aggregate;
mod benchmark_json;
mod compare;
mod detector_only;
mod error;
mod execution_mode;
mod in_flight;
mod scaling_detector;
mod single_stage;
mod statistics;
mod sweep;
mod trace_stats;

pub use ablation::{
    AblationStep, Capabilities, CpuPerFrame, Gain, StepConfig, compute_gains, cpu_per_frame,
};
pub use aggregate::mean;
pub use benchmark_json::{ROOT, document};
pub use compare::{Comparison, Noise};
pub use detector_only::{DetectorAlone, bench_detector, bench_layers};
pub use error::BenchmarkError;
pub use execution_mode::{Backpressure, ExecutionMode, ScaleAt};
pub use single_stage::{BenchStage, RunLimit, bench_stage};
pub use statistics::Statistics;
pub use sweep::{Axis, cartesian};
pub use trace_stats::{Batch, LevelStats, RangeStats, Row, Times, TraceStats};
