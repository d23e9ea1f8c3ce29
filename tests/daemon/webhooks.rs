// SPDX-License-Identifier: Apache-2.0
//! Webhooks against a real HTTP endpoint that fails, hangs, refuses and is away: every event arrives once it can, in order, signed,
//! and over the end of the process.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support_publish;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use crate::support::daemon::{Setup, finish, jetwatch, start, terminate, wait_until_some};
use crate::support::http_camera::certificate;
use crate::support::http_endpoint::{Answer, Endpoint, Request};
use crate::support::rtsp::RtspServer;
use jetwatch_config::{Config, WebhookConfig};
use jetwatch_publish::{Publication, Sink, SinkCounts, WebhookSink};
use jetwatch_types::{Classes, EventKind, SourceState};
use serde_json::Value;
use sha2::{Digest, Sha256};
use support_publish::records::{at, event, frame, wait_until};

const OK: Answer = Answer::Status(204, "");
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A webhook whose spool is below `folder`.
fn config(folder: &Path, url: &str, more: &str) -> WebhookConfig {
    let text = format!(
        "sources: [{{name: cam, uri: /v.mp4}}]\ndetector: {{model: /m}}\npublish: {{webhooks: [{{name: a, url: '{url}', timeout_s: 1, \
         spool: {{runtime_folder: '{0}/run', state_folder: '{0}/state'}}, {more}}}]}}\n",
        folder.display()
    );
    let config = Config::from_str("f.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
    config.publish.webhooks[0].clone()
}

fn sink(config: &WebhookConfig) -> WebhookSink {
    let classes = Classes::new(&["person".to_owned()], &[]);
    WebhookSink::start(config, "box", &classes).expect("the thread starts")
}

fn publish(sink: &mut WebhookSink, ids: impl Iterator<Item = u64>) {
    for id in ids {
        let events = [event(EventKind::New, id)];
        sink.publish(&Publication::Events {
            source: "cam",
            frame: &frame(id),
            events: &events,
            recording: None,
            snapshots: &[],
        });
    }
}

/// Numbers of the tracks in the bodies.
fn tracks(requests: &[Request]) -> Vec<u64> {
    let number = |request: &Request| request.json()["track_id"].as_u64();
    requests.iter().filter_map(number).collect()
}

fn close(sink: WebhookSink) -> SinkCounts {
    let counts = Box::new(sink).close(CLOSE_TIMEOUT);
    assert_eq!(
        counts.accepted,
        counts.delivered + counts.dropped + counts.queued,
        "{counts:?}"
    );
    counts
}

/// HMAC-SHA256 by its definition, for keys of at most 64 bytes.
pub fn hmac(key: &[u8], message: &[u8]) -> String {
    let pad = |byte: u8| -> Vec<u8> {
        let key = key.iter().copied().chain(std::iter::repeat(0));
        key.take(64).map(|k| k ^ byte).collect()
    };
    let inner = Sha256::digest([&pad(0x36), message].concat());
    let outer = Sha256::digest([pad(0x5c).as_slice(), &inner].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn requests_carry_event_identity_signature_and_headers() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "key\n").unwrap();
    let endpoint = Endpoint::start(vec![OK]);
    let more = format!(
        "secret_file: '{}', headers: [{{name: X-Site, value: north}}], events: [new, offline]",
        secret.display()
    );
    let mut sink = sink(&config(folder.path(), &endpoint.url("/in?a=1"), &more));
    publish(&mut sink, 1..=1);
    sink.publish(&Publication::source_state(
        "cam",
        SourceState::Offline,
        Some("gone"),
        at(1),
    ));
    wait_until("both events", || endpoint.accepted().len() == 2);
    let [first, second] = &endpoint.accepted()[..] else {
        panic!("two");
    };
    for request in [first, second] {
        assert_eq!(request.target, "/in?a=1");
        assert_eq!(request.header("content-type"), "application/json");
        assert_eq!(request.header("x-site"), "north");
        let (id, timestamp) = (
            request.header("x-jetwatch-id"),
            request.header("x-jetwatch-timestamp"),
        );
        let signed = [
            id.as_bytes(),
            b".",
            timestamp.as_bytes(),
            b".",
            &request.body,
        ]
        .concat();
        let signature = format!("sha256={}", hmac(b"key", &signed));
        assert_eq!(request.header("x-jetwatch-signature"), signature);
    }
    let json = first.json();
    assert_eq!(
        (&json["kind"], &json["type"]),
        (&"event".into(), &"new".into())
    );
    let id = format!("{}-{}", json["spool"].as_str().unwrap(), json["seq"]);
    assert_eq!(first.header("x-jetwatch-id"), id);
    assert_eq!(first.header("x-jetwatch-event"), "new");
    assert_eq!(second.header("x-jetwatch-event"), "offline");
    assert_eq!(second.json()["state"], "offline");
    // A secret that is changed is used at once.
    fs::write(&secret, "other\n").unwrap();
    publish(&mut sink, 2..=2);
    wait_until("the third event", || endpoint.accepted().len() == 3);
    let third = endpoint.accepted().remove(2);
    assert_ne!(
        third.header("x-jetwatch-signature"),
        first.header("x-jetwatch-signature")
    );
    let counts = close(sink);
    assert_eq!((counts.delivered, counts.queued), (3, 0));
}

#[test]
fn endpoint_that_fails_hangs_and_refuses_gets_every_other_event_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::start(vec![
        Answer::Status(500, ""),
        Answer::Close,
        Answer::Hang,
        Answer::Status(302, "Location: http://192.0.2.1/\r\n"),
        Answer::Status(429, "Retry-After: 1\r\n"),
        OK,
        Answer::Status(404, ""),
        OK,
    ]);
    let mut sink = sink(&config(folder.path(), &endpoint.url("/"), "events: [new]"));
    publish(&mut sink, 1..=6);
    wait_until("all but the refused one", || endpoint.accepted().len() == 5);
    assert_eq!(tracks(&endpoint.accepted()), [1, 3, 4, 5, 6]);
    let requests = endpoint.requests();
    assert_eq!(tracks(&requests), [1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6]);
    let ids: BTreeSet<&str> = requests
        .iter()
        .map(|request| request.header("x-jetwatch-id"))
        .collect();
    assert_eq!(ids.len(), 6, "an attempt more has no other identity");
    let counts = close(sink);
    assert_eq!((counts.delivered, counts.dropped, counts.queued), (5, 1, 0));
}

