// SPDX-License-Identifier: Apache-2.0
//! Zones and lines of one source, changed in the text of a configuration, and sources added to it: the rest of the text, with its
//! comments, stays as it is.
//!
//! Works on the lines of files in block style. What cannot be changed so is refused, and nothing is guessed: the result is read again,
//! and must be the configuration of before but for these rules or sources. Called by the page, through the pipeline, and by `jetwatch discover`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use super::yaml::document::Document;
use super::yaml::tree::{Spanned, YamlValue};
use super::{Config, ConfigError, Point, SceneRules, SourceConfig, restart_required_keys};

/// A zone or a line as it was drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnShape {
    /// Its name.
    pub name: String,
    /// Corners or ends, as shares of the image's width and height.
    pub points: Vec<[f64; 2]>,
}

/// Why rules cannot be changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RuleEditError {
    /// They are no valid rules, or the file has other problems.
    #[error("{}", .0.join("; "))]
    Problems(Vec<String>),
    /// The file is not written in a form that can be changed.
    #[error("{reason}")]
    Form {
        /// Why, and what to do.
        reason: String,
    },
}

/// Zones and lines as they stand in a configuration, below the keys of a source.
#[must_use]
pub fn rules_yaml(zones: &[DrawnShape], lines: &[DrawnShape]) -> String {
    let mut text = String::new();
    for (key, shapes) in [("zones", zones), ("lines", lines)] {
        if !shapes.is_empty() {
            push_section(&mut text, key, shapes, "");
        }
    }
    text
}

