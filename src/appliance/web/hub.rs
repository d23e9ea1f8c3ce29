// SPDX-License-Identifier: Apache-2.0
//! The messages of the daemon for the page: the newest of each topic, the list of events, the tracks of now, and figures of the last
//! hour. Filled on the tracking stage's thread, which never waits; read on the threads of this crate.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::broadcast;

use super::event_query::{EventKeys, EventQuery};

/// Messages that a client may be behind before it gets the present state in their place.
const LIVE_MESSAGES: usize = 512;

/// Most events in the list.
const MAX_EVENTS: usize = 2000;

/// Most bytes of the events in the list.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Most zones and lines that are remembered of one track.
const MAX_RULES: usize = 16;

/// Most tracks of now; others are not listed.
const MAX_OPEN_TRACKS: usize = 1000;

/// Time for which figures are kept, in ms.
const POINTS_MS: u64 = 3_600_000;

/// Shortest time between two kept figures, in ms: an hour has 800 at most, whatever the interval of statistics.
const MIN_POINT_MS: u64 = 4_500;

/// A step in the life of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackStep {
    /// It begins.
    New,
    /// It goes on.
    Update,
    /// It has ended.
    End,
}

/// Figures at one time, for plots.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StatsPoint {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Frames per second, all sources.
    pub fps: f64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Messages that wait.
    pub queued: u64,
    /// Mean load of the CPUs in percent, where it is known.
    pub cpu_percent: Option<f32>,
    /// Load of the GPU in percent, where it is known.
    pub gpu_percent: Option<f32>,
    /// Highest temperature in degrees Celsius, where one is known.
    pub celsius: Option<f32>,
    /// Mean time of each stage since the last point, in ms.
    pub stages: Vec<(&'static str, f64)>,
}

/// The messages for the page.
#[derive(Debug)]
pub struct Hub {
    state: Mutex<State>,
    live: broadcast::Sender<Bytes>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest message of each topic, by source and topic.
    retained: BTreeMap<(String, String), Bytes>,
    /// The oldest first.
    events: VecDeque<ListedEvent>,
    event_bytes: usize,
    next_number: u64,
    /// The newest event of each track that has not ended, by source and track.
    open: BTreeMap<(String, u64), (Bytes, u64)>,
    points: VecDeque<StatsPoint>,
}

#[derive(Debug, Clone)]
pub(super) struct ListedEvent {
    /// Grows by 1 with each event; the place in the list for the next page.
    pub(super) number: u64,
    pub(super) json: Bytes,
    /// Zones and lines of the analytics events about the track, in their order.
    pub(super) rules: Vec<Arc<str>>,
}

impl ListedEvent {
    /// The names of its zones and lines.
    pub(super) fn rules_words(&self) -> Vec<&str> {
        self.rules.iter().map(|rule| &**rule).collect()
    }

    /// Bytes that it takes in the list.
    fn bytes(&self) -> usize {
        let rules = self.rules.iter().map(|rule| rule.len());
        self.json.len() + rules.sum::<usize>()
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            live: broadcast::Sender::new(LIVE_MESSAGES),
        }
    }
}

impl Hub {
    /// A message that is valid until the next of the same `topic` of the same `source`; no source: an empty text.
    pub fn retain(&self, source: &str, topic: &str, json: &[u8]) {
        let json = Bytes::copy_from_slice(json);
        let key = (source.to_owned(), topic.to_owned());
        let mut state = self.state.lock();
        state.retained.insert(key, json.clone());
        // Within the lock, so that a client that joins misses nothing.
        let _ = self.live.send(json);
    }

    /// A message about a step of a track.
    pub fn track(&self, source: &str, track: u64, step: TrackStep, json: &[u8]) {
        let json = Bytes::copy_from_slice(json);
        let key = (source.to_owned(), track);
        let mut state = self.state.lock();
        match step {
            TrackStep::New => {
                let number = state.push_event(json.clone());
                if state.open.len() < MAX_OPEN_TRACKS {
                    state.open.insert(key, (json.clone(), number));
                }
            }
            TrackStep::Update => {
                if let Some((newest, _)) = state.open.get_mut(&key) {
                    *newest = json.clone();
                }
            }
            TrackStep::End => {
                let number = state.open.remove(&key).map(|(_, number)| number);
                state.replace_event(number, json.clone());
            }
        }
        let _ = self.live.send(json);
    }

