// SPDX-License-Identifier: Apache-2.0
//! From YAML text to a tree of located values.
//!
//! The tree is built from the parser's events and not from a loader's maps, because a loader stops at the first
//! duplicate key and expands aliases before anyone can refuse them. What one file of settings does not need is refused
//! with its line: anchors, aliases, tags, several documents. Called by [`Document`](super::Document) only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use saphyr::{Scalar, ScalarStyle};
use saphyr_parser::{Event, Marker, Parser, StrInput};

use crate::error::Problem;
use crate::placeholder;
use crate::redact::{address_in, has_port_or_none, on_one_line, quoted_key};
use crate::secret_names::{is_secret_at, is_secret_key};

/// Deepest accepted nesting of lists and maps; our files use six levels.
const MAX_DEPTH: usize = 32;

/// Last column in which the text behind a value is looked at.
const MAX_COLUMN: usize = 2000;

/// A value with its span.
#[derive(Debug, Clone)]
pub(crate) struct Spanned {
    pub(crate) span: Span,
    pub(crate) value: YamlValue,
}

/// Line and column, both from 1; `None` for values that were not read from a file.
pub(crate) type Span = Option<(usize, usize)>;

/// What YAML's core schema knows, with scalars as they were written together with what they mean.
#[derive(Clone)]
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

/// Its kind: the value may be a secret.
impl fmt::Debug for YamlValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Boolean(_) => "Boolean",
            Self::Integer(_) | Self::Number(..) => "Number",
            Self::Text(_) => "Text",
            Self::List(_) => "List",
            Self::Map(_) => "Map",
            Self::Refused => "Refused",
        })
    }
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

    /// Adds the texts in it to `texts`.
    pub(super) fn collect_texts<'v>(&'v self, texts: &mut Vec<&'v str>) {
        match self {
            Self::Text(text) => texts.push(text),
            Self::List(items) => items
                .iter()
                .for_each(|item| item.value.collect_texts(texts)),
            Self::Map(entries) => {
                for entry in entries {
                    entry.value.value.collect_texts(texts);
                }
            }
            _ => {}
        }
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

impl MapEntry {
    /// Whether its text is a secret or may have one in it.
    fn holds_secret(&self) -> bool {
        let YamlValue::Text(text) = &self.value.value else {
            return false;
        };
        self.key == "user" || is_secret_key(&self.key) || address_in(text).is_some()
    }

    /// Whether nothing is behind a key of a secret, so that the key below may be a part of it.
    pub(crate) fn lacks_secret(&self) -> bool {
        let is_empty = match &self.value.value {
            YamlValue::Null => true,
            YamlValue::Text(text) => text.is_empty(),
            _ => false,
        };
        is_empty && is_secret_key(&self.key)
    }
}

