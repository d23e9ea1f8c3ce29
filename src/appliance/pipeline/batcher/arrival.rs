// SPDX-License-Identifier: Apache-2.0
//! Estimates when the next frame of a source is due, from the arrival times of earlier frames. Pure: times are arguments.

use std::time::{Duration, Instant};

/// Share of the newest interval in the period: 1 over this.
const WEIGHT: u32 = 4;

/// Moving average of the frame interval of a live source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ArrivalEstimator {
    last_arrival: Option<Instant>,
    period: Option<Duration>,
}

impl ArrivalEstimator {
    /// A frame arrived at `now`.
    pub(super) fn observe(&mut self, now: Instant) {
        if let Some(before) = self.last_arrival {
            let interval = now.saturating_duration_since(before);
            self.period = Some(match self.period {
                Some(period) => (period * (WEIGHT - 1) + interval) / WEIGHT,
                None => interval,
            });
        }
        self.last_arrival = Some(now);
    }

    /// When the next frame may arrive: from half a period early to a whole period late, as networks add jitter. `None` before
    /// the second frame. A source that is later than that has stalled.
    pub(super) fn window(&self) -> Option<(Instant, Instant)> {
        let (newest, period) = (self.last_arrival?, self.period?);
        Some((newest + period / 2, newest + period * 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_frame_is_expected_after_one_period() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut arrivals = ArrivalEstimator::default();
        assert_eq!(arrivals.window(), None);
        arrivals.observe(at(0));
        assert_eq!(arrivals.window(), None, "one frame has no period");
        arrivals.observe(at(40));
        assert_eq!(arrivals.window(), Some((at(60), at(120))));
        arrivals.observe(at(80));
        assert_eq!(arrivals.window(), Some((at(100), at(160))));
        // One late frame moves the period by a quarter of its delay.
        arrivals.observe(at(160));
        assert_eq!(arrivals.window(), Some((at(185), at(260))));
    }
}
