//! What the tracking stage publishes: events, analytics, counts, states, statistics, and control messages.

use std::time::SystemTime;

use jetwatch_publish::{Publication, Sink, SinkCounts};
use jetwatch_types::{FrameMeta, SourceId, SourceState};

use super::{ControlMessage, TrackStage};

impl TrackStage {
    pub(super) fn publish_control(&mut self, message: ControlMessage) {
        let at = SystemTime::now();
        let publication = match &message {
            ControlMessage::Throttling(change) => Publication::Throttling { change, at },
            ControlMessage::Reload(status) => Publication::Reload { status, at },
            ControlMessage::CommandReply(reply) => Publication::Reply { reply, at },
        };
        publish(&mut self.sinks, &publication);
    }

    /// Publishes what a frame of a source, or its end, changed; `at` is `None` at the end.
    pub(super) fn publish_changes(&mut self, meta: &FrameMeta, at: Option<SystemTime>) {
        self.publish_events(meta);
        let source = &mut self.sources[meta.source.index()];
        if let Some(analytics) = &mut source.analytics {
            analytics.publish_rest(&source.name, meta, |publication| {
                publish(&mut self.sinks, publication)
            });
            analytics.publish_counts(&source.name, at, |publication| {
                publish(&mut self.sinks, publication)
            });
        }
        self.publish_counts(meta);
    }

    pub(super) fn publish_events(&mut self, meta: &FrameMeta) {
        let source = &mut self.sources[meta.source.index()];
        if let Some(analytics) = &mut source.analytics {
            analytics.publish_before_end(&source.name, meta, |publication| {
                publish(&mut self.sinks, publication)
            });
        }
        if !source.events.is_empty() {
            self.stats.add_events(source.events.len());
            let publication = Publication::Events {
                source: &source.name,
                frame: meta,
                events: &source.events,
            };
            publish(&mut self.sinks, &publication);
            source.events.clear();
        }
    }

    pub(super) fn publish_counts(&mut self, meta: &FrameMeta) {
        let source = &mut self.sources[meta.source.index()];
        for change in source.lifecycle.count_changes() {
            // A class without a label cannot come out of a checked model.
            let Some(label) = self.classes.label(change.class) else {
                continue;
            };
            let publication = Publication::Count {
                source: &source.name,
                label,
                count: change.count,
                at: meta.captured_at,
            };
            publish(&mut self.sinks, &publication);
        }
        let changes = source.lifecycle.count_changes();
        let name = &source.name;
        source
            .group_counts
            .update(&self.classes, changes, |group, count| {
                let publication = Publication::GroupCount {
                    source: name,
                    group,
                    count,
                    at: meta.captured_at,
                };
                publish(&mut self.sinks, &publication);
            });
    }

    /// Publishes every track of a frame, where that is configured.
    pub(super) fn publish_frame(&mut self, meta: &FrameMeta) {
        if self.every_frame {
            let source = &self.sources[meta.source.index()];
            let publication = Publication::Frame {
                source: &source.name,
                frame: meta,
                tracks: &source.visible_tracks,
            };
            publish(&mut self.sinks, &publication);
        }
    }

    pub(super) fn publish_state(&mut self, id: SourceId, state: SourceState, reason: Option<&str>) {
        self.stats.source_state(id, state);
        if let Some(recording) = &mut self.recording {
            match state {
                SourceState::Offline => recording.set_offline(id),
                SourceState::Connecting | SourceState::Online => recording.set_online(id),
                // The last image of a file stays.
                SourceState::Ended => {}
            }
        }
        let publication = Publication::Source {
            source: &self.sources[id.index()].name,
            state,
            reason,
            at: SystemTime::now(),
        };
        publish(&mut self.sinks, &publication);
    }

    pub(super) fn publish_stats(&mut self) {
        let messages = total_counts(&self.sinks);
        let mut stats = self.stats.stats(messages);
        stats.spool = self.sinks.iter_mut().find_map(|sink| sink.spool_stats());
        publish(&mut self.sinks, &Publication::Stats(&stats));
    }
}

pub(super) fn publish(sinks: &mut [Box<dyn Sink>], publication: &Publication<'_>) {
    for sink in sinks {
        sink.publish(publication);
    }
}

fn total_counts(sinks: &[Box<dyn Sink>]) -> SinkCounts {
    sinks.iter().map(|sink| sink.counts()).sum()
}
