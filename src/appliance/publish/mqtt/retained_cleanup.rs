// SPDX-License-Identifier: Apache-2.0
//! Decides what to do with values retained from an earlier run that ended without clearing them. Pure.
//!
//! A value that this run publishes anyway needs nothing. The rest belongs to removed sources and rules, or is a count of a
//! label or a group without detections. Values that are not certainly this program's are not changed: other programs may use the same
//! prefix. The same holds for values of a source that another client publishes for, such as a second daemon with the same
//! device name.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::retained::{RetainedMessage, RetainedSnapshot};
use crate::topics::{Purpose, RetainedTopic, Topics};

/// One clean-up action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cleanup {
    /// Clear the value: its owner is gone.
    Clear { topic: String },
    /// Publish 0: a source of this run has no detection of this label.
    ZeroCount { source: String, label: String },
    /// Publish 0: a source of this run has no detection of this group.
    ZeroGroupCount { source: String, group: String },
    /// Publish the state `ended`: the source is gone, and its end was never published.
    MarkEnded { source: String },
}

/// The actions for the values `found`, with the sources `present`; `is_published` tests whether a topic has a value from this run.
pub(super) fn plan_cleanup(
    found: &RetainedSnapshot,
    topics: &Topics,
    present: &HashSet<String>,
    is_published: impl Fn(&str) -> bool,
) -> Vec<Cleanup> {
    let live: HashSet<&str> = found
        .published_meanwhile
        .iter()
        .filter_map(|topic| topics.source_of(topic))
        .collect();
    let placed = found.messages.iter().filter_map(|kept| {
        let place = topics.retained_topic(&kept.topic)?;
        let is_others = live.contains(place.source) && !present.contains(place.source);
        // An empty value is no retained value.
        let is_idle = kept.value.is_empty() || is_published(&kept.topic);
        (!is_others && !is_idle).then_some((kept, place))
    });
    let placed: Vec<(&RetainedMessage, RetainedTopic<'_>)> = placed.collect();
    // Sources of an earlier run, by their status. `true`: their end was published.
    let mut gone: HashMap<&str, bool> = HashMap::new();
    for (kept, place) in &placed {
        let source = place.source;
        if place.purpose == Purpose::Status
            && !present.contains(source)
            && let Some(body) = parse_own(kept, "source", source)
        {
            gone.insert(source, body["state"] == "ended");
        }
    }
    let remedy = |(kept, place): &(&RetainedMessage, RetainedTopic<'_>)| {
        let withdraw = || Cleanup::Clear {
            topic: kept.topic.clone(),
        };
        let source = place.source;
        match place.purpose {
            Purpose::Status => (gone.get(source) == Some(&false)).then(|| Cleanup::MarkEnded {
                source: source.to_owned(),
            }),
            Purpose::Rule(kind) => parse_own(kept, kind, source).map(|_| withdraw()),
            // A source of this run has published its own: the rule is gone.
            Purpose::Switch => {
                let is_ours = present.contains(source) || gone.contains_key(source);
                let is_switch = kept.value == b"ON" || kept.value == b"OFF";
                (is_ours && is_switch).then(withdraw)
            }
            // A picture of a source of this run stays until there is a newer one.
            Purpose::Snapshot => {
                let is_jpeg = kept.value.starts_with(&[0xff, 0xd8]);
                (gone.contains_key(source) && is_jpeg).then(withdraw)
            }
            Purpose::ScoreThreshold => {
                (gone.contains_key(source) && is_number(&kept.value)).then(withdraw)
            }
            Purpose::Count(label) => {
                let is_count = is_count(&kept.value);
                match (present.contains(source), gone.contains_key(source)) {
                    (true, _) => (is_count && kept.value != b"0").then(|| Cleanup::ZeroCount {
                        source: source.to_owned(),
                        label: label.to_owned(),
                    }),
                    (false, true) => is_count.then(withdraw),
                    (false, false) => None,
                }
            }
            Purpose::GroupCount(group) => {
                let is_count = is_count(&kept.value);
                match (present.contains(source), group) {
                    (true, Some(group)) => {
                        (is_count && kept.value != b"0").then(|| Cleanup::ZeroGroupCount {
                            source: source.to_owned(),
                            group: group.to_owned(),
                        })
                    }
                    // The group is no longer configured.
                    (true, None) => is_count.then(withdraw),
                    (false, _) => (is_count && gone.contains_key(source)).then(withdraw),
                }
            }
        }
    };
    placed.iter().filter_map(remedy).collect()
}

/// A message of this kind about this source, as this program writes it.
fn parse_own(kept: &RetainedMessage, kind: &str, source: &str) -> Option<Value> {
    let body: Value = serde_json::from_slice(&kept.value).ok()?;
    (body["kind"] == kind && body["source"] == source).then_some(body)
}

/// A number as a score threshold is written.
fn is_number(value: &[u8]) -> bool {
    value.len() <= 6
        && value
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

fn is_count(value: &[u8]) -> bool {
    value.len() <= 10 && value.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::{Classes, LabelGroup};

    #[test]
    fn orphaned_topics_are_cleared_and_topics_of_others_are_kept() {
        let labels = ["person", "traffic light"].map(str::to_owned);
        let group = LabelGroup {
            name: "signal".to_owned(),
            labels: labels[1..].to_vec(),
        };
        let classes = Classes::new(&labels, &[group]);
        let topics = Topics::new("site/jetwatch", "box", &classes);
        let status = |source: &str, state: &str| {
            format!(r#"{{"kind": "source", "source": "{source}", "state": "{state}"}}"#)
        };
        let rule = |kind: &str, source: &str| {
            format!(r#"{{"kind": "{kind}", "source": "{source}", "name": "x"}}"#)
        };
        let kept = [
            ("here/status", status("here", "online")),
            ("here/counts/person", "2".to_owned()),
            ("here/counts/traffic_light", "3".to_owned()),
            ("here/groups/signal", "3".to_owned()),
            ("here/groups/before", "1".to_owned()),
            ("here/groups/theirs", "on".to_owned()),
            ("here/zones/now", rule("zone", "here")),
            ("here/zones/before", rule("zone", "here")),
            ("here/temperature", "21".to_owned()),
            ("here/lines/theirs", "x".to_owned()),
            ("here/detect", "OFF".to_owned()),
            ("here/rules/before", "ON".to_owned()),
            ("here/rules/theirs", "on".to_owned()),
            ("gone/detect", "ON".to_owned()),
            ("gone/rules/before", "OFF".to_owned()),
            ("gone/score_threshold", "0.50".to_owned()),
            ("theirs/detect", "ON".to_owned()),
            ("gone/status", status("gone", "online")),
            ("gone/counts/person", "1".to_owned()),
            ("gone/lines/before", rule("line", "gone")),
            ("gone/groups/signal", "1".to_owned()),
            ("left/status", status("left", "ended")),
            ("left/counts/person", "1".to_owned()),
            ("left/counts/person/more", "1".to_owned()),
            ("theirs/status", "online".to_owned()),
            ("theirs/counts/person", "1".to_owned()),
            ("theirs/groups/signal", "1".to_owned()),
            ("theirs/zones/x", rule("line", "theirs")),
            ("second/status", status("second", "online")),
            ("second/counts/person", "1".to_owned()),
            ("status", "online".to_owned()),
            ("reload", "{}".to_owned()),
            ("command/reply", "{}".to_owned()),
        ];
        let below = |rest: &str| format!("site/jetwatch/box/{rest}");
        let kept = kept.map(|(rest, value)| RetainedMessage {
            topic: below(rest),
            value: value.into_bytes(),
        });
        let live = HashSet::from([below("second/events"), below("here/events")]);
        let found = RetainedSnapshot {
            messages: kept.to_vec(),
            published_meanwhile: live,
        };
        let published = [
            "here/status",
            "here/zones/now",
            "here/counts/person",
            "here/detect",
        ]
        .map(below);
        let present = HashSet::from(["here".to_owned()]);
        let remedied = plan_cleanup(&found, &topics, &present, |topic| {
            published.iter().any(|known| known == topic)
        });
        let withdraw = |rest: &str| Cleanup::Clear { topic: below(rest) };
        let wanted = [
            Cleanup::ZeroCount {
                source: "here".to_owned(),
                label: "traffic light".to_owned(),
            },
            Cleanup::ZeroGroupCount {
                source: "here".to_owned(),
                group: "signal".to_owned(),
            },
            withdraw("here/groups/before"),
            withdraw("here/zones/before"),
            withdraw("here/rules/before"),
            withdraw("gone/detect"),
            withdraw("gone/rules/before"),
            withdraw("gone/score_threshold"),
            Cleanup::MarkEnded {
                source: "gone".to_owned(),
            },
            withdraw("gone/counts/person"),
            withdraw("gone/lines/before"),
            withdraw("gone/groups/signal"),
            withdraw("left/counts/person"),
        ];
        assert_eq!(remedied, wanted);
        let other = Topics::new("site/jetwatch", "bo", &classes);
        assert!(plan_cleanup(&found, &other, &present, |_| false).is_empty());
    }
}
