//! When the next frame of a lane is due, by the times of those before. Pure: it is told what time it is.

use std::time::{Duration, Instant};

/// Share of the newest interval in the period: 1 over this.
const WEIGHT: u32 = 4;

/// The beat of a live source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beat {
    newest: Option<Instant>,
    period: Option<Duration>,
}

impl Beat {
    /// A frame came at `now`.
    pub(super) fn came(&mut self, now: Instant) {
        if let Some(before) = self.newest {
            let interval = now.saturating_duration_since(before);
            self.period = Some(match self.period {
                Some(period) => (period * (WEIGHT - 1) + interval) / WEIGHT,
                None => interval,
            });
        }
        self.newest = Some(now);
    }

    /// From when to when the next frame may come: half a period early to a whole one late, as networks shake cameras' beats.
    /// `None` before the second frame. A source that is later than that has stalled, or will be a surprise.
    pub(super) fn next(&self) -> Option<(Instant, Instant)> {
        let (newest, period) = (self.newest?, self.period?);
        Some((newest + period / 2, newest + period * 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_frame_is_due_around_one_period_later() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut beat = Beat::default();
        assert_eq!(beat.next(), None);
        beat.came(at(0));
        assert_eq!(beat.next(), None, "one frame has no beat");
        beat.came(at(40));
        assert_eq!(beat.next(), Some((at(60), at(120))));
        beat.came(at(80));
        assert_eq!(beat.next(), Some((at(100), at(160))));
        // One late frame moves the beat by a quarter of its delay.
        beat.came(at(160));
        assert_eq!(beat.next(), Some((at(185), at(260))));
    }
}
