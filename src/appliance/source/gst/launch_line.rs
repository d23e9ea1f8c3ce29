// SPDX-License-Identifier: Apache-2.0
//! The text of a `launch:` fragment: which elements its branches end in, and what replaces a final sink. Pure; called by `launch.rs`.
//!
//! Only as much of the syntax of gst-launch is read as this takes: words, quotes, `!`, properties, caps and references to named
//! elements. Everything else is GStreamer's parser's.

use std::borrow::Cow;
use std::ops::Range;

use crate::elements::SinkKind;

/// What stands in place of a display: as such it takes nothing but raw video, so that no sound is linked to it.
const IN_PLACE_OF_DISPLAY: &str = "capsfilter caps=video/x-raw(ANY)";

/// What stands in place of a sink that takes anything, and behind caps, which are not an element.
const ANY_MEDIA: &str = "capsfilter";

/// Where a branch of the fragment ends.
#[derive(Debug, PartialEq, Eq)]
enum BranchEnd<'a> {
    /// In an element with these words, the first of them its name.
    Element(Vec<Word<'a>>),
    /// In caps.
    Caps,
    /// In an element that is named elsewhere, or in nothing.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word<'a> {
    text: &'a str,
    range: Range<usize>,
}

/// The fragment with an open end for the video: where all branches end in sinks, those that show images, or else those that
/// discard them, are replaced; one that ends in caps gets an element behind them. `sink_kind` says what kind of sink an element is;
/// `None`: it is none.
pub(super) fn with_open_end<'a>(
    fragment: &'a str,
    sink_kind: &dyn Fn(&str) -> Option<SinkKind>,
) -> Cow<'a, str> {
    let ends = branch_ends(fragment);
    if ends.last() == Some(&BranchEnd::Caps) {
        return Cow::Owned(format!("{fragment} ! {ANY_MEDIA}"));
    }
    let mut sinks = Vec::new();
    for end in &ends {
        match end {
            BranchEnd::Element(words) => match sink_kind(words[0].text) {
                Some(kind) => sinks.push((kind, words)),
                None => return Cow::Borrowed(fragment),
            },
            BranchEnd::Caps => return Cow::Borrowed(fragment),
            BranchEnd::Other => {}
        }
    }
    for (kind, replacement) in [
        (SinkKind::Display, IN_PLACE_OF_DISPLAY),
        (SinkKind::Discard, ANY_MEDIA),
    ] {
        if sinks.iter().any(|(found, _)| *found == kind) {
            let replaced = sinks.iter().filter(|(found, _)| *found == kind);
            return Cow::Owned(replace(
                fragment,
                replaced.map(|(_, words)| words.as_slice()),
                replacement,
            ));
        }
    }
    Cow::Borrowed(fragment)
}

/// Replaces elements with their properties, but for their names: the fragment may refer to them.
fn replace<'w>(
    fragment: &str,
    elements: impl Iterator<Item = &'w [Word<'w>]>,
    replacement: &str,
) -> String {
    let (mut text, mut copied) = (String::new(), 0);
    for words in elements {
        let (Some(first), Some(last)) = (words.first(), words.last()) else {
            continue;
        };
        text.push_str(&fragment[copied..first.range.start]);
        text.push_str(replacement);
        for word in words.iter().filter(|word| word.text.starts_with("name=")) {
            text.push(' ');
            text.push_str(word.text);
        }
        copied = last.range.end;
    }
    text.push_str(&fragment[copied..]);
    text
}

/// The end of each branch, in the order of the text. A branch is a list of elements joined by `!`.
fn branch_ends(fragment: &str) -> Vec<BranchEnd<'_>> {
    let words: Vec<Word<'_>> = words(fragment);
    let mut ends = Vec::new();
    let mut end: Option<BranchEnd<'_>> = None;
    // Names of elements at which further branches begin.
    let mut continued: Vec<&str> = Vec::new();
    let (mut is_linked, mut is_value) = (false, false);
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let next = words.peek().map_or("", |next| next.text);
        match word.text {
            "!" | ":" => {
                is_linked = true;
                continue;
            }
            "(" | ")" | ";" => continue,
            _ => {}
        }
        // `property=value`, also with spaces around the sign.
        let is_assignment = is_assignment(word.text) || next.starts_with('=') || is_value;
        is_value = word.text.ends_with('=') && !word.text.starts_with('"');
        if is_assignment && !is_linked {
            if let Some(BranchEnd::Element(words)) = &mut end {
                words.push(word);
            }
            continue;
        }
        if !is_linked {
            match &end {
                // Words after a space in caps.
                Some(BranchEnd::Caps) if word.text.contains(',') => continue,
                _ => ends.extend(end.take()),
            }
        }
        end = Some(match word.text {
            text if is_caps(text) => BranchEnd::Caps,
            text if text.contains('.') => {
                if !is_linked {
                    continued.extend(text.split('.').next());
                }
                BranchEnd::Other
            }
            _ => BranchEnd::Element(vec![word]),
        });
        is_linked = false;
    }
    if is_linked {
        end = Some(BranchEnd::Other);
    }
    ends.extend(end);
    for end in &mut ends {
        let is_continued = |word: &Word<'_>| {
            let name = word.text.strip_prefix("name=");
            name.is_some_and(|name| continued.contains(&name.trim_matches(['"', '\''])))
        };
        if matches!(end, BranchEnd::Element(words) if words.iter().any(is_continued)) {
            *end = BranchEnd::Other;
        }
    }
    ends
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_:".contains(c);
    name.chars().all(is_part)
}

