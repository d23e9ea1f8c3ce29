// SPDX-License-Identifier: Apache-2.0
//! The daemon and its brokers: embedded, absent at the start, killed during the run, refusing.

use crate::support;
use crate::support::publish;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::publish_access::with_password;
use jetwatch_mqtt::Packet;
use jetwatch_publish::Subscriber;
use publish::clients::receive_one;
use publish::mosquitto::{Mosquitto, client};
use publish::scripted::{Answer, Scripted, connack};
use support::daemon::{
    Setup, Signal, exits, finish, signal, start, stderr, terminate, wait_for_output,
    wait_until_some,
};
use support::ports::free_port;

const SCENE: &str = "synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=60";

fn config(mqtt: &str) -> Setup {
    Setup::new(&format!(
        "device: box\nsources: [{{name: cam, uri: '{SCENE}', lines: [{{name: gate, coordinates: '0.5,0,0.5,1'}}]}}]\ndetector: {{backend: scripted}}\n\
         publish: {{update_interval_ms: 100, mqtt: {mqtt}, json_lines: {{path: events.jsonl}}}}\n"
    ))
}

fn run_with_stats(setup: &Setup) -> Child {
    let mut command = setup.command("run");
    start(command.arg("--stats").arg(setup.path("stats.json")))
}

/// The statistics of the run, checked for their sum: no message is lost without being counted.
fn stats(setup: &Setup) -> serde_json::Value {
    let stats = setup.json("stats.json");
    let of = |key: &str| stats[format!("messages_{key}")].as_u64().expect("a count");
    let wanted = of("delivered") + of("dropped") + of("replaced") + of("queued");
    assert_eq!(of("accepted"), wanted, "{stats}");
    stats
}

