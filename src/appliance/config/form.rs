//! What a key may hold: the vocabulary in which a kind of file lists its keys.
//!
//! A table of [`Key`]s is the one source of truth for a file: readers take ranges, defaults and words from it, error
//! texts are made from it, and so is the JSON schema. The configuration's own tables are in [`keys`](super::keys).

use std::fmt::{self, Display};

/// One key of a map.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it may hold.
    pub form: Form,
    /// Its value when it is not given.
    pub default: Fallback,
    /// What it is for, in one or two sentences; shown by editors.
    pub about: &'static str,
}

/// What a key is when it is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fallback {
    /// It must be given.
    Required,
    /// Nothing; what that means is said in `about`.
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

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub enum Form {
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
        /// What it counts.
        unit: Unit,
    },
    /// A word, or a whole number of `things` from 0.
    WordOrCount {
        /// The word.
        word: &'static str,
        /// Greatest accepted number.
        max: i64,
        /// What it counts, in the plural.
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
    /// A list of different texts, each as in [`Form::Text`].
    Texts(&'static str),
    /// A map with these keys.
    Map(&'static [Key]),
    /// A word or a map with these keys.
    WordOrMap(&'static str, &'static [Key]),
    /// A list with at least one map with these keys.
    Maps(&'static [Key]),
}

/// What a whole number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nothing: an identity or a plain number.
    None,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Things with a name in the plural: `frames`.
    Of(&'static str),
}

impl Key {
    /// A key that may be left out.
    #[must_use]
    pub const fn new(name: &'static str, form: Form, about: &'static str) -> Self {
        Self {
            name,
            form,
            default: Fallback::Absent,
            about,
        }
    }

    /// A key that must be given.
    #[must_use]
    pub const fn required(name: &'static str, form: Form, about: &'static str) -> Self {
        Self {
            name,
            form,
            default: Fallback::Required,
            about,
        }
    }

    /// A key that is `default` when it is left out.
    #[must_use]
    pub const fn or(
        name: &'static str,
        form: Form,
        default: Fallback,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            form,
            default,
            about,
        }
    }
}

impl Form {
    /// A duration in milliseconds.
    #[must_use]
    pub const fn milliseconds(min: i64, max: i64) -> Self {
        Self::Integer {
            min,
            max,
            unit: Unit::Milliseconds,
        }
    }

    /// A duration in seconds.
    #[must_use]
    pub const fn seconds(min: i64, max: i64) -> Self {
        Self::Integer {
            min,
            max,
            unit: Unit::Seconds,
        }
    }

    /// A number of `things`, as in `frames`.
    #[must_use]
    pub const fn count(min: i64, max: i64, things: &'static str) -> Self {
        Self::Integer {
            min,
            max,
            unit: Unit::Of(things),
        }
    }

    /// A number from 0 to 1.
    #[must_use]
    pub const fn share() -> Self {
        Self::Number {
            min: 0.0,
            min_accepted: true,
            max: 1.0,
        }
    }
}

/// The accepted form in words, to stand behind `expected`.
impl Display for Form {
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
                write!(f, "{}, or {word}", Self::count(0, *max, things))
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
        }
    }
}

/// The candidate that a mistyped `word` most likely stands for, if one is near enough.
pub(super) fn nearest<'k>(
    word: &str,
    candidates: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    // A third of the letters may be wrong: `stal_timeout` is a typing mistake, `fps` for `uri` is not.
    let most = (word.chars().count() / 3).max(1);
    let word = word.to_lowercase().replace('-', "_");
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbors that turn `a` into `b` (optimal string alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_types_are_described() {
        let cases = [
            (
                Form::milliseconds(100, 600_000),
                "a whole number of milliseconds from 100 to 600000",
            ),
            (
                Form::seconds(1, 60),
                "a whole number of seconds from 1 to 60",
            ),
            (
                Form::count(1, 64, "frames"),
                "a whole number of frames from 1 to 64",
            ),
            (
                Form::Integer {
                    min: 0,
                    max: 7,
                    unit: Unit::None,
                },
                "a whole number from 0 to 7",
            ),
            (Form::share(), "a number from 0 to 1"),
            (
                Form::Number {
                    min: 0.0,
                    min_accepted: false,
                    max: 1.0,
                },
                "a number above 0, up to 1",
            ),
            (Form::Words(&["tcp", "udp"]), "one of tcp, udp"),
            (Form::Words(&["iou"]), "iou"),
            (Form::WordOrMap("off", &[]), "off or a map"),
            (
                Form::WordOrCount {
                    word: "adaptive",
                    max: 30,
                    things: "frames",
                },
                "a whole number of frames from 0 to 30, or adaptive",
            ),
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

    #[test]
    fn edit_distance_counts_single_edits() {
        for (a, b, wanted) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("acb", "abc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(a, b), wanted, "{a} {b}");
            assert_eq!(edit_distance(b, a), wanted, "{b} {a}");
        }
    }
}
