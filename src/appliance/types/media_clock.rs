// SPDX-License-Identifier: Apache-2.0
//! Monotonic media time: it continues to grow when the media restarts (loop).

use std::time::Duration;

/// Assumed frame duration where the timestamps go back, since the duration of the last frame is unknown.
const STEP: Duration = Duration::from_millis(40);

/// Time since the first frame, derived from presentation timestamps. Strictly increasing.
#[derive(Debug, Clone, Copy, Default)]
pub struct MediaClock {
    /// Position in the media that corresponds to `since`.
    origin: Duration,
    since: Duration,
    newest: Option<Duration>,
}

impl MediaClock {
    /// Monotonic time of a frame with the media position `time`.
    pub fn next(&mut self, time: Duration) -> Duration {
        let at = match self.newest {
            None => {
                self.origin = time;
                Duration::ZERO
            }
            Some(newest) => {
                let at = time.checked_sub(self.origin).map(|past| self.since + past);
                match at.filter(|at| *at > newest) {
                    Some(at) => at,
                    // The media restarted.
                    None => {
                        (self.origin, self.since) = (time, newest + STEP);
                        self.since
                    }
                }
            }
        };
        self.newest = Some(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_time_increases_across_restarts() {
        let mut clock = MediaClock::default();
        let times = [500, 533, 700, 100, 133, 133, 134];
        let times_ms = times.map(|time| clock.next(Duration::from_millis(time)).as_millis());
        assert_eq!(times_ms, [0, 33, 200, 240, 273, 313, 314]);
    }
}
