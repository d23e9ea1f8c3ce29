//! The follower: one thread that sees every result of every source in order, tracks, and tells the sinks.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use jetwatch_platform::throttling::Change;
use jetwatch_publish::{Record, ReloadStatus, Reply, Sink, SinkCounts};
use jetwatch_record::{KeptView, Overlay, Recording, RecordingEnd};
use jetwatch_source::StopToken;
use jetwatch_telemetry::{Level, Pulse, Recorder, Stage};
use jetwatch_types::{Detection, EventKind, FrameMeta, SourceId, SourceState, Track, TrackState};

use super::cascade::{Cascade, Finding};
use super::course::Gate;
use super::lanes::Lanes;
use super::lines::{Line, Lines, Seen};
use super::meter::Meter;

/// Longest that sinks may take to deliver what they hold when the daemon ends.
pub(super) const CLOSING: Duration = Duration::from_secs(5);

/// Longest that secondary networks may take at the end for what they have in hand.
const SETTLING: Duration = Duration::from_secs(2);
/// Why a source has ended that a change of the configuration took out.
pub(super) const LEFT: &str = "taken out by a change of the configuration";

/// What the follower hears.
pub(super) enum News {
    /// A worker has detections of a frame.
    Result {
        ticket: u64,
        meta: FrameMeta,
        detections: Vec<Detection>,
        /// The picture, where a later step may look at it.
        view: Option<KeptView>,
    },
    /// A frame that skipped the network.
    Carried {
        ticket: u64,
        meta: FrameMeta,
        view: Option<KeptView>,
    },
    /// A secondary network has looked at an object.
    Finding(Finding),
    /// A source joins; what comes from it follows.
    Joined {
        id: SourceId,
        line: Box<Line>,
        overlay: Box<Overlay>,
    },
    /// All sources that the run starts with have joined.
    AllJoined,
    /// A source leaves: nothing new comes from it. Its place is given up, and `gone` told, once its last frame is through.
    Left { id: SourceId, gone: Sender<()> },
    /// A source's state changed.
    Source {
        id: SourceId,
        state: SourceState,
        reason: Option<String>,
    },
    /// The machine slows itself down, or no longer does.
    Throttling(Change),
    /// The configuration was read again.
    Reload(Box<ReloadStatus>),
    /// A command was carried out, or not.
    Reply(Reply),
    /// No frame follows from this source, and its lane is closed.
    Closed { id: SourceId },
    /// Everybody else has ended.
    Finish,
}

/// Sees the detections of every frame, in order, and what the tracker made of them: its active and lost tracks. No detections
/// (`None`) come with a frame that skipped the network.
pub type Tap = Box<dyn FnMut(&FrameMeta, Option<&[Detection]>, &[Track]) + Send>;

/// Everything that the follower needs.
pub(super) struct Follower {
    pub(super) lines: Lines,
    pub(super) labels: Vec<String>,
    pub(super) sinks: Vec<Box<dyn Sink>>,
    pub(super) cascade: Cascade,
    pub(super) lanes: Arc<Lanes>,
    pub(super) meter: Arc<Meter>,
    pub(super) recorder: Recorder,
    pub(super) stats_interval: Duration,
    pub(super) every_frame: bool,
    pub(super) tap: Option<Tap>,
    pub(super) recording: Option<Recording>,
    pub(super) gate: Gate,
    /// Ends the run when nobody reads its output any more.
    pub(super) stop: StopToken,
    pub(super) pulse: Pulse,
}

/// What is left when the follower has ended.
#[derive(Default)]
pub(super) struct Ending {
    pub(super) messages: SinkCounts,
    pub(super) recording: Option<RecordingEnd>,
}

