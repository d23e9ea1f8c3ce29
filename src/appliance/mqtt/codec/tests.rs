// SPDX-License-Identifier: Apache-2.0
//! Each packet in both versions: as it was, cut off, damaged.

use bytes::{Bytes, BytesMut};

use super::*;
use crate::{Properties, Property, ReasonCode, Value};

const BOTH: [Protocol; 2] = [Protocol::V5, Protocol::V311];

fn properties() -> Properties {
    [
        (Property::REASON_STRING, Value::Text("queue is full")),
        (Property::USER_PROPERTY, Value::Pair("a", "b")),
        (Property::USER_PROPERTY, Value::Pair("a", "c")),
        (Property::SERVER_KEEP_ALIVE, Value::Number(7)),
    ]
    .into_iter()
    .collect()
}

fn filters() -> Filters {
    let second = SubscribeOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    };
    Filters::new([("a/#", SubscribeOptions::default()), ("+", second)]).expect("short")
}

/// Packets of `protocol`, each with all and with none of its optional fields.
fn packets(protocol: Protocol) -> Vec<Packet> {
    let is_v5 = protocol == Protocol::V5;
    let with = |set: bool| match set && is_v5 {
        true => properties(),
        false => Properties::default(),
    };
    let mut packets = vec![Packet::PingReq, Packet::PingResp];
    for full in [true, false] {
        let code = match full && is_v5 {
            true => ReasonCode::QUOTA_EXCEEDED,
            false => ReasonCode::SUCCESS,
        };
        let ack = Ack {
            id: 0x1234,
            code,
            properties: with(full),
        };
        let reason = Reason {
            code,
            properties: with(full),
        };
        let acks = |codes: &'static [u8]| {
            Acks::of(
                9,
                Bytes::from_static(if full { codes } else { &codes[..1] }),
                with(full),
            )
        };
        packets.extend([
            Packet::Connect(Box::new(Connect {
                protocol,
                clean_start: full,
                keep_alive: 15,
                client_id: "jetwatch-dev".to_owned(),
                will: full.then(|| Will {
                    topic: "a/status".to_owned(),
                    payload: Bytes::from_static(b"offline"),
                    qos: QoS::AtLeastOnce,
                    retain: true,
                    properties: with(true),
                }),
                user: full.then(|| "cam".to_owned()),
                password: full.then(|| Bytes::from_static(b"\0\xff")),
                properties: with(full),
            })),
            Packet::ConnAck(ConnAck {
                session_present: full,
                // In 5.0 without properties it would be taken for one of 3.1.1.
                code: ReasonCode::SUCCESS,
                properties: with(full),
            }),
            Packet::Publish(Publish {
                topic: "a/b".into(),
                payload: Bytes::from_static(if full { &[7; 300] } else { b"" }),
                qos: if full {
                    QoS::ExactlyOnce
                } else {
                    QoS::AtMostOnce
                },
                id: if full { 65_535 } else { 0 },
                retain: full,
                dup: full,
                properties: with(full),
            }),
            Packet::PubAck(ack.clone()),
            Packet::PubRec(ack.clone()),
            Packet::PubRel(ack.clone()),
            Packet::PubComp(ack),
            Packet::SubAck(acks(if is_v5 { &[2, 0x97] } else { &[1, 0x80] })),
            Packet::Subscribe(Subscribe {
                id: 1,
                filters: match is_v5 {
                    true => filters(),
                    false => Filters::new([("a/#", SubscribeOptions::new(QoS::AtLeastOnce))])
                        .expect("short"),
                },
                properties: with(full),
            }),
            Packet::Unsubscribe(Unsubscribe {
                id: 2,
                filters: Filters::without_options(["a/#", "b"]).expect("short"),
                properties: with(full),
            }),
            Packet::Disconnect(reason.clone()),
        ]);
        if is_v5 {
            packets.extend([Packet::UnsubAck(acks(&[0, 0x11])), Packet::Auth(reason)]);
        } else {
            packets.push(Packet::UnsubAck(Acks::new(9, [])));
        }
    }
    packets
}

