// SPDX-License-Identifier: Apache-2.0
//! Rules of one source, changed in the text of a configuration, and sources added to it: the rest of the text, with its
//! comments, stays as it is.
//!
//! Works on the lines of files in block style. What cannot be changed so is refused, and nothing is guessed: the result is read again,
//! and must be the configuration of before but for these rules or sources. Called by the page, through the pipeline, and by `jetwatch discover`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use serde_json::{Map, Value};

use super::yaml::document::Document;
use super::yaml::tree::{MapEntry, Spanned, YamlValue};
use super::{Config, ConfigError, SceneRules, SourceConfig, restart_required_keys};

/// A rule as it is to be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EditedRule {
    /// Its name in the file, where it gets another one.
    pub was: Option<String>,
    /// Keys that are set, by their names in the file; null: the key is left out. Keys of the file that are not here stay as they are.
    /// `coordinates` may be a list of points.
    pub keys: Map<String, Value>,
}

/// Sections of a source, such as `zones`, with all of their rules; `stationary` has one or none. Other sections stay as they are.
pub type EditedSections = [(&'static str, Vec<EditedRule>)];

/// The rules of each section of a source, as they are written; `stationary` as a list of one.
pub type WrittenRules = HashMap<&'static str, Vec<Value>>;

/// What a file says of the rules of its sources, and what they may refer to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileRules {
    /// By the names of the sources.
    pub sources: HashMap<String, WrittenRules>,
    /// The names of `schedules`.
    pub schedules: Vec<String>,
    /// The labels of each group of `detector.groups`.
    pub groups: Value,
}

/// The sections of a source that have rules.
const SECTIONS: [&str; 4] = ["zones", "lines", "directions", "stationary"];

/// Why rules cannot be changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum RuleEditError {
    #[error("{}", .0.join("; "))]
    Problems(Vec<String>),
    #[error("{reason}")]
    Form { reason: String },
}

/// The rules in the text of a configuration.
#[must_use]
pub fn rules_of_file(text: &str) -> FileRules {
    let Ok(document) = Document::parse("", text) else {
        return FileRules::default();
    };
    let root = document.located();
    let written = |source: &&Spanned| {
        let sections = SECTIONS.map(|key| (key, section_json(Some(source), key)));
        (name_of(source).to_owned(), sections.into_iter().collect())
    };
    let sources = items_of(entry(root, "sources"));
    let schedules = entry(root, "schedules").map(entries_of);
    let schedules = schedules.unwrap_or_default().iter();
    let groups = entry(root, "detector").and_then(|detector| entry(detector, "groups"));
    FileRules {
        groups: groups.map_or(Value::Null, |groups| json_of(&groups.value)),
        sources: sources.iter().map(written).collect(),
        schedules: schedules.map(|entry| entry.key.clone()).collect(),
    }
}

/// The sections as they stand in a configuration, below the keys of a source.
#[must_use]
pub fn rules_yaml(sections: &EditedSections) -> String {
    yaml_of(None, sections)
}

/// The same with the keys that the source of a file has beyond the changed ones.
fn yaml_of(source: Option<&Spanned>, sections: &EditedSections) -> String {
    let mut text = String::new();
    for (key, rules) in sections.iter().filter(|(_, rules)| !rules.is_empty()) {
        let items = items_of(source.and_then(|source| entry(source, key)));
        push_section(&mut text, key, &merged(rules, &items), "");
    }
    text
}

/// The text of a configuration with other rules of `source`, behind these rules as [`rules_yaml`] has them, with the keys that the file
/// has beyond the changed ones. Keys that are as before keep their lines with their comments. `label` names the file in problems.
///
/// # Errors
/// Of the text: the rules or the file have problems, or the file is not written in a form that can be changed.
pub fn edit_rules(
    label: &str,
    text: &str,
    source: &str,
    sections: &EditedSections,
) -> (String, Result<String, RuleEditError>) {
    match Document::parse(label, text) {
        Ok(document) => {
            let yaml = yaml_of(source_of(document.located(), source), sections);
            (yaml, edited(label, text, &document, source, sections))
        }
        Err(error) => (rules_yaml(sections), Err(problems(error))),
    }
}

