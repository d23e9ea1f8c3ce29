// SPDX-License-Identifier: Apache-2.0
//! The MQTT sink against a real mosquitto: no message is lost, and retained messages are correct.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jetwatch_publish::{ConnectionState, MqttSink, Publication, Sink, Subscriber};
use jetwatch_types::SourceState;
use support::mosquitto::{Mosquitto, client};
use support::proxy::Proxy;
use support::records::{TEST_TIMEOUT, at, next, publish_event, wait_until};

fn labels() -> Vec<String> {
    vec!["person".to_owned(), "car".to_owned()]
}

fn start(config: &jetwatch_config::MqttConfig) -> MqttSink {
    MqttSink::start(config, "dev", &labels()).expect("the thread starts")
}

fn count(sink: &mut MqttSink, count: usize) {
    sink.publish(&Publication::count("cam", "person", count, at(0)));
}

/// Adds the track numbers of the events that have arrived.
fn collect(subscriber: &Subscriber, observed: &mut BTreeSet<u64>, in_all: &mut usize) {
    while let Some((topic, payload)) = subscriber.recv_timeout(Duration::ZERO) {
        if topic.ends_with("/events") {
            let event: serde_json::Value =
                serde_json::from_slice(&payload).expect("events are JSON");
            observed.insert(event["track_id"].as_u64().expect("a number"));
            *in_all += 1;
        }
    }
}

#[test]
fn repeated_connection_losses_lose_no_message() {
    const EVENTS: u64 = 1000;
    let broker = Mosquitto::start();
    let subscriber = Subscriber::start(&broker.client(), "#").expect("subscribed");
    let proxy = Proxy::start(broker.port());
    let mut sink = start(&client(proxy.port()));
    let (mut seen, mut in_all) = (BTreeSet::new(), 0);
    // The connection breaks at arbitrary bytes: inside packets, between a message and its acknowledgement. A fixed
    // sequence, so that a failure can be repeated.
    let mut random = 12_345_u64;
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut published = 0;
    let mut cuts = u64::MAX;
    while seen.len() < EVENTS as usize {
        if proxy.cut_count() != cuts {
            cuts = proxy.cut_count();
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            proxy.cut_after(if cuts < 4 {
                20_000 + (random >> 33) % 200_000
            } else {
                0
            });
        }
        if published < EVENTS && sink.counts().queued < 200 {
            published += 1;
            publish_event(&mut sink, published);
        }
        collect(&subscriber, &mut seen, &mut in_all);
        assert!(
            Instant::now() < deadline,
            "{} of {EVENTS} seen, {:?}",
            seen.len(),
            sink.counts()
        );
    }
    assert_eq!(seen, (1..=EVENTS).collect::<BTreeSet<_>>());
    assert_eq!(proxy.cut_count(), 4, "the connection was really broken");
    let counts = Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!((counts.accepted, counts.delivered), (EVENTS, EVENTS));
    assert_eq!((counts.dropped, counts.replaced, counts.queued), (0, 0, 0));
    println!(
        "{EVENTS} events, {} received, {} duplicates",
        in_all,
        in_all - seen.len()
    );
}

#[test]
fn retained_values_are_right_for_late_subscribers_and_after_a_broker_forgot_them() {
    let mut broker = Mosquitto::start();
    let mut sink = start(&broker.client());
    for n in [1, 2, 3] {
        count(&mut sink, n);
    }
    sink.publish(&Publication::source_state(
        "cam",
        SourceState::Online,
        None,
        at(0),
    ));
    wait_until("all is delivered", || sink.counts().queued == 0);
    let see = |broker: &Mosquitto, state: &str, persons: &str| {
        for (topic, expected) in [("dev/status", "online"), ("dev/cam/counts/person", persons)] {
            let late = Subscriber::start(&broker.client(), &format!("jetwatch/{topic}"))
                .expect("subscribed");
            assert_eq!(next(&late, topic), expected);
        }
        let late =
            Subscriber::start(&broker.client(), "jetwatch/dev/cam/status").expect("subscribed");
        let message: serde_json::Value =
            serde_json::from_str(&next(&late, "cam/status")).expect("JSON");
        assert_eq!(message["state"], state);
    };
    see(&broker, "online", "3");

    broker.kill();
    let replaced_before = sink.counts().replaced;
    let monitor = sink.monitor();
    wait_until("the loss is known", || {
        monitor.connection_state() != ConnectionState::Connected
    });
    for n in [4, 5, 6] {
        count(&mut sink, n);
    }
    // Only the newest count waits.
    assert_eq!(sink.counts().replaced - replaced_before, 2);
    broker.restart();
    wait_until("the newest count is delivered", || {
        sink.counts().queued == 0
    });
    // The state of the source was not published again: the sink repeats it itself.
    see(&broker, "online", "6");
    let counts = sink.counts();
    assert_eq!((counts.accepted, counts.dropped), (7, 0), "{counts:?}");
}

#[test]
fn last_will_reports_lost_connection() {
    let broker = Mosquitto::start();
    let proxy = Proxy::start(broker.port());
    let subscriber =
        Subscriber::start(&broker.client(), "jetwatch/dev/status").expect("subscribed");
    let sink = start(&client(proxy.port()));
    assert_eq!(next(&subscriber, "dev/status"), "online");
    proxy.block();
    assert_eq!(next(&subscriber, "dev/status"), "offline");
    proxy.open();
    assert_eq!(next(&subscriber, "dev/status"), "online");
    Box::new(sink).close(TEST_TIMEOUT);
    // Sent on a clean close as well.
    assert_eq!(next(&subscriber, "dev/status"), "offline");
}

#[test]
fn closing_with_offline_broker_meets_deadline_and_counts_loss() {
    let broker = Mosquitto::configured(|_| String::new());
    let mut sink = start(&broker.client());
    for id in 1..=10 {
        publish_event(&mut sink, id);
    }
    let counts = Box::new(sink).close(Duration::from_millis(500));
    let found = (counts.accepted, counts.dropped, counts.queued);
    assert_eq!(found, (10, 10, 0), "{counts:?}");
}
