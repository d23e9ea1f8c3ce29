// SPDX-License-Identifier: Apache-2.0
//! Plays a file at a rate, as a camera gives its frames (`playback_fps`). Pure: it says when a frame is due, and reads no clock.

use std::time::Duration;

use jetwatch_config::Playback;

/// A frame that comes so long after it was due is late: decoding is slower than the rate. A file that starts over at its end
/// pauses for less.
pub(crate) const LATE: Duration = Duration::from_millis(250);

/// A gap between timestamps that is longer is not waited for.
const MAX_GAP: Duration = Duration::from_secs(5);

/// Says when frames are due.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// Time between frames; `None`: by their timestamps.
    period: Option<Duration>,
    last: Option<Last>,
}

/// The newest frame.
#[derive(Debug, Clone, Copy)]
struct Last {
    due: Duration,
    media: Option<Duration>,
    /// Time between it and the one before.
    gap: Duration,
}

impl Pacer {
    /// `None` where the consumer sets the pace.
    pub(crate) fn new(playback: Playback) -> Option<Self> {
        let period = match playback {
            Playback::Unlimited => return None,
            Playback::Realtime => None,
            Playback::Fps(fps) => Some(Duration::from_secs(1) / fps.max(1)),
        };
        Some(Self { period, last: None })
    }

    /// The newest frame came late: those behind it count from `now`. Returns how many frames a camera would have given since it
    /// was due, at least 1.
    pub(crate) fn skip_to(&mut self, now: Duration) -> u64 {
        let Some(last) = &mut self.last else {
            return 1;
        };
        let behind = now.saturating_sub(last.due).as_secs_f64();
        last.due = now;
        match last.gap.is_zero() {
            true => 1,
            false => ((behind / last.gap.as_secs_f64()) as u64).max(1),
        }
    }

    /// When the frame with the timestamp `media` is due, on the clock that says `now`. Frames that come later than they are due
    /// do not move those behind them, so that the mean rate is kept.
    pub(crate) fn due(&mut self, media: Option<Duration>, now: Duration) -> Duration {
        let Some(last) = self.last else {
            let gap = self.period.unwrap_or_default();
            let first = Last {
                due: now,
                media,
                gap,
            };
            self.last = Some(first);
            return now;
        };
        let gap = match (self.period, media.zip(last.media)) {
            (Some(period), _) => period,
            // Without timestamps, or where the media has started over, the rate so far goes on.
            (None, None) => last.gap,
            (None, Some((media, before))) => match media.checked_sub(before) {
                Some(gap) if gap <= MAX_GAP => gap,
                _ => last.gap,
            },
        };
        let due = last.due + gap;
        self.last = Some(Last { due, media, gap });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// When the frames with these timestamps are due, in ms; each comes when it is due.
    fn due(playback: Playback, media: &[Option<u32>]) -> Vec<u128> {
        let mut pacer = Pacer::new(playback).expect("a pace");
        let mut now = 1000 * MS;
        let mut times = Vec::new();
        for media in media {
            now = pacer.due(media.map(|ms| MS * ms), now).max(now);
            times.push(now.as_millis() - 1000);
        }
        times
    }

    #[test]
    fn frames_are_due_by_timestamps_or_by_rate() {
        let media = [0, 40, 80, 200].map(Some);
        assert_eq!(due(Playback::Realtime, &media), [0, 40, 80, 200]);
        assert_eq!(due(Playback::Fps(50), &media), [0, 20, 40, 60]);
        assert!(Pacer::new(Playback::Unlimited).is_none());
    }

    #[test]
    fn restarted_media_and_gaps_go_on_at_the_rate_so_far() {
        let media = [0, 40, 80, 0, 40, 90_000, 90_040].map(Some);
        let wanted = [0, 40, 80, 120, 160, 200, 240];
        assert_eq!(due(Playback::Realtime, &media), wanted);
        let media = [Some(0), Some(40), None, None];
        assert_eq!(due(Playback::Realtime, &media), [0, 40, 80, 120]);
    }

    #[test]
    fn a_source_that_is_too_slow_loses_what_a_camera_would_have_given() {
        let mut pacer = Pacer::new(Playback::Fps(10)).expect("a pace");
        assert_eq!(pacer.due(None, Duration::ZERO), Duration::ZERO);
        assert_eq!(pacer.due(None, 900 * MS), 100 * MS);
        assert_eq!(pacer.skip_to(900 * MS), 8, "from 100 to 900 ms");
        assert_eq!(pacer.due(None, 910 * MS), 1000 * MS);
        assert_eq!(pacer.skip_to(1010 * MS), 1, "at least");
    }

    #[test]
    fn late_frames_do_not_move_the_ones_behind_them() {
        let mut pacer = Pacer::new(Playback::Fps(10)).expect("a pace");
        assert_eq!(pacer.due(None, Duration::ZERO), Duration::ZERO);
        assert_eq!(pacer.due(None, 900 * MS), 100 * MS);
        assert_eq!(pacer.due(None, 901 * MS), 200 * MS);
    }
}