/// The text of a configuration with other zones and lines of `source`. Rules of known names keep their other keys; where the points
/// are as before, also their comments. `label` names the file in problems.
///
/// # Errors
/// The rules or the file have problems, or the file is not written in a form that can be changed.
pub fn edit_rules(
    label: &str,
    text: &str,
    source: &str,
    zones: &[DrawnShape],
    lines: &[DrawnShape],
) -> Result<String, RuleEditError> {
    let before = Config::from_str(label, text).map_err(problems)?;
    let index = before.sources.iter().position(|known| known.name == source);
    let index = index.ok_or_else(|| form(&format!("the file has no source named {source}")))?;
    let rules = &before.sources[index].rules;
    let known = [
        rules
            .zones
            .iter()
            .map(|zone| (zone.name.as_str(), zone.area.points().to_vec()))
            .collect(),
        rules
            .lines
            .iter()
            .map(|line| (line.name.as_str(), vec![line.line.from, line.line.to]))
            .collect(),
    ];
    let document = Document::parse(label, text).map_err(problems)?;
    let mut edit = Edit::of(document.located(), index, text)?;
    for ((key, shapes), known) in [("zones", zones), ("lines", lines)].into_iter().zip(known) {
        edit.set(key, shapes, &known)?;
    }
    let edited = edit.finish();
    let after = Config::from_str(label, &edited).map_err(problems)?;
    match is_as_wanted(&before, &after, index, [zones, lines]) {
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
    let before = Config::from_str(label, text).map_err(problems)?;
    let document = Document::parse(label, text).map_err(problems)?;
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

/// Whether `after` is `before` with these rules of the source.
fn is_as_wanted(before: &Config, after: &Config, index: usize, shapes: [&[DrawnShape]; 2]) -> bool {
    let without_shapes = |source: &SourceConfig| {
        let mut source = source.clone();
        source.rules = SceneRules {
            zones: Vec::new(),
            lines: Vec::new(),
            ..source.rules
        };
        source
    };
    let is_same = |at: usize| match at == index {
        true => without_shapes(&before.sources[at]) == without_shapes(&after.sources[at]),
        false => before.sources[at] == after.sources[at],
    };
    if before.sources.len() != after.sources.len()
        || !(0..before.sources.len()).all(is_same)
        || !restart_required_keys(before, after).is_empty()
    {
        return false;
    }
    let rules = &after.sources[index].rules;
    let zones = rules
        .zones
        .iter()
        .map(|zone| (&zone.name, zone.area.points().to_vec()));
    let lines = rules
        .lines
        .iter()
        .map(|line| (&line.name, vec![line.line.from, line.line.to]));
    matches(zones.collect(), shapes[0]) && matches(lines.collect(), shapes[1])
}

fn matches(found: Vec<(&String, Vec<Point>)>, wanted: &[DrawnShape]) -> bool {
    found.len() == wanted.len()
        && wanted.iter().all(|shape| {
            let mut found = found.iter();
            found.any(|(name, points)| **name == shape.name && is_near(points, &shape.points))
        })
}

/// Equal as far as the text shows: four digits.
fn is_near(points: &[Point], wanted: &[[f64; 2]]) -> bool {
    points.len() == wanted.len()
        && points
            .iter()
            .flatten()
            .zip(wanted.iter().flatten())
            .all(|(found, wanted)| (f64::from(*found) - wanted).abs() < 0.000_06)
}

fn coordinates(points: &[[f64; 2]]) -> String {
    let share = |share: &f64| {
        let text = format!("{share:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" {
            "0".to_owned()
        } else {
            text.to_owned()
        }
    };
    let shares: Vec<String> = points.iter().flatten().map(share).collect();
    shares.join(",")
}

fn push_section(text: &mut String, key: &str, shapes: &[DrawnShape], pad: &str) {
    let _ = writeln!(text, "{pad}{key}:");
    for shape in shapes {
        push_shape(text, shape, &format!("{pad}  "));
    }
}

fn push_shape(text: &mut String, shape: &DrawnShape, pad: &str) {
    // Names are checked when the result is read; quotes keep `on` and `1` texts.
    let name = shape.name.replace(['\\', '"', '\n'], "");
    let _ = writeln!(text, "{pad}- name: \"{name}\"");
    let _ = writeln!(
        text,
        "{pad}  coordinates: \"{}\"",
        coordinates(&shape.points)
    );
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
        let mut column = None;
        let (mut keys, mut key_lines) = (HashMap::new(), HashMap::new());
        for entry in entries {
            let Some((line, at)) = entry.span else {
                return Err(form("the place of a key is not known"));
            };
            let (line, at) = (line - 1, at - 1);
            let before = lines.get(line).and_then(|line| line.get(..at));
            let is_first_of_line =
                before.is_some_and(|before| before.chars().all(|c| c == ' ' || c == '-'));
            if !is_first_of_line || *column.get_or_insert(at) != at {
                return Err(form(
                    "the source does not have each key on a line of its own",
                ));
            }
            keys.insert(entry.key.as_str(), &entry.value);
            key_lines.insert(entry.key.as_str(), line);
        }
        let (Some(column), Some(first), Some(last)) = (
            column,
            key_lines.values().min().copied(),
            key_lines.values().max().copied(),
        ) else {
            return Err(form("the source has no keys"));
        };
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

    /// Sets the list of `key` to `shapes`; `known` are the points of those that are there.
    fn set(
        &mut self,
        key: &str,
        shapes: &[DrawnShape],
        known: &HashMap<&str, Vec<Point>>,
    ) -> Result<(), RuleEditError> {
        let pad = " ".repeat(self.column);
        let is_same = |shape: &DrawnShape| {
            let points = known.get(shape.name.as_str());
            points.is_some_and(|points| is_near(points, &shape.points))
        };
        if shapes.len() == known.len() && shapes.iter().all(is_same) {
            return Ok(());
        }
        let Some(line) = self.key_lines.get(key).copied() else {
            let mut text = String::new();
            push_section(&mut text, key, shapes, &pad);
            let end = self.item.end;
            if end > 0 && !self.lines[end - 1].ends_with('\n') {
                text.insert(0, '\n');
            }
            self.changes.push((end..end, text));
            return Ok(());
        };
        let section = line..block_end(&self.lines, line, self.column, true);
        let Some(YamlValue::List(items)) = self.keys.get(key).map(|value| &value.value) else {
            return Err(form(&format!("{key} is no list")));
        };
        let starts = self.item_lines(line, items);
        let mut text = String::new();
        if !shapes.is_empty() {
            match starts {
                Some(starts) => {
                    self.edit_items(&mut text, &section, &starts, items, shapes, known)?
                }
                None if items.iter().all(has_plain_keys) => {
                    push_section(&mut text, key, shapes, &pad);
                }
                None => {
                    return Err(form(&format!(
                        "{key} is written on one line with other keys"
                    )));
                }
            }
        }
        self.changes.push((section, text));
        Ok(())
    }

    /// The line of each item, where each begins a line of its own behind the line of the key.
    fn item_lines(&self, key_line: usize, items: &[Spanned]) -> Option<Vec<usize>> {
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
        items: &[Spanned],
        shapes: &[DrawnShape],
        known: &HashMap<&str, Vec<Point>>,
    ) -> Result<(), RuleEditError> {
        text.extend(self.lines[section.start..starts[0]].iter().copied());
        let ends = starts.iter().skip(1).chain(std::iter::once(&section.end));
        let mut written = Vec::new();
        for ((start, end), item) in starts.iter().zip(ends).zip(items) {
            let name = text_of(item, "name").unwrap_or_default();
            let Some(shape) = shapes.iter().find(|shape| shape.name == name) else {
                continue;
            };
            written.push(name);
            let points = known.get(name);
            let is_same = points.is_some_and(|points| is_near(points, &shape.points));
            let at = entry(item, "coordinates").and_then(|value| value.span);
            for (number, line) in (*start..*end).zip(&self.lines[*start..*end]) {
                match at {
                    Some((at_line, column)) if !is_same && at_line == number + 1 => {
                        text.push_str(&with_points(line, column - 1, item, shape)?);
                    }
                    _ => text.push_str(line),
                }
            }
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let first = self.lines[starts[0]];
        let pad = &first[..first.len() - first.trim_start().len()];
        for shape in shapes {
            if !written.contains(&shape.name.as_str()) {
                push_shape(text, shape, pad);
            }
        }
        Ok(())
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

/// A line with other points: its scalar, which begins at `column`, is replaced.
fn with_points(
    line: &str,
    column: usize,
    item: &Spanned,
    shape: &DrawnShape,
) -> Result<String, RuleEditError> {
    let old = text_of(item, "coordinates").unwrap_or_default();
    let rest = line.get(column..).unwrap_or_default();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let quotes = usize::from(quote.is_some());
    let is_there = !old.is_empty() && rest.get(quotes..).is_some_and(|rest| rest.starts_with(old));
    if !is_there {
        return Err(form(&format!(
            "the coordinates of {} are not on one line",
            shape.name
        )));
    }
    let end = column + quotes + old.len() + quotes;
    let (before, after) = (&line[..column], line.get(end..).unwrap_or_default());
    Ok(format!("{before}\"{}\"{after}", coordinates(&shape.points)))
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
    let YamlValue::Map(entries) = &map.value else {
        return None;
    };
    let found = entries.iter().find(|entry| entry.key == key)?;
    Some(&found.value)
}

fn text_of<'t>(map: &'t Spanned, key: &str) -> Option<&'t str> {
    match &entry(map, key)?.value {
        YamlValue::Text(text) => Some(text),
        _ => None,
    }
}

/// Whether an item has no other keys than those that are written.
fn has_plain_keys(item: &Spanned) -> bool {
    let YamlValue::Map(entries) = &item.value else {
        return false;
    };
    entries
        .iter()
        .all(|entry| matches!(entry.key.as_str(), "name" | "coordinates"))
}

#[cfg(test)]
mod tests;
