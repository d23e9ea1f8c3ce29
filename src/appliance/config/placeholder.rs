// SPDX-License-Identifier: Apache-2.0
//! Values that another program would replace before it reads them, such as `${CAM_PASS}`, and values with characters that nobody
//! writes on purpose. Both would be sent to a camera or a broker as they stand.
//!
//! Called once for each configuration, before its sections are read: what is reported here is not a value for any reader.

use super::redact::address_in;
use super::schema::{KeySpec, ValueType};
use super::yaml::characters;
use super::yaml::document::Document;
use super::yaml::tree::{Span, Spanned, YamlValue};

/// Tags of YAML by which other programs read a value from elsewhere.
const TAGS: [&str; 5] = ["!secret", "!env_var", "!env", "!include", "!vault"];

/// Names of variables without `_` that are not passwords.
const VARIABLES: [&str; 8] = [
    "PASSWORD", "PASSWD", "PASS", "PWD", "SECRET", "TOKEN", "USER", "HOME",
];

/// What separates the parts of an address, a path or a topic.
const SEPARATORS: [char; 9] = ['/', ':', '@', '?', '&', '=', ',', ';', ' '];

/// The tag `!suffix`, if it is one of [`TAGS`].
pub(super) fn tag(suffix: &str) -> Option<&'static str> {
    TAGS.into_iter().find(|tag| tag[1..] == *suffix)
}

/// What to do about a placeholder at `key`.
pub(super) fn advice(key: &str) -> &'static str {
    match key {
        "password" => {
            "use password_env or password_file, which also may hold a password that is written so"
        }
        "value" => "use value_file",
        key if key.ends_with("_file") => "write the whole path",
        "password_env" => "write the name of the variable alone",
        "uri" => "write the address itself, and use user with password_env or password_file",
        _ => {
            "write the value itself; only passwords are read from elsewhere, by password_env or password_file"
        }
    }
}

/// Records the values of `document` that nobody means as they stand, and takes them out. `keys` are those of its root.
pub(super) fn refuse(document: &mut Document, keys: &[KeySpec]) {
    let mut mistakes = Vec::new();
    refuse_in_map(&mut document.root_mut().value, keys, "", &mut mistakes);
    for Mistake {
        span,
        key,
        what,
        hint,
    } in mistakes
    {
        document.record(span, &key, what, None, Some(hint.to_owned()));
    }
}

struct Mistake {
    span: Span,
    key: String,
    what: String,
    hint: &'static str,
}

fn refuse_in_map(value: &mut YamlValue, keys: &[KeySpec], path: &str, found: &mut Vec<Mistake>) {
    let YamlValue::Map(entries) = value else {
        return;
    };
    for entry in entries {
        let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
            continue;
        };
        let path = match path {
            "" => key.name.to_owned(),
            path => format!("{path}.{}", key.name),
        };
        match (key.value, &mut entry.value.value) {
            (ValueType::Named(inner), YamlValue::Map(named)) => {
                for each in named {
                    let path = format!("{path}.{}", each.key);
                    refuse_in_map(&mut each.value.value, inner, &path, found);
                }
            }
            (_, YamlValue::List(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let path = format!("{path}[{index}]");
                    refuse_value(item, key, &path, found);
                }
            }
            _ => refuse_value(&mut entry.value, key, &path, found),
        }
    }
}

fn refuse_value(value: &mut Spanned, key: &KeySpec, path: &str, found: &mut Vec<Mistake>) {
    if let Some(inner) = key.inner()
        && matches!(value.value, YamlValue::Map(_))
    {
        return refuse_in_map(&mut value.value, inner, path, found);
    }
    let mistake = match &value.value {
        YamlValue::Text(text) => {
            let is_template = path.starts_with("source_templates");
            let form = form_in(text, key, is_template);
            form.map(|form| (format!("`{form}` is not expanded"), advice(key.name)))
                .or_else(|| characters::mistake_in(text))
                .or_else(|| login_in(text, key))
        }
        // `{NAME}` without quotes is a map.
        YamlValue::Map(entries) => match entries.as_slice() {
            [entry] if matches!(entry.value.value, YamlValue::Null) && is_word(&entry.key) => {
                Some(("`{…}` is not expanded".to_owned(), advice(key.name)))
            }
            _ => None,
        },
        _ => None,
    };
    if let Some((what, hint)) = mistake {
        let (span, key) = (value.span, path.to_owned());
        found.push(Mistake {
            span,
            key,
            what,
            hint,
        });
        value.value = YamlValue::Refused;
    }
}

