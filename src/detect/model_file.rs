//! Reading primitives for `model.yaml`: typed values out of a located tree, every problem kept.
//!
//! It knows YAML and nothing of models: what the keys mean is decided in [`model`](super::model), the only caller. A
//! reader gives `None` exactly when it recorded a problem, so that reading goes on and the user sees all problems of
//! the file at once.

use std::cell::RefCell;
use std::fmt;

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};

/// One thing wrong with a `model.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelProblem {
    /// Line from 1.
    pub line: usize,
    /// Key path such as `input.letterbox.value`; empty for the file as a whole.
    pub key: String,
    /// What is wrong: ``found `true` ``, `missing`, `unknown key`, …
    pub what: String,
    /// The accepted form, or what to do.
    pub expected: String,
}

impl fmt::Display for ModelProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}, expected {}", self.what, self.expected)
    }
}

/// Parses `text` and hands its outermost value to `read`; the value that `read` makes, or all problems by line.
pub(super) fn read<T>(
    text: &str,
    read: impl FnOnce(&Node<'_>) -> Option<T>,
) -> Result<T, Vec<ModelProblem>> {
    let whole = |line: usize, what: String, expected: &str| {
        vec![ModelProblem {
            line,
            key: String::new(),
            what,
            expected: expected.to_owned(),
        }]
    };
    let documents = MarkedYaml::load_from_str(text).map_err(|error| {
        let what = format!("not YAML: {}", error.info());
        whole(
            error.marker().line(),
            what,
            "one YAML map, each key given once",
        )
    })?;
    let [root] = documents.as_slice() else {
        let what = format!("{} YAML documents", documents.len());
        return Err(whole(1, what, "exactly one"));
    };
    let problems = RefCell::new(Vec::new());
    let value = read(&Node {
        yaml: root,
        key: String::new(),
        line: root.span.start.line(),
        problems: &problems,
    });
    let mut problems = problems.into_inner();
    problems.sort_by_key(|problem: &ModelProblem| problem.line);
    match value {
        Some(value) if problems.is_empty() => Ok(value),
        // A reader that gives up without a word is a bug here, but it must not pass for a good file.
        None if problems.is_empty() => Err(whole(1, "incomplete".to_owned(), "all required keys")),
        _ => Err(problems),
    }
}

/// One value with its place.
pub(super) struct Node<'a> {
    yaml: &'a MarkedYaml<'a>,
    key: String,
    line: usize,
    problems: &'a RefCell<Vec<ModelProblem>>,
}

impl<'a> Node<'a> {
    /// Records that this value is not acceptable and gives `None`.
    pub(super) fn refuse<T>(&self, expected: impl Into<String>) -> Option<T> {
        self.record(
            self.line,
            &self.key,
            format!("found {}", self.shown()),
            expected.into(),
        );
        None
    }

