// SPDX-License-Identifier: Apache-2.0
//! The encoded stream of one source, shared by the thread that brings it and by its readers: clips, and viewers of a live stream.
//!
//! The source's thread holds the lock for one unit. Readers copy references to units out of the ring and work without the lock.
//! No reader has a queue: one that is too slow is overtaken, and the source never waits for it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use jetwatch_types::{AccessUnit, AudioFormat, AudioUnit, StreamFormat};
use parking_lot::Mutex;

use crate::mp4::{Fragments, init_segment};
use crate::parameter_sets::ParameterSets;
use crate::ring::{Cursor, Ring, RingLimits, RingUnit};
use crate::sound::{Sound, SoundUnit};
use crate::timeline::{StreamTime, Timeline, UnitTime};

/// Longest time for which images are kept for the detector: it may be late by that, and what is later is missing at the beginning of a
/// clip. Also the shortest time that is kept at all, as readers come a few times a second.
pub const MAX_LAG: Duration = Duration::from_secs(2);

/// Called on the source's thread after each unit; it must not block.
pub type UnitNotice = dyn Fn() + Send + Sync;

/// No timestamp.
const UNKNOWN: u64 = u64::MAX;

/// The encoded stream of one source.
pub struct SourceStream {
    name: String,
    wants_sound: bool,
    limits: RingLimits,
    /// Timestamp of the oldest image with which a clip may still be requested, in nanoseconds.
    needed: AtomicU64,
    /// Clips that are requested and have not got their first units.
    requests: AtomicU32,
    inner: Mutex<Inner>,
}

struct Inner {
    ring: Ring,
    timeline: Timeline,
    sound: Sound,
    format: Option<StreamFormat>,
    sets: Option<Arc<ParameterSets>>,
    /// Units are refused until the next keyframe.
    needs_keyframe: bool,
    oversized_logged: bool,
    /// When the newest keyframe is shown.
    keyframe: Option<StreamTime>,
    distance_logged: bool,
    notices: Vec<Weak<UnitNotice>>,
}

/// What a read gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Units that the reader has lost because it was too slow.
    pub lost: u64,
    /// Whether more units wait.
    pub has_more: bool,
}

impl SourceStream {
    /// The stream of the source `name`, before its first unit.
    pub fn new(name: &str, limits: RingLimits) -> Self {
        Self {
            name: name.to_owned(),
            wants_sound: false,
            limits,
            needed: AtomicU64::new(UNKNOWN),
            requests: AtomicU32::new(0),
            inner: Mutex::new(Inner {
                ring: Ring::new(limits),
                timeline: Timeline::default(),
                sound: Sound::default(),
                format: None,
                sets: None,
                needs_keyframe: true,
                oversized_logged: false,
                keyframe: None,
                distance_logged: false,
                notices: Vec::new(),
            }),
        }
    }

    /// The same stream with its sound, where the source has one that can be kept.
    #[must_use]
    pub fn with_sound(self) -> Self {
        Self {
            wants_sound: true,
            ..self
        }
    }

    /// Whether its sound is kept.
    pub const fn wants_sound(&self) -> bool {
        self.wants_sound
    }

    /// A stream of sound begins, or its format changes.
    pub fn start_sound(&self, format: AudioFormat) {
        self.inner.lock().sound.start(format);
    }

    /// Adds sound.
    pub fn push_sound(&self, unit: AudioUnit) {
        self.inner.lock().sound.push(unit);
    }

    /// Format of the sound; `None`: there is none.
    pub fn sound_format(&self) -> Option<Arc<AudioFormat>> {
        self.inner.lock().sound.format().cloned()
    }

    /// The sound of this format after `after`, up to `until`.
    pub(crate) fn sound_between(
        &self,
        format: &AudioFormat,
        after: StreamTime,
        until: StreamTime,
    ) -> Vec<SoundUnit> {
        self.inner.lock().sound.between(format, after, until)
    }

