// SPDX-License-Identifier: Apache-2.0
//! Commands received over MQTT, and the replies: their format only, not their execution. Pure.
//!
//! Input is untrusted: a command is short and has exactly the fields below; anything else is answered with an error.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{SetTopic, Setting};

/// Longest accepted command, in bytes.
pub(crate) const MAX_COMMAND_BYTES: usize = 4096;

/// Longest accepted text in a command, in bytes.
const MAX_TEXT: usize = 128;

/// Most parameters in a command.
const MAX_PARAMETERS: usize = 16;

/// The requested operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Add a source.
    AddSource {
        /// Name of the source.
        name: String,
        /// Name of the template.
        template: String,
        /// Values of the template's parameters.
        parameters: BTreeMap<String, String>,
    },
    /// Remove a source that a command has added.
    RemoveSource {
        /// Name of the source.
        name: String,
    },
    /// Switch detection of a source on or off.
    SetDetection {
        /// Name of the source.
        name: String,
        /// Whether it is on.
        on: bool,
    },
    /// Switch a rule of a source on or off.
    SetRule {
        /// Name of the source.
        name: String,
        /// Name of the zone, line or direction, or `stationary`.
        rule: String,
        /// Whether it is on.
        on: bool,
    },
    /// Set the score threshold of a source.
    SetScoreThreshold {
        /// Name of the source.
        name: String,
        /// Detections below it are dropped.
        threshold: f32,
    },
}

/// A command as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandMessage {
    /// Its payload.
    pub payload: Vec<u8>,
    /// What the topic of the message says that it sets; `None`: the payload is a command.
    pub sets: Option<SetTopic>,
    /// Where its sender wants the reply, besides the topic of replies.
    pub reply_to: Option<ReplyTo>,
}

/// MQTT 5: response topic and correlation data of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyTo {
    /// Where the reply is published, too.
    pub topic: String,
    /// Sent back with it.
    pub correlation: Option<Box<[u8]>>,
}

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Where it goes besides the topic of replies.
    pub reply_to: Option<ReplyTo>,
    /// The `id` of the command, for correlation; `None` where it had none or could not be parsed.
    pub id: Option<String>,
    /// The source that the command named, where it could be parsed.
    pub name: Option<String>,
    /// Why the command failed; `None` when it succeeded.
    pub error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCommand {
    id: Option<String>,
    command: CommandName,
    name: String,
    template: Option<String>,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
    rule: Option<String>,
    on: Option<bool>,
    threshold: Option<f32>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum CommandName {
    AddSource,
    RemoveSource,
    SetDetection,
    SetRule,
    SetScoreThreshold,
}

impl CommandName {
    /// The `command` value on the wire.
    const fn text(&self) -> &'static str {
        match self {
            Self::AddSource => "add_source",
            Self::RemoveSource => "remove_source",
            Self::SetDetection => "set_detection",
            Self::SetRule => "set_rule",
            Self::SetScoreThreshold => "set_score_threshold",
        }
    }
}

impl RawCommand {
    /// The fields that it has besides `command` and `name`.
    fn has(&self) -> [(&'static str, bool); 5] {
        [
            ("template", self.template.is_some()),
            ("parameters", !self.parameters.is_empty()),
            ("rule", self.rule.is_some()),
            ("on", self.on.is_some()),
            ("threshold", self.threshold.is_some()),
        ]
    }

    /// Checks that it has the fields `needed`, and at most those and `allowed`.
    fn check(&self, needed: &[&str], allowed: &[&str]) -> Result<(), String> {
        let name = self.command.text();
        for (field, is_given) in self.has() {
            if needed.contains(&field) && !is_given {
                return Err(format!("{name} needs {field}"));
            }
            if is_given && !needed.contains(&field) && !allowed.contains(&field) {
                return Err(format!("{name} takes no {field}"));
            }
        }
        Ok(())
    }
}

impl Command {
    /// The command of a message, and its `id`.
    ///
    /// # Errors
    /// The reply that reports what is wrong.
    pub fn of_message(message: &CommandMessage) -> Result<(Option<String>, Self), Reply> {
        match &message.sets {
            None => Self::read(&message.payload),
            Some(sets) => Self::set(sets, &message.payload).map(|command| (None, command)),
        }
    }

    /// The command to set what a topic names to `payload`.
    fn set(sets: &SetTopic, payload: &[u8]) -> Result<Self, Reply> {
        let name = Some(sets.source.clone()).filter(|name| is_short(name));
        let refused = |error: String| Reply {
            reply_to: None,
            id: None,
            name: name.clone(),
            error: Some(error),
        };
        let found = || {
            let found: String = String::from_utf8_lossy(payload).chars().take(40).collect();
            format!("found {found:?}")
        };
        let switch = || match payload {
            b"ON" => Ok(true),
            b"OFF" => Ok(false),
            _ => Err(refused(format!("{}, expected ON or OFF", found()))),
        };
        let Some(name) = name.clone() else {
            return Err(refused("the topic has no name of a source".to_owned()));
        };
        Ok(match &sets.setting {
            Setting::Detection => Self::SetDetection {
                name,
                on: switch()?,
            },
            Setting::Rule(rule) => Self::SetRule {
                name,
                rule: rule.clone(),
                on: switch()?,
            },
            Setting::ScoreThreshold => {
                let number = std::str::from_utf8(payload).ok();
                let number = number.and_then(|text| text.trim().parse::<f32>().ok());
                let number = number.filter(|number| number.is_finite());
                let expected = || refused(format!("{}, expected a number from 0 to 1", found()));
                Self::SetScoreThreshold {
                    name,
                    threshold: number.ok_or_else(expected)?,
                }
            }
        })
    }

