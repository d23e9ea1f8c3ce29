// SPDX-License-Identifier: Apache-2.0
//! One file of the archive, as it is known.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::retention::RemovalReason;

jetwatch_types::named_enum! {
    /// What a file is. In the order in which files are deleted for want of space.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum MediaKind {
        /// A piece of all video of a source.
        Continuous = "continuous",
        /// One picture.
        Snapshot = "snapshot",
        /// The video around an event.
        Clip = "clip",
    }

    /// Its word in messages and on the command line.
    pub fn word, from_word;
}

impl MediaKind {
    /// First letter of the ids of this kind.
    const fn letter(self) -> char {
        match self {
            Self::Continuous => 'r',
            Self::Snapshot => 's',
            Self::Clip => 'c',
        }
    }
}

jetwatch_types::named_enum! {
    /// Whether a file is complete.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MediaState {
        /// It is being written.
        Recording = "recording",
        /// It is complete, or nothing is added to it.
        Ready = "ready",
        /// It was deleted.
        Removed = "removed",
    }

    /// Its word in messages and in the index.
    pub fn word, from_word;
}

/// Identity of a file: a letter of its kind, the time of its making and a number, 16 lower-case letters and digits. Ids sort by
/// time within a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MediaId(String);

/// Hexadecimal digits of the time, in milliseconds since 1970; enough until the year 10889.
const TIME_DIGITS: usize = 12;

/// Hexadecimal digits of the number.
const NUMBER_DIGITS: usize = 3;

impl MediaId {
    /// A new id. Pure but for a counter of the process: it can be made before the file, on any thread, and be named in messages.
    pub fn new(kind: MediaKind, at: SystemTime) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) & 0xfff;
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX) & 0xffff_ffff_ffff;
        Self(format!(
            "{}{ms:0TIME_DIGITS$x}{number:0NUMBER_DIGITS$x}",
            kind.letter()
        ))
    }

    /// The id that `text` is.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(text.to_owned());
        let (first, rest) = text.split_at_checked(1)?;
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let is_kind = MediaKind::ALL
            .iter()
            .any(|kind| first.starts_with(kind.letter()));
        let is_id =
            is_kind && rest.len() == TIME_DIGITS + NUMBER_DIGITS && rest.chars().all(is_digit);
        is_id.then_some(id)
    }

    /// What it identifies.
    pub fn kind(&self) -> MediaKind {
        let of_letter = |kind: &MediaKind| self.0.starts_with(kind.letter());
        MediaKind::ALL
            .into_iter()
            .find(of_letter)
            .expect("`new` and `parse` give it the letter of a kind")
    }

    /// When it was made, to the millisecond.
    pub(crate) fn made_at(&self) -> SystemTime {
        let digits = &self.0[1..=TIME_DIGITS];
        let ms = u64::from_str_radix(digits, 16).expect("`new` and `parse` give it these digits");
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MediaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Left, top, right and bottom as shares of the image's width and height, 0 to 1.
pub type BoundingBox = [f32; 4];

/// A file to be made.
#[derive(Debug, Clone)]
pub struct NewItem {
    /// Its id, where it was named before; else a new one is made.
    pub id: Option<MediaId>,
    /// What it is.
    pub kind: MediaKind,
    /// Name of the source.
    pub source: String,
    /// Capture time of its first picture.
    pub from: SystemTime,
    /// Label of the object that it is about; `None` for continuous recording.
    pub label: Option<String>,
    /// Identities of the tracks that it is about, as in `id` of their events.
    pub tracks: Vec<String>,
    /// Names of the zones that it is about.
    pub zones: Vec<String>,
    /// Where the object is, in a snapshot.
    pub region: Option<BoundingBox>,
}

impl NewItem {
    /// A file about nothing in particular.
    pub fn new(kind: MediaKind, source: &str, from: SystemTime) -> Self {
        Self {
            id: None,
            kind,
            source: source.to_owned(),
            from,
            label: None,
            tracks: Vec::new(),
            zones: Vec::new(),
            region: None,
        }
    }

    /// End of its name: `jpg` or `mp4`.
    pub const fn extension(&self) -> &'static str {
        match self.kind {
            MediaKind::Snapshot => "jpg",
            MediaKind::Clip | MediaKind::Continuous => "mp4",
        }
    }
}

/// A file of the archive, or one that was there.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its identity.
    pub id: MediaId,
    /// What it is.
    pub kind: MediaKind,
    /// Whether it is complete.
    pub state: MediaState,
    /// Name of the source.
    pub source: String,
    /// Capture time of its first picture.
    pub from: SystemTime,
    /// Capture time of its last picture; `None` while it is being written.
    pub to: Option<SystemTime>,
    /// Size of the file; 0 while it is being written.
    pub bytes: u64,
    /// Label of the object that it is about.
    pub label: Option<String>,
    /// Identities of the tracks that it is about, as in `id` of their events.
    pub tracks: Vec<String>,
    /// Names of the zones that it is about.
    pub zones: Vec<String>,
    /// Where the object is, in a snapshot.
    pub region: Option<BoundingBox>,
    /// Retention keeps it.
    pub is_pinned: bool,
    /// It was cut off by the end of the process, by a power cut or for want of space. A clip plays to where it was cut.
    pub is_incomplete: bool,
    /// Why it was deleted.
    pub reason: Option<RemovalReason>,
    /// Its file, below the folder of the archive: `SOURCE/YYYY-MM-DD/HHMMSS-ID.mp4`.
    pub path: PathBuf,
}

/// `time` as RFC 3339 in UTC with milliseconds.
pub fn utc(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_hold_kind_and_time_and_differ() {
        let at = UNIX_EPOCH + Duration::from_millis(1_769_860_800_250);
        for kind in MediaKind::ALL {
            let id = MediaId::new(kind, at);
            assert_eq!(MediaId::parse(id.as_str()), Some(id.clone()));
            assert_eq!((id.kind(), id.made_at()), (kind, at));
            assert_ne!(MediaId::new(kind, at), id);
            assert_eq!(MediaKind::from_word(kind.word()), Some(kind));
        }
        let id = MediaId::new(MediaKind::Clip, at);
        assert!(id < MediaId::new(MediaKind::Clip, at + Duration::from_secs(1)));
    }

    #[test]
    fn other_texts_are_no_ids() {
        for text in [
            "",
            "c",
            "x01938f2a1b7c000",
            "c01938f2a1b7c00",
            "c01938F2a1b7c000",
            "c01938f2a1b7c0000",
            "é01938f2a1b7c000",
            "../etc/passwd",
        ] {
            assert_eq!(MediaId::parse(text), None, "{text}");
        }
    }
}
