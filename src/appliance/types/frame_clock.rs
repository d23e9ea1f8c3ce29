// SPDX-License-Identifier: Apache-2.0
//! Time between the frames of a source, for what depends on how long something lasts.

use std::time::{Duration, Instant};

use super::{FrameMeta, MediaClock};

/// Time since the first frame of a source. It never decreases, and a wall clock that is set does not change it.
///
/// Frames of cameras count by their arrival on the monotonic clock. Files are read as fast as inference allows, so their frames
/// count by the timestamps of the media, where they have any.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameClock {
    /// Present when media timestamps are used.
    media: Option<MediaClock>,
    now: Duration,
    newest: Option<Instant>,
}

impl FrameClock {
    /// Uses media timestamps, and the arrival of frames without one.
    pub fn with_media_time() -> Self {
        Self {
            media: Some(MediaClock::default()),
            ..Self::default()
        }
    }

    /// The time of a frame.
    pub fn step(&mut self, meta: &FrameMeta) -> Duration {
        let before = self.newest.unwrap_or(meta.received_at);
        self.newest = Some(before.max(meta.received_at));
        self.now = match (&mut self.media, meta.pts) {
            (Some(media), Some(pts)) => self.now.max(media.next(pts)),
            _ => self.now + meta.received_at.saturating_duration_since(before),
        };
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    /// Times of the clock in ms, for frames with a media time and an arrival in ms.
    fn times(mut clock: FrameClock, frames: &[(Option<u64>, u64)]) -> Vec<u128> {
        let (ms, first) = (
            Duration::from_millis,
            FrameMeta::for_test(0, 0, Size::new(1, 1)),
        );
        let mut time = |(pts, arrived): &(Option<u64>, u64)| {
            let meta = FrameMeta {
                pts: pts.map(ms),
                received_at: first.received_at + ms(*arrived),
                ..first
            };
            clock.step(&meta).as_millis()
        };
        frames.iter().map(&mut time).collect()
    }

    #[test]
    fn cameras_count_by_arrival_and_files_by_media_time() {
        let frames = [
            (Some(500), 90),
            (Some(1500), 93),
            (None, 97),
            (Some(600), 99),
        ];
        assert_eq!(times(FrameClock::default(), &frames), [0, 3, 7, 9]);
        // The media starts over at the end, after 40 ms.
        let with_media = times(FrameClock::with_media_time(), &frames);
        assert_eq!(with_media, [0, 1000, 1004, 1040]);
    }
}
