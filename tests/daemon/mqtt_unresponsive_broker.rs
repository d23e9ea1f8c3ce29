// SPDX-License-Identifier: Apache-2.0
//! A broker that goes silent without closing the connection, as behind a dead link. It is simulated here, because a
//! real one cannot do so at a given moment.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use jetwatch_config::MqttConfig;
use jetwatch_mqtt::{Packet, ReasonCode};
use jetwatch_publish::{MqttSink, Sink};
use support::records::{TEST_TIMEOUT, publish_event, wait_until};
use support::scripted::{Answer, Scripted};

/// A broker that is silent after CONNACK on connections up to this number; with each packet after CONNECT, and the number of its connection.
fn silent_broker(connections: usize) -> (Scripted, Receiver<(usize, Packet)>) {
    let (sender, packets) = mpsc::channel();
    let broker = Scripted::start(move |number, packet| {
        if matches!(packet, Packet::Connect(_)) {
            return Answer::Usual;
        }
        // The test may have ended.
        let _ = sender.send((number, packet.clone()));
        match number <= connections {
            true => Answer::Bytes(Vec::new()),
            false => Answer::Usual,
        }
    });
    (broker, packets)
}

#[test]
fn unresponsive_broker_is_reconnected_and_message_resent_as_duplicate() {
    let (broker, packets) = silent_broker(1);
    let config = MqttConfig {
        keep_alive: Duration::from_secs(1),
        ..broker.client()
    };
    let mut sink = MqttSink::start(&config, "dev", &[]).expect("the thread starts");
    publish_event(&mut sink, 1);
    wait_until("the second connection delivers it", || {
        sink.counts().delivered == 1
    });
    Box::new(sink).close(TEST_TIMEOUT);
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some((2, Packet::Disconnect(_)))) {
        seen.push(
            packets
                .recv_timeout(TEST_TIMEOUT)
                .expect("the client ends the second connection"),
        );
    }
    let packets = seen;
    let on = |connection| {
        let of = packets
            .iter()
            .filter(move |(number, _)| *number == connection);
        of.map(|(_, packet)| packet)
    };
    let shown = |packet: &Packet| match packet {
        Packet::Publish(publish) if publish.retain => "value",
        Packet::Publish(publish) if publish.dup => "event again",
        Packet::Publish(_) => "event",
        other => other.name(),
    };
    let [first, second] = [1, 2].map(|number| on(number).map(shown).collect::<Vec<_>>());
    // A ping before the timeout.
    assert_eq!(first[..3], ["value", "event", "PINGREQ"]);
    assert_eq!(second, ["value", "event again", "value", "DISCONNECT"]);
    let events = packets.iter().filter_map(|(_, packet)| match packet {
        Packet::Publish(publish) if !publish.retain => Some(&publish.payload[..]),
        _ => None,
    });
    let [first, second] = events.collect::<Vec<_>>()[..] else {
        panic!("two events");
    };
    // Only its age was added.
    let (body, _) = first.split_at(first.len() - 1);
    let age = second.strip_prefix(body).expect("the same event");
    assert!(age.starts_with(b",\"late_ms\":"), "{second:?}");
}

#[test]
fn close_timeout_triggers_last_will() {
    let (broker, packets) = silent_broker(usize::MAX);
    let config = broker.client();
    let mut sink = MqttSink::start(&config, "dev", &[]).expect("the thread starts");
    publish_event(&mut sink, 1);
    let next = || packets.recv_timeout(TEST_TIMEOUT).expect("a packet").1;
    while !matches!(next(), Packet::Publish(publish) if !publish.retain) {}
    let counts = Box::new(sink).close(Duration::from_secs(1));
    let found = (counts.accepted, counts.delivered, counts.dropped);
    assert_eq!(found, (1, 0, 1), "{counts:?}");
    let goodbye = loop {
        if let Packet::Disconnect(goodbye) = next() {
            break goodbye;
        }
    };
    assert_eq!(goodbye.code, ReasonCode::DISCONNECT_WITH_WILL);
}
