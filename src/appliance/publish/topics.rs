// SPDX-License-Identifier: Apache-2.0
//! Topic and delivery guarantee of a record on MQTT. Pure: no connection, no clock.
//!
//! ```text
//! <prefix>/<device>/status                `online`, `offline` (also the last will)        retained, QoS 1
//! <prefix>/<device>/detector              JSON, kind `detector`                           retained, QoS 1
//! <prefix>/<device>/throttling            JSON, kind `throttling`                         retained, QoS 1
//! <prefix>/<device>/reload                JSON, kind `reload`                             retained, QoS 1
//! <prefix>/<device>/update                JSON, kind `update`                             retained, QoS 1
//! <prefix>/<device>/command               (subscribed, where the configuration allows commands)
//! <prefix>/<device>/command/reply         JSON, kind `reply`                              QoS 1
//! <prefix>/<device>/stats                 JSON, kind `stats`                              QoS 0
//! <prefix>/<device>/gap                   JSON, kind `gap`                                QoS 1
//! <prefix>/<device>/<source>/status       JSON, kind `source`                             retained, QoS 1
//! <prefix>/<device>/<source>/events       JSON, kind `event`, one per step of a track     QoS 1
//! <prefix>/<device>/<source>/detections   JSON, kind `detections`, one per frame          QoS 0
//! <prefix>/<device>/<source>/analytics    JSON, kind `analytics`, one per event            QoS 1
//! <prefix>/<device>/<source>/zones/<zone> JSON, kind `zone`                               retained, QoS 1
//! <prefix>/<device>/<source>/lines/<line> JSON, kind `line`                               retained, QoS 1
//! <prefix>/<device>/<source>/counts/<label> number of active tracks, a bare integer       retained, QoS 1
//! <prefix>/<device>/<source>/groups/<group> the same for a group of labels                retained, QoS 1
//! <prefix>/<device>/<source>/detect       whether detection is on, `ON` or `OFF`          retained, QoS 1
//! <prefix>/<device>/<source>/rules/<rule> the same for a rule                             retained, QoS 1
//! …/detect/active, …/rules/<rule>/active  JSON, kind `active`, where there is a schedule   retained, QoS 1
//! <prefix>/<device>/<source>/score_threshold a bare number                                retained, QoS 1
//! <prefix>/<device>/<source>/motion       whether the camera reports motion, `ON` or `OFF` retained, QoS 1
//! <prefix>/<device>/<source>/media        JSON, kind `media`                              QoS 1
//! <prefix>/<device>/<source>/snapshots/<label> JPEG, the newest picture of a label        retained, QoS 1
//! <prefix>/<device>/<source>/tracks/<track>/snapshot JPEG, the newest picture of a track  QoS 0
//! …/detect/set, …/rules/<rule>/set, …/score_threshold/set (subscribed, where the configuration allows commands)
//! ```
//!
//! In a topic, a label's blanks and the characters that MQTT reserves (`/`, `+`, `#`) become `_`. A label that would share
//! its topic with an earlier one gets a `_` appended. Messages always have the label as the model has it.

mod parse;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) use self::parse::{Purpose, RetainedTopic};
pub use self::parse::{SetTopic, Setting};
use super::Publication;
use jetwatch_types::Classes;

/// Delivery guarantee of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The newest value of the topic, kept by the broker and acknowledged (retained, QoS 1).
    State,
    /// Each one, acknowledged (QoS 1).
    AtLeastOnce,
    /// While connected only, unacknowledged (QoS 0).
    AtMostOnce,
}

/// Topic of one kind of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MessageTopic {
    /// `kind` of the messages.
    pub kind: &'static str,
    /// Levels below `<prefix>/<device>`; `<source>` stands for the name of the source, and the other `<…>` for that of a
    /// zone, a line, a label, a group or a rule.
    pub levels: &'static str,
    /// Delivery guarantee.
    pub delivery: Delivery,
}

const EVENT: MessageTopic = MessageTopic::new("event", "<source>/events", Delivery::AtLeastOnce);
const DETECTIONS: MessageTopic =
    MessageTopic::new("detections", "<source>/detections", Delivery::AtMostOnce);
pub(crate) const COUNT: MessageTopic =
    MessageTopic::new("count", "<source>/counts/<label>", Delivery::State);
pub(crate) const GROUP_COUNT: MessageTopic =
    MessageTopic::new("group_count", "<source>/groups/<group>", Delivery::State);
const ANALYTICS: MessageTopic =
    MessageTopic::new("analytics", "<source>/analytics", Delivery::AtLeastOnce);
