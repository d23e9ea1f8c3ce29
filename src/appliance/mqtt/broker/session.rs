// SPDX-License-Identifier: Apache-2.0
//! What the broker keeps for one client: messages that wait, messages on their way, and its subscriptions. Pure: no socket.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Limits;
use super::message::Message;
use crate::{Ack, Packet, Protocol, QoS, ReasonCode, Will};

/// The connection of a session.
#[derive(Debug)]
pub(super) struct Connected {
    /// Differs from that of every other connection.
    pub number: u64,
    /// Notified when there is something to send.
    pub wake: Arc<Notify>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub protocol: Protocol,
    /// `None`: the client is away.
    pub connected: Option<Connected>,
    /// How long it outlives its connection; zero: it does not.
    pub expiry: Duration,
    /// When the session ends, while the client is away.
    pub ends_at: Option<Instant>,
    pub will: Option<Will>,
    /// When the will is published, while the client is away.
    pub will_at: Option<Instant>,
    pub filters: HashSet<Arc<str>>,
    /// Messages of QoS 2 from the client that are not released yet.
    pub received: HashSet<u16>,
    queue: VecDeque<Queued>,
    /// Messages in `queue` that are not retained ones for a new subscription, and their bytes.
    queued: usize,
    queued_bytes: usize,
    on_way: VecDeque<OnWay>,
    on_way_bytes: usize,
    /// Of these, the first ones that were sent on this connection.
    sent: usize,
    /// Most messages on their way.
    window: usize,
    last_id: u16,
}

#[derive(Debug)]
pub(super) struct Queued {
    pub message: Arc<Message>,
    pub qos: QoS,
    /// The retain flag for the subscriber.
    pub retain: bool,
    /// It is here because of a new subscription: its memory is that of the retained messages.
    pub is_for_subscription: bool,
}

/// A message that the client has not acknowledged.
#[derive(Debug)]
struct OnWay {
    id: u16,
    /// `None`: PUBREL was sent.
    message: Option<Queued>,
}

impl Session {
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            connected: None,
            expiry: Duration::ZERO,
            ends_at: None,
            will: None,
            will_at: None,
            filters: HashSet::new(),
            received: HashSet::new(),
            queue: VecDeque::new(),
            queued: 0,
            queued_bytes: 0,
            on_way: VecDeque::new(),
            on_way_bytes: 0,
            sent: 0,
            window: 1,
            last_id: 0,
        }
    }

    /// A connection begins: what was on its way is sent again.
    pub fn connect(&mut self, protocol: Protocol, connected: Connected, window: usize) {
        self.protocol = protocol;
        self.connected = Some(connected);
        self.window = window;
        self.ends_at = None;
        self.will_at = None;
        self.sent = 0;
    }

    /// Queues a message; what is above the limits is dropped, the oldest first. Messages of QoS 0 do not wait for a client that is away.
    pub fn push(&mut self, queued: Queued, limits: &Limits) {
        let Some(connected) = &self.connected else {
            if queued.qos != QoS::AtMostOnce {
                self.enqueue(queued, limits);
            }
            return;
        };
        connected.wake.notify_one();
        self.enqueue(queued, limits);
    }

    fn enqueue(&mut self, queued: Queued, limits: &Limits) {
        let bytes = queued.message.bytes();
        if queued.is_for_subscription {
            // Those of subscriptions that are repeated without end.
            if self.queue.len() >= limits.queue + limits.retained {
                self.drop_oldest();
            }
        } else {
            self.queued += 1;
            self.queued_bytes += bytes;
        }
        self.queue.push_back(queued);
        while self.queued > limits.queue || self.queued_bytes > limits.queue_bytes {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) -> Option<Queued> {
        let oldest = self.queue.pop_front()?;
        if !oldest.is_for_subscription {
            self.queued -= 1;
            self.queued_bytes -= oldest.message.bytes();
        }
        Some(oldest)
    }

    /// The next packet for the client, as far as it takes more messages.
    pub fn next(&mut self, limits: &Limits, now: Instant) -> Option<Packet> {
        if let Some(again) = self.on_way.get(self.sent) {
            self.sent += 1;
            let id = again.id;
            return Some(match &again.message {
                Some(Queued {
                    message,
                    qos,
                    retain,
                    ..
                }) => Packet::Publish(message.publish(*qos, id, *retain, true, now)),
                None => Packet::PubRel(Ack::new(id, ReasonCode::SUCCESS)),
            });
        }
        loop {
            let first = self.queue.front()?;
            let (qos, bytes) = (first.qos, first.message.bytes());
            let is_expired = first.message.has_expired(now);
            let is_full = self.on_way.len() >= self.window
                || (!self.on_way.is_empty() && self.on_way_bytes + bytes > limits.queue_bytes);
            if qos != QoS::AtMostOnce && is_full && !is_expired {
                return None;
            }
            let queued = self.drop_oldest()?;
            if is_expired {
                continue;
            }
            let id = match qos {
                QoS::AtMostOnce => 0,
                _ => self.free_id(),
            };
            let publish = queued.message.publish(qos, id, queued.retain, false, now);
            if qos != QoS::AtMostOnce {
                self.on_way_bytes += bytes;
                self.on_way.push_back(OnWay {
                    id,
                    message: Some(queued),
                });
                self.sent += 1;
            }
            return Some(Packet::Publish(publish));
        }
    }

    /// PUBACK or PUBCOMP, a PUBREC with an error, or a message that this client cannot take.
    pub fn complete(&mut self, id: u16) {
        let Some(at) = self.on_way.iter().position(|on_way| on_way.id == id) else {
            return;
        };
        if let Some(OnWay {
            message: Some(queued),
            ..
        }) = self.on_way.remove(at)
        {
            self.on_way_bytes -= queued.message.bytes();
        }
        self.sent -= usize::from(at < self.sent);
    }

    /// PUBREC: the client has the message. Returns whether it was on its way.
    pub fn release(&mut self, id: u16) -> bool {
        let on_way = self.on_way.iter_mut().find(|on_way| on_way.id == id);
        if let Some(queued) = on_way.and_then(|on_way| on_way.message.take()) {
            self.on_way_bytes -= queued.message.bytes();
        }
        self.on_way.iter().any(|on_way| on_way.id == id)
    }

    /// Fewer messages are on their way than there are identifiers, so this ends.
    fn free_id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            let id = self.last_id;
            if self.on_way.iter().all(|on_way| on_way.id != id) {
                return id;
            }
        }
    }
}