/// `video/x-raw`, with or without fields behind.
fn is_caps(word: &str) -> bool {
    let media = word.split([',', '(', ';', '=']).next().unwrap_or_default();
    media.contains('/')
}

/// Splits at spaces outside of quotes, and before and after a `!` that is part of no value.
fn words(fragment: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = None;
    let (mut quote, mut is_escaped) = (None, false);
    let mut push = |range: Range<usize>| {
        words.push(Word {
            text: &fragment[range.clone()],
            range,
        });
    };
    for (at, c) in fragment.char_indices() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match (c, quote) {
            ('\\', _) => {
                is_escaped = true;
                start.get_or_insert(at);
            }
            (_, Some(mark)) => {
                if c == mark {
                    quote = None;
                }
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                start.get_or_insert(at);
            }
            (_, None) if c.is_whitespace() => {
                if let Some(start) = start.take() {
                    push(start..at);
                }
            }
            ('!', None) if !start.is_some_and(|start| is_assignment(&fragment[start..at])) => {
                if let Some(start) = start.take() {
                    push(start..at);
                }
                push(at..at + 1);
            }
            _ => {
                start.get_or_insert(at);
            }
        }
    }
    if let Some(start) = start {
        push(start..fragment.len());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(element: &str) -> Option<SinkKind> {
        match element {
            "glimagesink" | "autovideosink" => Some(SinkKind::Display),
            "fakesink" | "appsink" => Some(SinkKind::Discard),
            "filesink" | "alsasink" => Some(SinkKind::Other),
            _ => None,
        }
    }

    fn opened(fragment: &str) -> String {
        with_open_end(fragment, &kind).into_owned()
    }

    #[test]
    fn launch_ending_with_caps_gets_element() {
        let ends = |fragment: &str| opened(fragment) == format!("{fragment} ! capsfilter");
        assert!(ends("videotestsrc ! video/x-raw,width=640"));
        assert!(ends("a ! video/x-raw(memory:NVMM), width=640 "));
        assert!(ends("a ! video/x-raw, width=640, height=480"));
        assert!(ends("a !image/jpeg"));
        assert!(ends("a ! queue ! fakesink b ! image/jpeg"));
        for open in [
            "videotestsrc",
            "a ! filesrc location=/x/y",
            "a ! video/x-raw ! identity sync=true",
            "a ! identity caps=\"video/x-raw, width=640\"",
            "filesrc location=\"/a ! b/c d\" ! qtdemux name=d d.video_0 ! queue",
            "a ! fakesink b ! queue",
            "a ! filesink location=x",
            "",
            "a ! ",
            "a ! mux.",
        ] {
            assert_eq!(opened(open), open);
        }
    }

    #[test]
    fn final_sinks_are_replaced_where_no_branch_is_open() {
        #[rustfmt::skip]
        let cases = [
            ("a ! fakesink", "a ! capsfilter"),
            ("a ! b!fakesink sync=true name=x  async=false", "a ! b!capsfilter name=x"),
            (
                "d name=d ! queue ! autovideosink sync = false d. ! queue ! alsasink device=\"a b\"",
                "d name=d ! queue ! capsfilter caps=video/x-raw(ANY) d. ! queue ! alsasink device=\"a b\"",
            ),
            ("a ! tee name=t t. ! queue ! glimagesink t. ! mux. t. ! fakesink", "a ! tee name=t t. ! queue ! capsfilter caps=video/x-raw(ANY) t. ! mux. t. ! fakesink"),
            ("uridecodebin uri='file:///a ! b' ! video/x-raw,width=4!appsink max-buffers=1 drop=true", "uridecodebin uri='file:///a ! b' ! video/x-raw,width=4!capsfilter"),
        ];
        for (fragment, wanted) in cases {
            assert_eq!(opened(fragment), wanted);
        }
    }
}
