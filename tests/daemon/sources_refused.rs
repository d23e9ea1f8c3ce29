// SPDX-License-Identifier: Apache-2.0
//! Servers that refuse: credentials, streams and certificates. The account of a camera is not tried without end, the reason names
//! a remedy, and a reload tries again at once.

use crate::support;

use std::fs;

use support::collector::{config, first_reason, rtsp};
use support::daemon::{
    Setup, Signal, signal, start, stderr, terminate, wait_for_output, wait_until_some,
};
use support::http_camera::certificate;
use support::rtsp::RtspServer;

#[test]
fn changed_password_file_takes_effect_at_a_reload_although_the_next_attempt_is_far() {
    let server = RtspServer::start(0, &["--user", "viewer", "--password", "s3cret"]);
    let setup = Setup::new("");
    let password = setup.path("password");
    fs::write(&password, "guess\n").expect("the folder is writable");
    let yaml = format!(
        "device: test\nsources:\n  - name: cam\n    uri: {}\n    user: viewer\n    password_file: password\n    reconnect_wait_ms: 10\n    \
         reconnect_max_wait_ms: 10\ndetector: {{backend: onnx, model: {}/models/street-nano}}\n\
         publish: {{mqtt: off, json_lines: {{path: events.jsonl}}}}\n",
        server.uri(),
        env!("CARGO_MANIFEST_DIR")
    );
    fs::write(&setup.config, yaml).expect("the folder is writable");
    let child = start(&mut setup.command("run"));
    let states = |state: &str| {
        let lines = setup.lines_of("source").into_iter();
        lines.filter(|line| line["state"] == state).count()
    };
    wait_until_some("the refusal", || (states("offline") > 0).then_some(()));
    fs::write(&password, "s3cret\n").expect("the folder is writable");
    signal(&child, Signal::HUP);
    wait_until_some("frames", || (states("online") > 0).then_some(()));
    // With the wait of other failures there would have been many.
    assert_eq!(states("offline"), 1);
    let log = terminate(child);
    assert_has!(log => "retry_ms=30000", "user and password", "0 added, 1 changed");
}

#[test]
fn untrusted_certificate_of_an_rtsps_server_is_reported_with_its_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let own = certificate(folder.path(), "own", "IP:127.0.0.1", None).with_key;
    let server = RtspServer::start(0, &["--certificate", &own.display().to_string()]);
    let address = server.uri().replace("rtsp://", "rtsps://");
    let text = first_reason(&config(rtsp(address, None)));
    assert_has!(text => "unknown-ca", "set ca_file");
}

#[test]
fn repeated_failures_of_a_source_are_logged_once_a_minute_at_most_and_published_once() {
    // No server listens on the discard port.
    let setup = Setup::new(
        "device: test\nsources: [{name: cam, uri: 'rtsp://127.0.0.1:9/video', reconnect_wait_ms: 10, reconnect_max_wait_ms: 10}]\n\
         detector: {backend: onnx, model: MODEL}\npublish: {mqtt: off, stats_interval_s: 1, json_lines: {path: events.jsonl}}\n"
            .replace("MODEL", concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano"))
            .as_str(),
    );
    let mut command = setup.command("run");
    let child = start(&mut command);
    wait_until_some("ten attempts", || {
        let lines = setup.lines().into_iter();
        let reconnects = lines.filter_map(|line| line["sources"][0]["reconnects"].as_u64());
        (reconnects.max() >= Some(10)).then_some(())
    });
    let lines = setup.lines();
    let states: Vec<_> = lines
        .iter()
        .filter_map(|line| line["state"].as_str())
        .collect();
    assert_eq!(states, ["ready", "connecting", "offline"]);
    signal(&child, Signal::TERM);
    let log = stderr(&wait_for_output(child));
    let logged = log
        .lines()
        .filter(|line| line.contains("retry_ms="))
        .count();
    assert!((1..=2).contains(&logged), "{log}");
}
