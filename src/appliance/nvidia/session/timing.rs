//! How long a run took on the GPU.

use std::time::Duration;

/// Times of one run, by the GPU's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuTimes {
    /// From the first stage's begin to the last one's end.
    pub total: Duration,
    /// Each stage by itself: known of runs that go call by call, and of a few of those that are launched as graphs.
    pub stages: Option<StageTimes>,
}

/// Times of one run's stages. Each contains what the GPU takes from one call to the next, some microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTimes {
    /// Pictures or tensors from the host; next to nothing on an integrated GPU, which reads pictures in place.
    pub copy_in: Duration,
    /// Pictures to the tensor; next to nothing where the host writes tensors.
    pub preprocess: Duration,
    /// The network.
    pub network: Duration,
    /// Outputs to the host.
    pub copy_out: Duration,
}

/// Time that one layer of the network took on the GPU or DLA.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerTime {
    /// Name of the layer; fused ones have joined names.
    pub name: String,
    /// Milliseconds of all runs together.
    pub total_ms: f64,
    /// How many runs were reported.
    pub runs: u32,
}
