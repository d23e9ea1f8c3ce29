// SPDX-License-Identifier: Apache-2.0
//! Kept snapshots and clips, and encoded live streams: the parts of the daemon that other crates implement.

use std::fs::File;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

/// Which kept items are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MediaQuery {
    /// Of this source only.
    pub source: Option<String>,
    /// About this label only.
    pub label: Option<String>,
    /// In this zone only.
    pub zone: Option<String>,
    /// Not over before this time.
    pub from: Option<SystemTime>,
    /// Begun before this time.
    pub to: Option<SystemTime>,
    /// What they are about.
    pub sort: MediaSort,
    /// Those after this item of the list: [`MediaPage::next`] of the page before.
    pub before: Option<String>,
    /// At most so many, the newest first.
    pub limit: usize,
}

/// What kept items are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MediaSort {
    /// Tracks: pictures and clips.
    #[default]
    Events,
    /// Nothing in particular: continuous recording.
    Continuous,
}

/// A page of kept items.
#[derive(Debug, Default)]
pub struct MediaPage {
    /// JSON objects with `source`, `label`, `started_ms`, `ended_ms`, `zones`, `events` (ids of the events of its tracks), `snapshot`
    /// and `clip` (their ids, or null) and `pinned`.
    pub items: Vec<serde_json::Value>,
    /// Where the next page begins; `None`: this is the last one.
    pub next: Option<String>,
}

/// Which part of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaPart {
    /// The picture, JPEG.
    Snapshot,
    /// The video, MP4.
    Clip,
}

/// An opened part of an item.
#[derive(Debug)]
pub struct MediaContent {
    /// The file.
    pub file: File,
    /// Its length in bytes.
    pub bytes: u64,
    /// Name that a browser saves it under.
    pub name: String,
}

/// A file that is made while it is sent.
pub trait MediaStream: Send {
    /// Its next bytes, some 100 kB at most; `None`: it has ended. May read files.
    fn next(&mut self) -> Option<Bytes>;
}

/// Kept snapshots and clips. Methods may read files; they are called on a thread that may block.
pub trait MediaLibrary: Send + Sync {
    /// Items, the newest first.
    fn items(&self, query: &MediaQuery) -> MediaPage;

    /// Opens a part of the item `id`; `None`: there is none, or it was removed.
    fn open(&self, id: &str, part: MediaPart) -> Option<MediaContent>;

    /// Keeps the item `id`, or lets it be removed in time.
    ///
    /// # Errors
    /// Why that is not possible.
    fn pin(&self, id: &str, pinned: bool) -> Result<(), String>;

    /// What is kept of `source` from `from` to `to` as one MP4 file; `None`: nothing.
    fn export(
        &self,
        source: &str,
        from: SystemTime,
        to: SystemTime,
    ) -> Option<Box<dyn MediaStream>>;

    /// Used and free space, as JSON.
    fn usage(&self) -> serde_json::Value;
}

/// Which objects are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectQuery {
    /// The one of this identity only.
    pub id: Option<String>,
    /// Of this source only.
    pub source: Option<String>,
    /// Of this label only.
    pub label: Option<String>,
    /// That passed this zone or line only.
    pub zone: Option<String>,
    /// Begun at this time or later.
    pub from: Option<SystemTime>,
    /// Begun before this time.
    pub to: Option<SystemTime>,
    /// Only those that nobody has marked as seen.
    pub is_new: bool,
    /// Those after this one of the list: [`ObjectPage::next`] of the page before.
    pub before: Option<String>,
    /// At most so many, the newest first.
    pub limit: usize,
}

/// A page of objects. Each is a JSON object with `id` (of the events of its track), `source`, `label`, `started_ms`, `ended_ms`,
/// `duration_ms`, `score`, `zones`, `happened` (its analytics events), `path` (its boxes, with the time of each), `snapshot`,
/// `thumbnail` (its box in its [`picture`](ObjectLibrary::picture), from 0 to 1), `clips`, `pinned` and `reviewed`. What is not known is null.
#[derive(Debug, Default)]
pub struct ObjectPage {
    /// Objects whose tracks have ended.
    pub items: Vec<serde_json::Value>,
    /// Those that are in view, on the first page only.
    pub open: Vec<serde_json::Value>,
    /// Where the next page begins; `None`: this is the last one.
    pub next: Option<String>,
}

/// Objects that were seen. Methods may read files; they are called on a thread that may block.
pub trait ObjectLibrary: Send + Sync {
    /// Objects, the newest first.
    fn objects(&self, query: &ObjectQuery) -> ObjectPage;

    /// What objects differ by: `sources`, `labels` and `zones`, as JSON.
    fn facets(&self) -> serde_json::Value;

    /// What each source has from `from` to before `to`, as JSON: `objects`, pairs of the number of a part and how many begin in it, and
    /// `video`, pairs of times in ms.
    fn activity(&self, from: SystemTime, to: SystemTime, parts: u32) -> serde_json::Value;

    /// A small picture of an object, as a JPEG file; `None` where there is none.
    fn picture(&self, id: &str) -> Option<Bytes>;

    /// Marks objects as seen, or ends that; how many there are of them.
    ///
    /// # Errors
    /// Why that is not possible.
    fn review(&self, ids: &[String], is_reviewed: bool) -> Result<usize, String>;
}

/// A client's view of the encoded stream of a source.
pub trait LiveStream: Send {
    /// The next fragment of MP4. Waits up to `timeout`; empty: nothing came yet; `None`: the stream has ended, or this client was too
    /// slow.
    fn next(&mut self, timeout: Duration) -> Option<Bytes>;
}

/// A stream that has begun.
pub struct OpenedStream {
    /// Its codecs, for `video/mp4; codecs="…"`.
    pub codecs: String,
    /// The initialization segment.
    pub first: Bytes,
    /// What follows, from a keyframe on.
    pub rest: Box<dyn LiveStream>,
}

/// The encoded streams of the sources.
pub trait LiveStreams: Send + Sync {
    /// Opens the stream of a source; waits some seconds for its first image. `None`: it has none.
    fn open(&self, source: &str) -> Option<OpenedStream>;
}
