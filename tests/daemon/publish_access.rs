// SPDX-License-Identifier: Apache-2.0
//! Access: passwords, TLS, and brokers that refuse.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jetwatch_config::{Broker, Credentials, MqttConfig, Secret, TlsConfig};
use jetwatch_publish::{ConnectionState, MqttSink, PublishError, Sink, Subscriber, probe};
use support::mosquitto::{Mosquitto, client, program};
use support::records::{TEST_TIMEOUT, next, publish_event, wait_until};

const TIMEOUT: Duration = Duration::from_secs(20);

fn user(user: &str, password: Secret) -> Option<Credentials> {
    Some(Credentials {
        user: user.to_owned(),
        password,
    })
}

fn inline(password: &str) -> Secret {
    Secret::Inline(password.to_owned())
}

pub(crate) fn with_password(folder: &Path) -> String {
    let file = folder.join("passwords");
    // Version 1.6 does not make the file with `-b`.
    std::fs::write(&file, "").expect("the folder is writable");
    let status = Command::new(program("mosquitto_passwd"))
        .arg("-b")
        .arg(&file)
        .args(["cam", "right"])
        .status()
        .expect("mosquitto_passwd runs");
    assert!(status.success());
    format!("allow_anonymous false\npassword_file {}\n", file.display())
}

