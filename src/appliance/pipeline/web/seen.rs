// SPDX-License-Identifier: Apache-2.0
//! Objects for the page: what happened to each track, and its way through the image, from its begin to its end; then it is noted in
//! the archive, or in memory where nothing is kept. Filled by the sink of the page on the tracking stage's thread, which never waits.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use jetwatch_archive::{
    Activity, Archive, ArchiveError, Item, MediaKind, Object, ObjectQuery as Query,
};
use jetwatch_publish::track_identity;
use jetwatch_types::{EventKind, FrameMeta, Size, TrackEvent, TrackId, Xyxy};
use jetwatch_web::{ObjectLibrary, ObjectPage, ObjectQuery};

use super::thumbnails::Thumbnails;
use crate::run_state::RunState;

/// Most tracks in view; others are not shown.
pub(super) const MAX_OPEN: usize = 1000;

/// Most events of one track that are kept.
const MAX_HAPPENED: usize = 32;

/// Most boxes of one track that are kept: where there are more, each second one leaves.
const MAX_PATH: usize = 32;

/// Tracks in view, and the archive of those before.
pub(crate) struct SeenObjects {
    run: Arc<RunState>,
    /// Where nothing is kept.
    memory: OnceLock<Option<Archive>>,
    open: Mutex<BTreeMap<(String, TrackId), Track>>,
    thumbnails: Arc<Thumbnails>,
}

/// A track in view.
#[derive(Debug, Clone)]
struct Track {
    id: String,
    source: String,
    label: String,
    from: SystemTime,
    at: SystemTime,
    duration: Duration,
    score: f32,
    is_lost: bool,
    zones: Vec<String>,
    happened: Vec<Value>,
    /// Time in ms since 1970, left, top, right and bottom, from 0 to 1.
    path: Vec<(u64, [f64; 4])>,
    /// Every so many boxes are kept.
    stride: u32,
    boxes: u32,
}

impl SeenObjects {
    pub(super) fn of(run: &Arc<RunState>) -> Self {
        Self {
            run: Arc::clone(run),
            memory: OnceLock::new(),
            open: Mutex::default(),
            thumbnails: Arc::default(),
        }
    }

    /// Pictures of objects of which no snapshot is kept.
    pub(super) const fn thumbnails(&self) -> &Arc<Thumbnails> {
        &self.thumbnails
    }

    /// Where objects are noted; `None`: the networks are not loaded yet, or there is no memory.
    fn archive(&self) -> Option<&Archive> {
        let kept = self.run.loaded.get()?.archive.as_ref();
        let in_memory = || {
            let memory = self.memory.get_or_init(|| {
                let archive = Archive::in_memory();
                archive
                    .inspect_err(|error| log::warn!("the page lists no objects: {error}"))
                    .ok()
            });
            memory.as_ref()
        };
        kept.or_else(in_memory)
    }

    /// Whether objects can be listed: what is kept is open.
    pub(super) fn is_ready(&self) -> bool {
        self.archive().is_some_and(Archive::is_open)
    }

    /// Takes an event of a track of `source`.
    pub(super) fn on_event(
        &self,
        source: &str,
        label: &str,
        frame: &FrameMeta,
        event: &TrackEvent,
    ) {
        let key = (source.to_owned(), event.after.id);
        let mut open = self.open.lock();
        if event.kind == EventKind::New && open.len() >= MAX_OPEN {
            return;
        }
        let mut track = open.remove(&key).unwrap_or_else(|| Track {
            id: track_identity(event.started_at, source, event.after.id),
            source: source.to_owned(),
            label: String::new(),
            from: event.started_at,
            at: event.frame_at,
            duration: Duration::ZERO,
            score: 0.0,
            is_lost: false,
            zones: Vec::new(),
            happened: Vec::new(),
            path: Vec::new(),
            stride: 1,
            boxes: 0,
        });
        label.clone_into(&mut track.label);
        track.at = event.ended_at.unwrap_or(event.frame_at);
        track.duration = event.duration;
        track.score = event.after.top_score;
        track.is_lost = event.after.state == jetwatch_types::TrackState::Lost;
        if event.kind != EventKind::End {
            track.add_box(event.frame_at, shares(&event.after.xyxy, frame.source_size));
            open.insert(key, track);
            return;
        }
        drop(open);
        if let Some(archive) = self.archive() {
            archive.note(track.into_object());
        }
    }

    /// Takes the message of an analytics event.
    pub(super) fn on_analytics(&self, source: &str, track: TrackId, message: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(message) else {
            return;
        };
        let mut open = self.open.lock();
        let Some(track) = open.get_mut(&(source.to_owned(), track)) else {
            return;
        };
        if let Some(name) = message["name"].as_str()
            && track.zones.len() < MAX_HAPPENED
            && track.zones.iter().all(|known| known != name)
        {
            track.zones.push(name.to_owned());
        }
        if track.happened.len() < MAX_HAPPENED {
            let keys = ["type", "name", "to", "duration_ms", "at"];
            let told = keys.iter().filter(|key| !message[**key].is_null());
            let told = told.map(|key| ((*key).to_owned(), message[*key].clone()));
            track
                .happened
                .push(Value::Object(told.collect::<Map<_, _>>()));
        }
    }