/// The tree of the only document in `text`, or the problem that makes the rest unreadable; and the other problems.
pub(crate) fn build(label: &str, text: &str) -> (Result<Spanned, Box<Problem>>, Vec<Problem>) {
    let mut builder = Builder {
        label,
        lines: lines(text),
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
    lines: Vec<&'t str>,
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
                // A `---` with nothing behind it ends the file.
                Event::Scalar(text, ScalarStyle::Plain, 0, None)
                    if root.is_some() && text.is_empty() => {}
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
                // The parser's own limit is about as high as ours and may be met first, since it reads ahead.
                if error.info() == "recursion limit exceeded" {
                    return Err(self.too_deep(span_at(error.marker())));
                }
                let mut span = span_at(error.marker());
                if error.info() == NO_COLON {
                    span = self.line_before(error.marker().line());
                }
                let what = format!("not YAML: {}", on_one_line(error.info()));
                Err(self.fatal(span, &what, hint_for(error.info())))
            }
            None => Ok((Event::StreamEnd, None)),
        }
    }

    fn value(&mut self, event: Event<'t>, span: Span) -> Result<Spanned, Box<Problem>> {
        if self.path.len() > MAX_DEPTH {
            return Err(self.too_deep(span));
        }
        let (mut tree, anchor, tag) = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) if self.is_cut(&text, span) => {
                let hint = "put the value in quotes if `#` belongs to it, else the comment on a line of its own";
                self.reject(span, "cut at ` #`, which begins a comment", hint);
                (YamlValue::Refused, 0, None)
            }
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style), anchor, tag),
            Event::SequenceStart(anchor, tag) => (YamlValue::List(self.list()?), anchor, tag),
            Event::MappingStart(anchor, tag) => (self.map()?, anchor, tag),
            Event::Alias(_) => {
                self.reject(span, "an alias (`*`)", "write the value out");
                (YamlValue::Refused, 0, None)
            }
            // The parser gives a node wherever one belongs; anything else would be its bug.
            _ => return Err(self.fatal(span, "not YAML: a value is missing", "")),
        };
        if anchor != 0 {
            let hint = "write the value out where it is used; quote it if it begins with `&`";
            self.reject(span, "an anchor (`&`)", hint);
            // A list or a map is read on, for its other problems.
            if !matches!(tree, YamlValue::List(_) | YamlValue::Map(_)) {
                tree = YamlValue::Refused;
            }
        }
        if let Some(tag) = tag {
            match placeholder::tag(&tag.suffix) {
                Some(tag) => {
                    let what = format!("`{tag}` is not expanded");
                    let hint = placeholder::advice(last_key(&self.path));
                    self.reject(span, &what, hint);
                }
                None => {
                    let hint = "write the bare value; quote it if it begins with `!`";
                    self.reject(span, "a tag (`!`)", hint);
                }
            }
            tree = YamlValue::Refused;
        }
        Ok(Spanned { span, value: tree })
    }

    fn list(&mut self) -> Result<Vec<Spanned>, Box<Problem>> {
        let mut items: Vec<Spanned> = Vec::new();
        // The line on which an address was cut at a comma.
        let mut cut = None;
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            self.path.push(format!("[{}]", items.len()));
            let item = self.value(event, span)?;
            self.path.pop();
            let is_rest = matches!(&item.value, YamlValue::Text(text) if !text.contains("://"));
            if is_rest && cut.is_some() && cut == line_of(span) {
                continue;
            }
            if is_rest
                && let Some(before) = items.last_mut()
                && is_cut_address(before)
                && self.is_before(before, span)
            {
                cut = line_of(span);
                before.value = YamlValue::Refused;
                let span = before.span;
                self.reject_cut(span, format!("[{}]", items.len() - 1));
                continue;
            }
            items.push(item);
        }
    }

    fn map(&mut self) -> Result<YamlValue, Box<Problem>> {
        let mut entries: Vec<MapEntry> = Vec::new();
        let mut first_spans: HashMap<String, Span> = HashMap::new();
        let mut is_refused = false;
        // The line on which an address or a password was cut at a comma.
        let mut cut = None;
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd if is_refused => return Ok(YamlValue::Refused),
                Event::MappingEnd => return Ok(YamlValue::Map(entries)),
                // `1:` and `true:` are keys with these names.
                Event::Scalar(ref text, ..) => text.clone().into_owned(),
                Event::MappingStart(..) if self.is_template(span) => {
                    let hint = placeholder::advice(last_key(&self.path));
                    self.reject(span, "`{{ … }}` is not expanded", hint);
                    is_refused = true;
                    String::new()
                }
                _ => String::new(),
            };
            let step = quoted_key(&key);
            self.path.push(if self.path.is_empty() {
                step
            } else {
                format!(".{step}")
            });
            let known = self.problems.len();
            if !matches!(event, Event::Scalar(_, _, 0, None)) {
                if !is_refused {
                    let hint = "write a word before the colon";
                    self.reject(span, "a key that is not plain text", hint);
                }
                self.value(event, span)?;
            }
            let (event, value_span) = self.next()?;
            let value = self.value(event, value_span)?;
            let path = self.path.pop();
            if key == "<<" {
                self.problems.truncate(known);
                self.reject(span, "a merge key (`<<`)", "write the keys out");
                continue;
            }
            if matches!(value.value, YamlValue::Null) && !self.has_colon(&key, span) {
                if cut.is_some() && cut == line_of(span) {
                    continue;
                }
                if let Some(before) = entries.last_mut()
                    && before.holds_secret()
                    && self.is_before(&before.value, span)
                {
                    cut = line_of(span);
                    before.value.value = YamlValue::Refused;
                    let (span, key) = (before.value.span, format!(".{}", before.key));
                    self.reject_cut(span, key);
                    continue;
                }
            }
            match first_spans.entry(key) {
                Entry::Occupied(first) => {
                    let what = first.get().map_or("given twice".to_owned(), |(line, _)| {
                        format!("given twice, first on line {line}")
                    });
                    self.path.extend(path);
                    self.reject(span, &what, "keep one of them");
                    self.path.pop();
                }
                Entry::Vacant(new) => {
                    let key = new.key().clone();
                    new.insert(span);
                    entries.push(MapEntry { key, span, value });
                }
            }
        }
    }

    /// What stands in the file from `span` on, up to the end of the line. Columns that nobody writes by hand are not counted for each
    /// value of a line of a megabyte.
    fn rest_of_line(&self, span: Span) -> Option<&'t str> {
        let (line, column) = span.filter(|(_, column)| *column <= MAX_COLUMN)?;
        let line = *self.lines.get(line.checked_sub(1)?)?;
        let (at, _) = line.char_indices().nth(column.checked_sub(1)?)?;
        Some(&line[at..])
    }

    /// Whether the comment behind the plain text of an address, a user or a password looks like a part of it: one blank before
    /// `#` and none behind it; or an address ends with a user and a password, whose host is in the comment.
    fn is_cut(&self, text: &str, span: Span) -> bool {
        let key = last_key(&self.path);
        let is_address = matches!(key, "uri" | "broker" | "brokers");
        let address = address_in(text).or(is_address.then_some(text));
        let is_secret =
            key == "user" || (is_secret_at(&self.path.concat()) && !key.ends_with("_file"));
        if !is_secret && address.is_none() {
            return false;
        }
        let behind = self
            .rest_of_line(span)
            .and_then(|rest| rest.strip_prefix(text));
        let Some(comment) = behind.and_then(|behind| behind.trim_start().strip_prefix('#')) else {
            return false;
        };
        // Behind what was cut off may be a comment that is one.
        let comment = comment.split(" #").next().unwrap_or_default().trim_end();
        let is_word = !comment.is_empty() && !comment.contains([' ', '\t']);
        let is_near = behind.is_some_and(|behind| behind.starts_with(" #"));
        let Some(address) = address else {
            return is_near && is_word;
        };
        // A user and a password, not `ask me@example.org`.
        let end = comment.rsplit_once('@').map(|(end, _)| end);
        let is_login = |end: &str| end.contains(':') || !has_port_or_none(address);
        end.is_some_and(is_login)
            || (is_near && is_word && comment.contains(['@', '/', ':', '=', '&']))
    }

    /// Whether `value` stands without quotes on the line of `span`, as it does before a comma in brackets.
    fn is_before(&self, value: &Spanned, span: Span) -> bool {
        let is_plain = |rest: &str| !rest.starts_with(['"', '\'']);
        line_of(value.span) == line_of(span) && self.rest_of_line(value.span).is_some_and(is_plain)
    }

    /// Whether a colon follows `key` at `span`, also where that cannot be seen.
    fn has_colon(&self, key: &str, span: Span) -> bool {
        let behind = self
            .rest_of_line(span)
            .and_then(|rest| rest.strip_prefix(key));
        behind.is_none_or(|behind| behind.trim_start().starts_with(':'))
    }

    /// Records that the value at `step` goes on behind a comma: `{uri: rtsp://admin:a,b@camera}`.
    fn reject_cut(&mut self, span: Span, step: String) {
        self.path.push(step);
        self.reject(span, "cut at `,` in brackets", "put the value in quotes");
        self.path.pop();
    }

    /// Whether the map whose first key begins at `span` is written `{{ … }}`.
    fn is_template(&self, span: Span) -> bool {
        let Some((line, column)) = span.filter(|(_, column)| *column > 1) else {
            return false;
        };
        self.rest_of_line(Some((line, column - 1)))
            .is_some_and(|rest| rest.starts_with("{{"))
    }

    /// The beginning of the last line before `line` with something in it.
    fn line_before(&self, line: usize) -> Span {
        let is_empty = |text: &str| text.trim().is_empty() || text.trim().starts_with('#');
        let before = &self.lines[..line.saturating_sub(1).min(self.lines.len())];
        let at = before.iter().rposition(|text| !is_empty(text));
        Some((at.map_or(line, |at| at + 1), 1))
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

/// The lines of `text` as the parser counts them.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        lines.extend(line.strip_suffix('\r').unwrap_or(line).split('\r'));
    }
    lines
}