impl Follower {
    /// Runs until [`News::Finish`]; returns what became of the messages and of the recording.
    pub(super) fn run(mut self, news: &Receiver<News>) -> Ending {
        let mut stats_due = Instant::now() + self.stats_interval;
        loop {
            self.pulse.waits();
            let heard = news.recv_timeout(stats_due.saturating_duration_since(Instant::now()));
            self.pulse.works();
            match heard {
                Ok(News::Result {
                    ticket,
                    meta,
                    detections,
                    view,
                }) => self.result(ticket, (meta, Some(detections), view)),
                Ok(News::Carried { ticket, meta, view }) => self.result(ticket, (meta, None, view)),
                Ok(News::Finding(finding)) => self.finding(finding),
                Ok(News::Joined { id, line, overlay }) => self.join(id, line, overlay),
                Ok(News::AllJoined) => self.sinks.iter_mut().for_each(|s| s.sources_joined()),
                Ok(News::Left { id, gone }) => self.leave(id, gone),
                Ok(News::Source { id, state, reason }) => self.source(id, state, reason),
                Ok(News::Throttling(change)) => tell(
                    &mut self.sinks,
                    &Record::Throttling {
                        change: &change,
                        at: SystemTime::now(),
                    },
                ),
                Ok(News::Reload(status)) => tell(
                    &mut self.sinks,
                    &Record::Reload {
                        status: &status,
                        at: SystemTime::now(),
                    },
                ),
                Ok(News::Reply(reply)) => tell(
                    &mut self.sinks,
                    &Record::Reply {
                        reply: &reply,
                        at: SystemTime::now(),
                    },
                ),
                Ok(News::Closed { id }) => self.end_if_drained(id),
                Ok(News::Finish) => {
                    self.settle(news);
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.sinks.iter().any(|sink| sink.reader_gone()) {
                self.stop.stop();
            }
            if Instant::now() >= stats_due {
                stats_due += self.stats_interval;
                self.stats();
            }
        }
        self.finish()
    }

    fn result(&mut self, ticket: u64, seen: Seen) {
        let id = seen.0.source;
        let mut due = Vec::new();
        let reorder = &mut self.lines[id.index()].reorder;
        let first = reorder.next();
        reorder.push(ticket, seen, |item| due.push(item));
        for (given, (meta, mut detections, view)) in (first..).zip(due) {
            self.tell_states(id, given);
            if let Some(detections) = &mut detections {
                self.lines[id.index()].sieve.apply(detections);
            }
            self.frame(meta, detections.as_deref(), view);
        }
        self.tell_states(id, self.lines[id.index()].reorder.next());
        self.end_if_drained(id);
    }

    /// Takes what a secondary network says of a track, whenever it comes.
    fn finding(&mut self, finding: Finding) {
        let id = finding.source();
        if let Some((track, attributes)) = self.cascade.hear(finding)
            && self.lines.has(id)
        {
            let line = &mut self.lines[id.index()];
            if let Some(meta) = line.newest {
                let at = meta.captured_at;
                line.lifecycle
                    .describe(track, attributes, at, &mut line.events);
                self.publish_events(&meta);
            }
        }
        self.gate.looked(self.cascade.pending());
        self.end_if_drained(id);
    }

    /// Hears what secondary networks still have in hand, for a while.
    fn settle(&mut self, news: &Receiver<News>) {
        let until = Instant::now() + SETTLING;
        while self.cascade.is_busy() {
            match news.recv_deadline(until) {
                Ok(News::Finding(finding)) => self.finding(finding),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Goes on by one frame of a source; without detections it skipped the network.
    fn frame(&mut self, meta: FrameMeta, detections: Option<&[Detection]>, view: Option<KeptView>) {
        let recorder = self.recorder.clone();
        let whole = recorder.batch(Level::Track, 1);
        let line = &mut self.lines[meta.source.index()];
        {
            let _range = recorder.range_with_payload(Stage::Track, 1, meta.seq);
            let tracks = match detections {
                Some(detections) => line.tracker.update(detections),
                None => line.tracker.carry(),
            };
            line.lifecycle.step(&meta, tracks, &mut line.events);
            if let Some(scene) = &mut line.scene {
                scene.step(&meta, tracks, &line.lifecycle, &line.events);
            }
            line.shown.clear();
            line.shown.extend(
                tracks
                    .iter()
                    .filter(|track| matches!(track.state, TrackState::Active | TrackState::Lost))
                    .cloned(),
            );
            for event in &line.events {
                if event.kind == EventKind::End {
                    self.cascade.forget(meta.source, event.after.id);
                }
            }
            self.cascade.describe(meta.source, &mut line.shown);
        }
        if let Some(tap) = &mut self.tap {
            tap(&meta, detections, &line.shown);
        }
        {
            let _range = recorder.range_with_payload(Stage::Publish, 1, meta.seq);
            self.publish(&meta, Some(meta.captured_at));
            self.publish_frame(&meta);
        }
        drop(whole);
        let line = &mut self.lines[meta.source.index()];
        line.newest = Some(meta);
        let carried = detections.is_none();
        self.meter.frame_done(&meta, line.shown.len(), carried);
        // After its messages, which wait for none of these.
        if !carried {
            self.cascade.look(&meta, &line.shown, view.as_deref());
        }
        if let Some(recording) = &mut self.recording {
            recording.offer(&meta, view, &line.shown);
        }
        if !carried {
            self.gate.published(self.cascade.pending());
        }
    }

    /// Tells the sinks what a frame of a source, or its end, changed; `at` is `None` at the end.
    fn publish(&mut self, meta: &FrameMeta, at: Option<SystemTime>) {
        self.publish_events(meta);
        let line = &mut self.lines[meta.source.index()];
        if let Some(scene) = &mut line.scene {
            scene.tell_others(&line.name, meta, |record| tell(&mut self.sinks, record));
            scene.tell_counts(&line.name, at, |record| tell(&mut self.sinks, record));
        }
        self.publish_counts(meta);
    }

    fn publish_events(&mut self, meta: &FrameMeta) {
        let line = &mut self.lines[meta.source.index()];
        if let Some(scene) = &mut line.scene {
            scene.tell_parting(&line.name, meta, |record| tell(&mut self.sinks, record));
        }
        if !line.events.is_empty() {
            self.meter.events(line.events.len());
            let record = Record::Events {
                source: &line.name,
                frame: meta,
                events: &line.events,
            };
            tell(&mut self.sinks, &record);
            line.events.clear();
        }
    }

    fn publish_counts(&mut self, meta: &FrameMeta) {
        let line = &mut self.lines[meta.source.index()];
        for change in line.lifecycle.count_changes() {
            // A class without a label cannot come out of a checked model.
            let Some(label) = self.labels.get(usize::from(change.class)) else {
                continue;
            };
            let record = Record::Count {
                source: &line.name,
                label,
                count: change.count,
                at: meta.captured_at,
            };
            tell(&mut self.sinks, &record);
        }
    }

    /// Tells the sinks every track of a frame, where that is asked for.
    fn publish_frame(&mut self, meta: &FrameMeta) {
        if self.every_frame {
            let line = &self.lines[meta.source.index()];
            let record = Record::Frame {
                source: &line.name,
                frame: meta,
                tracks: &line.shown,
            };
            tell(&mut self.sinks, &record);
        }
    }

    fn join(&mut self, id: SourceId, mut line: Box<Line>, overlay: Box<Overlay>) {
        if let Some(recording) = &mut self.recording {
            recording.join(id, &line.name, overlay);
        }
        if let Some(scene) = &mut line.scene {
            scene.tell_counts(&line.name, None, |record| tell(&mut self.sinks, record));
        }
        for sink in &mut self.sinks {
            sink.source_joined(&line.name);
        }
        self.lines.put(id, line);
    }

    /// A source leaves. One that failed for good, or that does not end in time, never says that it has ended.
    fn leave(&mut self, id: SourceId, gone: Sender<()>) {
        if !self.lines.has(id) {
            return;
        }
        let line = &mut self.lines[id.index()];
        line.leaving = Some(gone);
        if !line.over {
            line.ending
                .get_or_insert_with(|| (SourceState::Ended, Some(LEFT.to_owned())));
        }
        self.end_if_drained(id);
    }

    fn source(&mut self, id: SourceId, state: SourceState, reason: Option<String>) {
        if !self.lines.has(id) {
            // It did not end in time, and was given up.
            return;
        }
        if state == SourceState::Ended {
            self.meter.source_state(id, state);
            self.lines[id.index()].ending = Some((state, reason));
            self.end_if_drained(id);
            return;
        }
        let line = &mut self.lines[id.index()];
        line.states.push_back((state, reason));
        let given = line.reorder.next();
        self.tell_states(id, given);
    }

    /// Tells the states of a source whose time has come when the first `given` frames of its order are through.
    fn tell_states(&mut self, id: SourceId, given: u64) {
        while let Some((state, _)) = self.lines[id.index()].states.front() {
            if *state == SourceState::Offline {
                if !self.lanes.has_parted(id, given) {
                    // Frames from before are still under way: they go on with the tracks, and those after them do not.
                    return;
                }
                // Nobody knows what happens meanwhile: who is seen when it is back is somebody new.
                self.end_tracks(id);
            }
            let next = self.lines[id.index()].states.pop_front();
            if let Some((state, reason)) = next {
                self.tell_state(id, state, reason.as_deref());
            }
        }
    }

    fn tell_state(&mut self, id: SourceId, state: SourceState, reason: Option<&str>) {
        self.meter.source_state(id, state);
        if let Some(recording) = &mut self.recording {
            match state {
                SourceState::Offline => recording.away(id),
                SourceState::Connecting | SourceState::Online => recording.back(id),
                // The last picture of a file stays.
                SourceState::Ended => {}
            }
        }
        let record = Record::Source {
            source: &self.lines[id.index()].name,
            state,
            reason,
            at: SystemTime::now(),
        };
        tell(&mut self.sinks, &record);
    }

    /// Ends the tracks of a source whose last frame is through, and says so.
    fn end_if_drained(&mut self, id: SourceId) {
        if !self.lines.has(id) {
            return;
        }
        let line = &self.lines[id.index()];
        if (line.ending.is_none() && !line.over)
            || self.cascade.is_busy_with(id)
            || self
                .lanes
                .drained(id)
                .is_none_or(|taken| taken > line.reorder.next())
        {
            return;
        }
        self.end_tracks(id);
        let line = &mut self.lines[id.index()];
        if let Some((state, reason)) = line.ending.take() {
            line.over = true;
            self.tell_state(id, state, reason.as_deref());
        }
        if let Some(gone) = self.lines[id.index()].leaving.take() {
            for sink in &mut self.sinks {
                sink.source_left(&self.lines[id.index()].name);
            }
            self.lines.drop_line(id);
            if let Some(recording) = &mut self.recording {
                recording.leave(id);
            }
            // Whoever waited may have run out of patience.
            let _ = gone.send(());
        }
    }

    fn end_tracks(&mut self, id: SourceId) {
        let line = &mut self.lines[id.index()];
        let Some(meta) = line.newest.take() else {
            return;
        };
        line.tracker.finish();
        line.lifecycle.finish(&mut line.events);
        if let Some(scene) = &mut line.scene {
            scene.finish(&line.lifecycle, &line.events);
        }
        line.shown.clear();
        for event in &line.events {
            self.cascade.forget(id, event.after.id);
        }
        self.publish(&meta, None);
    }

    fn stats(&mut self) {
        let messages = total(&self.sinks);
        let stats = self.meter.stats(messages);
        tell(&mut self.sinks, &Record::Stats(&stats));
    }

    fn finish(mut self) -> Ending {
        for id in self.lines.ids() {
            self.end_tracks(id);
            while let Some((state, reason)) = self.lines[id.index()].states.pop_front() {
                self.tell_state(id, state, reason.as_deref());
            }
        }
        self.stats();
        Ending {
            messages: self.sinks.into_iter().map(|sink| sink.close(CLOSING)).sum(),
            recording: self.recording.map(Recording::close),
        }
    }
}

fn tell(sinks: &mut [Box<dyn Sink>], record: &Record<'_>) {
    for sink in sinks {
        sink.accept(record);
    }
}

fn total(sinks: &[Box<dyn Sink>]) -> SinkCounts {
    sinks.iter().map(|sink| sink.counts()).sum()
}

#[cfg(test)]
mod tests;
