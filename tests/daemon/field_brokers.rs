// SPDX-License-Identifier: Apache-2.0
//! What users of other projects reported of MQTT brokers, tried here: brokers that refuse, close or stay silent. Each row names a public
//! thread; the list with results is docs/src/field.md.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::daemon::{Setup, finish, start as daemon_start, terminate};
use jetwatch_config::{Broker, MqttConfig, MqttVersion};
use jetwatch_mqtt::{Connect, Packet, Protocol, Publish, QoS, ReasonCode};
use jetwatch_publish::{
    CommandListener, MqttSink, Publication, RehearsalOptions, Sink, Subscriber, probe, rehearse,
};
use jetwatch_types::TrackId;
use support::mosquitto::{Mosquitto, client};
use support::records::{TEST_TIMEOUT, at, publish_event, wait_until};
use support::scripted::{Answer, Scripted, connack, puback};

const TIMEOUT: Duration = Duration::from_secs(20);

fn start(config: &MqttConfig) -> MqttSink {
    MqttSink::start(config, "dev", &["person".to_owned()]).expect("the thread starts")
}

fn count(sink: &mut MqttSink, count: usize) {
    sink.publish(&Publication::count("cam", "person", count, at(0)));
}

/// Track numbers of events.
fn tracks<'p>(payloads: impl Iterator<Item = &'p [u8]>) -> BTreeSet<u64> {
    payloads
        .map(|payload| {
            let event: serde_json::Value = serde_json::from_slice(payload).expect("JSON");
            event["track_id"].as_u64().expect("a number")
        })
        .collect()
}

fn taken_tracks(broker: &Scripted) -> BTreeSet<u64> {
    let events = broker.taken("/events");
    tracks(events.iter().map(|publish| &publish.payload[..]))
}

/// Whether it is the event of track 30.
fn is_bad(packet: &Packet) -> bool {
    matches!(packet, Packet::Publish(publish) if publish.topic.ends_with("/events")
        && tracks([&publish.payload[..]].into_iter()).contains(&30))
}

type Script = Box<dyn Fn(&Publish) -> Answer + Send + Sync>;

fn refuses(code: u8) -> Script {
    Box::new(move |publish| Answer::Bytes(puback(publish, ReasonCode(code))))
}

fn closes(after: &'static [u8]) -> Script {
    Box::new(move |_| Answer::Close(after.to_vec()))
}

