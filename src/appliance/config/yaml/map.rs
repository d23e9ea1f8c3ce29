// SPDX-License-Identifier: Apache-2.0
//! A map read by the specification of its keys: unknown keys are reported, ranges and defaults come from the specification.
//!
//! The readers that [`Section`](super::Section) derives call these methods; so do rules between keys, which may read a key
//! again: a problem that is recorded twice is reported once. To ask for a key that is not listed, or is of another type, is
//! a bug of the caller and panics; tests that load a file with every key find it. No content of a file makes it panic.

use std::path::PathBuf;
use std::time::Duration;

use super::node::{Node, Value};
use super::tree::{MapEntry, Span, Spanned, YamlValue};
use crate::redact::quoted;
use crate::schema::{DefaultValue, KeySpec, Unit, ValueType};
use crate::section::Parsed;

/// A map with known keys.
#[derive(Debug)]
pub struct Map<'d> {
    node: Node<'d>,
    keys: &'static [KeySpec],
    entries: &'d [MapEntry],
    /// Where its missing keys are reported: its own span, or that of the map around one that was left out.
    span: Span,
}

/// Stands for a map that is not there: a section that was left out has all of its defaults.
static LEFT_OUT: Spanned = Spanned {
    span: None,
    value: YamlValue::Null,
};

impl<'d> Map<'d> {
    /// Records every entry whose key is not among `keys`.
    pub(crate) fn new(node: Node<'d>, keys: &'static [KeySpec], entries: &'d [MapEntry]) -> Self {
        node.refuse_unknown(entries, keys.iter().map(|key| key.name));
        Self::unchecked(node, keys, entries)
    }

    /// As [`new`](Self::new), for entries that were checked already.
    pub(super) fn unchecked(
        node: Node<'d>,
        keys: &'static [KeySpec],
        entries: &'d [MapEntry],
    ) -> Self {
        let span = node.span();
        Self {
            node,
            keys,
            entries,
            span,
        }
    }

