// SPDX-License-Identifier: Apache-2.0
//! Limits the frame rate of a source to `max_fps`. Pure: depends on timestamps only, so a file always gives the same frames.

use std::time::Duration;

/// A frame may arrive early by this part of the period, since media timestamps are rounded and camera intervals jitter.
const EARLY_DIVISOR: u32 = 8;

/// Admits at most a given number of frames per second.
#[derive(Debug)]
pub struct RateLimiter {
    period: Duration,
    /// Time at which the next frame is due, and time of the newest frame.
    due: Option<(Duration, Duration)>,
}

impl RateLimiter {
    /// `max_fps`: above 0.
    #[must_use]
    pub fn new(max_fps: f32) -> Self {
        Self {
            period: Duration::from_secs_f64(1.0 / f64::from(max_fps)),
            due: None,
        }
    }

    /// Whether the frame at `time` is kept.
    pub fn admit(&mut self, time: Duration) -> bool {
        let due = match self.due {
            // The media restarted.
            Some((_, newest)) if time < newest => time,
            Some((due, _)) => due,
            None => time,
        };
        let is_admitted = time + self.period / EARLY_DIVISOR >= due;
        let next = match is_admitted {
            false => due,
            // A source that is slower than the limit, or was offline, may not catch up.
            true if time > due + self.period => time + self.period,
            // Relative to the due time, so that the mean rate is the limit, independent of the source's rate.
            true => due + self.period,
        };
        self.due = Some((next, time));
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The admitted ones of frames at these times, in ms.
    fn admitted(max_fps: f32, times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut cap = RateLimiter::new(max_fps);
        let times = times.into_iter();
        times
            .filter(|time| cap.admit(Duration::from_millis(*time)))
            .collect()
    }

    #[test]
    fn mean_rate_equals_limit_for_any_source_rate() {
        for (fps, cap) in [(30, 10.0), (25, 10.0), (30, 7.0), (60, 24.0), (30, 0.5)] {
            let seconds = 60;
            let count = admitted(cap, (0..fps * seconds).map(|n| n * 1000 / fps)).len();
            let expected = cap * seconds as f32;
            assert!(
                (count as f32 - expected).abs() <= 1.0,
                "{count} of {fps} frames/s at {cap}, expected {expected}"
            );
        }
    }

    #[test]
    fn a_slower_source_delivers_all_of_its_frames() {
        let times: Vec<u64> = (0..50).map(|n| n * 100 + n % 3).collect();
        // Its beat shakes a little.
        assert_eq!(admitted(10.0, times.clone()), times);
        assert_eq!(admitted(30.0, times.clone()), times);
    }

    #[test]
    fn restart_and_gap_give_no_extra_frames() {
        assert_eq!(
            admitted(10.0, [0, 50, 100, 150, 0, 50, 100]),
            [0, 100, 0, 100]
        );
        // After the gap the interval restarts, without a burst.
        assert_eq!(
            admitted(10.0, [0, 5000, 5050, 5100, 5150, 5200]),
            [0, 5000, 5100, 5200]
        );
    }
}
