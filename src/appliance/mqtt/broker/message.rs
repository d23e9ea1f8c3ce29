// SPDX-License-Identifier: Apache-2.0
//! A message inside the broker, shared by all queues that hold it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::{Properties, Property, Publish, QoS, Will};

/// Memory of a message beside its texts, roughly.
const OVERHEAD: usize = 128;

#[derive(Debug)]
pub(super) struct Message {
    pub topic: Arc<str>,
    pub payload: Bytes,
    pub qos: QoS,
    pub retain: bool,
    /// What subscribers get as it is.
    properties: Properties,
    /// It is not sent from then on.
    expires_at: Option<Instant>,
}

impl Message {
    /// A copy: the packet is a part of a buffer that may be far larger.
    pub fn of(publish: &Publish, now: Instant) -> Self {
        Self {
            topic: Arc::clone(&publish.topic),
            payload: Bytes::copy_from_slice(&publish.payload),
            qos: publish.qos,
            retain: publish.retain,
            properties: publish.properties.forwarded(),
            expires_at: expiry(&publish.properties, now),
        }
    }

    /// A will is published later: its time begins then, at `now`.
    pub fn of_will(will: &Will, now: Instant) -> Self {
        Self {
            topic: will.topic.as_str().into(),
            payload: Bytes::copy_from_slice(&will.payload),
            qos: will.qos,
            retain: will.retain,
            properties: will.properties.forwarded(),
            expires_at: expiry(&will.properties, now),
        }
    }

    /// Memory that it needs, in bytes.
    pub fn bytes(&self) -> usize {
        OVERHEAD + self.topic.len() + self.payload.len() + self.properties.bytes().len()
    }

    pub(crate) fn has_expired(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// The packet for a subscriber, with the time that is left.
    pub fn publish(&self, qos: QoS, id: u16, retain: bool, dup: bool, now: Instant) -> Publish {
        let left = self.expires_at.map(|at| at.duration_since(now).as_secs());
        let properties = match left {
            // At least 1: it has not expired.
            Some(left) => self.properties.with(
                Property::MESSAGE_EXPIRY_INTERVAL,
                u32::try_from(left).unwrap_or(u32::MAX).max(1),
            ),
            None => self.properties.clone(),
        };
        Publish {
            topic: Arc::clone(&self.topic),
            payload: self.payload.clone(),
            qos,
            id,
            retain,
            dup,
            properties,
        }
    }
}

fn expiry(properties: &Properties, now: Instant) -> Option<Instant> {
    let seconds = properties.number(Property::MESSAGE_EXPIRY_INTERVAL)?;
    Some(now + std::time::Duration::from_secs(seconds.into()))
}
