// SPDX-License-Identifier: Apache-2.0
//! Mosquitto's own clients, for any broker on the loopback interface.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::mosquitto::program;
use super::records::TEST_TIMEOUT;

/// Retained while [`retained`] runs: the broker delivers it after what is retained below the filter.
const END: &str = "test/end";

/// Publishes with QoS 1. Returns whether the broker took it, which it does not while it does not listen yet.
pub fn publish(port: u16, topic: &str, payload: &str, options: &[&str]) -> bool {
    Command::new(program("mosquitto_pub"))
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-q", "1"])
        .args(["-t", topic, "-m", payload])
        .args(options)
        .stderr(Stdio::null())
        .status()
        .expect("mosquitto_pub starts")
        .success()
}

/// Publishes each line with QoS 1, all on one connection.
pub fn publish_lines(port: u16, topic: &str, lines: &str) {
    let mut publisher = Command::new(program("mosquitto_pub"))
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(["-q", "1", "-t", topic, "-l"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("mosquitto_pub starts");
    let mut input = publisher.stdin.take().expect("a pipe");
    input.write_all(lines.as_bytes()).expect("it reads");
    drop(input);
    assert!(publisher.wait().expect("it ends").success());
}

/// What mosquitto_sub prints of one message on `topic`, and whether one has come.
pub fn receive_one(port: u16, topic: &str, options: &[&str]) -> (bool, String) {
    let output = Command::new(program("mosquitto_sub"))
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(["-t", topic, "-C", "1", "-W", "30"])
        .args(options)
        .output()
        .expect("mosquitto_sub starts");
    let text = String::from_utf8_lossy(&output.stdout);
    (output.status.success(), text.trim().to_owned())
}

/// Retained messages at `base` and below, by the rest of their topics: that of `base` itself is empty.
pub fn retained(port: u16, base: &str) -> BTreeMap<String, String> {
    assert!(publish(port, END, "end", &["-r"]), "the broker is there");
    let mut client = Command::new(program("mosquitto_sub"))
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .args(["-t", &format!("{base}/#"), "-t", END])
        .args(["--retained-only", "-F", "%t %p"])
        .args(["-W", &TEST_TIMEOUT.as_secs().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("mosquitto_sub starts");
    let output = BufReader::new(client.stdout.take().expect("stdout is piped"));
    let mut kept = BTreeMap::new();
    let mut is_complete = false;
    for line in output.lines() {
        let line = line.expect("text");
        let Some((topic, value)) = line.split_once(' ') else {
            continue;
        };
        if topic == END {
            is_complete = true;
            break;
        }
        if let Some(below) = topic.strip_prefix(base) {
            kept.insert(below.trim_start_matches('/').to_owned(), value.to_owned());
        }
    }
    let _ = client.kill();
    let _ = client.wait();
    assert!(is_complete, "the broker ended: {kept:?}");
    kept
}