#[test]
fn events_wait_for_an_endpoint_that_is_away_also_over_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens there until the second start.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = config(
        folder.path(),
        &format!("http://{address}/"),
        "events: [new]",
    );
    let mut first = sink(&config);
    publish(&mut first, 1..=20);
    let counts = close(first);
    assert_eq!((counts.queued, counts.spooled, counts.dropped), (20, 20, 0));
    let endpoint = Endpoint::serve(TcpListener::bind(address).unwrap(), vec![OK]);
    let mut second = sink(&config);
    publish(&mut second, 21..=25);
    wait_until("all events", || endpoint.accepted().len() == 25);
    assert_eq!(tracks(&endpoint.accepted()), (1..=25).collect::<Vec<u64>>());
    let counts = close(second);
    assert_eq!((counts.accepted, counts.delivered), (5, 5), "of this start");
    let third = sink(&config);
    close(third);
    // An empty spool sends nothing.
    assert_eq!(endpoint.requests().len(), 25);
}

#[test]
fn stop_does_not_wait_for_an_endpoint_that_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::start(vec![Answer::Hang, OK]);
    let config = WebhookConfig {
        timeout: Duration::from_secs(60),
        ..config(folder.path(), &endpoint.url("/"), "events: [new]")
    };
    let mut first = sink(&config);
    publish(&mut first, 1..=3);
    wait_until("the first request", || endpoint.requests().len() == 1);
    let counts = Box::new(first).close(Duration::from_secs(1));
    assert_eq!((counts.queued, counts.dropped), (3, 0));
    // The thread that waits for the answer still holds the folder on tmpfs, as a process that was not killed would.
    let state = folder.path().join("state/webhook-a");
    // What waits is on the device.
    assert!(state.read_dir().unwrap().count() > 1);
}

