// SPDX-License-Identifier: Apache-2.0
//! Messages to publish, and waiting by polling.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jetwatch_platform::throttling::Cause;
use jetwatch_platform::{
    Cpu, Engine, EngineKind, EventCounter, Occupancy, Rail, SensorSnapshot, Temperature,
};
use jetwatch_publish::{
    MachineStats, Publication, SecondaryStats, Sink, SourceStats, Stats, Subscriber, Utc,
};
use jetwatch_telemetry::{Stage, StageSummary};
use jetwatch_types::SourceState;
use jetwatch_types::{
    EventKind, FrameMeta, Size, SourceId, Track, TrackEvent, TrackId, TrackState,
};

/// Long, because the tests share busy cores.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Polls until `done`, and fails the test after [`TEST_TIMEOUT`].
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !done() {
        assert!(
            Instant::now() < deadline,
            "not within {} s: {what}",
            TEST_TIMEOUT.as_secs()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The next message whose topic ends with `suffix`.
pub fn next(subscriber: &Subscriber, suffix: &str) -> String {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let (topic, payload) = subscriber
            .recv_timeout(left)
            .unwrap_or_else(|| panic!("no message on …{suffix}: {:?}", subscriber.ended()));
        if topic.ends_with(suffix) {
            return String::from_utf8(payload).expect("payloads are text");
        }
    }
}

/// A frame of 640×480 with this number.
pub fn frame(seq: u64) -> FrameMeta {
    FrameMeta {
        source: SourceId(0),
        seq,
        pts: Some(Duration::from_millis(33 * seq)),
        captured_at: at(seq),
        received_at: Instant::now(),
        source_size: Size::new(640, 480),
    }
}

/// Times of day, 33 ms apart.
pub fn at(seq: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000) + Duration::from_millis(33 * seq)
}

/// A track of class 0 with this number.
pub fn track(id: u64) -> Track {
    Track {
        id: TrackId(id),
        state: TrackState::Active,
        class: 0,
        score: 0.873_312_9,
        top_score: 0.9,
        xyxy: [10.04, 20.0, 110.0, 220.0],
        age_frames: 12,
        hits: 10,
        lost_frames: 0,
        attributes: Default::default(),
    }
}

/// A complete event about track `id`.
pub fn event(kind: EventKind, id: u64) -> TrackEvent {
    let after = Track {
        state: if kind == EventKind::End {
            TrackState::Ended
        } else {
            TrackState::Active
        },
        ..track(id)
    };
    TrackEvent {
        kind,
        before: (kind != EventKind::New).then(|| track(id)),
        after,
        started_at: at(id),
        frame_at: at(id + 30),
        ended_at: (kind == EventKind::End).then(|| at(id + 20)),
        duration: Duration::from_millis(33 * if kind == EventKind::End { 20 } else { 30 }),
        embedding: None,
    }
}

/// Publishes the event `new` of track `id`.
pub fn publish_event(sink: &mut impl Sink, id: u64) {
    let events = [event(EventKind::New, id)];
    sink.publish(&Publication::Events {
        source: "cam",
        frame: &frame(id),
        events: &events,
        recording: None,
        snapshots: &[],
    });
}

/// Statistics with one source.
pub fn stats() -> Stats {
    Stats {
        sent_at: Utc(at(40)),
        uptime: Duration::from_secs(61),
        fps: 29.97,
        cpu_ms_per_frame: 3.5,
        sources: vec![SourceStats {
            name: "cam".to_owned(),
            state: SourceState::Online,
            frames: 1800,
            dropped: 2,
            reconnects: 1,
            fps: 29.97,
            tracks: 4,
            interval: 3,
            skipped: 1350,
        }],
        secondary: vec![SecondaryStats {
            name: "color".to_owned(),
            objects_per_frame: 3.4,
            suggested_batch_size: 3,
            crops: 90,
            batches: 30,
            mean_batch: 3.0,
            ..SecondaryStats::default()
        }],
        stages: vec![StageSummary {
            stage: Stage::Infer,
            count: 900,
            items: 1800,
            total_ms: 4500.0,
            cpu_ms: Some(4400.0),
            busy_ms: Some(4500.0),
            mean_ms: 5.0,
            p50_ms: 4.9,
            p95_ms: 6.0,
            p99_ms: 7.5,
            max_ms: 9.0,
        }],
        ..Stats::default()
    }
}

/// Statistics with all values of a machine.
pub fn machine_stats() -> Stats {
    let cpu = |number, khz: Option<u64>| Cpu {
        number,
        is_online: khz.is_some(),
        ticks: None,
        khz,
        min_khz: khz,
        max_khz: khz,
    };
    let zone = |name: &str, celsius| Temperature {
        name: name.to_owned(),
        celsius,
    };
    let readings = SensorSnapshot {
        cpus: vec![cpu(0, Some(1_420_800)), cpu(1, None)],
        engines: vec![Engine {
            kind: EngineKind::Gpu,
            name: "17000000.gv11b".to_owned(),
            load_percent: Some(42.5),
            hz: Some(803_250_000),
            min_hz: Some(114_750_000),
            max_hz: Some(854_250_000),
            hardware_hz: Some(1_109_250_000),
        }],
        temperatures: vec![zone("CPU-therm", Some(41.5)), zone("cv0-thermal", None)],
        rails: vec![Rail {
            name: "VDD_IN".to_owned(),
            millivolts: Some(4984),
            milliamperes: Some(1856),
            limit_milliamperes: Some(3000),
            alarm: Some(false),
        }],
        over_current: vec![EventCounter {
            name: "oc3".to_owned(),
            count: 4,
        }],
        ..SensorSnapshot::default()
    };
    Stats {
        machine: Some(MachineStats {
            readings: Arc::new(readings),
            cpu_loads: vec![(0, 33.333)],
            throttled_by: vec![Cause::OverCurrent("oc3".to_owned())],
            throttled_times: 3,
            read_in: Duration::from_micros(2500),
        }),
        occupancy: Some(Occupancy {
            allowed_cores: 6,
            quota_cores: Some(4.0),
            own_cores: 1.5,
            foreign_cores: 0.25,
            core_wait: Some(0.125),
            ..Occupancy::default()
        }),
        ..stats()
    }
}
