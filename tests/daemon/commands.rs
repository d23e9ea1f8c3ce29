// SPDX-License-Identifier: Apache-2.0
//! Commands over MQTT to the real daemon: sources of templates are added and removed, and nothing else is possible.

use crate::support;
use crate::support::publish;

use std::collections::BTreeSet;
use std::process::Child;

use publish::clients;
use serde_json::{Value, json};
use support::daemon::{
    Setup, Signal, finish, of_kind, signal, start, stderr, stdout, terminate, wait_until_some,
};
use support::ports::free_port;

const SCENE: &str = "synthetic://traffic?objects=2&width=160&height=90&fps=4";

const TEMPLATES: &str = "source_templates:
  - name: street
    parameters:
      - name: seed
        min: 1
        max: 9
      - name: fps
        values: ['4', '5']
    source:
      uri: synthetic://traffic?objects=2&width=160&height=90&fps={fps}&seed={seed}
  - name: plain
    source:
      uri: synthetic://traffic?objects=2&width=160&height=90&fps=4
";

struct Commanded {
    setup: Setup,
    child: Child,
    port: u16,
    sent: usize,
}

impl Commanded {
    fn start() -> Self {
        let port = free_port();
        let setup = Setup::new(&Self::yaml(port, TEMPLATES));
        let child = start(&mut setup.command("run"));
        let commanded = Self {
            setup,
            child,
            port,
            sent: 0,
        };
        // Commands before the subscription are lost.
        wait_until_some("an answer", || {
            commanded.publish(r#"{"id": "hello", "command": "remove_source", "name": "missing"}"#);
            let is_answered = commanded
                .setup
                .lines()
                .iter()
                .any(|line| line["id"] == "hello");
            is_answered.then_some(())
        });
        commanded
    }

    fn yaml(port: u16, templates: &str) -> String {
        format!(
            "device: box\nsources: [{{name: cam, uri: '{SCENE}'}}]\ndetector: {{backend: scripted}}\ncommands: {{enabled: true}}\n\
             publish:\n  detections: true\n  mqtt: {{listen: '127.0.0.1:{port}'}}\n  json_lines: {{path: events.jsonl}}\n{templates}"
        )
    }

    fn publish(&self, payload: &str) {
        // Fails while the broker does not listen yet.
        clients::publish(self.port, "jetwatch/box/command", payload, &[]);
    }

    /// Sends a command with a unique id; returns its reply.
    fn ask(&mut self, mut command: Value) -> Value {
        self.sent += 1;
        let id = format!("ask-{}", self.sent);
        command["id"] = json!(id);
        self.publish(&command.to_string());
        self.setup.wait_for("the answer", |line| line["id"] == id)
    }

    /// Retained topics of a source, below its own.
    fn kept(&self, name: &str) -> Vec<String> {
        let kept = clients::retained(self.port, &format!("jetwatch/box/{name}"));
        kept.into_keys().collect()
    }

    fn frames(&self, name: &str) -> usize {
        let of_source = |line: &&Value| line["kind"] == "detections" && line["source"] == name;
        self.setup.lines().iter().filter(of_source).count()
    }

    fn stop(self) -> Vec<Value> {
        terminate(self.child);
        self.setup.lines()
    }
}

fn add(name: &str, seed: i64) -> Value {
    json!({"command": "add_source", "template": "street", "name": name, "parameters": {"seed": seed, "fps": "5"}})
}

fn remove(name: &str) -> Value {
    json!({"command": "remove_source", "name": name})
}

#[test]
fn template_source_is_added_survives_reload_and_is_removed() {
    let mut daemon = Commanded::start();
    let reply = daemon.ask(add("extra", 3));
    let found = (&reply["ok"], &reply["name"]);
    assert_eq!(found, (&json!(true), &json!("extra")));
    wait_until_some("frames", || (daemon.frames("extra") >= 3).then_some(()));
    let reply = daemon.ask(add("Extra", 3));
    assert_eq!(reply["ok"], json!(false), "there is one: {reply}");

    signal(&daemon.child, Signal::HUP);
    let reported = daemon.setup.wait_for_nth("reload", 0);
    let found = (&reported["state"], &reported["unchanged"]);
    assert_eq!(found, (&json!("applied"), &json!(2)), "{reported}");

    let reply = daemon.ask(remove("cam"));
    let error = reply["error"].as_str().expect("a reason");
    assert_has!(error => "configuration file");
    wait_until_some("a count", || {
        let kept = daemon.kept("extra");
        kept.iter().find(|topic| *topic != "status").map(drop)
    });
    assert_eq!(daemon.ask(remove("extra"))["ok"], json!(true));
    // It is gone.
    assert_eq!(daemon.ask(remove("extra"))["ok"], json!(false));
    wait_until_some("its counts taken back", || {
        (daemon.kept("extra") == ["status"]).then_some(())
    });
    // And may come back.
    assert_eq!(daemon.ask(add("extra", 4))["ok"], json!(true));

    // Its template is gone, so it is removed.
    let yaml = Commanded::yaml(daemon.port, "");
    std::fs::write(&daemon.setup.config, yaml).expect("writable");
    signal(&daemon.child, Signal::HUP);
    let reported = daemon.setup.wait_for_nth("reload", 1);
    assert_eq!(reported["removed"], json!(["extra"]), "{reported}");
    let lines = daemon.stop();
    let states = of_kind(&lines, "source").into_iter();
    let states = states.filter(|line| line["source"] == "cam");
    let states: Vec<&str> = states.filter_map(|line| line["state"].as_str()).collect();
    // It never noticed.
    assert_eq!(states, ["connecting", "online", "ended"]);
}

#[test]
fn every_command_in_burst_is_answered() {
    let daemon = Commanded::start();
    let mut burst = String::new();
    for number in 0..40 {
        // Every second command is slow.
        let mut command = match number % 2 {
            0 => add(&format!("burst{number}"), 3),
            _ => remove("missing"),
        };
        command["id"] = json!(format!("burst-{number}"));
        burst += &format!("{command}\n");
    }
    clients::publish_lines(daemon.port, "jetwatch/box/command", &burst);
    wait_until_some("an answer to each", || {
        let lines = daemon.setup.lines();
        let is_answered = |number: &i32| {
            lines
                .iter()
                .any(|line| line["id"] == format!("burst-{number}"))
        };
        (0..40).all(|number| is_answered(&number)).then_some(())
    });
    daemon.stop();
}

#[test]
fn unlisted_template_cannot_be_added() {
    let mut daemon = Commanded::start();
    let with = |parameters: Value| json!({"command": "add_source", "template": "street", "name": "evil", "parameters": parameters});
    let named = |name: &str| json!({"command": "add_source", "template": "plain", "name": name});
    let commands = [
        with(json!({"seed": 3, "fps": "5&frames=1"})),
        with(json!({"seed": 3, "fps": "launch:filesrc location=/etc/passwd"})),
        with(json!({"seed": 3, "fps": "../../etc/passwd"})),
        with(json!({"seed": 10, "fps": "5"})),
        with(json!({"seed": "03", "fps": "5"})),
        with(json!({"seed": "+3", "fps": "5"})),
        with(json!({"seed": " 3", "fps": "5"})),
        with(json!({"seed": "{fps}", "fps": "5"})),
        with(json!({"seed": 3})),
        with(json!({"seed": 3, "fps": "5", "uri": "file:///etc/passwd"})),
        json!({"command": "add_source", "template": "/etc/passwd", "name": "evil"}),
        json!({"command": "add_source", "template": "plain", "name": "evil", "uri": "launch:fakesrc"}),
        json!({"command": "add_source", "template": "plain", "name": "evil", "source": {"uri": "/etc/passwd"}}),
        json!({"command": "shell", "name": "evil"}),
        named(""),
        named("../evil"),
        named("a/b"),
        named("+"),
        named("#"),
        named("status"),
        named("command"),
        named("cam"),
        named(&"x".repeat(65)),
        remove("cam"),
        remove("evil"),
    ];
    for command in commands {
        // An unreadable command has no id for the reply.
        let replies = |lines: &[Value]| {
            let of_kind = |line: &&Value| line["kind"] == "reply" && line["id"] != "hello";
            let replies = lines.iter().filter(of_kind);
            replies.cloned().collect::<Vec<_>>()
        };
        let before = replies(&daemon.setup.lines()).len();
        daemon.publish(&command.to_string());
        let reply = wait_until_some("an answer", || {
            replies(&daemon.setup.lines()).get(before).cloned()
        });
        assert_eq!(reply["ok"], json!(false), "{command}: {reply}");
        assert!(reply["error"].is_string(), "{command}: {reply}");
    }
    // The daemon continues, and no source was added.
    let frames = daemon.frames("cam");
    wait_until_some("frames", || (daemon.frames("cam") > frames).then_some(()));
    assert_eq!(daemon.ask(add("good", 3))["ok"], json!(true));
    let lines = daemon.stop();
    let sources = of_kind(&lines, "source").into_iter();
    let sources: BTreeSet<&str> = sources.filter_map(|line| line["source"].as_str()).collect();
    assert_eq!(sources, BTreeSet::from(["cam", "good"]));
}

#[test]
fn template_with_unknown_label_is_rejected_at_its_line() {
    let with = |label: &str| {
        format!(
            "{TEMPLATES}      zones: [{{name: z, coordinates: '0,0,1,0,1,1,0,1', objects: [{label}]}}]\n"
        )
    };
    let key = "source_templates[1].source.zones[0].objects: the model has no label `persn`";
    for command in ["check", "run"] {
        let setup = Setup::new(&Commanded::yaml(0, &with("persn")));
        let output = finish(&mut setup.command(command));
        let message = stderr(&output) + &stdout(&output);
        assert!(
            !output.status.success() && message.contains(key),
            "{command}: {message}"
        );
    }

    let mut daemon = Commanded::start();
    let plain = json!({"command": "add_source", "template": "plain", "name": "extra"});
    assert_eq!(daemon.ask(plain)["ok"], json!(true));
    let reload = |label: &str, nth: usize| {
        let yaml = Commanded::yaml(daemon.port, &with(label));
        std::fs::write(&daemon.setup.config, yaml).expect("writable");
        signal(&daemon.child, Signal::HUP);
        daemon.setup.wait_for_nth("reload", nth)
    };
    let reported = reload("persn", 0);
    let problems = reported["problems"].as_array().expect("a list");
    let found = problems.len();
    assert_eq!(found, 1, "not for the added source too: {reported}");
    let text = problems[0]["text"].as_str().expect("a text");
    assert!(text.contains(key), "{text}");
    let reported = reload("person", 1);
    assert_eq!(reported["changed"], json!(["extra"]), "{reported}");
    daemon.stop();
}
