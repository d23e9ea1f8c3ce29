// SPDX-License-Identifier: Apache-2.0
//! Several brokers tried in turn, and what MQTT 5 adds: expiry of messages, response topics. Real mosquittos.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jetwatch_config::MqttConfig;
use jetwatch_publish::{
    CommandListener, CommandMessage, MqttSink, Publication, Reply, Sink, Subscriber,
};
use jetwatch_types::TrackId;
use support::mosquitto::{Mosquitto, program};
use support::records::{TEST_TIMEOUT, at, publish_event, wait_until};

fn both(first: &Mosquitto, second: &Mosquitto) -> MqttConfig {
    MqttConfig {
        alternatives: vec![second.client().broker],
        ..first.client()
    }
}

fn start(config: &MqttConfig) -> MqttSink {
    MqttSink::start(config, "dev", &["person".to_owned()]).expect("the thread starts")
}

/// Track numbers of the events that have arrived.
fn arrived(subscriber: &Subscriber, seen: &mut BTreeSet<u64>) {
    while let Some((topic, payload)) = subscriber.recv_timeout(Duration::ZERO) {
        if topic.ends_with("/events") {
            let event: serde_json::Value =
                serde_json::from_slice(&payload).expect("events are JSON");
            seen.insert(event["track_id"].as_u64().expect("a number"));
        }
    }
}

/// Waits for a message as `mosquitto_sub` prints it in the form `format`.
fn subscribe(broker: &Mosquitto, topic: &str, format: &str) -> Child {
    Command::new(program("mosquitto_sub"))
        .args(["-V", "mqttv5", "-h", "127.0.0.1"])
        .args(["-p", &broker.port().to_string(), "-q", "1", "-C", "1"])
        .args(["-W", "30", "-t", topic, "-F", format])
        .stdout(Stdio::piped())
        .spawn()
        .expect("mosquitto_sub starts")
}

fn printed(subscriber: Child) -> String {
    let output = subscriber.wait_with_output().expect("it ends");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim_end()
        .to_owned()
}

#[test]
fn brokers_are_tried_in_turn_and_no_event_is_lost() {
    let mut first = Mosquitto::configured(|_| "allow_anonymous true\n".to_owned());
    let mut second = Mosquitto::start();
    let at_second = Subscriber::start(&second.client(), "#").expect("subscribed");
    let mut sink = start(&both(&first, &second));
    let mut seen = BTreeSet::new();
    (1..=50).for_each(|number| publish_event(&mut sink, number));
    wait_until("the second has what the first cannot take", || {
        arrived(&at_second, &mut seen);
        seen.len() == 50
    });
    // As if a node of a cluster fails.
    first.restart();
    let at_first = Subscriber::start(&first.client(), "#").expect("subscribed");
    second.kill();
    (51..=100).for_each(|number| publish_event(&mut sink, number));
    wait_until("the first has all that came afterwards", || {
        arrived(&at_first, &mut seen);
        (1..=100).all(|number| seen.contains(&number))
    });
    let counts = Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!((counts.delivered, counts.dropped), (100, 0), "{counts:?}");
}

#[test]
fn subscriber_takes_the_first_broker_that_accepts() {
    let first = Mosquitto::configured(|_| "allow_anonymous true\n".to_owned());
    let second = Mosquitto::start();
    Subscriber::start(&both(&first, &second), "#").expect("the second accepts");
    let mut nowhere = both(&first, &first);
    nowhere.alternatives.push(nowhere.broker.clone());
    let error = Subscriber::start(&nowhere, "#").expect_err("none is there");
    let text = error.to_string();
    assert!(
        text.starts_with("none of the 3 brokers") && text.matches("cannot connect").count() == 3,
        "{text}"
    );
}

#[test]
fn events_expire_at_the_broker() {
    let broker = Mosquitto::start();
    let mut config = broker.client();
    config.spool.max_age = Duration::from_secs(3600);
    let subscriber = subscribe(&broker, "jetwatch/dev/+/events", "%E");
    let mut sink = start(&config);
    // Whatever comes before the subscription is not received.
    let mut number = 0;
    let mut subscriber = subscriber;
    wait_until("an event is received", || {
        number += 1;
        publish_event(&mut sink, number);
        std::thread::sleep(Duration::from_millis(20));
        subscriber.try_wait().expect("it is our child").is_some()
    });
    let seconds: u32 = printed(subscriber).parse().expect("an expiry");
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    Box::new(sink).close(TEST_TIMEOUT);
}

#[test]
fn picture_of_a_track_expires_at_the_broker_and_that_of_a_label_does_not() {
    let broker = Mosquitto::start();
    let mut sink = start(&broker.client());
    for (track, topic, expiry) in [
        (Some(TrackId(7)), "cam/tracks/7/snapshot", "3600"),
        (None, "cam/snapshots/person", ""),
    ] {
        let mut subscriber = subscribe(&broker, &format!("jetwatch/dev/{topic}"), "%E");
        wait_until("a picture is received", || {
            sink.publish(&Publication::Snapshot {
                source: "cam",
                label: "person",
                track,
                jpeg: &b"a picture".as_slice().into(),
            });
            std::thread::sleep(Duration::from_millis(20));
            subscriber.try_wait().expect("it is our child").is_some()
        });
        assert_eq!(printed(subscriber), expiry, "{topic}");
    }
    Box::new(sink).close(TEST_TIMEOUT);
}

#[test]
fn reply_to_a_command_goes_to_its_response_topic() {
    let broker = Mosquitto::start();
    let (sender, commands) = std::sync::mpsc::channel::<CommandMessage>();
    let listener = CommandListener::start(
        &broker.client(),
        "dev",
        &["asker/+".to_owned()],
        move |command| {
            // The receiver lives as long as the test.
            let _ = sender.send(command);
        },
    )
    .expect("the thread starts");
    let mut sink = start(&broker.client());
    let mut asker = subscribe(&broker, "asker/7", "%D %p");
    let mut replies = 0;
    // Before both have subscribed, commands and replies are lost.
    wait_until("the reply is received", || {
        let sent = Command::new(program("mosquitto_pub"))
            .args(["-V", "mqttv5", "-h", "127.0.0.1"])
            .args(["-p", &broker.port().to_string(), "-q", "1"])
            .args(["-t", "jetwatch/dev/command", "-m", "{}"])
            .args(["-D", "publish", "response-topic", "asker/7"])
            .args(["-D", "publish", "correlation-data", "order-42"])
            .status()
            .expect("mosquitto_pub starts");
        assert!(sent.success());
        while let Ok(command) = commands.recv_timeout(Duration::from_millis(100)) {
            replies += 1;
            let reply = Reply {
                reply_to: command.reply_to,
                id: None,
                name: Some("x".to_owned()),
                error: None,
            };
            sink.publish(&Publication::Reply {
                reply: &reply,
                at: at(7),
            });
        }
        asker.try_wait().expect("it is our child").is_some()
    });
    let text = printed(asker);
    let (correlation, payload) = text.split_once(' ').expect("two parts");
    assert_eq!(correlation, "order-42");
    let reply: serde_json::Value = serde_json::from_str(payload).expect("JSON");
    let found = (&reply["kind"], &reply["ok"]);
    assert_eq!(found, (&"reply".into(), &true.into()));
    let counts = Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!(counts.delivered, 2 * replies, "each on both topics");
    drop(listener);
}
