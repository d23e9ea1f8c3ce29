// SPDX-License-Identifier: Apache-2.0
//! Which events of a publication a webhook sends. Pure.

use crate::{Publication, SourceStatus};
use jetwatch_config::{WebhookConfig, WebhookEvent};
use jetwatch_spool::Class;
use jetwatch_types::{AnalyticsEventKind, Classes, EventKind, SourceState};

/// One chosen event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    /// Its place in the publication.
    pub index: usize,
    pub event: WebhookEvent,
    /// What the spool drops first.
    pub class: Class,
    /// Stands for its track; 0: none.
    pub track: u64,
}

/// What a webhook asks for.
#[derive(Debug)]
pub(super) struct Filter {
    events: Vec<WebhookEvent>,
    sources: Vec<String>,
    /// By class; empty: all.
    labels: Vec<bool>,
}

impl Filter {
    pub fn new(config: &WebhookConfig, classes: &Classes) -> Self {
        let count = u16::try_from(classes.labels().len()).unwrap_or(u16::MAX);
        let is_chosen = |class| {
            config
                .labels
                .iter()
                .any(|name| classes.includes(name, class))
        };
        Self {
            events: config.events.clone(),
            sources: config.sources.clone(),
            labels: match config.labels.is_empty() {
                true => Vec::new(),
                false => (0..count).map(is_chosen).collect(),
            },
        }
    }

