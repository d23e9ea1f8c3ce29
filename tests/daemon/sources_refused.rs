// SPDX-License-Identifier: Apache-2.0
//! Servers that refuse: credentials, streams and certificates. The account of a camera is not tried without end, the reason names
//! a remedy, and a reload tries again at once.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jetwatch_config::{RtspTransport, SourceUri};

use support::collector::{Collector, config};
use support::daemon::{
    Setup, Signal, json_lines, signal, start, stderr, terminate, wait_for_output, wait_until_some,
};
use support::rtsp::RtspServer;

/// The text of the first failure of a source at this address.
fn first_failure(location: String) -> String {
    let uri = SourceUri::Rtsp {
        location,
        user: None,
        password: None,
        transport: RtspTransport::Tcp,
        latency: Duration::from_millis(100),
    };
    let collector = Collector::start(&config(uri), usize::MAX);
    let text = wait_until_some("a failure", || {
        collector.offline_reasons().into_iter().next()
    });
    collector.stop().1.expect("it was stopped");
    text
}

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
        let lines = json_lines(&setup.path("events.jsonl")).into_iter();
        lines
            .filter(|line| line["kind"] == "source" && line["state"] == state)
            .count()
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
    let certificate = self_signed(folder.path());
    let server = RtspServer::start(0, &["--certificate", &certificate]);
    let text = first_failure(server.uri().replace("rtsp://", "rtsps://"));
    assert_has!(text => "unknown-ca", "set ca_file");
}

/// A file with a certificate that signs itself, and its key.
fn self_signed(folder: &Path) -> String {
    let line = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key -out certificate -days 2 -subj /CN=127.0.0.1";
    let made = Command::new("openssl")
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .expect("this test needs the program openssl: apt-get install openssl");
    assert!(made.status.success(), "{made:?}");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("openssl wrote it");
    let path = folder.join("both.pem");
    fs::write(&path, read("certificate") + &read("key")).expect("the folder is writable");
    path.display().to_string()
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
        let lines = json_lines(&setup.path("events.jsonl")).into_iter();
        let reconnects = lines.filter_map(|line| line["sources"][0]["reconnects"].as_u64());
        (reconnects.max() >= Some(10)).then_some(())
    });
    let lines = json_lines(&setup.path("events.jsonl"));
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