/// Identities in messages of one type.
fn ids<'a>(events: impl Iterator<Item = &'a serde_json::Value>, kind: &str) -> BTreeSet<String> {
    events
        .filter(|event| event["type"] == kind)
        .map(|event| event["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn the_embedded_broker_serves_a_foreign_subscriber() {
    let port = free_port();
    let setup = config(&format!("{{broker: embedded, listen: '127.0.0.1:{port}'}}"));
    let child = run_with_stats(&setup);
    // mosquitto_sub ends with the first `new` event that it sees.
    let seen = wait_until_some("an event at mosquitto_sub", || {
        let (is_there, text) = receive_one(port, "jetwatch/box/cam/events", &["-W", "5"]);
        is_there.then_some(text)
    });
    let event: serde_json::Value = serde_json::from_str(&seen).expect("JSON");
    let found = (event["kind"].as_str(), event["source"].as_str());
    assert_eq!(found, (Some("event"), Some("cam")));
    // The check before a restart finds the broker's port in use by the daemon itself.
    let printed = exits(0, &mut setup.command("check")).out;
    assert_has!(printed => "while a jetwatch daemon runs");
    // A late subscriber learns the states at once: they are retained.
    for (topic, expected) in [
        ("jetwatch/box/status", "online"),
        ("jetwatch/box/cam/status", "\"state\":\"online\""),
        ("jetwatch/box/cam/lines/gate", "\"kind\":\"line\""),
    ] {
        let (_, text) = receive_one(port, topic, &["-W", "10", "--retained-only"]);
        assert!(text.contains(expected), "{topic}: {text}");
    }
    terminate(child);
    let stats = stats(&setup);
    let lost = ["messages_dropped", "messages_queued"].map(|key| stats[key].as_u64());
    assert_eq!(lost, [Some(0); 2], "{stats}");
}

#[test]
fn offline_then_killed_broker_loses_no_message() {
    let mut broker = Mosquitto::configured(|_| "allow_anonymous true\n".to_owned());
    let setup = config(&format!("{{broker: 'mqtt://127.0.0.1:{}'}}", broker.port()));
    let child = run_with_stats(&setup);
    let wait_for_events = |least: usize| {
        wait_until_some("events in the file", || {
            (setup.lines_of("event").len() >= least).then_some(())
        });
    };
    wait_for_events(20);
    broker.restart();
    let subscriber = Subscriber::start(&client(broker.port()), "jetwatch/box/cam/events")
        .expect("the broker runs");
    let mut received = Vec::new();
    let mut receive = |subscriber: &Subscriber, least: usize| {
        let mut count = 0;
        wait_until_some("events at the subscriber", || {
            while let Some((_, payload)) =
                subscriber.recv_timeout(std::time::Duration::from_millis(50))
            {
                received.push(serde_json::from_slice::<serde_json::Value>(&payload).expect("JSON"));
                count += 1;
            }
            (count >= least).then_some(())
        });
    };
    receive(&subscriber, 10);
    broker.kill();
    wait_until_some("the subscriber sees it", || subscriber.ended());
    drop(subscriber);
    let so_far = setup.lines().len();
    wait_for_events(so_far.min(60) + 20);
    broker.restart();
    let subscriber = Subscriber::start(&client(broker.port()), "jetwatch/box/cam/events")
        .expect("the broker runs");
    receive(&subscriber, 5);
    signal(&child, Signal::INT);
    let output = wait_for_output(child);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    wait_until_some("the last messages", || {
        let before = received.len();
        while let Some((_, payload)) =
            subscriber.recv_timeout(std::time::Duration::from_millis(200))
        {
            received.push(serde_json::from_slice::<serde_json::Value>(&payload).expect("JSON"));
        }
        (received.len() == before).then_some(())
    });
    let stats = stats(&setup);
    let lost = ["messages_dropped", "messages_queued"].map(|key| stats[key].as_u64());
    assert_eq!(lost, [Some(0); 2], "{stats}");
    // Messages sent while the subscriber was away are acknowledged by the broker and not kept for it; all that the last
    // subscription saw must be complete: each track that ends was published.
    let lines = setup.lines();
    let ended = ids(received.iter(), "end");
    let known = ids(lines.iter().filter(|line| line["kind"] == "event"), "end");
    assert!(
        !ended.is_empty() && ended.is_subset(&known),
        "{} of {}",
        ended.len(),
        known.len()
    );
    let text = stderr(&output);
    assert_has!(text => "cannot connect to MQTT broker");
}

#[test]
fn stop_waits_for_a_broker_that_comes_back_before_the_deadline() {
    let mut broker = Mosquitto::configured(|_| "allow_anonymous true\n".to_owned());
    let setup = config(&format!("{{broker: 'mqtt://127.0.0.1:{}'}}", broker.port()));
    let child = run_with_stats(&setup);
    wait_until_some("events in the file", || {
        (setup.lines_of("event").len() >= 20).then_some(())
    });
    signal(&child, Signal::TERM);
    broker.restart();
    let output = wait_for_output(child);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(!text.contains("before the deadline are lost"), "{text}");
    // Statistics are not kept for a broker that is away.
    let stats = stats(&setup);
    let number = |key: &str| stats[key].as_u64().expect("a number");
    assert_eq!(number("messages_queued"), 0, "{stats}");
    assert!(number("messages_dropped") <= 2, "{stats}");
    assert!(number("messages_delivered") >= 20, "{stats}");
}

#[test]
fn full_queue_is_logged_and_drops_updates_only_while_there_are_some() {
    let mut broker = Mosquitto::configured(|_| "allow_anonymous true\n".to_owned());
    let setup = config(&format!(
        "{{broker: 'mqtt://127.0.0.1:{}', queue_messages: 60}}",
        broker.port()
    ));
    let child = start(&mut setup.command("run"));
    let written = |kind: &str| {
        let lines = setup.lines();
        ids(lines.iter().filter(|line| line["kind"] == "event"), kind)
    };
    wait_until_some("many updates", || {
        let lines = setup.lines();
        let updates = lines.iter().filter(|line| line["type"] == "update");
        (updates.count() >= 150).then_some(())
    });
    let new = written("new");
    broker.restart();
    let subscriber = Subscriber::start(&client(broker.port()), "jetwatch/box/cam/events")
        .expect("the broker runs");
    let mut received = Vec::new();
    wait_until_some("what was queued, and more", || {
        // More come without a pause.
        while let Some((_, payload)) = subscriber.recv_timeout(Duration::ZERO) {
            received.push(serde_json::from_slice::<serde_json::Value>(&payload).expect("JSON"));
        }
        let has_all = new.is_subset(&ids(received.iter(), "new"));
        (has_all && received.len() >= 80).then_some(())
    });
    signal(&child, Signal::TERM);
    let output = wait_for_output(child);
    let text = stderr(&output);
    assert_has!(text => "queue of MQTT messages is full", "messages were dropped because");
    assert!(new.len() < 60, "{} tracks fit into the queue", new.len());
}

#[test]
fn wrong_password_is_logged_and_pipeline_continues() {
    let broker = Mosquitto::with_config(with_password);
    for (password, delivered) in [("right", true), ("wrong", false)] {
        let setup = config(&format!(
            "{{broker: 'mqtt://127.0.0.1:{}', user: cam, password: {password}}}",
            broker.port()
        ));
        let output = exits(
            0,
            setup
                .command("run")
                .args(["--max-frames", "120", "--stats"])
                .arg(setup.path("stats.json")),
        );
        let stats = stats(&setup);
        // The chain does not wait for the broker.
        assert_eq!(stats["frames"].as_u64(), Some(120));
        let lost = stats["messages_dropped"].as_u64().unwrap()
            + stats["messages_queued"].as_u64().unwrap();
        assert_eq!(lost == 0, delivered, "{stats}");
        let found = output.err.contains("broker refused user 'cam'");
        assert_eq!(found, !delivered, "{}", output.err);
        assert!(!output.err.contains(password), "no password in the log");
        let check = finish(&mut setup.command("check"));
        let found = check.status.code();
        let wanted = Some(i32::from(!delivered));
        assert_eq!(found, wanted, "{}", String::from_utf8_lossy(&check.stdout));
    }
}

#[test]
fn password_from_unit_environment_does_not_fail_manual_check() {
    let check = |file: &str| {
        let setup = config(&format!(
            "{{broker: embedded, listen: '127.0.0.1:0', user: cam, password_file: '{file}'}}"
        ));
        let output = finish(&mut setup.command("check"));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), printed)
    };
    let (code, printed) = check("/run/credentials/jetwatch.service/not-here");
    assert_eq!(code, Some(0), "{printed}");
    assert_has!(printed => "unknown broker: ", "unit alone");
    let (code, printed) = check("/nonexistent/password");
    assert_eq!(code, Some(1), "{printed}");
    assert_has!(printed => "wrong  broker: ");
}

