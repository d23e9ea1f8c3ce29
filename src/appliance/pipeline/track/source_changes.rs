// SPDX-License-Identifier: Apache-2.0
//! Sources that join, change their state, end and leave, each after the frames before it.

use crossbeam_channel::Sender;

use jetwatch_record::Overlay;
use jetwatch_types::{SourceId, SourceState};

use super::publishing::publish;
use super::{REMOVED_REASON, TrackStage, TrackedSource};

impl TrackStage {
    pub(super) fn add_source(
        &mut self,
        id: SourceId,
        mut source: Box<TrackedSource>,
        overlay: Box<Overlay>,
    ) {
        self.add_preview(id, &source.name, &overlay);
        if let Some(recording) = &mut self.recording {
            recording.add_source(id, &source.name, overlay);
        }
        if let Some(analytics) = &mut source.analytics {
            analytics.publish_counts(&source.name, None, |publication| {
                publish(&mut self.sinks, publication)
            });
        }
        for sink in &mut self.sinks {
            sink.source_added(&source.info);
        }
        self.sources.insert(id, source);
        self.publish_switches(id);
    }

    /// Removes a source after its last frame. One that failed permanently, or is late, never reports its end.
    pub(super) fn remove_source(&mut self, id: SourceId, done: Sender<()>) {
        if !self.sources.contains(id) {
            return;
        }
        let source = &mut self.sources[id.index()];
        source.removal = Some(done);
        if !source.ended_published {
            source
                .pending_end
                .get_or_insert_with(|| (SourceState::Ended, Some(REMOVED_REASON.to_owned())));
        }
        self.end_if_drained(id);
    }

    pub(super) fn on_source_state(
        &mut self,
        id: SourceId,
        state: SourceState,
        reason: Option<String>,
    ) {
        if !self.sources.contains(id) {
            // It did not end in time and was abandoned.
            return;
        }
        if state == SourceState::Ended {
            self.stats.source_state(id, state);
            self.sources[id.index()].pending_end = Some((state, reason));
            self.end_if_drained(id);
            return;
        }
        let source = &mut self.sources[id.index()];
        source.states.push_back((state, reason));
        let completed = source.reorder.next();
        self.publish_states(id, completed);
    }

    /// Publishes the states of a source that are due once the first `completed` frames of its order are processed.
    pub(super) fn publish_states(&mut self, id: SourceId, completed: u64) {
        while let Some((state, _)) = self.sources[id.index()].states.front() {
            if *state == SourceState::Offline {
                if !self.batcher.passed_discontinuity(id, completed) {
                    // Earlier frames are still in the pipeline: they continue the tracks, later ones do not.
                    return;
                }
                // What happens meanwhile is unknown: an object after the gap is a new track.
                self.end_tracks(id);
            }
            let next = self.sources[id.index()].states.pop_front();
            if let Some((state, reason)) = next {
                self.publish_state(id, state, reason);
            }
        }
    }

    /// Ends the tracks of a source whose last frame is processed, and publishes its end.
    pub(super) fn end_if_drained(&mut self, id: SourceId) {
        if !self.sources.contains(id) {
            return;
        }
        let source = &self.sources[id.index()];
        if (source.pending_end.is_none() && !source.ended_published)
            || self.secondary.is_busy_with(id)
            || self
                .batcher
                .drained(id)
                .is_none_or(|taken| taken > source.reorder.next())
        {
            return;
        }
        self.end_tracks(id);
        let source = &mut self.sources[id.index()];
        if let Some((state, reason)) = source.pending_end.take() {
            source.ended_published = true;
            self.publish_state(id, state, reason);
        }
        if let Some(done) = self.sources[id.index()].removal.take() {
            if let Some(clips) = &mut self.sources[id.index()].clips {
                clips.remove();
            }
            for sink in &mut self.sinks {
                sink.source_removed(&self.sources[id.index()].name);
            }
            self.remove_preview(id);
            self.sources.remove(id);
            if let Some(recording) = &mut self.recording {
                recording.remove_source(id);
            }
            // Fails where the wait for it has timed out.
            let _ = done.send(());
        }
    }
}
