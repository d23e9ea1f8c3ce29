// SPDX-License-Identifier: Apache-2.0
//! Publishes the messages for Home Assistant, on the `mqtt` thread while there is a connection. What they say is decided in
//! `home_assistant`.
//!
//! Home Assistant drops parts of a message that follows another one of the same device within moments, so there is a pause between two,
//! in which changes are collected.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use super::message::Message;
use super::shared::Shared;
use crate::home_assistant::{Announcement, Fact, HomeAssistant};

/// Shortest time between two messages about one device.
const MIN_INTERVAL: Duration = Duration::from_secs(3);

/// For how long changes are collected.
const COLLECT_TIME: Duration = Duration::from_millis(300);

/// A source that is removed and not added again for this long has left.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// Room in a packet beside the payload and the topic.
const PACKET_OVERHEAD: usize = 64;

/// What is announced, and when that changes next.
#[derive(Debug)]
pub(super) struct Announcer {
    home_assistant: HomeAssistant,
    facts: UnboundedReceiver<Fact>,
    /// Counts that have a value from here, by source.
    counts: HashMap<String, Vec<Arc<str>>>,
    updated_at: Option<Instant>,
    /// When changes are published.
    update_at: Option<Instant>,
    /// When removed sources have left.
    leave_at: Option<Instant>,
    /// When components that were removed are left out.
    retire_at: Option<Instant>,
    last_logged: Announcement,
}

impl Announcer {
    pub fn new(home_assistant: HomeAssistant, facts: UnboundedReceiver<Fact>) -> Self {
        Self {
            home_assistant,
            facts,
            counts: HashMap::new(),
            updated_at: None,
            update_at: None,
            leave_at: None,
            retire_at: None,
            last_logged: Announcement::default(),
        }
    }

    /// Publishes what changes, until it is dropped. `max_packet_bytes` is the largest packet that the broker takes.
    pub async fn run(&mut self, shared: &Shared, max_packet_bytes: usize) -> Infallible {
        let overhead = self.home_assistant.topic_prefix().len() + 256 + PACKET_OVERHEAD;
        if self
            .home_assistant
            .set_max_bytes(max_packet_bytes.saturating_sub(overhead))
        {
            self.plan_update();
        }
        loop {
            let deadlines = [self.update_at, self.leave_at, self.retire_at];
            let due = deadlines.into_iter().flatten().min();
            let sleep = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                fact = self.facts.recv() => match fact {
                    Some(fact) => self.take(fact, shared),
                    // The sink is being closed: nothing changes from here on.
                    None => std::future::pending().await,
                },
                () = sleep => self.act(shared),
            }
        }
    }

    fn take(&mut self, fact: Fact, shared: &Shared) {
        if let Fact::SourceRemoved(source) = &fact {
            let mut outbox = shared.outbox();
            for topic in self.counts.remove(source).unwrap_or_default() {
                outbox.retract(&topic);
            }
            self.leave_at = Some(Instant::now() + LEAVE_TIME);
        }
        self.home_assistant.take(fact);
        self.plan_update();
    }

    fn plan_update(&mut self) {
        let soon = Instant::now() + COLLECT_TIME;
        let allowed = self.updated_at.map(|at| at + MIN_INTERVAL);
        let at = allowed.map_or(soon, |allowed| allowed.max(soon));
        self.update_at.get_or_insert(at);
    }

    fn act(&mut self, shared: &Shared) {
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if is_due(self.leave_at) {
            self.leave_at = None;
            if self.home_assistant.drop_leaving() {
                self.plan_update();
            }
        }
        if is_due(self.retire_at) {
            self.retire_at = None;
            let is_acknowledged = {
                let outbox = shared.outbox();
                let mut topics = self.home_assistant.retiring();
                topics.all(|topic| outbox.is_acknowledged(topic))
            };
            if is_acknowledged {
                self.home_assistant.retired();
                self.plan_update();
            } else {
                self.retire_at = Some(now + MIN_INTERVAL);
            }
        }
        if is_due(self.update_at) {
            self.update_at = None;
            self.update(shared);
            self.updated_at = Some(now);
        }
    }

    fn update(&mut self, shared: &Shared) {
        let messages = self.home_assistant.messages();
        let withdrawn = messages.iter().filter(|message| message.payload.is_empty());
        let withdrawn = withdrawn.count();
        {
            let mut outbox = shared.outbox();
            for (source, topics) in self.home_assistant.count_topics() {
                for topic in topics {
                    // A value of the pipeline is newer.
                    if !outbox.has_value(&topic) {
                        let topic: Arc<str> = topic.into();
                        let zero = Message::new(Arc::clone(&topic), Bytes::from_static(b"0"));
                        outbox.set_internal_state(zero);
                        self.counts
                            .entry(source.to_owned())
                            .or_default()
                            .push(topic);
                    }
                }
            }
            for message in messages {
                let topic: Arc<str> = message.topic.into();
                match message.payload.is_empty() {
                    true => outbox.clear_retained(topic),
                    false => outbox.set_internal_state(Message::new(topic, message.payload)),
                }
            }
        }
        shared.wake.notify_one();
        if self.home_assistant.retiring().next().is_some() {
            self.retire_at = Some(Instant::now() + MIN_INTERVAL);
        }
        self.log(withdrawn);
    }

    fn log(&mut self, withdrawn: usize) {
        if withdrawn > 0 {
            log::info!(devices = withdrawn; "withdrawn from Home Assistant");
        }
        let announcement = self.home_assistant.announcement();
        let Announcement {
            devices,
            entities,
            left_out,
        } = announcement;
        if announcement == self.last_logged {
            return;
        }
        if devices > 0 {
            log::info!(devices, entities; "announced to Home Assistant");
        }
        if left_out > 0 && left_out != self.last_logged.left_out {
            log::warn!(
                left_out;
                "not all entities are announced to Home Assistant: a message about a source would be larger than the broker or Home Assistant \
                 takes; name the labels that matter in `classes` of the source, or raise the broker's largest packet"
            );
        }
        self.last_logged = announcement;
    }
}
