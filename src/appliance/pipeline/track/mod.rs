// SPDX-License-Identifier: Apache-2.0
//! The tracking stage: one thread that receives the results of all sources, restores their order, tracks, and publishes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, never, select_biased};

use jetwatch_publish::{Sink, SinkCounts};
use jetwatch_record::{Recording, RecordingEnd, Snapshots};
use jetwatch_telemetry::{Heartbeat, Level, Recorder, Stage, StopToken};
use jetwatch_track::Tracker;
use jetwatch_types::{
    Classes, Detection, EventKind, FrameMeta, SourceId, Track, TrackEvent, TrackState,
};

mod active_rules;
mod analytics;
mod camera;
mod clips;
mod count_hold;
mod counts;
mod filter;
mod messages;
mod previews;
mod publishing;
mod reorder;
mod scheduled;
mod secondary_results;
mod snapshots;
mod source;
mod source_changes;
mod state_hold;
mod switched;

pub(super) use analytics::SourceAnalytics;
pub(super) use counts::ActiveCounts;
pub(super) use filter::DetectionFilter;
pub(super) use messages::{ControlMessage, TrackInput, control_channel, input_channel};
pub(super) use source::{FrameResult, SourceTable, TrackedSource};
pub(super) use state_hold::StateHold;

use super::batcher::Batcher;
use super::clips::ClipService;
use super::outputs::close_all;
use super::secondary::SecondaryInference;
use super::stats::StatsCollector;
use super::web::Previews;

/// Longest time for sinks to deliver what they hold when the pipeline ends.
pub const SINK_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait at the end for the crops that are with secondary networks.
const SECONDARY_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Reason of the `ended` state of a source that was removed.
pub(super) const REMOVED_REASON: &str = "taken out by a change of the configuration";

/// Receives the detections of every frame, in order, and the active and lost tracks after it. Detections are `None` for a frame
/// that skipped the network.
pub type FrameCallback = Box<dyn FnMut(&FrameMeta, Option<&[Detection]>, &[Track]) + Send>;

/// The state of the tracking stage.
pub(super) struct TrackStage {
    pub(super) sources: SourceTable,
    pub(super) classes: Arc<Classes>,
    pub(super) sinks: Vec<Box<dyn Sink>>,
    pub(super) secondary: SecondaryInference,
    pub(super) batcher: Arc<Batcher>,
    pub(super) stats: Arc<StatsCollector>,
    pub(super) recorder: Recorder,
    pub(super) stats_interval: Duration,
    /// When the next state that is held is due.
    pub(super) state_due: Option<Instant>,
    pub(super) every_frame: bool,
    /// Whether events of type new and end carry the embedding of the track.
    pub(super) output_embedding: bool,
    pub(super) frame_callback: Option<FrameCallback>,
    pub(super) recording: Option<Recording>,
    /// Pictures of the page.
    pub(super) previews: Option<Arc<Previews>>,
    /// Writes clips; `None` where none are recorded.
    pub(super) clips: Option<ClipService>,
    /// `None` where no pictures of tracks are kept.
    pub(super) snapshots: Option<Snapshots>,
    /// Ends the run when the reader of its output has closed it.
    pub(super) stop: StopToken,
    pub(super) heartbeat: Heartbeat,
}

/// What remains when the tracking stage has ended.
#[derive(Default)]
pub(super) struct TrackStageReport {
    pub(super) messages: SinkCounts,
    pub(super) recording: Option<RecordingEnd>,
}