    /// A message that stands for itself: an analytics event. Its track is found under the name of its zone or line from now on.
    pub fn append(&self, json: &[u8]) {
        let json = Bytes::copy_from_slice(json);
        let keys = serde_json::from_slice::<EventKeys<'_>>(&json).ok();
        let mut state = self.state.lock();
        if let Some(keys) = keys
            && let (Some(track), Some(rule)) = (keys.track_id, &keys.name)
        {
            state.add_rule(keys.source, track, rule);
        }
        state.push_event(json.clone());
        let _ = self.live.send(json);
    }

    /// A message that is passed on and not kept.
    pub fn pass(&self, json: &[u8]) {
        let _ = self.live.send(Bytes::copy_from_slice(json));
    }

    /// Removes what is retained of a source, but for its last state.
    pub fn forget(&self, source: &str) {
        let mut state = self.state.lock();
        state
            .retained
            .retain(|(of, topic), _| of != source || topic == "source");
        state.open.retain(|(of, _), _| of != source);
    }

    /// Adds a point to the plots, which have those of the last hour, some seconds apart.
    pub fn add_point(&self, point: StatsPoint) {
        let mut state = self.state.lock();
        let newest = state.points.back().map(|newest| newest.at_ms);
        // A clock that was set back starts the plot again.
        if newest.is_some_and(|newest| point.at_ms < newest) {
            state.points.clear();
        } else if newest.is_some_and(|newest| point.at_ms - newest < MIN_POINT_MS) {
            return;
        }
        let is_old = |oldest: &StatsPoint| oldest.at_ms + POINTS_MS < point.at_ms;
        while state.points.front().is_some_and(is_old) {
            state.points.pop_front();
        }
        state.points.push_back(point);
    }

    /// All retained messages, and those that follow.
    pub(super) fn join(&self) -> (Vec<Bytes>, broadcast::Receiver<Bytes>) {
        let state = self.state.lock();
        (
            state.retained.values().cloned().collect(),
            self.live.subscribe(),
        )
    }

    /// All retained messages, for the support bundle.
    pub fn retained(&self) -> Vec<Bytes> {
        self.state.lock().retained.values().cloned().collect()
    }

    /// The newest event of each track that has not ended.
    pub(super) fn open_tracks(&self) -> Vec<Bytes> {
        let state = self.state.lock();
        state.open.values().map(|(json, _)| json.clone()).collect()
    }

    /// The points of the plots, the oldest first.
    pub(super) fn points(&self) -> Vec<StatsPoint> {
        self.state.lock().points.iter().cloned().collect()
    }

    /// Events, the newest first, and the start of the oldest one in the list, whatever the query.
    pub(super) fn events(&self, query: &EventQuery) -> (Vec<ListedEvent>, Option<String>) {
        // Copies of handles: parsing is not done within the lock.
        let events: Vec<ListedEvent> = self.state.lock().events.iter().cloned().collect();
        let found = events
            .iter()
            .rev()
            .filter(|event| query.before.is_none_or(|before| event.number < before))
            .filter(|event| query.admits(&event.json, &event.rules))
            .take(query.limit)
            .cloned();
        let oldest = events.first().and_then(|event| {
            let keys = serde_json::from_slice::<EventKeys<'_>>(&event.json).ok()?;
            Some(keys.at().to_owned())
        });
        (found.collect(), oldest)
    }
}

