//! What stays and rests are measured by: the clock of whoever looks, or the medium's own.
//!
//! Files are read as fast as the network goes. By the clock of the wall nobody in them would stay anywhere for long.

use std::time::{Duration, SystemTime};

use jetwatch_types::{FrameMeta, MediaClock};

/// Time since a source's first frame; it never goes back.
#[derive(Debug, Default)]
pub(super) struct AnalyticsClock {
    /// There where the source's frames have places in a medium that count.
    media: Option<MediaClock>,
    now: Duration,
    latest: Option<SystemTime>,
}

impl AnalyticsClock {
    /// Goes by the frames' places in their medium, and from those that have none by when they came.
    pub(super) fn with_media_time() -> Self {
        Self {
            media: Some(MediaClock::default()),
            ..Self::default()
        }
    }

    /// The time of a frame, and when it was taken by a clock that never goes back.
    pub(super) fn step(&mut self, meta: &FrameMeta) -> (Duration, SystemTime) {
        let before = self.latest.unwrap_or(meta.captured_at);
        // A clock that was set back stands still until it has caught up, so that no stay ends before it began.
        let at = before.max(meta.captured_at);
        self.latest = Some(at);
        let passed = at.duration_since(before).unwrap_or_default();
        self.now = match (&mut self.media, meta.pts) {
            (Some(media), Some(pts)) => self.now.max(media.next(pts)),
            _ => self.now + passed,
        };
        (self.now, at)
    }

    /// When the newest frame was taken.
    pub(super) fn latest(&self) -> Option<SystemTime> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::Size;

    /// The clock's times in ms of frames with a place in the medium, and of when they came.
    fn times(mut clock: AnalyticsClock, frames: &[(Option<u64>, u64)]) -> Vec<u128> {
        let ms = Duration::from_millis;
        let mut time = |(pts, came): &(Option<u64>, u64)| {
            let mut meta = FrameMeta::for_test(0, 0, Size::new(1, 1));
            meta.pts = pts.map(ms);
            meta.captured_at += ms(*came);
            clock.step(&meta).0.as_millis()
        };
        frames.iter().map(&mut time).collect()
    }

    #[test]
    fn file_source_uses_media_time() {
        let frames = [(500, 9000), (1500, 9003), (2500, 9001), (500, 9004)];
        let frames = frames.map(|(pts, came)| (Some(pts), came));
        assert_eq!(
            times(AnalyticsClock::with_media_time(), &frames),
            [0, 1000, 2000, 2040]
        );
        assert_eq!(times(AnalyticsClock::default(), &frames), [0, 3, 3, 4]);
    }

    #[test]
    fn frames_without_media_time_use_arrival_time() {
        let none = [(None, 100), (None, 150), (None, 120), (None, 250)];
        assert_eq!(
            times(AnalyticsClock::with_media_time(), &none),
            [0, 50, 50, 150]
        );
        // One of many does not shift those behind it.
        let one = [(Some(0), 0), (Some(1000), 2), (None, 4), (Some(2000), 6)];
        assert_eq!(
            times(AnalyticsClock::with_media_time(), &one),
            [0, 1000, 1002, 2000]
        );
    }
}
