// SPDX-License-Identifier: Apache-2.0
//! Files of class names, in the forms in which people have them: the only reader of such files.
//!
//! One name a line is the plain form. Numbers before or behind the names (`0: person`, `person,0`) are left out where every line
//! has one, they count from 0 or from 1, and the names differ without them; otherwise they belong to the names. A list in one
//! line, a list or map in YAML, JSON or Python's notation, also below `names`, and TensorFlow's label maps are read, too.
//!
//! Rows that stand for no class, such as `N/A`, keep their place: see [`is_placeholder`].

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::class_names::{self, is_placeholder, number_placeholders};
use jetwatch_config::{Document, Node, Value, redact};

/// Keys of maps that hold the names, of Ultralytics and of transformers.
const NAME_KEYS: [&str; 4] = ["names", "id2label", "class_names", "labels"];

/// Highest class number in a label map.
const MAX_ID: usize = 10_000;

/// What to give instead.
const EXPECTED: &str = "one name a line, or a list or map of names in YAML or JSON, in the order of the network's classes";

/// Class names of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFile {
    /// The names by number; at least one.
    pub names: Vec<String>,
    /// Number of the first name where the file itself numbers its names, as a label map does; else 0.
    pub first: usize,
}

impl LabelFile {
    /// The names with number 0 first: the background's, where the file counts from 1.
    #[must_use]
    pub fn from_zero(mut self) -> Vec<String> {
        if self.first == 1 {
            self.names.insert(0, "background".to_owned());
        }
        self.names
    }
}

/// What is wrong with a file of class names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, expected {EXPECTED}")]
pub struct LabelFileProblem {
    /// What was found, and where.
    pub what: String,
}

impl LabelFileProblem {
    /// What to give instead.
    pub const EXPECTED: &str = EXPECTED;
}

/// Why a file of class names cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum LabelFileError {
    #[error("cannot read the labels in {}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file has no names in a known form.
    #[error("{}: {problem}", path.display())]
    Invalid {
        path: PathBuf,
        problem: LabelFileProblem,
    },
}

/// Reads the names in the file at `path`.
///
/// # Errors
/// The file cannot be read, or has no names in a known form.
pub fn read(path: &Path) -> Result<LabelFile, LabelFileError> {
    let text = read_text(path).map_err(|source| LabelFileError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|problem| LabelFileError::Invalid {
        path: path.to_owned(),
        problem,
    })
}

/// The text of a file in UTF-8, or in UTF-16 with a byte order mark, as editors on Windows write it.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    decode(fs::read(path)?)
        .map_err(|what| std::io::Error::new(std::io::ErrorKind::InvalidData, what))
}

fn decode(bytes: Vec<u8>) -> Result<String, String> {
    let unit: fn([u8; 2]) -> u16 = match bytes.as_slice() {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            return String::from_utf8(bytes).map_err(|error| {
                let place = error.utf8_error().valid_up_to() + 1;
                format!("byte {place} is not UTF-8; save the file with the encoding UTF-8")
            });
        }
    };
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().skip(1).map(|pair| unit(*pair)).collect();
    match String::from_utf16(&units) {
        Ok(text) if rest.is_empty() => Ok(text),
        _ => Err("the file is damaged UTF-16; save it with the encoding UTF-8".to_owned()),
    }
}

/// Reads the names in the text of a file.
///
/// # Errors
/// There are no names, or a list, map or label map is not complete.
pub fn parse(text: &str) -> Result<LabelFile, LabelFileProblem> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.contains('\0') {
        let what = "found zero bytes: no text, or UTF-16 without a byte order mark (save it with the encoding UTF-8)";
        return Err(wrong(what));
    }
    let brackets = [('{', '}'), ('[', ']')];
    let is_flow = |(open, close)| text.starts_with(open) && text.ends_with(close);
    let mut file = if class_names::is_label_map(text) {
        let found = class_names::label_map(text);
        let found = found.ok_or_else(|| {
            wrong("found a label map with an item that has no id and name of its own")
        })?;
        by_number(found)?
    } else if brackets.into_iter().any(is_flow) {
        match class_names::parse(text) {
            Some(names) => LabelFile { names, first: 0 },
            None => from_yaml(text)?,
        }
    } else if text.lines().any(|line| line.starts_with("names:")) {
        from_yaml(text)?
    } else {
        from_lines(text)
    };
    if file.names.is_empty() {
        return Err(wrong("found no label"));
    }
    if let Some(place) = file.names.iter().position(|name| name.trim().is_empty()) {
        return Err(wrong(&format!("name number {} is empty", place + 1)));
    }
    number_placeholders(&mut file.names, file.first);
    Ok(file)
}