/// One event of 60 is refused in some way, each time that it comes.
#[test]
fn refused_event_is_given_up_with_a_gap_and_no_other_is_lost() {
    let as_pubrec: Script = Box::new(|publish| {
        let mut bytes = puback(publish, ReasonCode::PACKET_TOO_LARGE);
        bytes[0] = 0x50;
        Answer::Bytes(bytes)
    });
    let denies_and_ends: Script = Box::new(|publish| {
        let refused = puback(publish, ReasonCode::NOT_AUTHORIZED);
        Answer::Close([&refused[..], b"\xe0\x01\x87"].concat())
    });
    let is_silent: Script = Box::new(|_| Answer::Bytes(Vec::new()));
    let (any, v311) = (None, Some(MqttVersion::V311));
    let cases = [
        ("mosquitto#265 too large", refuses(0x95), any),
        ("mosquitto#1654 the same in 1.6", refuses(0x83), any),
        ("unspecified", refuses(0x80), any),
        ("a code that is not in MQTT", refuses(0xc1), any),
        ("mosquitto#229 denied", refuses(0x87), any),
        ("a topic that is not allowed", refuses(0x90), any),
        ("a payload that is not allowed", refuses(0x99), any),
        ("mosquitto#3588 PUBREC", as_pubrec, any),
        ("paho.mqtt.python#760 closes", closes(b""), any),
        ("nanomq#1236 ends", closes(b"\xe0\x01\x95"), any),
        ("zigbee2mqtt#23771 closes", closes(b""), v311),
        ("hivemq-community-edition#522", denies_and_ends, any),
        ("emqx#1641 no answer to this one", is_silent, any),
    ];
    std::thread::scope(|scope| {
        for (name, script, protocol) in cases {
            scope.spawn(move || {
                let broker = Scripted::start(move |_, packet| match packet {
                    Packet::Publish(publish) if is_bad(packet) => script(publish),
                    _ => Answer::Usual,
                });
                let config = MqttConfig {
                    protocol,
                    ..broker.client()
                };
                let mut sink = start(&config);
                count(&mut sink, 1);
                (1..=60).for_each(|number| publish_event(&mut sink, number));
                // Further ones come all the time.
                let mut last = 60;
                wait_until(name, || {
                    last += 1;
                    publish_event(&mut sink, last);
                    std::thread::sleep(Duration::from_millis(20));
                    !broker.taken("/gap").is_empty()
                });
                let gap: serde_json::Value =
                    serde_json::from_slice(&broker.taken("/gap")[0].payload).expect("JSON");
                assert_eq!(gap["reason"], "refused", "{name}: {gap}");
                assert_eq!(
                    (&gap["from"], &gap["to"]),
                    (&30.into(), &30.into()),
                    "{name}"
                );
                let others: BTreeSet<u64> = (1..=last).filter(|&number| number != 30).collect();
                wait_until(name, || taken_tracks(&broker) == others);
                let counts = Box::new(sink).close(TEST_TIMEOUT);
                assert_eq!(
                    (counts.dropped, counts.queued),
                    (1, 0),
                    "{name}: {counts:?}"
                );
                println!("{name}: {} connections", broker.connections());
            });
        }
    });
}

