// SPDX-License-Identifier: Apache-2.0
//! A configuration as YAML again, without its comments and secrets, for the page.

use std::fmt::Write as _;

use super::redact::{MASK, quoted_key, redact};
use super::schema::{KeySpec, ValueType};
use super::secret_names::is_secret_key;
use super::section::Section;
use super::yaml::document::Document;
use super::yaml::tree::{Spanned, YamlValue, is_plain_text};
use super::{Config, HttpUrl};

/// Blanks for each level of nesting.
const INDENT: usize = 2;

/// The file without passwords and other secrets.
pub(crate) fn redacted(document: &Document) -> String {
    let mut tree = document.located().value.without_spans();
    hide_secrets(&mut tree, Config::KEYS);
    let mut text = String::new();
    write_value(&mut text, &tree, 0);
    text
}

/// Hides the values of keys that hold secrets in a map with these keys, and what is none of them: it may be a mistyped one.
fn hide_secrets(tree: &mut YamlValue, keys: &[KeySpec]) {
    let YamlValue::Map(entries) = tree else {
        return hide_in_texts(tree);
    };
    let mut lacks_secret = false;
    for entry in entries {
        let is_rest = std::mem::replace(&mut lacks_secret, entry.lacks_secret());
        let value = &mut entry.value.value;
        match keys.iter().find(|key| key.name == entry.key) {
            Some(key) => hide_in(value, key),
            None => {
                *value = hidden(value);
                entry.key = match is_rest {
                    true => MASK.to_owned(),
                    false => quoted_key(&entry.key),
                };
            }
        }
    }
}

fn hide_in(value: &mut YamlValue, key: &KeySpec) {
    // The path of a file is not a secret, and may be what is wrong.
    let is_secret = is_secret_key(key.name) && !matches!(key.value, ValueType::Path);
    match (key.value, value) {
        (_, YamlValue::Null) => {}
        (ValueType::Named(inner), YamlValue::Map(named)) => {
            for each in named {
                hide_secrets(&mut each.value.value, inner);
            }
        }
        (ValueType::Map(inner) | ValueType::WordOrMap(_, inner), map @ YamlValue::Map(_)) => {
            hide_secrets(map, inner);
        }
        (ValueType::Maps(inner), YamlValue::List(items)) => {
            for item in items {
                match &mut item.value {
                    value if is_secret && !matches!(value, YamlValue::Map(_)) => {
                        *value = hidden(value)
                    }
                    value => hide_secrets(value, inner),
                }
            }
        }
        (ValueType::Texts(_) | ValueType::Other { .. }, value) if !is_secret => {
            hide_in_texts(value)
        }
        // A list or a map in place of a text may be an address that YAML took apart.
        (_, value @ (YamlValue::List(_) | YamlValue::Map(_))) => *value = hidden(value),
        (_, value) if is_secret => *value = hidden(value),
        (_, value) => hide_in_texts(value),
    }
}

/// Hides what is a secret by its form, or by a key with any name.
fn hide_in_texts(tree: &mut YamlValue) {
    match tree {
        YamlValue::Map(entries) => {
            for entry in entries {
                let key = quoted_key(&entry.key);
                match &mut entry.value.value {
                    value if is_secret_key(&key) || key == MASK => *value = hidden(value),
                    value => hide_in_texts(value),
                }
                entry.key = key;
            }
        }
        YamlValue::List(items) => items
            .iter_mut()
            .for_each(|item| hide_in_texts(&mut item.value)),
        YamlValue::Text(text) => *text = redact(text),
        _ => {}
    }
}

/// What stands for a value that may be a secret; of an address, its host is none.
fn hidden(value: &YamlValue) -> YamlValue {
    let url = match value {
        YamlValue::Text(text) => HttpUrl::parse(text).ok(),
        _ => None,
    };
    let origin = url.map(|url| format!("{}/{MASK}", url.origin()));
    YamlValue::Text(origin.unwrap_or_else(|| MASK.to_owned()))
}

/// Writes a value behind `key:` or `-`, with the line break at its end.
fn write_value(text: &mut String, value: &YamlValue, depth: usize) {
    let pad =
        |text: &mut String, depth: usize| text.extend(std::iter::repeat_n(' ', depth * INDENT));
    match value {
        YamlValue::Map(entries) => {
            for entry in entries {
                pad(text, depth);
                text.push_str(&scalar_text(&entry.key));
                text.push(':');
                write_nested(text, &entry.value, depth);
            }
        }
        YamlValue::List(items) => {
            for item in items {
                pad(text, depth);
                text.push('-');
                write_nested(text, item, depth);
            }
        }
        scalar => {
            let _ = writeln!(text, "{}", scalar_of(scalar));
        }
    }
}

fn write_nested(text: &mut String, item: &Spanned, depth: usize) {
    match &item.value {
        YamlValue::Map(entries) if entries.is_empty() => text.push_str(" {}\n"),
        YamlValue::List(items) if items.is_empty() => text.push_str(" []\n"),
        nested @ (YamlValue::Map(_) | YamlValue::List(_)) => {
            text.push('\n');
            write_value(text, nested, depth + 1);
        }
        scalar => {
            text.push(' ');
            write_value(text, scalar, depth);
        }
    }
}

fn scalar_of(value: &YamlValue) -> String {
    match value {
        YamlValue::Boolean(value) => value.to_string(),
        YamlValue::Integer(value) => value.to_string(),
        YamlValue::Number(_, written) => written.clone(),
        YamlValue::Text(value) => scalar_text(value),
        YamlValue::Null | YamlValue::Refused | YamlValue::List(_) | YamlValue::Map(_) => {
            "null".to_owned()
        }
    }
}

/// Text without quotes where it stays text without them.
fn scalar_text(value: &str) -> String {
    let is_simple = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let begins = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    if begins && value.chars().all(is_simple) && is_plain_text(value) {
        return value.to_owned();
    }
    let mut quoted = String::from('"');
    for c in value.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_the_redacted_text() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("f.yaml");
        let text = "sources:\n  - {name: a, uri: 'rtsp://user:hunter2@camera/1?token=hunter3'}\n  - {name: b, uri: 'launch:rtspsrc location=rtsp://u:hunter4@c user-pw=hunter5 ! fakesink'}\npublish:\n  mqtt: {host: h, username: u, pasword: hunter6, password: {hunter6}}\n  webhooks:\n    - {name: w, url: 'https://h/hook/hunter8', headers: [{name: X-Key, value: hunter7}]}\n";
        std::fs::write(&path, text).expect("written");
        let redacted = Config::redacted_yaml(&path).expect("YAML");
        assert!(!redacted.contains("hunter"), "{redacted}");
        assert!(
            redacted.contains("camera/1") && redacted.contains("https://h/***"),
            "{redacted}"
        );
    }

    #[test]
    fn text_that_is_no_text_without_quotes_is_quoted() {
        for (text, wanted) in [
            ("off", "off"),
            ("true", "\"true\""),
            ("null", "\"null\""),
            ("1.5", "\"1.5\""),
            ("a: b", "\"a: b\""),
            ("", "\"\""),
            ("a\"\n\\", "\"a\\\"\\n\\\\\""),
            ("/a/b.c-d_e", "/a/b.c-d_e"),
        ] {
            assert_eq!(scalar_text(text), wanted);
        }
    }
}
