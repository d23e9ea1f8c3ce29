//! A medium's own time, made to grow for ever: it goes on where the medium begins again.

use std::time::Duration;

/// From one frame to the next where the medium's times go back: how long the last one is shown is not known.
const STEP: Duration = Duration::from_millis(40);

/// Time since the first frame, by the places of frames in their medium. Each is later than the one before.
#[derive(Debug, Clone, Copy, Default)]
pub struct MediaClock {
    /// The place in the medium that is the time `since`.
    origin: Duration,
    since: Duration,
    newest: Option<Duration>,
}

impl MediaClock {
    /// The time of a frame at the place `time` of the medium.
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
                    // The medium has begun again.
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
