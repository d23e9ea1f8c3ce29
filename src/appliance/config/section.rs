// SPDX-License-Identifier: Apache-2.0
//! A section of a file as a struct: one field for each key, and everything about a key in one place.
//!
//! ```text
//! /// The tracker.
//! #[derive(Section)]
//! #[section(check = check_scores)]
//! struct Tracker {
//!     /// Which tracker.
//!     #[key(name = "type", default = "iou")]
//!     kind: TrackerKind,
//!     /// Minimum IOU of a pair.
//!     #[key(range = 0.0..=1.0, exclusive_min, default = 0.3)]
//!     min_iou: f32,
//! }
//! ```
//!
//! The doc comment of a field, up to its first empty line, is the description of the key for users; what only matters to
//! readers of the code comes in a second paragraph. Rules between keys stay functions, which the section names.
//!
//! Attributes of a field, `#[key(…)]`:
//!
//! | attribute | meaning |
//! |---|---|
//! | `name = "…"` | name of the key; default: the name of the field |
//! | `range = MIN..=MAX` | accepted range of a whole number or, with decimal points, of a number |
//! | `exclusive_min` | the lower end of the range is not accepted |
//! | `unit = "…"` | what a whole number counts; a `Duration` takes milliseconds with a name in `_ms`, else seconds |
//! | `text = "…"` | accepted form of a text, in words for `expected …` |
//! | `check = f` | a text is accepted if `f(&str)` is true |
//! | `parse = f` | a text is converted by `f(&str)`, which gives an `Option` (the form is reported) or a `Result` (its error is) |
//! | `secret` | a text that no report quotes |
//! | `words(a = A, …)` | words of an enum that does not derive [`Words`](super::Words) |
//! | `default = VALUE` | value when it is not given, as it would be written in the file |
//! | `default_with = f` | the same where it depends on other keys: `f(&Map)`; the description says what it is |
//! | `required` | must be given although its type has an absent value |
//! | `value = TYPE` | its [`ValueType`], for fields with `read` |
//! | `read = f` | the field is read by `f(&Map)` |
//! | `flatten` | the field is a section whose keys stand in this map |
//! | `keys = SECTION` | the keys of this section stand in this map, and `read` makes the field of them |
//! | `no_key` | the field has no key, and `read` makes it |
//!
//! A key must be given unless it has a default, is an `Option` or a `Vec`, or is itself a section: a section that is not
//! given has its defaults. Attributes of the struct, `#[section(…)]`: `check = f` calls `f(&Map)` after all keys were read;
//! `also = SECTION` adds keys without a field, which checks read; `default` implements `Default` from the defaults of the
//! keys.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

pub use jetwatch_config_derive::{Section, Words};

use super::schema::{DefaultValue, KeySpec, Unit, ValueType};
use super::yaml::document::Document;
use super::yaml::map::Map;
use super::yaml::tree::YamlValue;

/// A struct whose fields are the keys of a map.
pub trait Section: Sized {
    /// The keys, in the order of the fields.
    const KEYS: &'static [KeySpec];

    /// Reads every key of `map`; `None` after at least one problem was recorded.
    fn from_map(map: &Map<'_>) -> Option<Self>;
}

/// A type that a key can hold.
pub trait KeyValue: Sized {
    /// The accepted values, unless the key narrows them.
    const TYPE: ValueType;
    /// What it means that the key is not given.
    const WHEN_ABSENT: DefaultValue = DefaultValue::Required;

    /// The value of the key `name` or its default; `None` after a problem was recorded.
    fn read(map: &Map<'_>, name: &str) -> Option<Self>;
}

/// A type of which a key can hold a list.
pub trait ListItem: Sized {
    /// The type of the list.
    const LIST: ValueType;

    /// The list at the key `name`, empty where it is not given; `None` after a problem was recorded.
    fn read_list(map: &Map<'_>, name: &str) -> Option<Vec<Self>>;
}

/// The outcome of the function that converts a text.
pub trait Parsed<T> {
    /// The value, or why there is none; no reason means that the accepted form of the key is reported.
    fn outcome(self) -> Result<T, Option<String>>;
}

impl<T> Parsed<T> for Option<T> {
    fn outcome(self) -> Result<T, Option<String>> {
        self.ok_or(None)
    }
}

impl<T, E: Display> Parsed<T> for Result<T, E> {
    fn outcome(self) -> Result<T, Option<String>> {
        self.map_err(|error| Some(error.to_string()))
    }
}

impl<T: Section> KeyValue for T {
    const TYPE: ValueType = ValueType::Map(T::KEYS);
    const WHEN_ABSENT: DefaultValue = DefaultValue::Absent;

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        map.section(name).and_then(|map| T::from_map(&map))
    }
}

impl<T: Section> ListItem for T {
    const LIST: ValueType = ValueType::Maps(T::KEYS);