    /// A source begins again or is removed: its tracks have no further events.
    pub(super) fn forget(&self, source: &str) {
        self.open.lock().retain(|(of, _), _| of != source);
    }

    fn page(&self, query: &ObjectQuery) -> Result<ObjectPage, ArchiveError> {
        let Some(archive) = self.archive() else {
            return Ok(ObjectPage::default());
        };
        let found = archive.objects(&Query {
            id: query.id.clone(),
            source: query.source.clone(),
            label: query.label.clone(),
            zone: query.zone.clone(),
            from: query.from,
            to: query.to,
            is_new: query.is_new,
            before: query.before.clone(),
            limit: query.limit,
        })?;
        let is_full = found.len() >= query.limit && query.limit > 0;
        let next = found.last().filter(|_| is_full);
        let next = next.map(|(last, _)| last.id.clone());
        let mut open = Vec::new();
        if query.before.is_none() {
            let tracks = self.open.lock();
            let wanted = tracks.values().filter(|track| track.is_wanted(query));
            open.extend(wanted.map(|track| track.described(&self.thumbnails)));
        }
        Ok(ObjectPage {
            items: found
                .iter()
                .map(|(object, files)| described(object, files, &self.thumbnails))
                .collect(),
            open,
            next,
        })
    }
}

impl Track {
    fn add_box(&mut self, at: SystemTime, shares: [f64; 4]) {
        self.boxes += 1;
        if !(self.boxes - 1).is_multiple_of(self.stride) {
            return;
        }
        if self.path.len() >= MAX_PATH {
            let mut number = 0;
            self.path.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
        }
        self.path.push((milliseconds(at), shares));
    }

    fn is_wanted(&self, query: &ObjectQuery) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        is(&query.id, &self.id)
            && is(&query.source, &self.source)
            && is(&query.label, &self.label)
            && query
                .zone
                .as_ref()
                .is_none_or(|zone| self.zones.contains(zone))
            && query.from.is_none_or(|from| self.from >= from)
            && query.to.is_none_or(|to| self.from < to)
    }

    /// What only the page reads of it.
    fn details(&self) -> Value {
        let path: Vec<Value> = self
            .path
            .iter()
            .map(|(at, [left, top, right, bottom])| json!([at, left, top, right, bottom]))
            .collect();
        json!({
            "duration_ms": u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            "happened": self.happened,
            "path": path,
        })
    }

    fn into_object(self) -> Object {
        Object {
            details: self.details().to_string(),
            id: self.id,
            source: self.source,
            label: Some(self.label),
            from: self.from,
            to: Some(self.at),
            score: Some(self.score),
            zones: self.zones,
            is_reviewed: false,
        }
    }

    fn described(&self, thumbnails: &Thumbnails) -> Value {
        let mut value = self.details();
        value["id"] = json!(self.id);
        value["source"] = json!(self.source);
        value["label"] = json!(self.label);
        value["started_ms"] = json!(milliseconds(self.from));
        value["ended_ms"] = Value::Null;
        value["score"] = json!(self.score);
        value["zones"] = json!(self.zones);
        value["is_lost"] = json!(self.is_lost);
        value["reviewed"] = json!(false);
        value["pinned"] = json!(false);
        value["snapshot"] = Value::Null;
        value["thumbnail"] = json!(thumbnails.get(&self.id).map(|found| found.mark));
        value["clips"] = json!([]);
        value
    }
}

/// An object of the archive with its files.
fn described(object: &Object, files: &[Item], thumbnails: &Thumbnails) -> Value {
    let details = match object.details.as_str() {
        "" => Value::Null,
        // Only this module writes it.
        text => serde_json::from_str(text).unwrap_or_default(),
    };
    let or_empty = |key: &str| match &details[key] {
        Value::Array(values) => json!(values),
        _ => json!([]),
    };
    let pictures = files.iter().filter(|item| item.kind == MediaKind::Snapshot);
    let snapshot = pictures.max_by_key(|item| item.bytes).map(|item| {
        json!({
            "id": item.id.as_str(),
            "at_ms": milliseconds(item.from),
            "box": item.region,
        })
    });
    let clips = files.iter().filter(|item| item.kind == MediaKind::Clip);
    let clips = clips.map(|item| {
        json!({
            "id": item.id.as_str(),
            "from_ms": milliseconds(item.from),
            "to_ms": item.to.map(milliseconds),
            "bytes": item.bytes,
        })
    });
    let clips: Vec<Value> = clips.collect();
    json!({
        "id": object.id,
        "source": object.source,
        "label": object.label,
        "started_ms": milliseconds(object.from),
        "ended_ms": object.to.map(milliseconds),
        "duration_ms": details["duration_ms"],
        "score": object.score,
        "zones": object.zones,
        "happened": or_empty("happened"),
        "path": or_empty("path"),
        "snapshot": snapshot,
        "thumbnail": thumbnails.get(&object.id).map(|found| found.mark),
        "clips": clips,
        "pinned": files.iter().any(|item| item.is_pinned),
        "reviewed": object.is_reviewed,
        "is_lost": false,
    })
}