fn edited(
    label: &str,
    text: &str,
    document: &Document,
    source: &str,
    sections: &EditedSections,
) -> Result<String, RuleEditError> {
    let before = Config::from_document(document.clone()).map_err(problems)?;
    let index = before.sources.iter().position(|known| known.name == source);
    let index = index.ok_or_else(|| form(&format!("the file has no source named {source}")))?;
    let mut edit = Edit::of(document.located(), index, text)?;
    for (key, rules) in sections {
        edit.set(key, rules)?;
    }
    let edited = edit.finish();
    let new = Document::parse(label, &edited).map_err(problems)?;
    let after = Config::from_document(new.clone()).map_err(problems)?;
    let [old, new] = [document, &new].map(|tree| source_of(tree.located(), source));
    match is_kept(&before, &after, index) && has_sections(old, new, sections) {
        true => Ok(edited),
        false => Err(form("the file would not mean what was drawn")),
    }
}

/// The text of a configuration with further sources. `added` are items of the list `sources` in block style, each beginning with
/// `- name:` or a comment in the first column.
///
/// # Errors
/// The file has problems, also with these sources, or is not written in a form that can be changed.
pub fn add_sources(label: &str, text: &str, added: &str) -> Result<String, RuleEditError> {
    let form = |what: &str| RuleEditError::Form {
        reason: format!("{what}; paste the sources into the file"),
    };
    let document = Document::parse(label, text).map_err(problems)?;
    let before = Config::from_document(document.clone()).map_err(problems)?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let YamlValue::Map(keys) = &document.located().value else {
        return Err(form("the file is not a map of keys"));
    };
    let key = keys.iter().find(|entry| entry.key == "sources");
    let place = key.and_then(|entry| match (&entry.value.value, entry.span) {
        (YamlValue::List(items), Some((line, _))) => Some((line - 1, items.first()?.span?.0 - 1)),
        _ => None,
    });
    let first = place.and_then(|(_, first)| lines.get(first));
    let is_block = first.is_some_and(|first| first.trim_start().starts_with("- "));
    let (Some((line, _)), Some(first), true) = (place, first, is_block) else {
        return Err(form(
            "sources are not written as a list with each source on lines of its own",
        ));
    };
    let pad = &first[..first.len() - first.trim_start().len()];
    let end = block_end(&lines, line, 0, true);
    let mut edited: String = lines[..end].concat();
    if !edited.ends_with('\n') {
        edited.push('\n');
    }
    for line in added.lines() {
        let _ = writeln!(edited, "{pad}{line}");
    }
    edited.extend(lines[end..].iter().copied());
    let after = Config::from_str(label, &edited).map_err(problems)?;
    let is_kept = after.sources.starts_with(&before.sources)
        && after.sources.len() > before.sources.len()
        && restart_required_keys(&before, &after).is_empty();
    match is_kept {
        true => Ok(edited),
        false => Err(form("the file would not mean what was added")),
    }
}

fn problems(error: ConfigError) -> RuleEditError {
    let texts = error.problems().iter().map(ToString::to_string);
    let texts: Vec<String> = texts.collect();
    RuleEditError::Problems(match texts.is_empty() {
        true => vec![error.to_string()],
        false => texts,
    })
}

fn form(what: &str) -> RuleEditError {
    RuleEditError::Form {
        reason: format!("{what}; paste the rules into the file and reload"),
    }
}

/// Whether `after` is `before` but for the rules of one source.
fn is_kept(before: &Config, after: &Config, index: usize) -> bool {
    let without_rules = |source: &SourceConfig| SourceConfig {
        rules: SceneRules::default(),
        ..source.clone()
    };
    let is_same = |at: usize| match at == index {
        true => without_rules(&before.sources[at]) == without_rules(&after.sources[at]),
        false => before.sources[at] == after.sources[at],
    };
    before.sources.len() == after.sources.len()
        && (0..before.sources.len()).all(is_same)
        && restart_required_keys(before, after).is_empty()
}

/// Whether a source has the wanted sections, and the others as before.
fn has_sections(old: Option<&Spanned>, new: Option<&Spanned>, sections: &EditedSections) -> bool {
    SECTIONS.iter().all(|key| {
        let (old, new) = (section_json(old, key), section_json(new, key));
        let Some((_, rules)) = sections.iter().find(|(wanted, _)| wanted == key) else {
            return old == new;
        };
        let named = |items: &[Value], name: &str| {
            let has_name = |item: &&Value| item["name"].as_str().unwrap_or_default() == name;
            items.iter().find(has_name).cloned()
        };
        let has = |rule: &EditedRule| {
            let mut wanted = named(&old, rule.old_name()).unwrap_or_default();
            for (key, value) in &rule.keys {
                wanted[key] = value.clone();
            }
            let Some(found) = named(&new, rule.name()) else {
                return false;
            };
            let keys = wanted.as_object().into_iter().chain(found.as_object());
            keys.flat_map(|keys| keys.keys())
                .all(|key| is_same(key, &found[key], &wanted[key]))
        };
        new.len() == rules.len() && rules.iter().all(has)
    })
}

