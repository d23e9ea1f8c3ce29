// SPDX-License-Identifier: Apache-2.0
//! Sources that join, change their state, end and leave, each after the frames before it.

use std::time::{Instant, SystemTime};

use crossbeam_channel::Sender;

use jetwatch_record::Overlay;
use jetwatch_types::{SourceId, SourceState};

use super::states::StateChange;
use super::{TrackStage, TrackedSource};

impl TrackStage {
    pub(super) fn add_source(
        &mut self,
        id: SourceId,
        mut source: Box<TrackedSource>,
        overlay: Box<Overlay>,
    ) {
        self.images.add_source(id, &source.info.name, overlay);
        source.publish_rules(&mut self.publisher);
        for sink in &mut self.publisher.sinks {
            sink.source_added(&source.info);
        }
        source.publish_switches(&mut self.publisher);
        if source.info.has_motion {
            source.set_motion(false, &mut self.publisher);
        }
        self.sources.insert(id, source);
    }

    /// Removes a source after its last frame.
    pub(super) fn remove_source(&mut self, id: SourceId, done: Sender<()>) {
        if let Some(source) = self.sources.get_mut(id) {
            source.states.remove(done);
            self.end_if_drained(id);
        }
    }

    pub(super) fn on_source_state(
        &mut self,
        id: SourceId,
        state: SourceState,
        reason: Option<String>,
    ) {
        let Some(source) = self.sources.get_mut(id) else {
            // It did not end in time and was abandoned.
            return;
        };
        if state == SourceState::Ended {
            self.publisher.stats.source_state(id, state);
            source.states.end = Some((state, reason));
            self.end_if_drained(id);
        } else {
            source.states.waiting.push_back((state, reason));
            let completed = source.reorder.next();
            self.publish_states(id, completed);
        }
    }

    /// Publishes the states of a source that are due once the first `completed` frames of its order are processed.
    pub(super) fn publish_states(&mut self, id: SourceId, completed: u64) {
        while let Some((state, _)) = self.sources[id].states.waiting.front() {
            if *state == SourceState::Offline {
                if !self.batcher.passed_discontinuity(id, completed) {
                    // Earlier frames are still in the pipeline: they continue the tracks, later ones do not.
                    return;
                }
                // What happens meanwhile is unknown: an object after the gap is a new track.
                self.end_tracks(id);
            }
            let next = self.sources[id].states.waiting.pop_front();
            if let Some(change) = next {
                self.publish_state(id, change);
            }
        }
    }

    /// Takes a state of a source, and publishes it unless it is held.
    fn publish_state(&mut self, id: SourceId, (state, reason): StateChange) {
        self.publisher.stats.source_state(id, state);
        self.images.set_state(id, state);
        let source = &mut self.sources[id];
        let now = (Instant::now(), SystemTime::now());
        if let Some(message) = source.states.hold.step(state, reason, now) {
            source.publish_state(&message, &mut self.publisher);
        }
    }

    /// When the next state that is held is due.
    pub(super) fn state_due(&mut self) -> Option<Instant> {
        let sources = self.sources.iter_mut();
        sources.filter_map(|source| source.states.hold.due()).min()
    }

    /// Publishes the states that are due at `now`.
    pub(super) fn publish_due_states(&mut self, now: Instant) {
        for source in self.sources.iter_mut() {
            if let Some(message) = source.states.hold.poll(now) {
                source.publish_state(&message, &mut self.publisher);
            }
        }
    }

    /// Publishes all states of a source, at the end of the run.
    pub(super) fn settle_states(&mut self, id: SourceId) {
        while let Some(change) = self.sources[id].states.waiting.pop_front() {
            self.publish_state(id, change);
        }
        let source = &mut self.sources[id];
        if let Some(message) = source.states.hold.settle() {
            source.publish_state(&message, &mut self.publisher);
        }
    }

    /// Ends the tracks of a source whose last frame is processed, and publishes its end.
    pub(super) fn end_if_drained(&mut self, id: SourceId) {
        let Some(source) = self.sources.get_mut(id) else {
            return;
        };
        let completed = source.reorder.next();
        if !source.states.is_ending()
            || self.secondary.is_busy_with(id)
            || self
                .batcher
                .drained(id)
                .is_none_or(|taken| taken > completed)
        {
            return;
        }
        self.end_tracks(id);
        if let Some(end) = self.sources[id].states.end.take() {
            self.sources[id].states.has_ended = true;
            self.publish_state(id, end);
        }
        let source = &mut self.sources[id];
        if let Some(done) = source.states.removal.take() {
            if let Some(clips) = &mut source.clips {
                clips.remove();
            }
            for sink in &mut self.publisher.sinks {
                sink.source_removed(&source.info.name);
            }
            self.images.remove_source(id, &source.info.name);
            self.sources.remove(id);
            // Fails where the wait for it has timed out.
            let _ = done.send(());
        }
    }
}
