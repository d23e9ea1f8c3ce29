// SPDX-License-Identifier: Apache-2.0
//! Raw values of an annotation file, right or wrong, so that each wrong one can be reported with its position.
//!
//! A derived reader would stop at the first wrong value and report only its line, and files of hundreds of megabytes have one
//! line. Unneeded values, such as outlines, are skipped.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Maximum length of a wrong value's text in an error.
const MAX_QUOTED_CHARS: usize = 60;

/// Maximum coordinate and area: integers up to this value are exact in `f64`, and products stay finite.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// One value of any kind.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Field {
    /// The key is missing.
    #[default]
    Missing,
    /// A whole number.
    Integer(i64),
    /// Another finite number.
    Number(f64),
    /// A text.
    Text(Box<str>),
    /// Four finite numbers.
    Box([f64; 4]),
    /// Any other value, as written.
    Other(Box<str>),
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl From<Value> for Field {
    fn from(value: Value) -> Self {
        match &value {
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Self::Integer(whole),
                // Numeric tools write whole numbers as `1.0`.
                (None, Some(number))
                    if number.fract() == 0.0 && number.abs() < MAX_EXACT_INTEGER =>
                {
                    Self::Integer(number as i64)
                }
                (None, Some(number)) if number.is_finite() => Self::Number(number),
                _ => Self::Other(quoted(&value)),
            },
            // COCO's own files contain 0 and 1, some tools write false and true.
            Value::Bool(yes) => Self::Integer(i64::from(*yes)),
            Value::String(text) => Self::Text(text.as_str().into()),
            Value::Array(items) => {
                let numbers: Option<Vec<f64>> = items.iter().map(Value::as_f64).collect();
                match numbers.and_then(|numbers| <[f64; 4]>::try_from(numbers).ok()) {
                    Some(numbers) if numbers.iter().all(|number| number.is_finite()) => {
                        Self::Box(numbers)
                    }
                    _ => Self::Other(quoted(&value)),
                }
            }
            Value::Null | Value::Object(_) => Self::Other(quoted(&value)),
        }
    }
}

impl Field {
    /// A whole number.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(whole) => Some(*whole),
            _ => None,
        }
    }

    /// A number from 0 to [`MAX_VALUE`].
    pub(super) fn not_negative(&self) -> Option<f64> {
        let number = match self {
            Self::Integer(whole) => *whole as f64,
            Self::Number(number) => *number,
            _ => return None,
        };
        (0.0..=MAX_EXACT_INTEGER)
            .contains(&number)
            .then_some(number)
    }

    /// A box whose sides are not negative and whose corners are within [`MAX_VALUE`].
    pub(super) fn xywh(&self) -> Option<[f64; 4]> {
        match self {
            Self::Box(xywh @ [left, top, width, height])
                if *width >= 0.0
                    && *height >= 0.0
                    && [left, top, &(left + width), &(top + height)]
                        .iter()
                        .all(|edge| edge.abs() <= MAX_EXACT_INTEGER) =>
            {
                Some(*xywh)
            }
            _ => None,
        }
    }

    /// A text that is not empty.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The value as text for an error.
    pub(super) fn quoted(&self) -> String {
        match self {
            Self::Missing => "nothing".to_owned(),
            Self::Integer(whole) => whole.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => truncate(&format!("{text:?}")),
            Self::Box(numbers) => format!("{numbers:?}"),
            Self::Other(text) => text.to_string(),
        }
    }
}

fn quoted(value: &Value) -> Box<str> {
    truncate(&value.to_string()).into()
}

/// At most [`MAX_QUOTED_CHARS`] characters.
fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> Field {
        serde_json::from_str(text).expect("it is JSON")
    }

    #[test]
    fn value_kinds_are_described() {
        assert_eq!(field("7").integer(), Some(7));
        assert_eq!(field("7.0").integer(), Some(7));
        assert_eq!(field("true").integer(), Some(1));
        assert_eq!(field("7.5").integer(), None);
        assert_eq!(field("1e300").integer(), None);
        assert_eq!(field("18446744073709551615").integer(), None);
        assert_eq!(field("0.25").not_negative(), Some(0.25));
        assert_eq!(field("-0.25").not_negative(), None);
        assert_eq!(field("1e300").not_negative(), None);
        assert_eq!(field("\"a\"").text(), Some("a"));
        assert_eq!(field("\"\"").text(), None);
        assert_eq!(field("[-1, 2.5, 3, 0]").xywh(), Some([-1.0, 2.5, 3.0, 0.0]));
        for text in [
            "[1, 2, -3, 4]",
            "[1, 2, 3]",
            "[1, 2, 3, \"4\"]",
            "[1e300, 0, 1, 1]",
            "[0, 0, 1e308, 1]",
            "null",
        ] {
            assert_eq!(field(text).xywh(), None, "{text}");
        }
    }

    #[test]
    fn long_values_are_truncated() {
        let text = field(&format!("[{}1]", "1,".repeat(1000))).quoted();
        assert!(
            text.chars().count() == MAX_QUOTED_CHARS + 1 && text.ends_with('…'),
            "{text}"
        );
        assert_eq!(field("{\"a\":null}").quoted(), "{\"a\":null}");
        assert_eq!(Field::Missing.quoted(), "nothing");
    }
}
