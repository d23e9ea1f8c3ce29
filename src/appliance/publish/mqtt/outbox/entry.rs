// SPDX-License-Identifier: Apache-2.0
//! What is in the queues of the outbox, and what is on its way.

use std::sync::Arc;

use bytes::Bytes;
use jetwatch_spool::Class;

use crate::mqtt::wall_clock::shifted;

/// A topic and its payload.
#[derive(Debug, Clone)]
pub(in crate::mqtt) struct Message {
    pub topic: Arc<str>,
    pub payload: Bytes,
    /// MQTT 5: correlation data of the request to which this is the response.
    pub correlation: Option<Box<[u8]>>,
    /// MQTT 5: seconds after which the broker drops it from the queue of a subscriber that is away; `None`: as its number says.
    pub expires_in_s: Option<u32>,
}

impl Message {
    pub fn new(topic: Arc<str>, payload: Bytes) -> Self {
        Self {
            topic,
            payload,
            correlation: None,
            expires_in_s: None,
        }
    }
}

/// What the spool knows of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mqtt) struct Tag {
    /// Its number.
    pub seq: u64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// Stands for its track.
    pub track: u64,
    pub class: Class,
}

impl Tag {
    /// The same with another time.
    pub fn shifted(self, ms: i64) -> Self {
        Self {
            at_ms: shifted(self.at_ms, ms),
            ..self
        }
    }
}

/// How many late messages may be sent now.
#[derive(Debug, Clone, Copy)]
pub(in crate::mqtt) struct Pace {
    /// In milliseconds since 1970.
    pub now_ms: u64,
    /// Late messages that may be sent.
    pub tokens: f64,
}

impl Pace {
    /// No limit, and no message is late.
    #[cfg(test)]
    pub const UNLIMITED: Self = Self {
        now_ms: 0,
        tokens: f64::INFINITY,
    };
}

/// One message to write now.
#[derive(Debug)]
pub(in crate::mqtt) struct Outgoing {
    pub message: Message,
    /// Packet identifier of QoS 1; `None`: QoS 0.
    pub id: Option<u16>,
    pub retain: bool,
    /// It was sent before, on a connection that broke.
    pub dup: bool,
    /// Its age in milliseconds, where it is late.
    pub late_ms: Option<u64>,
    /// Its number and when it was made; `None`: it is not numbered.
    pub tag: Option<Tag>,
}

/// Whether another message makes this one dispensable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mqtt) enum Importance {
    /// An update of a track: dropped first when the queue is full.
    Update,
    /// Begin and end of a track, and all others: no later message says it again.
    Essential,
}

/// Messages that were dropped because the queue was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::mqtt) struct Overflow {
    /// Updates of tracks.
    pub updates: u64,
    /// All others.
    pub essential: u64,
}

#[derive(Debug)]
pub(super) struct QueuedMessage {
    /// Its place among all messages.
    pub order: u64,
    pub message: Message,
    pub dup: bool,
    /// `None`: it is not numbered.
    pub tag: Option<Tag>,
}

#[derive(Debug)]
pub(super) enum QueueEntry {
    Message(QueuedMessage),
    /// The newest value of this state; at most one such mark is in the queue.
    State {
        order: u64,
        index: usize,
    },
}

impl QueueEntry {
    pub fn tag(&self) -> Option<Tag> {
        match self {
            Self::Message(queued) => queued.tag,
            Self::State { .. } => None,
        }
    }

    pub fn order(&self) -> u64 {
        match self {
            Self::Message(queued) => queued.order,
            Self::State { order, .. } => *order,
        }
    }
}

/// Identifier of a message that waits outside of the queues: see `held.rs`. No packet has it.
pub(super) const ASIDE: u16 = 0;

/// A message that the broker does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mqtt) struct GivenUp {
    pub topic: Arc<str>,
    /// Its payload, in bytes.
    pub bytes: usize,
}

#[derive(Debug)]
pub(super) struct InFlight {
    /// The packet identifier, or [`ASIDE`].
    pub id: u16,
    pub sent: Sent,
}

impl Sent {
    /// The number of a message.
    pub fn tag(&self) -> Option<Tag> {
        match self {
            Self::Message { queued, .. } => queued.tag,
            Self::State { .. } => None,
        }
    }
}

#[derive(Debug)]
pub(super) enum Sent {
    Message {
        queued: QueuedMessage,
        importance: Importance,
        /// It was sent before older ones.
        is_ahead: bool,
    },
    State {
        index: usize,
        counted: bool,
    },
}