const ZONE: MessageTopic = MessageTopic::new("zone", "<source>/zones/<zone>", Delivery::State);
const LINE: MessageTopic = MessageTopic::new("line", "<source>/lines/<line>", Delivery::State);
const SOURCE: MessageTopic = MessageTopic::new("source", "<source>/status", Delivery::State);
const DETECTOR: MessageTopic = MessageTopic::new("detector", "detector", Delivery::State);
const THROTTLING: MessageTopic = MessageTopic::new("throttling", "throttling", Delivery::State);
const RELOAD: MessageTopic = MessageTopic::new("reload", "reload", Delivery::State);
const UPDATE: MessageTopic = MessageTopic::new("update", "update", Delivery::State);
const REPLY: MessageTopic = MessageTopic::new("reply", "command/reply", Delivery::AtLeastOnce);
const STATS: MessageTopic = MessageTopic::new("stats", "stats", Delivery::AtMostOnce);
const GAP: MessageTopic = MessageTopic::new("gap", "gap", Delivery::AtLeastOnce);

const MEDIA: MessageTopic = MessageTopic::new("media", "<source>/media", Delivery::AtLeastOnce);

/// Pictures, which are no JSON.
pub(crate) const SNAPSHOT: MessageTopic =
    MessageTopic::new("", "<source>/snapshots/<label>", Delivery::State);
const TRACK_SNAPSHOT: MessageTopic =
    MessageTopic::new("", "<source>/tracks/<track>/snapshot", Delivery::AtMostOnce);

const DETECT: MessageTopic = MessageTopic::new("switch", "<source>/detect", Delivery::State);
const RULE: MessageTopic = MessageTopic::new("switch", "<source>/rules/<rule>", Delivery::State);
const DETECT_ACTIVE: MessageTopic =
    MessageTopic::new("active", "<source>/detect/active", Delivery::State);
const RULE_ACTIVE: MessageTopic =
    MessageTopic::new("active", "<source>/rules/<rule>/active", Delivery::State);
const SCORE_THRESHOLD: MessageTopic = MessageTopic::new(
    "score_threshold",
    "<source>/score_threshold",
    Delivery::State,
);
const MOTION: MessageTopic = MessageTopic::new("motion", "<source>/motion", Delivery::State);

/// The topics of all kinds of messages.
pub(crate) const MESSAGE_TOPICS: [MessageTopic; 22] = [
    EVENT,
    DETECTIONS,
    COUNT,
    GROUP_COUNT,
    DETECT,
    RULE,
    DETECT_ACTIVE,
    RULE_ACTIVE,
    SCORE_THRESHOLD,
    MOTION,
    ANALYTICS,
    ZONE,
    LINE,
    SOURCE,
    DETECTOR,
    THROTTLING,
    RELOAD,
    UPDATE,
    REPLY,
    STATS,
    GAP,
    MEDIA,
];

impl MessageTopic {
    const fn new(kind: &'static str, levels: &'static str, delivery: Delivery) -> Self {
        Self {
            kind,
            levels,
            delivery,
        }
    }

    /// The topic below `base`; `source` and `name` are topic levels.
    fn path(&self, base: &str, source: &str, name: &str) -> String {
        let mut path = base.to_owned();
        for part in self.levels.split('/') {
            path.push('/');
            path.push_str(match part {
                "<source>" => source,
                part if part.starts_with('<') => name,
                part => part,
            });
        }
        path
    }
}

impl Publication<'_> {
    /// Levels of its topic, with what stands for the name of the source and for another name; empty where there is none.
    #[must_use]
    pub fn place(&self) -> (&'static str, &str, &str) {
        let (spec, source, name) = self.topic();
        (spec.levels, source, name)
    }

    fn topic(&self) -> (MessageTopic, &str, &str) {
        match self {
            Self::Events { source, .. } => (EVENT, *source, ""),
            Self::Frame { source, .. } => (DETECTIONS, *source, ""),
            Self::Source(status) => (SOURCE, status.source.0, ""),
            Self::Count(count) => (COUNT, count.source.0, count.label.0),
            Self::GroupCount(count) => (GROUP_COUNT, count.source.0, count.group.0),
            Self::Switch(switch) => match switch.rule {
                Some(rule) => (RULE, switch.source.0, rule),
                None => (DETECT, switch.source.0, ""),
            },
            Self::Active {
                source, activity, ..
            } => match activity.rule {
                Some(rule) => (RULE_ACTIVE, *source, rule),
                None => (DETECT_ACTIVE, *source, ""),
            },
            Self::ScoreThreshold(score) => (SCORE_THRESHOLD, score.source.0, ""),
            Self::Motion(motion) => (MOTION, motion.source.0, ""),
            Self::Analytics { source, .. } => (ANALYTICS, *source, ""),
            Self::Zone { source, zone, .. } => (ZONE, *source, zone.name.as_str()),
            Self::Line { source, line, .. } => (LINE, *source, line.name.as_str()),
            Self::Detector { .. } => (DETECTOR, "", ""),
            Self::Throttling { .. } => (THROTTLING, "", ""),
            Self::Reload(_) => (RELOAD, "", ""),
            Self::Update(_) => (UPDATE, "", ""),
            Self::Reply { .. } => (REPLY, "", ""),
            Self::Stats(_) => (STATS, "", ""),
            Self::Gap { .. } => (GAP, "", ""),
            Self::Media { item, .. } => (MEDIA, item.source.as_str(), ""),
            Self::Snapshot { source, label, .. } => (SNAPSHOT, *source, *label),
        }
    }
}

