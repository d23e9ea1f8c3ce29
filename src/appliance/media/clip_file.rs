// SPDX-License-Identifier: Apache-2.0
//! One file of fragmented MP4 while it is written: header, fragments of about a second, and at the end the table of keyframes.
//! It writes to what its caller gives it, and opens and names no file.

use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jetwatch_types::AudioFormat;

use crate::mp4::{Fragments, SoundFragments, init_segment, random_access, set_duration};
use crate::parameter_sets::ParameterSets;
use crate::ring::RingUnit;
use crate::sound::SoundUnit;
use crate::stream::SourceStream;
use crate::timeline::StreamTime;

/// Time of the units that are written as one fragment: what a power cut may take.
const FRAGMENT: StreamTime = 1_000_000_000;

/// A file that is being written.
#[derive(Debug)]
pub struct ClipFile<F> {
    file: F,
    header: Vec<u8>,
    sets: Arc<ParameterSets>,
    fragments: Fragments,
    /// Units that wait for the end of their fragment, and the first of the next, which gives its duration.
    waiting: Vec<RingUnit>,
    buffer: Vec<u8>,
    keyframes: Vec<(u64, u64)>,
    sound: Option<SoundTrack>,
    written: u64,
    facts: ClipFacts,
}

/// The sound of a file.
#[derive(Debug)]
struct SoundTrack {
    format: Arc<AudioFormat>,
    fragments: SoundFragments,
    /// Units for the next fragment.
    waiting: Vec<SoundUnit>,
    /// Time of the last unit.
    taken: StreamTime,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClipFacts {
    /// Arrival of the first image, by that of those behind it.
    pub from: SystemTime,
    /// Arrival of the last image.
    pub to: SystemTime,
    /// Presentation time of the first image, and of the last one so far.
    pub span: (StreamTime, StreamTime),
    /// Images.
    pub images: u64,
    /// Bytes.
    pub bytes: u64,
}

impl ClipFacts {
    /// From the first image to the last.
    pub fn duration(&self) -> Duration {
        let (first, last) = self.span;
        Duration::from_nanos(u64::try_from(last - first).unwrap_or_default())
    }
}

impl<F: Write + Seek> ClipFile<F> {
    /// Begins a file with `first`, a keyframe, without sound; it is written with the next call of [`add`](Self::add).
    ///
    /// # Errors
    /// The header cannot be written, or `first` is no keyframe.
    pub fn begin(file: F, first: &RingUnit) -> io::Result<Self> {
        Self::begin_with_sound(file, first, None)
    }

    /// The same with sound of this format.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_with_sound(
        mut file: F,
        first: &RingUnit,
        format: Option<Arc<AudioFormat>>,
    ) -> io::Result<Self> {
        let sets = first.sets.clone();
        let sets = sets.ok_or_else(|| io::Error::other("a file begins with a keyframe"))?;
        let at = first.unit.captured_at;
        let header = init_segment(&sets, first, format.as_deref());
        file.write_all(&header)?;
        Ok(Self {
            file,
            fragments: Fragments::new(sets.codec),
            written: header.len() as u64,
            header,
            sets,
            waiting: Vec::new(),
            buffer: Vec::new(),
            keyframes: Vec::new(),
            sound: format.map(|format| SoundTrack {
                fragments: SoundFragments::new(&format, first.time.pts),
                format,
                waiting: Vec::new(),
                taken: first.time.pts - 1,
            }),
            facts: ClipFacts {
                from: at,
                to: at,
                span: (first.time.pts, first.time.pts),
                images: 0,
                bytes: 0,
            },
        })
    }

    /// Whether `unit` can be in this file: its images have the parameter sets of the file.
    pub fn accepts(&self, unit: &RingUnit) -> bool {
        unit.sets.as_ref().is_none_or(|sets| *sets == self.sets)
    }

    /// Whether `unit` completes a fragment: [`add_sound`](Self::add_sound) before it is added.
    pub fn is_due(&self, unit: &RingUnit) -> bool {
        let begun = self.waiting.first().map(|first| first.time.dts);
        begun.is_some_and(|begun| unit.unit.is_keyframe || unit.time.dts - begun >= FRAGMENT)
    }

    /// Takes the sound of `stream` that belongs to the images so far.
    pub fn add_sound(&mut self, stream: &SourceStream) {
        if let Some(sound) = &mut self.sound {
            let units = stream.sound_between(&sound.format, sound.taken, self.facts.span.1);
            sound.taken = units.last().map_or(sound.taken, |last| last.at);
            sound.waiting.extend(units);
        }
    }

    /// Takes the next unit, and writes the fragment that it completes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, unit: RingUnit) -> io::Result<()> {
        if self.is_due(&unit) {
            self.flush(Some(unit.time.dts))?;
        }
        self.facts.to = unit.unit.captured_at;
        self.facts.span.1 = self.facts.span.1.max(unit.time.pts);
        self.facts.images += 1;
        self.waiting.push(unit);
        Ok(())
    }

    fn flush(&mut self, end: Option<StreamTime>) -> io::Result<()> {
        let Some(first) = self.waiting.first() else {
            return Ok(());
        };
        self.buffer.clear();
        self.fragments.write(&self.waiting, end, &mut self.buffer);
        if first.unit.is_keyframe {
            self.keyframes
                .push((self.fragments.shown_at(first), self.written));
        }
        self.waiting.clear();
        if let Some(sound) = &mut self.sound
            && !sound.waiting.is_empty()
        {
            let number = self.fragments.next_number();
            sound
                .fragments
                .write(&sound.waiting, number, &mut self.buffer);
            sound.waiting.clear();
        }
        self.file.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        Ok(())
    }

    /// What the file holds so far.
    pub const fn facts(&self) -> ClipFacts {
        self.facts
    }

    /// Writes what waits, the table of keyframes, and the duration; returns the file and what it holds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<(F, ClipFacts)> {
        self.flush(None)?;
        let table = random_access(&self.keyframes);
        self.file.write_all(&table)?;
        set_duration(&mut self.header, self.facts.duration());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&self.header)?;
        self.file.flush()?;
        self.facts.bytes = self.written + table.len() as u64;
        Ok((self.file, self.facts))
    }
}
