// SPDX-License-Identifier: Apache-2.0
//! A broker that does what a test says: what it answers to each packet, and when it closes. For brokers that this machine does not have.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::BytesMut;
use jetwatch_config::MqttConfig;
use jetwatch_mqtt::{Ack, Acks, Packet, Protocol, Publish, ReasonCode, decode};

use super::mosquitto::client;

/// What the broker does after a packet.
pub enum Answer {
    /// What a good broker answers.
    Usual,
    /// These bytes, and nothing else.
    Bytes(Vec<u8>),
    /// These bytes, and the end of the connection.
    Close(Vec<u8>),
}

/// Acknowledges with `code`.
pub fn puback(publish: &Publish, code: ReasonCode) -> Vec<u8> {
    written(&Packet::PubAck(Ack::new(publish.id, code)), Protocol::V5)
}

/// A CONNACK of success of MQTT 5.0 with these properties.
pub fn connack(properties: &[u8]) -> Vec<u8> {
    let length = properties.len() as u8;
    [&[0x20, 3 + length, 0, 0, length], properties].concat()
}

fn written(packet: &Packet, protocol: Protocol) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    packet
        .encode(protocol, &mut bytes)
        .expect("it can be written");
    bytes.to_vec()
}

/// A running broker.
pub struct Scripted {
    port: u16,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    connections: usize,
    /// The CONNECTs.
    connects: Vec<jetwatch_mqtt::Connect>,
    /// Messages that were answered as usual, and the version of the last one.
    taken: Vec<Publish>,
    protocol: Option<Protocol>,
}

impl Scripted {
    /// `answer` is called for each packet of each connection, with the number of the connection from 1 on.
    pub fn start(answer: impl Fn(usize, &Packet) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let log = Arc::new(Mutex::new(Log::default()));
        let answer = Arc::new(answer);
        let shared = Arc::clone(&log);
        // The threads end with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { port, log }
    }

    /// A client configuration for it, whose time-outs are as short as they can be.
    pub fn client(&self) -> MqttConfig {
        MqttConfig {
            keep_alive: std::time::Duration::from_secs(5),
            ..client(self.port)
        }
    }

    pub fn client_port(&self) -> u16 {
        self.port
    }

    pub fn connections(&self) -> usize {
        self.log.lock().expect("not poisoned").connections
    }

    pub fn connects(&self) -> Vec<jetwatch_mqtt::Connect> {
        self.log.lock().expect("not poisoned").connects.clone()
    }

    /// That of the last message that it has taken.
    pub fn protocol(&self) -> Option<Protocol> {
        self.log.lock().expect("not poisoned").protocol
    }

    /// Messages that it has taken, on topics that end in `suffix`.
    pub fn taken(&self, suffix: &str) -> Vec<Publish> {
        let log = self.log.lock().expect("not poisoned");
        let is_it = |publish: &&Publish| publish.topic.ends_with(suffix);
        log.taken.iter().filter(is_it).cloned().collect()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Log>, answer: &dyn Fn(usize, &Packet) -> Answer) {
    let number = {
        let mut log = log.lock().expect("not poisoned");
        log.connections += 1;
        log.connections
    };
    let mut protocol = Protocol::V5;
    let mut input = BytesMut::new();
    let mut buffer = [0; 4096];
    loop {
        // What is no MQTT ends the connection.
        while let Some(packet) = match decode(&mut input, protocol, 1 << 22) {
            Ok(packet) => packet,
            Err(_) => return,
        } {
            if let Packet::Connect(connect) = &packet {
                protocol = connect.protocol;
                let mut log = log.lock().expect("not poisoned");
                log.connects.push(connect.as_ref().clone());
            }
            let (bytes, is_end) = match answer(number, &packet) {
                Answer::Usual => {
                    if let Packet::Publish(publish) = &packet {
                        let mut log = log.lock().expect("not poisoned");
                        log.taken.push(publish.clone());
                        log.protocol = Some(protocol);
                    }
                    (usual(&packet, protocol), false)
                }
                Answer::Bytes(bytes) => (bytes, false),
                Answer::Close(bytes) => (bytes, true),
            };
            // The client may be gone.
            let _ = stream.write_all(&bytes);
            if is_end {
                let _ = stream.shutdown(Shutdown::Write);
                // Read to the end: with data left, the client would see a reset in place of what was written.
                while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(bytes) if bytes > 0 => input.extend_from_slice(&buffer[..bytes]),
            _ => return,
        }
    }
}

fn usual(packet: &Packet, protocol: Protocol) -> Vec<u8> {
    let answer = match packet {
        Packet::Connect(_) => Packet::ConnAck(Default::default()),
        Packet::Publish(publish) if publish.id > 0 => {
            Packet::PubAck(Ack::new(publish.id, ReasonCode::SUCCESS))
        }
        Packet::Subscribe(subscribe) => {
            let codes = subscribe.filters.iter().map(|_| ReasonCode::GRANTED_QOS_1);
            Packet::SubAck(Acks::new(subscribe.id, codes))
        }
        Packet::PingReq => Packet::PingResp,
        _ => return Vec::new(),
    };
    written(&answer, protocol)
}
