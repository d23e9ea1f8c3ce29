// SPDX-License-Identifier: Apache-2.0
//! Class names in the metadata that exporters write and in TensorFlow's label maps, and rows among them that stand for no class. Pure.

use std::collections::HashSet;

use crate::graph::Network;

/// Rows of lists with more numbers than classes, in lower case: TensorFlow's and torchvision's of COCO's 91 numbers.
const PLACEHOLDERS: [&str; 4] = ["n/a", "???", "background", "__background__"];

/// Keys of the metadata that hold the names: Ultralytics', then those of transformers, of others and of RapidAI.
const KEYS: [&str; 6] = [
    "names",
    "classes",
    "labels",
    "id2label",
    "class_names",
    "character",
];

/// The names in a network's `metadata`, with their key: a dictionary or list as [`parse`] reads it, or names with commas or
/// line breaks between them.
pub(crate) fn from_metadata(metadata: &[(String, String)]) -> Option<(&str, Vec<String>)> {
    KEYS.into_iter().find_map(|key| {
        let (_, text) = metadata.iter().find(|(found, _)| found == key)?;
        Some((key, parse(text).or_else(|| split(text))?))
    })
}

/// A sentence on the names in the metadata of `network` that are not used, as there are not `classes` of them.
pub fn unused_names(network: &Network, classes: usize) -> Option<String> {
    let (key, names) = from_metadata(&network.metadata)?;
    let is_background = |label: Option<&String>| label.is_some_and(|label| is_placeholder(label));
    let has_background = is_background(names.first()) || is_background(names.last());
    let is_used = names.len() == classes || (has_background && names.len() == classes + 1);
    (classes != 0 && !is_used).then(|| {
        format!(
            "the file's metadata names {} classes (`{key}`), but the output has {classes}, so those names are not used: give \
             the {classes} names with --labels FILE, or write them into model.yaml",
            names.len()
        )
    })
}

/// At least two names with commas or line breaks between them.
fn split(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    let separator = if text.contains('\n') { '\n' } else { ',' };
    let names: Vec<String> = text
        .split(separator)
        .map(|name| name.trim().to_owned())
        .collect();
    let is_list = !text.starts_with(['{', '[']) && names.len() > 1;
    (is_list && names.iter().all(|name| !name.is_empty())).then_some(names)
}

/// The names in `text`, a dictionary or list as Python prints it: `{0: 'person', 1: "traffic light"}` or `['a', 'b']`, in
/// the order of their numbers. `None` for anything else, for gaps in the numbers, and for a list without names.
pub(crate) fn parse(text: &str) -> Option<Vec<String>> {
    let mut rest = Cursor(text.trim());
    let is_map = rest.eat('{');
    if !is_map && !rest.eat('[') {
        return None;
    }
    let end = if is_map { '}' } else { ']' };
    let mut names: Vec<(usize, String)> = Vec::new();
    while !rest.eat(end) {
        let number = if is_map { rest.number()? } else { names.len() };
        if is_map && !rest.eat(':') {
            return None;
        }
        names.push((number, rest.quoted()?));
        if !rest.eat(',') && !rest.is_at(end) {
            return None;
        }
    }
    names.sort_by_key(|(number, _)| *number);
    let is_dense = names
        .iter()
        .enumerate()
        .all(|(at, (number, _))| at == *number);
    let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    (is_dense && !names.is_empty() && rest.0.is_empty()).then_some(names)
}

/// Whether `label` stands for no class: a number that the list of names has and the network was not trained for, or the
/// background. A detection with such a label is noise, and is not reported unless the configuration names it.
pub fn is_placeholder(label: &str) -> bool {
    // With the number that `number_placeholders` appends.
    let digits = label.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = digits.strip_suffix(' ').unwrap_or(label);
    PLACEHOLDERS.contains(&name.to_lowercase().as_str())
}

/// Appends its number, counted from `first`, to every placeholder that occurs twice, so that all labels differ: `N/A 12`.
pub fn number_placeholders(names: &mut [String], first: usize) {
    let mut seen = HashSet::new();
    let twice: HashSet<String> = names
        .iter()
        .filter(|name| is_placeholder(name) && !seen.insert(name.as_str()))
        .cloned()
        .collect();
    for (number, name) in (first..).zip(names) {
        if twice.contains(name) {
            *name = format!("{name} {number}");
        }
    }
}

/// Whether `text` begins as a label map does: with an item, behind comments.
pub(crate) fn is_label_map(text: &str) -> bool {
    let mut rest = Cursor(text);
    rest.skip_comments();
    rest.word() == "item" && {
        rest.eat(':');
        rest.is_at('{')
    }
}

/// The names in a label map of TensorFlow, `item { id: 1 name: "n1" display_name: "person" }`, each with its number; `None`
/// where an item lacks one of both.
pub(crate) fn label_map(text: &str) -> Option<Vec<(usize, String)>> {
    let mut rest = Cursor(text);
    let mut names = Vec::new();
    loop {
        rest.skip_comments();
        if rest.0.is_empty() {
            return Some(names);
        }
        if rest.word() != "item" {
            return None;
        }
        rest.eat(':');
        if !rest.eat('{') {
            return None;
        }
        let (mut id, mut name, mut shown) = (None, None, None);
        loop {
            rest.skip_comments();
            if rest.eat('}') {
                break;
            }
            let key = rest.word();
            let has_colon = rest.eat(':');
            if rest.is_at('{') {
                rest.skip_block()?;
            } else if !has_colon || key.is_empty() {
                return None;
            } else if rest.is_at('"') || rest.is_at('\'') {
                let value = rest.quoted()?;
                match key {
                    "name" => name = Some(value),
                    "display_name" => shown = Some(value),
                    _ => {}
                }
            } else {
                let value = rest.word();
                if key == "id" {
                    id = value.parse().ok();
                }
            }
            let _ = rest.eat(',') || rest.eat(';');
        }
        names.push((id?, shown.or(name)?));
    }
}