fn wrong(what: &str) -> LabelFileProblem {
    LabelFileProblem {
        what: what.to_owned(),
    }
}

/// One name a line, or all of them in one line.
fn from_lines(text: &str) -> LabelFile {
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let separators = [',', ';'];
    let lines: Vec<&str> = match lines.as_slice() {
        [line] if line.matches(separators).count() > usize::from(unnumbered(&lines).is_some()) => {
            let names = line.split(separators).map(str::trim);
            names.filter(|name| !name.is_empty()).collect()
        }
        // A list of YAML without its key.
        all if all.iter().all(|line| line.starts_with("- ")) => {
            lines.iter().map(|line| line[2..].trim()).collect()
        }
        _ => lines,
    };
    let names = unnumbered(&lines).unwrap_or(lines);
    LabelFile {
        names: names
            .into_iter()
            .map(|name| unquoted(name).to_owned())
            .collect(),
        first: 0,
    }
}

/// The names without their numbers, which count from 0 or 1; `None` where not all lines have one, the numbers have gaps, or
/// they are a part of the names: what is left does not differ. A single line counts from 0.
fn unnumbered<'a>(lines: &[&'a str]) -> Option<Vec<&'a str>> {
    let before = |line: &&'a str| {
        let (number, rest) = line.split_at(line.find(|c: char| !c.is_ascii_digit())?);
        let name = rest.trim_start_matches([':', ',', ';', ' ', '\t']);
        (name.len() < rest.len()).then_some((number.parse().ok()?, name))
    };
    let behind = |line: &&'a str| {
        let (name, number) = line.rsplit_once([':', ',', ';', '\t'])?;
        Some((number.trim().parse().ok()?, name.trim()))
    };
    let all = |split: &dyn Fn(&&'a str) -> Option<(usize, &'a str)>| -> Option<Vec<&'a str>> {
        let pairs: Vec<(usize, &str)> = lines.iter().map(split).collect::<Option<_>>()?;
        let first = pairs
            .first()
            .filter(|pair| pair.0 == 0 || (pair.0 == 1 && lines.len() > 1))?;
        let is_dense = (first.0..)
            .zip(&pairs)
            .all(|(wanted, pair)| pair.0 == wanted);
        let mut seen = HashSet::new();
        let differ =
            |name: &str| !name.is_empty() && (is_placeholder(name) || seen.insert(name.to_owned()));
        let names: Vec<&str> = pairs.iter().map(|pair| pair.1).collect();
        (is_dense && names.iter().copied().all(differ)).then_some(names)
    };
    all(&before).or_else(|| all(&behind))
}

