// SPDX-License-Identifier: Apache-2.0
//! The packets, as data. One set for both versions: what MQTT 3.1.1 does not have is empty there.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::read::Reader;
use super::write::EncodeError;
use crate::{Properties, Property, ReasonCode};

/// Protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// 5.0: reports why it refuses a message, its receive maximum and its largest packet.
    V5,
    /// 3.1.1, for brokers that refuse 5.0 as unsupported.
    V311,
}

impl Protocol {
    /// The version as text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V5 => "5.0",
            Self::V311 => "3.1.1",
        }
    }

    /// The protocol level on the wire.
    #[must_use]
    pub fn level(self) -> u8 {
        match self {
            Self::V5 => 5,
            Self::V311 => 4,
        }
    }
}

/// Quality of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum QoS {
    /// QoS 0.
    #[default]
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce,
    /// QoS 2.
    ExactlyOnce,
}

impl QoS {
    /// `None` for 3 and above.
    pub fn of(number: u8) -> Option<Self> {
        [Self::AtMostOnce, Self::AtLeastOnce, Self::ExactlyOnce]
            .get(usize::from(number))
            .copied()
    }
}

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // The standard's names.
pub enum Packet {
    Connect(Box<Connect>),
    ConnAck(ConnAck),
    Publish(Publish),
    PubAck(Ack),
    PubRec(Ack),
    PubRel(Ack),
    PubComp(Ack),
    Subscribe(Subscribe),
    SubAck(Acks),
    Unsubscribe(Unsubscribe),
    UnsubAck(Acks),
    PingReq,
    PingResp,
    Disconnect(Reason),
    /// MQTT 5.0 only.
    Auth(Reason),
}

impl Packet {
    /// The standard's name in capitals.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAMES[usize::from(self.number())]
    }

    /// Its type on the wire, 1 to 15.
    pub(super) fn number(&self) -> u8 {
        match self {
            Self::Connect(_) => 1,
            Self::ConnAck(_) => 2,
            Self::Publish(_) => 3,
            Self::PubAck(_) => 4,
            Self::PubRec(_) => 5,
            Self::PubRel(_) => 6,
            Self::PubComp(_) => 7,
            Self::Subscribe(_) => 8,
            Self::SubAck(_) => 9,
            Self::Unsubscribe(_) => 10,
            Self::UnsubAck(_) => 11,
            Self::PingReq => 12,
            Self::PingResp => 13,
            Self::Disconnect(_) => 14,
            Self::Auth(_) => 15,
        }
    }
}

/// Names by the type on the wire.
pub(super) const NAMES: [&str; 16] = [
    "reserved packet",
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
];

/// A client logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// The version of the connection.
    pub protocol: Protocol,
    /// No earlier session is continued; in MQTT 3.1.1 none is kept either.
    pub clean_start: bool,
    /// Seconds; 0: no limit.
    pub keep_alive: u16,
    /// Empty: the broker chooses one.
    pub client_id: String,
    /// What the broker publishes when the connection breaks.
    pub will: Option<Will>,
    /// User name.
    pub user: Option<String>,
    /// Password, not always text.
    pub password: Option<Bytes>,
    /// Properties.
    pub properties: Properties,
}

/// A last will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Will {
    /// Topic name.
    pub topic: String,
    /// Payload.
    pub payload: Bytes,
    /// QoS of its publication.
    pub qos: QoS,
    /// Whether it becomes the retained message.
    pub retain: bool,
    /// Properties.
    pub properties: Properties,
}

/// The answer to a CONNECT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnAck {
    /// The broker continues a session.
    pub session_present: bool,
    /// Return codes of MQTT 3.1.1 as those of MQTT 5.0 with the same sense.
    pub code: ReasonCode,
    /// Properties.
    pub properties: Properties,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// Topic name.
    pub topic: Arc<str>,
    /// Payload.
    pub payload: Bytes,
    /// Quality of service.
    pub qos: QoS,
    /// Packet identifier; 0 with QoS 0.
    pub id: u16,
    /// Retained, or to be retained.
    pub retain: bool,
    /// It was sent before.
    pub dup: bool,
    /// Properties.
    pub properties: Properties,
}

/// PUBACK, PUBREC, PUBREL, PUBCOMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// Packet identifier.
    pub id: u16,
    /// Always success in MQTT 3.1.1.
    pub code: ReasonCode,
    /// Properties.
    pub properties: Properties,
}

impl Ack {
    /// Without properties.
    pub fn new(id: u16, code: ReasonCode) -> Self {
        Self {
            id,
            code,
            properties: Properties::default(),
        }
    }
}

/// SUBSCRIBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe {
    /// Packet identifier.
    pub id: u16,
    /// At least one.
    pub filters: Filters,
    /// Properties.
    pub properties: Properties,
}

/// UNSUBSCRIBE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsubscribe {
    /// Packet identifier.
    pub id: u16,
    /// At least one; their options say nothing.
    pub filters: Filters,
    /// Properties.
    pub properties: Properties,
}

/// SUBACK, UNSUBACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acks {
    /// Packet identifier.
    pub id: u16,
    /// A code for each filter; none in UNSUBACK of MQTT 3.1.1.
    codes: Bytes,
    /// Properties.
    pub properties: Properties,
}

impl Acks {
    /// Without properties.
    pub fn new(id: u16, codes: impl IntoIterator<Item = ReasonCode>) -> Self {
        let codes = codes.into_iter().map(|code| code.0).collect();
        Self::of(id, codes, Properties::default())
    }

    pub(super) fn of(id: u16, codes: Bytes, properties: Properties) -> Self {
        Self {
            id,
            codes,
            properties,
        }
    }

