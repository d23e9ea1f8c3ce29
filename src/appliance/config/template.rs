// SPDX-License-Identifier: Apache-2.0
//! `commands` and `source_templates`: what may be asked of the running daemon, and sources that are not in the file but may
//! be added by name, by every client that may send commands.
//!
//! Such a source is read as one of `sources` from the template's own keys, so that all their rules hold. All that a sender
//! can choose is a value of each parameter, out of those that the file lists: no path, address, launch fragment or program
//! can come in, nor can a password be sent to an address that the file does not name. The rules of templates are in
//! `template_rules`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::error::ConfigError;
use super::folders::state_folder;
use super::names::{NAME, is_name};
use super::schema::{KeySpec, ValueType};
use super::section::Section;
use super::web::read_list;
use super::yaml::document::Document;
use super::yaml::map::Map;
use super::yaml::tree::{MapEntry, Spanned, YamlValue};
use super::{Problem, SourceConfig, schedule, source, spool};

/// What may be asked of the running daemon.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default)]
pub struct CommandsConfig {
    /// Accept commands at PREFIX/DEVICE/command, and switches at topics that end in /set. Every client that the broker lets publish there may add and remove sources of source_templates, switch detection and rules, and set score thresholds.
    #[key(default = false)]
    pub enabled: bool,
    /// Response topics of MQTT 5 to which replies may also go, besides those below PREFIX/DEVICE/command/reply/. Default: nowhere else.
    #[key(value = ValueType::Texts(REPLY_TOPICS), read = reply_topics, default_with = |_| Vec::new())]
    pub reply_topics: Vec<String>,
    /// Folder that keeps switches over restarts; its parent must exist. Default: /var/lib/jetwatch/switches.
    pub state_folder: Option<PathBuf>,
}

/// Accepted form of the items of `reply_topics`.
const REPLY_TOPICS: &str =
    "a topic or filter, such as site/replies/#, that begins with neither $ nor a wildcard";

fn reply_topics(map: &Map<'_>) -> Option<Vec<String>> {
    read_list(map, "reply_topics", REPLY_TOPICS, |text| {
        is_reply_filter(text).then(|| text.to_owned())
    })
}

/// Whether it is a filter of topics with a first level: other programs act on what is published at theirs.
fn is_reply_filter(text: &str) -> bool {
    let levels: Vec<&str> = text.split('/').collect();
    let is_level = |(index, level): (usize, &&str)| match *level {
        "+" => true,
        "#" => index + 1 == levels.len(),
        level => !level.contains(['+', '#', '\0']),
    };
    let begins_apart = text.starts_with(['$', '+', '#', '/']);
    !text.is_empty() && !begins_apart && levels.iter().enumerate().all(is_level)
}

impl CommandsConfig {
    /// The file with the switches of the client `client_id`.
    pub fn switches_file(&self, client_id: &str) -> PathBuf {
        let folder = self.state_folder.clone();
        let folder = folder.unwrap_or_else(|| state_folder("switches"));
        folder.join(format!("{}.json", spool::file_name(client_id)))
    }
}

/// A source to be added by name.
#[derive(Clone, Section)]
pub struct SourceTemplate {
    /// Name of the template in commands; unique.
    #[key(text = NAME, check = is_name)]
    pub name: String,
    /// What a command chooses: {NAME} in the address, which begins with rtsp://, rtsps://, v4l2://, csi:// or synthetic://. Default: none.
    pub parameters: Vec<TemplateParameter>,
    /// The file that it is from, from whose folder relative paths count.
    #[key(no_key, read = label)]
    pub(super) label: String,
    /// The source: all keys of `sources` but its name.
    #[key(value = ValueType::Map(SOURCE_KEYS), required, read = source_tree)]
    pub(super) source: Spanned,
}

/// Keys of a source whose name comes with the command.
pub(super) const SOURCE_KEYS: &[KeySpec] = match SourceConfig::KEYS.split_first() {
    Some((_, others)) => others,
    None => &[],
};

fn label(map: &Map<'_>) -> Option<String> {
    Some(map.node().label().to_owned())
}

/// The keys as they stand in the file; those that no source has are reported with their lines.
fn source_tree(map: &Map<'_>) -> Option<Spanned> {
    let source = map.get("source")?;
    source.map(SOURCE_KEYS)?;
    let mut tree = source.tree().without_spans();
    schedule::write_out(&mut tree, &map.node().document().root());
    Some(Spanned::without_span(tree))
}

/// The name of examples.
const EXAMPLE: &str = "example";

/// One parameter, whose value stands for `{NAME}` in the address.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
pub struct TemplateParameter {
    /// Name of the parameter.
    #[key(text = NAME, check = is_name)]
    pub name: String,
    /// What it may be.
    #[key(keys = ChoiceKeys, read = choices)]
    pub choices: Choices,
}

/// The keys that make [`Choices`].
#[derive(Section)]
struct ChoiceKeys {
    /// All values that it may have. Either these, or min and max.
    #[key(text = "a value")]
    values: Vec<String>,
    /// It is a whole number, and this is the minimum.
    #[key(range = 0..=u32::MAX as i64)]
    min: Option<u32>,
    /// The maximum of that number.
    #[key(range = 0..=u32::MAX as i64)]
    max: Option<u32>,
}

fn choices(map: &Map<'_>) -> Option<Choices> {
    let keys = ChoiceKeys::from_map(map)?;
    match (map.has("values"), keys.min, keys.max) {
        (true, None, None) if !keys.values.is_empty() => Some(Choices::Values(keys.values)),
        (false, Some(min), Some(max)) if min <= max => Some(Choices::Numbers { min, max }),
        _ => {
            let what = "a parameter has either values, or min and max with min no greater than max";
            map.invalid("name", what, None);
            None
        }
    }
}

