// SPDX-License-Identifier: Apache-2.0
//! The sound that belongs to the encoded video of a source: the newest units, on the clock of the video. Pure.
//!
//! Units may come before the video that gives them their time, or long after: both do not matter, as they are found by time.

use std::collections::VecDeque;
use std::sync::Arc;

use jetwatch_types::{AudioFormat, AudioUnit};

use crate::timeline::StreamTime;

/// Most units that are kept: a minute before a clip, and what comes while it is written.
const MAX_UNITS: usize = 8192;

/// Units that wait for the video to begin.
const MAX_WAITING: usize = 512;

/// A unit that is further from the video belongs to media that have begun again, or not yet.
const MAX_DISTANCE: StreamTime = 10_000_000_000;

/// Sound that is kept before the first image.
const MARGIN: StreamTime = 1_000_000_000;

/// A unit on the clock of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundUnit {
    /// When it is played.
    pub at: StreamTime,
    /// A raw AAC frame.
    pub bytes: Arc<[u8]>,
}

/// The sound of one stream.
#[derive(Debug, Default)]
pub(crate) struct Sound {
    format: Option<Arc<AudioFormat>>,
    units: VecDeque<SoundUnit>,
    /// Units whose time is not known: the video has not begun, or not begun again.
    waiting: VecDeque<AudioUnit>,
    /// What is added to timestamps, and the newest image; `None`: there is none.
    clock: Option<(StreamTime, StreamTime)>,
}

impl Sound {
    /// A stream of sound begins, or its format changes: then earlier units are dropped.
    pub(crate) fn start(&mut self, format: AudioFormat) {
        if self.format.as_deref() != Some(&format) {
            *self = Self {
                format: Some(Arc::new(format)),
                clock: self.clock,
                ..Self::default()
            };
        }
    }

    /// The format; `None`: there is no sound.
    pub(crate) fn format(&self) -> Option<&Arc<AudioFormat>> {
        self.format.as_ref()
    }

    /// Takes a unit.
    pub(crate) fn push(&mut self, unit: AudioUnit) {
        if self.format.is_none() {
            return;
        }
        if self.waiting.is_empty()
            && let Some((offset, newest)) = self.clock
        {
            let at = nanos(&unit).saturating_add(offset);
            let last = self.units.back().map_or(StreamTime::MIN, |last| last.at);
            if at > last && (at - newest).abs() <= MAX_DISTANCE {
                self.add(at, unit);
                return;
            }
        }
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(unit);
    }

    /// An image is at `newest`; `offset` is added to timestamps from it on. `is_restart`: it continues none. Units before `first`, the
    /// first image that is kept, are dropped.
    pub(crate) fn follow(
        &mut self,
        offset: StreamTime,
        newest: StreamTime,
        first: StreamTime,
        is_restart: bool,
    ) {
        self.clock = Some((offset, newest));
        if is_restart {
            for unit in std::mem::take(&mut self.waiting) {
                let at = nanos(&unit).saturating_add(offset);
                let last = self.units.back().map_or(StreamTime::MIN, |last| last.at);
                if at > last && (at - newest).abs() <= MAX_DISTANCE {
                    self.add(at, unit);
                }
            }
        }
        let kept = self
            .units
            .partition_point(|unit| unit.at < first.saturating_sub(MARGIN));
        self.units.drain(..kept);
    }

    fn add(&mut self, at: StreamTime, unit: AudioUnit) {
        if self.units.len() == MAX_UNITS {
            self.units.pop_front();
        }
        let bytes = unit.bytes;
        self.units.push_back(SoundUnit { at, bytes });
    }

    /// Encoded bytes of the units.
    pub(crate) fn bytes(&self) -> usize {
        self.units.iter().map(|unit| unit.bytes.len()).sum()
    }

    /// The units of this format after `after`, up to `until`.
    pub(crate) fn between(
        &self,
        format: &AudioFormat,
        after: StreamTime,
        until: StreamTime,
    ) -> Vec<SoundUnit> {
        if self.format.as_deref() != Some(format) {
            return Vec::new();
        }
        let first = self.units.partition_point(|unit| unit.at <= after);
        let units = self.units.iter().skip(first);
        units.take_while(|unit| unit.at <= until).cloned().collect()
    }
}

fn nanos(unit: &AudioUnit) -> StreamTime {
    StreamTime::try_from(unit.pts.as_nanos()).unwrap_or(StreamTime::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: StreamTime = 1_000_000;

    fn format(sample_rate: u32) -> AudioFormat {
        AudioFormat {
            sample_rate,
            channels: 1,
            config: Arc::from([0x12, 0x10]),
        }
    }

    fn push(sound: &mut Sound, ms: impl IntoIterator<Item = u64>) {
        for ms in ms {
            let (bytes, pts) = (Arc::from([0; 10]), Duration::from_millis(ms));
            sound.push(AudioUnit { bytes, pts });
        }
    }

    fn between(sound: &Sound, after: StreamTime, until: StreamTime) -> Vec<StreamTime> {
        let found = sound.between(&format(8000), after * MS, until * MS);
        found.iter().map(|unit| unit.at / MS).collect()
    }

    #[test]
    fn units_before_the_video_get_its_clock() {
        let mut sound = Sound::default();
        push(&mut sound, [1]);
        sound.start(format(8000));
        push(&mut sound, [1000, 1020]);
        assert_eq!(between(&sound, -9999, 9999), []);
        sound.follow(-1010 * MS, 0, 0, true);
        push(&mut sound, [1040, 1060]);
        assert_eq!(between(&sound, -9999, 9999), [-10, 10, 30, 50]);
        assert_eq!(between(&sound, 10, 30), [30]);
        assert_eq!(sound.bytes(), 40);
        assert_eq!(sound.between(&format(16000), 0, 9999 * MS), []);
        sound.start(format(16000));
        assert_eq!(sound.bytes(), 0, "another format");
    }

    #[test]
    fn media_that_begin_again_wait_for_their_video() {
        let mut sound = Sound::default();
        sound.start(format(8000));
        sound.follow(0, 0, 0, true);
        push(&mut sound, [0, 500, 20, 40]);
        assert_eq!(between(&sound, -1, 9999), [0, 500]);
        sound.follow(600 * MS, 600 * MS, 0, true);
        assert_eq!(between(&sound, -1, 9999), [0, 500, 620, 640]);
        // The end of the media before, which comes late.
        push(&mut sound, [20_000]);
        assert_eq!(between(&sound, 640, 99_999), []);
    }

    #[test]
    fn units_go_with_the_images() {
        let mut sound = Sound::default();
        sound.start(format(8000));
        sound.follow(0, 0, 0, true);
        push(&mut sound, (0..5000).step_by(20));
        sound.follow(0, 5000 * MS, 3000 * MS, false);
        assert_eq!(between(&sound, -1, 9999).first(), Some(&2000));
    }
}
