// SPDX-License-Identifier: Apache-2.0
//! The specification of a key: its name, type, range, default and description.
//!
//! A section lists its keys as [`KeySpec`]s, which [`Section`](super::Section) derives from the fields of a struct. Readers
//! take ranges, defaults and words from them; error texts, the JSON Schema and the reference page are made from them.

use std::fmt::{self, Display};

/// One key of a map.
#[derive(Debug, Clone, Copy)]
pub struct KeySpec {
    /// Its name.
    pub name: &'static str,
    /// The type of its value, with its constraints.
    pub value: ValueType,
    /// Its value when it is not given.
    pub default: DefaultValue,
    /// Description in one or two sentences, for editors and the reference page.
    pub about: &'static str,
}

/// The value of a key that is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DefaultValue {
    /// It must be given.
    Required,
    /// None; the description says what that means.
    Absent,
    /// A flag.
    Boolean(bool),
    /// A whole number, in the unit of the key.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A text or one of the words.
    Text(&'static str),
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    /// Text that is not empty and has no control characters; the string names the accepted form: `a label`.
    Text(&'static str),
    /// Text that is never quoted in an error; it may be empty.
    Secret,
    /// A path; a relative one counts from the folder of the file.
    Path,
    /// `true` or `false`.
    Boolean,
    /// A whole number within a range, both ends included.
    Integer {
        /// Least accepted value.
        min: i64,
        /// Greatest accepted value.
        max: i64,
        /// Its unit.
        unit: Unit,
    },
    /// A word, or a whole number of `things` from 0.
    WordOrCount {
        /// The word.
        word: &'static str,
        /// Greatest accepted number.
        max: i64,
        /// Its unit, in the plural.
        things: &'static str,
    },
    /// A number within a range whose upper end is included.
    Number {
        /// Lower end of the range.
        min: f64,
        /// Whether `min` itself is accepted.
        min_accepted: bool,
        /// Greatest accepted value.
        max: f64,
    },
    /// One of these words.
    Words(&'static [&'static str]),
    /// A list of different texts, each as in [`ValueType::Text`].
    Texts(&'static str),
    /// A map with these keys.
    Map(&'static [KeySpec]),
    /// A word or a map with these keys.
    WordOrMap(&'static str, &'static [KeySpec]),
    /// A list with at least one map with these keys.
    Maps(&'static [KeySpec]),
    /// A map whose keys are names that the file chooses, at least one, each with a map with these keys.
    Named(&'static [KeySpec]),
    /// A value of another shape.
    Other {
        /// Its accepted form, in words.
        form: &'static str,
        /// Its JSON Schema, as text.
        schema: &'static str,
    },
}

/// The unit of a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// None: an identity or a plain number.
    None,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Things with a name in the plural: `frames`.
    Of(&'static str),
}

impl KeySpec {
    /// A key. At compile time, a default outside of its range or its words is an error.
    pub const fn new(
        name: &'static str,
        value: ValueType,
        default: DefaultValue,
        about: &'static str,
    ) -> Self {
        assert!(
            accepts(&value, &default),
            "the default of a key is outside of its range or its words"
        );
        Self {
            name,
            value,
            default,
            about,
        }
    }

    /// The keys of the map or the maps that this key holds.
    pub const fn inner(&self) -> Option<&'static [KeySpec]> {
        match self.value {
            ValueType::Map(keys)
            | ValueType::WordOrMap(_, keys)
            | ValueType::Maps(keys)
            | ValueType::Named(keys) => Some(keys),
            _ => None,
        }
    }
}

const fn accepts(value: &ValueType, default: &DefaultValue) -> bool {
    match (value, default) {
        (_, DefaultValue::Required | DefaultValue::Absent)
        | (ValueType::Boolean, DefaultValue::Boolean(_))
        | (ValueType::Text(_) | ValueType::Path, DefaultValue::Text(_)) => true,
        (ValueType::Integer { min, max, .. }, DefaultValue::Integer(value)) => {
            *min <= *value && *value <= *max
        }
        (ValueType::WordOrCount { max, .. }, DefaultValue::Integer(value)) => {
            0 <= *value && *value <= *max
        }
        (ValueType::Number { min, max, .. }, DefaultValue::Number(value)) => {
            *min <= *value && *value <= *max
        }
        (ValueType::Words(words), DefaultValue::Text(word)) => contains(words, word),
        _ => false,
    }
}

const fn contains(words: &[&str], wanted: &str) -> bool {
    let mut index = 0;
    while index < words.len() {
        if equals(words[index].as_bytes(), wanted.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn equals(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// The accepted form in words, to stand behind `expected`.
impl Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(form) => f.write_str(form),
            Self::Secret => f.write_str("text (in quotes where it looks like a number)"),
            Self::Path => f.write_str("a path"),
            Self::Boolean => f.write_str("true or false"),
            Self::Integer { min, max, unit } => {
                f.write_str("a whole number")?;
                match unit {
                    Unit::None => {}
                    Unit::Milliseconds => f.write_str(" of milliseconds")?,
                    Unit::Seconds => f.write_str(" of seconds")?,
                    Unit::Of(things) => write!(f, " of {things}")?,
                }
                write!(f, " from {min} to {max}")
            }
            Self::WordOrCount { word, max, things } => {
                write!(f, "a whole number of {things} from 0 to {max}, or {word}")
            }
            Self::Number {
                min,
                min_accepted: true,
                max,
            } => write!(f, "a number from {min} to {max}"),
            Self::Number { min, max, .. } => write!(f, "a number above {min}, up to {max}"),
            Self::Words([word]) => write!(f, "{word}"),
            Self::Words(words) => write!(f, "one of {}", words.join(", ")),
            Self::Texts(form) => write!(f, "a list without repetitions, each {form}"),
            Self::Map(_) => f.write_str("a map"),
            Self::WordOrMap(word, _) => write!(f, "{word} or a map"),
            Self::Maps(_) => f.write_str("a list of maps with at least one"),
            Self::Named(_) => f.write_str("a map of names with at least one"),
            Self::Other { form, .. } => f.write_str(form),
        }
    }
}

/// The candidate that a mistyped `word` most likely stands for, if one is near enough.
pub(super) fn nearest<'k>(
    word: &str,
    candidates: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    // A third of the letters may be wrong: `stal_timeout` is a typo, `fps` for `uri` is not.
    let max = (word.chars().count() / 3).max(1);
    let word = word.to_lowercase().replace('-', "_");
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= max)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_types_are_described() {
        #[rustfmt::skip]
        let cases = [
            (ValueType::Integer { min: 100, max: 600_000, unit: Unit::Milliseconds }, "a whole number of milliseconds from 100 to 600000"),
            (ValueType::Integer { min: 1, max: 60, unit: Unit::Seconds }, "a whole number of seconds from 1 to 60"),
            (ValueType::Integer { min: 1, max: 64, unit: Unit::Of("frames") }, "a whole number of frames from 1 to 64"),
            (ValueType::Integer { min: 0, max: 7, unit: Unit::None }, "a whole number from 0 to 7"),
            (ValueType::Number { min: 0.0, min_accepted: true, max: 1.0 }, "a number from 0 to 1"),
            (ValueType::Number { min: 0.0, min_accepted: false, max: 1.0 }, "a number above 0, up to 1"),
            (ValueType::Words(&["tcp", "udp"]), "one of tcp, udp"),
            (ValueType::Words(&["iou"]), "iou"),
            (ValueType::WordOrMap("off", &[]), "off or a map"),
            (ValueType::WordOrCount { word: "adaptive", max: 30, things: "frames" }, "a whole number of frames from 0 to 30, or adaptive"),
        ];
        for (form, wanted) in cases {
            assert_eq!(form.to_string(), wanted);
        }
    }

    #[test]
    fn typos_get_suggestions_and_other_words_do_not() {
        let known = [
            "name",
            "uri",
            "loop",
            "stall_timeout_ms",
            "latency_ms",
            "fps",
            "user",
        ];
        let cases = [
            ("stal_timeout_ms", Some("stall_timeout_ms")),
            ("stall-timeout-ms", Some("stall_timeout_ms")),
            ("stall_timeout", Some("stall_timeout_ms")),
            ("nmae", Some("name")),
            ("Loop", Some("loop")),
            ("usr", Some("user")),
            ("url", Some("uri")),
            ("zones", None),
            ("", None),
            ("ж", None),
        ];
        for (word, wanted) in cases {
            assert_eq!(nearest(word, known), wanted, "{word}");
        }
    }
}