    /// The map as a plain value.
    pub fn node(&self) -> &Node<'d> {
        &self.node
    }

    /// The outermost map of the same file, for defaults that depend on other sections.
    pub(crate) fn root(&self, keys: &'static [KeySpec]) -> Option<Self> {
        self.node.document().root().map(keys)
    }

    /// Whether the key was given, even if with a wrong value.
    pub fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// The value of the key; `None` when it is not given, which is a problem when it is required.
    pub fn get(&self, name: &str) -> Option<Node<'d>> {
        let key = self.key(name);
        let found = self.entry(name).map(|entry| self.node.child(entry));
        if found.is_none() && key.default == DefaultValue::Required {
            self.missing(name, &key.value.to_string());
        }
        found
    }

    /// Text, with its default.
    pub fn text(&self, name: &str) -> Option<String> {
        let ValueType::Text(form) = self.key(name).value else {
            self.schema_mismatch(name, "text")
        };
        match (self.get(name), self.key(name).default) {
            (Some(node), _) => node.text(form).map(str::to_owned),
            (None, DefaultValue::Text(text)) => Some(text.to_owned()),
            (None, _) => None,
        }
    }

    /// A secret.
    pub fn secret(&self, name: &str) -> Option<String> {
        let ValueType::Secret = self.key(name).value else {
            self.schema_mismatch(name, "a secret")
        };
        self.get(name)?.secret().map(str::to_owned)
    }

    /// A path, with its default; a relative one counts from the folder of the file.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let ValueType::Path = self.key(name).value else {
            self.schema_mismatch(name, "a path")
        };
        match (self.get(name), self.key(name).default) {
            (Some(node), _) => node.path_value(),
            (None, DefaultValue::Text(path)) => Some(path.into()),
            (None, _) => None,
        }
    }

    /// A flag, with its default.
    pub fn boolean(&self, name: &str) -> Option<bool> {
        let ValueType::Boolean = self.key(name).value else {
            self.schema_mismatch(name, "a flag")
        };
        match (self.get(name), self.key(name).default) {
            (Some(node), _) => node.boolean(),
            (None, DefaultValue::Boolean(value)) => Some(value),
            (None, _) => None,
        }
    }

    /// A whole number within its range, with its default. A range that does not fit `T` is a bug of the declaration,
    /// and ends as if the number were out of range.
    pub fn integer<T: TryFrom<i64>>(&self, name: &str) -> Option<T> {
        let form = self.key(name).value;
        let ValueType::Integer { min, max, unit } = form else {
            self.schema_mismatch(name, "a whole number")
        };
        match (self.get(name), self.key(name).default) {
            (Some(node), _) => {
                let value = node.integer(min..=max, unit)?;
                T::try_from(value)
                    .ok()
                    .or_else(|| node.type_error(&form.to_string()))
            }
            (None, DefaultValue::Integer(value)) => T::try_from(value).ok(),
            (None, _) => None,
        }
    }

    /// A whole number within its range, or `None` inside for its word; with its default.
    pub(crate) fn word_or_count(&self, name: &str) -> Option<Option<u32>> {
        let form = self.key(name).value;
        let ValueType::WordOrCount { word, max, .. } = form else {
            self.schema_mismatch(name, "a word or a whole number")
        };
        match (self.get(name), self.key(name).default) {
            (Some(node), _) => match node.value() {
                Value::Text(text) if text == word => Some(None),
                Value::Integer(count) if (0..=max).contains(&count) => {
                    u32::try_from(count).ok().map(Some)
                }
                _ => node.type_error(&form.to_string()),
            },
            (None, DefaultValue::Integer(count)) => u32::try_from(count).ok().map(Some),
            (None, _) => None,
        }
    }

    /// A duration in its unit, with its default.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        let value = self.integer::<u64>(name);
        match self.key(name).value {
            ValueType::Integer {
                unit: Unit::Milliseconds,
                ..
            } => value.map(Duration::from_millis),
            ValueType::Integer {
                unit: Unit::Seconds,
                ..
            } => value.map(Duration::from_secs),
            _ => self.schema_mismatch(name, "a duration"),
        }
    }

    /// A number within its range, with its default.
    pub fn number(&self, name: &str) -> Option<f32> {
        let form = self.key(name).value;
        let ValueType::Number {
            min,
            min_accepted,
            max,
        } = form
        else {
            self.schema_mismatch(name, "a number")
        };
        let accepts = |value: f64| value <= max && (value > min || (min_accepted && value == min));
        let value = match (self.get(name), self.key(name).default) {
            (Some(node), _) => node.number_as(&form, accepts),
            (None, DefaultValue::Number(value)) => Some(value),
            (None, _) => None,
        };
        value.map(|value| value as f32)
    }

    /// The one of `choices` whose word stands here, in the order of the specified words, with its default.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[T]) -> Option<T> {
        let key = self.key(name);
        let ValueType::Words(words) = key.value else {
            self.schema_mismatch(name, "a word")
        };
        assert_eq!(
            words.len(),
            choices.len(),
            "BUG: one choice for each word of `{name}`"
        );
        let word = match (self.get(name), key.default) {
            (Some(node), _) => node.word(words),
            (None, DefaultValue::Text(word)) => Some(word),
            (None, _) => None,
        }?;
        words
            .iter()
            .position(|known| *known == word)
            .map(|index| choices[index])
    }

    /// A list of texts without repetitions; empty when it is not given.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        let ValueType::Texts(form) = self.key(name).value else {
            self.schema_mismatch(name, "a list of texts")
        };
        let Some(node) = self.get(name) else {
            return Some(Vec::new());
        };
        let items = node.items(&ValueType::Texts(form).to_string())?;
        let mut texts: Vec<String> = Vec::with_capacity(items.len());
        for item in items {
            let Some(text) = item.text(form) else {
                continue;
            };
            if texts.iter().any(|known| known == text) {
                item.report(&format!("\"{}\" is given twice", quoted(text)), None, None);
            }
            texts.push(text.to_owned());
        }
        Some(texts)
    }

    /// A map inside this one. One that is not given has its defaults, and its required keys are missing.
    pub fn section(&self, name: &str) -> Option<Map<'d>> {
        let (ValueType::Map(keys) | ValueType::WordOrMap(_, keys)) = self.key(name).value else {
            self.schema_mismatch(name, "a map")
        };
        match self.get(name) {
            Some(node) => node.map(keys),
            None if self.key(name).default == DefaultValue::Required => None,
            None => {
                let node = Node::new(self.node.document(), &LEFT_OUT, self.node.path_of(name));
                Some(Map {
                    node,
                    keys,
                    entries: &[],
                    span: self.span,
                })
            }
        }
    }

    /// The maps of a list, none where it is not given. Items that are no maps are recorded and left out, so that the others
    /// are still checked.
    pub fn list(&self, name: &str) -> Option<Vec<Map<'d>>> {
        match self.has(name) || self.key(name).default == DefaultValue::Required {
            true => self.sections(name),
            false => Some(Vec::new()),
        }
    }

    /// `Some(None)` for a key that is not given, else what `read` gives.
    pub fn optional<T>(&self, name: &str, read: impl FnOnce() -> Option<T>) -> Option<Option<T>> {
        match self.has(name) {
            true => read().map(Some),
            false => Some(None),
        }
    }

    /// Text that `accepts`.
    pub fn checked(&self, name: &str, accepts: impl FnOnce(&str) -> bool) -> Option<String> {
        self.parsed(name, |text| accepts(text).then(|| text.to_owned()))
    }

    /// Text as `parse` converts it.
    pub fn parsed<T, P: Parsed<T>>(&self, name: &str, parse: impl FnOnce(&str) -> P) -> Option<T> {
        let text = self.text(name)?;
        match parse(&text).outcome() {
            Ok(value) => Some(value),
            Err(Some(problem)) => {
                self.invalid(name, &problem, None);
                None
            }
            Err(None) => self.get(name)?.type_error(&self.expected(name)),
        }
    }

    /// The accepted form of the key, for `expected …`.
    pub fn expected(&self, name: &str) -> String {
        self.key(name).value.to_string()
    }

    fn sections(&self, name: &str) -> Option<Vec<Map<'d>>> {
        let form = self.key(name).value;
        let ValueType::Maps(keys) = form else {
            self.schema_mismatch(name, "a list of maps")
        };
        let node = self.get(name)?;
        let items = node.items(&form.to_string())?;
        if items.is_empty() {
            return node.type_error(&form.to_string());
        }
        Some(items.iter().filter_map(|item| item.map(keys)).collect())
    }

    /// Records that the key must be given, with what it accepts.
    pub fn missing(&self, name: &str, expected: &str) {
        let path = self.node.path_of(name);
        self.node
            .report_at(self.span, &path, "missing", Some(expected.to_owned()), None);
    }

    /// Records that the key, which was given, does not fit here; `what` must not quote a secret.
    pub fn invalid(&self, name: &str, what: &str, hint: Option<&str>) {
        let span = self.entry(name).map_or(self.span, |entry| entry.span);
        let path = self.node.path_of(name);
        self.node
            .report_at(span, &path, what, None, hint.map(str::to_owned));
    }

    fn entry(&self, name: &str) -> Option<&'d MapEntry> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    pub(crate) fn key(&self, name: &str) -> &'static KeySpec {
        let found = self.keys.iter().find(|key| key.name == name);
        found.unwrap_or_else(|| self.schema_mismatch(name, "a key"))
    }

    fn schema_mismatch(&self, name: &str, form: &str) -> ! {
        panic!(
            "BUG: the section `{}` does not declare `{name}` as {form}",
            self.node.path()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigError, Document, KeyValue, Section, Words};

    #[derive(Debug, Clone, Copy, PartialEq, Words)]
    enum Level {
        Low,
        High,
    }

    #[derive(Debug, PartialEq, Section)]
    struct Inner {
        /// How high.
        #[key(default = "low")]
        level: Level,
        /// Its number.
        #[key(range = 1..=300, unit = "things")]
        id: u8,
    }

    #[derive(Debug, PartialEq, Section)]
    struct Outer {
        /// How long.
        #[key(name = "wait_ms", range = 1..=100, default = 7)]
        wait: Duration,
        /// How much.
        #[key(range = 0.0..=1.0, exclusive_min, default = 0.5)]
        share: f32,
        /// Which.
        #[key(text = "a label")]
        labels: Vec<String>,
        /// One more.
        inner: Option<Inner>,
        /// Many more.
        many: Vec<Inner>,
    }

    /// What `reader` gives, or the problems without their count.
    fn read<T: std::fmt::Debug>(text: &str, reader: impl Fn(&Map<'_>) -> Option<T>) -> String {
        let document = Document::parse("f.yaml", text).expect("YAML");
        let value = document
            .root()
            .map(Outer::KEYS)
            .and_then(|map| reader(&map).map(|value| format!("{value:?}")));
        let lines = |error: ConfigError| {
            error
                .problems()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        };
        document.finish(value).unwrap_or_else(lines)
    }

    #[test]
    fn defaults_come_from_schema() {
        assert_eq!(read("labels: []", |map| map.duration("wait_ms")), "7ms");
        assert_eq!(read("labels: []", |map| map.number("share")), "0.5");
        assert_eq!(
            read("inner: {id: 3}", |map| map
                .section("inner")
                .and_then(|map| Level::read(&map, "level"))),
            "Low"
        );
        assert_eq!(read("wait_ms: 8", |map| map.texts("labels")), "[]");
    }

    #[test]
    fn values_outside_schema_are_rejected() {
        let share = |text| read(text, |map| map.number("share"));
        assert_eq!(share("share: 1"), "1.0");
        assert_eq!(
            share("share: 0"),
            "f.yaml:1: share: found 0, expected a number above 0, up to 1"
        );
        let id = |text| read(text, |map| map.section("inner")?.integer::<u8>("id"));
        assert_eq!(id("inner: {id: 255}"), "255");
        let wanted = "expected a whole number of things from 1 to 300";
        assert_eq!(
            id("inner: {id: 256}"),
            format!("f.yaml:1: inner.id: found 256, {wanted}")
        );
        assert_eq!(
            id("wait_ms: 1"),
            format!("f.yaml:1: inner.id: missing, {wanted}")
        );
        assert_eq!(
            read("labels: [a, b, a]", |map| map.texts("labels")),
            "f.yaml:1: labels[2]: \"a\" is given twice"
        );
    }

    #[test]
    fn a_section_is_read_with_all_of_its_problems() {
        let text = "inner: {id: 2, level: high}\nmany: [{id: 3}]";
        let document = Document::parse("f.yaml", text).expect("YAML");
        let map = document.root().map(Outer::KEYS).expect("a map");
        let level = |level, id| Inner { level, id };
        let wanted = Outer {
            wait: Duration::from_millis(7),
            share: 0.5,
            labels: Vec::new(),
            inner: Some(level(Level::High, 2)),
            many: vec![level(Level::Low, 3)],
        };
        assert_eq!(Outer::from_map(&map), Some(wanted));

        let whole = |text| read(text, Outer::from_map);
        assert!(whole("wait_ms: 3").contains("inner: None, many: []"));
        assert_eq!(
            whole("wait_ms: 0\ninner: {level: x}\nmany: [{id: 1}, {}]"),
            "f.yaml:1: wait_ms: found 0, expected a whole number of milliseconds from 1 to 100\n\
             f.yaml:2: inner.id: missing, expected a whole number of things from 1 to 300\n\
             f.yaml:2: inner.level: found \"x\", expected one of low, high\n\
             f.yaml:3: many[1].id: missing, expected a whole number of things from 1 to 300"
        );
    }

    #[test]
    fn all_items_of_a_list_are_checked() {
        assert_eq!(
            read("many:\n - x\n - {idd: 1}\n - {zones: 1}\n", |map| map
                .sections("many")
                .map(|maps| maps.len())),
            "f.yaml:2: many[0]: found \"x\", expected a map\n\
             f.yaml:3: many[1].idd: unknown key; did you mean `id`?\n\
             f.yaml:4: many[2].zones: unknown key; known here: level, id"
        );
        let wanted = "expected a list of maps with at least one";
        assert_eq!(
            read("many: []", |map| map
                .sections("many")
                .map(|maps| maps.len())),
            format!("f.yaml:1: many: found an empty list, {wanted}")
        );
    }

    #[test]
    #[should_panic(expected = "BUG: the section `` does not declare `labels` as a flag")]
    fn reading_with_other_type_than_schema_panics() {
        read("labels: []", |map| map.boolean("labels"));
    }
}
