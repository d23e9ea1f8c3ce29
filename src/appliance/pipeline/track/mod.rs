//! The tracking stage: one thread that receives the results of all sources, restores their order, tracks, and publishes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, never, select_biased};

use jetwatch_publish::{Sink, SinkCounts};
use jetwatch_record::{Overlay, Recording, RecordingEnd};
use jetwatch_telemetry::{Heartbeat, Level, Recorder, Stage, StopToken};
use jetwatch_track::Tracker;
use jetwatch_types::{
    Classes, Detection, EventKind, FrameMeta, SourceId, SourceState, Track, TrackEvent, TrackState,
};

mod analytics;
mod camera;
mod filter;
mod group_counts;
mod messages;
mod publishing;
mod reorder;
mod source;

pub(super) use analytics::SourceAnalytics;
pub(super) use filter::DetectionFilter;
pub(super) use messages::{ControlMessage, TrackInput, control_channel, input_channel};
use publishing::publish;
pub(super) use source::{FrameResult, SourceTable, TrackedSource};

use super::batcher::Batcher;
use super::beside::Beside;
use super::options::PipelineObserver;
use super::secondary::{SecondaryInference, SecondaryResult};
use super::stats::StatsCollector;

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
    pub(super) every_frame: bool,
    /// Whether events of type new and end carry the embedding of the track.
    pub(super) output_embedding: bool,
    pub(super) frame_callback: Option<FrameCallback>,
    pub(super) recording: Option<Recording>,
    /// The second detector of a recording.
    pub(super) beside: Option<Beside>,
    pub(super) observer: Option<Arc<dyn PipelineObserver>>,
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
            let timeout = stats_due.saturating_duration_since(Instant::now());
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
            if Instant::now() >= stats_due {
                stats_due += self.stats_interval;
                self.publish_stats();
            }
        }
        for message in control.try_iter() {
            self.publish_control(message);
        }
        self.finish()
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

    /// Processes the result of a secondary network for a track, which may arrive at any time.
    fn on_secondary_result(&mut self, result: SecondaryResult) {
        let id = result.source();
        if let Some((track, attributes)) = self.secondary.on_result(result)
            && self.sources.contains(id)
        {
            let source = &mut self.sources[id.index()];
            if let Some(meta) = source.last_meta {
                source
                    .lifecycle
                    .set_attributes(track, attributes, &mut source.events);
                self.publish_events(&meta);
            }
        }
        if let Some(observer) = &self.observer {
            observer.crop_processed(self.secondary.pending());
        }
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
        {
            let _range = recorder.range_with_payload(Stage::Publish, 1, meta.seq);
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
        if let Some(recording) = &mut self.recording {
            let beside = self.beside.as_mut();
            let beside = beside.and_then(|beside| beside.process(&meta));
            recording.push(&meta, full_image, &source.visible_tracks, beside);
        }
        if !skipped && let Some(observer) = &self.observer {
            observer.frame_processed(self.secondary.pending());
        }
    }

    fn add_source(&mut self, id: SourceId, mut source: Box<TrackedSource>, overlay: Box<Overlay>) {
        if let Some(recording) = &mut self.recording {
            recording.add_source(id, &source.name, overlay);
        }
        if let Some(analytics) = &mut source.analytics {
            analytics.publish_counts(&source.name, None, |publication| {
                publish(&mut self.sinks, publication)
            });
        }
        for sink in &mut self.sinks {
            sink.source_added(&source.name);
        }
        self.sources.insert(id, source);
    }

    /// Removes a source after its last frame. One that failed permanently, or is late, never reports its end.
    fn remove_source(&mut self, id: SourceId, done: Sender<()>) {
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

    fn on_source_state(&mut self, id: SourceId, state: SourceState, reason: Option<String>) {
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
    fn publish_states(&mut self, id: SourceId, completed: u64) {
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
                self.publish_state(id, state, reason.as_deref());
            }
        }
    }

    /// Ends the tracks of a source whose last frame is processed, and publishes its end.
    fn end_if_drained(&mut self, id: SourceId) {
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
            self.publish_state(id, state, reason.as_deref());
        }
        if let Some(done) = self.sources[id.index()].removal.take() {
            for sink in &mut self.sinks {
                sink.source_removed(&self.sources[id.index()].name);
            }
            self.sources.remove(id);
            if let Some(recording) = &mut self.recording {
                recording.remove_source(id);
            }
            // Fails where the wait for it has timed out.
            let _ = done.send(());
        }
    }

    fn end_tracks(&mut self, id: SourceId) {
        if let Some(beside) = &mut self.beside {
            beside.end_tracks(id);
        }
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
        self.publish_changes(&meta, None);
    }

    fn finish(mut self) -> TrackStageReport {
        for id in self.sources.ids() {
            self.end_tracks(id);
            while let Some((state, reason)) = self.sources[id.index()].states.pop_front() {
                self.publish_state(id, state, reason.as_deref());
            }
        }
        self.publish_stats();
        if let Some(beside) = &self.beside {
            beside.log_rates();
        }
        TrackStageReport {
            messages: self
                .sinks
                .into_iter()
                .map(|sink| sink.close(SINK_CLOSE_TIMEOUT))
                .sum(),
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
