// SPDX-License-Identifier: Apache-2.0
//! The tracking stage: one thread that receives the results of all sources, restores their order, tracks, and publishes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, never, select_biased};

use jetwatch_publish::SinkCounts;
use jetwatch_record::RecordingEnd;
use jetwatch_schedule::{Schedule, Status};
use jetwatch_telemetry::{
    Heartbeat, Level, OutputReport, Recorder, Stage, StopToken, thread_names,
};
use jetwatch_types::{Detection, EventKind, FrameMeta, SourceId, Track};

mod active_rules;
mod analytics;
mod camera;
mod count_hold;
mod counts;
mod filter;
mod frame_images;
mod messages;
mod publisher;
mod publishing;
mod reorder;
mod source;
mod source_changes;
mod state_hold;
mod states;
mod table;

pub(super) use frame_images::FrameImages;
pub(super) use messages::{TrackInput, input_channel};
pub use publisher::SINK_CLOSE_TIMEOUT;
pub(super) use publisher::{ControlMessage, Publisher, control_channel};
pub(super) use source::{FrameResult, TrackedSource};
pub(super) use states::REMOVED_REASON;
pub(super) use table::SourceTable;

use super::batcher::Batcher;
use super::clips::ClipService;
use super::secondary::{SecondaryInference, SecondaryResult};
use super::switches::SwitchChange;

/// Longest wait at the end for the crops that are with secondary networks.
const SECONDARY_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time for the clips to be completed when the pipeline ends.
const CLIPS_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long frames of before a change of a schedule are waited for. Where none comes, the clock decides this much later.
const FRAME_WAIT: Duration = Duration::from_secs(1);

/// Receives the detections of every frame, in order, and the active and lost tracks after it. Detections are `None` for a frame
/// that skipped the network.
pub type FrameCallback = Box<dyn FnMut(&FrameMeta, Option<&[Detection]>, &[Track]) + Send>;

/// The state of the tracking stage.
pub(super) struct TrackStage {
    pub(super) sources: SourceTable,
    pub(super) publisher: Publisher,
    pub(super) images: FrameImages,
    pub(super) secondary: SecondaryInference,
    /// Writes clips; `None` where none are recorded.
    pub(super) clips: Option<ClipService>,
    pub(super) batcher: Arc<Batcher>,
    pub(super) recorder: Recorder,
    pub(super) stats_interval: Duration,
    pub(super) frame_callback: Option<FrameCallback>,
    /// Ends the run when the reader of its output has closed it.
    pub(super) stop: StopToken,
    pub(super) heartbeat: Heartbeat,
}

