//! From YAML text to a tree of located values.
//!
//! The tree is built from the parser's events and not from a loader's maps, because a loader stops at the first
//! duplicate key and expands aliases before anyone can refuse them. What one file of settings does not need is refused
//! with its line: anchors, aliases, tags, several documents. Called by [`Document`](super::Document) only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use saphyr::{Scalar, ScalarStyle};
use saphyr_parser::{Event, Marker, Parser, StrInput};

use crate::error::Problem;
use crate::redact::quoted;

/// Deepest accepted nesting of lists and maps; our files use six levels.
const MAX_DEPTH: usize = 32;

/// A value with its span.
#[derive(Debug, Clone)]
pub(crate) struct Spanned {
    pub(crate) span: Span,
    pub(crate) value: YamlValue,
}

/// Line and column, both from 1; `None` for values that were not read from a file.
pub(crate) type Span = Option<(usize, usize)>;

/// What YAML's core schema knows, with scalars as they were written together with what they mean.
#[derive(Debug, Clone)]
pub(crate) enum YamlValue {
    Null,
    Boolean(bool),
    Integer(i64),
    Number(f64, String),
    Text(String),
    List(Vec<Spanned>),
    Map(Vec<MapEntry>),
    /// An alias or a tagged value: a problem was recorded, and no reader adds another.
    Refused,
}

impl Spanned {
    /// A value that was not read from a file.
    pub(crate) fn without_span(value: YamlValue) -> Self {
        Self { span: None, value }
    }
}

impl YamlValue {
    /// A map that was not read from a file.
    pub(crate) fn map(entries: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let entry = |(key, tree)| MapEntry {
            key: String::from(key),
            span: None,
            value: Spanned::without_span(tree),
        };
        Self::Map(entries.into_iter().map(entry).collect())
    }

    /// The same without spans.
    pub(crate) fn without_spans(&self) -> Self {
        let bare = |located: &Spanned| Spanned::without_span(located.value.without_spans());
        match self {
            Self::List(items) => Self::List(items.iter().map(bare).collect()),
            Self::Map(entries) => {
                let entry = |entry: &MapEntry| MapEntry {
                    key: entry.key.clone(),
                    span: None,
                    value: bare(&entry.value),
                };
                Self::Map(entries.iter().map(entry).collect())
            }
            other => other.clone(),
        }
    }
}

/// One key of a map with its value.
#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    pub(crate) key: String,
    pub(crate) span: Span,
    pub(crate) value: Spanned,
}

/// The tree of the only document in `text`, or the problem that makes the rest unreadable; and the other problems.
pub(crate) fn build(label: &str, text: &str) -> (Result<Spanned, Box<Problem>>, Vec<Problem>) {
    let mut builder = Builder {
        label,
        parser: Parser::new_from_str(text),
        problems: Vec::new(),
        path: Vec::new(),
    };
    let root = builder.document();
    (root, builder.problems)
}

/// A problem with its span.
pub(crate) fn problem(
    label: &str,
    span: Span,
    key: &str,
    what: String,
    expected: Option<String>,
    hint: Option<String>,
) -> Problem {
    Problem {
        file: label.to_owned(),
        line: span.map(|span| span.0),
        column: span.map(|span| span.1),
        key: key.to_owned(),
        what,
        expected,
        hint,
    }
}

/// Turns the parser's events into the tree.
struct Builder<'t> {
    label: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    problems: Vec<Problem>,
    /// Steps to the value being built: `.key` or `[3]`. Its length is the depth.
    path: Vec<String>,
}

