// SPDX-License-Identifier: Apache-2.0
//! GPU times of a run.

use std::time::Duration;

/// Times of one run, measured by the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuTimes {
    /// From the start of the first stage to the end of the last.
    pub total: Duration,
    /// Time of each stage: for runs that go call by call, and for a sample of those that are launched as graphs.
    pub stages: Option<StageTimes>,
}

/// Times of one run's stages. Each includes the gap between two calls on the GPU, some microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTimes {
    /// Copy of images or tensors from the host; almost zero on an integrated GPU, which reads images directly.
    pub copy_in: Duration,
    /// Conversion of images to the tensor; almost zero when the host writes tensors.
    pub preprocess: Duration,
    /// The network.
    pub network: Duration,
    /// Copy of the outputs to the host.
    pub copy_out: Duration,
}

/// Time that one layer of the network took on the GPU or DLA.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerTime {
    /// Name of the layer; fused ones have joined names.
    pub name: String,
    /// Sum over all runs, in ms.
    pub total_ms: f64,
    /// Number of runs.
    pub runs: u32,
}
