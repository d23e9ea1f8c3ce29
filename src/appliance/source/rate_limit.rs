//! Drops frames of a source beyond `max_fps` per second. Pure: frames are identified by their timestamp, so that a file
//! gives the same frames every time.

use std::time::Duration;

/// Part of the period by which a frame may come early, as times in media are rounded and cameras' beats shake.
const EARLY_DIVISOR: u32 = 8;

/// Lets frames through, at most so many a second.
#[derive(Debug)]
pub struct RateLimiter {
    period: Duration,
    /// When the next one is due, and the newest that was seen.
    due: Option<(Duration, Duration)>,
}

impl RateLimiter {
    /// `max_fps` is above 0.
    #[must_use]
    pub fn new(max_fps: f32) -> Self {
        Self {
            period: Duration::from_secs_f64(1.0 / f64::from(max_fps)),
            due: None,
        }
    }

    /// Whether the frame at `time` is one to look at.
    pub fn admit(&mut self, time: Duration) -> bool {
        let due = match self.due {
            // The media has started over.
            Some((_, newest)) if time < newest => time,
            Some((due, _)) => due,
            None => time,
        };
        let takes = time + self.period / EARLY_DIVISOR >= due;
        let next = match takes {
            false => due,
            // A source that is slower than the cap, or was away, owes nothing.
            true if time > due + self.period => time + self.period,
            // Counted from when it was due, so that the mean rate is the cap's, whatever the source's own.
            true => due + self.period,
        };
        self.due = Some((next, time));
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of frames at these times, in ms, those that are taken.
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
            let wanted = cap * seconds as f32;
            assert!(
                (count as f32 - wanted).abs() <= 1.0,
                "{count} of {fps} frames/s at {cap}, wanted {wanted}"
            );
        }
    }

    #[test]
    fn a_slower_source_delivers_all_of_its_frames() {
        let times: Vec<u64> = (0..50).map(|n| n * 100 + n % 3).collect();
        assert_eq!(
            admitted(10.0, times.clone()),
            times,
            "its beat shakes a little"
        );
        assert_eq!(admitted(30.0, times.clone()), times);
    }

    #[test]
    fn restart_and_gap_give_no_extra_frames() {
        assert_eq!(
            admitted(10.0, [0, 50, 100, 150, 0, 50, 100]),
            [0, 100, 0, 100]
        );
        // Behind the gap the beat begins anew, without a burst.
        assert_eq!(
            admitted(10.0, [0, 5000, 5050, 5100, 5150, 5200]),
            [0, 5000, 5100, 5200]
        );
    }
}
