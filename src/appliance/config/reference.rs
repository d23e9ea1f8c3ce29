// SPDX-License-Identifier: Apache-2.0
//! The reference of a kind of file in Markdown: one list of keys for each section, made from their specifications.
//!
//! `docs/src/reference/configuration.md` is [`configuration_page`], written to a file; a test compares the two.

use std::fmt::Write as _;

use super::names::NAME;
use super::schema::{DefaultValue, KeySpec, Unit, ValueType};
use super::{Config, Section, SyntheticScene};

/// The page of the book about the keys of `jetwatch.yaml`.
#[must_use]
pub fn configuration_page() -> String {
    let mut page = "# Configuration keys\n\n\
        This page is generated from the declarations in `src/appliance/config`; do not edit it.\n\n\
        Each section of `jetwatch.yaml` has its list; `NAME[]` is a list of maps. In parentheses is the value with its default; a link is a section.\n\
        A section that is left out has its defaults. A *name* has letters, digits, `-` and `_`, at most 64. A range is of integers\n\
        where it does not say `number`. Paths are relative to the folder of the file. Keys of some kinds of sources or brokers are\n\
        rejected with the others.\n"
        .to_owned();
    append_lists(Config::KEYS, &mut page);
    page.push_str("\n## Parameters of `synthetic://traffic`\n\n");
    page.push_str(
        "They stand in the `uri` of a source: `synthetic://traffic?seed=7&objects=20`.\n\n",
    );
    page.push_str(&list("synthetic", SyntheticScene::KEYS));
    page
}

/// Appends the lists of `keys`, which are those of the outermost map, and of all sections below.
pub fn append_lists(keys: &'static [KeySpec], page: &mut String) {
    let mut lists = vec![(String::new(), list("", keys))];
    let _ = write!(page, "\n## Top level\n\n{}", lists[0].1);
    below("", keys, page, &mut lists);
}

/// Appends the sections below `path`. `lists` has those that the page shows already: a section with the same keys refers to them.
fn below(
    path: &str,
    keys: &'static [KeySpec],
    page: &mut String,
    lists: &mut Vec<(String, String)>,
) {
    for key in keys {
        let Some(inner) = key.inner() else {
            continue;
        };
        let path = path_of(path, key);
        let _ = write!(page, "\n## `{path}`\n\n");
        // The keys of a template's source are those of `sources`, which are there already.
        if path == "source_templates[].source" {
            page.push_str("See [`sources[]`](#sources).\n");
            continue;
        }
        let own = list(&path, inner);
        if let Some((same, _)) = lists.iter().find(|(_, shown)| *shown == own) {
            let _ = writeln!(
                page,
                "The keys are those of {}.",
                link(&format!("`{same}`"), same)
            );
            continue;
        }
        page.push_str(&without_repeats(&own, lists));
        lists.push((path.clone(), own));
        below(&path, inner, page, lists);
    }
}

/// `list` with a reference in place of neighboring keys that one of the earlier `lists` has, too, unless they are short.
fn without_repeats(list: &str, lists: &[(String, String)]) -> String {
    const MIN_CHARS: usize = 80;
    let origin = |line: &str| {
        let has_line = |(path, shown): &&(String, String)| {
            !path.is_empty() && shown.lines().any(|other| other == line)
        };
        let found = lists.iter().find(has_line);
        found
            .filter(|_| line.len() >= MIN_CHARS)
            .map(|(path, _)| path)
    };
    let lines: Vec<&str> = list.lines().collect();
    let mut text = String::new();
    for group in lines.chunk_by(|line, next| origin(line).is_some() && origin(line) == origin(next))
    {
        let Some(path) = origin(group[0]) else {
            let _ = writeln!(text, "{}", group[0]);
            continue;
        };
        let names: Vec<&str> = group
            .iter()
            .filter_map(|line| line.split(" (").next()?.strip_prefix("- "))
            .collect();
        let same = link(&format!("`{path}`"), path);
        let _ = writeln!(text, "- {}: as in {same}.", names.join(", "));
    }
    text
}

fn path_of(above: &str, key: &KeySpec) -> String {
    let list = match key.value {
        ValueType::Maps(_) => "[]",
        ValueType::Named(_) => ".NAME",
        _ => "",
    };
    match above {
        "" => format!("{}{list}", key.name),
        above => format!("{above}.{}{list}", key.name),
    }
}

/// A link to the section whose heading is `heading`.
fn link(text: &str, heading: &str) -> String {
    format!("[{text}](#{})", heading_slug(heading))
}

/// The anchor that code hosts and mdBook both give to the heading `text`.
pub fn heading_slug(text: &str) -> String {
    text.chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ => character
                .is_alphanumeric()
                .then(|| character.to_ascii_lowercase()),
        })
        .collect()
}