/// What a parameter may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choices {
    /// One of these words.
    Values(Vec<String>),
    /// A whole number, both ends included.
    Numbers {
        /// The least.
        min: u32,
        /// The greatest.
        max: u32,
    },
}

/// Why a template gives no source.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum TemplateError {
    #[error("the parameter `{name}` is missing, expected {expected}")]
    Missing { name: String, expected: String },
    #[error("the parameter `{name}` is none of its values, expected {expected}")]
    Refused { name: String, expected: String },
    #[error("the template has no such parameter; it has: {known}")]
    Unknown { known: String },
    #[error("{}", join_errors(.0))]
    Source(Vec<Problem>),
}

impl Choices {
    fn accepts(&self, value: &str) -> bool {
        match self {
            Self::Values(values) => values.iter().any(|known| known == value),
            // As it is written back: no sign, no leading zero.
            Self::Numbers { min, max } => value
                .parse::<u32>()
                .is_ok_and(|number| (*min..=*max).contains(&number) && number.to_string() == value),
        }
    }

    /// The first and the last value.
    fn ends(&self) -> [String; 2] {
        match self {
            Self::Values(values) => {
                [values.first(), values.last()].map(|value| value.cloned().unwrap_or_default())
            }
            Self::Numbers { min, max } => [min.to_string(), max.to_string()],
        }
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Values(values) => write!(f, "one of {}", values.join(", ")),
            Self::Numbers { min, max } => write!(f, "a whole number from {min} to {max}"),
        }
    }
}

impl SourceTemplate {
    /// The source named `name` that this template gives with these values of its parameters.
    ///
    /// # Errors
    /// A parameter that is missing, unknown or has another value than the file lists, and a name that is none.
    pub fn source(
        &self,
        name: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<SourceConfig, TemplateError> {
        let is_known = |given: &&String| self.parameters.iter().any(|known| known.name == **given);
        if !values.keys().all(|given| is_known(&given)) {
            let known: Vec<&str> = self
                .parameters
                .iter()
                .map(|one| one.name.as_str())
                .collect();
            return Err(TemplateError::Unknown {
                known: known.join(", "),
            });
        }
        for parameter in &self.parameters {
            let (name, expected) = (parameter.name.clone(), parameter.choices.to_string());
            match values.get(&name) {
                None => return Err(TemplateError::Missing { name, expected }),
                Some(value) if !parameter.choices.accepts(value) => {
                    return Err(TemplateError::Refused { name, expected });
                }
                Some(_) => {}
            }
        }
        self.substitute(name, values)
    }

    /// An example of its sources, for their keys: they do not depend on the parameters, which vary the address only.
    pub fn example_source(&self) -> Option<SourceConfig> {
        // It was tried when the file was read.
        self.example(0).ok()
    }

    /// The source that it gives with the first value of each parameter (0) or the last (1).
    ///
    /// # Errors
    /// The keys of the source, with these values, are not accepted.
    pub(super) fn example(&self, end: usize) -> Result<SourceConfig, TemplateError> {
        let values = self.parameters.iter();
        let values = values.map(|one| (one.name.clone(), one.choices.ends()[end].clone()));
        self.substitute(EXAMPLE, &values.collect())
    }

    /// The same with values that were checked.
    fn substitute(
        &self,
        name: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<SourceConfig, TemplateError> {
        let mut tree = self.source.value.clone();
        if let YamlValue::Map(entries) = &mut tree {
            for entry in entries.iter_mut().filter(|entry| entry.key == "uri") {
                if let YamlValue::Text(uri) = &mut entry.value.value {
                    for (parameter, value) in values {
                        *uri = uri.replace(&placeholder(parameter), value);
                    }
                }
            }
            entries.push(MapEntry {
                key: "name".to_owned(),
                span: None,
                value: Spanned {
                    span: None,
                    value: YamlValue::Text(name.to_owned()),
                },
            });
        }
        let document = Document::without_spans(&self.label, tree);
        let source = document.root().map(SourceConfig::KEYS).and_then(|map| {
            source::check_names(std::slice::from_ref(&map));
            SourceConfig::from_map(&map)
        });
        document.finish(source).map_err(|error| match error {
            ConfigError::Invalid { problems } => TemplateError::Source(problems),
            ConfigError::Unreadable { .. } => TemplateError::Source(Vec::new()),
        })
    }

    /// The address as the file has it.
    pub(super) fn uri(&self) -> &str {
        let YamlValue::Map(entries) = &self.source.value else {
            return "";
        };
        let uri = entries.iter().find(|entry| entry.key == "uri");
        match uri.map(|entry| &entry.value.value) {
            Some(YamlValue::Text(uri)) => uri,
            _ => "",
        }
    }
}

/// What a parameter's value stands for.
pub(super) fn placeholder(parameter: &str) -> String {
    format!("{{{parameter}}}")
}

/// Without file and line: these keys were put together, and who reads it may not know the file.
fn join_errors(problems: &[Problem]) -> String {
    let one = |problem: &Problem| {
        let expected = problem.expected.as_ref();
        let expected = expected.map_or(String::new(), |form| format!(", expected {form}"));
        format!("{}: {}{expected}", problem.key, problem.what)
    };
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Its keys may hold a password.
impl fmt::Debug for SourceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceTemplate")
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}
