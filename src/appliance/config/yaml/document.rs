// SPDX-License-Identifier: Apache-2.0
//! A YAML file as a tree that knows its lines.
//!
//! A document holds the tree and collects the problems that the builder and the readers find in it. Values are read
//! through [`Node`]; nothing here knows what the keys mean. Called by [`Config::load`](super::Config::load) and by
//! `detect` for `model.yaml`.

use std::cell::RefCell;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::characters;
use super::node::Node;
use super::tree::{self, Span, Spanned, YamlValue};
use crate::error::{ConfigError, Problem};
use crate::redact::redact;

/// Longest accepted file. A configuration with hundreds of sources has about 100 kB.
const MAX_BYTES: usize = 1 << 20;

/// A parsed file with the problems found in it so far.
#[derive(Debug, Clone)]
pub struct Document {
    label: String,
    root: Spanned,
    problems: RefCell<Vec<Problem>>,
}

impl Document {
    /// Reads and parses the file at `path`, which also is the name that problems carry.
    ///
    /// # Errors
    /// The file cannot be read or is not UTF-8, and as [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let mut bytes = Vec::new();
        // One byte more than is accepted, so that an endless device ends in a problem and not in all of the memory.
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        let label = path.display().to_string();
        if characters::is_utf16(&bytes) {
            let hint =
                "save it with the encoding UTF-8, or write: iconv -f UTF-16 -t UTF-8".to_owned();
            let what = "the file is UTF-16".to_owned();
            return Err(whole_file(&label, None, what, Some(hint)));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse(&label, text),
            // A cut in the middle of a character is no reason to call a file that is too long not UTF-8.
            Err(_) if bytes.len() > MAX_BYTES => Err(too_long(&label)),
            Err(error) => {
                let good = &bytes[..error.valid_up_to()];
                let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
                let hint = "save the file with the encoding UTF-8".to_owned();
                let what = format!("byte {} is not UTF-8", good.len() + 1);
                Err(whole_file(&label, Some((line, 1)), what, Some(hint)))
            }
        }
    }

    /// Parses `text`; `label` names it in problems, and relative paths in it count from the folder of `label`.
    ///
    /// Duplicate keys, anchors, aliases and tags are recorded and reported by [`finish`](Self::finish), together with what
    /// the readers find.
    ///
    /// # Errors
    /// There is no tree to read from: a syntax error, an empty file, several documents, more than 1 MiB or more than 32
    /// levels.
    pub fn parse(label: &str, text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_BYTES {
            return Err(too_long(label));
        }
        // Editors on other systems put a byte order mark first, which means nothing in UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let misplaced = misplaced(label, text);
        if !misplaced.is_empty() {
            return Err(ConfigError::new(misplaced));
        }
        let (root, mut problems) = tree::build(label, text);
        match root {
            Ok(root) => Ok(Self {
                label: label.to_owned(),
                root,
                problems: RefCell::new(problems),
            }),
            Err(fatal) => {
                problems.push(*fatal);
                Err(ConfigError::new(problems))
            }
        }
    }

    /// A tree that was not read from a file, such as the words of a command line.
    pub(crate) fn without_spans(label: &str, value: YamlValue) -> Self {
        let root = Spanned::without_span(value);
        Self {
            label: label.to_owned(),
            root,
            problems: RefCell::default(),
        }
    }

    /// The outermost value.
    #[must_use]
    pub fn root(&self) -> Node<'_> {
        Node::new(self, &self.root, String::new())
    }

    /// The tree, to be changed before it is read.
    pub(crate) fn root_mut(&mut self) -> &mut Spanned {
        &mut self.root
    }

    /// The tree without spans.
    ///
    /// # Errors
    /// Text of the first recorded problem.
    pub(crate) fn into_value(self) -> Result<YamlValue, String> {
        match self.problems.into_inner().into_iter().next() {
            Some(problem) => Err(problem.what),
            None => Ok(self.root.value),
        }
    }

    /// The name given to [`parse`](Self::parse).
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The outermost value with its span.
    pub(crate) fn located(&self) -> &Spanned {
        &self.root
    }

    /// The folder from which relative paths count: that of the file; empty (the working directory) when it has none.
    pub fn folder(&self) -> &Path {
        Path::new(&self.label).parent().unwrap_or(Path::new(""))
    }

    /// Ends reading: `value` when no problem was recorded.
    ///
    /// # Errors
    /// All recorded problems. Readers give `None` exactly when they recorded a problem, so `None` without one is a bug of the
    /// caller; it ends as an error, too.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, ConfigError> {
        let mut problems = self.problems.into_inner();
        if !problems.is_empty() {
            mask(&mut problems, &self.root);
        }
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            None if problems.is_empty() => Err(whole_file(
                &self.label,
                None,
                "a value is missing".to_owned(),
                None,
            )),
            _ => Err(ConfigError::new(problems)),
        }
    }

    /// Records a problem.
    pub(crate) fn record(
        &self,
        span: Span,
        key: &str,
        what: String,
        expected: Option<String>,
        hint: Option<String>,
    ) {
        self.problems.borrow_mut().push(tree::problem(
            &self.label,
            span,
            key,
            what,
            expected,
            hint,
        ));
    }
}