/// What the broker does not have is left out, states too, and nothing is lost.
#[test]
fn broker_that_lacks_something_gets_all_events_without_it() {
    fn connect(packet: &Packet) -> Option<&Connect> {
        match packet {
            Packet::Connect(connect) => Some(connect),
            _ => None,
        }
    }
    type Broker = Box<dyn Fn(&Packet) -> Answer + Send + Sync>;
    /// Refuses a CONNECT by closing after these bytes.
    fn refuses(is_refused: fn(&Connect) -> bool, bytes: &'static [u8]) -> Broker {
        Box::new(
            move |packet| match connect(packet).is_some_and(is_refused) {
                true => Answer::Close(bytes.to_vec()),
                false => Answer::Usual,
            },
        )
    }
    /// Accepts with these properties, and answers messages of one kind.
    fn has(
        properties: &'static [u8],
        is_refused: fn(&Publish) -> bool,
        answer: fn(&Publish) -> Answer,
    ) -> Broker {
        Box::new(move |packet| match packet {
            Packet::Connect(_) => Answer::Bytes(connack(properties)),
            Packet::Publish(publish) if is_refused(publish) => answer(publish),
            _ => Answer::Usual,
        })
    }
    let will = |connect: &Connect| connect.will.is_some();
    let retained = |connect: &Connect| connect.will.as_ref().is_some_and(|will| will.retain);
    let is_5 = |connect: &Connect| connect.protocol == Protocol::V5;
    let retains = |publish: &Publish| publish.retain;
    let needs_qos_1 = |publish: &Publish| publish.qos > QoS::AtMostOnce;
    let is_silent_on_5: Broker = Box::new(move |packet| match connect(packet).is_some_and(is_5) {
        true => Answer::Bytes(Vec::new()),
        false => Answer::Usual,
    });
    let sends: Broker = Box::new(|packet| match packet {
        Packet::Connect(_) => {
            let unasked = b"\x32\x08\0\x01x\0\x09\0hi\x34\x08\0\x01x\0\x0a\0hi";
            // With the delay of a will, which a message cannot have.
            let delayed = b"\x30\x0a\0\x01x\x05\x18\0\0\0\x05h";
            Answer::Bytes([&connack(b"")[..], unasked, delayed].concat())
        }
        _ => Answer::Usual,
    });
    let refusals = AtomicUsize::new(0);
    let is_full: Broker = Box::new(move |packet| match packet {
        Packet::Publish(publish) if publish.topic.ends_with("/events") => {
            let codes = [0x97, 0x93, 0x96, 0x88, 0x89, 0x8b, 0x91];
            match codes.get(refusals.fetch_add(1, Ordering::Relaxed)) {
                Some(&code) => Answer::Bytes(puback(publish, ReasonCode(code))),
                None => Answer::Usual,
            }
        }
        _ => Answer::Usual,
    });
    // What is expected of messages: retained, QoS, the version.
    let all = (true, QoS::AtLeastOnce, Protocol::V5);
    let no_retain = (false, all.1, all.2);
    let qos_0 = (true, QoS::AtMostOnce, all.2);
    let v311 = (true, all.1, Protocol::V311);
    let says_9a = |_: &Publish| Answer::Close(b"\xe0\x01\x9a".to_vec());
    let says_9b = |_: &Publish| Answer::Close(b"\xe0\x01\x9b".to_vec());
    let closes = |_: &Publish| Answer::Close(Vec::new());
    let acks_9a = |publish: &Publish| Answer::Bytes(puback(publish, ReasonCode(0x9a)));
    #[rustfmt::skip]
    let cases = [
        ("emqx#2607", refuses(retained, b"\x20\x03\0\x9a\0"), no_retain),
        ("mosquitto#1827 aws-iot-device-sdk-python-v2#113 chirpstack-mqtt-forwarder#59", refuses(retained, b""), no_retain),
        ("mosquitto-auth-plug#13", refuses(will, b"\x20\x03\0\x87\0"), all),
        ("emqx#2167", refuses(will, b"\x20\x02\0\x01"), v311),
        ("minimq#137", has(b"\x25\0", retains, says_9a), no_retain),
        ("zigbee2mqtt#4948", has(b"", retains, closes), no_retain),
        ("0x9A in PUBACK", has(b"", retains, acks_9a), no_retain),
        ("mqttproto#21", has(b"\x24\0", needs_qos_1, says_9b), qos_0),
        ("nats-server#3369", refuses(is_5, b""), v311),
        ("emqx-rel#323", is_silent_on_5, v311),
        ("ministack#1398", refuses(is_5, b"\x20\x02\0\0"), v311),
        ("emqx#135 vernemq#1883 NanoNNG#1624", sends, all),
        ("nanomq#1531 nanomq#1667: properties of a CONNECT", has(b"\x17\x01\x1a\0\x01r", |_| false, closes), all),
        ("emqx#3461 rmqtt#54: a maximum QoS of 2", has(b"\x24\x02", |_| false, closes), all),
        ("emqx#18919 full at first", is_full, all),
    ];
    std::thread::scope(|scope| {
        for (name, script, (retain, qos, protocol)) in cases {
            scope.spawn(move || {
                let broker = Scripted::start(move |_, packet| script(packet));
                let mut sink = start(&broker.client());
                count(&mut sink, 7);
                (1..=100).for_each(|number| publish_event(&mut sink, number));
                let all: BTreeSet<u64> = (1..=100).collect();
                wait_until(name, || taken_tracks(&broker) == all);
                let counts = Box::new(sink).close(TEST_TIMEOUT);
                assert_eq!(
                    (counts.dropped, counts.queued),
                    (0, 0),
                    "{name}: {counts:?}"
                );
                assert_eq!(counts.delivered, 101, "{name}: {counts:?}");
                let last = |suffix| broker.taken(suffix).pop().expect("it was taken");
                let (value, event) = (last("/counts/person"), last("/events"));
                assert_eq!(
                    (&value.payload[..], value.retain),
                    (&b"7"[..], retain),
                    "{name}"
                );
                assert_eq!((event.qos, value.qos), (qos, qos), "{name}");
                assert!(
                    event.payload.starts_with(b"{"),
                    "{name}: {:?}",
                    event.payload
                );
                assert_eq!(broker.protocol(), Some(protocol), "{name}");
                let connections = broker.connections();
                println!("{name}: {connections} connections");
                // It has said so beforehand.
                let is_told = ["minimq#137", "mqttproto#21"].contains(&name);
                assert!(!is_told || connections == 1, "{name}: {connections}");
            });
        }
    });
}

