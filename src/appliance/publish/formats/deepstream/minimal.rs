// SPDX-License-Identifier: Apache-2.0
//! nvmsgconv's minimal schema: the objects of a frame as texts `id|left|top|right|bottom|label|#|attributes|confidence`.

use std::fmt::Write as _;

use serde::Serialize;

use super::kinds::{Kinds, attribute};
use crate::formats::{Scale, label_of};
use crate::wire::{Utc, rounded};
use jetwatch_types::{Classes, FrameMeta, Track, TrackState};

/// A frame.
#[derive(Debug, Serialize)]
pub(super) struct MinimalBody<'a> {
    pub version: &'static str,
    /// Number of the frame in its source.
    pub id: String,
    #[serde(rename = "@timestamp")]
    pub timestamp: Utc,
    #[serde(rename = "sensorId")]
    pub sensor_id: &'a str,
    pub objects: Vec<String>,
}

/// Which frames of a source are published: those with objects, and the first one without.
#[derive(Debug, Default)]
pub(super) struct FrameCounter {
    /// Frames since the last message.
    passed: u32,
    had_objects: bool,
}

impl FrameCounter {
    /// Whether the next frame is published.
    pub fn is_due(&mut self, interval: u32, is_empty: bool) -> bool {
        self.passed = self.passed.saturating_add(1);
        if self.passed < interval || (is_empty && !self.had_objects) {
            return false;
        }
        self.passed = 0;
        self.had_objects = !is_empty;
        true
    }
}

/// The objects that were detected in a frame.
pub(super) fn objects(
    frame: &FrameMeta,
    tracks: &[Track],
    scale: Scale,
    kinds: &Kinds,
    classes: &Classes,
) -> Vec<String> {
    let active = tracks
        .iter()
        .filter(|track| track.state == TrackState::Active);
    let text = |track: &Track| {
        let (_, scaled) = scale.apply(frame.source_size, track.xyxy);
        let [left, top, right, bottom] = scaled.map(|edge| rounded(edge, 10.0));
        let kind = kinds.of(track.class);
        let label = match kind {
            Some(kind) => kind.name().to_owned(),
            None => plain(label_of(classes, track.class)),
        };
        let mut text = format!("{}|{left}|{top}|{right}|{bottom}|{label}|#|", track.id);
        let fields = kind.map(|kind| kind.fields()).unwrap_or_default();
        let values: Vec<Option<&str>> = fields.iter().map(|name| attribute(track, name)).collect();
        if values.iter().any(Option::is_some) {
            for value in values {
                let _ = write!(text, "{}|", plain(value.unwrap_or_default()));
            }
        } else {
            // As nvmsgconv writes objects without attributes.
            text.push_str("||||||");
        }
        let _ = write!(text, "{}", rounded(track.score, 1e4));
        text
    };
    active.map(text).collect()
}

/// A text without the characters that separate fields.
fn plain(text: &str) -> String {
    text.replace(['|', '#'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_without_objects_are_published_once() {
        let mut counter = FrameCounter::default();
        let due = [true, false, false, true, true, true, false]
            .map(|is_empty| counter.is_due(1, is_empty));
        assert_eq!(due, [false, true, true, true, false, false, true]);
        let mut counter = FrameCounter::default();
        let due = [false; 7].map(|is_empty| counter.is_due(3, is_empty));
        assert_eq!(due, [false, false, true, false, false, true, false]);
    }
}
