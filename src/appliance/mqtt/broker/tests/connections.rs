// SPDX-License-Identifier: Apache-2.0
//! Who is let in, how connections end, and the limits.

use super::*;

#[tokio::test]
async fn refused_subscriptions_are_named_by_their_codes() {
    let limits = Limits {
        subscriptions: 3,
        ..Limits::default()
    };
    let broker = start_with(limits, None);
    let filters = [
        ("a/#/b", 1),
        ("$share/g/a", 1),
        ("a", 2),
        ("b", 0),
        ("c", 1),
        ("d", 1),
    ];
    for (protocol, expected) in [
        (V5, [0x8f, 0x9e, 2, 0x97, 0x97, 0x97]),
        (V311, [0x80, 0x80, 2, 0x80, 0x80, 0x80]),
    ] {
        let mut client = broker.client(protocol, "").await;
        // At most three filters of a packet are looked at, and three are kept.
        assert_eq!(client.subscribe(&filters).await, expected, "{protocol:?}");
        assert_eq!(
            client.subscribe(&[("b", 0), ("c", 1), ("d", 1)]).await[..2],
            [0, 1]
        );
    }
    let mut client = broker.client(V5, "").await;
    for (property, available) in [
        (Property::SHARED_SUBSCRIPTION_AVAILABLE, Some(0)),
        (Property::SUBSCRIPTION_IDENTIFIER_AVAILABLE, Some(0)),
        (Property::WILDCARD_SUBSCRIPTION_AVAILABLE, None),
    ] {
        assert_eq!(client.properties.number(property), available);
    }
    let identifier = [(Property::SUBSCRIPTION_IDENTIFIER, Value::Number(7))];
    let filters = [("a", SubscribeOptions::default())].into_iter();
    let codes = client.subscribe_with(filters, identifier.into_iter().collect());
    assert_eq!(codes.await, [0xa1]);
}

#[tokio::test]
async fn wills_are_published_unless_the_client_leaves_or_returns() {
    let broker = start();
    let mut watcher = broker.subscriber(V5, "will/#", 1).await;
    let with_will = |protocol, id: &str, delay| Connect {
        will: will(&format!("will/{id}"), delay),
        ..lasting(protocol, id)
    };
    for protocol in [V5, V311] {
        // Left: no will.
        let left = broker.connect(with_will(protocol, "left", 0)).await;
        left.leave(ReasonCode::SUCCESS).await;
        drop(broker.connect(with_will(protocol, "broken", 0)).await);
        assert_eq!(watcher.text().await, "will/broken gone 1");
    }
    let asks = broker.connect(with_will(V5, "asks", 0)).await;
    asks.leave(ReasonCode::DISCONNECT_WITH_WILL).await;
    assert_eq!(watcher.text().await, "will/asks gone 1");
    let mut malformed = broker.connect(with_will(V5, "bad", 0)).await;
    malformed
        .send(Packet::PubAck(Ack::new(1, ReasonCode::SUCCESS)))
        .await;
    malformed.stream.write_all(b"\0\0").await.expect("it reads");
    assert_eq!(malformed.end().await, Some(ReasonCode::MALFORMED_PACKET));
    assert_eq!(watcher.text().await, "will/bad gone 1");
    // With a delay: not for a client that returns in time.
    drop(broker.connect(with_will(V5, "returns", 2)).await);
    let returned = broker.connect(with_will(V5, "returns", 0)).await;
    drop(broker.connect(with_will(V5, "late", 1)).await);
    assert_eq!(watcher.text().await, "will/late gone 1");
    // Its session ends.
    drop(broker.connect(with_will(V5, "ends", 600)).await);
    let ends = broker.client(V5, "ends").await;
    assert_eq!(watcher.text().await, "will/ends gone 1");
    watcher.is_idle().await;
    drop((returned, ends));
    let mut late = broker.subscriber(V311, "will/late", 0).await;
    assert_eq!(late.text().await, "will/late gone 0 retained");
}

