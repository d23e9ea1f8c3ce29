//! The MQTT sink against a real mosquitto: no message is lost, and retained messages are correct.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jetwatch_publish::{ConnectionState, MqttSink, Publication, Sink, Subscriber};
use jetwatch_types::SourceState;
use support::mosquitto::{Mosquitto, client};
use support::proxy::Proxy;
use support::records::{TEST_TIMEOUT, at, next, publish_event, stats, wait_until};

fn labels() -> Vec<String> {
    vec!["person".to_owned(), "car".to_owned()]
}

fn start(config: &jetwatch_config::MqttConfig) -> MqttSink {
    MqttSink::start(config, "dev", &labels()).expect("the thread starts")
}

fn count(sink: &mut MqttSink, count: usize) {
    sink.publish(&Publication::Count {
        source: "cam",
        label: "person",
        count,
        at: at(0),
    });
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
    const EVENTS: u64 = 2000;
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
            proxy.cut_after(if cuts < 8 {
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
    assert_eq!(proxy.cut_count(), 8, "the connection was really broken");
    let counts = Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!(
        (counts.accepted, counts.delivered),
        (EVENTS, EVENTS),
        "{counts:?}"
    );
    assert_eq!(
        (counts.dropped, counts.replaced, counts.queued),
        (0, 0, 0),
        "{counts:?}"
    );
    println!(
        "{EVENTS} events, {} received, {} duplicates",
        in_all,
        in_all - seen.len()
    );
}

#[test]
fn killed_broker_loses_no_unacknowledged_message() {
    let mut broker = Mosquitto::start();
    let proxy = Proxy::start(broker.port());
    let mut sink = start(&client(proxy.port()));
    let monitor = sink.monitor();
    let (mut seen, mut in_all) = (BTreeSet::new(), 0);
    let mut published = 0;
    // The broker is responsible for acknowledged messages: mosquitto may be killed before it has forwarded them.
    let mut acknowledged = 0;
    for generation in 0..3 {
        // The sink can connect only when the subscriber of this generation is connected.
        let subscriber = Subscriber::start(&broker.client(), "#").expect("subscribed");
        proxy.open();
        wait_until("messages flow", || {
            published += 1;
            publish_event(&mut sink, published);
            collect(&subscriber, &mut seen, &mut in_all);
            seen.contains(&(1 + 400 * generation))
        });
        let goal = 400 * (generation + 1);
        while published < goal {
            published += 1;
            publish_event(&mut sink, published);
        }
        if generation < 2 {
            // Killed with messages under way.
            broker.kill();
            proxy.block();
            wait_until("the end of the connection is seen", || {
                collect(&subscriber, &mut seen, &mut in_all);
                subscriber.ended().is_some()
            });
            wait_until("the sink sees it, too", || {
                !matches!(monitor.connection_state(), ConnectionState::Connected)
            });
            collect(&subscriber, &mut seen, &mut in_all);
            // Brokers acknowledge in order.
            acknowledged = sink.counts().delivered;
            broker.restart();
        } else {
            wait_until("all have arrived", || {
                collect(&subscriber, &mut seen, &mut in_all);
                (acknowledged + 1..=published).all(|id| seen.contains(&id))
            });
        }
        let counts = sink.counts();
        assert_eq!(
            counts.accepted,
            counts.delivered + counts.dropped + counts.replaced + counts.queued,
            "{counts:?}"
        );
    }
    let missing: Vec<_> = (1..=published).filter(|id| !seen.contains(id)).collect();
    assert!(missing.len() < 10, "{missing:?} of {acknowledged}");
    let counts = Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!(
        (counts.accepted, counts.delivered, counts.dropped),
        (published, published, 0),
        "{counts:?}"
    );
}

#[test]
fn late_broker_receives_queued_messages() {
    let mut broker = Mosquitto::configured(|_| "allow_anonymous true\n".to_owned());
    let mut sink = start(&broker.client());
    let monitor = sink.monitor();
    for id in 1..=50 {
        publish_event(&mut sink, id);
    }
    wait_until("the failure is known", || {
        matches!(monitor.connection_state(), ConnectionState::Failed { .. })
    });
    match monitor.connection_state() {
        ConnectionState::Failed { reason, refused } => {
            assert!(
                reason.contains("cannot connect") && reason.contains("publish.mqtt.broker"),
                "{reason}"
            );
            assert!(!refused);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(sink.counts().queued, 50);
    broker.restart();
    wait_until("the queue is delivered", || sink.counts().delivered == 50);
    assert_eq!(monitor.connection_state(), ConnectionState::Connected);
}

#[test]
fn retained_values_are_right_for_late_subscribers_and_after_a_broker_forgot_them() {
    let mut broker = Mosquitto::start();
    let mut sink = start(&broker.client());
    for n in [1, 2, 3] {
        count(&mut sink, n);
    }
    sink.publish(&Publication::Source {
        source: "cam",
        state: SourceState::Online,
        reason: None,
        at: at(0),
    });
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
    assert_eq!(
        sink.counts().replaced - replaced_before,
        2,
        "only the newest count waits"
    );
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
    assert_eq!(
        next(&subscriber, "dev/status"),
        "offline",
        "sent on a clean close as well"
    );
}

#[test]
fn a_full_queue_drops_the_oldest_and_counts_them() {
    let mut broker = Mosquitto::configured(|_| "allow_anonymous true\n".to_owned());
    let config = jetwatch_config::MqttConfig {
        queue_messages: 100,
        ..broker.client()
    };
    let mut sink = start(&config);
    for id in 1..=250 {
        publish_event(&mut sink, id);
    }
    sink.publish(&Publication::Stats(&stats()));
    let counts = sink.counts();
    assert_eq!(
        (counts.accepted, counts.dropped, counts.queued),
        (251, 151, 100),
        "{counts:?}"
    );
    broker.restart();
    // The subscriber may come after the sink, which reconnects by itself: so the counts are the proof here.
    wait_until("the newest hundred and the gap are delivered", || {
        sink.counts().delivered == 101
    });
}

#[test]
fn closing_with_offline_broker_meets_deadline_and_counts_loss() {
    let broker = Mosquitto::configured(|_| String::new());
    let mut sink = start(&broker.client());
    for id in 1..=10 {
        publish_event(&mut sink, id);
    }
    let counts = Box::new(sink).close(Duration::from_millis(500));
    assert_eq!(
        (counts.accepted, counts.dropped, counts.queued),
        (10, 10, 0),
        "{counts:?}"
    );
}
