//! Sources that are not in the file but may be added by name while the daemon runs, by whoever may send commands.
//!
//! Such a source is made by the loader of `sources` from the template's own keys, so that all its rules hold. All that a
//! sender can choose is a value of each parameter, out of those that the file lists: no path, address, launch fragment or
//! program can come in, nor can a password be sent to a place that the file does not name.

use std::collections::BTreeMap;
use std::fmt;

use super::document::Document;
use super::error::ConfigError;
use super::keys;
use super::load::one_source;
use super::tree::{Entry, Located, Tree};
use super::{Problem, SourceConfig};

/// A source to be added by name.
#[derive(Clone)]
pub struct SourceTemplate {
    /// Its name.
    pub name: String,
    /// What a sender chooses.
    pub parameters: Vec<TemplateParameter>,
    /// The file that it is from, from whose folder relative paths count.
    pub(super) label: String,
    /// Its keys, as they stand in the file.
    pub(super) source: Located,
}

/// The name of examples.
const EXAMPLE: &str = "example";

/// One parameter, whose value stands for `{NAME}` in the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateParameter {
    /// Its name.
    pub name: String,
    /// What it may be.
    pub choices: Choices,
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
pub enum TemplateError {
    /// A parameter has no value.
    #[error("the parameter `{name}` is missing, expected {expected}")]
    Missing {
        /// Its name.
        name: String,
        /// What it may be.
        expected: String,
    },
    /// A parameter has a value that the file does not list.
    #[error("the parameter `{name}` is none of its values, expected {expected}")]
    Refused {
        /// Its name.
        name: String,
        /// What it may be.
        expected: String,
    },
    /// A value was given for a parameter that the template does not have.
    #[error("the template has no such parameter; it has: {known}")]
    Unknown {
        /// Those that it has.
        known: String,
    },
    /// The loader of sources refuses the result.
    #[error("{}", told(.0))]
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
        self.filled(name, values)
    }

    /// A source as it gives them, to look at its keys: they do not depend on the parameters, which vary the address alone.
    #[must_use]
    pub fn sample(&self) -> Option<SourceConfig> {
        // It was tried when the file was read.
        self.example(0).ok()
    }

    /// The source that it gives with the first value of each parameter (0) or the last (1).
    pub(super) fn example(&self, end: usize) -> Result<SourceConfig, TemplateError> {
        let values = self.parameters.iter();
        let values = values.map(|one| (one.name.clone(), one.choices.ends()[end].clone()));
        self.filled(EXAMPLE, &values.collect())
    }

    /// The same with values that were checked.
    fn filled(
        &self,
        name: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<SourceConfig, TemplateError> {
        let mut tree = self.source.tree.clone();
        if let Tree::Map(entries) = &mut tree {
            for entry in entries.iter_mut().filter(|entry| entry.key == "uri") {
                if let Tree::Text(uri) = &mut entry.value.tree {
                    for (parameter, value) in values {
                        *uri = uri.replace(&placeholder(parameter), value);
                    }
                }
            }
            entries.push(Entry {
                key: "name".to_owned(),
                place: None,
                value: Located {
                    place: None,
                    tree: Tree::Text(name.to_owned()),
                },
            });
        }
        let document = Document::unplaced(&self.label, tree);
        let source = document
            .root()
            .map(keys::SOURCE)
            .and_then(|map| one_source(&map));
        document.finish(source).map_err(|error| match error {
            ConfigError::Invalid { problems } => TemplateError::Source(problems),
            ConfigError::Unreadable { .. } => TemplateError::Source(Vec::new()),
        })
    }

    /// The address as the file has it.
    pub(super) fn uri(&self) -> &str {
        let Tree::Map(entries) = &self.source.tree else {
            return "";
        };
        let uri = entries.iter().find(|entry| entry.key == "uri");
        match uri.map(|entry| &entry.value.tree) {
            Some(Tree::Text(uri)) => uri,
            _ => "",
        }
    }
}

/// What a parameter's value stands for.
pub(super) fn placeholder(parameter: &str) -> String {
    format!("{{{parameter}}}")
}

/// Without file and line: these keys were put together, and who reads it may not know the file.
fn told(problems: &[Problem]) -> String {
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
