// SPDX-License-Identifier: Apache-2.0
//! DOT graphs of a source's pipeline, written by jetwatch, so that no environment variable is needed at the start.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gstreamer as gst;
use gstreamer::prelude::*;
use jetwatch_config::{is_secret_property, redact};
use jetwatch_files::OFlags;

/// Number in the file names, so that they sort by time.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes `FOLDER/NUMBER-SOURCE-WHY.dot`, without passwords. A folder that is not writable is logged as a warning.
pub(super) fn dump(folder: Option<&Path>, source: &str, why: &str, pipeline: &gst::Pipeline) {
    let Some(folder) = folder else { return };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{number:05}-{source}-{why}.dot"));
    let graph = pipeline.debug_to_dot_data(gst::DebugGraphDetails::all());
    let write = || {
        fs::create_dir_all(folder)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        jetwatch_files::open_own(&path, flags)?.write_all(without_secrets(&graph).as_bytes())
    };
    if let Err(error) = write() {
        log::warn!(source; "cannot write {}: {error}; choose a writable folder with --dot", path.display());
    }
}

/// `graph` with `***` in the place of passwords: of properties and in URIs.
///
/// GStreamer writes the properties of an element as `name=value` into one label, separated by `\n`, with quotes as `\"`.
fn without_secrets(graph: &str) -> String {
    let mut masked = String::with_capacity(graph.len());
    for line in graph.split_inclusive('\n') {
        let properties = properties(line).into_iter().map(without_secret);
        masked.push_str(&properties.collect::<Vec<_>>().join("\\n"));
    }
    masked
}

/// A property without its secret. GStreamer writes texts in quotes; what is outside of them is the graph's, and stays.
fn without_secret(property: &str) -> String {
    const QUOTE: &str = "\\\"";
    let name = property.split('=').next().unwrap_or_default();
    let is_secret = is_secret_property(name);
    let begin = property.find(QUOTE);
    let end = property.rfind(QUOTE).filter(|end| Some(*end) > begin);
    if let (Some(begin), Some(end)) = (begin, end) {
        let (before, tail) = (&property[..begin], &property[end + QUOTE.len()..]);
        return match is_secret {
            true => format!("{name}=***{tail}"),
            false => {
                let text = redact(&property[begin + QUOTE.len()..end]);
                format!("{before}{QUOTE}{text}{QUOTE}{tail}")
            }
        };
    }
    match property.split_once('=') {
        Some((_, value)) if is_secret && !is_word(value) => {
            let tail = value.find('"').map_or("", |at| &value[at..]);
            format!("{name}=***{tail}")
        }
        _ => property.to_owned(),
    }
}

/// Whether a value is a number or one of an element's own words, as `NULL` is: it cannot be a secret.
fn is_word(value: &str) -> bool {
    let value = value.split('"').next().unwrap_or_default();
    value
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// A line of a graph, split where a label has `\n`. A backslash before it makes it a part of a value.
fn properties(line: &str) -> Vec<&str> {
    let mut properties = Vec::new();
    let mut begin = 0;
    let mut characters = line.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == '\\' && matches!(characters.next(), Some((_, 'n'))) {
            properties.push(&line[begin..at]);
            begin = at + 2;
        }
    }
    properties.push(&line[begin..]);
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_have_no_passwords_and_stay_graphs() {
        let graph = r#"digraph pipeline {
    label="GstRTSPSrc\nsource\n[=]\nlocation=\"rtsp://bob:s3cr@h:1/x?token=abc&password=zzz\"\nproxy-pw=NULL\nuser-id=\"bob\"\nuser-pw=\"s3cr:t\\\"@!pw\"";
    label="GstSrtSrc\npassphrase=\"a\\nb\"\nlatency=125";
    label="GstX264Enc\npass=cbr\nkey-int-max=60";
    label="GstHttpSrc\nextra-headers=h, Authorization=(string)\"x y\"";
    label="GstRtmp2Src\nstream=\"s3cr\"\nlocation=\"rtmp://h/live/s3cr\"";
}
"#;
        let expected = r#"digraph pipeline {
    label="GstRTSPSrc\nsource\n[=]\nlocation=\"rtsp://***@h:1/x?token=***\"\nproxy-pw=NULL\nuser-id=\"bob\"\nuser-pw=***";
    label="GstSrtSrc\npassphrase=***\nlatency=125";
    label="GstX264Enc\npass=cbr\nkey-int-max=60";
    label="GstHttpSrc\nextra-headers=***";
    label="GstRtmp2Src\nstream=***\nlocation=\"rtmp://h/***\"";
}
"#;
        assert_eq!(without_secrets(graph), expected);
    }
}
