// SPDX-License-Identifier: Apache-2.0
//! `homeassistant`: entities in Home Assistant, by its MQTT discovery.

use super::section::Section;
use super::yaml::map::Map;
use super::yaml::node::Value;

/// Entities in Home Assistant.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default)]
pub struct HomeAssistantConfig {
    /// Announce the device by MQTT discovery. `false` withdraws what an earlier run announced below this prefix.
    #[key(default = false)]
    pub enabled: bool,
    /// Discovery prefix of Home Assistant.
    #[key(
        text = "a topic without `+`, `#`, `$` and spaces, such as homeassistant",
        check = is_prefix,
        default = "homeassistant"
    )]
    pub prefix: String,
}

fn is_prefix(text: &str) -> bool {
    let is_level = |level: &str| !level.is_empty() && !level.contains(['+', '#', '$', ' ']);
    text.chars().count() <= 128 && text.split('/').all(is_level)
}

/// Records entities that could not be announced.
pub(super) fn check(map: &Map<'_>) {
    let is_enabled = map
        .section("homeassistant")
        .and_then(|section| HomeAssistantConfig::from_map(&section))
        .is_some_and(|config| config.enabled);
    let is_off = map
        .section("publish")
        .and_then(|publish| Some(matches!(publish.get("mqtt")?.value(), Value::Text("off"))))
        .unwrap_or_default();
    if is_enabled && is_off {
        let what = "entities are announced over MQTT, and publish.mqtt is off";
        map.invalid("homeassistant", what, Some("name a broker in publish.mqtt"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_a_topic_without_wildcards() {
        for good in ["homeassistant", "site/ha", "a"] {
            assert!(is_prefix(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", "a/#", "a+", "$a", "a b"] {
            assert!(!is_prefix(bad), "{bad}");
        }
    }
}
