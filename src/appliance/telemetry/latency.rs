// SPDX-License-Identifier: Apache-2.0
//! Latencies: the times that frames take, with median, 95th percentile and maximum.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Upper limit of recorded times, 10 minutes; longer ones count as this.
const MAX_US: u64 = 600_000_000;

/// Times of frames, with a precision of 1 %.
#[derive(Debug, Clone)]
pub struct LatencyTimes {
    us: Histogram<u64>,
    sum: Duration,
}

impl Default for LatencyTimes {
    fn default() -> Self {
        Self {
            us: Histogram::new(2).expect("two digits are valid"),
            sum: Duration::ZERO,
        }
    }
}

impl LatencyTimes {
    /// Adds the time of a frame.
    pub fn add(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.us
            .record(us.min(MAX_US))
            .expect("histograms resize up to MAX_US");
        self.sum += time;
    }

    /// Their summary; `None` without frames.
    pub fn summary(&self) -> Option<Latency> {
        let frames = self.us.len();
        let ms = |us: u64| us as f64 / 1e3;
        (frames > 0).then(|| Latency {
            frames,
            mean_ms: self.sum.as_secs_f64() * 1e3 / frames as f64,
            median_ms: ms(self.us.value_at_quantile(0.5)),
            p95_ms: ms(self.us.value_at_quantile(0.95)),
            max_ms: ms(self.us.max()),
        })
    }
}

/// Times that some frames took, in ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of frames.
    pub frames: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub median_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// Maximum.
    pub max_ms: f64,
}

/// The latency of the frames of live sources: from the arrival of a decoded and scaled frame to the queueing of its messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// The whole time.
    #[serde(flatten)]
    pub whole: Latency,
    /// Its parts in the order of the way. `decode` and `scale` are before the arrival and not in `whole`.
    pub parts: Vec<LatencyPart>,
}

/// One part of the way of frames.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyPart {
    /// `decode` and `scale`: in the elements; `wait`: for a worker and for the batch to be full; `detect`: in the network with its
    /// batch; `track`: to the queueing of the messages.
    pub part: String,
    /// Its time.
    #[serde(flatten)]
    pub latency: Latency,
}

impl LatencyReport {
    /// A part by its name.
    pub fn part(&self, name: &str) -> Option<&Latency> {
        let part = self.parts.iter().find(|part| part.part == name)?;
        Some(&part.latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_maximum_are_those_of_the_frames() {
        let mut times = LatencyTimes::default();
        assert_eq!(times.summary(), None);
        for ms in 1..=100 {
            times.add(Duration::from_millis(ms));
        }
        let found = times.summary().expect("frames");
        assert_eq!((found.frames, found.mean_ms), (100, 50.5));
        for (found, wanted) in [
            (found.median_ms, 50.0),
            (found.p95_ms, 95.0),
            (found.max_ms, 100.0),
        ] {
            assert!((found - wanted).abs() <= wanted / 100.0, "{found} {wanted}");
        }
        times.add(Duration::from_secs(100_000));
        assert!(
            times
                .summary()
                .is_some_and(|found| found.max_ms > 590_000.0)
        );
    }
}