impl EditedRule {
    fn name(&self) -> &str {
        self.keys
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Its name in the file of before.
    fn old_name(&self) -> &str {
        self.was.as_deref().unwrap_or_else(|| self.name())
    }

    /// What the value of a key becomes; `None`: it stays.
    fn change(&self, entry: &MapEntry) -> Option<&Value> {
        let wanted = self.keys.get(&entry.key)?;
        (!is_same(&entry.key, &json_of(&entry.value.value), wanted)).then_some(wanted)
    }

    /// Keys that are not in the file, with their values.
    fn added<'r>(&'r self, entries: &[MapEntry]) -> impl Iterator<Item = (&'r str, String)> {
        let is_new = |key: &str| !entries.iter().any(|entry| entry.key == key);
        let mut keys: Vec<(&str, &Value)> = self
            .keys
            .iter()
            .filter(|(key, value)| !value.is_null() && is_new(key))
            .map(|(key, value)| (key.as_str(), value))
            .collect();
        // As people write them.
        let order = |key: &str| ["name", "coordinates"].iter().position(|one| *one == key);
        keys.sort_by_key(|(key, _)| order(key).unwrap_or(usize::MAX));
        keys.into_iter().map(|(key, value)| (key, flow(key, value)))
    }

    /// All of its keys with their values, those of the file first.
    fn all_keys(&self, entries: &[MapEntry]) -> Vec<(String, String)> {
        let kept = entries.iter().filter_map(|entry| {
            let value = match self.change(entry) {
                Some(Value::Null) => return None,
                Some(value) => flow(&entry.key, value),
                None => flow(&entry.key, &json_of(&entry.value.value)),
            };
            Some((entry.key.clone(), value))
        });
        let added = self
            .added(entries)
            .map(|(key, text)| (key.to_owned(), text));
        kept.chain(added).collect()
    }
}

/// All keys of each rule; `items` are the rules of the file.
fn merged(rules: &[EditedRule], items: &[&Spanned]) -> Vec<Vec<(String, String)>> {
    let of = |rule: &EditedRule| {
        let item = items.iter().find(|item| name_of(item) == rule.old_name());
        rule.all_keys(item.map(|item| entries_of(item)).unwrap_or_default())
    };
    rules.iter().map(of).collect()
}

/// Whether a key has the wanted value, coordinates as far as the text shows: four digits.
fn is_same(key: &str, found: &Value, wanted: &Value) -> bool {
    if key == "coordinates"
        && let (Some(found), Some(wanted)) = (points_of(found), points_of(wanted))
    {
        let pairs = found.iter().zip(&wanted);
        return found.len() == wanted.len()
            && pairs.into_iter().all(|(a, b)| (a - b).abs() < 0.000_06);
    }
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => found.as_f64() == wanted.as_f64(),
        (found, wanted) => found == wanted,
    }
}

/// Coordinates, as points or as the text of a file.
fn points_of(value: &Value) -> Option<Vec<f64>> {
    match value {
        Value::String(text) => text
            .split(',')
            .map(|part| part.trim().parse().ok())
            .collect(),
        Value::Array(points) => {
            let points = points.iter().map(|point| {
                let [x, y] = point.as_array()?.as_slice() else {
                    return None;
                };
                Some([x.as_f64()?, y.as_f64()?])
            });
            let points: Option<Vec<[f64; 2]>> = points.collect();
            points.map(|points| points.concat())
        }
        _ => None,
    }
}

/// A value as it is written behind its key, on one line. Names are checked when the result is read; quotes keep `on` and `1` texts.
fn flow(key: &str, value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match (key, points_of(value), value) {
        ("coordinates", Some(points), _) => format!("\"{}\"", coordinates(&points)),
        (_, _, Value::Array(items)) => {
            format!(
                "[{}]",
                joined(items.iter().map(|item| flow("", item)).collect())
            )
        }
        (_, _, Value::Object(keys)) => {
            let entry = |(key, value): (&String, &Value)| format!("{key}: {}", flow("", value));
            format!("{{{}}}", joined(keys.iter().map(entry).collect()))
        }
        _ => value.to_string(),
    }
}

