// SPDX-License-Identifier: Apache-2.0
//! What the tracking stage publishes: events, analytics, counts, states, statistics, and control messages.

use std::time::{Instant, SystemTime};

use jetwatch_publish::{Publication, Sink, SinkCounts};
use jetwatch_record::SnapshotPicture;
use jetwatch_types::{FrameMeta, SourceId, SourceState};

use super::counts::CountChange;
use super::state_hold::StateMessage;
use super::{ControlMessage, TrackStage};

impl TrackStage {
    pub(super) fn publish_control(&mut self, message: ControlMessage) {
        let at = SystemTime::now();
        let publication = match &message {
            ControlMessage::Throttling(change) => Publication::Throttling { change, at },
            ControlMessage::Reload(status) => Publication::Reload { status, at },
            ControlMessage::Update(status) => Publication::Update(status),
            ControlMessage::CommandReply(reply) => Publication::Reply { reply, at },
            ControlMessage::Media(item) => Publication::Media { item, at },
            ControlMessage::Snapshot(picture) => {
                self.publish_picture(picture);
                return;
            }
        };
        publish(&mut self.sinks, &publication);
    }

    /// Publishes a picture of a track: for the track, and as the newest of its label.
    fn publish_picture(&mut self, picture: &SnapshotPicture) {
        for track in [Some(picture.track), None] {
            let publication = Publication::Snapshot {
                source: &picture.source,
                label: &picture.label,
                track,
                jpeg: &picture.jpeg,
            };
            publish(&mut self.sinks, &publication);
        }
    }

    /// Publishes what a frame of a source, or its end, changed; `at` is `None` at the end.
    pub(super) fn publish_changes(&mut self, meta: &FrameMeta, at: Option<SystemTime>) {
        self.publish_events(meta);
        let source = &mut self.sources[meta.source.index()];
        if let Some(analytics) = &mut source.analytics {
            let recording = source.clips.as_ref().and_then(|clips| clips.recording());
            analytics.publish_rest(&source.name, meta, recording, |publication| {
                publish(&mut self.sinks, publication)
            });
            analytics.publish_counts(&source.name, at, |publication| {
                publish(&mut self.sinks, publication)
            });
        }
        self.publish_counts(meta, at.is_none());
    }

    pub(super) fn publish_events(&mut self, meta: &FrameMeta) {
        let source = &mut self.sources[meta.source.index()];
        let recording = source.clips.as_ref().and_then(|clips| clips.recording());
        if let Some(analytics) = &mut source.analytics {
            analytics.publish_before_end(&source.name, meta, recording, |publication| {
                publish(&mut self.sinks, publication)
            });
        }
        if !source.events.is_empty() {
            self.stats.add_events(source.events.len());
            let publication = Publication::Events {
                source: &source.name,
                frame: meta,
                events: &source.events,
                recording,
                snapshots: &source.snapshot_ids,
            };
            publish(&mut self.sinks, &publication);
            source.events.clear();
            source.snapshot_ids.clear();
        }
    }

    /// Publishes the counts that a frame of a source changed; `is_end`: that the end of its tracks did.
    pub(super) fn publish_counts(&mut self, meta: &FrameMeta, is_end: bool) {
        let source = &mut self.sources[meta.source.index()];
        let (name, at) = (&source.name, meta.captured_at);
        let sinks = &mut self.sinks;
        let changed = |change: CountChange<'_>| {
            let publication = match change {
                CountChange::Label(label, count) => Publication::Count {
                    source: name,
                    label,
                    count,
                    at,
                },
                CountChange::Group(group, count) => Publication::GroupCount {
                    source: name,
                    group,
                    count,
                    at,
                },
            };
            publish(sinks, &publication);
        };
        let changes = source.lifecycle.count_changes();
        match is_end {
            true => source.counts.settle(&self.classes, changes, changed),
            false => source.counts.step(meta, &self.classes, changes, changed),
        }
    }

    /// Publishes every track of a frame where that is configured, and to the sinks that need it.
    pub(super) fn publish_frame(&mut self, meta: &FrameMeta) {
        let source = &self.sources[meta.source.index()];
        let publication = Publication::Frame {
            source: &source.name,
            frame: meta,
            tracks: &source.visible_tracks,
        };
        for sink in &mut self.sinks {
            if self.every_frame || sink.needs_frames() {
                sink.publish(&publication);
            }
        }
    }

    /// Takes a state of a source, and publishes it unless it is held.
    pub(super) fn publish_state(
        &mut self,
        id: SourceId,
        state: SourceState,
        reason: Option<String>,
    ) {
        self.stats.source_state(id, state);
        if let Some(recording) = &mut self.recording {
            match state {
                SourceState::Offline => recording.set_offline(id),
                SourceState::Connecting | SourceState::Online => recording.set_online(id),
                // The last image of a file stays.
                SourceState::Ended => {}
            }
        }
        let states = &mut self.sources[id.index()].states_published;
        let message = states.step(state, reason, (Instant::now(), SystemTime::now()));
        let due = states.due();
        if let Some(message) = message {
            self.publish_state_message(id, &message);
        }
        self.state_due = self.state_due.into_iter().chain(due).min();
    }

    /// Publishes the states that are due at `now`.
    pub(super) fn publish_due_states(&mut self, now: Instant) {
        if self.state_due.is_none_or(|due| now < due) {
            return;
        }
        self.state_due = None;
        for id in self.sources.ids() {
            let states = &mut self.sources[id.index()].states_published;
            let message = states.poll(now);
            self.state_due = self.state_due.into_iter().chain(states.due()).min();
            if let Some(message) = message {
                self.publish_state_message(id, &message);
            }
        }
    }

    pub(super) fn publish_state_message(&mut self, id: SourceId, message: &StateMessage) {
        let publication = Publication::Source {
            source: &self.sources[id.index()].name,
            state: message.state,
            reason: message.reason.as_deref(),
            at: message.at,
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
