// SPDX-License-Identifier: Apache-2.0
//! Identifiers of devices, entities and components: made of parts that can be read back, of the characters `[a-zA-Z0-9_-]` alone.
//!
//! Letters, digits and `_` stand for themselves, every other byte is `-` and two hexadecimal digits, and `--` is between two
//! parts. So different parts never make the same identifier: `["a-b", "c"]` is `a-2db--c`.

use std::fmt::Write;

/// Between two parts.
const SEPARATOR: &str = "--";

/// The identifier of these parts.
pub(super) fn join(parts: &[&str]) -> String {
    let escaped: Vec<String> = parts.iter().map(|part| escape(part)).collect();
    escaped.join(SEPARATOR)
}

fn escape(part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => escaped.push(char::from(byte)),
            // Writing to a string succeeds.
            _ => drop(write!(escaped, "-{byte:02x}")),
        }
    }
    escaped
}

/// The parts of an identifier; `None` where [`join`] does not make it.
pub(super) fn split(id: &str) -> Option<Vec<String>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = id.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'-' {
            parts.last_mut()?.push(byte);
            continue;
        }
        match bytes.next()? {
            b'-' => parts.push(Vec::new()),
            high => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(high)? * 16 + digit(bytes.next()?)?;
                parts.last_mut()?.push(u8::try_from(value).ok()?);
            }
        }
    }
    let text = |part: Vec<u8>| String::from_utf8(part).ok();
    parts.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn identifiers_are_readable() {
        let found = join(&["jetwatch", "gate_1", "source", "yard"]);
        assert_eq!(found, "jetwatch--gate_1--source--yard");
        assert_eq!(join(&["a-b", "x.y", "é", ""]), "a-2db--x-2ey---c3-a9--");
        assert_eq!(split("a-2xb"), None);
        assert_eq!(split("a-"), None);
    }

    proptest! {
        #[test]
        fn parts_of_an_identifier_are_read_back(parts in prop::collection::vec(".{0,6}", 1..5)) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let id = join(&parts);
            prop_assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'), "{id}");
            let read = split(&id);
            prop_assert_eq!(read.as_deref().unwrap_or_default(), parts);
        }
    }
}
