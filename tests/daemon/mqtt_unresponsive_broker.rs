//! A broker that goes silent without closing the connection, as behind a dead link. It is simulated here, because a
//! real one cannot do so at a given moment.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use jetwatch_config::MqttConfig;
use jetwatch_publish::{MqttSink, Sink};
use support::mosquitto::client;
use support::records::{TEST_TIMEOUT, publish_event, wait_until};

/// Accepts MQTT 5 without properties.
const CONNACK: [u8; 5] = [0x20, 3, 0, 0, 0];

/// One packet: its first byte and its body.
fn packet(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut byte = [0];
    stream.read_exact(&mut byte).ok()?;
    let first = byte[0];
    let (mut length, mut shift) = (0, 0);
    loop {
        stream.read_exact(&mut byte).ok()?;
        length |= usize::from(byte[0] & 0x7f) << shift;
        shift += 7;
        if byte[0] & 0x80 == 0 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((first, body))
}

/// Accepts a client and answers its CONNECT.
fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().expect("a client");
    assert_eq!(packet(&mut stream).expect("CONNECT").0, 0x10);
    stream.write_all(&CONNACK).expect("it listens");
    stream
}

#[test]
fn unresponsive_broker_is_reconnected_and_message_resent_as_duplicate() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let config = MqttConfig {
        keep_alive: Duration::from_secs(1),
        ..client(listener.local_addr().expect("bound").port())
    };
    let broker = thread::spawn(move || {
        // Reads everything and sends nothing, until the client closes.
        let mut silent = accept(&listener);
        let mut first = Vec::new();
        while let Some((kind, body)) = packet(&mut silent) {
            first.push((kind, body));
        }
        let mut second = Vec::new();
        let mut good = accept(&listener);
        while let Some((kind, body)) = packet(&mut good) {
            if kind & 0xf0 == 0x30 {
                let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
                good.write_all(&[0x40, 2, body[2 + topic], body[3 + topic]])
                    .expect("it listens");
            }
            second.push((kind, body));
        }
        (first, second)
    });
    let mut sink = MqttSink::start(&config, "dev", &[]).expect("the thread starts");
    publish_event(&mut sink, 1);
    wait_until("the second connection delivers it", || {
        sink.counts().delivered == 1
    });
    Box::new(sink).close(TEST_TIMEOUT);
    let (first, second) = broker.join().expect("the broker's part went as planned");
    // Retained with QoS 1: 0x33. QoS 1: 0x32, as a duplicate 0x3a. PINGREQ: 0xc0. DISCONNECT: 0xe0.
    let kinds =
        |packets: &[(u8, Vec<u8>)]| packets.iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
    assert_eq!(
        kinds(&first)[..3],
        [0x33, 0x32, 0xc0],
        "status, event, and a ping before the timeout"
    );
    assert_eq!(
        kinds(&second),
        [0x33, 0x3a, 0x33, 0xe0],
        "online, the event again, offline, goodbye"
    );
    let payload = |body: &[u8]| {
        body.iter()
            .position(|&byte| byte == b'{')
            .map(|at| body[at..].to_vec())
    };
    let [first, second] = [&first, &second].map(|packets| payload(&packets[1].1).expect("JSON"));
    // Only its age was added.
    let (body, _) = first.split_at(first.len() - 1);
    let age = second.strip_prefix(body).expect("the same event");
    assert!(age.starts_with(b",\"late_ms\":"), "{second:?}");
}

#[test]
fn close_timeout_triggers_last_will() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let config = client(listener.local_addr().expect("bound").port());
    let (seen, published) = mpsc::channel();
    let broker = thread::spawn(move || {
        let mut silent = accept(&listener);
        let mut last = None;
        while let Some(packet) = packet(&mut silent) {
            if packet.0 == 0x32 {
                seen.send(()).expect("the test waits for it");
            }
            last = Some(packet);
        }
        last
    });
    let mut sink = MqttSink::start(&config, "dev", &[]).expect("the thread starts");
    publish_event(&mut sink, 1);
    published
        .recv_timeout(TEST_TIMEOUT)
        .expect("the event is on its way");
    let counts = Box::new(sink).close(Duration::from_secs(1));
    assert_eq!(
        (counts.accepted, counts.delivered, counts.dropped),
        (1, 0, 1),
        "{counts:?}"
    );
    let last = broker.join().expect("the broker's part went as planned");
    assert_eq!(
        last,
        Some((0xe0, vec![0x04])),
        "DISCONNECT with the last will"
    );
}