fn line_of(span: Span) -> Option<usize> {
    span.map(|(line, _)| line)
}

/// Whether an address ends with a part of a password.
fn is_cut_address(value: &Spanned) -> bool {
    let YamlValue::Text(text) = &value.value else {
        return false;
    };
    address_in(text).is_some_and(|address| !address.contains('@') && !has_port_or_none(address))
}

/// The last key of a path in steps, without indices of lists.
fn last_key(path: &[String]) -> &str {
    let key = path.iter().rev().find(|step| !step.starts_with('['));
    key.map_or("", |step| step.trim_start_matches('.'))
}

/// The parser's text for a line without a colon, which it finds in the line behind it.
const NO_COLON: &str = "simple key expect ':'";

/// What to do about a syntax error, by a part of the parser's text.
const HINTS: [(&str, &str); 14] = [
    ("tab", "indent with spaces, not with tabs"),
    (
        NO_COLON,
        "write a colon and a blank behind a key, and indent a value that goes on in another line",
    ),
    (
        "mapping values",
        "indent the keys of a map alike, and put a value with `: ` in quotes",
    ),
    ("unexpected character", QUOTE),
    ("unknown anchor", QUOTE),
    ("anchor or alias", QUOTE),
    ("a tag", QUOTE),
    ("block scalar", QUOTE),
    ("block sequence entries", QUOTE),
    ("mapping keys", QUOTE),
    (
        "trailing content",
        "write a quote inside '…' twice, and one inside \"…\" as \\\"",
    ),
    (
        "escape",
        "write the value in '…', where a backslash is itself",
    ),
    ("quoted scalar", "look for a quote that is not closed"),
    (
        "block collection",
        "indent the keys of a map, and the `-` of a list, alike",
    ),
];