#[test]
fn duplicate_device_daemons_are_reported() {
    let broker = Mosquitto::start();
    let setups =
        [(); 2].map(|()| config(&format!("{{broker: 'mqtt://127.0.0.1:{}'}}", broker.port())));
    let daemons = setups.each_ref().map(|setup| {
        let log = fs::File::create(setup.path("log")).expect("the folder is writable");
        let mut command = setup.command("run");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command.spawn().expect("the daemon starts")
    });
    // Brokers that give no reason when they close a connection are recognized by repeated closes.
    wait_until_some("the warning about the other client", || {
        let has_warned = |setup: &Setup| {
            fs::read_to_string(setup.path("log")).is_ok_and(|log| log.contains("another client"))
        };
        setups.iter().any(has_warned).then_some(())
    });
    for mut daemon in daemons {
        daemon.kill().expect("it runs");
        daemon.wait().expect("it ended");
    }
}

#[test]
fn check_opens_the_file_of_json_lines_as_the_run_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("other.txt"), "key: value\n").unwrap();
    fs::write(path("lines.jsonl"), "{\"kind\":\"stats\"}\n").unwrap();
    let made = Command::new("mkfifo").arg(path("pipe")).status().unwrap();
    assert!(made.success());
    for (name, error) in [
        ("missing/lines.jsonl", "the folder must exist"),
        ("folder", "Is a directory"),
        ("other.txt", "its first line is no JSON object"),
        ("pipe", "nothing reads this named pipe"),
        ("lines.jsonl", ""),
        ("new.jsonl", ""),
    ] {
        let setup = Setup::new(&format!(
            "device: box\nsources: [{{name: cam, uri: '{SCENE}'}}]\ndetector: {{backend: scripted}}\n\
             publish: {{mqtt: off, json_lines: {{path: '{}'}}}}\n",
            path(name).display()
        ));
        let check = finish(&mut setup.command("check"));
        let printed = String::from_utf8_lossy(&check.stdout);
        let refused = !error.is_empty();
        let found = check.status.code();
        assert_eq!(found, Some(i32::from(refused)), "{name}: {printed}");
        assert!(printed.contains(error), "{name}: {printed}");
        let run = finish(setup.command("run").args(["--max-frames", "5"]));
        assert_eq!(run.status.success(), !refused, "{name}: {}", stderr(&run));
        assert!(stderr(&run).contains(error), "{name}: {}", stderr(&run));
    }
    let lines = fs::read_to_string(path("lines.jsonl")).unwrap();
    assert!(lines.starts_with("{\"kind\":\"stats\"}\n") && lines.lines().count() > 1);
    let found = fs::read_to_string(path("other.txt")).unwrap();
    assert_eq!(found, "key: value\n");
}

#[test]
fn broker_that_ends_each_connection_does_not_fill_the_log() {
    let broker = Scripted::start(|_, packet| match packet {
        // Retained values are read by a client of its own.
        Packet::Connect(connect) if connect.will.is_some() => Answer::Close(connack(b"")),
        _ => Answer::Usual,
    });
    let port = broker.client_port();
    let setup = config(&format!("{{broker: 'mqtt://127.0.0.1:{port}'}}"));
    let child = start(&mut setup.command("run"));
    publish::records::wait_until("it has connected five times", || {
        let connects = broker.connects();
        let of_daemon = connects.iter().filter(|connect| connect.will.is_some());
        of_daemon.count() >= 5
    });
    signal(&child, Signal::TERM);
    let log = stderr(&wait_for_output(child));
    let count = |part: &str| log.lines().filter(|line| line.contains(part)).count();
    // First, after the first loss, and after the one that names the likely cause.
    assert!(
        (1..=3).contains(&count("connected to the MQTT broker")),
        "{log}"
    );
    assert_eq!(count("times in a row"), 1, "{log}");
}
