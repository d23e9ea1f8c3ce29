// SPDX-License-Identifier: Apache-2.0
//! Discovery messages for Home Assistant: what this device and its sources have there. Pure: no connection, no clock.
//!
//! One retained message for the device and one for each source, below `<prefix>/device/<device>/`. States are those of
//! [`Topics`](crate::Topics), read through templates: nothing is published twice. [`Observer`] sits where the pipeline publishes and
//! passes on [`Fact`]s; the `mqtt` thread feeds them to [`HomeAssistant`] and publishes its messages.
//!
//! A label of a network with many is announced when it is first seen, and stays announced over restarts: the message that an
//! earlier run left at the broker says which were.

mod component;
mod ids;
mod machine_entities;
mod message;
mod observer;
mod site;
mod source_entities;
mod source_events;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::Bytes;

pub(crate) use self::machine_entities::Sensors;
use self::message::{Fitted, Platforms};
pub(crate) use self::observer::Observer;
pub use self::site::HomeAssistantOptions;
pub(crate) use self::site::discovery_prefix;
use self::site::{Draft, Site};
use self::source_entities::{Seen, Source};
use crate::Topics;
use jetwatch_types::Classes;

/// Largest message, whatever the broker takes: what an earlier run left is read back up to this size.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// What changes the messages.
#[derive(Debug)]
pub(crate) enum Fact {
    /// A source was added, or this is known of it now.
    Source(Box<Source>),
    /// A source was removed.
    SourceRemoved(String),
    /// The machine has these sensors.
    Sensors(Sensors),
    /// `jetwatch update` was used on the machine.
    HasUpdates,
    /// Topics and payloads that an earlier run left at the broker; none where they cannot be read.
    Earlier(Vec<(String, Vec<u8>)>),
}

/// A message to publish, retained.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DiscoveryMessage {
    /// Its topic.
    pub topic: String,
    /// Empty: the device is withdrawn.
    pub payload: Bytes,
}

/// Size of what is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Announcement {
    /// Devices.
    pub devices: usize,
    /// Their entities.
    pub entities: usize,
    /// Triggers and entities for which a message has no room.
    pub left_out: usize,
}

/// What the broker has on a topic.
#[derive(Debug, Default)]
struct Published {
    payload: Bytes,
    /// Components that Home Assistant may have.
    known: Platforms,
    /// Those of them that the message removes.
    retiring: Platforms,
}

/// The announcements of one device.
#[derive(Debug)]
pub(crate) struct HomeAssistant {
    site: Site,
    max_bytes: usize,
    /// The messages of an earlier run were read.
    is_ready: bool,
    /// `None`: not known yet.
    sensors: Option<Sensors>,
    /// Those of an earlier run.
    earlier_sensors: Sensors,
    has_updates: bool,
    /// An earlier run has announced them.
    had_updates: bool,
    sources: BTreeMap<String, Source>,
    /// Removed, perhaps to be added again at once.
    leaving: BTreeMap<String, Source>,
    published: BTreeMap<String, Published>,
    announcement: Announcement,
}

impl HomeAssistant {
    /// For the device `device` with topics below `mqtt_prefix`. Without [`enabled`](jetwatch_config::HomeAssistantConfig::enabled), all
    /// that an earlier run announced is withdrawn.
    pub fn new(
        options: HomeAssistantOptions,
        mqtt_prefix: &str,
        device: &str,
        classes: &Classes,
        has_spool: bool,
    ) -> Self {
        Self {
            site: Site {
                options,
                device: device.to_owned(),
                topics: Topics::new(mqtt_prefix, device, classes),
                classes: classes.clone(),
                has_spool,
            },
            max_bytes: MAX_MESSAGE_BYTES,
            is_ready: false,
            sensors: None,
            earlier_sensors: Sensors::default(),
            has_updates: false,
            had_updates: false,
            sources: BTreeMap::new(),
            leaving: BTreeMap::new(),
            published: BTreeMap::new(),
            announcement: Announcement::default(),
        }
    }

    /// Filter for the topics of all messages of this device.
    pub fn filter(&self) -> String {
        self.site.filter()
    }

    /// Begin of those topics.
    pub fn topic_prefix(&self) -> String {
        self.site.prefix()
    }

    /// Topic on which Home Assistant says that it is there.
    pub fn birth_topic(&self) -> Option<String> {
        let config = &self.site.options.config;
        config.enabled.then(|| format!("{}/status", config.prefix))
    }

    /// Sets the size of the largest message that the broker takes; returns whether it is another one.
    pub fn set_max_bytes(&mut self, max_bytes: usize) -> bool {
        let max_bytes = max_bytes.min(MAX_MESSAGE_BYTES);
        std::mem::replace(&mut self.max_bytes, max_bytes) != max_bytes
    }