/// The rest of the text.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn skip_comments(&mut self) {
        while self.is_at('#') {
            self.0 = self.0.split_once('\n').map_or("", |line| line.1);
        }
    }

    /// Letters, digits and signs of numbers; empty at anything else.
    fn word(&mut self) -> &'a str {
        self.0 = self.0.trim_start();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        let end = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// What is between this brace and the one that ends it.
    fn skip_block(&mut self) -> Option<()> {
        let mut depth = 0;
        loop {
            if self.eat('{') {
                depth += 1;
            } else if self.eat('}') {
                depth -= 1;
            } else if self.is_at('"') || self.is_at('\'') {
                self.quoted()?;
            } else {
                let mut characters = self.0.chars();
                characters.next()?;
                self.0 = characters.as_str();
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn is_at(&mut self, wanted: char) -> bool {
        self.0 = self.0.trim_start();
        self.0.starts_with(wanted)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let is_there = self.is_at(wanted);
        if is_there {
            self.0 = self.0[wanted.len_utf8()..].trim_start();
        }
        is_there
    }

    fn number(&mut self) -> Option<usize> {
        self.0 = self.0.trim_start();
        // Keys of JSON are quoted.
        let quote = ['"', '\''].into_iter().find(|quote| self.eat(*quote));
        let end = self.0.find(|c: char| !c.is_ascii_digit())?;
        let number = self.0[..end].parse().ok()?;
        self.0 = &self.0[end..];
        quote.is_none_or(|quote| self.eat(quote)).then_some(number)
    }

    fn quoted(&mut self) -> Option<String> {
        let quote = ['\'', '"'].into_iter().find(|quote| self.is_at(*quote))?;
        let mut name = String::new();
        let mut characters = self.0.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => name.push(match characters.next()?.1 {
                    'u' => {
                        let digits: String = characters.by_ref().take(4).map(|it| it.1).collect();
                        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                    }
                    other => other,
                }),
                end if end == quote => {
                    self.0 = &self.0[at + 1..];
                    return Some(name);
                }
                other => name.push(other),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{from_metadata, is_placeholder, parse};

    #[test]
    fn metadata_holds_names_under_several_keys_and_in_several_forms() {
        #[rustfmt::skip]
        let cases = [
            ("names", "{0: 'person', 1: 'car'}", Some(&["person", "car"][..])),
            ("id2label", "{\"0\": \"N/A\", \"1\": \"car\"}", Some(&["N/A", "car"])),
            ("labels", "person,traffic light", Some(&["person", "traffic light"])),
            ("class_names", "person\nstop, sign\n", Some(&["person", "stop, sign"])),
            ("classes", "80", None),
            ("names", "{0: 'a', 2: 'b'}", None),
            ("names", "a,,b", None),
            ("author", "a, b", None),
        ];
        for (key, text, wanted) in cases {
            let metadata = [(key.to_owned(), text.to_owned())];
            let found = from_metadata(&metadata);
            let names = found.as_ref().map(|(found, names)| {
                assert_eq!(*found, key);
                names.iter().map(String::as_str).collect::<Vec<&str>>()
            });
            assert_eq!(names.as_deref(), wanted, "{key}: {text}");
        }
    }

    #[test]
    fn class_names_are_parsed_from_dicts_and_lists() {
        #[rustfmt::skip]
        let cases = [
            ("{0: 'person', 1: 'bicycle'}", &["person", "bicycle"][..]),
            ("{1: \"driver's seat\", 0: 'a\\'b'}", &["a'b", "driver's seat"]),
            ("{\"0\": \"cat\", \"1\": \"dog\"}", &["cat", "dog"]),
            (" ['a, b', \"c\",] ", &["a, b", "c"]),
            ("{'0': 'cat', '1': 'dog'}", &["cat", "dog"]),
            ("[\"caf\\u00e9\", \"\\/m\"]", &["café", "/m"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text).expect(text), wanted, "{text}");
        }
    }

    #[test]
    fn other_class_name_texts_give_none() {
        for text in [
            "",
            "person",
            "{}",
            "[]",
            "{0: person}",
            "{0: 'a', 2: 'b'}",
            "{0: 'a'",
            "['a'] x",
            "{0 'a'}",
            "['a' 'b']",
            "['a",
            "{99999999999999999999999: 'a'}",
            "{'a': 'b'}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_rows_without_a_class_are_placeholders() {
        for label in ["N/A", "n/a 12", "???", "Background", "__background__"] {
            assert!(is_placeholder(label), "{label}");
        }
        for label in ["person", "background noise", "12", "N/A x", ""] {
            assert!(!is_placeholder(label), "{label}");
        }
    }
}