/// The lines that only look as if they had a blank where YAML expects one. What the parser makes of them does not help.
fn misplaced(label: &str, text: &str) -> Vec<Problem> {
    let lines = tree::lines(text).into_iter().enumerate();
    let problem = |(index, line)| {
        let (column, what, hint) = characters::misplaced(line)?;
        let what = format!("{what} in column {column}");
        let span = Some((index + 1, column));
        Some(tree::problem(
            label,
            span,
            "",
            what,
            None,
            Some(hint.to_owned()),
        ))
    };
    lines.filter_map(problem).collect()
}

/// Masks the texts of a tree wherever a problem repeats one as it is: rules between keys name labels, zones and sources, where an
/// address with a password may stand by mistake.
fn mask(problems: &mut [Problem], root: &Spanned) {
    let mut texts = Vec::new();
    root.value.collect_texts(&mut texts);
    texts.sort_unstable();
    texts.dedup();
    for text in texts {
        let masked = redact(text);
        if masked == text {
            continue;
        }
        for problem in &mut *problems {
            problem.what = problem.what.replace(text, &masked);
            problem.hint = problem.hint.take().map(|hint| hint.replace(text, &masked));
        }
    }
}

fn whole_file(label: &str, span: Span, what: String, hint: Option<String>) -> ConfigError {
    ConfigError::new(vec![tree::problem(label, span, "", what, None, hint)])
}

fn too_long(label: &str) -> ConfigError {
    whole_file(
        label,
        None,
        format!("the file is longer than {} KiB", MAX_BYTES / 1024),
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_utf8_files_are_rejected() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("c.yaml");
        std::fs::write(&path, b"a: 1\nb: \xff\n").expect("written");
        let error = Document::read(&path).expect_err("not UTF-8").to_string();
        assert!(
            error.contains("c.yaml:2: byte 9 is not UTF-8; save the file"),
            "{error}"
        );

        let utf16 = |text: &str, to_bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(to_bytes).collect()
        };
        for bytes in [
            utf16("a: 1\n", u16::to_le_bytes),
            utf16("\u{feff}a: 1\n", u16::to_le_bytes),
            utf16("\u{feff}a: 1\n", u16::to_be_bytes),
        ] {
            std::fs::write(&path, bytes).expect("written");
            let error = Document::read(&path).expect_err("UTF-16").to_string();
            assert!(
                error.contains("c.yaml: the file is UTF-16; save it"),
                "{error}"
            );
        }

        let error = Document::read(folder.path())
            .expect_err("a folder")
            .to_string();
        assert!(error.starts_with("cannot read"), "{error}");

        let error = Document::read(Path::new("/dev/zero"))
            .expect_err("an endless file")
            .to_string();
        assert!(error.contains("longer than 1024 KiB"), "{error}");
    }

    #[test]
    fn byte_order_mark_is_skipped() {
        let document = Document::parse("f.yaml", "\u{feff}a: 1\n").expect("a map");
        assert!(matches!(&document.root.value, YamlValue::Map(entries) if entries[0].key == "a"));
    }

    #[test]
    fn missing_value_without_problem_is_error() {
        let document = Document::parse("f.yaml", "a: 1\n").expect("a map");
        let error = document
            .finish(None::<()>)
            .expect_err("nothing was read")
            .to_string();
        assert!(error.contains("a value is missing"), "{error}");
    }
}