impl<'t> Builder<'t> {
    /// The only document of the file, or the problem that makes the rest unreadable.
    fn document(&mut self) -> Result<Spanned, Box<Problem>> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart
                | Event::Nothing
                | Event::DocumentStart(_)
                | Event::DocumentEnd => {}
                _ if root.is_some() => {
                    return Err(self.fatal(
                        span,
                        "a second document",
                        "keep one document in the file: delete the line `---` before this one",
                    ));
                }
                event => root = Some(self.value(event, span)?),
            }
        }
        root.ok_or_else(|| self.fatal(None, "the file is empty", ""))
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Box<Problem>> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, span_at(&span.start))),
            Some(Err(error)) => {
                let hint = error
                    .info()
                    .contains("tab")
                    .then_some("indent with spaces, not with tabs");
                // The parser's own limit is about as high as ours and may be met first, since it reads ahead.
                if error.info() == "recursion limit exceeded" {
                    return Err(self.too_deep(span_at(error.marker())));
                }
                let what = format!("not YAML: {}", quoted(error.info()));
                let mut fatal = self.fatal(span_at(error.marker()), &what, "");
                fatal.hint = hint.map(str::to_owned);
                Err(fatal)
            }
            None => Ok((Event::StreamEnd, None)),
        }
    }

    fn value(&mut self, event: Event<'t>, span: Span) -> Result<Spanned, Box<Problem>> {
        if self.path.len() > MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        let (mut tree, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style), anchor, tag),
            Event::SequenceStart(anchor, tag) => (YamlValue::List(self.list()?), anchor, tag),
            Event::MappingStart(anchor, tag) => (YamlValue::Map(self.map()?), anchor, tag),
            Event::Alias(_) => {
                self.reject(span, "an alias (`*`)", "write the value out");
                (YamlValue::Refused, 0, None)
            }
            // The parser gives a node wherever one belongs; anything else would be its bug.
            _ => return Err(self.fatal(span, "not YAML: a value is missing", "")),
        };
        if anchor != 0 {
            self.reject(
                span,
                "an anchor (`&`)",
                "write the value out where it is used",
            );
        }
        if tag.is_some() {
            self.reject(
                span,
                "a tag (`!`)",
                "write the bare value; quote it if it begins with `!`",
            );
            tree = YamlValue::Refused;
        }
        Ok(Spanned { span, value: tree })
    }

    fn list(&mut self) -> Result<Vec<Spanned>, Box<Problem>> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            self.path.push(format!("[{}]", items.len()));
            items.push(self.value(event, span)?);
            self.path.pop();
        }
    }

    fn map(&mut self) -> Result<Vec<MapEntry>, Box<Problem>> {
        let mut entries: Vec<MapEntry> = Vec::new();
        let mut first_spans: HashMap<String, Span> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(entries),
                // `1:` and `true:` are keys with these names.
                Event::Scalar(ref text, ..) => text.clone().into_owned(),
                _ => String::new(),
            };
            let step = quoted(&key);
            self.path.push(if self.path.is_empty() {
                step
            } else {
                format!(".{step}")
            });
            if !matches!(event, Event::Scalar(_, _, 0, None)) {
                self.reject(
                    span,
                    "a key that is not plain text",
                    "write a word before the colon",
                );
                self.value(event, span)?;
            }
            let (event, value_span) = self.next()?;
            let value = self.value(event, value_span)?;
            match first_spans.entry(key) {
                Entry::Occupied(first) => {
                    let what = first.get().map_or("given twice".to_owned(), |(line, _)| {
                        format!("given twice, first on line {line}")
                    });
                    self.reject(span, &what, "keep one of them");
                }
                Entry::Vacant(new) => {
                    let key = new.key().clone();
                    new.insert(span);
                    entries.push(MapEntry { key, span, value });
                }
            }
            self.path.pop();
        }
    }

    fn too_deep(&self, span: Span) -> Box<Problem> {
        let what = format!("lists and maps are nested more than {MAX_DEPTH} deep");
        self.fatal(span, &what, "look for brackets that are not closed")
    }

    fn reject(&mut self, span: Span, what: &str, hint: &str) {
        let fatal = self.fatal(span, what, hint);
        self.problems.push(*fatal);
    }

    fn fatal(&self, span: Span, what: &str, hint: &str) -> Box<Problem> {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        let key = self.path.concat();
        // Boxed, since it travels as the error of every step of the recursion.
        Box::new(problem(self.label, span, &key, what.to_owned(), None, hint))
    }
}

