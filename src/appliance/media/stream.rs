//! The encoded stream of one source, shared by the thread that brings it and by its readers: clips, and viewers of a live stream.
//!
//! The source's thread holds the lock for one unit. Readers copy references to units out of the ring and work without the lock.
//! No reader has a queue: one that is too slow is overtaken, and the source never waits for it.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use jetwatch_types::{AccessUnit, AudioFormat, AudioUnit, StreamFormat};
use parking_lot::Mutex;

use crate::mp4::{Fragments, init_segment};
use crate::parameter_sets::ParameterSets;
use crate::ring::{Cursor, Ring, RingLimits, RingUnit};
use crate::sound::{Sound, SoundUnit};
use crate::timeline::{StreamTime, Timeline};

/// Called on the source's thread after each unit; it must not block.
pub type UnitNotice = dyn Fn() + Send + Sync;

/// The encoded stream of one source.
pub struct SourceStream {
    name: String,
    wants_sound: bool,
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
    #[must_use]
    pub fn new(name: &str, limits: RingLimits) -> Self {
        Self {
            name: name.to_owned(),
            wants_sound: false,
            inner: Mutex::new(Inner {
                ring: Ring::new(limits),
                timeline: Timeline::default(),
                sound: Sound::default(),
                format: None,
                sets: None,
                needs_keyframe: true,
                oversized_logged: false,
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
    #[must_use]
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
    #[must_use]
    pub fn sound_format(&self) -> Option<Arc<AudioFormat>> {
        self.inner.lock().sound.format().cloned()
    }

    /// The sound of this format after `after`, up to `until`.
    #[must_use]
    pub fn sound_between(
        &self,
        format: &AudioFormat,
        after: StreamTime,
        until: StreamTime,
    ) -> Vec<SoundUnit> {
        self.inner.lock().sound.between(format, after, until)
    }

    /// The name of the source.
    #[must_use]
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
        let time = inner.timeline.next(&unit);
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

    /// Format of the stream; `None` before it begins.
    #[must_use]
    pub fn format(&self) -> Option<StreamFormat> {
        self.inner.lock().format
    }

    /// The place of the last keyframe at or before `time`.
    #[must_use]
    pub fn keyframe_before(&self, time: StreamTime) -> Option<Cursor> {
        self.inner.lock().ring.keyframe_before(time)
    }

    /// The place of the newest keyframe.
    #[must_use]
    pub fn newest_keyframe(&self) -> Option<Cursor> {
        self.inner.lock().ring.newest_keyframe()
    }

    /// The time of the image with the timestamp `pts` of the source, which had come before `at`.
    #[must_use]
    pub fn time_of(&self, pts: Option<Duration>, at: SystemTime) -> Option<StreamTime> {
        self.inner.lock().ring.time_of(pts, at)
    }

    /// Encoded bytes in the ring, with those of the sound.
    #[must_use]
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
