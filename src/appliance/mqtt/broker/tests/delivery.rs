// SPDX-License-Identifier: Apache-2.0
//! What subscribers get.

use super::*;

#[tokio::test]
async fn messages_of_each_qos_reach_subscribers_of_each_version() {
    let broker = start();
    for (from, to) in [(V5, V5), (V5, V311), (V311, V5), (V311, V311)] {
        let mut publisher = broker.client(from, "").await;
        for granted in 0..=2 {
            let mut subscriber = broker.subscriber(to, "a/+", granted).await;
            for qos in 0..=2 {
                assert_eq!(
                    publisher.publish(message("a/b", "x", qos)).await,
                    ReasonCode::SUCCESS
                );
                publisher.publish(message("b/b", "not for it", qos)).await;
                let expected = format!("a/b x {}", qos.min(granted));
                assert_eq!(subscriber.text().await, expected, "{from:?} {to:?}");
            }
            subscriber.is_idle().await;
        }
    }
}

#[tokio::test]
async fn a_message_of_qos_2_that_is_sent_again_arrives_once() {
    let broker = start();
    let mut subscriber = broker.subscriber(V311, "#", 0).await;
    let mut publisher = broker.connect(lasting(V311, "p")).await;
    let again = Publish {
        dup: true,
        ..message("a", "1", 2)
    };
    publisher.send(Packet::Publish(message("a", "1", 2))).await;
    drop(publisher);
    let mut publisher = broker.connect(lasting(V311, "p")).await;
    assert!(publisher.session_present);
    assert_eq!(publisher.publish(again.clone()).await, ReasonCode::SUCCESS);
    // Released: the same identifier is another message.
    publisher.publish(message("a", "2", 2)).await;
    assert_eq!(subscriber.text().await, "a 1 0");
    assert_eq!(subscriber.text().await, "a 2 0");
    let unknown = Ack::new(9, ReasonCode::SUCCESS);
    let mut other = broker.client(V5, "").await;
    other.send(Packet::PubRel(unknown)).await;
    let answer = Ack::new(9, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND);
    assert_eq!(other.next().await, Some(Packet::PubComp(answer)));
}

#[tokio::test]
async fn retained_messages_follow_retain_handling() {
    let broker = start();
    let mut publisher = broker.client(V5, "").await;
    for (topic, payload) in [("a/1", "one"), ("a/2", "two"), ("$a", "hidden"), ("b", "b")] {
        publisher.publish(retained(topic, payload, 1)).await;
    }
    publisher.publish(retained("a/1", "uno", 1)).await;
    publisher.publish(retained("b", "", 1)).await;
    let mut subscriber = broker.subscriber(V5, "#", 1).await;
    assert_eq!(subscriber.text().await, "a/1 uno 1 retained");
    assert_eq!(subscriber.text().await, "a/2 two 1 retained");
    subscriber.is_idle().await;
    let mut subscriber = broker.subscriber(V311, "$a", 0).await;
    assert_eq!(subscriber.text().await, "$a hidden 0 retained");
    for (handling, first, second) in [
        (RetainHandling::Send, 1, 1),
        (RetainHandling::SendIfNew, 1, 0),
        (RetainHandling::DoNotSend, 0, 0),
    ] {
        let mut subscriber = broker.client(V5, "").await;
        for messages in [first, second] {
            let options = SubscribeOptions {
                retain_handling: handling,
                ..SubscribeOptions::default()
            };
            let filters = [("a/1/#", options)].into_iter();
            subscriber
                .subscribe_with(filters, Properties::default())
                .await;
            for _ in 0..messages {
                assert_eq!(
                    subscriber.text().await,
                    "a/1 uno 0 retained",
                    "{handling:?}"
                );
            }
            subscriber.is_idle().await;
        }
    }
}

#[tokio::test]
async fn options_of_a_subscription_are_obeyed() {
    let broker = start();
    let mut client = broker.client(V5, "").await;
    let local = SubscribeOptions {
        no_local: true,
        ..SubscribeOptions::default()
    };
    let as_published = SubscribeOptions {
        retain_as_published: true,
        ..SubscribeOptions::new(QoS::AtLeastOnce)
    };
    let filters = [("own", local), ("flags/#", as_published)].into_iter();
    client.subscribe_with(filters, Properties::default()).await;
    client.publish(message("own", "1", 0)).await;
    let mut other = broker.client(V5, "").await;
    other.publish(message("own", "2", 0)).await;
    other.publish(retained("flags/a", "3", 1)).await;
    other.publish(message("flags/a", "4", 1)).await;
    for expected in ["own 2 0", "flags/a 3 1 retained", "flags/a 4 1"] {
        assert_eq!(client.text().await, expected);
    }
    // Overlapping filters: one copy, of the highest QoS.
    client.subscribe(&[("own", 0), ("+", 2)]).await;
    other.publish(message("own", "5", 2)).await;
    assert_eq!(client.text().await, "own 5 2");
    let filters = Filters::without_options(["own", "+", "never"]).expect("short");
    client
        .send(Packet::Unsubscribe(Unsubscribe {
            id: 3,
            filters,
            properties: Properties::default(),
        }))
        .await;
    match client.next().await {
        Some(Packet::UnsubAck(acks)) => {
            assert_eq!(
                acks.codes().map(|code| code.0).collect::<Vec<_>>(),
                [0, 0, 0x11]
            );
        }
        other => panic!("{other:?}"),
    }
    other.publish(message("own", "6", 1)).await;
    client.is_idle().await;
}

