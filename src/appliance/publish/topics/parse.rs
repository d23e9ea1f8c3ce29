// SPDX-License-Identifier: Apache-2.0
//! What a topic stands for: values of sources that the broker retains, and those at which clients set something.

use super::Topics;

/// A source's topic with a retained value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetainedTopic<'t> {
    /// The name of the source.
    pub source: &'t str,
    /// What is retained there.
    pub purpose: Purpose<'t>,
}

/// Purpose of a source's topic with a retained value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose<'t> {
    /// The source's state.
    Status,
    /// A zone, a line, or what is active, by the kind of its messages.
    Rule(&'static str),
    /// A switch, of detection or of a rule, or motion.
    Switch,
    /// A score threshold.
    ScoreThreshold,
    /// A picture.
    Snapshot,
    /// A count of a label, as the model has it.
    Count(&'t str),
    /// A count of a group; `None`: the configuration has no such group.
    GroupCount(Option<&'t str>),
}

/// Last level of a topic at which a value is set.
const SET: &str = "set";

/// What is set by a message on a topic that ends in `set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetTopic {
    /// The name of the source.
    pub source: String,
    /// What of it.
    pub setting: Setting,
}

/// What of a source is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// Whether it detects.
    Detection,
    /// Whether the rule of this name is on.
    Rule(String),
    /// Its score threshold.
    ScoreThreshold,
}

impl Topics {
    /// Filters for all topics of sources with retained values; other topics match them, too.
    #[must_use]
    pub(crate) fn retained_filters(&self) -> [String; 9] {
        [
            "+/+",
            "+/counts/+",
            "+/groups/+",
            "+/zones/+",
            "+/lines/+",
            "+/rules/+",
            "+/snapshots/+",
            "+/detect/active",
            "+/rules/+/active",
        ]
        .map(|levels| format!("{}/{levels}", self.base))
    }

    /// The source of a topic, whatever its purpose; `None` where it is not below this device.
    #[must_use]
    pub(crate) fn source_of<'t>(&self, topic: &'t str) -> Option<&'t str> {
        Some(self.below(topic)?.split_once('/')?.0)
    }

    /// The levels of a topic below the device.
    fn below<'t>(&self, topic: &'t str) -> Option<&'t str> {
        topic.strip_prefix(&self.base)?.strip_prefix('/')
    }

    /// Purpose of a topic; `None` where this device has no retained value of a source there.
    #[must_use]
    pub(crate) fn retained_topic<'t>(&'t self, topic: &'t str) -> Option<RetainedTopic<'t>> {
        let levels: Vec<&str> = self.below(topic)?.split('/').collect();
        let (source, purpose) = match *levels.as_slice() {
            [source, "status"] => (source, Purpose::Status),
            [source, "detect" | "motion"] | [source, "rules", _] => (source, Purpose::Switch),
            [source, "detect", "active"] | [source, "rules", _, "active"] => {
                (source, Purpose::Rule("active"))
            }
            [source, "score_threshold"] => (source, Purpose::ScoreThreshold),
            [source, "zones", _] => (source, Purpose::Rule("zone")),
            [source, "lines", _] => (source, Purpose::Rule("line")),
            [source, "snapshots", _] => (source, Purpose::Snapshot),
            [source, "counts", last] => {
                let (label, _) = self.levels.iter().find(|(_, level)| *level == last)?;
                (source, Purpose::Count(label))
            }
            [source, "groups", last] => {
                let group = self.groups.iter().find(|group| *group == last);
                (source, Purpose::GroupCount(group.map(String::as_str)))
            }
            _ => return None,
        };
        Some(RetainedTopic { source, purpose })
    }

    /// Filters for the topics at which values are set; only those of [`set_topic`](Self::set_topic) match them.
    #[must_use]
    pub(crate) fn set_filters(&self) -> [String; 3] {
        ["+/detect/set", "+/rules/+/set", "+/score_threshold/set"]
            .map(|levels| format!("{}/{levels}", self.base))
    }

    /// What a message on `topic` sets; `None` for other topics.
    #[must_use]
    pub(crate) fn set_topic(&self, topic: &str) -> Option<SetTopic> {
        let levels: Vec<&str> = self.below(topic)?.split('/').collect();
        let (source, setting) = match *levels.as_slice() {
            [source, "detect", SET] => (source, Setting::Detection),
            [source, "rules", rule, SET] => (source, Setting::Rule(rule.to_owned())),
            [source, "score_threshold", SET] => (source, Setting::ScoreThreshold),
            _ => return None,
        };
        let source = source.to_owned();
        Some(SetTopic { source, setting })
    }
}