/// The address of a camera or a broker at a key that takes none, such as a path: with its password it would be the name of a file, in
/// logs, too.
fn login_in(text: &str, key: &KeySpec) -> Option<(String, &'static str)> {
    let takes_none = matches!(
        key.value,
        ValueType::Path | ValueType::Text(_) | ValueType::Texts(_)
    ) && !["uri", "url", "broker", "brokers"].contains(&key.name);
    let has_user = address_in(text).is_some_and(|address| address.contains('@'));
    (takes_none && has_user).then(|| {
        let hint = "cameras are in sources, brokers in publish.mqtt";
        ("it holds an address with a user".to_owned(), hint)
    })
}

/// The form of the placeholder that `text` is, or has in it where it is not a password.
///
/// A password may hold any characters, so that only one that is a placeholder as a whole is refused; for it there is
/// `password_file`. In other texts the parts between separators are looked at, too, and `${` and `{{` anywhere.
fn form_in(text: &str, key: &KeySpec, is_template: bool) -> Option<&'static str> {
    if let ValueType::Secret = key.value {
        // `Bearer ${TOKEN}` is the value of a header.
        let word = text.strip_prefix("Bearer ").or(text.strip_prefix("Basic "));
        return form(word.unwrap_or(text));
    }
    for (begin, end, name) in [
        ("${", "}", "${…}"),
        ("{{", "}}", "{{ … }}"),
        ("$(", ")", "$(…)"),
    ] {
        if text
            .split_once(begin)
            .is_some_and(|(_, rest)| rest.contains(end))
        {
            return Some(name);
        }
    }
    let form = form(text).or_else(|| text.split(SEPARATORS).find_map(form))?;
    let is_own = match form {
        // Parameters of templates, and lists of GStreamer's caps.
        "{…}" => is_template || text.starts_with("launch:"),
        // Labels of networks are written so.
        "<…>" => matches!(key.value, ValueType::Texts(_)) || text.starts_with("launch:"),
        _ => false,
    };
    (!is_own).then_some(form)
}

/// The form of the placeholder that `text` is as a whole.
fn form(text: &str) -> Option<&'static str> {
    let between = |begin: &str, end: &str| text.strip_prefix(begin)?.strip_suffix(end);
    let is_given = |inner: &str| !inner.trim().is_empty();
    if between("{{", "}}").is_some_and(is_given) {
        return Some("{{ … }}");
    }
    if between("${", "}").is_some_and(is_given) {
        return Some("${…}");
    }
    if between("$(", ")").is_some_and(is_given) {
        return Some("$(…)");
    }
    if between("{", "}").is_some_and(is_word) {
        return Some("{…}");
    }
    if between("<", ">").is_some_and(|inner| is_word(&inner.replace([' ', '-'], "_"))) {
        return Some("<…>");
    }
    if between("%", "%").is_some_and(is_variable) {
        return Some("%…%");
    }
    if text.strip_prefix('$').is_some_and(is_variable) {
        return Some("$NAME");
    }
    let (first, rest) = text.split_once(' ')?;
    let tag = TAGS.into_iter().find(|tag| *tag == first)?;
    is_word(rest.trim()).then_some(tag)
}

fn is_word(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_first) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether `text` is how variables of an environment are named: `$CAM_PASS` is one, `$ECRET7` may be a password.
fn is_variable(text: &str) -> bool {
    let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    is_word(text)
        && text.chars().all(is_upper)
        && (text.trim_matches('_').contains('_') || VARIABLES.contains(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_passwords() {
        for (text, wanted) in [
            ("${CAM_PASS}", Some("${…}")),
            ("${CAM_PASS:-secret}", Some("${…}")),
            ("$CAM_PASS", Some("$NAME")),
            ("$PASSWORD", Some("$NAME")),
            ("{FRIGATE_RTSP_PASSWORD}", Some("{…}")),
            ("!secret cam_pass", Some("!secret")),
            ("!env_var CAM_PASS", Some("!env_var")),
            ("{{ cam_pass }}", Some("{{ … }}")),
            ("%CAM_PASS%", Some("%…%")),
            ("<password>", Some("<…>")),
            ("<your password>", Some("<…>")),
            ("$(cat /run/secrets/cam)", Some("$(…)")),
            // Passwords.
            ("pa$$w0rd", None),
            ("$ecret", None),
            ("$ECRET7", None),
            ("$1$abc_DEF", None),
            ("x${a}", None),
            ("a{b}c", None),
            ("{a-b}", None),
            ("<3", None),
            ("100%", None),
            ("%41%42", None),
            ("!secret", None),
            ("", None),
            ("${}", None),
        ] {
            assert_eq!(form(text), wanted, "{text}");
        }
    }
}