impl TrackStage {
    /// Runs until [`TrackInput::Shutdown`]; returns the counts of messages and the result of the recording.
    pub(super) fn run(
        mut self,
        inputs: &Receiver<TrackInput>,
        control: &Receiver<ControlMessage>,
    ) -> TrackStageReport {
        let mut stats_due = Instant::now() + self.stats_interval;
        let mut open_control = control.clone();
        loop {
            self.heartbeat.idle();
            let due = self.state_due.map_or(stats_due, |due| due.min(stats_due));
            let timeout = due.saturating_duration_since(Instant::now());
            let timeout = timeout.min(self.time_to_schedule(SystemTime::now()));
            let mut flow = ControlFlow::Continue(());
            select_biased! {
                recv(open_control) -> message => {
                    self.heartbeat.busy();
                    match message {
                        Ok(message) => {
                            // What it reports was sent before it: an added source before the reply to its command.
                            flow = self.process_queued(inputs);
                            self.publish_control(message);
                        }
                        Err(_) => open_control = never(),
                    }
                }
                recv(inputs) -> input => {
                    self.heartbeat.busy();
                    flow = match input {
                        Ok(input) => self.process(input, inputs),
                        Err(_) => ControlFlow::Break(()),
                    };
                }
                default(timeout) => self.heartbeat.busy(),
            }
            if flow.is_break() {
                break;
            }
            if self.sinks.iter().any(|sink| sink.is_closed_by_reader()) {
                self.stop.stop();
            }
            self.publish_due_states(Instant::now());
            self.follow_idle_rules(SystemTime::now());
            if Instant::now() >= stats_due {
                stats_due += self.stats_interval;
                self.publish_stats();
            }
        }
        for message in control.try_iter() {
            self.publish_control(message);
        }
        self.finish(control)
    }

