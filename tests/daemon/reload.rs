// SPDX-License-Identifier: Apache-2.0
//! Reload of the configuration while the daemon runs: the real binary, real files, SIGHUP.

use crate::support;

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;

use serde_json::Value;
use support::daemon::{
    Running, Setup, Signal, keeps, signal, start, terminate, wait_for_output, wait_until_some,
};

/// A source of four small frames a second.
fn source(name: &str, seed: u32) -> String {
    let scene = format!("seed={seed}&objects=2&width=160&height=90&fps=4");
    format!("  - name: {name}\n    uri: synthetic://traffic?{scene}\n")
}

fn yaml(sources: &[String], detector: &str) -> String {
    let mut yaml = String::from("device: test\nsources:\n");
    for source in sources {
        yaml += source;
    }
    write!(
        yaml,
        "detector:\n  backend: scripted\n{detector}publish:\n  mqtt: off\n  detections: true\n  json_lines:\n    path: events.jsonl\n"
    )
    .expect("a string takes everything");
    yaml
}

fn run(text: &str) -> Running {
    let setup = Setup::new(text);
    let mut command = setup.command("run");
    command.arg("--stats").arg(setup.path("stats.json"));
    let child = start(&mut command);
    Running { setup, child }
}

impl Running {
    /// Waits for this many frames of this source in all.
    fn frames(&self, name: &str, count: usize) {
        wait_until_some(&format!("{count} frames of {name}"), || {
            (seqs(&self.setup.lines(), name).len() >= count).then_some(())
        });
    }

    /// Stops the daemon; returns all its messages and its report.
    fn report(self) -> (Vec<Value>, Value) {
        let (setup, _) = self.stop();
        (setup.lines(), setup.json("stats.json"))
    }
}

/// Numbers of the frames of a source, as they were published.
fn seqs(lines: &[Value], name: &str) -> Vec<u64> {
    lines
        .iter()
        .filter(|line| line["kind"] == "detections" && line["source"] == name)
        .map(|line| line["frame"]["seq"].as_u64().expect("a number"))
        .collect()
}

/// The states of a source, as they were published.
fn states(lines: &[Value], name: &str) -> Vec<String> {
    lines
        .iter()
        .filter(|line| line["kind"] == "source" && line["source"] == name)
        .map(|line| line["state"].as_str().expect("a word").to_owned())
        .collect()
}

/// The source ran on, and no frame is missing but those that the report counts as dropped, since the machine was busy; returns how many
/// these are.
fn assert_uninterrupted(lines: &[Value], report: &Value, name: &str) -> u64 {
    assert_eq!(states(lines, name), ["connecting", "online", "ended"]);
    let seqs = seqs(lines, name);
    assert!(
        seqs.is_sorted_by(|a, b| a < b),
        "{name} restarted: {seqs:?}"
    );
    let sources = report["sources"].as_array().expect("a list");
    let source = (sources.iter()).find(|source| source["name"] == name);
    let dropped = ["dropped", "skipped"]
        .map(|key| source.and_then(|source| source[key].as_u64()).expect(key));
    let dropped = dropped.iter().sum();
    let missing = seqs.last().map_or(0, |last| last + 1) - seqs.len() as u64;
    assert!(
        missing <= dropped,
        "{name} lost frames: {seqs:?}, {dropped}"
    );
    dropped
}