#[test]
fn version_of_the_configuration_is_the_only_one_that_is_tried() {
    let broker = Scripted::start(|_, packet| match packet {
        Packet::Connect(_) => Answer::Close(Vec::new()),
        _ => Answer::Usual,
    });
    for (protocol, levels) in [
        (Some(MqttVersion::V5), &[Protocol::V5][..]),
        (Some(MqttVersion::V311), &[Protocol::V311]),
        (None, &[Protocol::V5, Protocol::V311]),
    ] {
        let config = MqttConfig {
            protocol,
            ..broker.client()
        };
        let before = broker.connects().len();
        probe(&config, TIMEOUT).expect_err("it closes");
        let tried: Vec<Protocol> = broker.connects()[before..]
            .iter()
            .map(|connect| connect.protocol)
            .collect();
        assert_eq!(tried, levels);
    }
}

#[test]
fn no_more_messages_are_on_their_way_than_the_receive_maximum() {
    // eclipse-mosquitto/mosquitto#1822: acknowledged only where the client asks whether the broker is there.
    let on_way = Mutex::new(Vec::new());
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let broker = Scripted::start(move |_, packet| {
        let mut on_way = on_way.lock().expect("not poisoned");
        match packet {
            Packet::Connect(_) => Answer::Bytes(connack(b"\x21\0\x03")),
            Packet::Publish(publish) => {
                on_way.push(publish.clone());
                seen.fetch_max(on_way.len(), Ordering::Relaxed);
                Answer::Bytes(Vec::new())
            }
            Packet::PingReq => {
                let acks = on_way
                    .drain(..)
                    .map(|publish| puback(&publish, ReasonCode::SUCCESS));
                Answer::Bytes(acks.chain([b"\xd0\0".to_vec()]).flatten().collect())
            }
            _ => Answer::Usual,
        }
    });
    let mut sink = start(&broker.client());
    (1..=6).for_each(|number| publish_event(&mut sink, number));
    wait_until("all are delivered", || sink.counts().delivered == 6);
    assert_eq!(most.load(Ordering::Relaxed), 3);
}

#[test]
fn broker_that_was_starting_gets_mqtt_5() {
    // Nothing is left out because of a broker that closes on everything for a while.
    let broker = Scripted::start(|number, packet| match packet {
        Packet::Connect(_) if number <= 2 => Answer::Close(Vec::new()),
        _ => Answer::Usual,
    });
    let mut sink = start(&broker.client());
    publish_event(&mut sink, 1);
    wait_until("the event arrives", || !broker.taken("/events").is_empty());
    assert_eq!(broker.protocol(), Some(Protocol::V5));
}