/// A value of the file as JSON.
fn json_of(value: &YamlValue) -> Value {
    match value {
        YamlValue::Null | YamlValue::Refused => Value::Null,
        YamlValue::Boolean(value) => Value::from(*value),
        YamlValue::Integer(value) => Value::from(*value),
        YamlValue::Number(value, _) => Value::from(*value),
        YamlValue::Text(text) => Value::from(text.as_str()),
        YamlValue::List(items) => items.iter().map(|item| json_of(&item.value)).collect(),
        YamlValue::Map(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), json_of(&entry.value.value)))
            .collect(),
    }
}

fn coordinates(shares: &[f64]) -> String {
    let share = |share: &f64| {
        let text = format!("{share:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" {
            "0".to_owned()
        } else {
            text.to_owned()
        }
    };
    let shares: Vec<String> = shares.iter().map(share).collect();
    shares.join(",")
}

/// A section of rules, each with all of its keys.
fn push_section(text: &mut String, key: &str, rules: &[Vec<(String, String)>], pad: &str) {
    let _ = writeln!(text, "{pad}{key}:");
    for rule in rules {
        push_rule(text, rule, &format!("{pad}  "), key == "stationary");
    }
}

fn push_rule(text: &mut String, rule: &[(String, String)], pad: &str, is_map: bool) {
    for (number, (key, value)) in rule.iter().enumerate() {
        let dash = match (is_map, number) {
            (true, _) => "",
            (false, 0) => "- ",
            (false, _) => "  ",
        };
        let _ = writeln!(text, "{pad}{dash}{key}: {value}");
    }
}

/// The lines of the file, of which some are replaced.
struct Edit<'t> {
    lines: Vec<&'t str>,
    /// Of the source, from its first line to the one behind its last.
    item: Range<usize>,
    /// Column of its keys, from 0.
    column: usize,
    /// The keys of the source with their values.
    keys: HashMap<&'t str, &'t Spanned>,
    /// Line of each key, from 0.
    key_lines: HashMap<&'t str, usize>,
    /// Ranges of lines with what takes their place.
    changes: Vec<(Range<usize>, String)>,
}

