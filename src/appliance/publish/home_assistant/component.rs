// SPDX-License-Identifier: Apache-2.0
//! One component of a discovery message: an entity, or a trigger of the device. Keys are Home Assistant's abbreviations.

use serde_json::{Map, Value};

use super::ids;

/// What is left out first where a message would be too large: the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Of the device, a rule, or a switch.
    Essential,
    /// Of a label or a group.
    Label,
    /// Of a label or a group in a zone.
    ZoneLabel,
    /// A trigger of the device: the `event` entity has the same.
    Trigger,
}

/// Platform of triggers of a device.
pub(super) const TRIGGER: &str = "device_automation";

/// A component.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Component {
    /// Its key in the message, stable over restarts.
    pub id: String,
    /// Home Assistant's name of its kind.
    pub platform: &'static str,
    pub rank: Rank,
    body: Map<String, Value>,
}

impl Component {
    /// An entity. `parts` are those of its id.
    pub fn entity(platform: &'static str, rank: Rank, parts: &[&str], name: &str) -> Self {
        Self::new(platform, rank, parts).set("name", capitalized(name))
    }

    /// A trigger of the device: a message on `topic` for which `template` gives `payload`.
    pub fn trigger(parts: &[&str], kind: &str, subtype: &str) -> Self {
        Self::new(TRIGGER, Rank::Trigger, parts)
            .set("atype", "trigger")
            .set("type", kind)
            .set("stype", subtype)
    }

    fn new(platform: &'static str, rank: Rank, parts: &[&str]) -> Self {
        Self {
            id: ids::join(parts),
            platform,
            rank,
            body: Map::new(),
        }
    }

    /// Sets a key.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.body.insert(key.to_owned(), value.into());
        self
    }

    /// Its state is what `template` makes of the messages on `topic`.
    pub fn state(self, topic: &str, template: &str) -> Self {
        self.set("stat_t", topic).set("val_tpl", template)
    }

    /// Its attributes are what `template` makes of the messages on `topic`.
    pub fn attributes(self, topic: &str, template: &str) -> Self {
        self.set("json_attr_t", topic)
            .set("json_attr_tpl", template)
    }

    /// It is about the device's health, not about what the device is for.
    pub fn diagnostic(self) -> Self {
        self.set("ent_cat", "diagnostic")
    }

    /// Its JSON in the message of the device with this id.
    pub fn to_json(&self, device_id: &str) -> String {
        let mut body = self.body.clone();
        body.insert("p".to_owned(), self.platform.into());
        if self.platform != TRIGGER {
            let id = format!("{device_id}--{}", self.id);
            body.insert("uniq_id".to_owned(), id.into());
        }
        Value::Object(body).to_string()
    }
}

/// With a capital letter at the start, as Home Assistant shows names.
fn capitalized(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

/// `text` as a string of a template.
pub(super) fn literal(text: &str) -> String {
    // Templates have the escapes of JSON.
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_a_capital_letter() {
        for (name, wanted) in [
            ("traffic light", "Traffic light"),
            ("", ""),
            ("émeute", "Émeute"),
        ] {
            assert_eq!(capitalized(name), wanted);
        }
    }

    #[test]
    fn triggers_have_no_unique_id() {
        let trigger = Component::trigger(&["line", "a"], "line_crossed", "a");
        assert!(!trigger.to_json("d").contains("uniq_id"));
        let entity = Component::entity("sensor", Rank::Label, &["label", "a b"], "x");
        assert!(
            entity
                .to_json("d")
                .contains(r#""uniq_id":"d--label--a-20b""#)
        );
    }
}