/// Pictures of tracks go with QoS 0, so that nothing says which one has ended the connection (eclipse-paho/paho.mqtt.python#760).
#[test]
fn large_picture_that_ends_connections_is_not_sent_any_more() {
    let broker = Scripted::start(|_, packet| match packet {
        Packet::Publish(publish) if publish.payload.len() > 20_000 => Answer::Close(Vec::new()),
        _ => Answer::Usual,
    });
    let mut sink = start(&broker.client());
    let picture = |sink: &mut MqttSink, track: u64, bytes: usize| {
        sink.publish(&Publication::Snapshot {
            source: "cam",
            label: "person",
            track: Some(TrackId(track)),
            jpeg: &vec![0; bytes].into(),
        });
    };
    let mut number = 0;
    wait_until("it is not sent any more", || {
        number += 1;
        publish_event(&mut sink, number);
        picture(&mut sink, number, 50_000);
        std::thread::sleep(Duration::from_millis(20));
        sink.max_payload_bytes() <= 25_000
    });
    let connections = broker.connections();
    assert!((3..=6).contains(&connections), "{connections}");
    for _ in 0..5 {
        number += 1;
        picture(&mut sink, number, 50_000);
        publish_event(&mut sink, number);
        wait_until("the event behind it arrives", || {
            taken_tracks(&broker).contains(&number)
        });
    }
    // Smaller ones are.
    wait_until("a picture arrives", || {
        picture(&mut sink, number, 10_000);
        std::thread::sleep(Duration::from_millis(20));
        !broker.taken("/snapshot").is_empty()
    });
    wait_until("all events are there", || {
        taken_tracks(&broker).len() as u64 == number
    });
    let counts = Box::new(sink).close(TEST_TIMEOUT);
    assert_eq!(
        counts.delivered + counts.best_effort_dropped,
        counts.accepted,
        "{counts:?}"
    );
    let more = broker.connections() - connections;
    assert!(more <= 1, "{more}");
}

/// hivemq/hivemq-mqtt-client#209, where of the filters one is refused, too. hivemq/hivemq-mqtt-client#617 and 631: the topics have numbers,
/// which the client has not allowed, and the second message has only that.
#[test]
fn commands_arrive_before_the_subscription_is_confirmed_and_by_the_numbers_of_topics() {
    let broker = Scripted::start(|_, packet| match packet {
        Packet::Subscribe(subscribe) => {
            let id = subscribe.id.to_be_bytes();
            let message = |topic: &[u8], number: u16, payload: &[u8]| {
                let length = topic.len() as u8;
                let head = [0x30, length + 6 + payload.len() as u8, 0, length];
                [&head, topic, b"\x03\x23", &number.to_be_bytes(), payload].concat()
            };
            let command = b"jetwatch/dev/command";
            let confirmed = vec![0x90, 7, id[0], id[1], 0, 1, 1, 0x9b, 1];
            let mut all = vec![
                message(b"", 9, b"{}"),
                message(command, 5, b"{}"),
                confirmed,
            ];
            all.push(message(b"", 5, b"[]"));
            // However many numbers there are, one that gets another topic is of that.
            all.extend((100..1200).map(|number| message(b"x", number, b"")));
            all.extend([
                message(b"jetwatch/dev/cam/detect/set", 5, b""),
                message(b"", 5, b"OFF"),
            ]);
            Answer::Bytes(all.concat())
        }
        _ => Answer::Usual,
    });
    let (sender, commands) = std::sync::mpsc::channel();
    let _listener = CommandListener::start(&broker.client(), "dev", &[], move |command| {
        let _ = sender.send((command.payload, command.sets.is_some()));
    })
    .expect("the thread starts");
    let next = || commands.recv_timeout(TEST_TIMEOUT).expect("a command");
    for payload in [b"{}", b"[]"] {
        assert_eq!(next(), (payload.to_vec(), false));
    }
    let switch = std::iter::repeat_with(next).find(|(payload, _)| payload == b"OFF");
    assert_eq!(switch, Some((b"OFF".to_vec(), true)));
}

#[test]
fn short_connections_are_followed_by_growing_pauses() {
    // eclipse-paho/paho.mqtt.c#1215: it takes one message and closes.
    let broker = Scripted::start(|_, packet| match packet {
        Packet::Publish(publish) if publish.topic.ends_with("/status") => Answer::Usual,
        Packet::Publish(publish) => Answer::Close(puback(publish, ReasonCode::SUCCESS)),
        _ => Answer::Usual,
    });
    let mut sink = start(&broker.client());
    let started = Instant::now();
    let mut number = 0;
    wait_until("the fifth connection", || {
        number += 1;
        publish_event(&mut sink, number);
        std::thread::sleep(Duration::from_millis(50));
        broker.connections() >= 5
    });
    // 0.5, 1, 2 and 4 s, each shorter by a quarter at most.
    let elapsed = started.elapsed();
    assert!(elapsed > Duration::from_secs(5), "{elapsed:?}");
}

