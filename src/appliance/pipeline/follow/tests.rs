//! The follower of one source whose frames come late: what was under way when the source went away.

use std::sync::Mutex;

use super::*;
use crate::course::Course;
use crate::sieve::Sieve;
use crate::{Meter, intervals};
use jetwatch_config::{Config, Interval};
use jetwatch_source::SourceCounters;
use jetwatch_telemetry::{Pulses, thread_names};
use jetwatch_track::Lifecycle;
use jetwatch_types::{Frame, Size};

const SOURCE: SourceId = SourceId(0);

/// Keeps what it is told, in words.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Sink for Told {
    fn accept(&mut self, record: &Record<'_>) {
        let mut told = self.0.lock().expect("whole");
        match record {
            Record::Events { events, .. } => told.extend(
                events
                    .iter()
                    .map(|event| format!("{:?} {}", event.kind, event.after.id)),
            ),
            Record::Count { count, .. } => told.push(format!("count {count}")),
            Record::Source { state, .. } => told.push(format!("{state:?}")),
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

/// A follower with one source, an object in each of whose frames stands still.
struct Bench {
    follower: Follower,
    told: Told,
    seq: u64,
}

impl Bench {
    fn new() -> Self {
        let text = "sources: [{name: a, uri: synthetic://traffic}]\ndetector: {backend: scripted}\n\
                    tracker: {probation_frames: 1}\npublish: {update_interval_ms: 0}\n";
        let config = Config::from_str("f.yaml", text).expect("a good file");
        let (source, labels) = (&config.sources[0], vec!["person".to_owned()]);
        let recorder = Recorder::default();
        let lanes = Arc::new(Lanes::new(&[], 1, None));
        lanes.add(true, Interval::Frames(0)).expect("an id");
        let meter = Meter::new(Instant::now(), 0, 1, Arc::clone(&lanes), recorder.clone());
        meter.join("a", Arc::<SourceCounters>::default());
        let mut lines = Lines::default();
        let line = Line::new(
            "a",
            intervals::tracker(&config, source),
            Lifecycle::new(Duration::ZERO),
            None,
            Sieve::new(source, &labels).expect("all labels"),
        );
        lines.put(SOURCE, Box::new(line));
        let told = Told::default();
        let follower = Follower {
            lines,
            labels,
            sinks: vec![Box::new(told.clone())],
            cascade: Cascade::new(&[], Course::default().lag()).0,
            lanes,
            meter: Arc::new(meter),
            recorder,
            stats_interval: Duration::from_secs(60),
            every_frame: false,
            tap: None,
            recording: None,
            gate: Gate::default(),
            stop: StopToken::default(),
            pulse: Pulses::default().join(thread_names::TRACK),
        };
        Self {
            follower,
            told,
            seq: 0,
        }
    }

    /// The source's next frame, in its lane.
    fn offer(&mut self) {
        let frame = Frame::black(0, self.seq, Size::new(100, 100));
        self.follower.lanes.offer(frame);
        self.seq += 1;
    }

    /// The frame in the lane, in the hands of a worker.
    fn take(&self) -> (u64, FrameMeta) {
        let mut batch = Vec::new();
        self.follower
            .lanes
            .next_batch(1, Duration::ZERO, &mut batch);
        (batch[0].ticket, batch[0].frame.meta)
    }

    /// The worker is through with it.
    fn done(&mut self, (ticket, meta): (u64, FrameMeta)) {
        let found = Detection {
            class: 0,
            score: 0.9,
            xyxy: [10.0, 10.0, 40.0, 40.0],
        };
        self.follower
            .result(ticket, (meta, Some(vec![found]), None));
    }

    /// The source says how it is, as its thread does.
    fn state(&mut self, state: SourceState) {
        if state == SourceState::Offline {
            self.follower.lanes.part(SOURCE);
        }
        self.follower.source(SOURCE, state, None);
    }

    /// What was told since the last look.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.0.lock().expect("whole"))
    }
}

#[test]
fn frames_in_flight_do_not_revive_a_source_that_went_away() {
    let mut bench = Bench::new();
    bench.state(SourceState::Online);
    bench.offer();
    let first = bench.take();
    bench.done(first);
    assert_eq!(bench.told(), ["Online", "New 1", "count 1"]);

    bench.offer();
    let second = bench.take();
    bench.offer();
    bench.state(SourceState::Offline);
    bench.state(SourceState::Connecting);
    assert!(bench.told().is_empty(), "two frames are under way");
    let third = bench.take();
    bench.done(third);
    assert!(bench.told().is_empty(), "it is not its turn");
    bench.done(second);
    let told = bench.told();
    let end = ["End 1", "count 0", "Offline", "Connecting"];
    assert!(told.ends_with(&end.map(str::to_owned)), "{told:?}");

    bench.state(SourceState::Online);
    bench.offer();
    let fourth = bench.take();
    bench.done(fourth);
    assert_eq!(bench.told(), ["Online", "New 2", "count 1"], "somebody new");
}

#[test]
fn late_frames_of_two_times_are_told_apart_and_a_replaced_one_is_not_waited_for() {
    let mut bench = Bench::new();
    bench.offer();
    let first = bench.take();
    bench.offer();
    bench.state(SourceState::Offline);
    bench.state(SourceState::Online);
    bench.offer();
    let second = bench.take();
    bench.done(second);
    assert!(bench.told().is_empty(), "the first one is under way");
    bench.done(first);
    let wanted = [
        "New 1", "count 1", "End 1", "count 0", "Offline", "Online", "New 2", "count 1",
    ];
    assert_eq!(bench.told(), wanted);
}

#[test]
fn nothing_waits_where_nothing_is_under_way() {
    let mut bench = Bench::new();
    bench.state(SourceState::Connecting);
    bench.state(SourceState::Offline);
    assert_eq!(bench.told(), ["Connecting", "Offline"]);
}