    /// Parses a command and its `id`.
    ///
    /// # Errors
    /// The reply that reports what is wrong.
    pub fn read(payload: &[u8]) -> Result<(Option<String>, Self), Reply> {
        let anonymous = |error: String| Reply {
            reply_to: None,
            id: None,
            name: None,
            error: Some(error),
        };
        if payload.len() > MAX_COMMAND_BYTES {
            let what = format!(
                "the command has {} bytes, expected {MAX_COMMAND_BYTES} at most",
                payload.len()
            );
            return Err(anonymous(what));
        }
        let parse_error = |error: serde_json::Error| {
            // The parser's message may quote the input, at any length.
            let excerpt: String = error.to_string().chars().take(200).collect();
            format!("not a command: {excerpt}")
        };
        let sent: Value = serde_json::from_slice(payload).map_err(|e| anonymous(parse_error(e)))?;
        if !sent.is_object() {
            let what = "not a command: expected an object with `command` and `name`";
            return Err(anonymous(what.to_owned()));
        }
        // The sender matches the reply by these, whatever else is wrong.
        let text =
            |key: &str| Some(sent.get(key)?.as_str()?.to_owned()).filter(|text| is_short(text));
        let (id, name) = (text("id"), text("name"));
        let refused = |error: String| Reply {
            reply_to: None,
            id: id.clone(),
            name: name.clone(),
            error: Some(error),
        };
        let raw = RawCommand::deserialize(&sent).map_err(|error| refused(parse_error(error)))?;
        let parameters: BTreeMap<String, String> = raw
            .parameters
            .iter()
            .map(|(name, value)| Ok((name.clone(), parameter(name, value)?)))
            .collect::<Result<_, String>>()
            .map_err(refused)?;
        let texts = [&raw.id, &raw.template, &raw.rule].into_iter().flatten();
        let texts = texts.chain([&raw.name]).chain(parameters.values());
        if !texts.chain(parameters.keys()).all(|text| is_short(text)) {
            let what = format!(
                "a text of the command has control characters or more than {MAX_TEXT} bytes"
            );
            return Err(refused(what));
        }
        if parameters.len() > MAX_PARAMETERS {
            return Err(refused(format!("more than {MAX_PARAMETERS} parameters")));
        }
        let checked = match raw.command {
            CommandName::AddSource => raw.check(&["template"], &["parameters"]),
            CommandName::RemoveSource => raw.check(&[], &[]),
            CommandName::SetDetection => raw.check(&["on"], &[]),
            CommandName::SetRule => raw.check(&["rule", "on"], &[]),
            CommandName::SetScoreThreshold => raw.check(&["threshold"], &[]),
        };
        checked.map_err(refused)?;
        // The fields that a command needs were checked.
        let (name, on) = (raw.name, raw.on.unwrap_or_default());
        let command = match raw.command {
            CommandName::AddSource => Self::AddSource {
                name,
                template: raw.template.unwrap_or_default(),
                parameters,
            },
            CommandName::RemoveSource => Self::RemoveSource { name },
            CommandName::SetDetection => Self::SetDetection { name, on },
            CommandName::SetRule => Self::SetRule {
                name,
                rule: raw.rule.unwrap_or_default(),
                on,
            },
            CommandName::SetScoreThreshold => Self::SetScoreThreshold {
                name,
                threshold: raw.threshold.unwrap_or_default(),
            },
        };
        Ok((raw.id, command))
    }

    /// The `command` value on the wire.
    #[must_use]
    pub fn command_name(&self) -> &'static str {
        match self {
            Self::AddSource { .. } => "add_source",
            Self::RemoveSource { .. } => "remove_source",
            Self::SetDetection { .. } => "set_detection",
            Self::SetRule { .. } => "set_rule",
            Self::SetScoreThreshold { .. } => "set_score_threshold",
        }
    }

    /// Name of the source.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::AddSource { name, .. }
            | Self::RemoveSource { name }
            | Self::SetDetection { name, .. }
            | Self::SetRule { name, .. }
            | Self::SetScoreThreshold { name, .. } => name,
        }
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= MAX_TEXT && !text.chars().any(char::is_control)
}

/// The value of a parameter, as text.
fn parameter(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) if number.as_u64().is_some_and(|n| n <= u64::from(u32::MAX)) => {
            Ok(number.to_string())
        }
        other => {
            let truncated = |text: String| text.chars().take(40).collect::<String>();
            let (name, other) = (truncated(name.to_owned()), truncated(other.to_string()));
            Err(format!(
                "not a command: parameters.{name}: found {other}, expected a text or a whole number from 0 to {}",
                u32::MAX
            ))
        }
    }
}

#[cfg(test)]
mod tests;