/// Mosquitto with each of its limits: what is said beforehand, and that no event is lost.
#[test]
fn mosquitto_with_each_limit_gets_every_event_and_check_says_what_is_missing() {
    type Lines = Box<dyn Fn(&Path) -> String>;
    let acl = |text: &'static str| -> Lines {
        Box::new(move |folder| {
            let file = folder.join("acl");
            fs::write(&file, text).expect("writable");
            format!("acl_file {}\n", file.display())
        })
    };
    let line = |text: &'static str| -> Lines { Box::new(move |_| format!("{text}\n")) };
    let no_publish = "topic read jetwatch/#\ntopic write jetwatch/dev/cam/events\n";
    let no_retain: &[&str] = &["does not retain messages"];
    let no_acks: &[&str] = &["acknowledges no messages"];
    let small: &[&str] = &["takes packets of 5000 bytes at most"];
    // Lines of its configuration; parts of what `check` says is missing and denied; what is dropped.
    type Case<'c> = (&'c str, Lines, &'c [&'c str], &'c [&'c str], u64);
    #[rustfmt::skip]
    let cases: [Case<'_>; 12] = [
        ("no limit", line(""), &[], &[], 0),
        ("mosquitto#265", line("message_size_limit 5000"), &[], &[], 1),
        ("emqx#2607", line("retain_available false"), no_retain, &[], 0),
        ("HASS.Agent#105", line("max_qos 0"), no_acks, &[], 0),
        ("mosquitto#1822", line("max_inflight_messages 1"), &[], &[], 0),
        ("paho.mqtt.c#1421", line("max_keepalive 10"), &[], &[], 0),
        ("large packets", line("max_packet_size 5000"), small, &[], 1),
        ("mosquitto#229", acl(no_publish), &[], &["to jetwatch/dev/check/"], 1),
        ("tsun-gen3-proxy#75: without Home Assistant's topics", acl("topic jetwatch/#\n"), &[], &["publish entities of Home Assistant (homeassistant/device/jetwatch"], 0),
        (
            "without counts and pictures",
            acl(
                "topic jetwatch/dev/+/events\ntopic jetwatch/dev/+/analytics\ntopic jetwatch/dev/+/status\ntopic jetwatch/dev/status\n\
                 topic jetwatch/dev/command/#\ntopic jetwatch/dev/check/#\ntopic homeassistant/#\n",
            ),
            &[],
            &["/counts/check: "],
            1,
        ),
        ("events alone", acl("topic jetwatch/dev/+/events\ntopic write jetwatch/dev/+/snapshots/#\n"), &[], &["publish analytics events ("], 0),
        ("reading", acl("topic write jetwatch/#\ntopic write homeassistant/#\n"), &[], &["does not deliver it"], 0),
    ];
    for (name, lines, missing, denied, dropped) in cases {
        let broker = Mosquitto::with_config(|folder| {
            format!(
                "per_listener_settings true\nallow_anonymous true\n{}",
                lines(folder)
            )
        });
        let config = broker.client();
        let options = RehearsalOptions {
            has_events: true,
            has_states: true,
            discovery: Some("homeassistant"),
            has_commands: true,
            picture_bytes: 100_000,
        };
        let all = (name == "no limit").then(|| Subscriber::start(&config, "#").expect("let in"));
        let rehearsal = rehearse(&config, "dev", options, TIMEOUT).expect("it lets this client in");
        for (said, expected) in [(&rehearsal.missing, missing), (&rehearsal.denied, denied)] {
            assert_eq!(said.len(), expected.len(), "{name}: {rehearsal:?}");
            for (said, expected) in said.iter().zip(expected) {
                assert!(said.contains(expected), "{name}: {said}");
            }
        }
        if let Some(all) = all {
            Box::new(start(&config)).close(TEST_TIMEOUT);
            let mut sent = std::iter::from_fn(|| all.recv_timeout(TEST_TIMEOUT))
                .map(|(topic, _)| topic)
                .take_while(|topic| topic != "jetwatch/dev/status");
            // What is only tried is not delivered.
            assert!(sent.all(|topic| topic.starts_with("jetwatch/dev/check/")));
        }
        let subscriber = Subscriber::start(&config, "jetwatch/dev/cam/events");
        let mut sink = start(&config);
        (1..=50).for_each(|number| publish_event(&mut sink, number));
        sink.publish(&Publication::Snapshot {
            source: "cam",
            label: "person",
            track: None,
            jpeg: &vec![0; 20_000].into(),
        });
        (51..=100).for_each(|number| publish_event(&mut sink, number));
        // Where nothing may be read, the counts alone are the proof.
        if let Ok(subscriber) = subscriber
            && denied != ["does not deliver it"]
        {
            let mut seen = BTreeSet::new();
            wait_until(name, || {
                while let Some((_, payload)) = subscriber.recv_timeout(Duration::ZERO) {
                    seen.extend(tracks([&payload[..]].into_iter()));
                }
                seen.len() == 100
            });
        }
        let counts = Box::new(sink).close(TEST_TIMEOUT);
        assert_eq!(
            (counts.accepted, counts.delivered, counts.dropped),
            (101, 101 - dropped, dropped),
            "{name}: {counts:?}"
        );
    }
}