/// What remains when the tracking stage has ended.
#[derive(Default)]
pub(super) struct TrackStageReport {
    pub(super) messages: SinkCounts,
    pub(super) outputs: Vec<OutputReport>,
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
            let due = self.state_due().map_or(stats_due, |due| due.min(stats_due));
            let timeout = due.saturating_duration_since(Instant::now());
            let timeout = timeout.min(self.time_to_rule_change(SystemTime::now()));
            let mut flow = ControlFlow::Continue(());
            select_biased! {
                recv(open_control) -> message => {
                    self.heartbeat.busy();
                    match message {
                        Ok(message) => {
                            // What it reports was sent before it: an added source before the reply to its command.
                            flow = self.process_queued(inputs);
                            self.publisher.publish_control(message);
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
            if self
                .publisher
                .sinks
                .iter()
                .any(|sink| sink.is_closed_by_reader())
            {
                self.stop.stop();
            }
            self.publish_due_states(Instant::now());
            self.follow_idle_rules(SystemTime::now());
            if Instant::now() >= stats_due {
                stats_due += self.stats_interval;
                self.publisher.publish_stats();
            }
        }
        for message in control.try_iter() {
            self.publisher.publish_control(message);
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
            } => {
                let result = FrameResult {
                    meta,
                    in_worker: None,
                    detections: None,
                    embeddings: Vec::new(),
                    gray: None,
                    full_image,
                };
                self.on_frame_result(order, result);
            }
            TrackInput::SecondaryResult(result) => self.on_secondary_result(result),
            TrackInput::SourceAdded {
                id,
                source,
                overlay,
            } => self.add_source(id, source, overlay),
            TrackInput::SourcesReady => {
                for sink in &mut self.publisher.sinks {
                    sink.sources_ready();
                }
            }
            TrackInput::SourceRemoved { id, done } => self.remove_source(id, done),
            TrackInput::SourceState { id, state, reason } => {
                self.on_source_state(id, state, reason);
            }
            TrackInput::Switched { id, change } => self.on_switched(id, &change),
            TrackInput::Scheduled {
                id,
                status,
                schedules,
            } => self.on_scheduled(id, status, schedules),
            TrackInput::Motion { id, on } => {
                // It may have been removed meanwhile.
                if let Some(source) = self.sources.get_mut(id) {
                    source.set_motion(on, &mut self.publisher);
                }
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
        let reorder = &mut self.sources[id].reorder;
        let first = reorder.next();
        reorder.push(order, frame, |item| due.push(item));
        for (given, frame) in (first..).zip(due) {
            self.publish_states(id, given);
            self.process_frame(frame);
        }
        self.publish_states(id, self.sources[id].reorder.next());
        self.end_if_drained(id);
    }

    /// Processes one frame of a source. Where the source does not detect, it is recorded and counted only.
    fn process_frame(&mut self, mut frame: FrameResult) {
        let meta = frame.meta;
        let source = &mut self.sources[meta.source];
        source.follow_rules(meta.captured_at, &mut self.publisher);
        let is_detecting = source.is_detecting();
        if is_detecting {
            self.track_frame(&mut frame);
        } else {
            if let Some(callback) = &mut self.frame_callback {
                callback(&meta, None, &[]);
            }
            source.step_clips(&meta);
        }
        let source = &self.sources[meta.source];
        let tracks = &source.visible_tracks;
        // One that was in the pipeline when detection was switched off went through the network.
        let skipped = frame.detections.is_none();
        self.publisher
            .stats
            .frame_done(&meta, tracks.len(), skipped, frame.in_worker);
        // After the messages, which must not wait for these.
        if is_detecting && !skipped {
            let image = frame.full_image.as_deref();
            self.secondary.enqueue(&meta, tracks, image);
        }
        self.images.on_frame(&meta, source, frame.full_image);
    }

    /// Tracks a frame and publishes what it changed; without detections it skipped the network.
    fn track_frame(&mut self, frame: &mut FrameResult) {
        let meta = frame.meta;
        let id = meta.source;
        let source = &mut self.sources[id];
        let recorder = self.recorder.clone().with_source(source.category);
        let _whole = recorder.batch(Level::Track, 1);
        {
            let _range = recorder.range_with_payload(Stage::Track, 1, meta.seq);
            source.track(frame);
            for event in &source.events {
                if event.kind == EventKind::End {
                    self.secondary.remove_track(id, event.after.id);
                }
            }
            self.secondary
                .attach_attributes(id, &mut source.visible_tracks);
        }
        if let Some(callback) = &mut self.frame_callback {
            callback(&meta, frame.detections.as_deref(), &source.visible_tracks);
        }
        self.images.on_events(id, source, &self.publisher);
        let _range = recorder.range_with_payload(Stage::Publish, 1, meta.seq);
        source.step_clips(&meta);
        source.publish_changes(&meta, Some(meta.captured_at), &mut self.publisher);
        source.publish_frame(&meta, &mut self.publisher);
        source.last_meta = Some(meta);
    }

    /// Processes the result of a secondary network for a track, which may arrive at any time.
    fn on_secondary_result(&mut self, result: SecondaryResult) {
        let id = result.source();
        if let Some((track, attributes)) = self.secondary.on_result(result)
            && let Some(source) = self.sources.get_mut(id)
            && let Some(meta) = source.last_meta
        {
            source
                .lifecycle
                .set_attributes(track, attributes, &mut source.events);
            source.publish_events(&meta, &mut self.publisher);
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

    /// Switches something of a source, and publishes that and what follows from it.
    fn on_switched(&mut self, id: SourceId, change: &SwitchChange) {
        let Some(source) = self.sources.get_mut(id) else {
            return;
        };
        let was_detecting = source.is_detecting();
        source.switch(change);
        if matches!(change, SwitchChange::Rule(..)) {
            source.publish_rules(&mut self.publisher);
        }
        self.end_tracks_if_off(id, was_detecting);
        let source = &mut self.sources[id];
        source.publish_switch(change, &mut self.publisher);
        let with_detection = matches!(change, SwitchChange::Detection(_));
        source.publish_activity(with_detection, &mut self.publisher);
    }

    /// Takes what the schedule of detection says, and new schedules of rules; publishes what follows from it.
    fn on_scheduled(
        &mut self,
        id: SourceId,
        status: Option<Status>,
        schedules: Option<Vec<Option<Schedule>>>,
    ) {
        let Some(source) = self.sources.get_mut(id) else {
            return;
        };
        let was_detecting = source.is_detecting();
        source.set_schedule(status);
        self.end_tracks_if_off(id, was_detecting);
        let source = &mut self.sources[id];
        if let Some(schedules) = schedules {
            source.set_rule_schedules(schedules);
            source.publish_rules(&mut self.publisher);
        }
        source.publish_activity(true, &mut self.publisher);
    }

    /// Ends the tracks where detection went off: frames that are in the pipeline count as frames without detection.
    fn end_tracks_if_off(&mut self, id: SourceId, was_detecting: bool) {
        if was_detecting && !self.sources[id].is_detecting() {
            self.end_tracks(id);
            self.publisher.stats.tracks_ended(id);
        }
    }

    /// Turns rules on and off as their schedules say, where no frame came at the change.
    fn follow_idle_rules(&mut self, now: SystemTime) {
        let Some(at) = now.checked_sub(FRAME_WAIT) else {
            return;
        };
        for source in self.sources.iter_mut() {
            if source.next_rule_change().is_some_and(|next| next <= at) {
                source.follow_rules(at, &mut self.publisher);
            }
        }
    }

    /// Time until [`follow_idle_rules`](Self::follow_idle_rules) has something to do.
    fn time_to_rule_change(&mut self, now: SystemTime) -> Duration {
        let changes = self.sources.iter_mut();
        let next = changes.filter_map(|source| source.next_rule_change()).min();
        let wait = next.map(|next| (next + FRAME_WAIT).duration_since(now));
        wait.map_or(Duration::MAX, Result::unwrap_or_default)
    }

    /// Ends the tracks of a source: later frames do not continue the earlier ones.
    fn end_tracks(&mut self, id: SourceId) {
        let source = &mut self.sources[id];
        let Some(meta) = source.end_tracks() else {
            return;
        };
        for event in &source.events {
            self.secondary.remove_track(id, event.after.id);
        }
        self.images.on_events(id, source, &self.publisher);
        source.publish_changes(&meta, None, &mut self.publisher);
        if let Some(clips) = &mut source.clips {
            clips.finish();
        }
    }

    fn finish(mut self, control: &Receiver<ControlMessage>) -> TrackStageReport {
        for id in self.sources.ids() {
            self.end_tracks(id);
            self.settle_states(id);
        }
        let publisher = &mut self.publisher;
        let clips_meter = self.clips.as_ref().map(ClipService::meter);
        if let Some(clips) = self.clips.take() {
            clips.stop();
            if !publisher.publish_until(control, CLIPS_CLOSE_TIMEOUT, || clips.is_finished()) {
                log::warn!(
                    "the thread {} does not end: the last clips are not complete",
                    thread_names::MEDIA
                );
            }
        }
        self.images.end_snapshots(control, publisher);
        publisher.publish_stats();
        let (messages, mut outputs) = self.publisher.close();
        outputs
            .extend(clips_meter.map(|clips| clips.report(thread_names::MEDIA, "files and images")));
        outputs.append(&mut self.images.outputs());
        TrackStageReport {
            messages,
            outputs,
            recording: self.images.close(),
        }
    }
}

#[cfg(test)]
mod tests;
