// SPDX-License-Identifier: Apache-2.0
//! Throughput of the MQTT sink in events/s, and CPU time per event. Asserts that all arrive, and prints the figures:
//! `cargo nextest run --release --success-output immediate --test daemon publish_throughput`.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::time::{Duration, Instant};

use jetwatch_publish::{Encoder, MqttSink, Publication, Sink};
use jetwatch_telemetry::{process_usage, thread_cpu_time};
use jetwatch_types::{Classes, EventKind};
use support::mosquitto::Mosquitto;
use support::records::{TEST_TIMEOUT, event, frame};

const EVENTS: u64 = 20_000;

#[test]
fn twenty_thousand_events_arrive_at_the_full_rate_and_at_two_thousand_a_second() {
    let broker = Mosquitto::start();
    for (name, rate) in [("as fast as they go", None), ("2,000 a second", Some(2000))] {
        let events = if rate.is_some() { EVENTS / 4 } else { EVENTS };
        let mut sink = MqttSink::start(&broker.client(), "dev", &["person".to_owned()])
            .expect("the thread starts");
        let (started, cpu) = (Instant::now(), process_usage().cpu);
        let mut accepting = Duration::ZERO;
        for id in 1..=events {
            let due = rate.map(|rate| started + Duration::from_secs(id) / rate);
            while sink.counts().queued > 5000 || due.is_some_and(|due| Instant::now() < due) {
                // Not a wait for anything to happen: the pace of a camera.
                std::thread::sleep(Duration::from_micros(300));
            }
            let record = [event(EventKind::Update, id)];
            let meta = frame(id);
            let before = thread_cpu_time();
            sink.publish(&Publication::Events {
                source: "cam",
                frame: &meta,
                events: &record,
                recording: None,
                snapshots: &[],
            });
            accepting += thread_cpu_time() - before;
        }
        let closing = Instant::now();
        let counts = Box::new(sink).close(TEST_TIMEOUT);
        let found = (counts.accepted, counts.delivered, counts.dropped);
        assert_eq!(found, (events, events, 0), "{counts:?}");
        let per_event = |time: Duration| time.as_secs_f64() * 1e6 / events as f64;
        println!(
            "{name}: {:.0} events/s acknowledged, {:.1} µs CPU per event in all ({:.1} µs of it in accept), close took {:.0} ms",
            events as f64 / started.elapsed().as_secs_f64(),
            per_event(process_usage().cpu - cpu),
            per_event(accepting),
            closing.elapsed().as_secs_f64() * 1e3,
        );
    }
    let mut encoder = Encoder::new("dev", &Classes::new(&["person".to_owned()], &[]));
    let (record, meta) = ([event(EventKind::Update, 1)], frame(1));
    let (before, mut bytes) = (thread_cpu_time(), 0);
    for _ in 0..EVENTS {
        let record = Publication::Events {
            source: "cam",
            frame: &meta,
            events: &record,
            recording: None,
            snapshots: &[],
        };
        encoder.encode(&record, jetwatch_publish::Timestamp::now(), |json| {
            bytes += json.len()
        });
    }
    let cpu = thread_cpu_time() - before;
    assert!(bytes > 0);
    println!(
        "encoding: {:.2} µs per event of {} bytes",
        cpu.as_secs_f64() * 1e6 / EVENTS as f64,
        bytes as u64 / EVENTS
    );
}
