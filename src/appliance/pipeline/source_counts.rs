// SPDX-License-Identifier: Apache-2.0
//! Counts of each source for observers of a run, which take them twice, such as a benchmark of streams.

use std::time::Duration;

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
    /// Times from the arrival of a frame to the queues of the sinks.
    pub latency: Latency,
}

/// Sum and maximum of latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// Number of frames.
    pub frames: u64,
    /// Sum over them.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
}

impl Latency {
    /// Adds a frame.
    pub(super) fn add(&mut self, latency: Duration) {
        self.frames += 1;
        self.sum += latency;
        self.max = self.max.max(latency);
    }

    /// Mean over the frames; `None` without frames.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let frames = u32::try_from(self.frames)
            .ok()
            .filter(|frames| *frames > 0)?;
        Some(self.sum / frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_maximum_are_those_of_the_frames() {
        let mut latency = Latency::default();
        assert_eq!(latency.mean(), None);
        for ms in [10, 40, 10] {
            latency.add(Duration::from_millis(ms));
        }
        assert_eq!(latency.mean(), Some(Duration::from_millis(20)));
        assert_eq!(latency.max, Duration::from_millis(40));
    }
}