#[test]
fn wrong_kind_of_port_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    crate::publish_access::authority(folder.path(), "good");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let with_tls = Mosquitto::with_config(|_| {
        format!(
            "allow_anonymous true\ncertfile {}\nkeyfile {}\n",
            file("good-server.pem"),
            file("good-server.key")
        )
    });
    let plain = Mosquitto::start();
    let url = |port, tls| MqttConfig {
        broker: Broker::Url {
            host: "127.0.0.1".to_owned(),
            port,
            tls,
        },
        tls: jetwatch_config::TlsConfig {
            ca_file: Some(file("good-ca.pem").into()),
            ..Default::default()
        },
        ..client(port)
    };
    let web = Scripted::start(|_, _| Answer::Close(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()));
    for (what, config, expected) in [
        ("mosquitto#2439", url(with_tls.port(), false), "mqtts://"),
        ("mosquitto#3292", url(plain.port(), true), "mqtt://"),
        ("a web server", web.client(), "a web server"),
    ] {
        let error = probe(&config, TIMEOUT).expect_err("not let in").to_string();
        assert!(error.contains(expected), "{what}: {error}");
    }
}

#[test]
fn server_keep_alive_does_not_hide_a_broker_that_is_gone() {
    // eclipse-paho/paho.mqtt.c#1421: 65,535 s, and silence.
    let is_silent = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_silent);
    let broker = Scripted::start(move |number, packet| match packet {
        Packet::Connect(_) => Answer::Bytes(connack(b"\x13\xff\xff")),
        _ if number == 1 && flag.load(Ordering::Relaxed) => Answer::Bytes(Vec::new()),
        _ => Answer::Usual,
    });
    let mut sink = start(&broker.client());
    publish_event(&mut sink, 1);
    wait_until("it is connected", || sink.counts().delivered == 1);
    is_silent.store(true, Ordering::Relaxed);
    publish_event(&mut sink, 2);
    wait_until("the next connection delivers it", || {
        sink.counts().delivered == 2
    });
}

