// SPDX-License-Identifier: Apache-2.0
//! The tracking stage with one source: frames that are in the pipeline when the source goes offline.

use parking_lot::Mutex;

use super::states::SourceStates;
use super::*;
use crate::batcher::BatchSettings;
use crate::stats::StatsCollector;
use crate::switches::SourceSwitches;
use jetwatch_config::{Config, Interval};
use jetwatch_publish::{Publication, Reply, Sink};
use jetwatch_source::SourceCounters;
use jetwatch_telemetry::Heartbeats;
use jetwatch_types::{Classes, Frame, Size, SourceState};

const SOURCE: SourceId = SourceId(0);

/// Keeps what is published, as text.
#[derive(Clone, Default)]
struct RecordedText(Arc<Mutex<Vec<String>>>);

impl Sink for RecordedText {
    fn publish(&mut self, publication: &Publication<'_>) {
        let mut texts = self.0.lock();
        match publication {
            Publication::Events { events, .. } => texts.extend(
                events
                    .iter()
                    .map(|event| format!("{:?} {}", event.kind, event.after.id)),
            ),
            Publication::Count(count) => texts.push(format!("count {}", count.count)),
            Publication::Source(status) => texts.push(format!("{:?}", status.state)),
            Publication::Reply { reply, .. } => {
                texts.push(format!("reply {}", reply.id.as_deref().unwrap_or("none")))
            }
            _ => {}
        }
    }

    fn counts(&self) -> SinkCounts {
        SinkCounts::default()
    }

    fn close(self: Box<Self>, _: Duration) -> SinkCounts {
        SinkCounts::default()
    }
}

/// A tracking stage with one source and a stationary object in each frame.
struct TrackStageFixture {
    stage: TrackStage,
    published: RecordedText,
    seq: u64,
}

impl TrackStageFixture {
    fn new() -> Self {
        let text = "sources: [{name: a, uri: synthetic://traffic}]\ndetector: {backend: scripted}\n\
                    tracker: {probation_frames: 1}\npublish: {update_interval_ms: 0}\n";
        let config = Config::from_str("f.yaml", text).expect("a good file");
        let classes = Arc::new(Classes::new(&["person".to_owned()], &[]));
        let recorder = Recorder::default();
        let batcher = Arc::new(Batcher::new(&[], 1, None));
        batcher.add(true, Interval::Frames(0)).expect("an id");
        let stats = StatsCollector::new(
            Instant::now(),
            0,
            1,
            BatchSettings::default(),
            Arc::clone(&batcher),
            recorder.clone(),
            Vec::new(),
        );
        stats.add_source("a", Arc::<SourceCounters>::default());
        let mut sources = SourceTable::default();
        let (source, switches) = (&config.sources[0], SourceSwitches::default());
        let tracked =
            TrackedSource::new(&config, source, &classes, [0.0, 1.0], &switches, None, None);
        sources.insert(SOURCE, Box::new(tracked.expect("all labels")));
        let published = RecordedText::default();
        let stage = TrackStage {
            sources,
            publisher: Publisher {
                sinks: vec![Box::new(published.clone())],
                every_frame: false,
                stats: Arc::new(stats),
                max_queued: Vec::new(),
            },
            images: FrameImages::default(),
            secondary: SecondaryInference::new(&[]).0,
            clips: None,
            batcher,
            recorder,
            stats_interval: Duration::from_secs(60),
            frame_callback: None,
            stop: StopToken::default(),
            heartbeat: Heartbeats::default().register(thread_names::TRACK),
        };
        Self {
            stage,
            published,
            seq: 0,
        }
    }

    /// Queues the next frame of the source.
    fn push_frame(&mut self) {
        let frame = Frame::black(0, self.seq, Size::new(100, 100));
        self.stage.batcher.push(frame);
        self.seq += 1;
    }

    /// Takes the queued frame, as a worker does.
    fn pop_frame(&self) -> (u64, FrameMeta) {
        let mut batch = Vec::new();
        self.stage.batcher.next_batch(1, Duration::ZERO, &mut batch);
        (batch[0].order, batch[0].frame.meta)
    }

    /// Sends the result of a frame, as a worker does.
    fn complete(&mut self, (order, meta): (u64, FrameMeta)) {
        let found = Detection {
            class: 0,
            score: 0.9,
            xyxy: [10.0, 10.0, 40.0, 40.0],
        };
        self.stage.on_frame_result(
            order,
            FrameResult {
                meta,
                in_worker: None,
                detections: Some(vec![found]),
                embeddings: Vec::new(),
                gray: None,
                full_image: None,
            },
        );
    }

