// SPDX-License-Identifier: Apache-2.0
//! How a value from outside is quoted in a text: without its secrets, on one line, and not longer than a line.
//!
//! Called wherever an error or a log line repeats what a user wrote. It would rather hide too much than too little: it
//! works on text that was refused, so it cannot rely on the text being well-formed.

use std::borrow::Cow;

use super::secret_names::{is_secret_parameter, is_secret_word};
use super::yaml::characters::is_unseen;

/// Most characters of a quoted value.
const MAX_CHARS: usize = 80;

/// What replaces a secret.
pub(super) const MASK: &str = "***";

/// `text` with the user and the password of each `scheme://user:password@host`, and the value of each `password=`, replaced
/// by `***`.
///
/// Everything between `://` and the last `@` before the next address is taken for a user and a password, so that an unescaped
/// `/`, `@` or blank in it reveals nothing. So is all behind `://` where a colon is followed by something else than a port:
/// a password whose `@` was cut off or forgotten.
#[must_use]
pub fn redact(text: &str) -> String {
    let text = mask_parameters(text, ends_word);
    let mut rest = address_in(&text).unwrap_or_default();
    let (first, _) = text.split_at(text.len() - rest.len());
    let is_rtmp = text.to_ascii_lowercase().contains("rtmp");
    // An address whose scheme was forgotten.
    if let Some(end) = text.rfind('@')
        && !(first.len() <= end
            && before_scheme(first)
                .is_some_and(|before| before.is_empty() || before.ends_with(begins_word)))
    {
        return format!("{MASK}{}", host_and_path(&text[end..], is_rtmp));
    }
    let mut masked = first.to_owned();
    while !rest.is_empty() {
        let (part, next) = rest.split_at(next_address(rest).unwrap_or(rest.len()));
        match part.rfind('@') {
            Some(end) => masked.extend([MASK, &host_and_path(&part[end..], is_rtmp)]),
            None if has_port_or_none(part) => masked.push_str(&host_and_path(part, is_rtmp)),
            None => masked.push_str(MASK),
        }
        rest = next;
    }
    masked
}

/// The end of an address from its host on; of one of RTMP without its path, which names the stream by its key.
fn host_and_path(text: &str, is_rtmp: bool) -> Cow<'_, str> {
    let host_end = text.find(|c| c == '/' || ends_word(c));
    match host_end.filter(|end| is_rtmp && text[*end..].starts_with('/')) {
        Some(end) => {
            let next = text.find(" ! ").unwrap_or(text.len());
            Cow::Owned(format!("{}/{MASK}{}", &text[..end], &text[next..]))
        }
        // The key itself may have an `@`.
        None if is_rtmp && text.starts_with('@') => Cow::Borrowed(""),
        None => Cow::Borrowed(text),
    }
}

/// As [`redact`] for a text without an address, of another program: with `***` in place of what is behind `password=` or `Cookie:`.
pub fn redact_parameters(text: &str) -> String {
    mask_parameters(text, |_| false)
}

/// What is behind the first `://` of `text`, or what somebody wrote for it.
pub(super) fn address_in(text: &str) -> Option<&str> {
    let begin = |separator: &&str| text.find(separator).map(|at| (at, at + separator.len()));
    let begins = ["://", ":/", "//"].iter().filter_map(begin);
    // The first, and of several there the longest.
    let (_, end) = begins.min_by_key(|(at, end)| (*at, usize::MAX - end))?;
    Some(&text[end..])
}

/// Where the next address begins, behind its `://`; its scheme begins a word, which one inside of a password does not.
fn next_address(text: &str) -> Option<usize> {
    let mut ends = text
        .match_indices("://")
        .map(|(at, found)| at + found.len());
    ends.find(|end| {
        before_scheme(&text[..*end]).is_some_and(|before| before.ends_with(begins_word))
    })
}

/// What is before the scheme at the end of `text`, with its `://` or what somebody wrote for it; `None` where there is none.
fn before_scheme(text: &str) -> Option<&str> {
    let is_scheme = |c: char| c.is_alphanumeric() || matches!(c, '+' | '-' | '.');
    let scheme = text.trim_end_matches([':', '/']);
    let before = scheme.trim_end_matches(is_scheme);
    (before.len() < scheme.len()).then_some(before)
}