/// The daemon, with a broker and Home Assistant.
fn daemon(port: u16, more: &str) -> Setup {
    Setup::new(&format!(
        "device: box\nsources: [{{name: cam, uri: 'synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=30'}}]\n\
         detector: {{backend: scripted}}\ncommands: {{enabled: true}}\n{more}\n\
         publish: {{update_interval_ms: 100, json_lines: {{path: events.jsonl}}, mqtt: {{broker: 'mqtt://127.0.0.1:{port}', \
         spool: {{runtime_folder: /nonexistent/run, state_folder: /nonexistent/state}}}}}}\n"
    ))
}

/// Events in the file of the daemon.
fn made(setup: &Setup) -> usize {
    setup.lines_of("event").len()
}

#[test]
fn denied_subscription_that_ends_the_connection_is_left_out() {
    // rabbitmq/rabbitmq-server#12742: Home Assistant's topic is subscribed to on the connection that publishes.
    let broker = Scripted::start(|_, packet| match packet {
        Packet::Subscribe(subscribe) => {
            let id = subscribe.id.to_be_bytes();
            Answer::Close(vec![0x90, 4, id[0], id[1], 0, 0x87])
        }
        _ => Answer::Usual,
    });
    let setup = daemon(broker.client_port(), "homeassistant: {enabled: true}");
    let child = daemon_start(&mut setup.command("run"));
    wait_until("events arrive on a connection that lasts", || {
        broker.taken("cam/events").len() > 200
    });
    let log = terminate(child);
    assert_has!(log => "subscription, which is left out");
    assert_eq!(broker.taken("cam/events").len(), made(&setup), "{log}");
}

#[test]
fn lines_that_a_broker_causes_do_not_repeat() {
    // Nearly every message is refused, each of another size, and with a text of its own.
    let broker = Scripted::start(|_, packet| match packet {
        Packet::Publish(publish) if publish.id > 0 && !publish.topic.ends_with("status") => {
            let mut bytes = puback(publish, ReasonCode::PACKET_TOO_LARGE);
            bytes[1] += 7;
            bytes.extend([6, 0x1f, 0, 3]);
            bytes.extend(format!("{:03}", publish.id % 1000).bytes());
            Answer::Bytes(bytes)
        }
        _ => Answer::Usual,
    });
    let setup = daemon(broker.client_port(), "");
    let child = daemon_start(&mut setup.command("run"));
    wait_until("many messages are refused", || made(&setup) > 150);
    let log = terminate(child);
    let refusals = log
        .lines()
        .filter(|line| line.contains("a message is dropped"));
    let refusals: Vec<&str> = refusals.collect();
    // Of each kind of topic one.
    assert!((2..=12).contains(&refusals.len()), "{log}");
    let events: Vec<_> = refusals
        .iter()
        .filter(|line| line.contains("cam/events"))
        .collect();
    assert_eq!(events.len(), 1, "{log}");
    assert!(
        events[0].contains("topic=jetwatch/box/cam/events bytes=")
            && events[0].contains("packet too large (0x95): "),
        "{log}"
    );
}

#[test]
fn check_says_what_the_broker_lacks_and_denies() {
    let broker = Mosquitto::with_config(|folder| {
        let file = folder.join("acl");
        fs::write(&file, "topic read jetwatch/#\n").expect("writable");
        format!(
            "allow_anonymous true\nretain_available false\nmax_packet_size 20000\nacl_file {}\n",
            file.display()
        )
    });
    let setup = daemon(
        broker.port(),
        "record: {folder: rec, snapshots: {enabled: true, mqtt: true}}",
    );
    fs::create_dir(setup.path("rec")).expect("writable");
    let output = finish(&mut setup.command("check"));
    let printed = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "speaks MQTT 5.0 and accepts the client id jetwatch-box-check-",
        "it does not retain messages",
        "it takes packets of 20000 bytes at most",
        "publish to jetwatch/box/check/",
        "not authorized (0x87); allow jetwatch/box/#",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    // The daemon runs with it, as far as it goes.
    assert!(!printed.contains("wrong  broker"), "{printed}");
}
