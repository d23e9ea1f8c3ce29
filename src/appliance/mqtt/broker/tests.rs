// SPDX-License-Identifier: Apache-2.0
//! The broker with a small client, packet by packet.

mod connections;
mod delivery;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;
use crate::{
    Ack, Connect, Filters, Packet, Properties, Property, Protocol, Publish, QoS, Reason,
    ReasonCode, RetainHandling, Subscribe, SubscribeOptions, Unsubscribe, Value, Will, decode,
};
use Protocol::{V5, V311};

/// Long, because the tests share busy cores.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A running broker.
struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<()>,
}

static REFUSED: AtomicUsize = AtomicUsize::new(0);

fn start_with(limits: Limits, login: Option<Login>) -> Running {
    let socket = StdListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    let (stop, stopped) = oneshot::channel();
    let broker = Broker {
        limits,
        login,
        on_refusal: Box::new(|_, _, _| {
            REFUSED.fetch_add(1, Ordering::Relaxed);
        }),
    };
    let listeners = vec![Listener { socket, tls: None }];
    let ended = tokio::spawn(broker.run(listeners, async { drop(stopped.await) }));
    Running {
        address,
        stop: Some(stop),
        ended,
    }
}

fn start() -> Running {
    start_with(Limits::default(), None)
}

/// A client with nothing but a socket.
struct Client {
    stream: TcpStream,
    input: BytesMut,
    /// Read, and not yet looked at.
    packets: VecDeque<Packet>,
    protocol: Protocol,
    session_present: bool,
    properties: Properties,
}

fn hello(protocol: Protocol, client_id: &str) -> Connect {
    Connect {
        protocol,
        clean_start: true,
        keep_alive: 0,
        client_id: client_id.to_owned(),
        will: None,
        user: None,
        password: None,
        properties: Properties::default(),
    }
}

/// A session that stays.
fn lasting(protocol: Protocol, client_id: &str) -> Connect {
    let expiry = (Property::SESSION_EXPIRY_INTERVAL, Value::Number(600));
    Connect {
        clean_start: false,
        properties: [expiry].into_iter().collect(),
        ..hello(protocol, client_id)
    }
}

fn will(topic: &str, delay_s: u32) -> Option<Will> {
    let delay = (Property::WILL_DELAY_INTERVAL, Value::Number(delay_s));
    Some(Will {
        topic: topic.to_owned(),
        payload: Bytes::from_static(b"gone"),
        qos: QoS::AtLeastOnce,
        retain: true,
        properties: [delay].into_iter().collect(),
    })
}

fn message(topic: &str, payload: &str, qos: u8) -> Publish {
    Publish {
        topic: topic.into(),
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        qos: QoS::of(qos).expect("0 to 2"),
        id: if qos == 0 { 0 } else { 77 },
        retain: false,
        dup: false,
        properties: Properties::default(),
    }
}

fn retained(topic: &str, payload: &str, qos: u8) -> Publish {
    Publish {
        retain: true,
        ..message(topic, payload, qos)
    }
}

