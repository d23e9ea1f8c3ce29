// SPDX-License-Identifier: Apache-2.0
//! Topics at which clients set something: switches and score thresholds. Pure; the listener of commands subscribes to them.

use super::Topics;

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
    /// Filters for the topics at which values are set; only those of [`set_topic`](Self::set_topic) match them.
    #[must_use]
    pub(crate) fn set_filters(&self) -> [String; 3] {
        ["+/detect/set", "+/rules/+/set", "+/score_threshold/set"]
            .map(|levels| format!("{}/{levels}", self.base))
    }

    /// What a message on `topic` sets; `None` for other topics.
    #[must_use]
    pub(crate) fn set_topic(&self, topic: &str) -> Option<SetTopic> {
        let below = topic.strip_prefix(&self.base)?.strip_prefix('/')?;
        let levels: Vec<&str> = below.split('/').collect();
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