    fn read_list(map: &Map<'_>, name: &str) -> Option<Vec<Self>> {
        let items: Vec<Option<Self>> = map.list(name)?.iter().map(Self::from_map).collect();
        // Ends as `None` when one of them has a problem, after all were read.
        items.into_iter().collect()
    }
}

impl ListItem for String {
    const LIST: ValueType = ValueType::Texts("text");

    fn read_list(map: &Map<'_>, name: &str) -> Option<Vec<Self>> {
        map.texts(name)
    }
}

impl<T: ListItem> KeyValue for Vec<T> {
    const TYPE: ValueType = T::LIST;
    const WHEN_ABSENT: DefaultValue = DefaultValue::Absent;

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        T::read_list(map, name)
    }
}

impl<T: KeyValue> KeyValue for Option<T> {
    const TYPE: ValueType = T::TYPE;
    const WHEN_ABSENT: DefaultValue = DefaultValue::Absent;

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        map.optional(name, || T::read(map, name))
    }
}

impl KeyValue for String {
    const TYPE: ValueType = ValueType::Text("text");

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        match map.key(name).value {
            ValueType::Secret => map.secret(name),
            _ => map.text(name),
        }
    }
}

impl KeyValue for PathBuf {
    const TYPE: ValueType = ValueType::Path;

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        map.path(name)
    }
}

impl KeyValue for bool {
    const TYPE: ValueType = ValueType::Boolean;

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        map.boolean(name)
    }
}

impl KeyValue for f32 {
    const TYPE: ValueType = ValueType::Number {
        min: Self::MIN as f64,
        min_accepted: true,
        max: Self::MAX as f64,
    };

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        map.number(name)
    }
}

impl KeyValue for Duration {
    const TYPE: ValueType = ValueType::Integer {
        min: 0,
        max: u32::MAX as i64,
        unit: Unit::Milliseconds,
    };

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        map.duration(name)
    }
}

macro_rules! whole_numbers {
    ($($number:ty: $min:expr, $max:expr;)*) => {$(
        impl KeyValue for $number {
            const TYPE: ValueType = ValueType::Integer { min: $min, max: $max, unit: Unit::None };

            fn read(map: &Map<'_>, name: &str) -> Option<Self> {
                map.integer(name)
            }
        }
    )*};
}

whole_numbers! {
    u8: 0, u8::MAX as i64;
    i32: i32::MIN as i64, i32::MAX as i64;
    u32: 0, u32::MAX as i64;
    u64: 0, i64::MAX;
    usize: 0, i64::MAX;
}

/// The number of keys in all `parts`.
#[doc(hidden)]
#[must_use]
pub const fn count_keys(parts: &[&[KeySpec]]) -> usize {
    let (mut count, mut index) = (0, 0);
    while index < parts.len() {
        count += parts[index].len();
        index += 1;
    }
    count
}

/// The keys of all `parts`, of which there are `COUNT`.
#[doc(hidden)]
#[must_use]
pub const fn join_keys<const COUNT: usize>(parts: &[&[KeySpec]]) -> [KeySpec; COUNT] {
    const NONE: KeySpec = KeySpec::new("", ValueType::Boolean, DefaultValue::Absent, "");
    let mut keys = [NONE; COUNT];
    let (mut count, mut index) = (0, 0);
    while index < parts.len() {
        let mut at = 0;
        while at < parts[index].len() {
            keys[count] = parts[index][at];
            count += 1;
            at += 1;
        }
        index += 1;
    }
    keys
}

/// Fails to compile when one of `keys` must be given, so that there are no defaults of all.
#[doc(hidden)]
pub const fn assert_all_optional(keys: &[KeySpec]) {
    let mut index = 0;
    while index < keys.len() {
        assert!(
            !matches!(keys[index].default, DefaultValue::Required),
            "a section with a required key has no defaults"
        );
        index += 1;
    }
}

/// A section of which no key is given.
///
/// # Panics
/// Where a key must be given, which `#[section(default)]` checks at compile time.
#[doc(hidden)]
pub fn defaults<T: Section>() -> T {
    from_value(YamlValue::Null)
}

/// A section whose keys are those of `value`, which the program wrote itself.
///
/// # Panics
/// Where `value` has a problem: a bug.
pub(crate) fn from_value<T: Section>(value: YamlValue) -> T {
    let document = Document::without_spans("defaults", value);
    let value = document
        .root()
        .map(T::KEYS)
        .and_then(|map| T::from_map(&map));
    document
        .finish(value)
        .unwrap_or_else(|error| panic!("BUG: these keys are not a section: {error}"))
}
