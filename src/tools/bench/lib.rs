//! FLOOR 2: traces of benchmark runs to statistics, to `benchmark.json`, and to comparisons of configurations; the steps of the
//! ablation: pure.
//!
//! `cli` runs the chain and hands its trace over. The layout of `benchmark.json` is that of CV-CUDA's benchmark script, so
//! that the tools of its users read it.

mod compare;
mod error;
mod ladder;
mod layout;
mod mean;
mod measured;
mod statistics;
mod sweep;

pub use compare::{Comparison, Noise};
pub use error::BenchmarkError;
pub use ladder::{Climbed, Facts, Layout, Rung, Spent, climb, spent};
pub use layout::{ROOT, document};
pub use mean::mean;
pub use measured::{Batch, LevelRun, Measured, RangeNumbers, Row, Times};
pub use statistics::Statistics;
pub use sweep::{Axis, cross};
