// SPDX-License-Identifier: Apache-2.0
//! The daemon with other formats and a real broker: a consumer sees valid messages of each shape, and our own are as without them.

use crate::support;
use crate::support::publish;
use crate::support::schema::Schema;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jetwatch_publish::Subscriber;
use publish::mosquitto::{Mosquitto, client};
use serde_json::Value;
use support::daemon::{Setup, start, terminate, wait_until_some};

const SCENE: &str = "synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=60";

const ALSO: &str = "also: [{format: frigate, width: 640, height: 360}, {format: deepstream}, \
                    {format: deepstream, topic: frames, payload: minimal}]";

fn setup(port: u16, also: &str) -> Setup {
    Setup::new(&format!(
        "device: box\n\
         sources: [{{name: cam, uri: '{SCENE}', zones: [{{name: road, coordinates: '0,0.5,1,0.5,1,1,0,1'}}]}}]\n\
         detector: {{backend: scripted, classes: [person, car]}}\n\
         publish: {{update_interval_ms: 100, stats_interval_s: 1, mqtt: {{broker: 'mqtt://127.0.0.1:{port}', {also}}}, json_lines: {{path: events.jsonl}}}}\n"
    ))
}

/// Messages by topic.
type Received = BTreeMap<String, Vec<Vec<u8>>>;

/// Takes the messages that are there. More may come without a pause.
fn receive(subscriber: &Subscriber, received: &mut Received) {
    while let Some((topic, payload)) = subscriber.recv_timeout(Duration::ZERO) {
        received.entry(topic).or_default().push(payload.to_vec());
    }
}

fn count(received: &Received, topic: &str) -> usize {
    received.get(topic).map_or(0, Vec::len)
}

fn json(received: &Received, topic: &str) -> Vec<Value> {
    let messages = received.get(topic).into_iter().flatten();
    messages
        .map(|payload| {
            serde_json::from_slice(payload).unwrap_or_else(|error| panic!("{topic}: {error}"))
        })
        .collect()
}

fn text(received: &Received, topic: &str) -> Vec<String> {
    let messages = received.get(topic).into_iter().flatten();
    messages
        .map(|payload| String::from_utf8_lossy(payload).into_owned())
        .collect()
}