    /// A clip may be requested from now on with the image of this timestamp of the source, and with later ones. `None`: it is not known.
    /// Does not wait for the source's thread.
    pub fn set_needed(&self, pts: Option<Duration>) {
        let nanos = pts.and_then(|pts| u64::try_from(pts.as_nanos()).ok());
        self.needed
            .store(nanos.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// A clip is requested: until it has its first units, all is kept for [`MAX_LAG`].
    pub fn request_clip(&self) {
        self.requests.fetch_add(1, Ordering::AcqRel);
    }

    /// A clip that was requested has its first units, or will not get any.
    pub(crate) fn clip_begun(&self) {
        let less = |requests: u32| requests.checked_sub(1);
        let _ = self
            .requests
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// How far the image that is needed is behind one with this timestamp, which has just come.
    fn lag(&self, pts: Option<Duration>) -> Duration {
        let needed = self.needed.load(Ordering::Relaxed);
        let shortest = MAX_LAG.saturating_sub(self.limits.span);
        let Some(pts) = pts.filter(|_| needed != UNKNOWN) else {
            return MAX_LAG;
        };
        let needed = Duration::from_nanos(needed);
        // The source has begun again, and the image is one of before.
        if self.requests.load(Ordering::Acquire) > 0 || needed > pts + MAX_LAG {
            return MAX_LAG;
        }
        pts.saturating_sub(needed).clamp(shortest, MAX_LAG)
    }

    /// The name of the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A stream begins, or its format changes: what follows does not continue earlier units.
    pub fn start(&self, format: StreamFormat) {
        let mut inner = self.inner.lock();
        inner.format = Some(format);
        inner.timeline.restart();
        inner.needs_keyframe = true;
    }

    /// Adds a unit. Units before the first keyframe with parameter sets are dropped.
    pub fn push(&self, unit: AccessUnit) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(format) = inner.format else {
            return;
        };
        if unit.is_keyframe
            && let Some(sets) = ParameterSets::of_access_unit(format.codec, &unit.bytes)
            && inner.sets.as_deref() != Some(&sets)
        {
            inner.sets = Some(Arc::new(sets));
        }
        let has_sets = inner
            .sets
            .as_ref()
            .is_some_and(|sets| sets.codec == format.codec);
        if !has_sets || (inner.needs_keyframe && !unit.is_keyframe) {
            return;
        }
        inner.needs_keyframe = false;
        inner.ring.set_lag(self.lag(unit.pts));
        let time = inner.timeline.next(&unit);
        if unit.is_keyframe {
            self.check_distance(inner, time);
        }
        let is_taken = inner.ring.push(unit, time, inner.sets.clone());
        let first = inner
            .ring
            .iter()
            .next()
            .map_or(time.pts, |first| first.time.dts);
        let offset = inner.timeline.offset();
        inner.sound.follow(offset, time.pts, first, time.is_restart);
        if inner.ring.oversized() > 0 && !inner.oversized_logged {
            inner.oversized_logged = true;
            log::warn!(
                source = self.name.as_str();
                "the stream has more bytes from one keyframe to the next than record.clips.ring_bytes: parts of its clips are \
                 missing; raise that value, or set a shorter distance of keyframes in the camera"
            );
        }
        if is_taken {
            inner.notices.retain(|notice| match notice.upgrade() {
                Some(notice) => {
                    notice();
                    true
                }
                None => false,
            });
        }
    }

    /// Says once that the distance of keyframes decides how much is kept.
    fn check_distance(&self, inner: &mut Inner, time: UnitTime) {
        let before = inner.keyframe.replace(time.pts);
        let distance = before
            .filter(|_| !time.is_restart)
            .map(|before| time.pts - before);
        let Some(Ok(distance)) = distance.map(u64::try_from) else {
            return;
        };
        let distance = Duration::from_nanos(distance);
        if distance > self.limits.span.max(MAX_LAG) && !inner.distance_logged {
            inner.distance_logged = true;
            log::warn!(
                source = self.name.as_str();
                "the stream has a keyframe every {:.1} s only, and clips begin with one: they begin up to that much before \
                 record.clips.pre_roll_s, and as much video is in memory; set a shorter distance of keyframes in the camera",
                distance.as_secs_f64()
            );
        }
    }

    /// Format of the stream; `None` before it begins.
    pub fn format(&self) -> Option<StreamFormat> {
        self.inner.lock().format
    }

    /// The place of the last keyframe at or before `time`.
    pub fn keyframe_before(&self, time: StreamTime) -> Option<Cursor> {
        self.inner.lock().ring.keyframe_before(time)
    }

    /// The place of the newest keyframe.
    pub fn newest_keyframe(&self) -> Option<Cursor> {
        self.inner.lock().ring.newest_keyframe()
    }

    /// The time of the image with the timestamp `pts` of the source, which had come before `at`.
    pub fn time_of(&self, pts: Option<Duration>, at: SystemTime) -> Option<StreamTime> {
        self.inner.lock().ring.time_of(pts, at)
    }

    /// The machine's time of an image that is shown at `pts`.
    pub fn arrival_of(&self, pts: StreamTime) -> SystemTime {
        self.inner.lock().timeline.arrival_of(pts)
    }

    /// Encoded bytes in the ring, with those of the sound.
    pub fn bytes(&self) -> usize {
        let inner = self.inner.lock();
        inner.ring.bytes() + inner.sound.bytes()
    }

    /// Appends at most `max` units from the place of `cursor` to `out`, and moves it behind them.
    pub fn read(&self, cursor: &mut Cursor, max: usize, out: &mut Vec<RingUnit>) -> Read {
        let inner = self.inner.lock();
        let lost = inner.ring.read(cursor, max, out);
        Read {
            lost,
            has_more: *cursor != inner.ring.end(),
        }
    }

    /// A viewer of the stream from its newest keyframe on. `notice` is called for each unit that comes as long as the viewer
    /// keeps it; it must not block.
    #[must_use]
    pub fn subscribe(self: &Arc<Self>, notice: &Arc<UnitNotice>) -> LiveStream {
        self.inner.lock().notices.push(Arc::downgrade(notice));
        LiveStream {
            stream: Arc::clone(self),
            cursor: None,
            fragments: None,
            units: Vec::new(),
        }
    }
}

/// A live stream of fragmented MP4 for one viewer.
pub struct LiveStream {
    stream: Arc<SourceStream>,
    cursor: Option<Cursor>,
    fragments: Option<(Fragments, Arc<ParameterSets>)>,
    units: Vec<RingUnit>,
}

/// What a viewer gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveSegment {
    /// The init segment, and the codec string for `video/mp4; codecs="…"`. Comes first.
    Init {
        /// `ftyp` and `moov`.
        bytes: Vec<u8>,
        /// As in RFC 6381.
        codec: String,
    },
    /// A fragment: `moof` and `mdat`.
    Fragment(Vec<u8>),
    /// Nothing has come since the last segment.
    Empty,
    /// The viewer was too slow, or the stream has begun again with other parameter sets. It must begin again, too.
    Ended,
}

/// Most units of one live fragment: a viewer that was paused gets the ring in parts.
const MAX_LIVE_UNITS: usize = 256;

impl LiveStream {
    /// The next segment, with all units that have come since the last one. Does not block.
    pub fn read(&mut self) -> LiveSegment {
        let place = self.cursor.or_else(|| self.stream.newest_keyframe());
        let Some(mut cursor) = place else {
            return LiveSegment::Empty;
        };
        let Some((fragments, sets)) = &mut self.fragments else {
            return self.begin(cursor);
        };
        self.units.clear();
        let read = self
            .stream
            .read(&mut cursor, MAX_LIVE_UNITS, &mut self.units);
        let has_changed = |unit: &RingUnit| unit.sets.as_ref().is_some_and(|new| new != sets);
        if read.lost > 0 || self.units.iter().any(has_changed) {
            return LiveSegment::Ended;
        }
        self.cursor = Some(cursor);
        if self.units.is_empty() {
            return LiveSegment::Empty;
        }
        let mut bytes = Vec::new();
        fragments.write(&self.units, None, &mut bytes);
        LiveSegment::Fragment(bytes)
    }

    fn begin(&mut self, cursor: Cursor) -> LiveSegment {
        let mut first = Vec::new();
        self.stream.read(&mut { cursor }, 1, &mut first);
        let Some(first) = first.pop() else {
            return LiveSegment::Empty;
        };
        let Some(sets) = first.sets.clone() else {
            return LiveSegment::Empty;
        };
        let segment = LiveSegment::Init {
            bytes: init_segment(&sets, &first, None),
            codec: sets.codec_string(),
        };
        self.cursor = Some(cursor);
        self.fragments = Some((Fragments::new(sets.codec), sets));
        segment
    }
}

#[cfg(test)]
mod tests;
