// SPDX-License-Identifier: Apache-2.0
//! Keys by their earlier names, which are still read.
//!
//! Called once for each configuration, before its sections are read: they know the present names only.

use super::yaml::document::Document;
use super::yaml::tree::YamlValue;

/// A key that had another name.
struct Renamed {
    /// The list in whose maps it is.
    list: &'static str,
    /// Its earlier names, as they are written and as other programs write them.
    before: &'static [&'static str],
    now: &'static str,
    why: &'static str,
}

const RENAMED: [Renamed; 1] = [Renamed {
    list: "secondary",
    before: &["on", "true"],
    now: "runs_on",
    why: "`on` is a flag to programs that read YAML 1.1, such as Ansible",
}];

/// Gives keys their present names; a line for each that had another one.
pub(super) fn apply(document: &mut Document) -> Vec<String> {
    let YamlValue::Map(entries) = &mut document.root_mut().value else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    for entry in entries {
        let key = RENAMED.iter().find(|key| key.list == entry.key);
        let (Some(key), YamlValue::List(items)) = (key, &mut entry.value.value) else {
            continue;
        };
        for (index, item) in items.iter_mut().enumerate() {
            let YamlValue::Map(entries) = &mut item.value else {
                continue;
            };
            if entries.iter().any(|entry| entry.key == key.now) {
                continue;
            }
            let found = entries
                .iter_mut()
                .find(|e| key.before.contains(&e.key.as_str()));
            if let Some(entry) = found {
                entry.key = key.now.to_owned();
                let Renamed { list, now, why, .. } = key;
                notes.push(format!(
                    "{list}[{index}]: write `{now}` in place of `on`: {why}"
                ));
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn secondary(keys: &str) -> Config {
        let text = format!(
            "sources: [{{name: a, uri: /v.mp4}}]\ndetector: {{model: /m}}\nsecondary: [{{name: s, model: /s, {keys}}}]\n"
        );
        Config::from_str("f.yaml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn earlier_names_are_read_with_a_note() {
        for before in ["on", "true"] {
            let config = secondary(&format!("{before}: {{classes: [car]}}"));
            assert_eq!(config.secondary[0].classes, ["car"]);
            assert_eq!(config.notes.len(), 1);
            assert!(config.notes[0].starts_with("secondary[0]: write `runs_on`"));
        }
        let config = secondary("runs_on: {classes: [car]}");
        let found = (config.secondary[0].classes.len(), config.notes.len());
        assert_eq!(found, (1, 0));
    }
}