#[test]
fn reload_adds_removes_and_changes_sources_without_frame_loss_in_others() {
    let stays: Vec<String> = (0..16).map(|n| source(&format!("stays{n}"), n)).collect();
    let with = |others: &[String]| yaml(&[stays.as_slice(), others].concat(), "");
    let running = run(&with(&[source("leaves", 20), source("changes", 21)]));
    for name in ["leaves", "changes", "stays0", "stays15"] {
        running.frames(name, 2);
    }
    let reported = running.reload(&with(&[source("changes", 22), source("joins", 23)]));
    assert_eq!(reported["state"], "applied", "{reported}");
    assert_eq!(reported["added"], serde_json::json!(["joins"]));
    assert_eq!(reported["changed"], serde_json::json!(["changes"]));
    assert_eq!(reported["removed"], serde_json::json!(["leaves"]));
    assert_eq!(reported["unchanged"], 16);
    running.frames("joins", 3);
    let reported = running.reload(&with(&[source("changes", 22), source("joins", 23)]));
    let found = (reported["state"].as_str(), reported["unchanged"].as_u64());
    let wanted = (Some("applied"), Some(18));
    assert_eq!(found, wanted, "the same file changes nothing: {reported}");
    running.frames("stays15", 8);

    let (lines, report) = running.report();
    for n in 0..16 {
        let name = format!("stays{n}");
        assert_uninterrupted(&lines, &report, &name);
    }
    assert_eq!(states(&lines, "leaves"), ["connecting", "online", "ended"]);
    let twice = [["connecting", "online", "ended"]; 2].concat();
    // The first life ends before the second begins.
    assert_eq!(states(&lines, "changes"), twice);
    let counted = |name: &str| {
        let sources = report["sources"].as_array().expect("a list");
        let mut named = sources.iter().filter(|source| source["name"] == name);
        let source = named.next().expect("it is in the report");
        assert!(named.next().is_none(), "{name} is there once");
        source["detected"].as_u64().expect("a number") as usize
    };
    for name in ["stays3", "changes", "leaves", "joins"] {
        assert_eq!(counted(name), seqs(&lines, name).len(), "{name}");
    }
}

#[test]
fn invalid_reload_keeps_running_config() {
    let running = run(&yaml(&[source("cam", 1)], ""));
    running.frames("cam", 1);
    let bad = yaml(
        &[
            source("cam", 1),
            "  - name: new\n    uri: ftp://x\n".to_owned(),
        ],
        "",
    );
    let reported = running.reload(&bad);
    assert_eq!(reported["state"], "refused", "{reported}");
    let problem = &reported["problems"][0];
    assert_eq!(problem["key"], "sources[1].uri", "{reported}");
    assert_eq!(problem["line"], 6, "{reported}");
    let found = problem["file"].as_str();
    assert_eq!(found, running.setup.config.to_str(), "{reported}");

    let restart = yaml(&[source("cam", 1), source("new", 2)], "  workers: 1\n");
    let reported = running.reload(&restart);
    assert_eq!(reported["state"], "refused", "{reported}");
    let wanted = "detector.workers";
    assert_eq!(reported["problems"][0]["key"], wanted, "{reported}");
    let text = reported["problems"][0]["text"].as_str().expect("a text");
    assert_has!(text => "systemctl restart jetwatch");

    let label = "    classes: [dragon]\n";
    let reported = running.reload(&yaml(&[source("cam", 1), source("new", 2) + label], ""));
    assert_eq!(reported["state"], "refused", "{reported}");
    let text = reported["problems"][0]["text"].as_str().expect("a text");
    assert_has!(text => "dragon");

    std::fs::remove_file(&running.setup.config).expect("it is there");
    signal(&running.child, Signal::HUP);
    let before = seqs(&running.setup.lines(), "cam").len();
    running.frames("cam", before + 3);

    let (lines, _) = running.report();
    let reloads = lines.iter().filter(|line| line["kind"] == "reload").count();
    assert_eq!(reloads, 4, "each one is published");
    assert_eq!(states(&lines, "cam"), ["connecting", "online", "ended"]);
    assert!(seqs(&lines, "new").is_empty());
}

#[test]
fn the_only_source_can_be_replaced() {
    let running = run(&yaml(&[source("old", 1)], ""));
    running.frames("old", 1);
    let reported = running.reload(&yaml(&[source("new", 2)], ""));
    assert_eq!(reported["state"], "applied", "{reported}");
    running.frames("new", 3);
    let (lines, _) = running.report();
    assert_eq!(states(&lines, "old"), ["connecting", "online", "ended"]);
    let ended = lines
        .iter()
        .find(|line| line["source"] == "old" && line["state"] == "ended")
        .expect("it has ended");
    let wanted = "taken out by a change of the configuration";
    assert_eq!(ended["reason"], wanted);
}

