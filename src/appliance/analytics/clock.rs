// SPDX-License-Identifier: Apache-2.0
//! The clock for dwell and stationary times: capture time, or the timestamps of the media.
//!
//! Files are read as fast as inference allows, so wall-clock dwell times would be too short.

use std::time::{Duration, SystemTime};

use jetwatch_types::{FrameMeta, MediaClock};

/// Time since the first frame of a source. Monotonic.
#[derive(Debug, Default)]
pub(super) struct AnalyticsClock {
    /// Present when media timestamps are used.
    media: Option<MediaClock>,
    now: Duration,
    latest: Option<SystemTime>,
}

impl AnalyticsClock {
    /// Uses media timestamps, and the arrival time for frames without one.
    pub(super) fn with_media_time() -> Self {
        Self {
            media: Some(MediaClock::default()),
            ..Self::default()
        }
    }

    /// Scene time of a frame, and its capture time made monotonic.
    pub(super) fn step(&mut self, meta: &FrameMeta) -> (Duration, SystemTime) {
        let before = self.latest.unwrap_or(meta.captured_at);
        // A clock that was set back does not advance until it has caught up, so that no dwell time is negative.
        let at = before.max(meta.captured_at);
        self.latest = Some(at);
        let passed = at.duration_since(before).unwrap_or_default();
        self.now = match (&mut self.media, meta.pts) {
            (Some(media), Some(pts)) => self.now.max(media.next(pts)),
            _ => self.now + passed,
        };
        (self.now, at)
    }

    /// Capture time of the newest frame.
    pub(super) fn latest(&self) -> Option<SystemTime> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::Size;

    /// Times of the clock in ms, for frames with a media time and an arrival time in ms.
    fn times(mut clock: AnalyticsClock, frames: &[(Option<u64>, u64)]) -> Vec<u128> {
        let ms = Duration::from_millis;
        let mut time = |(pts, arrived): &(Option<u64>, u64)| {
            let mut meta = FrameMeta::for_test(0, 0, Size::new(1, 1));
            meta.pts = pts.map(ms);
            meta.captured_at += ms(*arrived);
            clock.step(&meta).0.as_millis()
        };
        frames.iter().map(&mut time).collect()
    }

    #[test]
    fn file_source_uses_media_time() {
        let frames = [(500, 9000), (1500, 9003), (2500, 9001), (500, 9004)];
        let frames = frames.map(|(pts, arrived)| (Some(pts), arrived));
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
        // A single frame without one does not shift the frames after it.
        let one = [(Some(0), 0), (Some(1000), 2), (None, 4), (Some(2000), 6)];
        assert_eq!(
            times(AnalyticsClock::with_media_time(), &one),
            [0, 1000, 1002, 2000]
        );
    }
}