    /// Processes one input; breaks after the last.
    fn process(&mut self, input: TrackInput, inputs: &Receiver<TrackInput>) -> ControlFlow<()> {
        match input {
            TrackInput::Detections { order, result } => self.on_frame_result(order, result),
            TrackInput::Skipped {
                order,
                meta,
                full_image,
            } => self.on_frame_result(order, FrameResult::skipped(meta, full_image)),
            TrackInput::SecondaryResult(result) => self.on_secondary_result(result),
            TrackInput::SourceAdded {
                id,
                source,
                overlay,
            } => self.add_source(id, source, overlay),
            TrackInput::SourcesReady => self.sinks.iter_mut().for_each(|s| s.sources_ready()),
            TrackInput::SourceRemoved { id, done } => self.remove_source(id, done),
            TrackInput::SourceState { id, state, reason } => {
                self.on_source_state(id, state, reason)
            }
            TrackInput::Switched { id, change } => self.on_switched(id, &change),
            TrackInput::Scheduled {
                id,
                status,
                schedules,
            } => self.on_scheduled(id, status, schedules),
            TrackInput::QueueClosed { id } => self.end_if_drained(id),
            TrackInput::Shutdown => {
                self.drain_secondary(inputs);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Processes the inputs that are queued now; breaks after the last of the run.
    fn process_queued(&mut self, inputs: &Receiver<TrackInput>) -> ControlFlow<()> {
        for input in inputs.try_iter().take(inputs.len()) {
            self.process(input, inputs)?;
        }
        ControlFlow::Continue(())
    }

    fn on_frame_result(&mut self, order: u64, frame: FrameResult) {
        let id = frame.meta.source;
        let mut due = Vec::new();
        let reorder = &mut self.sources[id.index()].reorder;
        let first = reorder.next();
        reorder.push(order, frame, |item| due.push(item));
        for (given, frame) in (first..).zip(due) {
            self.publish_states(id, given);
            self.process_frame(frame);
        }
        self.publish_states(id, self.sources[id.index()].reorder.next());
        self.end_if_drained(id);
    }

    /// Processes the results of the crops that are with secondary networks, for a limited time.
    fn drain_secondary(&mut self, inputs: &Receiver<TrackInput>) {
        let until = Instant::now() + SECONDARY_DRAIN_TIMEOUT;
        while self.secondary.is_busy() {
            match inputs.recv_deadline(until) {
                Ok(TrackInput::SecondaryResult(result)) => self.on_secondary_result(result),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Processes one frame of a source; without detections it skipped the network.
    fn process_frame(&mut self, frame: FrameResult) {
        let id = frame.meta.source;
        self.follow_rules(id, frame.meta.captured_at);
        if !self.sources[id.index()].is_detecting() {
            self.pass_frame(frame);
            return;
        }
        let FrameResult {
            meta,
            mut detections,
            mut embeddings,
            gray,
            full_image,
        } = frame;
        let source = &mut self.sources[meta.source.index()];
        let recorder = self.recorder.clone().with_source(source.category);
        let batch_range = recorder.batch(Level::Track, 1);
        {
            let _range = recorder.range_with_payload(Stage::Track, 1, meta.seq);
            if let (Some(camera), Some(detections)) = (&mut source.camera, &detections)
                && let Some(motion) = camera.estimate(gray.as_ref(), detections)
            {
                source.tracker.compensate(&motion);
            }
            match &mut detections {
                Some(detections) => {
                    source.filter.apply(detections, &mut embeddings);
                    source
                        .tracker
                        .update_with_embeddings(detections, &embeddings);
                }
                None => {
                    source.tracker.coast();
                }
            }
            let tracks = source.tracker.tracks();
            if let (Some(camera), Some(_)) = (&mut source.camera, &detections) {
                camera.set_tracks(tracks);
            }
            source.lifecycle.step(&meta, tracks, &mut source.events);
            if self.output_embedding {
                add_embeddings(&source.tracker, &mut source.events);
            }
            if let Some(analytics) = &mut source.analytics {
                analytics.step(&meta, tracks, &source.lifecycle, &source.events);
            }
            source.visible_tracks.clear();
            source.visible_tracks.extend(
                tracks
                    .iter()
                    .filter(|track| matches!(track.state, TrackState::Active | TrackState::Lost))
                    .cloned(),
            );
            for event in &source.events {
                if event.kind == EventKind::End {
                    self.secondary.remove_track(meta.source, event.after.id);
                }
            }
            self.secondary
                .attach_attributes(meta.source, &mut source.visible_tracks);
        }
        if let Some(callback) = &mut self.frame_callback {
            callback(&meta, detections.as_deref(), &source.visible_tracks);
        }
        self.note_track_steps(meta.source);
        {
            let _range = recorder.range_with_payload(Stage::Publish, 1, meta.seq);
            self.step_clips(&meta);
            self.publish_changes(&meta, Some(meta.captured_at));
            self.publish_frame(&meta);
        }
        drop(batch_range);
        let source = &mut self.sources[meta.source.index()];
        source.last_meta = Some(meta);
        let skipped = detections.is_none();
        self.stats
            .frame_done(&meta, source.visible_tracks.len(), skipped);
        // After the messages, which must not wait for these.
        if !skipped {
            self.secondary
                .enqueue(&meta, &source.visible_tracks, full_image.as_deref());
        }
        let mut full_image = full_image.map(Arc::new);
        self.offer_preview(&meta, full_image.as_ref());
        match &mut self.recording {
            Some(recording) => {
                let tracks = &self.sources[meta.source.index()].visible_tracks;
                recording.push(&meta, full_image, tracks);
            }
            // A recording needs the images itself.
            None => self.offer_image(&meta, &mut full_image),
        }
    }

    fn end_tracks(&mut self, id: SourceId) {
        let source = &mut self.sources[id.index()];
        if let Some(camera) = &mut source.camera {
            camera.reset();
        }
        let Some(meta) = source.last_meta.take() else {
            return;
        };
        source.tracker.finish();
        source.lifecycle.finish(&mut source.events);
        if self.output_embedding {
            add_embeddings(&source.tracker, &mut source.events);
        }
        if let Some(analytics) = &mut source.analytics {
            analytics.finish(&source.lifecycle, &source.events);
        }
        source.visible_tracks.clear();
        for event in &source.events {
            self.secondary.remove_track(id, event.after.id);
        }
        self.note_track_steps(id);
        self.publish_changes(&meta, None);
        self.finish_clips(id);
    }

    fn finish(mut self, control: &Receiver<ControlMessage>) -> TrackStageReport {
        for id in self.sources.ids() {
            self.end_tracks(id);
            while let Some((state, reason)) = self.sources[id.index()].states.pop_front() {
                self.publish_state(id, state, reason);
            }
            if let Some(message) = self.sources[id.index()].states_published.settle() {
                self.publish_state_message(id, &message);
            }
        }
        self.close_clips(control);
        self.end_snapshots(control);
        self.publish_stats();
        TrackStageReport {
            messages: close_all(self.sinks, SINK_CLOSE_TIMEOUT),
            recording: self.recording.map(Recording::close),
        }
    }
}

/// Adds the embeddings of the tracks to their first and last events.
fn add_embeddings(tracker: &Tracker, events: &mut [TrackEvent]) {
    for event in events {
        if event.kind != EventKind::Update {
            event.embedding = tracker.embedding(event.after.id).map(Arc::from);
        }
    }
}

#[cfg(test)]
mod tests;
