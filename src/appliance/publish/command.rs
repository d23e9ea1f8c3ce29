//! Commands received over MQTT, and the replies: their format only, not their execution. Pure.
//!
//! Input is untrusted: a command is short and has exactly the fields below; anything else is answered with an error.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire::{Device, Utc};

/// Longest accepted command, in bytes.
pub const MAX_COMMAND_BYTES: usize = 4096;

/// Longest accepted text in a command, in bytes.
const MAX_TEXT: usize = 128;

/// Most parameters in a command.
const MAX_PARAMETERS: usize = 16;

/// The requested operation.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// A command as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandMessage {
    /// Its payload.
    pub payload: Vec<u8>,
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
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum CommandName {
    AddSource,
    RemoveSource,
}

impl Command {
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
        let texts = [&raw.id, &raw.template].into_iter().flatten();
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
        let command = match (raw.command, raw.template) {
            (CommandName::AddSource, Some(template)) => Self::AddSource {
                name: raw.name,
                template,
                parameters,
            },
            (CommandName::AddSource, None) => {
                return Err(refused("add_source needs a template".to_owned()));
            }
            (CommandName::RemoveSource, None) if parameters.is_empty() => {
                Self::RemoveSource { name: raw.name }
            }
            (CommandName::RemoveSource, _) => {
                let what = "remove_source takes a name alone".to_owned();
                return Err(refused(what));
            }
        };
        Ok((raw.id, command))
    }

    /// The `command` value on the wire.
    #[must_use]
    pub fn command_name(&self) -> &'static str {
        match self {
            Self::AddSource { .. } => "add_source",
            Self::RemoveSource { .. } => "remove_source",
        }
    }

    /// Name of the source.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::AddSource { name, .. } | Self::RemoveSource { name } => name,
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

impl Reply {
    pub(super) fn body<'a>(&'a self, version: u32, device: Device<'a>, at: Utc) -> ReplyBody<'a> {
        ReplyBody {
            version,
            kind: "reply",
            device,
            id: self.id.as_deref(),
            name: self.name.as_deref(),
            ok: self.error.is_none(),
            error: self.error.as_deref(),
            at,
        }
    }
}

/// Reply to a command that was sent to `<prefix>/<device>/command`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "reply", title = "Reply to a command", deny_unknown_fields)]
pub(super) struct ReplyBody<'a> {
    #[schemars(schema_with = "super::wire::version")]
    version: u32,
    #[schemars(extend("const" = "reply"))]
    kind: &'static str,
    device: Device<'a>,
    /// The `id` of the command; null where it had none or could not be parsed.
    id: Option<&'a str>,
    /// The source that the command named; null where it could not be parsed.
    name: Option<&'a str>,
    /// Whether the command succeeded.
    ok: bool,
    /// Why the command failed; null when it succeeded.
    error: Option<&'a str>,
    /// When the command ended.
    at: Utc,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_commands_are_parsed() {
        let text = br#"{"id": "7", "command": "add_source", "template": "hall", "name": "h", "parameters": {"a": 3, "b": "x"}}"#;
        let parameters = [("a", "3"), ("b", "x")];
        let wanted = Command::AddSource {
            name: "h".to_owned(),
            template: "hall".to_owned(),
            parameters: parameters
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        };
        assert_eq!(Command::read(text), Ok((Some("7".to_owned()), wanted)));
        let text = br#"{"command": "remove_source", "name": "h"}"#;
        let wanted = Command::RemoveSource {
            name: "h".to_owned(),
        };
        assert_eq!(Command::read(text), Ok((None, wanted)));
    }

    #[test]
    fn invalid_commands_are_rejected() {
        let long = format!(
            r#"{{"command": "remove_source", "name": "{}"}}"#,
            "x".repeat(MAX_TEXT + 1)
        );
        let huge = "x".repeat(MAX_COMMAND_BYTES + 1);
        let deep = "[".repeat(4000);
        let cases = [
            ("", "not a command"),
            ("null", "not a command"),
            ("[]", "not a command"),
            (r#"{"command": "remove_source"}"#, "not a command"),
            (r#"{"command": "run", "name": "x"}"#, "not a command"),
            (
                r#"{"command": "add_source", "template": "t", "name": "x", "uri": "launch:filesrc"}"#,
                "unknown field",
            ),
            (
                r#"{"command": "add_source", "template": "t", "name": "x", "parameters": {"a": ["b"]}}"#,
                "not a command",
            ),
            (
                r#"{"command": "add_source", "template": "t", "name": "x", "parameters": {"a": -1}}"#,
                "not a command",
            ),
            (
                r#"{"command": "add_source", "name": "x"}"#,
                "needs a template",
            ),
            (
                r#"{"command": "remove_source", "name": "x", "template": "t"}"#,
                "a name alone",
            ),
            (
                r#"{"command": "remove_source", "name": "x\u0000"}"#,
                "control characters",
            ),
            (long.as_str(), "more than 128 bytes"),
            (huge.as_str(), "4097 bytes"),
            (deep.as_str(), "not a command"),
        ];
        for (text, wanted) in cases {
            let reply = Command::read(text.as_bytes()).expect_err(text);
            let error = reply.error.expect("a reason");
            assert!(
                error.contains(wanted) && error.len() < 400,
                "{text}: {error}"
            );
        }
        assert!(Command::read(&[0xff, 0xfe, 0x00]).is_err());
    }

    #[test]
    fn replies_carry_the_id_of_the_command() {
        let with = |rest: &str| format!(r#"{{"id": "7", "name": "gate", "command": {rest}}}"#);
        for rest in [
            r#""add_source", "template": "t", "parameters": {"seed": 1.0}"#,
            r#""add_source""#,
            r#""remove_source", "uri": "x""#,
            r#""run""#,
        ] {
            let reply = Command::read(with(rest).as_bytes()).expect_err(rest);
            let (id, name) = (reply.id.as_deref(), reply.name.as_deref());
            assert_eq!((id, name), (Some("7"), Some("gate")), "{rest}");
        }
        let text = with(r#""add_source", "template": "t", "parameters": {"seed": 1.5}"#);
        let error = Command::read(text.as_bytes())
            .expect_err("no whole number")
            .error;
        assert_eq!(
            error.as_deref(),
            Some(
                "not a command: parameters.seed: found 1.5, expected a text or a whole number from 0 to 4294967295"
            )
        );
    }

    proptest! {
        #[test]
        fn any_payload_is_parsed_or_rejected_with_short_error(payload in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Err(reply) = Command::read(&payload) {
                prop_assert!(reply.error.is_some_and(|error| error.len() < 1000));
            }
        }
    }
}