impl State {
    fn push_event(&mut self, json: Bytes) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let event = ListedEvent {
            number,
            json,
            rules: Vec::new(),
        };
        self.event_bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > MAX_EVENTS || self.event_bytes > MAX_EVENT_BYTES {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.event_bytes -= oldest.bytes();
        }
        number
    }

    /// The event of this number, where it is in the list still.
    fn listed(&mut self, number: u64) -> Option<&mut ListedEvent> {
        let events = &self.events;
        let at = events.binary_search_by_key(&number, |event| event.number);
        self.events.get_mut(at.ok()?)
    }

    /// A track is in a zone, or has crossed a line.
    fn add_rule(&mut self, source: &str, track: u64, rule: &str) {
        let number = self.open.get(&(source.to_owned(), track));
        let Some(number) = number.map(|(_, number)| *number) else {
            return;
        };
        let Some(event) = self.listed(number) else {
            return;
        };
        if event.rules.len() < MAX_RULES && event.rules.iter().all(|known| **known != *rule) {
            event.rules.push(rule.into());
            self.event_bytes += rule.len();
        }
    }

    /// Puts the last message of a track into the place of its first one.
    fn replace_event(&mut self, number: Option<u64>, json: Bytes) {
        let Some(number) = number else {
            // Its first one was not listed.
            self.push_event(json);
            return;
        };
        // Else it has left the list.
        if let Some(event) = self.listed(number) {
            let before = event.json.len();
            let after = json.len();
            event.json = json;
            self.event_bytes = self.event_bytes - before + after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: &str, label: &str, started_at: &str) -> Vec<u8> {
        serde_json::json!({"source": source, "label": label, "started_at": started_at})
            .to_string()
            .into_bytes()
    }

    fn all() -> EventQuery {
        EventQuery {
            limit: usize::MAX,
            ..EventQuery::default()
        }
    }

    #[test]
    fn a_track_is_one_event_with_its_last_message() {
        let hub = Hub::default();
        hub.track("a", 1, TrackStep::New, &event("a", "car", "1"));
        hub.track("a", 2, TrackStep::New, &event("a", "person", "2"));
        hub.track("a", 1, TrackStep::Update, &event("a", "truck", "1"));
        assert_eq!(hub.open_tracks().len(), 2);
        hub.track("a", 1, TrackStep::End, &event("a", "bus", "1"));
        let (found, _) = hub.events(&all());
        let numbers: Vec<u64> = found.iter().map(|event| event.number).collect();
        assert_eq!(numbers, [1, 0]);
        assert_eq!(found[1].json, event("a", "bus", "1"));
        assert_eq!(hub.open_tracks().len(), 1);
    }

    #[test]
    fn tracks_are_found_by_the_zones_that_they_were_in() {
        let hub = Hub::default();
        hub.track("a", 1, TrackStep::New, &event("a", "car", "1"));
        hub.track("b", 1, TrackStep::New, &event("b", "car", "2"));
        for _ in 0..2 {
            hub.append(br#"{"source":"a","name":"door","track_id":1,"label":"car","at":"3"}"#);
        }
        hub.append(br#"{"source":"a","name":null,"track_id":1,"at":"3"}"#);
        hub.track("a", 1, TrackStep::End, &event("a", "bus", "1"));
        let at_door = |limit| {
            let query = EventQuery {
                rule: Some("door".to_owned()),
                limit,
                ..EventQuery::default()
            };
            let (found, oldest) = hub.events(&query);
            assert_eq!(oldest.as_deref(), Some("1"));
            found
        };
        let found = at_door(9);
        let numbers: Vec<u64> = found.iter().map(|event| event.number).collect();
        assert_eq!(numbers, [3, 2, 0]);
        assert_eq!(found[2].json, event("a", "bus", "1"));
        assert_eq!(found[2].rules, [Arc::from("door")]);
        assert_eq!(at_door(1).len(), 1);
    }

    #[test]
    fn memory_of_the_list_is_bounded() {
        let hub = Hub::default();
        let long = vec![b' '; 10_000];
        for _ in 0..5000 {
            hub.append(&long);
        }
        let state = hub.state.lock();
        assert!(state.event_bytes <= MAX_EVENT_BYTES);
        assert_eq!(state.events.len() * long.len(), state.event_bytes);
    }

    #[test]
    fn plots_have_the_last_hour_at_any_interval() {
        let hub = Hub::default();
        let add = |at_ms| {
            hub.add_point(StatsPoint {
                at_ms,
                ..StatsPoint::default()
            });
        };
        for interval in [1_000, 5_000, 60_000] {
            add(0);
            for at_ms in (interval..3 * POINTS_MS).step_by(interval as usize) {
                add(at_ms);
            }
            let points = hub.points();
            let (oldest, newest) = (points[0].at_ms, points[points.len() - 1].at_ms);
            let span = newest - oldest;
            assert!(span > POINTS_MS - 120_000 && span <= POINTS_MS, "{span} ms");
            assert!(points.len() <= 801, "{} points", points.len());
        }
    }

    #[test]
    fn removed_sources_keep_their_last_state_only() {
        let hub = Hub::default();
        hub.retain("a", "source", b"state");
        hub.retain("a", "count/car", b"count");
        hub.retain("b", "count/car", b"other");
        hub.forget("a");
        let (retained, _) = hub.join();
        assert_eq!(retained, ["state", "other"]);
    }
}
