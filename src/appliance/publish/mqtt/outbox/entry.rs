// SPDX-License-Identifier: Apache-2.0
//! What is in the queues of the outbox, and what leaves them.

use std::sync::Arc;

pub(super) use crate::mqtt::message::{Importance, Message, Tag};

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
    /// It is sent before older ones.
    pub is_ahead: bool,
}

impl QueuedMessage {
    pub fn new(order: u64, message: Message) -> Self {
        Self {
            order,
            message,
            dup: false,
            is_ahead: false,
        }
    }

    pub fn tag(&self) -> Option<Tag> {
        self.message.tag
    }
}

/// What waits, or is on its way.
#[derive(Debug)]
pub(super) enum Entry {
    Message(QueuedMessage),
    /// The newest value of a state; at most one such mark waits.
    State {
        order: u64,
        index: usize,
        /// It is on its way, and is counted.
        counted: bool,
    },
}

impl Entry {
    pub fn state(order: u64, index: usize) -> Self {
        Self::State {
            order,
            index,
            counted: false,
        }
    }

    pub fn message(&self) -> Option<&QueuedMessage> {
        match self {
            Self::Message(queued) => Some(queued),
            Self::State { .. } => None,
        }
    }

    pub fn message_mut(&mut self) -> Option<&mut QueuedMessage> {
        match self {
            Self::Message(queued) => Some(queued),
            Self::State { .. } => None,
        }
    }

    pub fn tag(&self) -> Option<Tag> {
        self.message()?.tag()
    }

    pub fn order(&self) -> u64 {
        match self {
            Self::Message(queued) => queued.order,
            Self::State { order, .. } => *order,
        }
    }

    pub fn is_state(&self, wanted: usize) -> bool {
        matches!(self, Self::State { index, .. } if *index == wanted)
    }
}

/// A message that the broker does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mqtt) struct GivenUp {
    pub topic: Arc<str>,
    /// Its payload, in bytes.
    pub bytes: usize,
}
