// SPDX-License-Identifier: Apache-2.0
//! The embedded broker with the clients of mosquitto.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::net::SocketAddr;
use std::process::Command;

use jetwatch_config::{Broker, Credentials, MqttConfig, Secret};
use jetwatch_publish::{EmbeddedBroker, MqttSink, TlsListener};
use support::clients::receive_one;
use support::mosquitto::{client, program};
use support::records::wait_until;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn start() -> (EmbeddedBroker, MqttConfig) {
    let broker = EmbeddedBroker::start(loopback(), None).expect("a free port");
    let config = MqttConfig {
        broker: Broker::Embedded {
            listen: broker.local_addr(),
        },
        ..client(0)
    };
    (broker, config)
}

/// What mosquitto_sub prints of one message on `topic`: whether it is retained, and its payload.
fn mosquitto_sub(port: u16, topic: &str, more: &[&str]) -> (bool, String) {
    receive_one(port, topic, &[&["-F", "%r %p"], more].concat())
}

#[test]
fn embedded_broker_listens_with_tls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str| folder.path().join(name);
    crate::publish_access::authority(folder.path(), "good");
    crate::publish_access::authority(folder.path(), "other");
    let login = Credentials {
        user: "cam".to_owned(),
        password: Secret::Inline("right".to_owned()),
    };
    let tls = TlsListener {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        cert_file: file("good-server.pem"),
        key_file: file("good-server.key"),
    };
    let broker = EmbeddedBroker::start_with_tls(loopback(), Some(&login), Some(tls.clone()))
        .expect("free ports");
    let config = MqttConfig {
        broker: Broker::Embedded {
            listen: broker.local_addr(),
        },
        credentials: Some(login.clone()),
        ..client(0)
    };
    let sink = MqttSink::start(&config, "dev", &[]).expect("the thread starts");
    let port = broker.tls_addr().expect("it listens with TLS").port();
    let ask = |authority: Option<&str>, password: &str, more: &[&str]| {
        let authority = authority.map(|name| file(name).display().to_string());
        let mut options = vec!["-u", "cam", "-P", password];
        if let Some(path) = &authority {
            options.extend(["--cafile", path]);
        }
        options.extend(more);
        mosquitto_sub(port, "jetwatch/dev/status", &options)
    };
    let online = (true, "1 online".to_owned());
    wait_until("the retained state", || {
        ask(Some("good-ca.pem"), "right", &[]) == online
    });
    let older = ["--tls-version", "tlsv1.2"];
    assert_eq!(ask(Some("good-ca.pem"), "right", &older), online);
    let refused = [
        ("another authority", ask(Some("other-ca.pem"), "right", &[])),
        ("a wrong password", ask(Some("good-ca.pem"), "wrong", &[])),
        ("without TLS", ask(None, "right", &["-W", "2"])),
    ];
    for (what, (is_let_in, printed)) in refused {
        assert!(!is_let_in && printed.is_empty(), "{what}: {printed}");
    }
    drop(sink);
    let unreadable = TlsListener {
        key_file: file("missing.key"),
        ..tls
    };
    let error = EmbeddedBroker::start_with_tls(loopback(), Some(&login), Some(unreadable))
        .expect_err("no key");
    let text = error.to_string();
    assert!(
        text.starts_with("publish.mqtt.tls.key_file: cannot use") && text.contains("missing.key"),
        "{text}"
    );
}

#[test]
fn sessions_of_clients_that_are_away_are_limited() {
    let (broker, _config) = start();
    let port = broker.local_addr().port().to_string();
    // Subscribes for a session that outlives its connection, and leaves.
    let leave_session = |id: &str, version: &str| {
        let mut command = Command::new(program("mosquitto_sub"));
        command.args(["-h", "127.0.0.1", "-p", &port, "-V", version, "-i", id]);
        command.args(["-c", "-q", "1", "-t", "#", "-E"]);
        if version == "5" {
            command.args(["-x", "4294967295"]);
        }
        command
            .output()
            .expect("mosquitto_sub runs")
            .status
            .success()
    };
    for index in 0..32 {
        let version = if index % 2 == 0 { "311" } else { "5" };
        assert!(
            leave_session(&format!("client-{index}"), version),
            "{index}"
        );
    }
    assert!(!leave_session("one-more", "311"), "no room for one more");
    assert!(leave_session("client-3", "5"), "it has a session");
    let (_, status) = mosquitto_sub(broker.local_addr().port(), "none", &["-W", "1"]);
    assert_eq!(
        status, "",
        "a clean session is let in, and nothing was published"
    );
}
