//! A configuration as YAML again: the keys of a file, or of a command line, with some of them set to other values.
//!
//! Comments are lost. Relative paths become absolute, so that the text can stand in any folder. Called by tools that write
//! configurations, such as the steps of `jetwatch bench --ablation --write`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::load::command_line;
use super::model_folder;
use super::redact::{MASK, quoted_key, redact};
use super::schema::{KeySpec, ValueType};
use super::secret_names::is_secret_key;
use super::section::Section;
use super::uri::parse;
use super::yaml::document::Document;
use super::yaml::tree::{Spanned, YamlValue, is_plain_text};
use super::{Config, HttpUrl, SourceUri};

/// Blanks for each level of nesting.
const INDENT: usize = 2;

impl Config {
    /// The file at `path` with `settings` as for [`load_with`](Self::load_with), as YAML; a setting of `null` removes its key. The
    /// text holds passwords that the file holds.
    ///
    /// # Errors
    /// The file cannot be read, or what results is no valid configuration.
    pub fn file_as_yaml(path: &Path, settings: &[(String, String)]) -> Result<String, ConfigError> {
        as_yaml(Document::read(path)?, settings)
    }

    /// The file at `path` as YAML, without passwords and other secrets: for who is to help with an installation.
    ///
    /// # Errors
    /// The file cannot be read, or is no YAML.
    pub fn redacted_yaml(path: &Path) -> Result<String, ConfigError> {
        Ok(redacted(&Document::read(path)?))
    }

    /// As [`redacted_yaml`](Self::redacted_yaml) for text that is there already.
    #[cfg(test)]
    pub(super) fn redacted_text(label: &str, text: &str) -> Result<String, ConfigError> {
        Ok(redacted(&Document::parse(label, text)?))
    }

    /// The configuration of [`for_source_with`](Self::for_source_with) as YAML.
    ///
    /// # Errors
    /// As [`for_source_with`](Self::for_source_with).
    pub fn source_as_yaml(
        uri: &str,
        model: Option<&str>,
        settings: &[(String, String)],
    ) -> Result<String, ConfigError> {
        as_yaml(command_line(uri, model), settings)
    }
}

fn redacted(document: &Document) -> String {
    let mut tree = document.located().value.without_spans();
    hide_secrets(&mut tree, Config::KEYS);
    let mut text = String::new();
    write_value(&mut text, &tree, 0);
    text
}

fn as_yaml(mut document: Document, settings: &[(String, String)]) -> Result<String, ConfigError> {
    for (key, value) in settings {
        document.set(key, value);
    }
    remove_nulls(&mut document.root_mut().value);
    let folder = document.folder().to_owned();
    let mut tree = document.located().value.without_spans();
    Config::from_document(document)?;
    make_absolute(&mut tree, Config::KEYS, &folder);
    let mut text = String::new();
    write_value(&mut text, &tree, 0);
    Ok(text)
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

/// Removes keys with nothing behind them.
fn remove_nulls(tree: &mut YamlValue) {
    match tree {
        YamlValue::Map(entries) => {
            entries.retain(|entry| !matches!(entry.value.value, YamlValue::Null));
            for entry in entries {
                remove_nulls(&mut entry.value.value);
            }
        }
        YamlValue::List(items) => {
            for item in items {
                remove_nulls(&mut item.value);
            }
        }
        _ => {}
    }
}

/// Makes the paths of a map with these keys absolute.
fn make_absolute(tree: &mut YamlValue, keys: &[KeySpec], folder: &Path) {
    let YamlValue::Map(entries) = tree else {
        return;
    };
    for entry in entries {
        let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
            continue;
        };
        let value = &mut entry.value.value;
        match (key.value, &mut *value) {
            (ValueType::Path, YamlValue::Text(text)) if !model_folder::is_bundle(text) => {
                *text = absolute(folder.join(&*text));
            }
            (ValueType::Named(inner), YamlValue::Map(named)) => {
                for each in named {
                    make_absolute(&mut each.value.value, inner, folder);
                }
            }
            (_, YamlValue::Text(text)) if key.name == "uri" => {
                // An address was checked; others keep their form.
                match parse::parse(text, folder) {
                    Ok(SourceUri::File(path)) => *text = absolute(path),
                    Ok(SourceUri::Images(path)) => *text = format!("images:{}", absolute(path)),
                    _ => {}
                }
            }
            (_, YamlValue::List(items)) => {
                for item in items {
                    make_absolute(&mut item.value, key.inner().unwrap_or_default(), folder);
                }
            }
            _ => make_absolute(value, key.inner().unwrap_or_default(), folder),
        }
    }
}

fn absolute(path: PathBuf) -> String {
    // It fails for an empty path only, which no key accepts.
    std::path::absolute(&path)
        .unwrap_or(path)
        .display()
        .to_string()
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

    const FILE: &str = "# a comment\ndevice: box-1\nsources:\n  - name: a\n    uri: video.mp4\n    zones:\n      - {name: \"on\", coordinates: '0.1,0.2,0.5,0.2,0.5,0.9'}\n  - {name: b, uri: 'launch:videotestsrc ! video/x-raw,width=64'}\ndetector:\n  model: models/x\n  precision: fp32\n  classes: []\npublish:\n  mqtt: off\n";

    fn written(settings: &[(&str, &str)]) -> Result<String, String> {
        let settings: Vec<(String, String)> = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let document = Document::parse("/etc/jetwatch/f.yaml", FILE).expect("YAML");
        as_yaml(document, &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn written_yaml_is_the_same_configuration_in_any_folder() {
        let original = Config::from_str("/etc/jetwatch/f.yaml", FILE).expect("valid");
        let text = written(&[]).expect("valid");
        let again = Config::from_str("/elsewhere/g.yaml", &text).expect("valid");
        assert_eq!(original.sources, again.sources, "{text}");
        assert_eq!(original.detector, again.detector, "{text}");
        assert_eq!(original.publish, again.publish, "{text}");
        assert!(text.contains("uri: /etc/jetwatch/video.mp4\n"), "{text}");
        assert!(text.contains("model: /etc/jetwatch/models/x\n"), "{text}");
    }

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
    fn settings_are_written_and_null_removes_a_key() {
        let text = written(&[
            ("detector.batch_size", "4"),
            ("detector.precision", "null"),
            ("sources[1].interval", "2"),
        ])
        .expect("valid");
        assert!(text.contains("  batch_size: 4\n"), "{text}");
        assert!(!text.contains("precision"), "{text}");
        assert!(text.contains("    interval: 2\n"), "{text}");
        let error = written(&[("detector.batch_size", "400")]).expect_err("too large");
        assert!(error.contains("detector.batch_size"), "{error}");
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
