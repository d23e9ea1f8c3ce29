//! Characters that an editor, a web page or another system puts into a file, and that no eye can tell from a blank, from a
//! quote, or from nothing. Called by [`Document`](super::document::Document) for a whole file, and by the checks of values.

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

/// Whether `bytes` are UTF-16, with a byte order mark or without one: the first character of a file is mostly one of ASCII, which a
/// zero byte fills up.
pub(crate) fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}