/// A name without the quotes around it, and the comma behind those.
fn unquoted(name: &str) -> &str {
    let body = name.strip_suffix(',').unwrap_or(name);
    ['"', '\'']
        .into_iter()
        .find_map(|quote| body.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(name)
}

/// A list or map of names, or a map that has one.
fn from_yaml(text: &str) -> Result<LabelFile, LabelFileProblem> {
    let refused = |error: jetwatch_config::ConfigError| {
        let first = error.problems().first().map(ToString::to_string);
        wrong(&first.unwrap_or_else(|| error.to_string()))
    };
    let document = Document::parse("labels", text).map_err(refused)?;
    let found = names_of(&document.root(), true);
    document.finish(Some(())).map_err(refused)?;
    found
}

fn names_of(node: &Node<'_>, is_outermost: bool) -> Result<LabelFile, LabelFileProblem> {
    let place = || {
        node.line()
            .map_or(String::new(), |line| format!(" on line {line}"))
    };
    match node.value() {
        Value::List(items) => {
            let names: Vec<String> = items.iter().map(name_of).collect::<Result<_, _>>()?;
            Ok(LabelFile { names, first: 0 })
        }
        Value::Map(entries) => {
            let keys = entries
                .iter()
                .map(|(key, node)| Some((key.parse().ok()?, node)));
            if let Some(numbered) = keys.collect::<Option<Vec<(usize, &Node<'_>)>>>() {
                let numbered = numbered.into_iter();
                let names = numbered.map(|(number, node)| Ok((number, name_of(node)?)));
                let names: Vec<(usize, String)> = names.collect::<Result<_, _>>()?;
                let (from, to) = (names.iter().map(|name| name.0).min(), names.len());
                let is_dense = from
                    .is_some_and(|from| from < 2 && names.iter().all(|name| name.0 < from + to));
                if !is_dense {
                    return Err(wrong(&format!(
                        "found a map{} whose numbers have gaps or do not begin at 0 or 1 (N/A may stand for a missing name)",
                        place()
                    )));
                }
                return by_number(names);
            }
            let below = NAME_KEYS.iter().find_map(|wanted| {
                let found = entries.iter().find(|(key, _)| key == wanted);
                found.filter(|_| is_outermost)
            });
            match below {
                Some((_, node)) => names_of(node, false),
                None => Err(wrong(&format!(
                    "found a map{} whose keys are not numbers",
                    place()
                ))),
            }
        }
        _ => Err(wrong(&format!("found neither a list nor a map{}", place()))),
    }
}

fn name_of(node: &Node<'_>) -> Result<String, LabelFileProblem> {
    match node.value() {
        Value::Text(name) => Ok(name.trim().to_owned()),
        Value::Integer(number) => Ok(number.to_string()),
        _ => Err(wrong(&format!(
            "`{}` is not a name: write it in quotes",
            redact(node.path())
        ))),
    }
}

/// The names in the order of their numbers, from 0 or 1 on. A missing number is a placeholder.
fn by_number(numbered: Vec<(usize, String)>) -> Result<LabelFile, LabelFileProblem> {
    let first = usize::from(numbered.iter().all(|(number, _)| *number > 0));
    let last = numbered.iter().map(|(number, _)| *number).max();
    let last = last
        .filter(|last| *last <= MAX_ID)
        .ok_or_else(|| wrong(&format!("found no number, or one above {MAX_ID}")))?;
    let mut names = vec![String::from("N/A"); last + 1 - first];
    let mut seen = HashSet::new();
    for (number, name) in numbered {
        if !seen.insert(number) {
            return Err(wrong(&format!("number {number} is given twice")));
        }
        names[number - first] = name;
    }
    Ok(LabelFile { names, first })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_people_write_them() {
        let map = "item {\n  name: \"/m/01\"\n  id: 1\n  display_name: \"person\"\n}\n# none\nitem { id: 3, name: 'car' keypoints { id: 9 label: \"}\" } }\n";
        let data = "# of a set\npath: ../coco  # root\nnc: 2\nnames:\n  0: person\n  1: 'traffic light'\ndownload: |\n  a: b\n";
        #[rustfmt::skip]
        let cases: &[(&str, usize, &[&str])] = &[
            ("person\ncar\n", 0, &["person", "car"]),
            ("\u{feff}person\r\n car \r\n\r\n\n", 0, &["person", "car"]),
            ("0 person\n1 traffic light\n", 0, &["person", "traffic light"]),
            ("1: person\n2: car", 0, &["person", "car"]),
            ("0,person\n1,car", 0, &["person", "car"]),
            ("person,0\ntraffic light, 1\n", 0, &["person", "traffic light"]),
            ("0\tperson\n1\t\"car\"", 0, &["person", "car"]),
            ("0 person", 0, &["person"]),
            // Numbers that belong to the names.
            ("4 wheeler\n2 wheeler", 0, &["4 wheeler", "2 wheeler"]),
            ("1 wheeler\n2 wheeler", 0, &["1 wheeler", "2 wheeler"]),
            ("1 euro", 0, &["1 euro"]),
            ("zone,0\nzone,1", 0, &["zone,0", "zone,1"]),
            ("0 person\n2 car", 0, &["0 person", "2 car"]),
            ("0 person\ncar", 0, &["0 person", "car"]),
            ("1 car\n0 person", 0, &["1 car", "0 person"]),
            ("0\n1\n2", 0, &["0", "1", "2"]),
            ("3d-printer\n7up", 0, &["3d-printer", "7up"]),
            ("stop, sign\ncar", 0, &["stop, sign", "car"]),
            // Lists in one line, in quotes, in other notations.
            ("person, car,bus,", 0, &["person", "car", "bus"]),
            ("red;green;blue", 0, &["red", "green", "blue"]),
            ("0,1,2", 0, &["0", "1", "2"]),
            ("'person',\n'driver''s'\n", 0, &["person", "driver''s"]),
            ("- person\n- 'car'\n", 0, &["person", "car"]),
            ("[\"person\", \"caf\\u00e9\"]", 0, &["person", "café"]),
            ("['a, b', car]", 0, &["a, b", "car"]),
            ("{\"0\": \"person\", \"1\": \"car\"}", 0, &["person", "car"]),
            ("{1: person, 2: car}", 1, &["person", "car"]),
            ("{\"id2label\": {\"0\": \"N/A\", \"1\": \"car\"}, \"x\": 1}", 0, &["N/A", "car"]),
            ("names: [person, 7]\n", 0, &["person", "7"]),
            ("names:\n- person\n- car\n", 0, &["person", "car"]),
            (data, 0, &["person", "traffic light"]),
            (map, 1, &["person", "N/A", "car"]),
            // Rows without a class.
            ("__background__\nperson\nN/A\nN/A", 0, &["__background__", "person", "N/A 2", "N/A 3"]),
            ("0 person\n1 ???\n2 ???", 0, &["person", "??? 1", "??? 2"]),
        ];
        for (text, first, names) in cases {
            let found = parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            let wanted = (names.iter().map(|&name| name.to_owned()).collect(), *first);
            assert_eq!((found.names, found.first), wanted, "{text}");
        }
    }

    #[test]
    fn other_files_are_refused_with_what_was_found() {
        let cases = [
            ("\u{feff} \n\n", "found no label"),
            ("[]", "found no label"),
            (
                "c\0a\0r\0",
                "found zero bytes: no text, or UTF-16 without a byte order mark",
            ),
            (
                "{\"a\": \"person\"}",
                "found a map on line 1 whose keys are not numbers",
            ),
            (
                "names:\n  0: person\n  2: car\n",
                "found a map on line 2 whose numbers have gaps",
            ),
            ("names: 80\n", "found neither a list nor a map"),
            (
                "names: [no, 1.5]\n",
                "`names[1]` is not a name: write it in quotes",
            ),
            ("names: [a\n", "labels:"),
            (
                "item { name: 'a' }",
                "found a label map with an item that has no id and name of its own",
            ),
            (
                "item { id: 1 name: 'a' } item { id: 1 name: 'b' }",
                "number 1 is given twice",
            ),
            (
                "item { id: 999999999 name: 'a' }",
                "found no number, or one above 10000",
            ),
            ("['', 'a']", "name number 1 is empty"),
        ];
        for (text, wanted) in cases {
            let error = parse(text).expect_err(text).to_string();
            assert!(
                error.starts_with(wanted) && error.contains(", expected one name a line"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn utf16_is_read_and_damaged_text_is_refused_with_the_reason() {
        let bytes = |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            format!("\u{feff}{text}")
                .encode_utf16()
                .flat_map(unit)
                .collect()
        };
        for unit in [u16::to_le_bytes, u16::to_be_bytes] {
            let text = decode(bytes("person\r\nVögel\r\n", unit)).expect("it is right");
            assert_eq!(parse(&text).expect("two names").names, ["person", "Vögel"]);
        }
        let cut = bytes("car", u16::to_le_bytes)[..5].to_vec();
        let wanted = Err("the file is damaged UTF-16; save it with the encoding UTF-8".to_owned());
        assert_eq!(decode(cut), wanted);
        let latin = decode(b"V\xf6gel".to_vec());
        let wanted = Err("byte 2 is not UTF-8; save the file with the encoding UTF-8".to_owned());
        assert_eq!(latin, wanted);
    }
}
