// SPDX-License-Identifier: Apache-2.0
//! Writes clips and continuous recording of all sources from their rings. It has no thread and waits for nothing but its store:
//! its caller passes commands and calls [`Recorder::poll`] a few times per second.
//!
//! A store that is slow is no matter: what a ring drops meanwhile is counted and missing in the clip, from one keyframe to
//! another. A store that fails stops all recording for a while; then it is tried again.

use std::error::Error;
use std::io::{Seek, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::clip_file::{ClipFacts, ClipFile};
use crate::ring::{Cursor, RingUnit};
use crate::stream::SourceStream;
use crate::timeline::StreamTime;

/// Wait before a store that has failed is tried again.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Time after which rings are to be written to files: [`Recorder::poll`].
pub const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Units that are taken from a ring at once.
const BATCH: usize = 128;

/// Most units of one clip in one call, so that the others get their turn: half a minute of most cameras.
const MAX_BATCHES: usize = 8;

/// Error of a store.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// What is known of a file before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClipLabel {
    /// Its identity.
    pub id: String,
    /// Whether it is a part of continuous recording.
    pub is_continuous: bool,
    /// Name of the source.
    pub source: String,
    /// Label of its first track.
    pub label: Option<String>,
    /// Identities of its tracks.
    pub tracks: Vec<String>,
}

/// Keeps files.
pub trait ClipStore {
    /// A file that is being written.
    type File: Write + Seek;

    /// A new identity for a part of continuous recording, or for a clip that continues another.
    fn new_id(&mut self, is_continuous: bool, from: SystemTime) -> String;

    /// Begins a file whose first image was captured at `from`.
    ///
    /// # Errors
    /// The file cannot be made.
    fn begin(&mut self, label: &ClipLabel, from: SystemTime) -> Result<Self::File, StoreError>;

    /// Keeps a file that is complete; returns its path.
    ///
    /// # Errors
    /// The file cannot be kept.
    fn finish(
        &mut self,
        label: &ClipLabel,
        file: Self::File,
        facts: &ClipFacts,
    ) -> Result<String, StoreError>;
}

/// An image of a source: its timestamp, and when it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Presentation timestamp of the source.
    pub pts: Option<Duration>,
    /// Wall-clock time of arrival.
    pub captured_at: SystemTime,
}

/// What is to be recorded.
pub enum ClipCommand {
    /// A clip begins `pre_roll` before an image.
    Open {
        /// The clip.
        label: ClipLabel,
        /// Its source.
        stream: Arc<SourceStream>,
        /// The image of its first track.
        at: Mark,
        /// Time before that.
        pre_roll: Duration,
    },
    /// A track is in an open clip.
    Track {
        /// Identity of the clip.
        clip: String,
        /// Identity of the track.
        track: String,
    },
    /// A clip ends with an image; `None`: with what has come.
    Close {
        /// Identity of the clip.
        clip: String,
        /// The image.
        at: Option<Mark>,
    },
    /// All video of a source is recorded from now on, in files of this length.
    Continuous {
        /// The source.
        stream: Arc<SourceStream>,
        /// Length of a file; it ends with the keyframe after that.
        segment: Duration,
    },
    /// A source is gone: its clips end with what has come.
    Remove {
        /// Name of the source.
        source: String,
    },
}

/// A file that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// What it is.
    pub label: ClipLabel,
    /// Its path, as the store gives it.
    pub path: String,
    /// What it holds.
    pub facts: ClipFacts,
}

/// Counts of a recorder since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderCounts {
    /// Files that were completed.
    pub files: u64,
    /// Images that are missing in files, because the store was slow or failed.
    pub lost: u64,
    /// Failures of the store.
    pub failures: u64,
}

/// Writes the files of all sources.
pub struct Recorder<S: ClipStore> {
    store: S,
    open: Vec<OpenClip<S::File>>,
    units: Vec<RingUnit>,
    /// Set while the store fails.
    retry_at: Option<Instant>,
    polled_at: Option<Instant>,
    counts: RecorderCounts,
    recorded: Vec<Recorded>,
}

struct OpenClip<F> {
    /// Identity in commands: that of its first file.
    command_id: String,
    label: ClipLabel,
    stream: Arc<SourceStream>,
    /// `None`: the stream has no unit yet.
    cursor: Option<Cursor>,
    /// `None`: nothing was written yet, or the store has failed.
    file: Option<ClipFile<F>>,
    /// Decoding time after which no unit belongs to it.
    end: Option<StreamTime>,
    is_over: bool,
    /// Length of a part of continuous recording.
    segment: Option<StreamTime>,
}