#[tokio::test]
async fn session_keeps_messages_for_a_client_that_is_away() {
    let broker = start();
    for protocol in [V5, V311] {
        let mut subscriber = broker.connect(lasting(protocol, "s")).await;
        subscriber.subscribe(&[("a", 2)]).await;
        let mut publisher = broker.client(V5, "").await;
        publisher.publish(message("a", "1", 1)).await;
        // Not acknowledged: it is sent again.
        assert!(matches!(subscriber.next().await, Some(Packet::Publish(publish)) if !publish.dup));
        subscriber.leave(ReasonCode::SUCCESS).await;
        for (payload, qos) in [("2", 2), ("lost", 0), ("3", 1)] {
            publisher.publish(message("a", payload, qos)).await;
        }
        let mut subscriber = broker.connect(lasting(protocol, "s")).await;
        assert!(subscriber.session_present);
        let first = subscriber.message().await;
        assert!(first.dup && first.payload == "1");
        assert_eq!(subscriber.text().await, "a 2 2");
        assert_eq!(subscriber.text().await, "a 3 1");
        subscriber.is_idle().await;
        subscriber.leave(ReasonCode::SUCCESS).await;
        let clean = broker.client(protocol, "s").await;
        assert!(!clean.session_present);
        clean.leave(ReasonCode::SUCCESS).await;
        let mut subscriber = broker.connect(lasting(protocol, "s")).await;
        assert!(!subscriber.session_present, "the clean start has ended it");
        publisher.publish(message("a", "4", 1)).await;
        subscriber.is_idle().await;
        subscriber.leave(ReasonCode::SUCCESS).await;
        broker.client(protocol, "s").await;
    }
}

#[tokio::test]
async fn a_release_is_sent_again() {
    let broker = start();
    let mut subscriber = broker.connect(lasting(V311, "s")).await;
    subscriber.subscribe(&[("a", 2)]).await;
    broker
        .client(V5, "")
        .await
        .publish(message("a", "1", 2))
        .await;
    let Some(Packet::Publish(publish)) = subscriber.next().await else {
        panic!("a message");
    };
    let ack = Ack::new(publish.id, ReasonCode::SUCCESS);
    subscriber.send(Packet::PubRec(ack.clone())).await;
    assert_eq!(subscriber.next().await, Some(Packet::PubRel(ack.clone())));
    drop(subscriber);
    let mut subscriber = broker.connect(lasting(V311, "s")).await;
    assert_eq!(subscriber.next().await, Some(Packet::PubRel(ack.clone())));
    subscriber.send(Packet::PubComp(ack)).await;
    drop(subscriber);
    broker.connect(lasting(V311, "s")).await.is_idle().await;
}

#[tokio::test]
async fn properties_of_a_message_are_passed_on() {
    let broker = start();
    let mut subscriber = broker.connect(lasting(V5, "s")).await;
    subscriber.subscribe(&[("a", 1)]).await;
    let passed: Vec<(Property, Value<'_>)> = vec![
        (Property::PAYLOAD_FORMAT_INDICATOR, Value::Number(1)),
        (Property::CONTENT_TYPE, Value::Text("application/json")),
        (Property::RESPONSE_TOPIC, Value::Text("answers/7")),
        (Property::CORRELATION_DATA, Value::Binary(b"\0\x01")),
        (Property::USER_PROPERTY, Value::Pair("k", "v")),
        (Property::USER_PROPERTY, Value::Pair("k", "w")),
    ];
    let with_expiry = |seconds| Publish {
        properties: passed
            .iter()
            .copied()
            .chain([(Property::MESSAGE_EXPIRY_INTERVAL, Value::Number(seconds))])
            .collect(),
        ..message("a", "x", 1)
    };
    let mut publisher = broker.client(V5, "").await;
    publisher.publish(with_expiry(100)).await;
    let received = subscriber.message().await.properties;
    let others = received
        .iter()
        .filter(|(property, _)| *property != Property::MESSAGE_EXPIRY_INTERVAL);
    assert_eq!(others.collect::<Vec<_>>(), passed);
    let left = received.number(Property::MESSAGE_EXPIRY_INTERVAL);
    assert!(
        left.is_some_and(|left| (60..=100).contains(&left)),
        "{left:?}"
    );
}

#[tokio::test]
async fn the_receive_maximum_of_a_client_is_obeyed() {
    let broker = start();
    let mut client = broker
        .connect(Connect {
            properties: [(Property::RECEIVE_MAXIMUM, Value::Number(2))]
                .into_iter()
                .collect(),
            ..hello(V5, "c")
        })
        .await;
    client.subscribe(&[("a", 2)]).await;
    let mut publisher = broker.client(V5, "").await;
    for payload in ["1", "2", "3"] {
        publisher.publish(message("a", payload, 2)).await;
    }
    let mut ids = Vec::new();
    for _ in 0..2 {
        match client.next().await {
            Some(Packet::Publish(publish)) => ids.push(publish.id),
            other => panic!("{other:?}"),
        }
    }
    client.is_idle().await;
    let ack = Ack::new(ids[0], ReasonCode::SUCCESS);
    client.send(Packet::PubRec(ack.clone())).await;
    assert_eq!(client.next().await, Some(Packet::PubRel(ack.clone())));
    client.is_idle().await;
    client.send(Packet::PubComp(ack)).await;
    assert_eq!(client.text().await, "a 3 2");
    // A client that refuses one gets the next.
    let refused = Ack::new(ids[1], ReasonCode::QUOTA_EXCEEDED);
    client.send(Packet::PubRec(refused)).await;
    client.is_idle().await;
}
