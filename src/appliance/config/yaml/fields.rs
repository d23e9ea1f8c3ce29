// SPDX-License-Identifier: Apache-2.0
//! Maps without specified keys: a [`Node`] whose keys the caller lists, or whose keys are names that the file chooses.
//!
//! `model.yaml` is read so. The configuration itself is read by specifications, through [`Map`](super::Map).

use super::node::Node;
use super::tree::{MapEntry, YamlValue};
use crate::foreign_keys;
use crate::redact::MASK;
use crate::schema::nearest;

impl<'d> Node<'d> {
    /// This map, after recording every key that is not among `keys`. Read it with [`required`](Self::required) and
    /// [`optional`](Self::optional). Nothing behind the colon is a map without keys.
    pub fn with_keys(&self, keys: &[&str]) -> Option<Self> {
        match self.tree() {
            YamlValue::Map(entries) => self.refuse_unknown(entries, keys.iter().copied()),
            YamlValue::Null => {}
            _ => return self.type_error("a map"),
        }
        Some(self.clone())
    }

    /// The value of `key` in this map; its absence is recorded, with the accepted form.
    pub fn required(&self, key: &str, expected: &str) -> Option<Self> {
        let found = self.optional(key);
        if found.is_none() {
            let path = self.path_of(key);
            self.report_at(
                self.span(),
                &path,
                "missing",
                Some(expected.to_owned()),
                None,
            );
        }
        found
    }

    /// The value of `key` in this map, where it is given.
    pub fn optional(&self, key: &str) -> Option<Self> {
        let YamlValue::Map(entries) = self.tree() else {
            return None;
        };
        entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| self.child(entry))
    }

    /// The values of a map whose keys are names that the file chooses, in the order of the file.
    pub fn entries(&self, expected: &str) -> Option<Vec<(&'d str, Self)>> {
        match self.tree() {
            YamlValue::Map(entries) => Some(
                entries
                    .iter()
                    .map(|entry| (entry.key.as_str(), self.child(entry)))
                    .collect(),
            ),
            _ => self.type_error(expected),
        }
    }

    /// Whether this is a list, for keys that accept a list or a single value.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.tree(), YamlValue::List(_))
    }

    /// The value that belongs to the word that stands here.
    pub fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        if let YamlValue::Text(text) = self.tree()
            && let Some((_, value)) = choices.iter().find(|(word, _)| word == text)
        {
            return Some(*value);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        // As `ValueType` is written: a single word is not "one of" anything.
        match words.as_slice() {
            [word] => self.type_error(word),
            words => self.type_error(&format!("one of {}", words.join(", "))),
        }
    }

    /// Records every entry whose key is not among `known`.
    pub(crate) fn refuse_unknown<'k>(
        &self,
        entries: &[MapEntry],
        known: impl Iterator<Item = &'k str> + Clone,
    ) {
        let mut before: Option<&MapEntry> = None;
        for entry in entries {
            let above = before.replace(entry);
            if known.clone().any(|key| key == entry.key) {
                continue;
            }
            if let Some(above) = above.filter(|above| above.lacks_secret()) {
                let hint = format!("indent it, if it is the value of `{}`", above.key);
                let path = self.path_of(MASK);
                self.report_at(entry.span, &path, "unknown key", None, Some(hint));
                continue;
            }
            let ours = foreign_keys::ours(&entry.key, known.clone());
            let hint = match ours.or_else(|| nearest(&entry.key, known.clone())) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!(
                    "known here: {}",
                    known.clone().collect::<Vec<_>>().join(", ")
                ),
            };
            let path = self.path_of(&entry.key);
            self.report_at(entry.span, &path, "unknown key", None, Some(hint));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Document;
    use crate::schema::Unit;

    const TEXT: &str = "\
input:
  size: [416, 416]
  layot: nchw
files:
  fp32: a.onnx
  int8: 8
kind: yolo
";

    #[test]
    fn fields_without_schema_report_all_problems() {
        let document = Document::parse("m/model.yaml", TEXT).expect("YAML");
        let root = document
            .root()
            .with_keys(&["input", "files", "kind", "labels"])
            .expect("a map");
        let input = root.required("input", "a map").expect("given");
        let input = input.with_keys(&["size", "layout"]).expect("a map");
        let size = input.required("size", "two numbers").expect("given");
        assert!(size.is_list() && input.optional("layout").is_none());
        let sides: Vec<_> = size
            .items("two numbers")
            .expect("a list")
            .iter()
            .map(|side| side.integer(1..=8192, Unit::Of("pixels")))
            .collect();
        assert_eq!(sides, [Some(416), Some(416)]);
        let files = root
            .required("files", "a map")
            .expect("given")
            .entries("a map")
            .expect("a map");
        let paths: Vec<_> = files
            .iter()
            .map(|(name, file)| (*name, file.path_value()))
            .collect();
        assert_eq!(paths, [("fp32", Some("m/a.onnx".into())), ("int8", None)]);
        let kind = root.required("kind", "a word").expect("given");
        assert_eq!(kind.one_of(&[("yolox", 'x')]), None);
        assert_eq!(kind.one_of(&[("yolox", 'x'), ("yolov8", '8')]), None);
        assert!(root.required("labels", "a path").is_none());

        let error = document
            .finish(Some(()))
            .expect_err("problems were recorded");
        let lines: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "m/model.yaml:1: labels: missing, expected a path",
                "m/model.yaml:3: input.layot: unknown key; did you mean `layout`?",
                "m/model.yaml:6: files.int8: found 8, expected a path; write it in quotes if that is what it is",
                "m/model.yaml:7: kind: found \"yolo\", expected one of yolox, yolov8",
                "m/model.yaml:7: kind: found \"yolo\", expected yolox",
            ]
        );
    }

    #[test]
    fn non_map_root_is_rejected() {
        let document = Document::parse("f.yaml", "[1]").expect("YAML");
        assert!(document.root().with_keys(&["a"]).is_none());
        assert!(document.root().entries("a map of files").is_none());
        assert!(document.root().optional("a").is_none());
        let error = document
            .finish(Some(()))
            .expect_err("problems were recorded")
            .to_string();
        assert!(
            error.starts_with(
                "f.yaml:1: found a list, expected a map; write its keys without `- `\n"
            ),
            "{error}"
        );
        assert!(error.contains("expected a map of files"), "{error}");
    }
}
