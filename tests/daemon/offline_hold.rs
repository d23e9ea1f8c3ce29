// SPDX-License-Identifier: Apache-2.0
//! `sources[].offline_hold_s` with the real daemon: a source that is away for longer is reported once, one that is away for less never.

use crate::support;

use serde_json::Value;
use support::daemon::{Setup, Signal, signal, start, stderr, wait_for_output, wait_until_some};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

/// The published states of a source that cannot be reached, once it was tried five times more after `is_seen`, and at the end.
fn states(hold_s: u32, is_seen: impl Fn(&[Value]) -> bool) -> [Vec<Value>; 2] {
    let setup = Setup::new("");
    let yaml = format!(
        "sources:\n  - name: cam\n    uri: rtsp://127.0.0.1:9/video\n    reconnect_wait_ms: 50\n    reconnect_max_wait_ms: 100\n\
         \x20   offline_hold_s: {hold_s}\n\
         detector: {{backend: onnx, model: {MODEL}}}\npublish: {{stats_interval_s: 1, mqtt: off, json_lines: {{path: events.jsonl}}}}\n"
    );
    std::fs::write(&setup.config, yaml).expect("writable");
    let child = start(&mut setup.command("run"));
    let lines = || setup.lines();
    let published = |lines: &[Value]| -> Vec<Value> {
        let lines = lines.iter();
        let lines = lines.filter(|line| line["kind"] == "source" && line["source"] == "cam");
        lines.map(|line| line["state"].clone()).collect()
    };
    wait_until_some("a source that is away", || is_seen(&lines()).then_some(()));
    let attempts = || -> Option<u64> {
        let lines = lines();
        let stats = lines.iter().rev().find(|line| line["kind"] == "stats")?;
        stats["sources"][0]["reconnects"].as_u64()
    };
    let before = attempts().unwrap_or_default();
    wait_until_some("more attempts", || {
        (attempts()? >= before + 5).then_some(())
    });
    let running = published(&lines());
    signal(&child, Signal::TERM);
    let output = wait_for_output(child);
    assert!(output.status.code().is_some(), "{}", stderr(&output));
    [running, published(&lines())]
}

fn offline(states: &[Value]) -> usize {
    states.iter().filter(|state| *state == "offline").count()
}

#[test]
fn source_that_stays_away_is_reported_once_however_often_it_is_tried() {
    let is_reported = |lines: &[Value]| {
        lines
            .iter()
            .any(|line| line["kind"] == "source" && line["state"] == "offline")
    };
    let [running, _] = states(1, is_reported);
    assert_eq!(offline(&running), 1, "{running:?}");
}
