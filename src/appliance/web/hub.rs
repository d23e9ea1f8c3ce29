//! The messages of the daemon for the page: the newest of each topic, the list of events, the tracks of now, and figures of the last
//! hour. Filled on the tracking stage's thread, which never waits; read on the threads of this crate.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// Messages that a client may be behind before it gets the present state in their place.
const LIVE_MESSAGES: usize = 512;

/// Most events in the list.
const MAX_EVENTS: usize = 2000;

/// Most bytes of the events in the list.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Most tracks of now; others are not listed.
const MAX_OPEN_TRACKS: usize = 1000;

/// Figures that are kept: an hour at the default interval of statistics.
const MAX_POINTS: usize = 720;

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
struct ListedEvent {
    number: u64,
    json: Bytes,
}

/// Which events are wanted.
#[derive(Debug, Default, Deserialize)]
pub(super) struct EventQuery {
    pub(super) source: Option<String>,
    pub(super) label: Option<String>,
    /// Zone or line.
    pub(super) rule: Option<String>,
    /// At or after this time, RFC 3339.
    pub(super) from: Option<String>,
    /// Before this time.
    pub(super) to: Option<String>,
    /// Only events with a smaller number.
    pub(super) before: Option<u64>,
    pub(super) limit: usize,
}

/// What a query looks at. Times of messages have one form, so that they are compared as texts.
#[derive(Deserialize)]
struct EventKeys<'e> {
    source: &'e str,
    #[serde(default)]
    label: Option<String>,
    /// Of the rule, in analytics events.
    #[serde(default)]
    name: Option<&'e str>,
    #[serde(default)]
    started_at: Option<&'e str>,
    #[serde(default)]
    at: Option<&'e str>,
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

    /// A message that stands for itself: an analytics event.
    pub fn append(&self, json: &[u8]) {
        let json = Bytes::copy_from_slice(json);
        let mut state = self.state.lock();
        state.push_event(json.clone());
        let _ = self.live.send(json);
    }

    /// Removes what is retained of a source, but for its last state.
    pub fn forget(&self, source: &str) {
        let mut state = self.state.lock();
        state
            .retained
            .retain(|(of, topic), _| of != source || topic == "source");
        state.open.retain(|(of, _), _| of != source);
    }

    /// Adds a point to the plots.
    pub fn add_point(&self, point: StatsPoint) {
        let mut state = self.state.lock();
        if state.points.len() == MAX_POINTS {
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
    #[must_use]
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

    /// Events with their numbers, the newest first.
    pub(super) fn events(&self, query: &EventQuery) -> Vec<(u64, Bytes)> {
        // Copies of handles: parsing is not done within the lock.
        let events: Vec<ListedEvent> = self.state.lock().events.iter().cloned().collect();
        events
            .iter()
            .rev()
            .filter(|event| query.before.is_none_or(|before| event.number < before))
            .filter(|event| query.admits(&event.json))
            .take(query.limit)
            .map(|event| (event.number, event.json.clone()))
            .collect()
    }
}

impl State {
    fn push_event(&mut self, json: Bytes) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.event_bytes += json.len();
        self.events.push_back(ListedEvent { number, json });
        while self.events.len() > MAX_EVENTS || self.event_bytes > MAX_EVENT_BYTES {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.event_bytes -= oldest.json.len();
        }
        number
    }

    /// Puts the last message of a track into the place of its first one.
    fn replace_event(&mut self, number: Option<u64>, json: Bytes) {
        let found = number.and_then(|number| {
            let at = self
                .events
                .binary_search_by_key(&number, |event| event.number);
            at.ok()
        });
        match found {
            Some(at) => {
                let event = &mut self.events[at];
                self.event_bytes = self.event_bytes - event.json.len() + json.len();
                event.json = json;
            }
            // Its first one has left the list, or was not listed.
            None if number.is_none() => {
                self.push_event(json);
            }
            None => {}
        }
    }
}

impl EventQuery {
    fn admits(&self, json: &[u8]) -> bool {
        let Ok(keys) = serde_json::from_slice::<EventKeys<'_>>(json) else {
            return false;
        };
        let at = keys.started_at.or(keys.at).unwrap_or_default();
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.source, Some(keys.source))
            && is(&self.label, keys.label.as_deref())
            && is(&self.rule, keys.name)
            && self.from.as_deref().is_none_or(|from| at >= from)
            && self.to.as_deref().is_none_or(|to| at < to)
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
        let found = hub.events(&all());
        let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 0]);
        assert_eq!(found[1].1, event("a", "bus", "1"));
        assert_eq!(hub.open_tracks().len(), 1);
    }

    #[test]
    fn events_are_filtered() {
        let hub = Hub::default();
        hub.track(
            "a",
            1,
            TrackStep::New,
            &event("a", "car", "2026-01-01T00:00:01Z"),
        );
        hub.track(
            "b",
            1,
            TrackStep::New,
            &event("b", "car", "2026-01-01T00:00:02Z"),
        );
        let crossing =
            br#"{"source":"b","label":"person","name":"door","at":"2026-01-01T00:00:03Z"}"#;
        hub.append(crossing);
        let count = |query: EventQuery| hub.events(&query).len();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(count(all()), 3);
        assert_eq!(count(EventQuery { limit: 2, ..all() }), 2);
        assert_eq!(
            count(EventQuery {
                before: Some(2),
                ..all()
            }),
            2
        );
        assert_eq!(
            count(EventQuery {
                source: text("b"),
                ..all()
            }),
            2
        );
        assert_eq!(
            count(EventQuery {
                label: text("car"),
                ..all()
            }),
            2
        );
        assert_eq!(
            count(EventQuery {
                rule: text("door"),
                ..all()
            }),
            1
        );
        let from = text("2026-01-01T00:00:02Z");
        assert_eq!(
            count(EventQuery {
                from: from.clone(),
                ..all()
            }),
            2
        );
        assert_eq!(count(EventQuery { to: from, ..all() }), 1);
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