/// The topics of one device. Each is built once and shared afterwards.
#[derive(Debug)]
pub struct Topics {
    base: String,
    status: Arc<str>,
    command: Arc<str>,
    reply: Arc<str>,
    gap: Arc<str>,
    /// Last topic level of each known label.
    levels: HashMap<String, String>,
    /// Names of the groups, which are topic levels.
    groups: Vec<String>,
    /// Those of each source, by what `<…>` stands for; those of the device are of the source with the empty name.
    known: HashMap<String, HashMap<MessageTopic, HashMap<String, Arc<str>>>>,
}

impl Topics {
    /// Topics below `<prefix>/<device>` for a model with these classes. `prefix` may have several levels; it was checked with the configuration.
    #[must_use]
    pub fn new(prefix: &str, device: &str, classes: &Classes) -> Self {
        let base = format!("{prefix}/{}", level(device));
        let mut reserved: HashSet<String> = HashSet::new();
        let mut levels = HashMap::new();
        for label in classes.labels() {
            if levels.contains_key(label) {
                continue;
            }
            let mut name = level(label);
            while !reserved.insert(name.clone()) {
                name.push('_');
            }
            levels.insert(label.clone(), name);
        }
        Self {
            status: format!("{base}/status").into(),
            command: format!("{base}/command").into(),
            reply: REPLY.path(&base, "", "").into(),
            gap: GAP.path(&base, "", "").into(),
            base,
            levels,
            groups: classes.groups().to_vec(),
            known: HashMap::new(),
        }
    }

    /// The availability topic of the device: `online` or `offline`, retained.
    #[must_use]
    pub fn status(&self) -> &Arc<str> {
        &self.status
    }

    /// Topic of gaps.
    pub(super) fn gap(&self) -> &Arc<str> {
        &self.gap
    }

    /// Topic of commands.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Topic of the replies to commands.
    pub(super) fn reply(&self) -> &str {
        &self.reply
    }

    /// Topic and delivery guarantee of `record`.
    pub fn resolve(&mut self, record: &Publication<'_>) -> (Arc<str>, Delivery) {
        // Tracks are many: not kept.
        if let Publication::Snapshot {
            source,
            track: Some(track),
            ..
        } = record
        {
            let topic = self.path(TRACK_SNAPSHOT, source, &track.to_string());
            return (topic.into(), TRACK_SNAPSHOT.delivery);
        }
        let (spec, source, name) = record.topic();
        (self.topic(spec, source, name), spec.delivery)
    }

    /// Removes a source; returns the topics of its counts, groups, pictures, zones, lines and switches, whose values are stale.
    pub fn remove_source(&mut self, source: &str) -> impl Iterator<Item = Arc<str>> {
        let known = self.known.remove(source).into_iter().flatten();
        known
            .filter(|(spec, _)| spec.delivery == Delivery::State && *spec != SOURCE)
            .flat_map(|(_, topics)| topics.into_values())
    }

    fn topic(&mut self, spec: MessageTopic, source: &str, name: &str) -> Arc<str> {
        // Looked up twice, since the entry interface would need owned keys on every call.
        let of_source = self.known.get(source);
        if let Some(topic) = of_source.and_then(|source| source.get(&spec)?.get(name)) {
            return Arc::clone(topic);
        }
        let topic: Arc<str> = self.path(spec, source, name).into();
        let of_source = self.known.entry(source.to_owned()).or_default();
        let of_kind = of_source.entry(spec).or_default();
        of_kind.insert(name.to_owned(), Arc::clone(&topic));
        topic
    }

    /// The topic of a source, or of its `name`, as text.
    pub(crate) fn path(&self, spec: MessageTopic, source: &str, name: &str) -> String {
        let of_label = self.levels.get(name);
        let of_label = of_label.filter(|_| spec.levels.ends_with("<label>"));
        let name = of_label.cloned().unwrap_or_else(|| level(name));
        spec.path(&self.base, &level(source), &name)
    }

    /// The topic `levels` of the device.
    pub(crate) fn of_device(&self, levels: &str) -> String {
        format!("{}/{levels}", self.base)
    }

    /// The topic `levels` of a source.
    pub(crate) fn of_source(&self, source: &str, levels: &str) -> String {
        format!("{}/{}/{levels}", self.base, level(source))
    }
}

/// `text` as one level of a topic.
fn level(text: &str) -> String {
    if text.is_empty() {
        return "_".to_owned();
    }
    let allowed = |c: char| !(c.is_whitespace() || c.is_control() || matches!(c, '/' | '+' | '#'));
    text.chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests;
