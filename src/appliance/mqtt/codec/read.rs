// SPDX-License-Identifier: Apache-2.0
//! Bytes to packets. What is not yet complete is waited for; what is wrong is an error that says where. Lengths in the input are compared
//! with what has arrived before anything is taken, and payloads are parts of the input. Answers (CONNACK, PUBACK and the like, DISCONNECT) are
//! read as far as they can be: their code decides, whatever follows it.

use bytes::{Buf, Bytes, BytesMut};

use super::packet::{
    Ack, Acks, ConnAck, Connect, Filters, NAMES, Packet, Protocol, Publish, QoS, Reason, Subscribe,
    Unsubscribe, Will,
};
use crate::{Properties, Property, ReasonCode, Value};

/// Why bytes are not a packet. The connection cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum DecodeError {
    #[error("malformed {packet}: {problem} at byte {at}")]
    Malformed {
        packet: &'static str,
        problem: &'static str,
        at: usize,
    },
    #[error("{packet} of {bytes} bytes, more than {limit}")]
    TooLarge {
        packet: &'static str,
        bytes: usize,
        limit: usize,
    },
    #[error("CONNECT of protocol level {0}")]
    Level(u8),
}

/// Takes the first packet off `buffer`; `None`: it is not complete yet. `protocol` is that of the connection; a CONNECT names its own.
/// `limit` is the size of the largest packet, in bytes, with its header.
///
/// # Errors
/// The bytes are not a packet, or one that is too large.
pub fn decode(
    buffer: &mut BytesMut,
    protocol: Protocol,
    limit: usize,
) -> Result<Option<Packet>, DecodeError> {
    let Some(&first) = buffer.first() else {
        return Ok(None);
    };
    let (number, flags) = (first >> 4, first & 0x0f);
    let packet = NAMES[usize::from(number)];
    let malformed = |problem, at| DecodeError::Malformed {
        packet,
        problem,
        at,
    };
    // Before its length is known: what is not MQTT at all is seen by its first byte.
    let expected = match number {
        0 => return Err(malformed("packet type 0", 0)),
        15 if protocol == Protocol::V311 => return Err(malformed("packet type 15", 0)),
        3 => flags,
        6 | 8 | 10 => 2,
        _ => 0,
    };
    if flags != expected {
        return Err(malformed("reserved flags", 0));
    }
    let mut rest = &buffer[1..];
    let Some(length) = Reader::variable_of(&mut rest) else {
        return match buffer.len() > 4 {
            true => Err(malformed("remaining length", 1)),
            false => Ok(None),
        };
    };
    let header = buffer.len() - rest.len();
    let bytes = header + length as usize;
    if bytes > limit {
        return Err(DecodeError::TooLarge {
            packet,
            bytes,
            limit,
        });
    }
    if buffer.len() < bytes {
        return Ok(None);
    }
    let body = buffer.split_to(bytes).freeze();
    let mut reader = Reader {
        packet,
        bytes,
        rest: body.slice(header..),
        protocol,
    };
    reader.packet(number, flags).map(Some)
}

/// Takes fields off one packet.
pub(crate) struct Reader {
    packet: &'static str,
    /// Its size.
    bytes: usize,
    rest: Bytes,
    protocol: Protocol,
}

impl Reader {
    fn packet(&mut self, number: u8, flags: u8) -> Result<Packet, DecodeError> {
        let packet = match number {
            1 => Packet::Connect(Box::new(self.connect()?)),
            2 => Packet::ConnAck(self.conn_ack()?),
            3 => Packet::Publish(self.publish(flags)?),
            4 => Packet::PubAck(self.ack()?),
            5 => Packet::PubRec(self.ack()?),
            6 => Packet::PubRel(self.ack()?),
            7 => Packet::PubComp(self.ack()?),
            8 => {
                let (id, properties) = (self.id()?, self.properties()?);
                let filters = self.filters(true)?;
                Packet::Subscribe(Subscribe {
                    id,
                    filters,
                    properties,
                })
            }
            9 => Packet::SubAck(self.acks()?),
            10 => {
                let (id, properties) = (self.id()?, self.properties()?);
                let filters = self.filters(false)?;
                Packet::Unsubscribe(Unsubscribe {
                    id,
                    filters,
                    properties,
                })
            }
            11 => Packet::UnsubAck(self.acks()?),
            12 => Packet::PingReq,
            13 => Packet::PingResp,
            14 => Packet::Disconnect(self.reason()?),
            _ => Packet::Auth(self.reason()?),
        };
        match self.rest.is_empty() {
            true => Ok(packet),
            false => Err(self.malformed("more bytes than fields")),
        }
    }