    /// Changes the state of the source, as its thread does.
    fn set_state(&mut self, state: SourceState) {
        if state == SourceState::Offline {
            self.stage.batcher.mark_discontinuity(SOURCE);
        }
        self.stage.on_source_state(SOURCE, state, None);
    }

    /// What was published since the last call.
    fn take_published(&self) -> Vec<String> {
        std::mem::take(&mut *self.published.0.lock())
    }
}

#[test]
fn in_flight_frames_do_not_mark_offline_source_online() {
    let mut fixture = TrackStageFixture::new();
    fixture.set_state(SourceState::Online);
    fixture.push_frame();
    let first = fixture.pop_frame();
    fixture.complete(first);
    assert_eq!(fixture.take_published(), ["Online", "New 1", "count 1"]);

    fixture.push_frame();
    let second = fixture.pop_frame();
    fixture.push_frame();
    fixture.set_state(SourceState::Offline);
    fixture.set_state(SourceState::Connecting);
    // Two frames are under way.
    assert!(fixture.take_published().is_empty());
    let third = fixture.pop_frame();
    fixture.complete(third);
    assert!(fixture.take_published().is_empty(), "it is not its turn");
    fixture.complete(second);
    let published = fixture.take_published();
    let end = ["End 1", "count 0", "Offline"];
    assert!(
        published.ends_with(&end.map(str::to_owned)),
        "{published:?}"
    );

    fixture.set_state(SourceState::Online);
    fixture.push_frame();
    let fourth = fixture.pop_frame();
    fixture.complete(fourth);
    // A new track.
    assert_eq!(fixture.take_published(), ["Online", "New 2", "count 1"]);
}

#[test]
fn late_frames_keep_their_side_of_a_discontinuity_and_replaced_ones_are_not_awaited() {
    let mut fixture = TrackStageFixture::new();
    fixture.push_frame();
    let first = fixture.pop_frame();
    fixture.push_frame();
    fixture.set_state(SourceState::Offline);
    fixture.set_state(SourceState::Online);
    fixture.push_frame();
    let second = fixture.pop_frame();
    fixture.complete(second);
    // The first one is under way.
    assert!(fixture.take_published().is_empty());
    fixture.complete(first);
    let wanted = [
        "New 1", "count 1", "End 1", "count 0", "Offline", "Online", "New 2", "count 1",
    ];
    assert_eq!(fixture.take_published(), wanted);
}

#[test]
fn offline_is_published_immediately_without_in_flight_frames() {
    let mut fixture = TrackStageFixture::new();
    fixture.set_state(SourceState::Connecting);
    fixture.set_state(SourceState::Offline);
    assert_eq!(fixture.take_published(), ["Connecting", "Offline"]);
}

#[test]
fn held_offline_state_ends_tracks_and_is_published_when_due() {
    let hold = Duration::from_secs(3600);
    let mut fixture = TrackStageFixture::new();
    let source = &mut fixture.stage.sources[SOURCE];
    source.states = SourceStates::new(hold);
    fixture.set_state(SourceState::Online);
    fixture.push_frame();
    let first = fixture.pop_frame();
    fixture.complete(first);
    assert_eq!(fixture.take_published(), ["Online", "New 1", "count 1"]);
    fixture.set_state(SourceState::Offline);
    fixture.set_state(SourceState::Connecting);
    assert_eq!(fixture.take_published(), ["End 1", "count 0"]);
    fixture.set_state(SourceState::Online);
    fixture.set_state(SourceState::Offline);
    fixture.stage.publish_due_states(Instant::now());
    assert!(fixture.take_published().is_empty(), "it may return");
    // The stage wakes for it.
    assert!(fixture.stage.state_due().is_some());
    fixture.stage.publish_due_states(Instant::now() + hold);
    assert_eq!(fixture.take_published(), ["Offline"]);
    assert_eq!(fixture.stage.state_due(), None);
}

#[test]
fn control_messages_follow_earlier_inputs_and_are_not_lost_at_shutdown() {
    let fixture = TrackStageFixture::new();
    let (inputs, input_rx) = crossbeam_channel::unbounded();
    let (control, control_rx) = control_channel();
    let state = TrackInput::SourceState {
        id: SOURCE,
        state: SourceState::Online,
        reason: None,
    };
    inputs.send(state).expect("a receiver");
    inputs.send(TrackInput::Shutdown).expect("a receiver");
    for id in ["1", "2", "3"] {
        let reply = Reply {
            reply_to: None,
            id: Some(id.to_owned()),
            name: None,
            error: None,
        };
        let message = ControlMessage::CommandReply(reply);
        control.send(message).expect("a receiver");
    }
    let published = fixture.published.clone();
    fixture.stage.run(&input_rx, &control_rx);
    let published = published.0.lock();
    assert_eq!(*published, ["Online", "reply 1", "reply 2", "reply 3"]);
}