impl ObjectLibrary for SeenObjects {
    fn objects(&self, query: &ObjectQuery) -> ObjectPage {
        self.page(query).unwrap_or_else(|error| {
            log::warn!("the page cannot list objects: {error}");
            ObjectPage::default()
        })
    }

    fn facets(&self) -> Value {
        let facets = self.archive().and_then(|archive| archive.facets().ok());
        let facets = facets.unwrap_or_default();
        json!({"sources": facets.sources, "labels": facets.labels, "zones": facets.zones})
    }

    fn activity(&self, from: SystemTime, to: SystemTime, parts: u32) -> Value {
        let archive = self.archive();
        let found = archive.and_then(|archive| archive.activity(from, to, parts).ok());
        let sources = found.unwrap_or_default().into_iter();
        let sources = sources.map(|(source, Activity { objects, video })| {
            let video: Vec<[u64; 2]> = video
                .into_iter()
                .map(|(begin, end)| [milliseconds(begin), milliseconds(end)])
                .collect();
            (source, json!({"objects": objects, "video": video}))
        });
        Value::Object(sources.collect())
    }

    fn picture(&self, id: &str) -> Option<bytes::Bytes> {
        self.thumbnails.get(id).map(|found| found.jpeg)
    }

    fn review(&self, ids: &[String], is_reviewed: bool) -> Result<usize, String> {
        let archive = self.archive().ok_or("nothing is kept")?;
        let marked = archive.review(ids, is_reviewed);
        marked.map_err(|error| error.to_string())
    }
}

/// A box as shares of the image, to a ten-thousandth.
pub(super) fn shares(xyxy: &Xyxy, size: Size) -> [f64; 4] {
    let (width, height) = (f64::from(size.width.max(1)), f64::from(size.height.max(1)));
    let [left, top, right, bottom] = xyxy.map(f64::from);
    [left / width, top / height, right / width, bottom / height].map(|edge| {
        let edge = if edge.is_nan() { 0.0 } else { edge };
        (edge.clamp(0.0, 1.0) * 10_000.0).round() / 10_000.0
    })
}

fn milliseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track() -> Track {
        Track {
            id: "1.000000-gate-1".to_owned(),
            source: "gate".to_owned(),
            label: "person".to_owned(),
            from: UNIX_EPOCH,
            at: UNIX_EPOCH,
            duration: Duration::ZERO,
            score: 0.5,
            is_lost: false,
            zones: vec!["door".to_owned()],
            happened: Vec::new(),
            path: Vec::new(),
            stride: 1,
            boxes: 0,
        }
    }

    #[test]
    fn path_of_a_long_track_is_thinned_evenly() {
        for count in [1_u64, 32, 33, 1000, 10_000] {
            let mut track = track();
            for ms in 0..count {
                track.add_box(UNIX_EPOCH + Duration::from_millis(ms), [0.0; 4]);
            }
            let times: Vec<u64> = track.path.iter().map(|(at, _)| *at).collect();
            assert!((1..=MAX_PATH).contains(&times.len()), "{count}: {times:?}");
            let stride = u64::from(track.stride);
            let wanted: Vec<u64> = (0..times.len() as u64).map(|at| at * stride).collect();
            assert_eq!(times, wanted, "{count}");
            assert!(times[times.len() - 1] + stride >= count, "{count}");
        }
    }

    #[test]
    fn boxes_are_shares_of_the_image() {
        let size = Size::new(200, 100);
        assert_eq!(
            shares(&[50.0, 25.0, 100.0, 50.0], size),
            [0.25, 0.25, 0.5, 0.5]
        );
        assert_eq!(
            shares(&[-5.0, f32::NAN, 300.0, f32::INFINITY], size),
            [0.0, 0.0, 1.0, 1.0]
        );
    }

    #[test]
    fn tracks_in_view_are_filtered() {
        let text = |text: &str| Some(text.to_owned());
        let at = |seconds| Some(UNIX_EPOCH + Duration::from_secs(seconds));
        let all = ObjectQuery::default;
        #[rustfmt::skip]
        let cases = [
            (all(), true),
            (ObjectQuery { source: text("gate"), label: text("person"), zone: text("door"), ..all() }, true),
            (ObjectQuery { source: text("yard"), ..all() }, false),
            (ObjectQuery { label: text("car"), ..all() }, false),
            (ObjectQuery { zone: text("yard"), ..all() }, false),
            (ObjectQuery { id: text("2"), ..all() }, false),
            (ObjectQuery { from: at(0), to: at(1), ..all() }, true),
            (ObjectQuery { from: at(1), ..all() }, false),
            (ObjectQuery { to: at(0), ..all() }, false),
        ];
        for (query, wanted) in cases {
            assert_eq!(track().is_wanted(&query), wanted, "{query:?}");
        }
    }
}