impl<'t> Edit<'t> {
    fn of(root: &'t Spanned, index: usize, text: &'t str) -> Result<Self, RuleEditError> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let item = entry(root, "sources").and_then(|sources| match &sources.value {
            YamlValue::List(items) => items.get(index),
            _ => None,
        });
        let Some(YamlValue::Map(entries)) = item.map(|item| &item.value) else {
            return Err(form("the source is not written as a list of keys"));
        };
        let Some((places, column)) = block_keys(&lines, entries) else {
            return Err(form(
                "the source does not have each key on a line of its own",
            ));
        };
        let named = || entries.iter().map(|entry| entry.key.as_str());
        let keys = named().zip(entries.iter().map(|entry| &entry.value));
        let (keys, key_lines) = (
            keys.collect(),
            named().zip(places.iter().copied()).collect(),
        );
        let (first, last) = (places[0], places[places.len() - 1]);
        let end = block_end(&lines, last, column, true);
        Ok(Self {
            lines,
            item: first..end,
            column,
            keys,
            key_lines,
            changes: Vec::new(),
        })
    }

    /// Sets the section `key` to `rules`.
    fn set(&mut self, key: &str, rules: &[EditedRule]) -> Result<(), RuleEditError> {
        let pad = " ".repeat(self.column);
        let value = self.keys.get(key).copied();
        let items = items_of(value);
        let is_unchanged = |item: &&Spanned| {
            let rule = rules.iter().find(|rule| rule.old_name() == name_of(item));
            rule.is_some_and(|rule| {
                let entries = entries_of(item);
                entries.iter().all(|entry| rule.change(entry).is_none())
                    && rule.added(entries).next().is_none()
            })
        };
        if items.len() == rules.len() && items.iter().all(is_unchanged) {
            return Ok(());
        }
        let mut text = String::new();
        let Some(line) = self.key_lines.get(key).copied() else {
            push_section(&mut text, key, &merged(rules, &[]), &pad);
            let end = self.item.end;
            if end > 0 && !self.lines[end - 1].ends_with('\n') {
                text.insert(0, '\n');
            }
            self.changes.push((end..end, text));
            return Ok(());
        };
        if !matches!(
            value.map(|value| &value.value),
            Some(YamlValue::List(_) | YamlValue::Map(_) | YamlValue::Null)
        ) {
            return Err(form(&format!("{key} is not written as rules")));
        }
        let section = line..block_end(&self.lines, line, self.column, true);
        let is_map = value.is_some_and(|value| matches!(value.value, YamlValue::Map(_)));
        let starts = match is_map {
            true => block_keys(&self.lines, entries_of(items[0])).map(|(lines, _)| vec![lines[0]]),
            false => self.item_lines(line, &items),
        };
        match (rules, starts) {
            ([], _) => {}
            (_, Some(starts)) => self.edit_items(&mut text, &section, &starts, &items, rules),
            (_, None) => push_section(&mut text, key, &merged(rules, &items), &pad),
        }
        self.changes.push((section, text));
        Ok(())
    }

    /// The line of each item, where each begins a line of its own behind the line of the key.
    fn item_lines(&self, key_line: usize, items: &[&Spanned]) -> Option<Vec<usize>> {
        let mut starts = Vec::new();
        for item in items {
            let line = item.span?.0 - 1;
            let is_own = line > key_line
                && starts.last().is_none_or(|last| line > *last)
                && self.lines.get(line)?.trim_start().starts_with("- ");
            if !is_own {
                return None;
            }
            starts.push(line);
        }
        (!starts.is_empty()).then_some(starts)
    }

    /// Writes the section with its items, of which those that stay keep their lines.
    fn edit_items(
        &self,
        text: &mut String,
        section: &Range<usize>,
        starts: &[usize],
        items: &[&Spanned],
        rules: &[EditedRule],
    ) {
        text.extend(self.lines[section.start..starts[0]].iter().copied());
        let ends = starts.iter().skip(1).chain(std::iter::once(&section.end));
        let mut left: Vec<&EditedRule> = rules.iter().collect();
        for ((start, end), item) in starts.iter().zip(ends).zip(items) {
            let name = name_of(item);
            let Some(at) = left.iter().position(|rule| rule.old_name() == name) else {
                continue;
            };
            let rule = left.remove(at);
            self.edit_item(text, *start..*end, entries_of(item), rule);
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let first = self.lines[starts[0]];
        let pad = &first[..first.len() - first.trim_start().len()];
        for rule in left {
            push_rule(text, &rule.all_keys(&[]), pad, false);
        }
    }

    /// Writes the lines of one item: those of keys that stay as they are, others are written again, in flow style on one line.
    fn edit_item(
        &self,
        text: &mut String,
        lines: Range<usize>,
        entries: &[MapEntry],
        rule: &EditedRule,
    ) {
        let first = self.lines[lines.start];
        let Some((starts, column)) = block_keys(&self.lines, entries) else {
            let indent = first.len() - first.trim_start().len();
            let end = block_end(&self.lines, lines.start, indent, false);
            let keys = rule.all_keys(entries);
            let keys: Vec<String> = keys
                .iter()
                .map(|(key, text)| format!("{key}: {text}"))
                .collect();
            let comment = trailing_comment(self.lines[end - 1]);
            let _ = writeln!(
                text,
                "{}- {{{}}}{comment}",
                &first[..indent],
                keys.join(", ")
            );
            text.extend(self.lines[end..lines.end.max(end)].iter().copied());
            return;
        };
        // Of the first line: with the dash of a list's item.
        let mut prefix = &first[..column];
        let pad = " ".repeat(column);
        let ends = starts.iter().skip(1).chain(std::iter::once(&lines.end));
        for (number, ((start, end), entry)) in starts.iter().zip(ends).zip(entries).enumerate() {
            let value_end = block_end(&self.lines, *start, column, true).min(*end);
            let line = self.lines[*start];
            match rule.change(entry) {
                Some(Value::Null) => {}
                Some(value) => {
                    let comment = match value_end == start + 1 {
                        true => trailing_comment(&line[column..]),
                        false => "",
                    };
                    let _ = writeln!(
                        text,
                        "{prefix}{}: {}{comment}",
                        entry.key,
                        flow(&entry.key, value)
                    );
                    prefix = &pad;
                }
                None => {
                    text.push_str(prefix);
                    text.push_str(&line[column..]);
                    text.extend(self.lines[start + 1..value_end].iter().copied());
                    prefix = &pad;
                }
            }
            if number + 1 == entries.len() {
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                for (key, value) in rule.added(entries) {
                    let _ = writeln!(text, "{prefix}{key}: {value}");
                    prefix = &pad;
                }
            }
            text.extend(self.lines[value_end..*end].iter().copied());
        }
    }

    /// The text with all changes.
    fn finish(mut self) -> String {
        // Insertions at one place stay in their order.
        self.changes
            .sort_by_key(|(range, _)| (range.start, range.end));
        let mut text = String::new();
        let mut at = 0;
        for (range, changed) in &self.changes {
            text.extend(self.lines[at..range.start.max(at)].iter().copied());
            text.push_str(changed);
            at = range.end.max(at);
        }
        text.extend(self.lines[at..].iter().copied());
        text
    }
}

