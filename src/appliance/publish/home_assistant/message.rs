// SPDX-License-Identifier: Apache-2.0
//! A message within the largest size that a broker takes, and what is read from a message of an earlier run.
//!
//! Home Assistant keeps an entity that is left out of a message. It removes one whose component has nothing but its platform; after
//! that, the component is left out.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::component::{Component, TRIGGER};
use super::site::{Draft, ORIGIN};

/// Platforms of components by their ids.
pub(super) type Platforms = BTreeMap<String, String>;

/// The components of a draft that fit into a message.
#[derive(Debug)]
pub(super) struct Fitted<'d> {
    draft: &'d Draft,
    /// JSON of the components with their ids, by rank.
    entries: Vec<(&'d Component, String)>,
    /// How many components do not fit.
    pub left_out: usize,
    max_bytes: usize,
}

impl<'d> Fitted<'d> {
    /// As many components of `draft` as a message of `max_bytes` has room for, in the order of their ranks.
    pub fn new(draft: &'d Draft, max_bytes: usize) -> Self {
        let mut components: Vec<&Component> = draft.components.iter().collect();
        // Stable: the order of the configuration within a rank.
        components.sort_by_key(|component| component.rank);
        let entry = |component: &'d Component| {
            let id = Value::from(component.id.as_str());
            (
                component,
                format!("{id}:{}", component.to_json(&draft.device_id)),
            )
        };
        let mut entries: Vec<(&Component, String)> = components.into_iter().map(entry).collect();
        let all = entries.len();
        let mut bytes = frame(&draft.root).len();
        let fits = |(_, entry): &&(&Component, String)| {
            // With the comma.
            bytes += entry.len() + 1;
            bytes <= max_bytes
        };
        let count = entries.iter().take_while(fits).count();
        entries.truncate(count);
        Self {
            draft,
            left_out: all - count,
            entries,
            max_bytes,
        }
    }

    /// The platforms of its components.
    pub fn platforms(&self) -> Platforms {
        let pair = |(component, _): &(&Component, String)| {
            (component.id.clone(), component.platform.to_owned())
        };
        self.entries.iter().map(pair).collect()
    }

    /// Number of entities, without triggers.
    pub fn entities(&self) -> usize {
        let is_entity = |(component, _): &&(&Component, String)| component.platform != TRIGGER;
        self.entries.iter().filter(is_entity).count()
    }

    /// The message. It removes those of `retiring`, and has fewer components where they need the room.
    pub fn payload(&self, retiring: &Platforms) -> Bytes {
        let frame = frame(&self.draft.root);
        let removed = retiring.iter().map(|(id, platform)| {
            format!(
                "{}:{}",
                Value::from(id.as_str()),
                serde_json::json!({ "p": platform })
            )
        });
        let entries = self.entries.iter().map(|(_, entry)| entry.clone());
        let mut text = frame.strip_suffix("}}").unwrap_or(&frame).to_owned();
        let mut is_first = true;
        for entry in removed.chain(entries) {
            if text.len() + entry.len() + 3 > self.max_bytes {
                break;
            }
            if !std::mem::take(&mut is_first) {
                text.push(',');
            }
            text.push_str(&entry);
        }
        text.push_str("}}");
        text.into()
    }
}

/// The message without components.
fn frame(root: &Value) -> String {
    let root = root.to_string();
    let open = root.strip_suffix('}').unwrap_or(&root);
    format!("{open},\"cmps\":{{}}}}")
}

/// The components that a message of an earlier run has, by id; those that it removes are none. `None` for a message of others.
pub(super) fn components_of(payload: &[u8]) -> Option<Platforms> {
    let message: Value = serde_json::from_slice(payload).ok()?;
    if message["o"]["name"] != ORIGIN {
        return None;
    }
    let components = message["cmps"].as_object()?;
    let platform = |(id, component): (&String, &Value)| {
        let component = component.as_object()?;
        let platform = component.get("p")?.as_str()?;
        (component.len() > 1).then(|| (id.clone(), platform.to_owned()))
    };
    Some(components.iter().filter_map(platform).collect())
}
