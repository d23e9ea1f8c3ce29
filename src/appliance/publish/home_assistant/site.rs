// SPDX-License-Identifier: Apache-2.0
//! What all messages to Home Assistant are made from: names, topics and settings. Nothing here changes during a run.

use std::time::Duration;

use serde_json::{Value, json};

use super::component::Component;
use super::ids;
use crate::Topics;
use jetwatch_config::HomeAssistantConfig;
use jetwatch_types::Classes;

/// What is announced to Home Assistant beside the sources.
#[derive(Debug, Clone)]
pub struct HomeAssistantOptions {
    /// The settings.
    pub config: HomeAssistantConfig,
    /// Whether commands are accepted, so that there are switches.
    pub has_commands: bool,
    /// Time between two statistics.
    pub stats_interval: Duration,
    /// Model of the machine, where it is known.
    pub model: Option<String>,
}

/// Origin of the messages; those of others are left alone.
pub(super) const ORIGIN: &str = "jetwatch";

/// The fixed part of all messages.
#[derive(Debug)]
pub(super) struct Site {
    pub options: HomeAssistantOptions,
    /// Name of the device.
    pub device: String,
    pub topics: Topics,
    pub classes: Classes,
    /// Whether statistics have a spool.
    pub has_spool: bool,
}

/// A message before it is limited to a size.
#[derive(Debug)]
pub(super) struct Draft {
    /// Identifier of the device in Home Assistant.
    pub device_id: String,
    /// All but the components.
    pub root: Value,
    pub components: Vec<Component>,
}

/// Begin of the topics of a device's messages, with a slash, below Home Assistant's discovery prefix.
pub(crate) fn discovery_prefix(prefix: &str, device: &str) -> String {
    format!("{prefix}/device/{}/", ids::join(&[ORIGIN, device]))
}

impl Site {
    /// Begin of the topics of this device's messages, with a slash.
    pub fn prefix(&self) -> String {
        discovery_prefix(&self.options.config.prefix, &self.device)
    }

    /// Filter for them.
    pub fn filter(&self) -> String {
        format!("{}+/config", self.prefix())
    }

    /// Topic of the message about the device itself.
    pub fn box_topic(&self) -> String {
        format!("{}box/config", self.prefix())
    }

    /// Topic of the message about a source.
    pub fn source_topic(&self, source: &str) -> String {
        format!("{}{}/config", self.prefix(), ids::join(&["source", source]))
    }

    /// Identifier of the device itself; also the node of all topics.
    pub fn box_id(&self) -> String {
        ids::join(&[ORIGIN, &self.device])
    }

    /// Identifier of a source.
    pub fn source_id(&self, source: &str) -> String {
        ids::join(&[ORIGIN, &self.device, "source", source])
    }

    /// Availability of the daemon.
    pub fn availability(&self) -> Value {
        json!({ "t": self.topics.status().as_ref() })
    }

    /// All but the components of a message. `availability`: all of them must be there.
    pub fn root(&self, device: Value, availability: Vec<Value>) -> Value {
        json!({
            "dev": device,
            "o": { "name": ORIGIN, "sw": env!("CARGO_PKG_VERSION") },
            "avty": availability,
            "avty_mode": "all",
            "qos": 1,
        })
    }
}