#[tokio::test]
async fn the_newest_connection_of_a_client_takes_over() {
    let broker = start();
    let mut watcher = broker.subscriber(V5, "will/#", 1).await;
    let client = |protocol| Connect {
        will: will("will/x", 0),
        ..lasting(protocol, "x")
    };
    let mut first = broker.connect(client(V5)).await;
    first.subscribe(&[("a", 1)]).await;
    let mut second = broker.connect(client(V311)).await;
    assert!(second.session_present);
    assert_eq!(first.end().await, Some(ReasonCode::SESSION_TAKEN_OVER));
    assert_eq!(watcher.text().await, "will/x gone 1");
    broker
        .client(V5, "")
        .await
        .publish(message("a", "1", 1))
        .await;
    assert_eq!(second.text().await, "a 1 1");
    let third = broker.connect(client(V5)).await;
    assert_eq!(second.end().await, None);
    assert_eq!(watcher.text().await, "will/x gone 1");
    drop(third);
}

#[tokio::test]
async fn memory_of_retained_messages_is_limited() {
    let limits = Limits {
        all_retained_bytes: 64 << 10,
        ..Limits::default()
    };
    let broker = start_with(limits, None);
    let mut publisher = broker.client(V5, "p").await;
    let large = "x".repeat(20 << 10);
    let mut codes = Vec::new();
    for topic in ["1", "2", "3", "4", "1"] {
        codes.push(publisher.publish(retained(topic, &large, 1)).await);
    }
    let (taken, full) = (ReasonCode::SUCCESS, ReasonCode::QUOTA_EXCEEDED);
    assert_eq!(codes, [taken, taken, taken, full, taken]);
    // A smaller one in its place leaves room, as does one that is deleted.
    for (topic, payload, expected) in [
        ("1", "x", taken),
        ("4", &*large, taken),
        ("5", &*large, full),
        ("2", "", taken),
        ("5", &*large, taken),
    ] {
        let code = publisher.publish(retained(topic, payload, 1)).await;
        assert_eq!(code, expected, "{topic}");
    }
}

#[tokio::test]
async fn limits_are_kept() {
    let broker = start_with(
        Limits {
            clients: 3,
            sessions: 1,
            retained: 2,
            retained_bytes: 10,
            queue: 3,
            packet_bytes: 200,
            ..Limits::default()
        },
        None,
    );
    let mut publisher = broker.client(V5, "p").await;
    let bytes = publisher.properties.number(Property::MAXIMUM_PACKET_SIZE);
    assert_eq!(bytes, Some(200));
    #[rustfmt::skip]
    let cases = [
        (retained("1", "x", 1), ReasonCode::SUCCESS),
        (retained("2", "x", 2), ReasonCode::SUCCESS),
        (retained("3", "x", 2), ReasonCode::QUOTA_EXCEEDED),
        (retained("3", "x", 1), ReasonCode::QUOTA_EXCEEDED),
        (retained("2", "y", 1), ReasonCode::SUCCESS),
        (retained("2", "more than ten bytes", 1), ReasonCode::QUOTA_EXCEEDED),
        (retained("1", "", 1), ReasonCode::SUCCESS),
        (retained("3", "x", 1), ReasonCode::SUCCESS),
    ];
    for (publish, expected) in cases {
        let what = format!("{publish:?}");
        assert_eq!(publisher.publish(publish).await, expected, "{what}");
    }
    // The oldest messages of a client that is away are dropped.
    let mut away = broker.connect(lasting(V311, "away")).await;
    away.subscribe(&[("q", 1)]).await;
    away.leave(ReasonCode::SUCCESS).await;
    for payload in ["1", "2", "3", "4", "5"] {
        publisher.publish(message("q", payload, 1)).await;
    }
    let mut away = broker.connect(lasting(V311, "away")).await;
    for payload in ["3", "4", "5"] {
        assert_eq!(away.text().await, format!("q {payload} 1"));
    }
    // One session stays, and three clients are there at a time.
    let before = REFUSED.load(Ordering::Relaxed);
    let refused = broker.try_connect(lasting(V5, "more")).await;
    assert_eq!(refused.err(), Some(ReasonCode::QUOTA_EXCEEDED));
    let refused = broker.try_connect(lasting(V311, "more")).await;
    assert_eq!(refused.err(), Some(ReasonCode::SERVER_UNAVAILABLE));
    let third = broker.client(V5, "third").await;
    let refused = broker.try_connect(hello(V5, "fourth")).await;
    assert_eq!(refused.err(), Some(ReasonCode::SERVER_BUSY));
    assert_eq!(REFUSED.load(Ordering::Relaxed), before + 3);
    drop(broker.client(V5, "third").await);
    drop(third);
    // A packet that is too large for the broker, and one for a client.
    let long = "x".repeat(300);
    publisher
        .send(Packet::Publish(message("q", &long, 1)))
        .await;
    assert_eq!(publisher.end().await, Some(ReasonCode::PACKET_TOO_LARGE));
    let mut small = broker
        .connect(Connect {
            properties: [(Property::MAXIMUM_PACKET_SIZE, Value::Number(20))]
                .into_iter()
                .collect(),
            ..hello(V5, "small")
        })
        .await;
    small.subscribe(&[("q", 1)]).await;
    small
        .publish(message("q", "too long for 20 bytes", 1))
        .await;
    small.publish(message("q", "short", 1)).await;
    assert_eq!(small.text().await, "q short 1");
}

