// SPDX-License-Identifier: Apache-2.0
//! One value of a [`Document`] with typed readers.
//!
//! A reader gives the value, or records a problem and gives `None`: callers read everything that they can, and build
//! their value with `?` at the end, so that one run shows all problems. For maps with a table of keys, [`Node::map`]
//! gives a [`Map`], which also knows ranges and defaults; maps without a table are read in `fields`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::document::Document;

use super::map::Map;
use super::tree::{MapEntry, Span, Spanned, YamlValue, has_leading_zero};
use crate::redact::{quoted, quoted_key};
use crate::schema::{KeySpec, Unit, ValueType};
use crate::secret_names::is_secret_at;

/// One value of the tree with its span and key path.
#[derive(Debug, Clone)]
pub struct Node<'d> {
    document: &'d Document,
    located: &'d Spanned,
    path: String,
}

/// A value as YAML sees it, for callers whose keys are not known beforehand.
#[derive(Debug, Clone)]
pub enum Value<'d> {
    /// Nothing behind the colon, `~` or `null`; also what was refused already, such as an alias.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// Text.
    Text(&'d str),
    /// A list.
    List(Vec<Node<'d>>),
    /// A map in the order of the file.
    Map(Vec<(&'d str, Node<'d>)>),
}

impl<'d> Node<'d> {
    pub(crate) fn new(document: &'d Document, located: &'d Spanned, path: String) -> Self {
        Self {
            document,
            located,
            path,
        }
    }

    /// The key path, such as `sources[1].stall_timeout_ms`; empty for the outermost value.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Line of the file, from 1; `None` when the value was not read from a file.
    pub fn line(&self) -> Option<usize> {
        self.located.span.map(|span| span.0)
    }

    /// The name of its file.
    pub fn label(&self) -> &'d str {
        self.document.label()
    }

    /// The value as YAML sees it. Records no problem.
    pub fn value(&self) -> Value<'d> {
        match &self.located.value {
            YamlValue::Null | YamlValue::Refused => Value::Null,
            YamlValue::Boolean(value) => Value::Boolean(*value),
            YamlValue::Integer(value) => Value::Integer(*value),
            YamlValue::Number(value, _) => Value::Number(*value),
            YamlValue::Text(value) => Value::Text(value),
            YamlValue::List(items) => Value::List(self.nodes(items)),
            YamlValue::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|entry| (entry.key.as_str(), self.child(entry)))
                    .collect(),
            ),
        }
    }

    /// Whether nothing stands behind the colon.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.located.value, YamlValue::Null)
    }

    /// Text that is not empty and has no control characters; `form` names the accepted form, as in `a label`.
    pub fn text(&self, form: &str) -> Option<&'d str> {
        match &self.located.value {
            YamlValue::Text(text) if !text.is_empty() && !text.chars().any(char::is_control) => {
                Some(text)
            }
            YamlValue::Integer(_) | YamlValue::Number(..) | YamlValue::Boolean(_) => {
                let hint = "write it in quotes if that is what it is".to_owned();
                self.reject(Some(form.to_owned()), Some(hint));
                None
            }
            YamlValue::Text(text) if !text.is_empty() => {
                let hint = "line breaks, tabs and other control characters are not accepted";
                self.reject(Some(form.to_owned()), Some(hint.to_owned()));
                None
            }
            _ => self.type_error(form),
        }
    }

    /// Text that a problem never quotes. It may be empty, and has no control characters.
    pub fn secret(&self) -> Option<&'d str> {
        match &self.located.value {
            YamlValue::Text(text) if text.chars().any(char::is_control) => {
                let what = "it holds a line break, a tab or another control character";
                let hint = "write it on one line in '…', where a backslash is itself";
                self.report(what, None, Some(hint.to_owned()));
                None
            }
            YamlValue::Text(text) => Some(text),
            YamlValue::Null => {
                let hint = "one that begins with `#` needs quotes; \"\" is an empty one";
                self.reject(Some(ValueType::Secret.to_string()), Some(hint.to_owned()));
                None
            }
            _ => self.type_error(&ValueType::Secret.to_string()),
        }
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Option<bool> {
        match self.located.value {
            YamlValue::Boolean(value) => Some(value),
            _ => self.type_error(&ValueType::Boolean.to_string()),
        }
    }

    /// A whole number within `range`.
    pub fn integer(&self, range: RangeInclusive<i64>, unit: Unit) -> Option<i64> {
        match self.located.value {
            YamlValue::Integer(value) if range.contains(&value) => Some(value),
            _ => {
                let form = ValueType::Integer {
                    min: *range.start(),
                    max: *range.end(),
                    unit,
                };
                self.type_error(&form.to_string())
            }
        }
    }

    /// A number within `range`, whole or not.
    pub fn number(&self, range: RangeInclusive<f64>) -> Option<f64> {
        let form = ValueType::Number {
            min: *range.start(),
            min_accepted: true,
            max: *range.end(),
        };
        self.number_as(&form, |value| range.contains(&value))
    }

    pub(crate) fn number_as(&self, form: &ValueType, accepts: impl Fn(f64) -> bool) -> Option<f64> {
        let value = match self.located.value {
            YamlValue::Integer(value) => value as f64,
            YamlValue::Number(value, _) => value,
            _ => return self.type_error(&form.to_string()),
        };
        // Not-a-number lies in no range.
        if accepts(value) {
            Some(value)
        } else {
            self.type_error(&form.to_string())
        }
    }

    /// The one of `words` that stands here.
    pub fn word(&self, words: &'static [&'static str]) -> Option<&'static str> {
        let found = match &self.located.value {
            YamlValue::Text(text) => words.iter().find(|word| *word == text),
            _ => None,
        };
        found
            .copied()
            .or_else(|| self.type_error(&ValueType::Words(words).to_string()))
    }

    /// A path; a relative one counts from the folder of the file.
    pub(crate) fn path_value(&self) -> Option<PathBuf> {
        let text = self.text(&ValueType::Path.to_string())?;
        if text == "~" || text.starts_with("~/") {
            self.reject(
                Some(ValueType::Path.to_string()),
                Some("`~` is not expanded: write the whole path".to_owned()),
            );
            return None;
        }
        Some(self.folder().join(text))
    }

    /// The items of a list, which may be empty; `form` names the accepted form.
    #[must_use]
    pub fn items(&self, form: &str) -> Option<Vec<Self>> {
        match &self.located.value {
            YamlValue::List(items) => Some(self.nodes(items)),
            _ => self.type_error(form),
        }
    }

    /// A map whose keys are listed in `keys`; every other key is recorded as a problem. Nothing behind the colon is a
    /// map without keys, as happens when all of them are commented out.
    #[must_use]
    pub fn map(&self, keys: &'static [KeySpec]) -> Option<Map<'d>> {
        match &self.located.value {
            YamlValue::Map(entries) => Some(Map::new(self.clone(), keys, entries)),
            YamlValue::Null => Some(Map::new(self.clone(), keys, &[])),
            _ => self.type_error(&ValueType::Map(keys).to_string()),
        }
    }

    /// As [`map`](Self::map), with only those of `keys` known that are named in `known`: a key may exclude others.
    pub fn map_with(&self, keys: &'static [KeySpec], known: &[&str]) -> Option<Map<'d>> {
        match &self.located.value {
            YamlValue::Map(entries) => {
                self.refuse_unknown(entries, known.iter().copied());
                Some(Map::unchecked(self.clone(), keys, entries))
            }
            YamlValue::Null => Some(Map::unchecked(self.clone(), keys, &[])),
            _ => self.type_error(&ValueType::Map(keys).to_string()),
        }
    }

    /// Records that `expected` was to stand here, with what does; gives `None` for the caller to return.
    pub fn type_error<T>(&self, expected: &str) -> Option<T> {
        let hint = self.hint(expected).map(str::to_owned);
        self.reject(Some(expected.to_owned()), hint);
        None
    }

    /// What to write instead, for values as other programs and other versions of YAML have them.
    fn hint(&self, expected: &str) -> Option<&'static str> {
        let is_number = ["a whole number", "a number"]
            .iter()
            .any(|form| expected.starts_with(form));
        match &self.located.value {
            YamlValue::Text(text) if expected == ValueType::Boolean.to_string() => {
                match text.to_ascii_lowercase().as_str() {
                    "yes" | "on" | "y" | "true" => Some("write true"),
                    "no" | "off" | "n" | "false" => Some("write false"),
                    _ => None,
                }
            }
            YamlValue::Text(text) if is_number => match text.parse::<f64>() {
                Ok(_) if has_leading_zero(text) => Some("write it without the leading zero"),
                Ok(_) => Some("write it without quotes"),
                Err(_) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                    Some("write digits alone, without a unit or separators")
                }
                Err(_) => None,
            },
            YamlValue::Text(_) | YamlValue::Map(_) if expected.starts_with("a list") => {
                Some("begin each item with `- `")
            }
            YamlValue::List(_) if expected == "a map" => Some("write its keys without `- `"),
            _ => None,
        }
    }

    /// Records that the value is not accepted, quoting it without its secrets.
    pub fn reject(&self, expected: Option<String>, hint: Option<String>) {
        if !matches!(self.located.value, YamlValue::Refused) {
            self.report(&format!("found {}", self.found()), expected, hint);
        }
    }

    /// Records a problem about this value in the caller's words, which must not quote a secret.
    pub fn report(&self, what: &str, expected: Option<String>, hint: Option<String>) {
        self.document.record(
            self.located.span,
            &self.path,
            what.to_owned(),
            expected,
            hint,
        );
    }

    pub(crate) fn report_at(
        &self,
        span: Span,
        path: &str,
        what: &str,
        expected: Option<String>,
        hint: Option<String>,
    ) {
        self.document
            .record(span, path, what.to_owned(), expected, hint);
    }

    /// The folder from which relative paths count.
    pub(crate) fn folder(&self) -> &'d Path {
        self.document.folder()
    }

    pub(crate) fn tree(&self) -> &'d YamlValue {
        &self.located.value
    }

    pub(crate) fn span(&self) -> Span {
        self.located.span
    }

    pub(crate) fn document(&self) -> &'d Document {
        self.document
    }

    /// The node of one entry of this map.
    pub(crate) fn child(&self, entry: &'d MapEntry) -> Self {
        Self::new(self.document, &entry.value, self.path_of(&entry.key))
    }

    /// The key path of the key `name` of this map.
    pub(crate) fn path_of(&self, name: &str) -> String {
        // A key is from outside too: it may be long, carry control characters or be a mistyped address.
        let name = quoted_key(name);
        if self.path.is_empty() {
            name
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn nodes(&self, items: &'d [Spanned]) -> Vec<Self> {
        let item =
            |(index, located)| Self::new(self.document, located, format!("{}[{index}]", self.path));
        items.iter().enumerate().map(item).collect()
    }

    /// The value in words, without its secrets.
    fn found(&self) -> String {
        let is_secret = is_secret_at(&self.path);
        match &self.located.value {
            YamlValue::Null | YamlValue::Refused => "nothing".to_owned(),
            YamlValue::Boolean(_) if is_secret => "true or false".to_owned(),
            YamlValue::Integer(_) | YamlValue::Number(..) if is_secret => "a number".to_owned(),
            YamlValue::Text(_) if is_secret => "text that is not shown".to_owned(),
            YamlValue::Boolean(value) => value.to_string(),
            YamlValue::Integer(value) => value.to_string(),
            YamlValue::Number(_, written) => quoted(written),
            YamlValue::Text(text) => format!("\"{}\"", quoted(text)),
            YamlValue::List(items) if items.is_empty() => "an empty list".to_owned(),
            YamlValue::List(_) => "a list".to_owned(),
            YamlValue::Map(_) => "a map".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one reader makes of `text`: the value's debug form, or the problems.
    fn read<T: std::fmt::Debug>(text: &str, reader: impl Fn(Node<'_>) -> Option<T>) -> String {
        let document = Document::parse("conf/f.yaml", &format!("k: {text}\n")).expect("YAML");
        let value = match document.root().value() {
            Value::Map(entries) => reader(entries[0].1.clone()).map(|value| format!("{value:?}")),
            other => panic!("{other:?}"),
        };
        document
            .finish(value)
            .unwrap_or_else(|error| error.problems()[0].to_string())
    }

    #[test]
    fn readers_return_value_or_type_error() {
        let text = |text| read(text, |node| node.text("a label").map(str::to_owned));
        assert_eq!(text("car"), "\"car\"");
        // YAML 1.2 knows no other booleans than true and false.
        assert_eq!(text("off"), "\"off\"");
        assert_eq!(
            text("12"),
            "conf/f.yaml:1: k: found 12, expected a label; write it in quotes if that is what it is"
        );
        assert_eq!(text("''"), "conf/f.yaml:1: k: found \"\", expected a label");
        assert_eq!(
            text("\"a\\0b\""),
            "conf/f.yaml:1: k: found \"a\\u{0}b\", expected a label; line breaks, tabs and other control characters are not accepted"
        );
        assert_eq!(
            text(""),
            "conf/f.yaml:1: k: found nothing, expected a label"
        );
        assert_eq!(
            text("{a: 1}"),
            "conf/f.yaml:1: k: found a map, expected a label"
        );

        let boolean = |text| read(text, |node| node.boolean());
        assert_eq!(boolean("true"), "true");
        assert_eq!(
            boolean("yes"),
            "conf/f.yaml:1: k: found \"yes\", expected true or false; write true"
        );

        let integer = |text| read(text, |node| node.integer(1..=9, Unit::Milliseconds));
        assert_eq!(integer("9"), "9");
        #[rustfmt::skip]
        let cases = [
            ("0", ""),
            ("10", ""),
            ("1.5", ""),
            ("\"5\"", "; write it without quotes"),
            ("\"05\"", "; write it without the leading zero"),
            ("\"5 s\"", "; write digits alone, without a unit or separators"),
            ("\"soon\"", ""),
            ("99999999999999999999", ""),
            ("[5]", ""),
        ];
        for (wrong, hint) in cases {
            let found = wrong.replace("[5]", "a list");
            let wanted = "expected a whole number of milliseconds from 1 to 9";
            assert_eq!(
                integer(wrong),
                format!("conf/f.yaml:1: k: found {found}, {wanted}{hint}")
            );
        }

        let number = |text| read(text, |node| node.number(0.0..=1.0));
        assert_eq!(
            (number("1"), number("0.25")),
            ("1.0".to_owned(), "0.25".to_owned())
        );
        for wrong in ["-0.1", "1e9", ".nan", ".inf", "true"] {
            assert_eq!(
                number(wrong),
                format!("conf/f.yaml:1: k: found {wrong}, expected a number from 0 to 1")
            );
        }

        let word = |text| read(text, |node| node.word(&["tcp", "udp"]));
        assert_eq!(word("udp"), "\"udp\"");
        assert_eq!(
            word("UDP"),
            "conf/f.yaml:1: k: found \"UDP\", expected one of tcp, udp"
        );

        let items = |text| {
            read(text, |node| {
                node.items("a list").map(|items| items[1].path().to_owned())
            })
        };
        assert_eq!(items("[a, b]"), "\"k[1]\"");
        assert_eq!(
            items("a"),
            "conf/f.yaml:1: k: found \"a\", expected a list; begin each item with `- `"
        );
    }

    #[test]
    fn relative_paths_resolve_against_config_folder() {
        let path = |text| read(text, |node| node.path_value());
        assert_eq!(path("a/b"), "\"conf/a/b\"");
        assert_eq!(path("/a/b"), "\"/a/b\"");
        assert_eq!(
            path("~/b"),
            "conf/f.yaml:1: k: found \"~/b\", expected a path; `~` is not expanded: write the whole path"
        );
    }

    #[test]
    fn secrets_are_not_quoted() {
        let secret = |text| read(text, |node| node.secret().map(str::len));
        assert_eq!(secret("hunter2"), "7");
        assert_eq!(secret("\"\""), "0");
        let wanted = "expected text (in quotes where it looks like a number)";
        for (value, found) in [
            ("4711", "a number"),
            ("true", "true or false"),
            ("[hunter2]", "a list"),
        ] {
            let document = Document::parse("f.yaml", &format!("password: {value}\n"));
            let document = document.expect("YAML");
            let node = document.root().optional("password").expect("given");
            assert_eq!(node.secret(), None);
            let error = document.finish(Some(())).expect_err("no text");
            let wanted = format!("f.yaml:1: password: found {found}, {wanted}");
            assert_eq!(error.problems()[0].to_string(), wanted);
        }
        assert_eq!(
            read("rtsp://a:hunter2@b", |node| node.boolean()),
            "conf/f.yaml:1: k: found \"rtsp://***@b\", expected true or false"
        );
    }

    #[test]
    fn rejected_value_is_reported_once() {
        let document = Document::parse("f.yaml", "k: !x 1\n").expect("YAML");
        let Value::Map(entries) = document.root().value() else {
            panic!("a map")
        };
        assert_eq!(entries[0].1.boolean(), None);
        let error = document.finish(Some(())).expect_err("a tag");
        assert_eq!(error.problems().len(), 1, "{error}");
    }
}
