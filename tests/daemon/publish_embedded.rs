//! The embedded broker with the clients of mosquitto.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use jetwatch_config::{Broker, Credentials, MqttConfig, Secret};
use jetwatch_publish::{
    EmbeddedBroker, MqttSink, Publication, PublishError, Sink, Subscriber, TlsListener, probe,
};
use support::mosquitto::{client, program};
use support::proxy::Proxy;
use support::records::{TEST_TIMEOUT, at, next, publish_event, wait_until};

const TIMEOUT: Duration = Duration::from_secs(20);

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

/// Output of mosquitto_sub for one message on `topic`.
fn mosquitto_sub(port: u16, topic: &str, more: &[&str]) -> (bool, String) {
    let output = Command::new(program("mosquitto_sub"))
        .args([
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-t",
            topic,
            "-C",
            "1",
            "-W",
            "30",
            "-F",
            "%r %p",
        ])
        .args(more)
        .output()
        .expect("mosquitto_sub runs");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[test]
fn mosquitto_sub_sees_retained_values_with_both_protocols() {
    let (broker, config) = start();
    let mut sink =
        MqttSink::start(&config, "dev", &["person".to_owned()]).expect("the thread starts");
    sink.publish(&Publication::Count {
        source: "cam",
        label: "person",
        count: 3,
        at: at(0),
    });
    wait_until("the count is delivered", || sink.counts().delivered == 1);
    let port = broker.local_addr().port();
    for version in ["311", "5"] {
        assert_eq!(
            mosquitto_sub(port, "jetwatch/dev/status", &["-V", version]),
            (true, "1 online".to_owned())
        );
        assert_eq!(
            mosquitto_sub(port, "jetwatch/+/cam/counts/person", &["-V", version]),
            (true, "1 3".to_owned())
        );
    }
    Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!(
        mosquitto_sub(port, "jetwatch/dev/status", &[]),
        (true, "1 offline".to_owned())
    );
}

#[test]
fn events_arrive_and_the_last_will_is_kept() {
    let (broker, config) = start();
    let proxy = Proxy::start(broker.local_addr().port());
    let subscriber = Subscriber::start(&config, "jetwatch/dev/#").expect("subscribed");
    let mut sink = MqttSink::start(&client(proxy.port()), "dev", &[]).expect("the thread starts");
    assert_eq!(next(&subscriber, "dev/status"), "online");
    for id in 1..=500 {
        publish_event(&mut sink, id);
    }
    for id in 1..=500_u64 {
        let event: serde_json::Value =
            serde_json::from_str(&next(&subscriber, "cam/events")).expect("JSON");
        assert_eq!(event["track_id"].as_u64(), Some(id));
    }
    proxy.block();
    assert_eq!(next(&subscriber, "dev/status"), "offline");
    proxy.open();
    assert_eq!(next(&subscriber, "dev/status"), "online");
    let counts = Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!(
        (counts.accepted, counts.delivered),
        (500, 500),
        "{counts:?}"
    );
}

#[test]
fn embedded_broker_requires_configured_password() {
    let right = Credentials {
        user: "cam".to_owned(),
        password: Secret::Inline("right".to_owned()),
    };
    let wrong = Credentials {
        password: Secret::Inline("wrong".to_owned()),
        ..right.clone()
    };
    // All addresses: what would be refused without a password.
    let broker = EmbeddedBroker::start(SocketAddr::from(([0, 0, 0, 0], 0)), Some(&right))
        .expect("a free port");
    let config = |credentials| MqttConfig {
        broker: Broker::Embedded {
            listen: broker.local_addr(),
        },
        credentials,
        ..client(0)
    };
    probe(&config(Some(right)), TIMEOUT).expect("let in");
    for credentials in [None, Some(wrong)] {
        let error = probe(&config(credentials), TIMEOUT).expect_err("not let in");
        assert!(matches!(error, PublishError::BadPassword { .. }), "{error}");
    }
    let port = broker.local_addr().port();
    assert!(!mosquitto_sub(port, "#", &[]).0);
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
    assert_eq!(ask(Some("good-ca.pem"), "right", &[]), online);
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
fn a_broker_that_ends_frees_its_port_while_clients_are_connected() {
    let (broker, config) = start();
    let mut sink = MqttSink::start(&config, "dev", &[]).expect("the thread starts");
    publish_event(&mut sink, 1);
    wait_until("connected", || sink.counts().delivered == 1);
    let address = broker.local_addr();
    broker.stop();
    publish_event(&mut sink, 2);
    let again = EmbeddedBroker::start(address, None).expect("the port is free");
    wait_until("the sink is back", || sink.counts().delivered == 2);
    drop(again);
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

/// A client of mosquitto at the broker, with `arguments` between blanks.
fn mosquitto(name: &str, broker: &EmbeddedBroker, arguments: &str) -> Command {
    let port = broker.local_addr().port().to_string();
    let mut command = Command::new(program(name));
    command.args(["-h", "127.0.0.1", "-p", &port]);
    command.args(arguments.split_whitespace());
    command
}

/// Its standard output, in lines; `None`: it failed.
fn lines(mut command: Command) -> Option<Vec<String>> {
    let output = command.output().expect("the client runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(str::to_owned).collect();
    output.status.success().then_some(lines)
}

#[test]
fn clients_of_mosquitto_get_each_qos_wildcards_and_what_they_missed() {
    let (broker, _config) = start();
    let publish = |arguments: &str| {
        let output = mosquitto("mosquitto_pub", &broker, arguments);
        lines(output).unwrap_or_else(|| panic!("mosquitto_pub {arguments}"));
    };
    for version in ["311", "5"] {
        let expiry = if version == "5" { "-x 600" } else { "" };
        let subscriber = |arguments: &str| {
            let arguments = format!("-V {version} -W 30 {arguments}");
            mosquitto("mosquitto_sub", &broker, &arguments)
        };
        // A session, and what comes while its client is away.
        let session =
            format!("-i away-{version} -c {expiry} -q 2 -t {version}/+/events -t {version}/deep/#");
        lines(subscriber(&format!("{session} -E"))).expect("subscribed");
        for (qos, topic) in [
            (0, "a/events"),
            (1, "a/events"),
            (2, "deep"),
            (2, "deep/er/still"),
            (1, "a/b/events"),
        ] {
            publish(&format!(
                "-V {version} -q {qos} -t {version}/{topic} -m {qos}"
            ));
        }
        let missed = lines(subscriber(&format!("{session} -C 3 -F %q:%t:%p")));
        let expected = [("1", "a/events"), ("2", "deep"), ("2", "deep/er/still")]
            .map(|(qos, topic)| format!("{qos}:{version}/{topic}:{qos}"));
        assert_eq!(missed.as_deref(), Some(&expected[..]));
        // Retained messages, with the QoS of the subscription.
        for qos in 0..=2 {
            publish(&format!(
                "-V {version} -r -q {qos} -t kept/{version} -m {qos}"
            ));
            for granted in 0..=2 {
                let kept = lines(subscriber(&format!(
                    "-q {granted} -t kept/{version} -C 1 -F %r:%q:%p"
                )));
                let expected = format!("1:{}:{qos}", granted.min(qos));
                assert_eq!(kept, Some(vec![expected]));
            }
        }
        // The will of a client that is connected, as its first message shows, and is killed.
        let will = format!(
            "-t kept/{version} --will-topic will/{version} --will-payload gone --will-retain"
        );
        let mut dies = subscriber(&will)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut first = [0];
        let output = dies.stdout.as_mut().expect("it is piped");
        output.read_exact(&mut first).expect("a message");
        dies.kill().expect("it runs");
        dies.wait().expect("it is our child");
        let seen = lines(subscriber(&format!("-t will/{version} -C 1")));
        assert_eq!(seen, Some(vec!["gone".to_owned()]));
    }
}