/// The boxes of a source's frames by session: frame numbers start again with each.
fn lives(lines: &[Value], name: &str) -> Vec<Vec<[f64; 4]>> {
    let mut lives: Vec<Vec<[f64; 4]>> = Vec::new();
    let is_frame = |line: &&Value| line["kind"] == "detections" && line["source"] == name;
    for line in lines.iter().filter(is_frame) {
        if line["frame"]["seq"] == 0 {
            lives.push(Vec::new());
        }
        let tracks = line["tracks"].as_array().expect("a list").iter();
        let observed = tracks.filter(|track| track["state"] == "active");
        let edge = |track: &Value, edge: usize| track["box"][edge].as_f64().expect("a number");
        let boxes = observed.map(|track| std::array::from_fn(|index| edge(track, index)));
        lives.last_mut().expect("0 comes first").extend(boxes);
    }
    lives
}

#[test]
fn changed_roi_restarts_only_its_source() {
    let stays: Vec<String> = (0..4).map(|n| source(&format!("stays{n}"), n)).collect();
    // Objects everywhere in 160×90 pixels; first one half is the region, then the other.
    let scene = "seed=7&objects=12&width=160&height=90&fps=8";
    let half = |roi: &str| {
        let cut = format!("  - name: cut\n    uri: synthetic://traffic?{scene}\n    roi: {roi}\n");
        yaml(&[stays.as_slice(), &[cut]].concat(), "")
    };
    let running = run(&half("0,0,0.5,1"));
    running.frames("cut", 8);
    let published = running.reload(&half("0.5,0,0.5,1"));
    assert_eq!(published["state"], "applied", "{published}");
    assert_eq!(published["changed"], serde_json::json!(["cut"]));
    assert_eq!(published["unchanged"], 4, "{published}");
    for list in ["added", "removed"] {
        assert_eq!(published[list], serde_json::json!([]), "{published}");
    }
    let before = seqs(&running.setup.lines(), "cut").len();
    running.frames("cut", before + 16);
    for n in 0..4 {
        running.frames(&format!("stays{n}"), 8);
    }

    let (lines, report) = running.report();
    for n in 0..4 {
        let name = format!("stays{n}");
        assert_uninterrupted(&lines, &report, &name);
    }
    let lives = lives(&lines, "cut");
    let [left, right] = lives.as_slice() else {
        panic!("it was started {} times", lives.len());
    };
    assert!(!left.is_empty() && !right.is_empty(), "{lives:?}");
    for [from, _, to, _] in left {
        assert!(*from >= 0.0 && *to <= 80.01, "{from} to {to}");
    }
    for [from, _, to, _] in right {
        assert!(*from >= 79.99 && *to <= 160.0, "{from} to {to}");
    }
}

#[test]
fn source_is_removed_during_adaptive_interval() {
    let running = run(&yaml(
        &[source("stays", 1), source("leaves", 2)],
        "  interval: adaptive\n",
    ));
    // The load is checked once a second: twice with both of them, twice with one.
    running.frames("leaves", 10);
    let published = running.reload(&yaml(&[source("stays", 1)], "  interval: adaptive\n"));
    assert_eq!(published["removed"], serde_json::json!(["leaves"]));
    let before = seqs(&running.setup.lines(), "stays").len();
    running.frames("stays", before + 10);
    let (lines, report) = running.report();
    let dropped = assert_uninterrupted(&lines, &report, "stays");
    let sources = report["sources"].as_array().expect("a list");
    for source in sources.iter().filter(|_| dropped == 0) {
        assert_eq!(source["interval"], 0, "nothing was dropped: {report}");
    }
}

#[test]
fn signals_right_after_the_start_reload_or_end() {
    let setup = Setup::new(&yaml(&[source("cam", 1)], ""));
    // From the first line of the program on; the loader of the system runs before.
    let start = || {
        let child = start(&mut setup.command("run"));
        while !keeps(&child, Signal::HUP) {}
        child
    };
    // Also while the program executes itself again.
    let child = start();
    wait_until_some("a reload", || {
        signal(&child, Signal::HUP);
        setup.lines_of("reload").pop()
    });
    assert_has!(terminate(child) => "SIGHUP: reading the configuration again");
    for ends in [Signal::TERM, Signal::INT] {
        let child = start();
        signal(&child, Signal::HUP);
        signal(&child, ends);
        let status = wait_for_output(child).status;
        let is_ended = status.success() || status.signal() == Some(ends.as_raw());
        assert!(is_ended, "{status}");
    }
}