impl Running {
    async fn try_connect(&self, connect: Connect) -> Result<Client, ReasonCode> {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let mut client = Client {
            stream,
            input: BytesMut::new(),
            packets: VecDeque::new(),
            protocol: connect.protocol,
            session_present: false,
            properties: Properties::default(),
        };
        client.send(Packet::Connect(Box::new(connect))).await;
        match client.next().await {
            Some(Packet::ConnAck(answer)) if answer.code.is_error() => Err(answer.code),
            Some(Packet::ConnAck(answer)) => {
                client.session_present = answer.session_present;
                client.properties = answer.properties;
                Ok(client)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn connect(&self, connect: Connect) -> Client {
        self.try_connect(connect).await.expect("let in")
    }

    async fn client(&self, protocol: Protocol, client_id: &str) -> Client {
        self.connect(hello(protocol, client_id)).await
    }

    /// A client with a subscription of this QoS.
    async fn subscriber(&self, protocol: Protocol, filter: &str, qos: u8) -> Client {
        let mut client = self.client(protocol, "").await;
        let granted = client.subscribe(&[(filter, qos)]).await;
        assert_eq!(granted, [qos]);
        client
    }
}

impl Client {
    async fn send(&mut self, packet: Packet) {
        let mut output = BytesMut::new();
        packet.encode(self.protocol, &mut output).expect("written");
        self.stream.write_all(&output).await.expect("it reads");
    }

    /// `None`: the connection was closed.
    async fn next(&mut self) -> Option<Packet> {
        match self.packets.pop_front() {
            Some(packet) => Some(packet),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Option<Packet> {
        loop {
            let packet = decode(&mut self.input, self.protocol, 1 << 21).expect("a packet");
            if packet.is_some() {
                return packet;
            }
            let read = timeout(TEST_TIMEOUT, self.stream.read_buf(&mut self.input)).await;
            if read.expect("something in time").unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next message, acknowledged.
    async fn message(&mut self) -> Publish {
        let publish = match self.next().await {
            Some(Packet::Publish(publish)) => publish,
            other => panic!("{other:?}"),
        };
        let ack = Ack::new(publish.id.max(1), ReasonCode::SUCCESS);
        match publish.qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.send(Packet::PubAck(ack)).await,
            QoS::ExactlyOnce => {
                self.send(Packet::PubRec(ack.clone())).await;
                let release = Packet::PubRel(ack.clone());
                loop {
                    let packet = self.read().await.expect("it is released");
                    if packet == release {
                        break;
                    }
                    self.packets.push_back(packet);
                }
                self.send(Packet::PubComp(ack)).await;
            }
        }
        publish
    }

    /// As [`message`](Self::message), in short: topic, payload, QoS and retain flag.
    async fn text(&mut self) -> String {
        let publish = self.message().await;
        format!(
            "{} {} {}{}",
            publish.topic,
            String::from_utf8_lossy(&publish.payload),
            publish.qos as u8,
            if publish.retain { " retained" } else { "" }
        )
    }

    /// Publishes and waits until the broker has the message; returns its answer.
    async fn publish(&mut self, publish: Publish) -> ReasonCode {
        let (qos, id) = (publish.qos, publish.id);
        self.send(Packet::Publish(publish)).await;
        match qos {
            QoS::AtMostOnce => {
                self.send(Packet::PingReq).await;
                assert_eq!(self.next().await, Some(Packet::PingResp));
                ReasonCode::SUCCESS
            }
            QoS::AtLeastOnce => match self.next().await {
                Some(Packet::PubAck(ack)) if ack.id == id => ack.code,
                other => panic!("{other:?}"),
            },
            QoS::ExactlyOnce => match self.next().await {
                Some(Packet::PubRec(ack)) if ack.code.is_error() => ack.code,
                Some(Packet::PubRec(ack)) => {
                    self.send(Packet::PubRel(ack)).await;
                    match self.next().await {
                        Some(Packet::PubComp(ack)) if ack.id == id => ack.code,
                        other => panic!("{other:?}"),
                    }
                }
                other => panic!("{other:?}"),
            },
        }
    }

    async fn subscribe(&mut self, filters: &[(&str, u8)]) -> Vec<u8> {
        let options = |qos| SubscribeOptions::new(QoS::of(qos).expect("0 to 2"));
        let filters = filters.iter().map(|&(filter, qos)| (filter, options(qos)));
        self.subscribe_with(filters, Properties::default()).await
    }

    async fn subscribe_with<'a>(
        &mut self,
        filters: impl Iterator<Item = (&'a str, SubscribeOptions)>,
        properties: Properties,
    ) -> Vec<u8> {
        let filters = Filters::new(filters).expect("short");
        self.send(Packet::Subscribe(Subscribe {
            id: 5,
            filters,
            properties,
        }))
        .await;
        match self.next().await {
            Some(Packet::SubAck(acks)) => acks.codes().map(|code| code.0).collect(),
            other => panic!("{other:?}"),
        }
    }

    async fn leave(mut self, code: ReasonCode) {
        self.send(Packet::Disconnect(Reason::new(code))).await;
        assert_eq!(self.next().await, None);
    }

    /// The code of the DISCONNECT with which the broker ends; `None`: it only closes.
    async fn end(&mut self) -> Option<ReasonCode> {
        match self.next().await {
            None => None,
            Some(Packet::Disconnect(reason)) => {
                assert_eq!(self.next().await, None);
                Some(reason.code)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Nothing else has arrived.
    async fn is_idle(&mut self) {
        self.send(Packet::PingReq).await;
        assert_eq!(self.next().await, Some(Packet::PingResp));
    }
}