/// The lines of the keys of a map, and their column, both from 0, where each begins a line of its own.
fn block_keys(lines: &[&str], entries: &[MapEntry]) -> Option<(Vec<usize>, usize)> {
    let places: Option<Vec<(usize, usize)>> = entries.iter().map(|entry| entry.span).collect();
    let places = places?;
    let (_, column) = *places.first()?;
    let is_own = |&(line, at): &(usize, usize)| {
        let before = lines.get(line - 1).and_then(|line| line.get(..at - 1));
        at == column && before.is_some_and(|before| before.chars().all(|c| c == ' ' || c == '-'))
    };
    let is_block = places.iter().all(is_own) && places.is_sorted_by(|a, b| a.0 < b.0);
    is_block.then(|| {
        (
            places.iter().map(|(line, _)| line - 1).collect(),
            column - 1,
        )
    })
}

/// The comment at the end of a line, with the blanks before it; empty: there is none.
fn trailing_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match quote {
            Some(open) if open == letter => quote = None,
            Some(_) => {}
            None if matches!(letter, '"' | '\'') && " [{,:".contains(before) => {
                quote = Some(letter)
            }
            None if letter == '#' && before == ' ' => {
                let start = line[..at].trim_end().len();
                return line[start..].trim_end();
            }
            None => {}
        }
        before = letter;
    }
    ""
}

/// The line behind the last of the block that a key at `column` opens in `line`: what is indented more, and the items of a list at the
/// same column. Blank lines and comments at its end do not belong to it.
fn block_end(lines: &[&str], line: usize, column: usize, with_items: bool) -> usize {
    let mut end = line + 1;
    for (index, text) in lines.iter().enumerate().skip(line + 1) {
        let content = text.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let indent = text.len() - text.trim_start().len();
        let is_item = with_items && indent == column && content.starts_with("- ");
        if indent <= column && !is_item {
            break;
        }
        end = index + 1;
    }
    end
}

fn entry<'t>(map: &'t Spanned, key: &str) -> Option<&'t Spanned> {
    let found = entries_of(map).iter().find(|entry| entry.key == key)?;
    Some(&found.value)
}

fn entries_of(map: &Spanned) -> &[MapEntry] {
    match &map.value {
        YamlValue::Map(entries) => entries,
        _ => &[],
    }
}

/// The rules of a section: the items of a list, or the one map.
fn items_of(section: Option<&Spanned>) -> Vec<&Spanned> {
    match section {
        Some(section) => match &section.value {
            YamlValue::List(items) => items.iter().collect(),
            YamlValue::Map(_) => vec![section],
            _ => Vec::new(),
        },
        None => Vec::new(),
    }
}

/// The rules of a section of a source as JSON.
fn section_json(source: Option<&Spanned>, key: &str) -> Vec<Value> {
    let items = items_of(source.and_then(|source| entry(source, key)));
    items.iter().map(|item| json_of(&item.value)).collect()
}

/// The name of a rule; empty: it has none, as the rule `stationary`.
fn name_of(rule: &Spanned) -> &str {
    match entry(rule, "name").map(|name| &name.value) {
        Some(YamlValue::Text(name)) => name,
        _ => "",
    }
}

/// The source of that name.
fn source_of<'t>(root: &'t Spanned, name: &str) -> Option<&'t Spanned> {
    let sources = items_of(entry(root, "sources"));
    sources.into_iter().find(|source| name_of(source) == name)
}

#[cfg(test)]
mod tests;