    /// A map all of whose keys are in `known`; others are recorded as unknown.
    pub(super) fn map(&self, known: &[&str]) -> Option<Map<'_>> {
        let map = Map { node: self };
        for (key, entry) in map.entries("a map of keys and values")? {
            if !known.contains(&key.as_str()) {
                let path = join(&self.key, &key);
                let expected = format!("one of {}", known.join(", "));
                self.record(entry.line, &path, "unknown key".to_owned(), expected);
            }
        }
        Some(map)
    }

    /// A map whose keys are names that the file chooses, in the order of the file.
    pub(super) fn entries(&self, expected: &str) -> Option<Vec<(String, Node<'a>)>> {
        let YamlData::Mapping(entries) = &self.yaml.data else {
            return self.refuse(expected);
        };
        let mut nodes = Vec::with_capacity(entries.len());
        for (key, yaml) in entries {
            let line = key.span.start.line();
            let YamlData::Value(Scalar::String(name)) = &key.data else {
                let what = "a key that is not a word".to_owned();
                self.record(line, &self.key, what, "a word before the colon".to_owned());
                continue;
            };
            let key = join(&self.key, name);
            nodes.push((
                name.to_string(),
                Node {
                    yaml,
                    key,
                    line,
                    problems: self.problems,
                },
            ));
        }
        Some(nodes)
    }

    /// The items of a list.
    pub(super) fn list(&self, expected: &str) -> Option<Vec<Node<'a>>> {
        let YamlData::Sequence(items) = &self.yaml.data else {
            return self.refuse(expected);
        };
        let node = |(index, yaml): (usize, &'a MarkedYaml<'a>)| Node {
            yaml,
            key: format!("{}[{index}]", self.key),
            line: yaml.span.start.line(),
            problems: self.problems,
        };
        Some(items.iter().enumerate().map(node).collect())
    }

    /// Whether this is a list, for keys that accept a list or a single value.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.yaml.data, YamlData::Sequence(_))
    }

    /// Text of at least one character.
    pub(super) fn text(&self, expected: &str) -> Option<&'a str> {
        match &self.yaml.data {
            YamlData::Value(Scalar::String(text)) if !text.trim().is_empty() => Some(text),
            _ => self.refuse(expected),
        }
    }

    /// One word of a fixed set.
    pub(super) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        if let YamlData::Value(Scalar::String(text)) = &self.yaml.data
            && let Some((_, value)) = choices.iter().find(|(word, _)| word == text)
        {
            return Some(*value);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        self.refuse(words.join(" or "))
    }

    /// A finite number from `least` to `most`.
    pub(super) fn number(&self, least: f64, most: f64) -> Option<f64> {
        let value = match &self.yaml.data {
            YamlData::Value(Scalar::Integer(value)) => *value as f64,
            YamlData::Value(Scalar::FloatingPoint(value)) => value.into_inner(),
            _ => f64::NAN,
        };
        if (least..=most).contains(&value) {
            return Some(value);
        }
        if most == f64::MAX {
            return self.refuse("a finite number");
        }
        self.refuse(format!("a number from {least} to {most}"))
    }

    /// A whole number from `least` to `most`.
    pub(super) fn integer(&self, least: u32, most: u32) -> Option<u32> {
        if let YamlData::Value(Scalar::Integer(value)) = &self.yaml.data
            && (i64::from(least)..=i64::from(most)).contains(value)
        {
            // The range lies within u32.
            return Some(*value as u32);
        }
        self.refuse(format!("a whole number from {least} to {most}"))
    }

    fn record(&self, line: usize, key: &str, what: String, expected: String) {
        self.problems.borrow_mut().push(ModelProblem {
            line,
            key: key.to_owned(),
            what,
            expected,
        });
    }

    /// The value as an error quotes it.
    fn shown(&self) -> String {
        match &self.yaml.data {
            YamlData::Value(Scalar::Null) => "nothing".to_owned(),
            YamlData::Value(Scalar::Boolean(value)) => format!("`{value}`"),
            YamlData::Value(Scalar::Integer(value)) => format!("`{value}`"),
            YamlData::Value(Scalar::FloatingPoint(value)) => format!("`{value}`"),
            YamlData::Value(Scalar::String(value)) => format!("`{value}`"),
            YamlData::Sequence(items) => format!("a list of {}", items.len()),
            YamlData::Mapping(entries) => format!("a map of {}", entries.len()),
            _ => "a tag or an alias".to_owned(),
        }
    }
}

/// A map whose keys were checked.
pub(super) struct Map<'a> {
    node: &'a Node<'a>,
}

