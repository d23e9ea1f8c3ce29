//! The text of a `.cfg` file: sections in brackets, each with `key=value` lines. Pure.

use std::str::FromStr;

use super::DarknetError;

/// A section, which is the network's settings or a layer.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// The name in the brackets.
    pub(super) name: &'a str,
    /// Its line, from 1.
    pub(super) line: usize,
    options: Vec<Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    key: &'a str,
    value: &'a str,
    line: usize,
}

/// The sections in their order. Everything behind `#` or `;` is a comment.
pub(super) fn parse(text: &str) -> Result<Vec<Section<'_>>, DarknetError> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split(['#', ';']).next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).ok_or_else(|| {
                DarknetError::at(
                    line,
                    format!("found `{text}`, expected a section such as [net]"),
                )
            })?;
            sections.push(Section {
                name,
                line,
                options: Vec::new(),
            });
            continue;
        }
        let Some((key, value)) = text.split_once('=') else {
            let reason = format!("found `{text}`, expected key=value or a section such as [net]");
            return Err(DarknetError::at(line, reason));
        };
        let Some(section) = sections.last_mut() else {
            return Err(DarknetError::at(
                line,
                format!("found `{text}` before the first section, expected [net]"),
            ));
        };
        section.options.push(Entry {
            key: key.trim(),
            value: value.trim(),
            line,
        });
    }
    Ok(sections)
}

impl<'a> Section<'a> {
    fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        self.options.iter().find(|entry| entry.key == key)
    }

    /// An error at the line of a key, or of the section where the key is missing.
    pub(super) fn error(&self, key: &str, reason: impl Into<String>) -> DarknetError {
        let line = self.entry(key).map_or(self.line, |entry| entry.line);
        DarknetError::at(line, reason)
    }

    /// The text of a key.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.entry(key).map(|entry| entry.value)
    }

    fn parsed<T: FromStr>(&self, entry: &Entry<'_>, form: &str) -> Result<T, DarknetError> {
        entry.value.parse().map_err(|_| {
            let reason = format!(
                "{} of [{}]: found `{}`, expected {form}",
                entry.key, self.name, entry.value
            );
            DarknetError::at(entry.line, reason)
        })
    }

    /// A whole number from 0 on.
    pub(super) fn whole(&self, key: &str, default: usize) -> Result<usize, DarknetError> {
        self.entry(key)
            .map_or(Ok(default), |entry| self.parsed(entry, "a whole number"))
    }

    /// A whole number from 1 to 65 536: a length, which also bounds products of some.
    pub(super) fn length(&self, key: &str, default: usize) -> Result<usize, DarknetError> {
        let value = self.whole(key, default)?;
        if (1..=65_536).contains(&value) {
            return Ok(value);
        }
        let reason = format!(
            "{key} of [{}]: found {value}, expected 1 to 65536",
            self.name
        );
        Err(self.error(key, reason))
    }

    /// A number.
    pub(super) fn float(&self, key: &str, default: f32) -> Result<f32, DarknetError> {
        self.entry(key)
            .map_or(Ok(default), |entry| self.parsed(entry, "a number"))
    }

    /// Numbers separated by commas; `None` without the key.
    pub(super) fn list<T: FromStr>(&self, key: &str) -> Result<Option<Vec<T>>, DarknetError> {
        let Some(entry) = self.entry(key) else {
            return Ok(None);
        };
        let items = entry.value.split(',').map(str::trim);
        // The published files end some lists with a comma.
        let numbers = items.filter(|item| !item.is_empty()).map(|item| {
            let one = Entry {
                value: item,
                ..*entry
            };
            self.parsed(&one, "numbers separated by commas")
        });
        numbers.collect::<Result<_, _>>().map(Some)
    }

    /// Fails where one of `keys` is given with another value than the first of its pair: what it asks for is not supported.
    pub(super) fn reject(&self, keys: &[(&str, &str)]) -> Result<(), DarknetError> {
        for (key, default) in keys {
            if let Some(value) = self.text(key).filter(|value| value != default) {
                let reason = format!(
                    "{key}={value} of [{}] is not supported, expected {default}",
                    self.name
                );
                return Err(self.error(key, reason));
            }
        }
        Ok(())
    }

    /// Fails where the section has another key: it might change what the layer computes.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), DarknetError> {
        match self
            .options
            .iter()
            .find(|entry| !known.contains(&entry.key))
        {
            None => Ok(()),
            Some(entry) => {
                let reason = format!(
                    "unknown key {} in [{}]; known here: {}",
                    entry.key,
                    self.name,
                    known.join(", ")
                );
                Err(DarknetError::at(entry.line, reason))
            }
        }
    }
}