#[tokio::test]
async fn only_the_right_password_is_let_in() {
    let login = Login {
        user: "cam".to_owned(),
        password: "right".to_owned(),
    };
    let broker = start_with(Limits::default(), Some(login));
    for (user, password, is_let_in) in [
        (Some("cam"), Some("right"), true),
        (Some("cam"), Some("wrong"), false),
        (Some("cam"), None, false),
        (Some("other"), Some("right"), false),
        (None, None, false),
    ] {
        for protocol in [V5, V311] {
            let connect = Connect {
                user: user.map(str::to_owned),
                password: password.map(|text| Bytes::from_static(text.as_bytes())),
                ..hello(protocol, "")
            };
            let result = broker.try_connect(connect).await;
            let expected = (!is_let_in).then_some(ReasonCode::BAD_USER_NAME_OR_PASSWORD);
            assert_eq!(result.err(), expected, "{user:?} {password:?}");
        }
    }
}

#[tokio::test]
async fn what_the_standard_forbids_ends_the_connection() {
    let broker = start();
    let alias = Publish {
        properties: [(Property::TOPIC_ALIAS, Value::Number(1))]
            .into_iter()
            .collect(),
        ..message("", "x", 1)
    };
    #[rustfmt::skip]
    let cases = [
        (Packet::Publish(alias), ReasonCode::TOPIC_ALIAS_INVALID),
        (Packet::Publish(message("a/#", "x", 1)), ReasonCode::TOPIC_NAME_INVALID),
        (Packet::Publish(message("", "x", 0)), ReasonCode::TOPIC_NAME_INVALID),
        (Packet::PingResp, ReasonCode::PROTOCOL_ERROR),
        (Packet::Connect(Box::new(hello(V5, "again"))), ReasonCode::PROTOCOL_ERROR),
        (Packet::Auth(Reason::default()), ReasonCode::PROTOCOL_ERROR),
    ];
    for (packet, code) in cases {
        let mut client = broker.client(V5, "").await;
        client.send(packet).await;
        assert_eq!(client.end().await, Some(code));
    }
    let no_id = Connect {
        clean_start: false,
        ..hello(V311, "")
    };
    let method = [(Property::AUTHENTICATION_METHOD, Value::Text("SCRAM"))];
    let with_method = Connect {
        properties: method.into_iter().collect(),
        ..hello(V5, "")
    };
    #[rustfmt::skip]
    let cases = [
        (no_id, ReasonCode::CLIENT_IDENTIFIER_NOT_VALID),
        (with_method, ReasonCode::BAD_AUTHENTICATION_METHOD),
        (Connect { will: will("a/#", 0), ..hello(V5, "") }, ReasonCode::TOPIC_NAME_INVALID),
    ];
    for (connect, code) in cases {
        assert_eq!(broker.try_connect(connect).await.err(), Some(code));
    }
    // Another version, and what is not MQTT.
    #[rustfmt::skip]
    let cases = [
        (&b"\x10\x0c\0\x06MQIsdp\x03\x02\0\0"[..], &b"\x20\x02\0\x01"[..]),
        (b"\x10\x0d\0\x04MQTT\x06\x02\0\0\0\0\0", b"\x20\x02\0\x01"),
        (b"GET / HTTP/1.1\r\n\r\n", b""),
        (b"\xc0\0", b""),
    ];
    for (bytes, answer) in cases {
        let mut stream = TcpStream::connect(broker.address)
            .await
            .expect("it listens");
        stream.write_all(bytes).await.expect("it reads");
        let mut read = Vec::new();
        // A reset, where something was left unread.
        let _ = timeout(TEST_TIMEOUT, stream.read_to_end(&mut read))
            .await
            .expect("closed");
        assert_eq!(read, answer);
    }
    let assigned = broker.client(V5, "").await.properties;
    let id = assigned.text(Property::ASSIGNED_CLIENT_IDENTIFIER);
    assert!(id.is_some_and(|id| id.starts_with("auto-")), "{id:?}");
}