#[test]
fn wrong_password_is_reported_and_correct_one_works() {
    let broker = Mosquitto::with_config(with_password);
    for credentials in [
        None,
        user("cam", inline("wrong")),
        user("without_rights", inline("right")),
    ] {
        let config = MqttConfig {
            credentials: credentials.clone(),
            ..broker.client()
        };
        let error = probe(&config, TIMEOUT).expect_err("not let in");
        assert!(error.is_refusal(), "{error}");
        let text = error.to_string();
        let name = credentials.map_or("(none)".to_owned(), |credentials| credentials.user);
        assert_has!(text => &format!("broker refused user '{name}'"), "publish.mqtt.user");
        assert!(
            !text.contains("wrong") && !text.contains("right;"),
            "no password in {text}"
        );
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("password");
    std::fs::write(&file, "wrong\n").expect("writable");
    let config = MqttConfig {
        credentials: user("cam", Secret::File(file.clone())),
        ..broker.client()
    };
    let sink = MqttSink::start(&config, "dev", &[]).expect("the thread starts");
    let monitor = sink.monitor();
    wait_until("the refusal is known", || {
        matches!(
            monitor.connection_state(),
            ConnectionState::Failed { refused: true, .. }
        )
    });
    std::fs::write(&file, "right\n").expect("writable");
    let info = probe(&config, TIMEOUT).expect("the password file is read again at each connect");
    let found = (info.address, info.protocol);
    assert_eq!(found, (format!("127.0.0.1:{}", broker.port()), "5.0"));
    // Waiting for the next slow attempt, the sink still closes at once: a last attempt, with the right password now.
    let subscriber = Subscriber::start(&config, "jetwatch/dev/status").expect("let in");
    Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!(next(&subscriber, "dev/status"), "online");
    assert_eq!(next(&subscriber, "dev/status"), "offline");
}

#[test]
fn each_connection_failure_has_own_error() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a free port")
        .port();
    let error = probe(&client(closed), TIMEOUT).expect_err("no server listens");
    assert!(matches!(error, PublishError::Unreachable { .. }), "{error}");

    let broker = Broker::Url {
        host: "no-such-host.invalid".to_owned(),
        port: 1883,
        tls: false,
    };
    let error = probe(
        &MqttConfig {
            broker,
            ..client(0)
        },
        TIMEOUT,
    )
    .expect_err("no address");
    assert!(matches!(error, PublishError::Resolve { .. }), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("bound").port();
    let error = probe(&client(port), Duration::from_millis(300)).expect_err("it never answers");
    assert!(
        matches!(
            error,
            PublishError::Timeout {
                step: "logging in",
                ..
            }
        ),
        "{error}"
    );
}

/// Makes a CA, and a certificate for 127.0.0.1 and localhost signed by it.
pub(crate) fn authority(folder: &Path, name: &str) {
    let openssl = |arguments: &str| {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(folder)
            .output()
            .expect("this test needs the program openssl: apt-get install openssl");
        assert!(
            output.status.success(),
            "openssl {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    // A configuration of its own: with `-addext`, OpenSSL 1.1 writes the extensions of its default one twice, which no client accepts.
    std::fs::write(
        folder.join("request"),
        "[req]\ndistinguished_name=name\nx509_extensions=authority\n[name]\n[authority]\nbasicConstraints=critical,CA:TRUE\n",
    )
    .expect("writable");
    let key = "-config request -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout {name}-ca.key -out {name}-ca.pem -days 2 -subj /CN={name}-ca"
    ));
    for (who, names) in [
        ("server", "IP:127.0.0.1,DNS:localhost"),
        ("client", "DNS:client"),
        ("elsewhere", "DNS:elsewhere.example"),
    ] {
        std::fs::write(
            folder.join("extensions"),
            format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n"),
        )
        .expect("writable");
        openssl(&format!(
            "req {key} -keyout {name}-{who}.key -out {name}-{who}.csr -subj /CN={who}"
        ));
        openssl(&format!(
            "x509 -req -in {name}-{who}.csr -CA {name}-ca.pem -CAkey {name}-ca.key -CAcreateserial -out {name}-{who}.pem -days 2 -extfile extensions"
        ));
    }
}

fn tls_client(port: u16, host: &str, tls: TlsConfig) -> MqttConfig {
    MqttConfig {
        broker: Broker::Url {
            host: host.to_owned(),
            port,
            tls: true,
        },
        tls,
        ..client(port)
    }
}

#[test]
fn tls_verifies_the_broker_and_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    authority(folder.path(), "good");
    authority(folder.path(), "other");
    let with_certificate = |certificate: &str, key: &str| {
        let (certificate, key) = (at(certificate), at(key));
        let files = format!(
            "certfile {}\nkeyfile {}",
            certificate.display(),
            key.display()
        );
        Mosquitto::with_config(|_| format!("allow_anonymous true\n{files}\n"))
    };
    let broker = with_certificate("good-server.pem", "good-server.key");
    let trust = |file: &str| TlsConfig {
        ca_file: Some(at(file)),
        ..TlsConfig::default()
    };

    for host in ["127.0.0.1", "localhost"] {
        let info = probe(
            &tls_client(broker.port(), host, trust("good-ca.pem")),
            TIMEOUT,
        )
        .expect("trusted");
        assert_eq!(info.protocol, "5.0");
    }
    let config = tls_client(broker.port(), "127.0.0.1", trust("good-ca.pem"));
    let mut sink = MqttSink::start(&config, "dev", &[]).expect("the thread starts");
    for id in 1..=300 {
        publish_event(&mut sink, id);
    }
    let counts = Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!((counts.accepted, counts.delivered), (300, 300));

    let refused = |config: &MqttConfig, why: &str| {
        let error = probe(config, TIMEOUT).expect_err("not trusted");
        assert!(matches!(error, PublishError::Tls { .. }), "{error}");
        assert!(error.to_string().contains("ca_file"), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(
        &tls_client(broker.port(), "127.0.0.1", trust("other-ca.pem")),
        "invalid peer certificate: ",
    );
    // The system's authorities, where there are any, did not sign this one.
    let system = tls_client(broker.port(), "127.0.0.1", TlsConfig::default());
    let error = probe(&system, TIMEOUT).expect_err("not trusted");
    assert!(
        matches!(
            error,
            PublishError::Tls { .. } | PublishError::NoAuthorities { .. }
        ),
        "{error}"
    );
    // Signed by the right authority, but for another name.
    let elsewhere = with_certificate("good-elsewhere.pem", "good-elsewhere.key");
    refused(
        &tls_client(elsewhere.port(), "127.0.0.1", trust("good-ca.pem")),
        "not valid for name",
    );

    // A certificate that signs itself, in the place of the broker's.
    let own = with_certificate("good-ca.pem", "good-ca.key");
    refused(
        &tls_client(own.port(), "127.0.0.1", trust("good-ca.pem")),
        "basicConstraints CA:FALSE",
    );

    let error = probe(
        &tls_client(broker.port(), "127.0.0.1", trust("missing.pem")),
        TIMEOUT,
    )
    .expect_err("no file");
    assert_has!(error.to_string() => "missing.pem", "publish.mqtt.tls.ca_file");
}

#[test]
fn client_certificate_is_sent_when_required() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    authority(folder.path(), "good");
    let broker = Mosquitto::with_config(|_| {
        format!(
            "allow_anonymous true\ncertfile {}\nkeyfile {}\ncafile {}\nrequire_certificate true\n",
            at("good-server.pem").display(),
            at("good-server.key").display(),
            at("good-ca.pem").display()
        )
    });
    let anonymous = TlsConfig {
        ca_file: Some(at("good-ca.pem")),
        ..TlsConfig::default()
    };
    let error = probe(
        &tls_client(broker.port(), "127.0.0.1", anonymous.clone()),
        TIMEOUT,
    )
    .expect_err("no certificate");
    assert!(
        matches!(error, PublishError::Tls { .. } | PublishError::Lost { .. }),
        "{error}"
    );
    let known = TlsConfig {
        cert_file: Some(at("good-client.pem")),
        key_file: Some(at("good-client.key")),
        ..anonymous
    };
    probe(&tls_client(broker.port(), "127.0.0.1", known), TIMEOUT)
        .expect("known by its certificate");
}
