// SPDX-License-Identifier: Apache-2.0
//! What the messages of a camera say of motion. Pure: times are arguments.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use roxmltree::Node;

use crate::xml;

/// Motion of which a camera has reported an end before may last so long.
const MAX_MOTION: Duration = Duration::from_secs(600);

/// Motion whose end the camera does not report lasts so long after its last message.
const PULSE: Duration = Duration::from_secs(30);

/// What a message says of motion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Motion {
    /// Topic and source: each rule and each input of a camera has its own.
    key: String,
    /// Values of its source: video input, rule.
    source: Vec<String>,
    is_on: bool,
    /// Sent at the begin of a subscription, whatever happened.
    is_initial: bool,
}

impl Motion {
    /// Whether it is about this video input.
    #[must_use]
    pub fn is_of(&self, input: &str) -> bool {
        self.source.iter().any(|value| value == input)
    }
}

/// The messages about motion in an answer.
pub(crate) fn messages(answer: Node<'_, '_>) -> Vec<Motion> {
    xml::all(answer, "NotificationMessage")
        .filter_map(message)
        .collect()
}

fn message(notification: Node<'_, '_>) -> Option<Motion> {
    let topic = xml::text(notification, &["Topic"])?;
    if !is_about_motion(topic) {
        return None;
    }
    // The element of ONVIF is in one of the same name.
    let message = xml::all(notification, "Message").last()?;
    let operation = message.attribute("PropertyOperation").unwrap_or_default();
    let items = |of: &'static str| {
        let items = xml::first(message, &[of]).into_iter();
        items
            .flat_map(|of| xml::all(of, "SimpleItem"))
            .filter_map(|item| Some((item.attribute("Name")?, item.attribute("Value")?.trim())))
    };
    let source: Vec<String> = items("Source").map(|(_, value)| value.to_owned()).collect();
    let is_on = items("Data")
        .filter(|(name, _)| is_state(name))
        .find_map(|(_, value)| truth(value))?;
    Some(Motion {
        key: format!("{topic} {}", source.join(" ")),
        source,
        is_on: is_on && operation != "Deleted",
        is_initial: operation == "Initialized",
    })
}

/// Topics of ONVIF (`RuleEngine/CellMotionDetector/Motion`, `RuleEngine/MotionRegionDetector/Motion`, `VideoSource/MotionAlarm`) and of
/// makers for objects that move.
fn is_about_motion(topic: &str) -> bool {
    let topic = topic.to_ascii_lowercase();
    let is_object = topic.contains("/myruledetector/") && topic.ends_with("detect");
    let words = [
        "motion",
        "/peopledetector/",
        "/tpsmarteventdetector/",
        "/vmd",
    ];
    is_object || words.iter().any(|word| topic.contains(word))
}

/// Whether an item of the data is the state; others are numbers of objects and rules.
fn is_state(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("is") || ["state", "active", "motion"].contains(&name.as_str())
}

fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// Whether there is motion, by the messages so far.
#[derive(Debug, Default)]
pub struct MotionState {
    /// The last message of each motion.
    active: HashMap<String, Instant>,
    /// Those of which an end was reported.
    ended: HashSet<String>,
}

impl MotionState {
    /// Takes a message.
    pub fn take(&mut self, motion: Motion, now: Instant) {
        if motion.is_on {
            self.active.insert(motion.key, now);
        } else if self.active.remove(&motion.key).is_some() && !motion.is_initial {
            self.ended.insert(motion.key);
        }
    }