const QUOTE: &str = "put a value that begins so in quotes";

fn hint_for(info: &str) -> &'static str {
    let hint = HINTS.iter().find(|(part, _)| info.contains(part));
    hint.map_or(
        "look for a bracket or a quote that is not closed, and for ` #` or `: ` in a value without quotes",
        |(_, hint)| *hint,
    )
}

fn span_at(marker: &Marker) -> Span {
    Some((marker.line(), marker.col() + 1))
}

/// Quoted text is text; plain text is what YAML 1.2's core schema says, so `off` is a word and `false` is not. `0200` is text,
/// too: YAML 1.1 reads it as 128, and who writes a password so means its digits.
fn scalar(text: &str, style: ScalarStyle) -> YamlValue {
    if style != ScalarStyle::Plain {
        return YamlValue::Text(text.to_owned());
    }
    if text.is_empty() {
        return YamlValue::Null;
    }
    if has_leading_zero(text) {
        return YamlValue::Text(text.to_owned());
    }
    match Scalar::parse_from_cow(text.into()) {
        Scalar::Null => YamlValue::Null,
        Scalar::Boolean(value) => YamlValue::Boolean(value),
        Scalar::Integer(value) => YamlValue::Integer(value),
        Scalar::FloatingPoint(value) => YamlValue::Number(value.into_inner(), text.to_owned()),
        Scalar::String(value) => YamlValue::Text(value.into_owned()),
    }
}

/// Whether a zero stands before the digits of a number, which some read as octal.
pub(crate) fn has_leading_zero(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    digits.len() > 1
        && digits.starts_with('0')
        && digits[1..].starts_with(|c: char| c.is_ascii_digit())
}

/// Whether `text` is text when it stands without quotes.
pub(crate) fn is_plain_text(text: &str) -> bool {
    matches!(scalar(text, ScalarStyle::Plain), YamlValue::Text(_)) && !has_leading_zero(text)
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
        #[rustfmt::skip]
        let cases = [
            ("", "f.yaml: the file is empty"),
            ("# nothing but words\n", "f.yaml: the file is empty"),
            ("a: 1\n---\nb: 2\n", "f.yaml:3: a second document; keep one document in the file: delete the line `---` before this one"),
            (
                "a: &x 1\nb: *x\n",
                "f.yaml:1: a: an anchor (`&`); write the value out where it is used; quote it if it begins with `&`\nf.yaml:2: b: an alias (`*`); write the value out",
            ),
            ("a: !secret x\n", "f.yaml:1: a: `!secret` is not expanded; write the value itself"),
            ("a: !x y\n", "f.yaml:1: a: a tag (`!`); write the bare value; quote it if it begins with `!`"),
            (
                "a: 1\nb:\n  - c: 1\n    c: 2\na: 3\n",
                "f.yaml:4: b[0].c: given twice, first on line 3; keep one of them\nf.yaml:5: a: given twice, first on line 1; keep one of them",
            ),
            ("? [a]\n: 1\n", "f.yaml:1: a key that is not plain text; write a word before the colon"),
            ("{a\n\nb: &x 1}\n", "f.yaml:3: a\\nb: an anchor (`&`); write"),
            ("a: {<<: *x, b: 1}\n", "f.yaml:1: a.<<: not YAML: while parsing node, found unknown anchor; put a value"),
            ("a: {{ b }}\n", "f.yaml:1: a: `{{ … }}` is not expanded; write the value itself"),
            ("a: 1\nb\nc: 2\n", "f.yaml:2: not YAML: simple key expect ':'; write a colon and a blank behind a key"),
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
    fn comment_behind_a_value_that_is_no_secret_is_one() {
        let text = "letterbox: {a: 1}\nvalue: gray #114\nurl: x #y\nwebhooks: [{url: z}]\n";
        let document = Document::parse("model.yaml", text).expect("YAML");
        assert!(document.finish(Some(())).is_ok());
    }

    #[test]
    fn long_and_deep_yaml_is_rejected_without_stack_overflow() {
        let wanted = "f.yaml: the file is longer than 1024 KiB\n1 problem in f.yaml";
        assert_eq!(refused(&" ".repeat((1 << 20) + 1)), wanted);
        for opening in ["[", "{a: ", "- ", "? "] {
            let error = refused(&opening.repeat(200_000));
            assert!(
                error.contains("are nested more than 32 deep; look for"),
                "{opening:?} gave {error:.300}"
            );
        }
    }
}
