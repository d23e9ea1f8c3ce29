// SPDX-License-Identifier: Apache-2.0
//! Properties of MQTT 5.0, as the bytes that they are in a packet: checked once, looked up by walking over them. Nothing is copied or
//! allocated for them, however many there are.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::Reader;

/// Identifier of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Property(pub u8);

/// How a property is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Byte,
    TwoBytes,
    FourBytes,
    /// A number of one to four bytes.
    Variable,
    Text,
    Binary,
    Pair,
}

/// All properties, ascending.
const KINDS: [(u8, Kind); 27] = [
    (0x01, Kind::Byte),
    (0x02, Kind::FourBytes),
    (0x03, Kind::Text),
    (0x08, Kind::Text),
    (0x09, Kind::Binary),
    (0x0b, Kind::Variable),
    (0x11, Kind::FourBytes),
    (0x12, Kind::Text),
    (0x13, Kind::TwoBytes),
    (0x15, Kind::Text),
    (0x16, Kind::Binary),
    (0x17, Kind::Byte),
    (0x18, Kind::FourBytes),
    (0x19, Kind::Byte),
    (0x1a, Kind::Text),
    (0x1c, Kind::Text),
    (0x1f, Kind::Text),
    (0x21, Kind::TwoBytes),
    (0x22, Kind::TwoBytes),
    (0x23, Kind::TwoBytes),
    (0x24, Kind::Byte),
    (0x25, Kind::Byte),
    (0x26, Kind::Pair),
    (0x27, Kind::FourBytes),
    (0x28, Kind::Byte),
    (0x29, Kind::Byte),
    (0x2a, Kind::Byte),
];

#[allow(missing_docs)] // The standard's names, section 2.2.2.2.
impl Property {
    pub(crate) const PAYLOAD_FORMAT_INDICATOR: Self = Self(0x01);
    pub const MESSAGE_EXPIRY_INTERVAL: Self = Self(0x02);
    pub const CONTENT_TYPE: Self = Self(0x03);
    pub const RESPONSE_TOPIC: Self = Self(0x08);
    pub const CORRELATION_DATA: Self = Self(0x09);
    pub(crate) const SUBSCRIPTION_IDENTIFIER: Self = Self(0x0b);
    pub(crate) const SESSION_EXPIRY_INTERVAL: Self = Self(0x11);
    pub const ASSIGNED_CLIENT_IDENTIFIER: Self = Self(0x12);
    pub const SERVER_KEEP_ALIVE: Self = Self(0x13);
    pub(crate) const AUTHENTICATION_METHOD: Self = Self(0x15);
    pub(crate) const WILL_DELAY_INTERVAL: Self = Self(0x18);
    pub(crate) const SERVER_REFERENCE: Self = Self(0x1c);
    pub(crate) const REASON_STRING: Self = Self(0x1f);
    pub const RECEIVE_MAXIMUM: Self = Self(0x21);
    pub const TOPIC_ALIAS: Self = Self(0x23);
    pub const MAXIMUM_QOS: Self = Self(0x24);
    pub const RETAIN_AVAILABLE: Self = Self(0x25);
    pub(crate) const USER_PROPERTY: Self = Self(0x26);
    pub const MAXIMUM_PACKET_SIZE: Self = Self(0x27);
    pub const WILDCARD_SUBSCRIPTION_AVAILABLE: Self = Self(0x28);
    pub(crate) const SUBSCRIPTION_IDENTIFIER_AVAILABLE: Self = Self(0x29);
    pub(crate) const SHARED_SUBSCRIPTION_AVAILABLE: Self = Self(0x2a);

    fn kind(self) -> Option<Kind> {
        let at = KINDS.binary_search_by_key(&self.0, |&(id, _)| id);
        at.ok().map(|at| KINDS[at].1)
    }
}

/// What a property says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of any width.
    Number(u32),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Binary(&'a [u8]),
    /// Name and value of a user property.
    Pair(&'a str, &'a str),
}

/// The properties of one packet or will, without their length.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(Bytes);

