// SPDX-License-Identifier: Apache-2.0
//! The comments of `configs/jetwatch.yaml` are the descriptions of its keys.
//!
//! Above each key, in force or commented, stands its description as declared, with its default where the file has another
//! value. Text that a blank line separates from the next key is written by hand, and so are the values.
//! `UPDATE_GOLDEN=1 cargo test --test tools config_example` writes the comments.

use std::collections::HashSet;

use jetwatch_config::{Config, DefaultValue, KeySpec, Section, Unit, ValueType};

use crate::support::generated::check_generated;

/// Longest line of a comment, in characters.
const MAX_WIDTH: usize = 120;

/// A key as a line of the file shows it.
struct KeyLine<'l> {
    /// What stands before a comment about it.
    margin: String,
    /// Column of the key, without the `#` that comments it out.
    column: usize,
    name: &'l str,
    value: &'l str,
    /// Its default or an example, not in force.
    is_commented: bool,
}

impl<'l> KeyLine<'l> {
    /// `line` as a key: `key: value`, `#key: value`, or below a commented section `#  key: value` and `#  - key: value`.
    fn parse(line: &'l str) -> Option<Self> {
        let indent = &line[..line.len() - line.trim_start().len()];
        let below = &line[indent.len()..];
        let (mark, rest) = match below.strip_prefix('#') {
            // Prose has one space behind `#`.
            Some(rest) if rest.starts_with(' ') && !rest.starts_with("  ") => return None,
            Some(rest) => ("#", rest),
            None => ("", below),
        };
        let text = rest.trim_start();
        let spaces = &rest[..rest.len() - text.len()];
        let item = text.strip_prefix("- ");
        let (name, value) = item.unwrap_or(text).split_once(':')?;
        let is_key = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        is_key.then(|| Self {
            margin: match spaces {
                "" => format!("{indent}# "),
                spaces => format!("{indent}{mark}{spaces}# "),
            },
            column: indent.len() + spaces.len() + item.map_or(0, |_| 2),
            name,
            value: value.trim(),
            is_commented: !mark.is_empty(),
        })
    }
}

/// The text about a key above its line.
fn comment(key: &KeySpec, line: &KeyLine<'_>) -> String {
    let mut text = key.about.to_owned();
    if let ValueType::Words(words) = key.value
        && !words.iter().all(|word| text.contains(word))
    {
        text += &format!(" One of {}.", words.join(", "));
    }
    if let ValueType::Integer { unit, .. } = key.value
        && let Unit::Of(things) = unit
        && !text
            .to_lowercase()
            .contains(things.to_lowercase().trim_end_matches('s'))
    {
        text += &format!(" Unit: {things}.");
    }
    let default = match key.default {
        DefaultValue::Required | DefaultValue::Absent => return text,
        DefaultValue::Boolean(value) => value.to_string(),
        DefaultValue::Integer(value) => value.to_string(),
        DefaultValue::Number(value) => format!("{value:?}"),
        DefaultValue::Text(value) => value.to_owned(),
    };
    if !line.is_commented && line.value != default {
        text += &format!(" Default: {default}.");
    }
    text
}

/// `text` in lines that begin with `margin`.
fn wrapped(text: &str, margin: &str) -> String {
    let mut lines = String::new();
    let mut line = margin.trim_end().to_owned();
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > MAX_WIDTH {
            lines += &format!("{line}\n");
            line = margin.trim_end().to_owned();
        }
        line += &format!(" {word}");
    }
    lines + &line + "\n"
}

/// The example with the declared description above each key. A description is not repeated.
fn with_declared_comments(example: &str) -> String {
    let mut output = String::new();
    let mut prose = String::new();
    let mut described = HashSet::new();
    // The sections that are open: column and keys.
    let mut open: Vec<(usize, &[KeySpec])> = Vec::new();
    for line in example.lines() {
        let Some(shown) = KeyLine::parse(line) else {
            if line.trim_start().starts_with('#') {
                prose += &format!("{line}\n");
            } else {
                output += &format!("{}{line}\n", std::mem::take(&mut prose));
            }
            continue;
        };
        prose.clear();
        open.retain(|(column, _)| *column < shown.column);
        let keys = open.last().map_or(Config::KEYS, |(_, keys)| *keys);
        let key = keys.iter().find(|key| key.name == shown.name);
        let key = key.unwrap_or_else(|| panic!("`{line}` is no key of its section"));
        if let Some(inner) = key.inner() {
            open.push((shown.column, inner));
        }
        if described.insert(key.about) {
            output += &wrapped(&comment(key, &shown), &shown.margin);
        }
        output += &format!("{line}\n");
    }
    output + &prose
}

#[test]
fn comments_of_the_example_are_the_descriptions_of_its_keys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/jetwatch.yaml");
    let example = std::fs::read_to_string(path).expect("readable");
    check_generated("configs/jetwatch.yaml", &with_declared_comments(&example));
}

#[test]
fn comments_have_margins_defaults_and_line_breaks() {
    let given = "# Free text.\n\n# Old.\ntracker:\n  type: sort\n  #class_match: same\ndetector:\n  #onnx_provider: auto\nsources:\n  - name: a\n    #zones:\n    #  - name: b\n";
    let text = with_declared_comments(given);
    assert!(
        text.starts_with("# Free text.\n\n# How detections become tracks.\ntracker:\n"),
        "{text}"
    );
    assert_has!(text =>
        "and their direction. Default: iou.\n  type: sort\n",
        "class or group; any: of every class.\n  #class_match: same\n",
        "cuda: the GPU or an\n  # error. One of auto, cpu, cuda.\n  #onnx_provider: auto\n",
        "\n    # Areas of the image in which objects are counted. Default: none.\n    #zones:\n    #  # Name of the rule");
    assert!(!text.contains("Old."), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= MAX_WIDTH));
    assert_eq!(with_declared_comments(&text), text);
}