    fn connect(&mut self) -> Result<Connect, DecodeError> {
        let name: String = self.text("protocol name")?;
        let level = self.u8()?;
        self.protocol = match (name.as_str(), level) {
            ("MQTT", 5) => Protocol::V5,
            ("MQTT", 4) => Protocol::V311,
            ("MQTT" | "MQIsdp", _) => return Err(DecodeError::Level(level)),
            _ => return Err(self.malformed("protocol name")),
        };
        let flags = self.u8()?;
        let has = |bit: u8| flags & bit != 0;
        let qos = QoS::of(flags >> 3 & 3).filter(|_| !has(1));
        let qos = qos.ok_or_else(|| self.malformed("flags"))?;
        let keep_alive = self.u16()?;
        let properties = self.properties()?;
        let client_id = self.text("client identifier")?;
        let will = match has(4) {
            true => Some(Will {
                properties: self.properties()?,
                topic: self.text("topic of the will")?,
                payload: self.binary("payload of the will")?,
                qos,
                retain: has(0x20),
            }),
            false => None,
        };
        let user = match has(0x80) {
            true => Some(self.text("user name")?),
            false => None,
        };
        let password = match has(0x40) {
            true => Some(self.binary("password")?),
            false => None,
        };
        Ok(Connect {
            protocol: self.protocol,
            clean_start: has(2),
            keep_alive,
            client_id,
            will,
            user,
            password,
            properties,
        })
    }

    fn conn_ack(&mut self) -> Result<ConnAck, DecodeError> {
        let session_present = self.u8()? & 1 != 0;
        let number = self.u8()?;
        let code = match (self.protocol, number, self.rest.is_empty()) {
            (Protocol::V311, ..) => ReasonCode::of_return_code(number),
            // Without properties it is one of 3.1.1: that broker has not looked at the version of the CONNECT.
            (Protocol::V5, 0, true) => ReasonCode::UNSUPPORTED_PROTOCOL_VERSION,
            (Protocol::V5, 1..=5, _) => ReasonCode::of_return_code(number),
            (Protocol::V5, ..) => ReasonCode(number),
        };
        let mut properties = self.last_properties();
        // Vendors have numbers of their own, which only the text can name.
        if self.protocol == Protocol::V311 && (6..0x80).contains(&number) {
            let text = format!("return code {number}");
            properties = [(Property::REASON_STRING, Value::Text(&text))]
                .into_iter()
                .collect();
        }
        Ok(ConnAck {
            session_present,
            code,
            properties,
        })
    }

    fn publish(&mut self, flags: u8) -> Result<Publish, DecodeError> {
        let qos = QoS::of(flags >> 1 & 3).ok_or_else(|| self.malformed("QoS 3"))?;
        let topic = self.text("topic")?;
        let id = match qos {
            QoS::AtMostOnce => 0,
            _ => self.id()?,
        };
        let properties = self.properties()?;
        Ok(Publish {
            topic,
            payload: std::mem::take(&mut self.rest),
            qos,
            id,
            retain: flags & 1 != 0,
            dup: flags & 8 != 0,
            properties,
        })
    }

    fn ack(&mut self) -> Result<Ack, DecodeError> {
        // 0 is sent by some brokers, and is that of no message.
        let id = self.u16()?;
        let Reason { code, properties } = self.reason()?;
        Ok(Ack {
            id,
            code,
            properties,
        })
    }