/// Whether a scheme may stand behind `c`.
fn begins_word(c: char) -> bool {
    ends_word(c) || c == '='
}

/// A key of a file, as [`quoted`]; what is not a word may be a part of a value.
pub(super) fn quoted_key(key: &str) -> String {
    let is_word = |c: char| is_word_char(c) || c.is_whitespace() || matches!(c, '.' | '<');
    match key.chars().all(is_word) {
        true => quoted(key),
        false => MASK.to_owned(),
    }
}

/// `text` masked, and as [`on_one_line`]; without quotes.
pub(super) fn quoted(text: &str) -> String {
    on_one_line(&redact(text))
}

/// `text` with control characters and those that cannot be seen escaped, cut after 80 characters.
pub(super) fn on_one_line(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_CHARS).flat_map(escape).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

fn escape(c: char) -> impl Iterator<Item = char> {
    let text = match c.is_control() || is_unseen(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().collect::<Vec<_>>().into_iter()
}

/// Whether no colon follows the host at the beginning of `rest`, or a port does.
pub(super) fn has_port_or_none(rest: &str) -> bool {
    let end = rest.find(|c| matches!(c, '/' | '?' | '#') || ends_word(c));
    let host_port = &rest[..end.unwrap_or(rest.len())];
    let address = host_port
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    let behind = match address {
        Some((_, behind)) => behind,
        None => host_port.find(':').map_or("", |at| &host_port[at..]),
    };
    // `rtsp://host: timeout` is a sentence about an address.
    let port = behind.strip_prefix(':').unwrap_or_default();
    let port = port.trim_end_matches([',', ';', '.', ')']);
    port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// `text` with `***` in place of all that is behind a word that names a secret and `=`, `:` or what `separates`, up to GStreamer's `!`:
/// what looks like the next parameter may be a part of the secret.
fn mask_parameters(text: &str, separates: impl Fn(char) -> bool) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word_char) {
        let word = &rest[start..];
        let (word, behind) = word.split_at(word.find(|c| !is_word_char(c)).unwrap_or(word.len()));
        masked.push_str(&rest[..start + word.len()]);
        rest = behind;
        // GStreamer escapes it where it writes structures.
        let unescaped = behind.trim_start_matches('\\');
        let behind = match unescaped.starts_with('=') {
            true => unescaped,
            false => behind,
        };
        let value = match behind.starts_with(|c| matches!(c, '=' | ':') || separates(c)) {
            true => behind.trim_start_matches(|c| matches!(c, '=' | ':') || ends_word(c)),
            false => behind,
        };
        // `://` behind a scheme is not a separator, and a blank one behind a whole word only.
        let is_scheme = behind.starts_with(':') && value.starts_with("//");
        let is_secret = match behind.starts_with('=') {
            true => is_secret_parameter(word),
            false => is_secret_word(word),
        };
        let is_given = !value.is_empty() && value.len() < behind.len();
        if is_secret && is_given && !is_scheme {
            masked.extend(behind.chars().next());
            masked.push_str(MASK);
            rest = value.find(" ! ").map_or("", |at| &value[at..]);
        }
    }
    masked.push_str(rest);
    masked
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_')
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || c == '"' || c == '\''
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_everywhere() {
        #[rustfmt::skip]
        let cases = [
            ("rtsp://cam.local/1", "rtsp://cam.local/1"),
            ("rtsp://cam.local:554/1", "rtsp://cam.local:554/1"),
            ("see mqtt://[::1]:1883, rtsp://h: gone", "see mqtt://[::1]:1883, rtsp://h: gone"),
            ("rtsp://hunter2@cam.local/1", "rtsp://***@cam.local/1"),
            ("https://h/a?st=hunter2&x=1", "https://h/a?st=***"),
            ("https://h/a?sig=hunter2", "https://h/a?sig=***"),
            ("https://h/a?authkey=hunter2", "https://h/a?authkey=***"),
            ("https://h/a?X-Amz-Signature=hunter2", "https://h/a?X-Amz-Signature=***"),
            ("https://h/a?x=1&k=hunter2", "https://h/a?x=1&k=***"),
            ("srt://h:7001?mode=caller&streamid=hunter2", "srt://h:7001?mode=caller&streamid=***"),
            ("rtmp://h:1935/live/hunter2", "rtmp://h:1935/***"),
            ("no rtmps://a:b@h/live/hunter2 ! x", "no rtmps://***@h/*** ! x"),
            ("rtmp://h is no rtsp://h:1", "rtmp://h is no rtsp://h:1"),
            ("rtsp://admin:hunter2@cam.local/1", "rtsp://***@cam.local/1"),
            ("rtsp://admin:hun/ter@2 \"3@cam.local/1", "rtsp://***@cam.local/1"),
            ("rtsp://a:hun://ter@cam", "rtsp://***@cam"),
            ("rtsp://hun://ter:x@cam", "rtsp://***@cam"),
            ("RTSP://:hunter2@[::1]:554/", "RTSP://***@[::1]:554/"),
            ("see mqtt://a:b@c, or rtsp://d:e@f", "see mqtt://***@c, or rtsp://***@f"),
            // Cut off at ` #`, without `@`, without a scheme.
            ("rtsp://admin:hunter", "rtsp://***"),
            ("rtsp://admin:hun ter127.0.0.1/x", "rtsp://***"),
            ("rtsp://admin:123456", "rtsp://***"),
            ("rtsp:/admin:hunter@cam/1", "rtsp:/***@cam/1"),
            ("rtsp//admin:hunter", "rtsp//***"),
            ("admin:hun://ter@cam/1", "***@cam/1"),
            ("hun@cam", "***@cam"),
            ("rtsp://h/user=a&password=hunter2&channel=1", "rtsp://h/user=a&password=***"),
            ("rtsp://h/user=a_password=hunter2_channel=1.sdp", "rtsp://h/user=a_password=***"),
            ("rtsp://h/?pwd=hun#ter 2&3@4&channel=1", "rtsp://h/?pwd=***"),
            ("http://h/?Token=abc&pwd=", "http://h/?Token=***"),
            ("rtspsrc location=x user-pw=hunter2 ! a", "rtspsrc location=x user-pw=*** ! a"),
            ("proxy-pw=hunter 2 latency=5", "proxy-pw=***"),
            ("x password=\"hunter 2\" ! y", "x password=*** ! y"),
            ("x password='hunter", "x password=***"),
            ("gate password: hunter2", "gate password:***"),
            ("Authorization: Bearer hunter2", "Authorization:***"),
            ("a monkey: b", "a monkey: b"),
            ("pass_sink [label", "pass_sink [label"),
            ("é://ü:ö@ä", "é://***@ä"),
        ];
        for (text, wanted) in cases {
            assert_eq!(redact(text), wanted);
        }
    }

    #[test]
    fn parameters_are_redacted_in_sentences() {
        #[rustfmt::skip]
        let cases = [
            ("GET /a?x=1&k=hunter2 HTTP/1.1", "GET /a?x=1&k=***"),
            ("header: \"Cookie: hunter2\"", "header: \"Cookie:***"),
            ("mode=(int)1, streamid=(string)hunter2;", "mode=(int)1, streamid=***"),
            (r"uri=(string)/a\?x\=1\&st\=hunter2", r"uri=(string)/a\?x\=1\&st=***"),
            ("a key unit, pad@0x55, pass 1", "a key unit, pad@0x55, pass 1"),
        ];
        for (text, wanted) in cases {
            assert_eq!(redact_parameters(text), wanted);
        }
    }

    #[test]
    fn quoted_text_is_short_and_single_line() {
        assert_eq!(quoted("a\nb\u{7f}\u{200b}"), "a\\nb\\u{7f}\\u{200b}");
        assert_eq!(quoted(&"ü".repeat(81)), format!("{}…", "ü".repeat(80)));
        assert_eq!(quoted(&"x".repeat(80)), "x".repeat(80));
    }
}