    /// Whether there is motion at `now`.
    pub fn is_on(&mut self, now: Instant) -> bool {
        let ended = &self.ended;
        self.active.retain(|key, since| {
            let longest = if ended.contains(key) {
                MAX_MOTION
            } else {
                PULSE
            };
            now.saturating_duration_since(*since) < longest
        });
        !self.active.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn motion(topic: &str, operation: &str, items: &str) -> Option<Motion> {
        let text = format!(
            "<a:NotificationMessage xmlns:a='b'><a:Topic> {topic}\n</a:Topic><a:Message><t:Message xmlns:t='s' \
             PropertyOperation='{operation}'><t:Source><t:SimpleItem Name='VideoSourceConfigurationToken' Value='v1'/></t:Source>\
             <t:Data>{items}</t:Data></t:Message></a:Message></a:NotificationMessage>"
        );
        let document = xml::parse(&text).expect("it is XML");
        messages(document.root()).pop()
    }

    #[test]
    fn messages_about_motion_are_those_of_the_topics_in_use() {
        #[rustfmt::skip]
        let cases = [
            ("tns1:RuleEngine/CellMotionDetector/Motion", "Changed", "IsMotion", "true", Some(true)),
            ("tns1:RuleEngine/CellMotionDetector/Motion", "Initialized", "IsMotion", "false", Some(false)),
            // home-assistant/core 37545: a recorder of Dahua.
            ("tns1:VideoSource/MotionAlarm", "Changed", "State", "1", Some(true)),
            ("tns1:VideoSource/MotionAlarm", "Deleted", "State", "true", Some(false)),
            ("tns1:RuleEngine/MotionRegionDetector/Motion", "Changed", "State", "true", Some(true)),
            // koush/scrypted 1376: Reolink. A visitor rings; that is not motion.
            ("tns1:RuleEngine/MyRuleDetector/PeopleDetect", "Changed", "State", "true", Some(true)),
            ("tns1:RuleEngine/MyRuleDetector/DogCatDetect", "Changed", "State", "false", Some(false)),
            ("tns1:RuleEngine/MyRuleDetector/Visitor", "Changed", "State", "true", None),
            // home-assistant/core 129350: TP-Link.
            ("tns1:RuleEngine/PeopleDetector/People", "Initialized", "IsPeople", "true", Some(true)),
            ("tns1:RuleEngine/TPSmartEventDetector/TPSmartEvent", "Changed", "IsTPSmartEvent", "true", Some(true)),
            // home-assistant/core 132521: Foscam.
            ("tns1:Device/Trigger/MotionDetector", "Changed", "State", "true", Some(true)),
            ("tns1:RuleEngine/TamperDetector/Tamper", "Changed", "IsTamper", "true", None),
            ("tns1:RuleEngine/CellMotionDetector/Motion", "Changed", "ObjectId", "1", None),
            ("tns1:RuleEngine/CellMotionDetector/Motion", "Changed", "IsMotion", "perhaps", None),
        ];
        for (topic, operation, name, value, is_on) in cases {
            let item = format!("<t:SimpleItem Name='{name}' Value='{value}'/>");
            let found = motion(topic, operation, &item);
            assert_eq!(found.as_ref().map(|found| found.is_on), is_on, "{topic}");
            assert!(found.is_none_or(|found| found.is_of("v1") && !found.is_of("v2")));
        }
    }

    /// home-assistant/core 90916: motion of a recorder that stayed.
    #[test]
    fn motion_without_an_end_is_limited() {
        let (start, mut state) = (Instant::now(), MotionState::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        let said = |topic: &str, is_on| {
            let item = format!("<t:SimpleItem Name='State' Value='{is_on}'/>");
            motion(topic, "Changed", &item).expect("about motion")
        };
        let (alarm, cells) = ("VideoSource/MotionAlarm", "CellMotionDetector/Motion");
        state.take(said(alarm, true), at(0));
        state.take(said(alarm, true), at(20));
        assert!(state.is_on(at(49)));
        assert!(!state.is_on(at(50)));
        // Two rules: the motion ends with both. One whose end was reported before may last.
        state.take(said(alarm, true), at(60));
        state.take(said(cells, true), at(60));
        state.take(said(cells, false), at(61));
        assert!(state.is_on(at(62)));
        state.take(said(cells, true), at(63));
        assert!(state.is_on(at(63 + 599)));
        assert!(!state.is_on(at(63 + 600)));
    }
}