    /// Both may be missing.
    fn reason(&mut self) -> Result<Reason, DecodeError> {
        if self.rest.is_empty() {
            return Ok(Reason::default());
        }
        let code = ReasonCode(self.u8()?);
        let properties = self.last_properties();
        Ok(Reason { code, properties })
    }

    /// In MQTT 5.0 there is at least one code; where none is left, the broker has sent the body of MQTT 3.1.1.
    fn acks(&mut self) -> Result<Acks, DecodeError> {
        let id = self.u16()?;
        let body = self.rest.clone();
        let properties = self.properties().unwrap_or_default();
        let codes = match std::mem::take(&mut self.rest) {
            codes if codes.is_empty() => body,
            codes => codes,
        };
        Ok(Acks::of(id, codes, properties))
    }

    fn filters(&mut self, has_options: bool) -> Result<Filters, DecodeError> {
        let bytes = std::mem::take(&mut self.rest);
        Filters::checked(bytes, has_options).ok_or_else(|| self.malformed("topic filters"))
    }

    /// Empty in MQTT 3.1.1, which has none.
    fn properties(&mut self) -> Result<Properties, DecodeError> {
        if self.protocol == Protocol::V311 {
            return Ok(Properties::default());
        }
        let length = self.take("length of properties", Self::variable_of)? as usize;
        if length > self.rest.len() {
            return Err(self.malformed("length of properties"));
        }
        let bytes = self.rest.split_to(length);
        Properties::checked(bytes).ok_or_else(|| self.malformed("properties"))
    }

    /// Those at the end of an answer. They may be missing, and are left out where they cannot be read: the code before them counts.
    fn last_properties(&mut self) -> Properties {
        let properties = self.properties().unwrap_or_default();
        self.rest.clear();
        properties
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        self.take("cut off", Self::u8_of)
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.take("cut off", Self::u16_of)
    }

    fn id(&mut self) -> Result<u16, DecodeError> {
        let id = self.take("packet identifier", Self::u16_of)?;
        match id {
            0 => Err(self.malformed("packet identifier 0")),
            _ => Ok(id),
        }
    }

    fn text<T: for<'a> From<&'a str>>(&mut self, what: &'static str) -> Result<T, DecodeError> {
        self.take(what, |rest| Self::text_of(rest).map(T::from))
    }

    fn binary(&mut self, what: &'static str) -> Result<Bytes, DecodeError> {
        let all = self.rest.clone();
        self.take(what, |rest| Some(all.slice_ref(Self::binary_of(rest)?)))
    }

    /// Takes one field off.
    fn take<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut &[u8]) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let mut rest = &self.rest[..];
        let value = read(&mut rest);
        let used = self.rest.len() - rest.len();
        match value {
            Some(value) => {
                self.rest.advance(used);
                Ok(value)
            }
            None => Err(self.malformed(what)),
        }
    }

    fn malformed(&self, problem: &'static str) -> DecodeError {
        DecodeError::Malformed {
            packet: self.packet,
            problem,
            at: self.bytes - self.rest.len(),
        }
    }

    pub(crate) fn u8_of(rest: &mut &[u8]) -> Option<u8> {
        let (&first, behind) = rest.split_first()?;
        *rest = behind;
        Some(first)
    }

    pub(crate) fn u16_of(rest: &mut &[u8]) -> Option<u16> {
        let (&bytes, behind) = rest.split_first_chunk()?;
        *rest = behind;
        Some(u16::from_be_bytes(bytes))
    }

    /// At most four bytes.
    pub(crate) fn variable_of(rest: &mut &[u8]) -> Option<u32> {
        let mut value = 0;
        for shift in [0, 7, 14, 21] {
            let byte = Self::u8_of(rest)?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn binary_of<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::from(Self::u16_of(rest)?);
        let (bytes, behind) = rest.split_at_checked(length)?;
        *rest = behind;
        Some(bytes)
    }

    /// UTF-8 without NUL.
    pub(crate) fn text_of<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
        let text = std::str::from_utf8(Self::binary_of(rest)?).ok()?;
        (!text.contains('\0')).then_some(text)
    }
}