#[test]
fn consumers_of_other_formats_see_valid_messages_and_ours_are_unchanged() {
    let broker = Mosquitto::start();
    let subscriber = Subscriber::start(&client(broker.port()), "#").expect("the broker runs");
    let setup = setup(broker.port(), ALSO);
    let child = start(&mut setup.command("run"));
    let mut received = Received::new();
    wait_until_some("messages of each shape", || {
        receive(&subscriber, &mut received);
        let ends = json(&received, "frigate/events");
        let has_end = ends.iter().any(|event| event["type"] == "end");
        let topics = ["frigate/stats", "frigate/reviews", "deepstream", "frames"];
        (has_end && topics.iter().all(|topic| count(&received, topic) >= 2)).then_some(())
    });
    terminate(child);
    wait_until_some("the last messages", || {
        receive(&subscriber, &mut received);
        let last = text(&received, "frigate/available").pop();
        (last.as_deref() == Some("stopped")).then_some(())
    });

    for (topic, schema) in [
        ("frigate/events", "frigate-events"),
        ("frigate/reviews", "frigate-reviews"),
        ("frigate/stats", "frigate-stats"),
        ("deepstream", "deepstream-full"),
        ("frames", "deepstream-minimal"),
        ("jetwatch/box/cam/events", "messages"),
        ("jetwatch/box/stats", "messages"),
    ] {
        let mut schema = Schema::of_file(schema);
        let messages = json(&received, topic);
        assert!(!messages.is_empty(), "{topic}");
        messages.iter().for_each(|message| schema.accepts(message));
        schema.check();
    }
    assert_eq!(text(&received, "frigate/available")[0], "online");
    assert!(text(&received, "frigate/cam/status/detect").contains(&"online".to_owned()));
    // Every object that began has ended, so nothing is counted at the end.
    for topic in [
        "cam/all",
        "cam/all/active",
        "cam/car",
        "road/all",
        "road/car",
    ] {
        let counts = text(&received, &format!("frigate/{topic}"));
        assert!(counts.len() >= 2, "{topic}: {counts:?}");
        assert_eq!(counts.last().map(String::as_str), Some("0"), "{topic}");
    }
    let ids = |messages: &[Value], step: &str, path: &str| -> BTreeSet<String> {
        let of = messages.iter().filter(|message| message["type"] == step);
        of.map(|message| message.pointer(path).expect("an id").to_string())
            .collect()
    };
    let frigate = json(&received, "frigate/events");
    let found = ids(&frigate, "new", "/after/id");
    assert_eq!(found, ids(&frigate, "end", "/after/id"));
    assert!(frigate.iter().all(|event| event["before"].is_object()));
    let reviews = json(&received, "frigate/reviews");
    let found = ids(&reviews, "new", "/after/id");
    assert_eq!(found, ids(&reviews, "end", "/after/id"));

    // Ours: the same events as in the file, and none that another format asked for.
    let own = json(&received, "jetwatch/box/cam/events");
    let lines: Vec<Value> = setup
        .lines()
        .into_iter()
        .filter(|line| line["kind"] == "event")
        .collect();
    for step in ["new", "end"] {
        assert_eq!(ids(&own, step, "/id"), ids(&lines, step, "/id"), "{step}");
    }
    let kinds: BTreeSet<String> = setup
        .lines()
        .iter()
        .map(|line| line["kind"].to_string())
        .collect();
    assert!(!kinds.contains("\"detections\""), "{kinds:?}");
    assert_eq!(count(&received, "jetwatch/box/cam/detections"), 0);
    // One message for each object and event.
    let entries = json(&received, "deepstream");
    let of = |step: &str| {
        entries
            .iter()
            .filter(|message| message["event"]["type"] == step)
            .count()
    };
    let wanted = (ids(&own, "new", "/id").len(), ids(&own, "end", "/id").len());
    assert_eq!((of("entry"), of("exit")), wanted);
}

#[test]
fn killed_daemon_is_offline_to_consumers_of_frigate() {
    let broker = Mosquitto::start();
    let subscriber =
        Subscriber::start(&client(broker.port()), "frigate/available").expect("the broker runs");
    let setup = setup(broker.port(), "also: [{format: frigate}]");
    let mut child = start(&mut setup.command("run"));
    let mut received = Received::new();
    let mut wait_for = |value: &str| {
        wait_until_some(value, || {
            receive(&subscriber, &mut received);
            let last = text(&received, "frigate/available").pop();
            (last.as_deref() == Some(value)).then_some(())
        });
    };
    wait_for("online");
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    wait_for("offline");
}

#[test]
fn broker_that_comes_late_gets_the_counts_of_now() {
    let mut broker = Mosquitto::configured(|_| "allow_anonymous true\n".to_owned());
    let setup = setup(
        broker.port(),
        "also: [{format: frigate, queue_messages: 20}]",
    );
    let child = start(&mut setup.command("run"));
    wait_until_some("many events", || {
        let lines = setup.lines();
        (lines.iter().filter(|line| line["kind"] == "event").count() >= 60).then_some(())
    });
    broker.restart();
    let subscriber = Subscriber::start(&client(broker.port()), "#").expect("the broker runs");
    let mut received = Received::new();
    wait_until_some("events of both shapes, and counts", || {
        receive(&subscriber, &mut received);
        let topics = [
            "frigate/events",
            "frigate/cam/all",
            "jetwatch/box/cam/events",
        ];
        topics
            .iter()
            .all(|topic| count(&received, topic) > 0)
            .then_some(())
    });
    let log = terminate(child);
    assert_has!(log => "publish.mqtt.also[].queue_messages");
    assert!(
        !log.contains("(publish.mqtt.queue_messages)"),
        "our own queue is not full: {log}"
    );
}
