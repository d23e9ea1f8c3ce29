//! When the next frame of a lane is due, by the times of those before. Pure: it is told what time it is.

use std::time::{Duration, Instant};

/// Share of the newest interval in the period: 1 over this.
const WEIGHT: u32 = 4;

/// The beat of a live source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ArrivalEstimator {
    last_arrival: Option<Instant>,
    period: Option<Duration>,
}

impl ArrivalEstimator {
    /// A frame came at `now`.
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

    /// From when to when the next frame may come: half a period early to a whole one late, as networks shake cameras' beats.
    /// `None` before the second frame. A source that is later than that has stalled, or will be a surprise.
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
        let mut beat = ArrivalEstimator::default();
        assert_eq!(beat.window(), None);
        beat.observe(at(0));
        assert_eq!(beat.window(), None, "one frame has no beat");
        beat.observe(at(40));
        assert_eq!(beat.window(), Some((at(60), at(120))));
        beat.observe(at(80));
        assert_eq!(beat.window(), Some((at(100), at(160))));
        // One late frame moves the beat by a quarter of its delay.
        beat.observe(at(160));
        assert_eq!(beat.window(), Some((at(185), at(260))));
    }
}