impl<S: ClipStore> Recorder<S> {
    /// A recorder without clips.
    pub const fn new(store: S) -> Self {
        Self {
            store,
            open: Vec::new(),
            units: Vec::new(),
            retry_at: None,
            polled_at: None,
            counts: RecorderCounts {
                files: 0,
                lost: 0,
                failures: 0,
            },
            recorded: Vec::new(),
        }
    }

    /// Whether the store works, as far as is known.
    pub const fn is_recording(&self) -> bool {
        self.retry_at.is_none()
    }

    /// Counts so far.
    pub const fn counts(&self) -> RecorderCounts {
        self.counts
    }

    /// Files that were completed since the last call.
    pub fn take_recorded(&mut self) -> Vec<Recorded> {
        std::mem::take(&mut self.recorded)
    }

    /// Executes a command. The files that it ends are complete when it returns. Commands that leave no time between them do not keep
    /// others from being written.
    pub fn execute(&mut self, command: ClipCommand, now: Instant) {
        match command {
            ClipCommand::Open {
                label,
                stream,
                at,
                pre_roll,
            } => {
                let pre_roll = StreamTime::try_from(pre_roll.as_nanos()).unwrap_or_default();
                let time = stream.time_of(at.pts, at.captured_at);
                let cursor = time.and_then(|time| stream.keyframe_before(time - pre_roll));
                self.add(label, Arc::clone(&stream), cursor, None);
                // At once: the ring keeps what is before a clip for a limited time.
                self.poll(now);
                stream.clip_begun();
            }
            ClipCommand::Track { clip, track } => {
                let open = self.open.iter_mut().find(|open| open.command_id == clip);
                if let Some(open) = open.filter(|open| !open.label.tracks.contains(&track)) {
                    open.label.tracks.push(track);
                }
            }
            ClipCommand::Close { clip, at } => {
                let mut open = self.open.iter_mut();
                if let Some(open) = open.find(|open| open.command_id == clip) {
                    open.end = at.and_then(|at| open.stream.time_of(at.pts, at.captured_at));
                    open.is_over = true;
                }
                self.poll(now);
            }
            ClipCommand::Continuous { stream, segment } => {
                let label = ClipLabel {
                    id: self.store.new_id(true, SystemTime::now()),
                    is_continuous: true,
                    source: stream.name().to_owned(),
                    label: None,
                    tracks: Vec::new(),
                };
                let segment = StreamTime::try_from(segment.as_nanos()).unwrap_or(StreamTime::MAX);
                self.add(label, stream, None, Some(segment));
            }
            ClipCommand::Remove { source } => {
                for open in &mut self.open {
                    open.is_over |= open.label.source == source;
                }
                self.poll(now);
            }
        }
        let is_due = |at: Instant| now.saturating_duration_since(at) >= POLL_INTERVAL;
        if self.polled_at.is_none_or(is_due) {
            self.poll(now);
        }
    }

    fn add(
        &mut self,
        label: ClipLabel,
        stream: Arc<SourceStream>,
        cursor: Option<Cursor>,
        segment: Option<StreamTime>,
    ) {
        self.open.push(OpenClip {
            command_id: label.id.clone(),
            label,
            stream,
            cursor,
            file: None,
            end: None,
            is_over: false,
            segment,
        });
    }

    /// Writes what has come since the last call, and completes the clips that are over.
    pub fn poll(&mut self, now: Instant) {
        self.polled_at = Some(now);
        if self.retry_at.is_some_and(|at| now < at) {
            // Clips that are over while nothing can be written end as they are.
            let over = self.open.extract_if(.., |open| open.is_over);
            self.counts.lost += over.map(|open| unwritten(&open)).sum::<u64>();
            return;
        }
        let mut place = 0;
        while place < self.open.len() {
            match self.advance(place) {
                Ok(false) => place += 1,
                Ok(true) => drop(self.open.swap_remove(place)),
                Err(error) => {
                    self.fail(place, &error, now);
                    return;
                }
            }
        }
    }

    /// Ends all clips with what has come.
    pub fn close(&mut self, now: Instant) {
        for open in &mut self.open {
            open.is_over = true;
        }
        self.poll(now);
        self.counts.lost += self
            .open
            .drain(..)
            .map(|open| unwritten(&open))
            .sum::<u64>();
    }

    fn fail(&mut self, place: usize, error: &StoreError, now: Instant) {
        self.counts.failures += 1;
        let open = &mut self.open[place];
        // What was written stays with the store, as a file that is not complete; the rest is another.
        if let Some(file) = open.file.take() {
            let at = file.facts().to;
            open.label.id = self.store.new_id(open.label.is_continuous, at);
        }
        if self.retry_at.is_none() {
            log::error!(
                source = self.open[place].label.source.as_str();
                "recording stopped: {error}; detection goes on, recording is tried again every {} s",
                RETRY_INTERVAL.as_secs()
            );
        }
        self.retry_at = Some(now + RETRY_INTERVAL);
    }

