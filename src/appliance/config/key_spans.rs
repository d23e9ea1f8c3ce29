// SPDX-License-Identifier: Apache-2.0
//! Where in its file each key of a configuration stands, for problems that are found only once a model is known or while the
//! daemon runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::Problem;
use super::yaml::document::Document;
use super::yaml::tree::{self, Span, Spanned, YamlValue};
use jetwatch_types::renamed_label;

/// Ends of the key paths of lists of labels.
const LABEL_LISTS: [&str; 3] = ["classes", "labels", "objects"];

/// The spans of a configuration's keys, by key path.
#[derive(Debug, Clone)]
pub(crate) struct KeySpans {
    label: String,
    spans: Arc<BTreeMap<String, Span>>,
    /// Labels in lists that have another name, each with the key of its list.
    renamed: Arc<[(String, String)]>,
}

impl crate::Config {
    /// A problem with the value of `key`, found where it is used; see [`KeySpans::problem`].
    pub fn problem(&self, key: &str, what: String, hint: Option<String>) -> Problem {
        self.key_spans.problem(key, what, hint)
    }

    /// Labels in the file that have [another name](renamed_label), each with the key of its list, in the order of the file.
    pub fn renamed_labels(&self) -> &[(String, String)] {
        &self.key_spans.renamed
    }
}

impl KeySpans {
    /// Those of a file.
    pub(super) fn of(document: &Document) -> Self {
        let (mut spans, mut renamed) = (BTreeMap::new(), Vec::new());
        collect(String::new(), document.located(), &mut spans, &mut renamed);
        Self {
            label: document.label().to_owned(),
            spans: Arc::new(spans),
            renamed: renamed.into(),
        }
    }

    /// A problem with the value of `key`: what is wrong, and what to do. Where the file does not have the key, its span is that
    /// of the section that it would stand in.
    pub(crate) fn problem(&self, key: &str, what: String, hint: Option<String>) -> Problem {
        let mut known = key;
        let span = loop {
            if let Some(span) = self.spans.get(known) {
                break *span;
            }
            let Some(end) = known.rfind(['.', '[']) else {
                break None;
            };
            known = &known[..end];
        };
        tree::problem(&self.label, span, key, what, None, hint)
    }
}

fn collect(
    path: String,
    located: &Spanned,
    spans: &mut BTreeMap<String, Span>,
    renamed: &mut Vec<(String, String)>,
) {
    match &located.value {
        YamlValue::Map(entries) => {
            for entry in entries {
                let below = match path.as_str() {
                    "" => entry.key.clone(),
                    path => format!("{path}.{}", entry.key),
                };
                collect(below.clone(), &entry.value, spans, renamed);
                spans.insert(below, entry.span);
            }
        }
        YamlValue::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(format!("{path}[{index}]"), item, spans, renamed);
                if let YamlValue::Text(label) = &item.value
                    && is_label_list(&path)
                    && renamed_label(label).is_some()
                {
                    renamed.push((path.clone(), label.clone()));
                }
            }
        }
        _ => {}
    }
    if !path.is_empty() {
        spans.insert(path, located.span);
    }
}

/// Whether the list at `path` is of labels: one of `detector.groups` or DeepStream's kinds, too.
fn is_label_list(path: &str) -> bool {
    LABEL_LISTS.iter().any(|end| path.ends_with(end))
        || [".groups.", ".objects."]
            .iter()
            .any(|part| path.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_span_is_found_for_present_and_missing_keys() {
        let text = "a:\n  - b: 1\n    c:\n      d: 2\n  - b: 3\n";
        let document = Document::parse("f.yaml", text).expect("a good file");
        let spans = KeySpans::of(&document);
        let line = |key: &str| spans.problem(key, String::new(), None).line;
        assert_eq!(line("a[1].b"), Some(5));
        assert_eq!(line("a[0].c.d"), Some(4));
        assert_eq!(line("a[0].c.x[7].y"), Some(3), "in this section");
        assert_eq!(line("a[1].x"), Some(5));
        assert_eq!(line("x.y"), None);
        let problem = spans.problem("a[1].b", "found 3".to_owned(), Some("write 4".to_owned()));
        assert_eq!(problem.to_string(), "f.yaml:5: a[1].b: found 3; write 4");
    }

    #[test]
    fn renamed_labels_are_collected_from_lists_of_labels_only() {
        let text = "detector: {classes: [car, sofa], groups: {seat: [couch]}}\n\
                    record: {clips: {labels: [tv], zones: [tv]}}\n\
                    sources: [{name: sofa, rules: {zones: [{objects: [motorbike]}]}}]\n\
                    formats: [{objects: {vehicle: [aeroplane]}}]\n";
        let document = Document::parse("f.yaml", text).expect("a good file");
        let spans = KeySpans::of(&document);
        let found: Vec<(&str, &str)> = spans
            .renamed
            .iter()
            .map(|(key, label)| (key.as_str(), label.as_str()))
            .collect();
        let wanted = [
            ("detector.classes", "sofa"),
            ("detector.groups.seat", "couch"),
            ("record.clips.labels", "tv"),
            ("sources[0].rules.zones[0].objects", "motorbike"),
            ("formats[0].objects.vehicle", "aeroplane"),
        ];
        assert_eq!(found, wanted);
    }
}