    /// The code for each filter, in the order of the request.
    pub fn codes(&self) -> impl Iterator<Item = ReasonCode> {
        self.codes.iter().copied().map(ReasonCode)
    }
}

/// DISCONNECT, AUTH.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reason {
    /// Always success in MQTT 3.1.1.
    pub code: ReasonCode,
    /// Properties.
    pub properties: Properties,
}

impl Reason {
    /// Without properties.
    pub fn new(code: ReasonCode) -> Self {
        Self {
            code,
            properties: Properties::default(),
        }
    }
}

/// When retained messages are sent for a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetainHandling {
    /// At each SUBSCRIBE.
    #[default]
    Send,
    /// Where the subscription is a new one.
    SendIfNew,
    /// Never.
    DoNotSend,
}

/// What a subscription asks for. MQTT 3.1.1 has the QoS only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubscribeOptions {
    /// Highest QoS of messages for it.
    pub qos: QoS,
    /// No messages of the subscriber itself.
    pub no_local: bool,
    /// The retain flag of a message stays as its publisher has set it.
    pub retain_as_published: bool,
    /// Retained messages.
    pub retain_handling: RetainHandling,
}

impl SubscribeOptions {
    /// With this QoS.
    pub fn new(qos: QoS) -> Self {
        Self {
            qos,
            ..Self::default()
        }
    }

    /// `None`: QoS 3, or retain handling 3. Reserved bits say nothing.
    pub(super) fn of(byte: u8) -> Option<Self> {
        Some(Self {
            qos: QoS::of(byte & 3)?,
            no_local: byte & 4 != 0,
            retain_as_published: byte & 8 != 0,
            retain_handling: match byte >> 4 & 3 {
                0 => RetainHandling::Send,
                1 => RetainHandling::SendIfNew,
                2 => RetainHandling::DoNotSend,
                _ => return None,
            },
        })
    }

    pub(super) fn byte(self) -> u8 {
        self.qos as u8
            | u8::from(self.no_local) << 2
            | u8::from(self.retain_as_published) << 3
            | (self.retain_handling as u8) << 4
    }
}

/// Topic filters with their options, as the bytes of a SUBSCRIBE of MQTT 5.0; in UNSUBSCRIBE, without options.
#[derive(Clone, PartialEq, Eq)]
pub struct Filters {
    bytes: Bytes,
    has_options: bool,
}

impl Filters {
    /// For a SUBSCRIBE.
    ///
    /// # Errors
    /// A filter is longer than 65,535 bytes.
    pub fn new<'a>(
        filters: impl IntoIterator<Item = (&'a str, SubscribeOptions)>,
    ) -> Result<Self, EncodeError> {
        let filters = filters
            .into_iter()
            .map(|(filter, options)| (filter, Some(options)));
        Self::collect(filters, true)
    }

    /// For an UNSUBSCRIBE.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn without_options<'a>(
        filters: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, EncodeError> {
        Self::collect(filters.into_iter().map(|filter| (filter, None)), false)
    }

    fn collect<'a>(
        filters: impl Iterator<Item = (&'a str, Option<SubscribeOptions>)>,
        has_options: bool,
    ) -> Result<Self, EncodeError> {
        let mut bytes = BytesMut::new();
        for (filter, options) in filters {
            bytes.put_u16(EncodeError::length("topic filter", filter.len())?);
            bytes.put_slice(filter.as_bytes());
            bytes.extend(options.map(SubscribeOptions::byte));
        }
        Ok(Self {
            bytes: bytes.freeze(),
            has_options,
        })
    }

    /// Takes in what was received. `None`: a filter is cut off or is not text, an option is invalid, or there is no filter.
    pub(super) fn checked(bytes: Bytes, has_options: bool) -> Option<Self> {
        let mut rest = &bytes[..];
        let mut is_first = true;
        while !rest.is_empty() || is_first {
            split(&mut rest, has_options)?;
            is_first = false;
        }
        Some(Self { bytes, has_options })
    }

    /// All of them, in their order; at least one where they were received.
    pub fn iter(&self) -> impl Iterator<Item = (&str, SubscribeOptions)> {
        let (mut rest, has_options) = (&self.bytes[..], self.has_options);
        std::iter::from_fn(move || split(&mut rest, has_options))
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Takes the first filter off `rest`.
fn split<'a>(rest: &mut &'a [u8], has_options: bool) -> Option<(&'a str, SubscribeOptions)> {
    let filter = Reader::text_of(rest)?;
    let options = match has_options {
        true => SubscribeOptions::of(Reader::u8_of(rest)?)?,
        false => SubscribeOptions::default(),
    };
    Some((filter, options))
}

/// `code` with what the other side says about it: `quota exceeded (0x97): queue is full`.
fn explained(code: ReasonCode, properties: &Properties) -> String {
    let mut text = code.to_string();
    for (property, before) in [
        (Property::REASON_STRING, ": "),
        (Property::SERVER_REFERENCE, "; use server "),
    ] {
        if let Some(said) = properties
            .text(property)
            .map(shown)
            .filter(|said| !said.is_empty())
        {
            text = text + before + &said;
        }
    }
    text
}

/// A text of the other side for a line of a log: at most 200 characters, none of them a control character.
fn shown(text: &str) -> String {
    let is_shown = |c: &char| !c.is_control();
    text.trim().chars().filter(is_shown).take(200).collect()
}

macro_rules! explain {
    ($($packet:ident),*) => {$(
        impl $packet {
            /// The code with the reason string of the other side, where it has sent one.
            #[must_use]
            pub fn explained(&self) -> String {
                explained(self.code, &self.properties)
            }
        }
    )*};
}
explain!(ConnAck, Ack, Reason);
