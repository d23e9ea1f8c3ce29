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
//! <prefix>/<device>/<source>/media        JSON, kind `media`                              QoS 1
//! <prefix>/<device>/<source>/snapshots/<label> JPEG, the newest picture of a label        retained, QoS 1
//! <prefix>/<device>/<source>/tracks/<track>/snapshot JPEG, the newest picture of a track  QoS 0
//! …/detect/set, …/rules/<rule>/set, …/score_threshold/set (subscribed, where the configuration allows commands)
//! ```
//!
//! In a topic, a label's blanks and the characters that MQTT reserves (`/`, `+`, `#`) become `_`. A label that would share
//! its topic with an earlier one gets a `_` appended. Messages always have the label as the model has it.

mod paths;
mod retained;
mod set;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) use self::retained::RetainedTopic;
pub use self::set::{SetTopic, Setting};
use super::Publication;
use jetwatch_types::Classes;

/// Delivery guarantee of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The newest value of the topic, kept by the broker and acknowledged (retained, QoS 1).
    State,
    /// Each one, acknowledged (QoS 1).
    AtLeastOnce,
    /// While connected only, unacknowledged (QoS 0).
    AtMostOnce,
}

/// Topic of one kind of messages.
#[derive(Debug, Clone, Copy)]
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
const COUNT: MessageTopic = MessageTopic::new("count", "<source>/counts/<label>", Delivery::State);
const GROUP_COUNT: MessageTopic =
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
const SNAPSHOT: MessageTopic = MessageTopic::new("", "<source>/snapshots/<label>", Delivery::State);
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

/// The topics of all kinds of messages.
pub(crate) const MESSAGE_TOPICS: [MessageTopic; 21] = [
    EVENT,
    DETECTIONS,
    COUNT,
    GROUP_COUNT,
    DETECT,
    RULE,
    DETECT_ACTIVE,
    RULE_ACTIVE,
    SCORE_THRESHOLD,
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

    /// The topic of a message that is not about a source.
    fn of_device(&self, base: &str) -> Arc<str> {
        self.path(base, "", "")
    }

    /// The topic below `base`; `source` and `name` are topic levels.
    fn path(&self, base: &str, source: &str, name: &str) -> Arc<str> {
        let mut path = base.to_owned();
        for part in self.levels.split('/') {
            path.push('/');
            path.push_str(match part {
                "<source>" => source,
                part if part.starts_with('<') => name,
                part => part,
            });
        }
        path.into()
    }
}

/// The topics of one device. Each is built once and shared afterwards.
#[derive(Debug)]
pub struct Topics {
    base: String,
    status: Arc<str>,
    detector: Arc<str>,
    throttling: Arc<str>,
    reload: Arc<str>,
    update: Arc<str>,
    command: Arc<str>,
    reply: Arc<str>,
    stats: Arc<str>,
    gap: Arc<str>,
    /// Last topic level of each known label.
    levels: HashMap<String, String>,
    /// Names of the groups, which are topic levels.
    groups: Vec<String>,
    sources: HashMap<String, SourceTopics>,
}

