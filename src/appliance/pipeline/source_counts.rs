// SPDX-License-Identifier: Apache-2.0
//! Counts of each source for observers of a run, which take them twice, such as a benchmark of streams.

use jetwatch_telemetry::Latency;
use jetwatch_types::SourceState;

/// Counts of one source since the start of the run; its latencies since the previous call.
#[derive(Debug, Clone)]
pub struct SourceCounts {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: SourceState,
    /// Frames received, including dropped ones.
    pub received: u64,
    /// Frames processed, including skipped ones.
    pub processed: u64,
    /// Frames that skipped the network.
    pub skipped: u64,
    /// Frames replaced by newer ones.
    pub dropped: u64,
    /// Frames that a source with a playback rate could not give in time.
    pub late: u64,
    /// Times from the arrival of a frame to the queues of the sinks; `None` without frames.
    pub latency: Option<Latency>,
}