#[tokio::test]
async fn silent_clients_are_disconnected() {
    let limits = Limits {
        login_time: Duration::from_millis(200),
        ..Limits::default()
    };
    let broker = start_with(limits, None);
    let mut silent = TcpStream::connect(broker.address)
        .await
        .expect("it listens");
    let read = timeout(TEST_TIMEOUT, silent.read(&mut [0; 10])).await;
    assert_eq!(read.expect("closed in time").unwrap_or(0), 0);
    let keep_alive = Connect {
        keep_alive: 1,
        ..hello(V5, "")
    };
    let mut client = broker.connect(keep_alive).await;
    let started = Instant::now();
    assert_eq!(client.end().await, Some(ReasonCode::KEEP_ALIVE_TIMEOUT));
    assert!(started.elapsed() >= Duration::from_millis(1400));
}

#[tokio::test]
async fn a_client_that_does_not_read_delays_nobody_and_loses_the_oldest() {
    let limits = Limits {
        queue: 100,
        ..Limits::default()
    };
    let broker = start_with(limits, None);
    let mut slow = broker.subscriber(V5, "a", 0).await;
    let mut quick = broker.subscriber(V5, "a", 0).await;
    let mut publisher = broker.client(V5, "").await;
    let long = "x".repeat(50_000);
    let publish = |number: usize| message("a", &format!("{number} {long}"), 1);
    for number in 0..600 {
        assert_eq!(
            publisher.publish(publish(number)).await,
            ReasonCode::SUCCESS
        );
        let received = quick.message().await.payload;
        assert!(received.starts_with(format!("{number} ").as_bytes()));
    }
    let mut numbers = Vec::new();
    while numbers.last() != Some(&599) {
        let payload = slow.message().await.payload;
        let number = payload
            .split(|&byte| byte == b' ')
            .next()
            .expect("a number");
        let number = std::str::from_utf8(number).expect("text");
        numbers.push(number.parse::<usize>().expect("a number"));
    }
    assert!(
        numbers.is_sorted() && numbers.len() < 600,
        "{}",
        numbers.len()
    );
    // 4 MiB of the newest ones.
    assert!(numbers.ends_with(&[596, 597, 598, 599]), "{numbers:?}");
}

#[tokio::test]
async fn stop_is_told_and_frees_the_port() {
    let mut broker = start();
    let mut client = broker.client(V5, "").await;
    let mut older = broker.client(V311, "").await;
    drop(broker.stop.take());
    assert_eq!(client.end().await, Some(ReasonCode::SERVER_SHUTTING_DOWN));
    assert_eq!(older.end().await, None);
    timeout(TEST_TIMEOUT, &mut broker.ended)
        .await
        .expect("in time")
        .expect("no panic");
    StdListener::bind(broker.address).expect("the port is free");
}