impl<'a> Map<'a> {
    /// The value of `key`; its absence is a problem.
    pub(super) fn required(&self, key: &str, expected: &str) -> Option<Node<'a>> {
        let found = self.optional(key);
        if found.is_none() {
            let path = join(&self.node.key, key);
            self.node.record(
                self.node.line,
                &path,
                "missing".to_owned(),
                expected.to_owned(),
            );
        }
        found
    }

    /// The value of `key`, where it is given.
    pub(super) fn optional(&self, key: &str) -> Option<Node<'a>> {
        let YamlData::Mapping(entries) = &self.node.yaml.data else {
            return None;
        };
        let wanted = |data: &YamlData<'_, MarkedYaml<'_>>| matches!(data, YamlData::Value(Scalar::String(name)) if name == key);
        let (found, yaml) = entries.iter().find(|(found, _)| wanted(&found.data))?;
        Some(Node {
            yaml,
            key: join(&self.node.key, key),
            line: found.span.start.line(),
            problems: self.node.problems,
        })
    }

    /// Records a problem of the map as a whole.
    pub(super) fn refuse<T>(&self, key: &str, what: &str, expected: &str) -> Option<T> {
        let path = join(&self.node.key, key);
        self.node
            .record(self.node.line, &path, what.to_owned(), expected.to_owned());
        None
    }

    fn entries(&self, expected: &str) -> Option<Vec<(String, Node<'a>)>> {
        self.node.entries(expected)
    }
}

fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, read_root: impl FnOnce(&Node<'_>) -> Option<()>) -> Vec<String> {
        let found = read(text, read_root).expect_err("the text is wrong");
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_problem_is_reported_by_line_with_key_value_and_form() {
        let found = problems("a: 5\nb:\n  c: yes\n  d: [1, x]\nz: 1\n", |root| {
            let map = root.map(&["a", "b", "e"])?;
            let e = map.required("e", "a word").map(|_| ());
            let b = map.required("b", "a map")?;
            let b = b.map(&["c", "d"])?;
            let d = b.required("d", "a list")?.list("a list")?;
            let d: Vec<_> = d.iter().map(|item| item.number(0.0, 2.0)).collect();
            let c = b
                .required("c", "true or not")?
                .one_of(&[("on", 1), ("off", 0)]);
            let a = map.required("a", "a word")?.text("a word");
            (e.is_some() && c.is_some() && a.is_some() && d.len() == 2).then_some(())
        });
        assert_eq!(
            found,
            [
                "line 1: e: missing, expected a word",
                "line 1: a: found `5`, expected a word",
                "line 3: b.c: found `yes`, expected on or off",
                "line 4: b.d[1]: found `x`, expected a number from 0 to 2",
                "line 5: z: unknown key, expected one of a, b, e",
            ]
        );
    }

    #[test]
    fn what_is_not_one_map_is_refused() {
        let text_of = |text: &str| problems(text, |root| root.map(&["a"]).map(|_| ()));
        assert_eq!(
            text_of("- 1\n"),
            ["line 1: found a list of 1, expected a map of keys and values"]
        );
        assert_eq!(
            text_of("a: 1\n---\na: 2\n"),
            ["line 1: 2 YAML documents, expected exactly one"]
        );
        assert_eq!(
            text_of(""),
            ["line 1: 0 YAML documents, expected exactly one"]
        );
        for text in ["a: 1\na: 2\n", "a: [1\n", "a:\n\tb: 1\n"] {
            let found = text_of(text);
            assert!(found[0].contains("not YAML"), "{text:?} gave {found:?}");
        }
    }

    #[test]
    fn numbers_have_ranges_and_are_finite() {
        let cases = [
            ("1.5", true),
            ("0", true),
            ("2", true),
            ("-0.1", false),
            ("2.1", false),
        ];
        for (text, good) in cases {
            let value = read(text, |root| root.number(0.0, 2.0));
            assert_eq!(value.is_ok(), good, "{text}");
        }
        for text in [".nan", ".inf", "-.inf", "word", "[1]"] {
            assert!(
                read(text, |root| root.number(f64::MIN, f64::MAX)).is_err(),
                "{text}"
            );
        }
        for text in ["1.0", "-1", "4294967296", "'1'"] {
            assert!(
                read(text, |root| root.integer(0, u32::MAX)).is_err(),
                "{text}"
            );
        }
    }
}