    /// Notes that the store has kept something.
    fn succeed(&mut self) {
        if self.retry_at.take().is_some() {
            log::info!("recording works again");
        }
    }

    /// Writes what has come of one clip. Returns whether it is complete.
    fn advance(&mut self, place: usize) -> Result<bool, StoreError> {
        for _ in 0..MAX_BATCHES {
            let open = &mut self.open[place];
            let cursor = open.cursor.or_else(|| open.stream.newest_keyframe());
            let Some(mut cursor) = cursor else {
                return self.complete(place);
            };
            let mut units = std::mem::take(&mut self.units);
            units.clear();
            let read = open.stream.read(&mut cursor, BATCH, &mut units);
            self.counts.lost += read.lost;
            open.cursor = Some(cursor);
            let end = open.end;
            let mut has_ended = false;
            let mut result = Ok(());
            for unit in units.drain(..) {
                has_ended = end.is_some_and(|end| unit.time.dts > end);
                if has_ended {
                    break;
                }
                let time = unit.time.pts;
                result = self.write(place, unit);
                if result.is_err() {
                    self.rewind(place, time);
                    break;
                }
            }
            units.clear();
            self.units = units;
            result?;
            if has_ended || (!read.has_more && self.open[place].is_over) {
                return self.complete(place);
            }
            if !read.has_more {
                break;
            }
        }
        Ok(false)
    }

    /// After a unit with this presentation time could not be written: the next file begins with what is not in this one, as far as the
    /// ring still has it.
    fn rewind(&mut self, place: usize, time: StreamTime) {
        let open = &mut self.open[place];
        // A file that fails does so where a keyframe ends the group of pictures before it. Without a file, the keyframe itself failed.
        let last = match open.file {
            Some(_) => time - 1,
            None => time,
        };
        open.cursor = open.stream.keyframe_before(last).or(open.cursor);
    }

    fn write(&mut self, place: usize, mut unit: RingUnit) -> Result<(), StoreError> {
        let open = &mut self.open[place];
        if let Some(file) = &open.file {
            let is_full = open.segment.is_some_and(|segment| {
                unit.unit.is_keyframe && unit.time.pts - file.facts().span.0 >= segment
            });
            if is_full || !file.accepts(&unit) {
                // The rest is in a file of its own. Messages name the first.
                self.keep(place)?;
                let open = &mut self.open[place];
                let is_continuous = open.label.is_continuous;
                open.label.id = self.store.new_id(is_continuous, unit.unit.captured_at);
            }
        }
        let open = &mut self.open[place];
        if open.file.is_none() {
            if !unit.unit.is_keyframe {
                self.counts.lost += 1;
                return Ok(());
            }
            unit.unit.captured_at = open.stream.arrival_of(unit.time.pts);
            let file = self.store.begin(&open.label, unit.unit.captured_at)?;
            let format = open.stream.sound_format();
            open.file = Some(ClipFile::begin_with_sound(file, &unit, format)?);
            self.succeed();
        }
        let open = &mut self.open[place];
        if let Some(file) = &mut open.file {
            if file.is_due(&unit) {
                file.add_sound(&open.stream);
            }
            file.add(unit)?;
        }
        Ok(())
    }

    fn complete(&mut self, place: usize) -> Result<bool, StoreError> {
        if !self.open[place].is_over {
            return Ok(false);
        }
        self.keep(place)?;
        Ok(true)
    }

    fn keep(&mut self, place: usize) -> Result<(), StoreError> {
        let open = &mut self.open[place];
        let Some(mut file) = open.file.take() else {
            return Ok(());
        };
        file.add_sound(&open.stream);
        let (file, facts) = file.finish()?;
        let path = self.store.finish(&open.label, file, &facts)?;
        self.counts.files += 1;
        self.recorded.push(Recorded {
            label: open.label.clone(),
            path,
            facts,
        });
        self.succeed();
        Ok(())
    }
}

/// Images of a clip that came, and are in no file.
fn unwritten<F>(open: &OpenClip<F>) -> u64 {
    let mut lost = 0;
    let mut units = Vec::new();
    let Some(mut cursor) = open.cursor.or_else(|| open.stream.newest_keyframe()) else {
        return 0;
    };
    loop {
        units.clear();
        let read = open.stream.read(&mut cursor, BATCH, &mut units);
        let own = units
            .iter()
            .filter(|unit| open.end.is_none_or(|end| unit.time.dts <= end));
        lost += read.lost + own.count() as u64;
        if !read.has_more {
            return lost;
        }
    }
}

#[cfg(test)]
mod tests;