fn span_at(marker: &Marker) -> Span {
    Some((marker.line(), marker.col() + 1))
}

/// Quoted text is text; plain text is what YAML 1.2's core schema says, so `off` is a word and `false` is not.
fn scalar(text: &str, style: ScalarStyle) -> YamlValue {
    if style != ScalarStyle::Plain {
        return YamlValue::Text(text.to_owned());
    }
    if text.is_empty() {
        return YamlValue::Null;
    }
    match Scalar::parse_from_cow(text.into()) {
        Scalar::Null => YamlValue::Null,
        Scalar::Boolean(value) => YamlValue::Boolean(value),
        Scalar::Integer(value) => YamlValue::Integer(value),
        Scalar::FloatingPoint(value) => YamlValue::Number(value.into_inner(), text.to_owned()),
        Scalar::String(value) => YamlValue::Text(value.into_owned()),
    }
}

/// Whether `text` is text when it stands without quotes.
pub(crate) fn is_plain_text(text: &str) -> bool {
    matches!(scalar(text, ScalarStyle::Plain), YamlValue::Text(_))
}

#[cfg(test)]
mod tests {
    use crate::Document;

    /// What is wrong with `text` before any key is read.
    fn refused(text: &str) -> String {
        Document::parse("f.yaml", text)
            .and_then(|document| document.finish(Some(())))
            .expect_err("the text is wrong")
            .to_string()
    }

    #[test]
    fn non_plain_yaml_is_rejected_with_position() {
        let cases = [
            ("", "f.yaml: the file is empty"),
            ("# nothing but words\n", "f.yaml: the file is empty"),
            (
                "a: 1\n---\nb: 2\n",
                "f.yaml:3: a second document; keep one document in the file: delete the line `---` before this one",
            ),
            (
                "a: &x 1\nb: *x\n",
                "f.yaml:1: a: an anchor (`&`); write the value out where it is used\nf.yaml:2: b: an alias (`*`); write the value out",
            ),
            (
                "a: !secret x\n",
                "f.yaml:1: a: a tag (`!`); write the bare value; quote it if it begins with `!`",
            ),
            (
                "a: 1\nb:\n  - c: 1\n    c: 2\na: 3\n",
                "f.yaml:4: b[0].c: given twice, first on line 3; keep one of them\nf.yaml:5: a: given twice, first on line 1; keep one of them",
            ),
            (
                "? [a]\n: 1\n",
                "f.yaml:1: a key that is not plain text; write a word before the colon",
            ),
            (
                "{a\n\nb: &x 1}\n",
                "f.yaml:3: a\\nb: an anchor (`&`); write",
            ),
            ("a:\n\tb: 1\n", "indent with spaces, not with tabs"),
            ("a: [1, 2\nb: 3\n", "f.yaml:"),
            ("a: 'open\n", "not YAML: while scanning a quoted scalar"),
        ];
        for (text, wanted) in cases {
            let error = refused(text);
            assert!(
                error.contains(wanted),
                "{text:?} gave\n{error}\ninstead of\n{wanted}"
            );
        }
    }

    #[test]
    fn long_and_deep_yaml_is_rejected_without_stack_overflow() {
        assert_eq!(
            refused(&" ".repeat((1 << 20) + 1)),
            "f.yaml: the file is longer than 1024 KiB\n1 problem in f.yaml"
        );
        for opening in ["[", "{a: ", "- ", "? "] {
            let error = refused(&opening.repeat(200_000));
            assert!(
                error.contains("are nested more than 32 deep; look for"),
                "{opening:?} gave {error:.300}"
            );
        }
    }
}
