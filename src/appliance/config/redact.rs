//! How a value from outside is quoted in a text: without its secrets, on one line, and not longer than a line.
//!
//! Called wherever an error or a log line repeats what a user wrote. It would rather hide too much than too little: it
//! works on text that was refused, so it cannot rely on the text being well-formed.

/// Most characters of a quoted value.
const MAX_CHARS: usize = 80;

/// What replaces a secret.
const MASK: &str = "***";

/// Query parameters and GStreamer properties that carry secrets, in lower case.
const SECRET_NAMES: [&str; 8] = [
    "password=",
    "passwd=",
    "pass=",
    "pwd=",
    "user-pw=",
    "token=",
    "secret=",
    "auth=",
];

/// `text` with the password of each `scheme://user:password@host` and the value of each `password=` replaced by `***`.
///
/// Everything between the first `:` behind `://` and the last `@` of the same word is taken for a password, so that an
/// unescaped `/` or `@` in it reveals nothing.
#[must_use]
pub fn redact(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for word in text.split_inclusive(ends_word) {
        masked.push_str(&mask_userinfo(word));
    }
    mask_parameters(&masked)
}

/// `text` masked, with control characters escaped, cut after 80 characters; without quotes.
pub(super) fn quoted(text: &str) -> String {
    let masked = redact(text);
    let mut shown: String = masked.chars().take(MAX_CHARS).flat_map(escape).collect();
    if masked.chars().nth(MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

fn escape(c: char) -> impl Iterator<Item = char> {
    let text = if c.is_control() {
        c.escape_default().to_string()
    } else {
        c.to_string()
    };
    text.chars().collect::<Vec<_>>().into_iter()
}

fn mask_userinfo(word: &str) -> String {
    let Some(start) = word.find("://").map(|at| at + 3) else {
        return word.to_owned();
    };
    let Some(end) = word.rfind('@').filter(|end| *end >= start) else {
        return word.to_owned();
    };
    match word[start..end].find(':') {
        Some(colon) => format!("{}{MASK}{}", &word[..=start + colon], &word[end..]),
        None => word.to_owned(),
    }
}

fn mask_parameters(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let mut done = 0;
    while let Some(start) = SECRET_NAMES
        .iter()
        .filter_map(|name| lower[done..].find(name).map(|at| done + at + name.len()))
        .min()
    {
        masked.push_str(&text[done..start]);
        let rest = &text[start..];
        // A quoted value ends at its quote, a bare one at the end of the word or of the parameter.
        let end = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map_or(rest.len(), |at| at + 2),
            _ => rest
                .find(|c| ends_word(c) || matches!(c, '&' | ';' | '#'))
                .unwrap_or(rest.len()),
        };
        masked.push_str(if end == 0 { "" } else { MASK });
        done = start + end;
    }
    masked.push_str(&text[done..]);
    masked
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || c == '"' || c == '\''
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_everywhere() {
        let cases = [
            ("rtsp://cam.local/1", "rtsp://cam.local/1"),
            ("rtsp://cam.local:554/1", "rtsp://cam.local:554/1"),
            ("rtsp://admin@cam.local/1", "rtsp://admin@cam.local/1"),
            (
                "rtsp://admin:hunter2@cam.local/1",
                "rtsp://admin:***@cam.local/1",
            ),
            (
                "rtsp://admin:hun/ter@2@cam.local/1",
                "rtsp://admin:***@cam.local/1",
            ),
            ("RTSP://:hunter2@[::1]:554/", "RTSP://:***@[::1]:554/"),
            (
                "see mqtt://a:b@c, or rtsp://d:e@f",
                "see mqtt://a:***@c, or rtsp://d:***@f",
            ),
            (
                "rtsp://h/user=a&password=hunter2&channel=1",
                "rtsp://h/user=a&password=***&channel=1",
            ),
            ("http://h/?Token=abc&pwd=", "http://h/?Token=***&pwd="),
            (
                "rtspsrc location=x user-pw=hunter2 ! a",
                "rtspsrc location=x user-pw=*** ! a",
            ),
            ("x password=\"hunter 2\" ! y", "x password=*** ! y"),
            ("x password='hunter", "x password=***"),
            ("é://ü:ö@ä", "é://ü:***@ä"),
        ];
        for (text, wanted) in cases {
            assert_eq!(redact(text), wanted);
        }
    }

    #[test]
    fn quoted_text_is_short_and_single_line() {
        assert_eq!(quoted("a\nb\u{7f}"), "a\\nb\\u{7f}");
        assert_eq!(quoted(&"ü".repeat(81)), format!("{}…", "ü".repeat(80)));
        assert_eq!(quoted(&"x".repeat(80)), "x".repeat(80));
    }
}