fn list(path: &str, keys: &[KeySpec]) -> String {
    let mut list = String::new();
    for key in keys {
        let name = match key.inner() {
            Some(_) => link(&format!("`{}`", key.name), &path_of(path, key)),
            None => format!("`{}`", key.name),
        };
        let (about, default) = match key.default {
            DefaultValue::Absent => split_default(key.about),
            given => (key.about.to_owned(), default_of(&given)),
        };
        let value = value_of(key);
        let details = match (value.as_str(), default.as_str()) {
            ("", "" | "none") => String::new(),
            (value, "" | "none") => format!(" ({value})"),
            ("", "required") => " (required)".to_owned(),
            (value, "required") => format!(" ({value}, required)"),
            ("", default) => format!(" (default {default})"),
            (value, default) => format!(" ({value}; default {default})"),
        };
        let about = escape_markdown(&about);
        let _ = writeln!(list, "- {name}{details}: {about}");
    }
    list
}

/// Accepted values and unit; nothing for a section.
fn value_of(key: &KeySpec) -> String {
    match key.value {
        ValueType::Text("text") => "text".to_owned(),
        ValueType::Text(NAME) => "a name".to_owned(),
        ValueType::Text(form) => escape_markdown(form),
        ValueType::Secret => "secret".to_owned(),
        ValueType::Path => "path".to_owned(),
        ValueType::Boolean => "boolean".to_owned(),
        ValueType::Integer { min, max, unit } => {
            let range = match max {
                i64::MAX => format!("from {min} {}", unit_of(unit)),
                max => format!("{min} to {max} {}", unit_of(unit)),
            };
            range.trim_end().to_owned()
        }
        ValueType::WordOrCount { word, max, things } => {
            format!("0 to {max} {things}, or `{word}`")
        }
        ValueType::Number {
            min,
            min_accepted,
            max,
        } => match min_accepted {
            true => format!("number, {min} to {max}"),
            false => format!("number above {min}, to {max}"),
        },
        ValueType::Words(words) => words_of(words),
        ValueType::Texts(form) => format!("list, each {}", escape_markdown(form)),
        ValueType::Map(_) => String::new(),
        ValueType::WordOrMap(word, _) => format!("or `{word}`"),
        ValueType::Maps(_) => "list".to_owned(),
        ValueType::Named(_) => "by name".to_owned(),
        ValueType::Other { form, .. } => escape_markdown(form),
    }
}

fn unit_of(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "",
        Unit::Milliseconds => "ms",
        Unit::Seconds => "s",
        Unit::Of(things) => things,
    }
}

fn words_of(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// The description without its sentence `Default: …`, and what that sentence says.
fn split_default(about: &str) -> (String, String) {
    let Some((before, after)) = about.split_once("Default: ") else {
        return (about.to_owned(), String::new());
    };
    let (default, rest) = after.split_once(". ").unwrap_or((after, ""));
    let default = escape_markdown(default.trim_end_matches('.'));
    (format!("{before}{rest}").trim_end().to_owned(), default)
}

fn default_of(default: &DefaultValue) -> String {
    match default {
        DefaultValue::Required => "required".to_owned(),
        DefaultValue::Absent => String::new(),
        DefaultValue::Boolean(value) => format!("`{value}`"),
        DefaultValue::Integer(value) => format!("`{value}`"),
        DefaultValue::Number(value) => format!("`{value}`"),
        DefaultValue::Text(value) => format!("`{value}`"),
    }
}

/// `plain` with what Markdown or HTML would take for markup escaped; code in backticks stays as it is.
pub fn escape_markdown(plain: &str) -> String {
    let parts = plain.split('`').enumerate().map(|(index, part)| {
        // Every second part is code.
        match index % 2 {
            0 => part
                .replace('*', "\\*")
                .replace('_', "\\_")
                .replace('<', "&lt;")
                .replace('[', "\\["),
            _ => part.to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::HashSet;

    #[test]
    fn every_section_has_a_list_and_every_link_a_heading() {
        let page = configuration_page();
        for wanted in [
            "## `sources[].zones[]`\n",
            "- `latency_ms` (0 to 10000 ms; default `200`): RTSP only: jitter buffer.\n",
            "- `min_iou` (number above 0, to 1; default 0.2; sort, bytetrack and ocsort: 0.25): Minimum IOU of a pair;",
            "- `path` (path, required): ",
            "- [`mqtt`](#publishmqtt) (or `off`; default an embedded broker on 127.0.0.1:1883): ",
            "\n\nThe keys are those of [`metrics.tls`](#metricstls).\n",
            "- `user`, `password`, `password_file`, `password_env`: as in [`sources[]`](#sources).\n",
        ] {
            assert!(page.contains(wanted), "no {wanted} in\n{page}");
        }
        let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
        let slugs: HashSet<String> = headings.map(heading_slug).collect();
        for link in page.split("](#").skip(1) {
            let slug = link.split(')').next().expect("closed");
            assert!(slugs.contains(slug), "no heading {slug}");
        }
    }

    #[test]
    fn the_default_in_a_description_moves_to_its_value() {
        let split = |about| split_default(about);
        let pair = |about: &str, default: &str| (about.to_owned(), default.to_owned());
        assert_eq!(split("What. Default: all."), pair("What.", "all"));
        assert_eq!(split("A. Default: b_c; d. E."), pair("A. E.", "b\\_c; d"));
        assert_eq!(split("What."), pair("What.", ""));
    }

    #[test]
    fn markup_in_descriptions_is_escaped() {
        let found = escape_markdown("a_b *:1 `c_d` <x>");
        assert_eq!(found, "a\\_b \\*:1 `c_d` &lt;x>");
    }
}