impl Properties {
    /// Takes in what was received. `None`: an identifier that MQTT 5.0 does not have, whose length is unknown, or a value that is cut off or
    /// is not text.
    pub(crate) fn checked(bytes: Bytes) -> Option<Self> {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            split(&mut rest)?;
        }
        Some(Self(bytes))
    }

    /// As they are in the packet.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Property, Value<'_>)> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || split(&mut rest))
    }

    fn get(&self, property: Property) -> Option<Value<'_>> {
        self.iter()
            .find_map(|(other, value)| (other == property).then_some(value))
    }

    /// The first of this identifier, where it is a number.
    pub fn number(&self, property: Property) -> Option<u32> {
        match self.get(property) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// The first of this identifier, where it is a text.
    pub fn text(&self, property: Property) -> Option<&str> {
        match self.get(property) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The first of this identifier, where it is bytes.
    pub fn binary(&self, property: Property) -> Option<&[u8]> {
        match self.get(property) {
            Some(Value::Binary(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Those of a PUBLISH or a will that a broker passes on to subscribers as they are, in memory of their own.
    pub(crate) fn forwarded(&self) -> Self {
        self.iter()
            .filter(|(property, _)| {
                matches!(
                    *property,
                    Property::PAYLOAD_FORMAT_INDICATOR
                        | Property::CONTENT_TYPE
                        | Property::RESPONSE_TOPIC
                        | Property::CORRELATION_DATA
                        | Property::USER_PROPERTY
                )
            })
            .collect()
    }

    /// These and one more.
    pub(crate) fn with(&self, property: Property, value: u32) -> Self {
        self.iter()
            .chain([(property, Value::Number(value))])
            .collect()
    }
}

impl<'a> FromIterator<(Property, Value<'a>)> for Properties {
    /// A value that is not of the property's kind, or longer than the 65,535 bytes that MQTT has for it, is left out.
    fn from_iter<I: IntoIterator<Item = (Property, Value<'a>)>>(values: I) -> Self {
        let mut bytes = BytesMut::new();
        for (property, value) in values {
            let is_short = match value {
                Value::Number(_) => true,
                Value::Text(text) => u16::try_from(text.len()).is_ok(),
                Value::Binary(bytes) => u16::try_from(bytes.len()).is_ok(),
                Value::Pair(name, value) => u16::try_from(name.len().max(value.len())).is_ok(),
            };
            if let Some(kind) = property.kind().filter(|_| is_short) {
                put(&mut bytes, property.0, kind, value);
            }
        }
        Self(bytes.freeze())
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

fn put(to: &mut BytesMut, id: u8, kind: Kind, value: Value<'_>) {
    let with_length = |to: &mut BytesMut, bytes: &[u8]| {
        to.put_u16(bytes.len() as u16);
        to.put_slice(bytes);
    };
    let before = to.len();
    to.put_u8(id);
    match (kind, value) {
        (Kind::Byte, Value::Number(number)) => to.put_u8(number as u8),
        (Kind::TwoBytes, Value::Number(number)) => to.put_u16(number as u16),
        (Kind::FourBytes, Value::Number(number)) => to.put_u32(number),
        (Kind::Variable, Value::Number(number)) => {
            let (bytes, used) = crate::codec::variable(number);
            to.put_slice(&bytes[..used]);
        }
        (Kind::Text, Value::Text(text)) => with_length(to, text.as_bytes()),
        (Kind::Binary, Value::Binary(bytes)) => with_length(to, bytes),
        (Kind::Pair, Value::Pair(name, value)) => {
            with_length(to, name.as_bytes());
            with_length(to, value.as_bytes());
        }
        _ => to.truncate(before),
    }
}

/// Takes the first property off `rest`.
fn split<'a>(rest: &mut &'a [u8]) -> Option<(Property, Value<'a>)> {
    let property = Property(Reader::u8_of(rest)?);
    let value = match property.kind()? {
        Kind::Byte => Value::Number(Reader::u8_of(rest)?.into()),
        Kind::TwoBytes => Value::Number(Reader::u16_of(rest)?.into()),
        Kind::FourBytes => {
            let (high, low) = (Reader::u16_of(rest)?, Reader::u16_of(rest)?);
            Value::Number(u32::from(high) << 16 | u32::from(low))
        }
        Kind::Variable => Value::Number(Reader::variable_of(rest)?),
        Kind::Text => Value::Text(Reader::text_of(rest)?),
        Kind::Binary => Value::Binary(Reader::binary_of(rest)?),
        Kind::Pair => Value::Pair(Reader::text_of(rest)?, Reader::text_of(rest)?),
    };
    Some((property, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each property.
    fn all() -> Properties {
        KINDS
            .iter()
            .map(|&(id, kind)| {
                let value = match kind {
                    Kind::Byte => Value::Number(0xfe),
                    Kind::TwoBytes => Value::Number(0xfedc),
                    Kind::FourBytes => Value::Number(0xfedc_ba98),
                    Kind::Variable => Value::Number(0x0fed_cba9),
                    Kind::Text => Value::Text("tëxt"),
                    Kind::Binary => Value::Binary(b"\0\xff"),
                    Kind::Pair => Value::Pair("name", ""),
                };
                (Property(id), value)
            })
            .collect()
    }

    #[test]
    fn each_property_is_read_as_it_was_written_and_none_when_cut_off() {
        let all = all();
        assert_eq!(all.iter().count(), KINDS.len());
        assert_eq!(Properties::checked(all.0.clone()), Some(all.clone()));
        let mut complete = 0;
        for length in 0..all.0.len() {
            complete += usize::from(Properties::checked(all.0.slice(..length)).is_some());
        }
        assert_eq!(complete, KINDS.len(), "only between properties");
        for id in 0..=255 {
            let is_known = KINDS.iter().any(|&(known, _)| known == id);
            let bytes = Bytes::from(vec![id; 1]);
            assert_eq!(Properties::checked(bytes), None, "{id}");
            assert_eq!(Property(id).kind().is_some(), is_known);
        }
        assert_eq!(all.number(Property::RECEIVE_MAXIMUM), Some(0xfedc));
        assert_eq!(all.text(Property::REASON_STRING), Some("tëxt"));
        assert_eq!(all.binary(Property::CORRELATION_DATA), Some(&b"\0\xff"[..]));
        assert_eq!(all.text(Property::RECEIVE_MAXIMUM), None);
        assert_eq!(all.forwarded().iter().count(), 5);
    }

    #[test]
    fn values_that_mqtt_cannot_carry_are_left_out() {
        let long = "x".repeat(65_536);
        let properties: Properties = [
            (Property::REASON_STRING, Value::Text(&long)),
            (Property::RECEIVE_MAXIMUM, Value::Text("1")),
            (Property(0x7f), Value::Number(1)),
            (Property::CONTENT_TYPE, Value::Text("a")),
        ]
        .into_iter()
        .collect();
        assert_eq!(&properties.0[..], b"\x03\0\x01a");
    }
}