    /// Takes in what changed.
    pub fn take(&mut self, fact: Fact) {
        match fact {
            Fact::Source(mut source) => {
                let name = source.info.name.clone();
                let before = self.leaving.remove(&name).or(self.sources.remove(&name));
                source.seen.extend(before.unwrap_or_default().seen);
                let topic = self.site.source_topic(&name);
                if let Some(published) = self.published.get(&topic) {
                    source
                        .seen
                        .extend(Seen::of_components(published.known.keys()));
                }
                self.sources.insert(name, *source);
            }
            Fact::SourceRemoved(name) => {
                if let Some(source) = self.sources.remove(&name) {
                    self.leaving.insert(name, source);
                }
            }
            Fact::Sensors(sensors) => self.sensors = Some(sensors),
            Fact::HasUpdates => self.has_updates = true,
            Fact::Earlier(messages) => self.take_earlier(messages),
        }
    }

    fn take_earlier(&mut self, messages: Vec<(String, Vec<u8>)>) {
        self.is_ready = true;
        for (topic, payload) in messages {
            let Some(known) = message::components_of(&payload) else {
                continue;
            };
            if topic == self.site.box_topic() {
                self.earlier_sensors = Sensors::of_components(known.keys());
                self.had_updates = known.contains_key(machine_entities::UPDATE);
            }
            // Published once more: from then on it is sent on every connection.
            let published = Published {
                payload: Bytes::new(),
                known,
                retiring: Platforms::new(),
            };
            self.published.insert(topic, published);
        }
        let topics = self.sources.iter_mut().map(|(name, source)| {
            let topic = self.site.source_topic(name);
            (topic, source)
        });
        for (topic, source) in topics {
            if let Some(published) = self.published.get(&topic) {
                source
                    .seen
                    .extend(Seen::of_components(published.known.keys()));
            }
        }
    }

    /// Forgets removed sources that were not added again; returns whether there were some.
    pub fn drop_leaving(&mut self) -> bool {
        !std::mem::take(&mut self.leaving).is_empty()
    }

    /// The messages that differ from what was published.
    pub fn messages(&mut self) -> Vec<DiscoveryMessage> {
        if !self.is_ready {
            return Vec::new();
        }
        let drafts = self.drafts();
        let mut messages = Vec::new();
        self.announcement = Announcement::default();
        for (topic, draft) in &drafts {
            let fitted = Fitted::new(draft, self.max_bytes);
            self.announcement.devices += 1;
            self.announcement.entities += fitted.entities();
            self.announcement.left_out += fitted.left_out;
            let present = fitted.platforms();
            let published = self.published.entry(topic.clone()).or_default();
            published.retiring = std::mem::take(&mut published.known);
            published.retiring.retain(|id, _| !present.contains_key(id));
            published.known = present;
            published.known.extend(published.retiring.clone());
            let payload = fitted.payload(&published.retiring);
            if payload != published.payload {
                published.payload = payload.clone();
                messages.push(DiscoveryMessage {
                    topic: topic.clone(),
                    payload,
                });
            }
        }
        let leaving = self.leaving.keys();
        let leaving: Vec<String> = leaving.map(|name| self.site.source_topic(name)).collect();
        let stays = |topic: &String| {
            drafts.iter().any(|(known, _)| known == topic) || leaving.contains(topic)
        };
        self.published.retain(|topic, _| {
            let stays = stays(topic);
            if !stays {
                messages.push(DiscoveryMessage {
                    topic: topic.clone(),
                    payload: Bytes::new(),
                });
            }
            stays
        });
        messages
    }

    /// Topics of messages that remove components.
    pub fn retiring(&self) -> impl Iterator<Item = &str> {
        let is_retiring = |(_, published): &(&String, &Published)| !published.retiring.is_empty();
        let retiring = self.published.iter().filter(is_retiring);
        retiring.map(|(topic, _)| topic.as_str())
    }

    /// The broker has the messages that remove components: the next ones leave them out.
    pub fn retired(&mut self) {
        for published in self.published.values_mut() {
            let retiring = std::mem::take(&mut published.retiring);
            published.known.retain(|id, _| !retiring.contains_key(id));
        }
    }

    /// Topics of counts that are announced, with the names of their sources.
    pub fn count_topics(&self) -> Vec<(&str, Vec<String>)> {
        if !self.is_ready || !self.site.options.config.enabled {
            return Vec::new();
        }
        let topics = |source| source_entities::count_topics(&self.site, source);
        let sources = self.sources.iter();
        sources
            .map(|(name, source)| (name.as_str(), topics(source)))
            .collect()
    }

    /// What the messages announce.
    pub fn announcement(&self) -> Announcement {
        self.announcement
    }

    fn drafts(&self) -> Vec<(String, Draft)> {
        if !self.site.options.config.enabled {
            return Vec::new();
        }
        let sensors = self.sensors.as_ref().unwrap_or(&self.earlier_sensors);
        // What the machine has is known with its sensors.
        let has_updates = self.has_updates || (self.sensors.is_none() && self.had_updates);
        let of_box = (
            self.site.box_topic(),
            machine_entities::draft(&self.site, sensors, has_updates),
        );
        let of_sources = self.sources.iter().map(|(name, source)| {
            let topic = self.site.source_topic(name);
            (topic, source_entities::draft(&self.site, source))
        });
        std::iter::once(of_box).chain(of_sources).collect()
    }
}