#[test]
fn https_endpoint_is_trusted_by_its_authority_only() {
    let folder = tempfile::tempdir().unwrap();
    let authority = certificate(folder.path(), "authority", "DNS:authority", None);
    let signed = certificate(
        folder.path(),
        "endpoint",
        "DNS:localhost",
        Some("authority"),
    );
    let endpoint = Endpoint::start(vec![OK]);
    let arguments = [
        signed.with_key.display().to_string(),
        endpoint.port().to_string(),
    ];
    let front = RtspServer::start_script("tls_front.py", &arguments.each_ref().map(String::as_str));
    let url = format!("https://localhost:{}/", front.port);

    let stranger = config(folder.path(), &url, "events: [new]");
    let mut untrusting = sink(&stranger);
    publish(&mut untrusting, 1..=1);
    let counts = close(untrusting);
    assert_eq!((counts.delivered, counts.queued), (0, 1));
    let ca = format!(
        "events: [new], ca_file: '{}'",
        authority.certificate.display()
    );
    let mut trusting = sink(&config(folder.path(), &url, &ca));
    publish(&mut trusting, 2..=2);
    wait_until("both events", || endpoint.accepted().len() == 2);
    close(trusting);
}

#[test]
fn killed_daemon_loses_no_event_for_a_webhook_that_was_away() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let setup = Setup::new(&format!(
        "device: box\nsources: [{{name: cam, uri: 'synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=60'}}]\n\
         detector: {{backend: scripted}}\n\
         publish: {{update_interval_ms: 100, mqtt: off, webhooks: [{{name: a, url: 'http://{address}/', \
         events: [new, end, online], spool: {{runtime_folder: run, state_folder: state}}}}]}}\n"
    ));
    let waiting = || -> BTreeSet<(String, String)> {
        let mut dump = jetwatch();
        dump.args(["spool", "dump", "--webhook", "a", "--config"]);
        let dumped = finish(dump.arg(&setup.config));
        let lines = String::from_utf8(dumped.stdout).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let events = lines
            .map(|line| line["payload"].clone())
            .filter(|payload| payload["kind"] == "event");
        events
            .map(|event| (event["id"].to_string(), event["type"].to_string()))
            .collect()
    };
    let mut first = start(&mut setup.command("run"));
    let before = wait_until_some("objects that came and went", || {
        Some(waiting()).filter(|events| events.len() >= 10)
    });
    first.kill().expect("it runs");
    first.wait().expect("it ended");

    let endpoint = Endpoint::serve(
        TcpListener::bind(address).unwrap(),
        vec![Answer::Status(503, ""), OK],
    );
    let second = start(&mut setup.command("run"));
    let posted = || -> BTreeSet<(String, String)> {
        let requests = endpoint.accepted();
        let events = requests
            .iter()
            .map(Request::json)
            .filter(|json| json["kind"] == "event");
        events
            .map(|json| (json["id"].to_string(), json["type"].to_string()))
            .collect()
    };
    wait_until_some("the events of the first process", || {
        before.is_subset(&posted()).then_some(())
    });
    wait_until_some("an event of the second process", || {
        (posted().len() > before.len() + 2).then_some(())
    });
    terminate(second);
    let online = endpoint
        .accepted()
        .iter()
        .filter(|request| request.json()["state"] == "online")
        .count();
    assert_eq!(online, 2, "one of each process");
}

#[test]
fn check_reads_the_files_of_webhooks() {
    let setup = Setup::new(
        "sources: [{name: cam, uri: 'synthetic://traffic?frames=5'}]\ndetector: {backend: scripted}\npublish: {mqtt: off, webhooks: \
         [{name: a, url: 'https://192.0.2.1/in?token=hunter2', secret_file: key, ca_file: ca.pem}]}\n",
    );
    let check = || {
        let output = finish(&mut setup.command("check"));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!printed.contains("hunter2"), "{printed}");
        (output.status.code(), printed)
    };
    let (code, printed) = check();
    assert_eq!(code, Some(1), "{printed}");
    assert_has!(printed => "secret_file: cannot read");
    fs::write(setup.path("key"), "secret\n").unwrap();
    fs::write(setup.path("ca.pem"), "no certificate\n").unwrap();
    let (code, printed) = check();
    assert_eq!(code, Some(1), "{printed}");
    assert_has!(printed => "ca_file: cannot use");
}