#[derive(Debug)]
struct SourceTopics {
    status: Arc<str>,
    events: Arc<str>,
    detections: Arc<str>,
    analytics: Arc<str>,
    /// By the name of the rule, which is unique among a source's.
    rules: HashMap<String, Arc<str>>,
    media: Arc<str>,
    /// By label.
    snapshots: HashMap<String, Arc<str>>,
    counts: HashMap<String, Arc<str>>,
    groups: HashMap<String, Arc<str>>,
    detect: Arc<str>,
    score_threshold: Arc<str>,
    /// By the name of the rule; `None`: detection.
    active: HashMap<Option<String>, Arc<str>>,
    /// By the name of the rule.
    switches: HashMap<String, Arc<str>>,
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
            detector: DETECTOR.of_device(&base),
            throttling: THROTTLING.of_device(&base),
            reload: RELOAD.of_device(&base),
            update: UPDATE.of_device(&base),
            command: format!("{base}/command").into(),
            reply: REPLY.of_device(&base),
            stats: STATS.of_device(&base),
            gap: GAP.of_device(&base),
            base,
            levels,
            groups: classes.groups().to_vec(),
            sources: HashMap::new(),
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
        let (topic, spec) = match record {
            Publication::Events { source, .. } => (Arc::clone(&self.source(source).events), EVENT),
            Publication::Frame { source, .. } => {
                (Arc::clone(&self.source(source).detections), DETECTIONS)
            }
            Publication::Source { source, .. } => (Arc::clone(&self.source(source).status), SOURCE),
            Publication::Count { source, label, .. } => (self.count(source, label), COUNT),
            Publication::GroupCount { source, group, .. } => {
                (self.group_count(source, group), GROUP_COUNT)
            }
            Publication::Switch { source, rule, .. } => match rule {
                Some(rule) => (self.switch(source, rule), RULE),
                None => (Arc::clone(&self.source(source).detect), DETECT),
            },
            Publication::Active {
                source, activity, ..
            } => (self.active(source, activity.rule), RULE_ACTIVE),
            Publication::ScoreThreshold { source, .. } => (
                Arc::clone(&self.source(source).score_threshold),
                SCORE_THRESHOLD,
            ),
            Publication::Analytics { source, .. } => {
                (Arc::clone(&self.source(source).analytics), ANALYTICS)
            }
            Publication::Zone { source, zone, .. } => (self.rule(source, ZONE, &zone.name), ZONE),
            Publication::Line { source, line, .. } => (self.rule(source, LINE, &line.name), LINE),
            Publication::Detector { .. } => (Arc::clone(&self.detector), DETECTOR),
            Publication::Throttling { .. } => (Arc::clone(&self.throttling), THROTTLING),
            Publication::Reload { .. } => (Arc::clone(&self.reload), RELOAD),
            Publication::Update(_) => (Arc::clone(&self.update), UPDATE),
            Publication::Reply { .. } => (Arc::clone(&self.reply), REPLY),
            Publication::Stats(_) => (Arc::clone(&self.stats), STATS),
            Publication::Gap { .. } => (Arc::clone(&self.gap), GAP),
            Publication::Media { item, .. } => {
                (Arc::clone(&self.source(&item.source).media), MEDIA)
            }
            Publication::Snapshot {
                source,
                label,
                track,
                ..
            } => match track {
                Some(track) => {
                    let track = track.to_string();
                    let topic = TRACK_SNAPSHOT.path(&self.base, &level(source), &track);
                    (topic, TRACK_SNAPSHOT)
                }
                None => (self.snapshot(source, label), SNAPSHOT),
            },
        };
        (topic, spec.delivery)
    }

    /// Removes a source; returns the topics of its counts, groups, pictures, zones, lines and switches, whose values are stale.
    pub fn remove_source(&mut self, source: &str) -> impl Iterator<Item = Arc<str>> {
        let topics = self.sources.remove(source);
        let values = |topics: SourceTopics| {
            topics
                .rules
                .into_values()
                .chain(topics.counts.into_values())
                .chain(topics.groups.into_values())
                .chain(topics.snapshots.into_values())
                .chain(topics.switches.into_values())
                .chain(topics.active.into_values())
                .chain([topics.detect, topics.score_threshold])
        };
        topics.into_iter().flat_map(values)
    }

    fn source(&mut self, name: &str) -> &mut SourceTopics {
        // Looked up twice, since the entry interface would need an owned key on every call.
        if !self.sources.contains_key(name) {
            let source = level(name);
            let topics = SourceTopics {
                status: SOURCE.path(&self.base, &source, ""),
                events: EVENT.path(&self.base, &source, ""),
                detections: DETECTIONS.path(&self.base, &source, ""),
                analytics: ANALYTICS.path(&self.base, &source, ""),
                rules: HashMap::new(),
                media: MEDIA.path(&self.base, &source, ""),
                snapshots: HashMap::new(),
                counts: HashMap::new(),
                groups: HashMap::new(),
                detect: DETECT.path(&self.base, &source, ""),
                score_threshold: SCORE_THRESHOLD.path(&self.base, &source, ""),
                switches: HashMap::new(),
                active: HashMap::new(),
            };
            self.sources.insert(name.to_owned(), topics);
        }
        self.sources
            .get_mut(name)
            .expect("inserted above when it was missing")
    }

    /// The topic of a zone or a line.
    fn rule(&mut self, source: &str, spec: MessageTopic, name: &str) -> Arc<str> {
        if let Some(topic) = self.source(source).rules.get(name) {
            return Arc::clone(topic);
        }
        let topic = spec.path(&self.base, &level(source), &level(name));
        let known = &mut self.source(source).rules;
        known.insert(name.to_owned(), Arc::clone(&topic));
        topic
    }

    /// The topic of the switch of a rule.
    fn switch(&mut self, source: &str, rule: &str) -> Arc<str> {
        if let Some(topic) = self.source(source).switches.get(rule) {
            return Arc::clone(topic);
        }
        let topic = RULE.path(&self.base, &level(source), &level(rule));
        let known = &mut self.source(source).switches;
        known.insert(rule.to_owned(), Arc::clone(&topic));
        topic
    }

    fn active(&mut self, source: &str, rule: Option<&str>) -> Arc<str> {
        let (base, level_of) = (self.base.clone(), level(source));
        let known = &mut self.source(source).active;
        let topic = known.entry(rule.map(str::to_owned)).or_insert_with(|| {
            let (spec, rule) = rule.map_or((DETECT_ACTIVE, ""), |rule| (RULE_ACTIVE, rule));
            spec.path(&base, &level_of, &level(rule))
        });
        Arc::clone(topic)
    }

    fn count(&mut self, source: &str, label: &str) -> Arc<str> {
        if let Some(topic) = self
            .sources
            .get(source)
            .and_then(|topics| topics.counts.get(label))
        {
            return Arc::clone(topic);
        }
        let last = self.levels.get(label).cloned();
        let last = last.unwrap_or_else(|| level(label));
        let topic = COUNT.path(&self.base, &level(source), &last);
        self.source(source)
            .counts
            .insert(label.to_owned(), Arc::clone(&topic));
        topic
    }

    fn group_count(&mut self, source: &str, group: &str) -> Arc<str> {
        if let Some(topic) = self.source(source).groups.get(group) {
            return Arc::clone(topic);
        }
        let topic = GROUP_COUNT.path(&self.base, &level(source), &level(group));
        let known = &mut self.source(source).groups;
        known.insert(group.to_owned(), Arc::clone(&topic));
        topic
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