fn encoded(packet: &Packet, protocol: Protocol) -> BytesMut {
    let mut bytes = BytesMut::new();
    packet
        .encode(protocol, &mut bytes)
        .expect("it can be written");
    bytes
}

fn decoded(bytes: &[u8], protocol: Protocol) -> Result<Option<Packet>, DecodeError> {
    decode(&mut BytesMut::from(bytes), protocol, 1 << 20)
}

#[test]
fn each_packet_is_read_as_it_was_written() {
    for protocol in BOTH {
        for packet in packets(protocol) {
            let mut bytes = encoded(&packet, protocol);
            let length = bytes.len();
            bytes.extend_from_slice(b"\xd0\0");
            let read = decode(&mut bytes, protocol, length);
            assert_eq!(read.as_ref(), Ok(&Some(packet.clone())), "{protocol:?}");
            assert_eq!(&bytes[..], b"\xd0\0", "what is behind {packet:?} stays");
            assert!(!format!("{packet:?} {}", packet.name()).is_empty());
        }
    }
}

#[test]
fn a_payload_is_not_copied() {
    let packet = packets(Protocol::V5)
        .into_iter()
        .find(|packet| matches!(packet, Packet::Publish(publish) if publish.payload.len() == 300));
    let mut bytes = encoded(&packet.expect("one has a payload"), Protocol::V5);
    let place = bytes.as_ptr_range();
    match decode(&mut bytes, Protocol::V5, 1000) {
        Ok(Some(Packet::Publish(publish))) => {
            assert!(place.contains(&publish.payload.as_ptr()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_cut_off_is_waited_for_or_an_error() {
    for protocol in BOTH {
        for packet in packets(protocol) {
            let bytes = encoded(&packet, protocol);
            for length in 0..bytes.len() {
                assert_eq!(decoded(&bytes[..length], protocol), Ok(None), "{packet:?}");
                // The same with a length that says that it is complete.
                let header = if bytes.len() > 129 { 3 } else { 2 };
                if let Some(body) = length.checked_sub(header).filter(|body| *body < 128) {
                    let mut cut = BytesMut::from(&[bytes[0], body as u8][..]);
                    cut.extend_from_slice(&bytes[header..length]);
                    match decoded(&cut, protocol) {
                        Ok(Some(read)) => assert_eq!(read.name(), packet.name()),
                        Ok(None) => panic!("waits for more of {packet:?}"),
                        Err(error) => assert!(error.to_string().contains(packet.name()), "{error}"),
                    }
                }
            }
        }
    }
}

#[test]
fn every_reason_code_is_read_on_every_acknowledgement() {
    for code in 0..=255_u8 {
        for kind in [0x40, 0x50, 0x62, 0x70] {
            for bytes in [
                vec![kind, 3, 0, 7, code],
                vec![kind, 4, 0, 7, code, 0],
                vec![kind, 8, 0, 7, code, 4, 0x1f, 0, 1, b'x'],
            ] {
                match decoded(&bytes, Protocol::V5) {
                    Ok(Some(
                        Packet::PubAck(ack)
                        | Packet::PubRec(ack)
                        | Packet::PubRel(ack)
                        | Packet::PubComp(ack),
                    )) => {
                        assert_eq!((ack.id, ack.code.0), (7, code));
                        let has_text = bytes.len() > 6;
                        assert_eq!(ack.explained().ends_with("): x"), has_text);
                    }
                    other => panic!("{bytes:02x?}: {other:?}"),
                }
            }
        }
        for (bytes, protocol) in [
            (vec![0x90, 4, 0, 7, 0, code], Protocol::V5),
            (vec![0xb0, 4, 0, 7, 0, code], Protocol::V5),
            (vec![0x90, 3, 0, 7, code], Protocol::V311),
            // The body of 3.1.1 in 5.0, as rumqtt#875 has it.
            (vec![0x90, 3, 0, 7, code], Protocol::V5),
        ] {
            match decoded(&bytes, protocol) {
                Ok(Some(Packet::SubAck(acks) | Packet::UnsubAck(acks))) => {
                    assert_eq!(acks.codes().collect::<Vec<_>>(), [ReasonCode(code)]);
                }
                other => panic!("{bytes:02x?}: {other:?}"),
            }
        }
        for bytes in [vec![0xe0, 1, code], vec![0xe0, 2, code, 0]] {
            let expected = Packet::Disconnect(Reason::new(ReasonCode(code)));
            assert_eq!(decoded(&bytes, Protocol::V5), Ok(Some(expected)));
        }
        for (bytes, protocol) in [
            (vec![0x20, 3, 0, code, 0], Protocol::V5),
            (vec![0x20, 2, 0, code], Protocol::V5),
            (vec![0x20, 2, 0, code], Protocol::V311),
        ] {
            match decoded(&bytes, protocol) {
                Ok(Some(Packet::ConnAck(ack))) => {
                    let is_accepted = code == 0 && (bytes.len() > 4 || protocol != Protocol::V5);
                    let is_refused = code > 0x7f || (1..=5).contains(&code);
                    assert!(!(is_accepted && ack.code.is_error()), "{bytes:02x?}");
                    assert!(!is_refused || ack.code.is_error(), "{bytes:02x?}");
                }
                other => panic!("{bytes:02x?}: {other:?}"),
            }
        }
    }
}

#[test]
fn short_forms_are_read() {
    let success = Ack::new(7, ReasonCode::SUCCESS);
    for (bytes, expected) in [
        (&b"\x40\x02\0\x07"[..], Packet::PubAck(success.clone())),
        (b"\x40\x03\0\x07\0", Packet::PubAck(success.clone())),
        (b"\x62\x02\0\x07", Packet::PubRel(success)),
        (b"\xe0\0", Packet::Disconnect(Reason::default())),
        (b"\xb0\x02\0\x07", Packet::UnsubAck(Acks::new(7, []))),
        (b"\xf0\0", Packet::Auth(Reason::default())),
    ] {
        assert_eq!(decoded(bytes, Protocol::V5), Ok(Some(expected)));
    }
}

#[test]
fn answers_count_whatever_follows_their_code() {
    // An unknown property, one of another packet, one twice, a length beyond the packet, a text that is none.
    for rest in [
        &b"\x02\x7e\0"[..],
        b"\x02\x24\x01",
        b"\x06\x21\0\x01\x21\0\x02",
        b"\x7f\x1f",
        b"\x04\x1f\0\x01\xff",
        b"\xff\xff\xff\xff",
    ] {
        for head in [&b"\x40\0\0\x07\x97"[..], b"\x20\0\0\x97", b"\xe0\0\x97"] {
            let mut bytes = [head, rest].concat();
            bytes[1] = bytes.len() as u8 - 2;
            let code = match decoded(&bytes, Protocol::V5) {
                Ok(Some(Packet::PubAck(ack))) => ack.code,
                Ok(Some(Packet::ConnAck(ack))) => ack.code,
                Ok(Some(Packet::Disconnect(reason))) => reason.code,
                other => panic!("{bytes:02x?}: {other:?}"),
            };
            assert_eq!(code, ReasonCode::QUOTA_EXCEEDED);
        }
    }
    let throttled = decoded(b"\x20\x02\0\x06", Protocol::V311);
    let Ok(Some(Packet::ConnAck(throttled))) = throttled else {
        panic!("{throttled:?}");
    };
    assert_eq!(
        throttled.explained(),
        "unspecified error (0x80): return code 6"
    );
}

#[test]
fn errors_say_what_and_where() {
    #[rustfmt::skip]
    let cases = [
        (&b"HTTP/1.1 400 Bad Request"[..], Protocol::V5, "malformed PUBACK: reserved flags at byte 0"),
        (b"\0", Protocol::V5, "malformed reserved packet: packet type 0 at byte 0"),
        (b"\xf0\0", Protocol::V311, "malformed AUTH: packet type 15 at byte 0"),
        (b"\x30\xff\xff\xff\xff\x01", Protocol::V5, "malformed PUBLISH: remaining length at byte 1"),
        (b"\x30\xff\xff\xff\x7f", Protocol::V5, "PUBLISH of 268435460 bytes, more than 1048576"),
        (b"\x36\x05\0\x01a\0\x01", Protocol::V311, "malformed PUBLISH: QoS 3 at byte 2"),
        (b"\x32\x05\0\x01a\0\0", Protocol::V311, "malformed PUBLISH: packet identifier 0 at byte 7"),
        (b"\x30\x03\0\x02a", Protocol::V311, "malformed PUBLISH: topic at byte 2"),
        (b"\x30\x03\0\x01\xff", Protocol::V311, "malformed PUBLISH: topic at byte 2"),
        (b"\x30\x03\0\x01\0", Protocol::V311, "malformed PUBLISH: topic at byte 2"),
        (b"\x30\x04\0\x01a\x05", Protocol::V5, "malformed PUBLISH: length of properties at byte 6"),
        (b"\x30\x06\0\x01a\x02\x7f\0", Protocol::V5, "malformed PUBLISH: properties at byte 8"),
        (b"\xd0\x01\0", Protocol::V5, "malformed PINGRESP: more bytes than fields at byte 2"),
        (b"\x82\x02\0\x01", Protocol::V311, "malformed SUBSCRIBE: topic filters at byte 4"),
        (b"\x82\x06\0\x01\0\x01a\x03", Protocol::V311, "malformed SUBSCRIBE: topic filters at byte 8"),
        (b"\x10\x0a\0\x04MQTT\x06\0\0\0", Protocol::V5, "CONNECT of protocol level 6"),
        (b"\x10\x0c\0\x06MQIsdp\x03\0\0\0", Protocol::V5, "CONNECT of protocol level 3"),
        (b"\x10\x0c\0\x04MQTT\x04\x01\0\0\0\0", Protocol::V5, "malformed CONNECT: flags at byte 10"),
        (b"\x15\x03\x03\0\x02\x02\x46", Protocol::V5, "malformed CONNECT: reserved flags at byte 0"),
    ];
    for (bytes, protocol, expected) in cases {
        match decoded(bytes, protocol) {
            Err(error) => assert_eq!(error.to_string(), expected, "{bytes:02x?}"),
            other => panic!("{bytes:02x?}: {other:?}"),
        }
    }
}

#[test]
fn what_mqtt_cannot_carry_is_not_written() {
    let long = "x".repeat(65_536);
    let publish = |topic: &str, qos, id| {
        Packet::Publish(Publish {
            topic: topic.into(),
            payload: Bytes::new(),
            qos,
            id,
            retain: false,
            dup: false,
            properties: Properties::default(),
        })
    };
    #[rustfmt::skip]
    let rows = [
        (publish(&long, QoS::AtMostOnce, 0), Protocol::V5, "topic of 65536 bytes; MQTT has at most 65535"),
        (publish("a", QoS::AtLeastOnce, 0), Protocol::V5, "PUBLISH without a packet identifier"),
        (Packet::Auth(Reason::default()), Protocol::V311, "MQTT 3.1.1 has no AUTH"),
    ];
    for (packet, protocol, expected) in rows {
        let mut bytes = BytesMut::new();
        let error = packet
            .encode(protocol, &mut bytes)
            .expect_err("not written");
        assert_eq!((error.to_string().as_str(), bytes.len()), (expected, 0));
    }
    assert!(Filters::without_options([long.as_str()]).is_err());
}

#[test]
fn version_3_1_1_gets_return_codes() {
    let refused = Packet::SubAck(Acks::new(1, [ReasonCode::NOT_AUTHORIZED]));
    assert_eq!(
        &encoded(&refused, Protocol::V311)[..],
        b"\x90\x03\0\x01\x80"
    );
    let refused = Packet::ConnAck(ConnAck {
        code: ReasonCode::BAD_USER_NAME_OR_PASSWORD,
        properties: properties(),
        ..ConnAck::default()
    });
    assert_eq!(&encoded(&refused, Protocol::V311)[..], b"\x20\x02\0\x04");
}