    /// The events of `record` that are sent, in order.
    pub fn choose(&self, record: &Publication<'_>) -> Vec<Item> {
        match record {
            Publication::Events { source, events, .. } if self.has_source(source) => {
                let items = events.iter().enumerate().filter_map(|(index, event)| {
                    let (kind, class) = match event.kind {
                        EventKind::New => (WebhookEvent::New, Class::New),
                        EventKind::Update => (WebhookEvent::Update, Class::Update),
                        EventKind::End => (WebhookEvent::End, Class::End),
                    };
                    self.item(
                        index,
                        kind,
                        class,
                        Some(event.after.class),
                        event.after.id.0,
                    )
                });
                items.collect()
            }
            Publication::Analytics { source, events, .. } if self.has_source(source) => {
                let items = events.iter().enumerate().filter_map(|(index, message)| {
                    let event = &message.event;
                    let track = event.track.map_or(0, |track| track.0);
                    self.item(
                        index,
                        kind_of(&event.kind),
                        Class::Analytics,
                        event.class,
                        track,
                    )
                });
                items.collect()
            }
            Publication::Source(SourceStatus { source, state, .. })
                if self.has_source(source.0) =>
            {
                let kind = match state {
                    SourceState::Connecting => WebhookEvent::Connecting,
                    SourceState::Online => WebhookEvent::Online,
                    SourceState::Offline => WebhookEvent::Offline,
                    SourceState::Ended => WebhookEvent::Ended,
                };
                // Kept as long as analytics events: no later message says it again.
                self.item(0, kind, Class::Analytics, None, 0)
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn has_source(&self, source: &str) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|known| known == source)
    }

    fn item(
        &self,
        index: usize,
        event: WebhookEvent,
        class: Class,
        object: Option<u16>,
        track: u64,
    ) -> Option<Item> {
        let has_label = match object {
            Some(object) if !self.labels.is_empty() => {
                self.labels.get(usize::from(object)) == Some(&true)
            }
            _ => true,
        };
        (has_label && self.events.contains(&event)).then_some(Item {
            index,
            event,
            class,
            track,
        })
    }
}

fn kind_of(kind: &AnalyticsEventKind) -> WebhookEvent {
    match kind {
        AnalyticsEventKind::ZoneEntered { .. } => WebhookEvent::ZoneEntered,
        AnalyticsEventKind::ZoneLeft { .. } => WebhookEvent::ZoneLeft,
        AnalyticsEventKind::Loitering { .. } => WebhookEvent::Loitering,
        AnalyticsEventKind::Overcrowded { .. } => WebhookEvent::Overcrowding,
        AnalyticsEventKind::OvercrowdingEnded { .. } => WebhookEvent::OvercrowdingOver,
        AnalyticsEventKind::LineCrossed { .. } => WebhookEvent::LineCrossed,
        AnalyticsEventKind::Direction { .. } => WebhookEvent::Direction,
        AnalyticsEventKind::Stationary { .. } => WebhookEvent::Stationary,
        AnalyticsEventKind::Moving => WebhookEvent::Moving,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::AnalyticsMessage;
    use jetwatch_config::{Config, SceneRules};
    use jetwatch_types::{
        AnalyticsEvent, FrameMeta, LabelGroup, Size, Track, TrackEvent, TrackId, TrackState,
    };

    fn filter(keys: &str) -> Filter {
        let text = format!(
            "sources: [{{name: gate, uri: /v.mp4}}]\ndetector: {{model: /m}}\npublish: {{webhooks: [{{name: a, url: 'http://h', {keys}}}]}}\n"
        );
        let config = Config::from_str("f.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
        let labels = ["person", "car", "bus"].map(str::to_owned);
        let vehicle = LabelGroup {
            name: "vehicle".to_owned(),
            labels: labels[1..].to_vec(),
        };
        Filter::new(
            &config.publish.webhooks[0],
            &Classes::new(&labels, &[vehicle]),
        )
    }

    fn event(kind: EventKind, class: u16) -> TrackEvent {
        TrackEvent {
            kind,
            before: None,
            after: Track {
                id: TrackId(7),
                state: TrackState::Active,
                class,
                score: 0.5,
                top_score: 0.5,
                xyxy: [0.0; 4],
                age_frames: 1,
                hits: 1,
                lost_frames: 0,
                attributes: Default::default(),
            },
            started_at: SystemTime::UNIX_EPOCH,
            frame_at: SystemTime::UNIX_EPOCH,
            ended_at: None,
            duration: Duration::ZERO,
            embedding: None,
        }
    }

    /// The words of what is chosen of one track event for each kind and class, one analytics event of a car and one of a zone, and
    /// an offline source.
    fn chosen(filter: &Filter, source: &str) -> Vec<&'static str> {
        let frame = FrameMeta::for_test(0, 1, Size::new(10, 10));
        let events = [
            event(EventKind::New, 0),
            event(EventKind::Update, 1),
            event(EventKind::End, 2),
        ];
        let analytics = |kind, class| AnalyticsMessage {
            event: AnalyticsEvent {
                kind,
                track: None,
                class,
                at: SystemTime::UNIX_EPOCH,
            },
            started_at: None,
        };
        let facts = [
            analytics(AnalyticsEventKind::Moving, Some(1)),
            analytics(AnalyticsEventKind::Overcrowded { zone: 0, count: 3 }, None),
        ];
        let rules = SceneRules::default();
        #[rustfmt::skip]
        let records = [
            Publication::Events { source, frame: &frame, events: &events, recording: None, snapshots: &[] },
            Publication::Analytics { source, rules: &rules, frame: &frame, events: &facts, recording: None },
            Publication::source_state(source, SourceState::Offline, None, SystemTime::UNIX_EPOCH),
            Publication::count(source, "car", 1, SystemTime::UNIX_EPOCH),
        ];
        let items = records.iter().flat_map(|record| filter.choose(record));
        items.map(|item| item.event.word()).collect()
    }

    #[test]
    fn events_are_chosen_by_kind_label_and_source() {
        let all = ["new", "end", "moving", "overcrowding", "offline"];
        assert_eq!(chosen(&filter("timeout_s: 5"), "gate"), all);
        assert_eq!(
            chosen(&filter("events: [update, offline]"), "gate"),
            ["update", "offline"]
        );
        // What is about no object stays.
        assert_eq!(
            chosen(&filter("labels: [vehicle]"), "gate"),
            ["end", "moving", "overcrowding", "offline"]
        );
        assert_eq!(chosen(&filter("sources: [yard]"), "gate"), [""; 0]);
        assert_eq!(chosen(&filter("sources: [yard]"), "yard"), all);
    }
}
