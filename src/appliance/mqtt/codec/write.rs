// SPDX-License-Identifier: Apache-2.0
//! Packets to bytes. The fields are gone through twice, for their length and to be written: so they are written into the caller's buffer at
//! once.

use bytes::BytesMut;

use super::packet::{Ack, ConnAck, Connect, NAMES, Packet, Protocol, Publish, QoS, Reason};
use crate::{Properties, ReasonCode};

/// Largest length that MQTT can write.
const MAX_VARIABLE: usize = 0x0fff_ffff;

/// Why a packet cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum EncodeError {
    #[error("{what} of {bytes} bytes; MQTT has at most 65535")]
    TooLong { what: &'static str, bytes: usize },
    #[error("{packet} of {bytes} bytes; MQTT has at most 268435455")]
    TooLarge { packet: &'static str, bytes: usize },
    #[error("{0} without a packet identifier")]
    NoIdentifier(&'static str),
    #[error("MQTT 3.1.1 has no {0}")]
    NotInProtocol(&'static str),
}

impl EncodeError {
    pub(super) fn length(what: &'static str, bytes: usize) -> Result<u16, Self> {
        u16::try_from(bytes).map_err(|_| Self::TooLong { what, bytes })
    }
}

impl Packet {
    /// Appends the packet, in the form of `protocol`: what MQTT 3.1.1 does not have is left out, and reason codes become its return codes.
    ///
    /// # Errors
    /// A field is too long, an identifier is missing, or the packet does not exist in this version. Nothing is appended.
    pub fn encode(&self, protocol: Protocol, to: &mut BytesMut) -> Result<(), EncodeError> {
        let mut writer = Writer {
            protocol,
            bytes: 0,
            to: None,
        };
        writer.packet(self)?;
        let bytes = writer.bytes;
        if bytes > MAX_VARIABLE {
            let packet = self.name();
            return Err(EncodeError::TooLarge { packet, bytes });
        }
        let (length, used) = variable(bytes as u32);
        to.reserve(1 + used + bytes);
        to.extend_from_slice(&[self.number() << 4 | self.flags()]);
        to.extend_from_slice(&length[..used]);
        writer.to = Some(to);
        writer.packet(self)
    }

    fn flags(&self) -> u8 {
        match self {
            Self::Publish(publish) => {
                u8::from(publish.dup) << 3 | (publish.qos as u8) << 1 | u8::from(publish.retain)
            }
            Self::PubRel(_) | Self::Subscribe(_) | Self::Unsubscribe(_) => 2,
            _ => 0,
        }
    }
}

/// A number as at most four bytes, and how many of them there are.
pub(crate) fn variable(mut number: u32) -> ([u8; 4], usize) {
    let mut bytes = [0; 4];
    let mut used = 0;
    for byte in &mut bytes {
        *byte = (number & 0x7f) as u8;
        number >>= 7;
        used += 1;
        if number == 0 {
            break;
        }
        *byte |= 0x80;
    }
    (bytes, used)
}

/// Counts what is put, and writes it where there is a buffer.
struct Writer<'a> {
    protocol: Protocol,
    bytes: usize,
    to: Option<&'a mut BytesMut>,
}

impl Writer<'_> {
    fn packet(&mut self, packet: &Packet) -> Result<(), EncodeError> {
        let name = NAMES[usize::from(packet.number())];
        let is_v5 = self.protocol == Protocol::V5;
        match packet {
            Packet::Connect(connect) => self.connect(connect)?,
            Packet::ConnAck(ack) => self.conn_ack(ack),
            Packet::Publish(publish) => self.publish(publish)?,
            Packet::PubAck(ack)
            | Packet::PubRec(ack)
            | Packet::PubRel(ack)
            | Packet::PubComp(ack) => self.ack(name, ack)?,
            Packet::Subscribe(subscribe) => {
                self.id(name, subscribe.id)?;
                self.properties(&subscribe.properties);
                for (filter, options) in subscribe.filters.iter() {
                    self.text("topic filter", filter)?;
                    self.put(&[match is_v5 {
                        true => options.byte(),
                        false => options.qos as u8,
                    }]);
                }
            }
            Packet::Unsubscribe(unsubscribe) => {
                self.id(name, unsubscribe.id)?;
                self.properties(&unsubscribe.properties);
                for (filter, _) in unsubscribe.filters.iter() {
                    self.text("topic filter", filter)?;
                }
            }
            Packet::SubAck(acks) | Packet::UnsubAck(acks) => {
                self.id(name, acks.id)?;
                self.properties(&acks.properties);
                let is_subscribe = matches!(packet, Packet::SubAck(_));
                for code in acks.codes().filter(|_| is_v5 || is_subscribe) {
                    let is_failure = !is_v5 && code.is_error();
                    self.put(&[if is_failure { 0x80 } else { code.0 }]);
                }
            }
            Packet::PingReq | Packet::PingResp => {}
            Packet::Auth(_) if !is_v5 => return Err(EncodeError::NotInProtocol(name)),
            Packet::Disconnect(reason) | Packet::Auth(reason) => self.reason(reason),
        }
        Ok(())
    }

    fn connect(&mut self, connect: &Connect) -> Result<(), EncodeError> {
        let will = connect.will.as_ref();
        let flags = u8::from(connect.clean_start) << 1
            | u8::from(will.is_some()) << 2
            | will.map_or(0, |will| (will.qos as u8) << 3 | u8::from(will.retain) << 5)
            | u8::from(connect.password.is_some()) << 6
            | u8::from(connect.user.is_some()) << 7;
        self.text("protocol name", "MQTT")?;
        self.put(&[self.protocol.level(), flags]);
        self.put(&connect.keep_alive.to_be_bytes());
        self.properties(&connect.properties);
        self.text("client identifier", &connect.client_id)?;
        if let Some(will) = will {
            self.properties(&will.properties);
            self.text("topic of the will", &will.topic)?;
            self.binary("payload of the will", &will.payload)?;
        }
        if let Some(user) = &connect.user {
            self.text("user name", user)?;
        }
        if let Some(password) = &connect.password {
            self.binary("password", password)?;
        }
        Ok(())
    }

    fn conn_ack(&mut self, ack: &ConnAck) {
        let code = match self.protocol {
            Protocol::V5 => ack.code.0,
            Protocol::V311 => ack.code.return_code(),
        };
        self.put(&[u8::from(ack.session_present), code]);
        self.properties(&ack.properties);
    }

    fn publish(&mut self, publish: &Publish) -> Result<(), EncodeError> {
        self.text("topic", &publish.topic)?;
        if publish.qos != QoS::AtMostOnce {
            self.id("PUBLISH", publish.id)?;
        }
        self.properties(&publish.properties);
        self.put(&publish.payload);
        Ok(())
    }

    fn ack(&mut self, name: &'static str, ack: &Ack) -> Result<(), EncodeError> {
        self.id(name, ack.id)?;
        self.code(ack.code, &ack.properties);
        Ok(())
    }

    fn reason(&mut self, reason: &Reason) {
        self.code(reason.code, &reason.properties);
    }

    /// Code and properties at the end of a packet, where they say something.
    fn code(&mut self, code: ReasonCode, properties: &Properties) {
        let has_properties = !properties.bytes().is_empty();
        if self.protocol == Protocol::V5 && (has_properties || code != ReasonCode::SUCCESS) {
            self.put(&[code.0]);
            if has_properties {
                self.properties(properties);
            }
        }
    }

    fn properties(&mut self, properties: &Properties) {
        if self.protocol == Protocol::V5 {
            let bytes = properties.bytes();
            // More than the limit makes the packet too large, which is an error.
            let (length, used) = variable(bytes.len().min(MAX_VARIABLE) as u32);
            self.put(&length[..used]);
            self.put(bytes);
        }
    }

    fn id(&mut self, name: &'static str, id: u16) -> Result<(), EncodeError> {
        self.put(&id.to_be_bytes());
        match id {
            0 => Err(EncodeError::NoIdentifier(name)),
            _ => Ok(()),
        }
    }

    fn text(&mut self, what: &'static str, text: &str) -> Result<(), EncodeError> {
        self.binary(what, text.as_bytes())
    }

    fn binary(&mut self, what: &'static str, bytes: &[u8]) -> Result<(), EncodeError> {
        self.put(&EncodeError::length(what, bytes.len())?.to_be_bytes());
        self.put(bytes);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        if let Some(to) = &mut self.to {
            to.extend_from_slice(bytes);
        }
    }
}
