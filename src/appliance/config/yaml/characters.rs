// SPDX-License-Identifier: Apache-2.0
//! Characters that an editor, a web page or another system puts into a file, and that cannot be told by eye from a blank, from a
//! quote, or from nothing. Called by [`Document`](super::document::Document) for a whole file, and by the checks of values.

/// Quotes of printed text, with which no YAML begins.
const PRINTED_QUOTES: [char; 11] = ['“', '”', '„', '‟', '‘', '’', '‚', '‛', '«', '»', '″'];

/// Whether `c` looks like a blank or like nothing, and is none of ASCII's blanks.
pub(crate) fn is_unseen(c: char) -> bool {
    is_foreign_blank(c) || is_zero_width(c)
}

fn is_foreign_blank(c: char) -> bool {
    c.is_whitespace() && !c.is_ascii()
}

fn is_zero_width(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// What `c`, which is unseen, is, and what to do about it.
fn describe(c: char) -> (String, &'static str) {
    let (name, hint) = match c {
        '\u{a0}' => ("a no-break space", "write a blank in its place"),
        '\u{feff}' => ("a byte order mark", "delete it"),
        c if is_zero_width(c) => ("a character without width", "delete it"),
        _ => ("a blank of another alphabet", "write a blank in its place"),
    };
    (format!("{name} (U+{:04X})", u32::from(c)), hint)
}

/// Whether `bytes` are UTF-16, with a byte order mark or without one: the first character of a file is mostly one of ASCII, which a
/// zero byte fills up.
pub(crate) fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}

/// Where YAML expects a blank and `line` has something that looks like one: column from 1, what it is, and what to do.
pub(crate) fn misplaced(line: &str) -> Option<(usize, String, &'static str)> {
    let body = line.trim_start_matches([' ', '-', '\t']);
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let behind = body.trim_start_matches(is_key);
    // In the indentation, between a key and its colon, or behind the colon.
    let colon = behind.trim_start_matches(|c: char| is_unseen(c) || c == ' ');
    let at = match body.chars().next() {
        Some(c) if is_unseen(c) => body,
        _ if behind.len() == body.len() || !colon.starts_with(':') => return None,
        _ if colon.len() < behind.trim_start_matches(' ').len() => behind.trim_start_matches(' '),
        _ => colon[1..].trim_start_matches([' ', '\t']),
    };
    let c = at.chars().next().filter(|c| is_unseen(*c))?;
    let column = line[..line.len() - at.len()].chars().count() + 1;
    let (what, hint) = describe(c);
    Some((column, what, hint))
}

/// What is in the text of a value that nobody writes on purpose, and what to do about it. Nothing of the text is repeated.
pub(crate) fn mistake_in(text: &str) -> Option<(String, &'static str)> {
    let ends = [text.chars().next(), text.chars().next_back()];
    if text.chars().count() > 1 && ends.iter().flatten().all(|c| PRINTED_QUOTES.contains(c)) {
        return Some((
            "quotes of printed text".to_owned(),
            "write ' or \" in their place",
        ));
    }
    // Names in some alphabets need characters without width, and a text may hold a no-break space; an address may not.
    let is_address = text.contains("://");
    let is_ascii = text.chars().all(|c| c.is_ascii() || is_unseen(c));
    let is_wrong = |c: &char| match is_zero_width(*c) {
        true => is_ascii || !matches!(c, '\u{200c}' | '\u{200d}'),
        false => is_address && is_foreign_blank(*c),
    };
    let at_end = ends.into_iter().flatten().find(|c| is_unseen(*c));
    let c = at_end.or_else(|| text.chars().find(is_wrong))?;
    let (what, hint) = describe(c);
    Some((format!("it holds {what}"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_blank_is_found_where_yaml_expects_one() {
        #[rustfmt::skip]
        let cases = [
            ("\u{a0} - name: a", Some((1, "a no-break space (U+00A0)"))),
            ("  -\u{a0}name: a", Some((4, "a no-break space (U+00A0)"))),
            ("  \u{3000}uri: b", Some((3, "a blank of another alphabet (U+3000)"))),
            ("name:\u{202f}a", Some((6, "a blank of another alphabet (U+202F)"))),
            ("name: \u{a0}a", Some((7, "a no-break space (U+00A0)"))),
            ("name\u{200b}: a", Some((5, "a character without width (U+200B)"))),
            ("\u{feff}name: a", Some((1, "a byte order mark (U+FEFF)"))),
            ("name: a\u{a0}b", None),
            ("- Straße\u{a0}Nord", None),
            ("# \u{a0}", None),
            ("", None),
        ];
        for (line, wanted) in cases {
            let found = misplaced(line);
            let found = found
                .as_ref()
                .map(|(column, what, _)| (*column, what.as_str()));
            assert_eq!(found, wanted, "{line:?}");
        }
    }

    #[test]
    fn values_that_nobody_writes_on_purpose_are_found() {
        #[rustfmt::skip]
        let cases = [
            ("“abc”", "quotes of printed text"),
            ("‘abc’", "quotes of printed text"),
            ("abc\u{a0}", "it holds a no-break space (U+00A0)"),
            ("\u{2009}abc", "it holds a blank of another alphabet (U+2009)"),
            ("a\u{200b}c", "it holds a character without width (U+200B)"),
            ("a\u{200d}c", "it holds a character without width (U+200D)"),
            ("rtsp://c/a\u{a0}b", "it holds a no-break space (U+00A0)"),
            ("Tor\u{a0}Nord", ""),
            ("می\u{200c}خواهم", ""),
            ("5″", ""),
            ("", ""),
        ];
        for (text, wanted) in cases {
            let found = mistake_in(text).map_or(String::new(), |(what, _)| what);
            assert_eq!(found, wanted, "{text:?}");
        }
    }
}
