// SPDX-License-Identifier: Apache-2.0
//! Messages about files of snapshots and clips. The doc comments are descriptions for subscribers.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use jetwatch_archive::{Item, MediaState};

use super::value::{Label, SourceName, Utc, rounded};
use super::words::{MediaStateWord, MediaTypeWord, RemovalReasonWord};

/// A file of `record` has changed its state.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "media", title = "Media", deny_unknown_fields)]
pub(super) struct MediaBody<'a> {
    source: SourceName<'a>,
    #[serde(rename = "type")]
    media: MediaTypeWord,
    /// Identity of the file, for `jetwatch media`.
    #[schemars(regex(pattern = r"^[crs][0-9a-f]{15}$"))]
    id: &'a str,
    state: MediaStateWord,
    /// The file, below `record.folder`.
    path: String,
    /// Capture time of the first picture.
    from: Utc,
    /// Capture time of the last picture; null in state `recording`.
    to: Option<Utc>,
    /// Size of the file; null in state `recording`.
    bytes: Option<u64>,
    /// Label of its object, if it is known.
    label: Option<Label<'a>>,
    /// `id` of the tracks that it is about.
    tracks: &'a [String],
    /// Zones that it is about.
    zones: &'a [String],
    /// Where the object is in a snapshot.
    #[serde(rename = "box_normalized")]
    #[schemars(inner(range(min = 0, max = 1)))]
    region: Option<[f32; 4]>,
    /// Whether it was cut off.
    incomplete: bool,
    /// Why it was deleted.
    reason: Option<RemovalReasonWord>,
    /// When this was published.
    at: Utc,
}

/// The clip that is being recorded and holds the frame of an event.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "recording", title = "Recording", deny_unknown_fields)]
pub(super) struct RecordingBody<'a> {
    /// Identity of the clip, as in its message of kind `media`.
    id: &'a str,
    state: MediaStateWord,
}

impl<'a> RecordingBody<'a> {
    /// A clip that is being written.
    pub(super) const fn new(id: &'a str) -> Self {
        Self {
            id,
            state: MediaStateWord::Recording,
        }
    }
}

/// The snapshot of the track of an event.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "snapshot", title = "Snapshot", deny_unknown_fields)]
pub(super) struct SnapshotBody<'a> {
    /// Identity of the snapshot, as in its message of kind `media`.
    id: &'a str,
    state: MediaStateWord,
}

impl<'a> SnapshotBody<'a> {
    /// A snapshot that may still change.
    pub(super) const fn new(id: &'a str) -> Self {
        Self {
            id,
            state: MediaStateWord::Recording,
        }
    }
}

impl<'a> MediaBody<'a> {
    pub(super) fn new(item: &'a Item, at: SystemTime) -> Self {
        let is_written = item.state == MediaState::Recording;
        Self {
            source: SourceName(&item.source),
            media: item.kind.into(),
            id: item.id.as_str(),
            state: item.state.into(),
            path: item.path.to_string_lossy().into_owned(),
            from: Utc(item.from),
            to: item.to.map(Utc),
            bytes: (!is_written).then_some(item.bytes),
            label: item.label.as_deref().map(Label),
            tracks: &item.tracks,
            zones: &item.zones,
            region: item
                .region
                .map(|region| region.map(|edge| rounded(edge, 1e5))),
            incomplete: item.is_incomplete,
            reason: item.reason.map(Into::into),
            at: Utc(at),
        }
    }
}
