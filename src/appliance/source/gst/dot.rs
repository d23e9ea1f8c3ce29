//! DOT graphs of a source's pipeline, written by jetwatch, so that no environment variable is needed at the start.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gstreamer as gst;
use gstreamer::prelude::*;
use jetwatch_config::redact;
use jetwatch_files::OFlags;

/// Parts of names of properties whose values are left out.
const SECRET_PROPERTIES: [&str; 8] = [
    "-pw",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "cookies",
    "extra-headers",
];

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
    let begin = property.find(QUOTE);
    let end = property.rfind(QUOTE).filter(|end| Some(*end) > begin);
    if let (Some(begin), Some(end)) = (begin, end) {
        let (name, tail) = (&property[..begin], &property[end + QUOTE.len()..]);
        return match is_secret(name) {
            true => format!("{name}***{tail}"),
            false => {
                let text = redact(&property[begin + QUOTE.len()..end]);
                format!("{name}{QUOTE}{text}{QUOTE}{tail}")
            }
        };
    }
    match property.split_once('=') {
        Some((name, value)) if is_secret(name) && !value.starts_with("NULL") => {
            let tail = value.find('"').map_or("", |at| &value[at..]);
            format!("{name}=***{tail}")
        }
        _ => property.to_owned(),
    }
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

fn is_secret(property: &str) -> bool {
    let property = property.to_ascii_lowercase();
    SECRET_PROPERTIES.iter().any(|part| property.contains(part))
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
    label="GstHttpSrc\nextra-headers=h, Authorization=(string)x";
}
"#;
        let expected = r#"digraph pipeline {
    label="GstRTSPSrc\nsource\n[=]\nlocation=\"rtsp://***@h:1/x?token=***\"\nproxy-pw=NULL\nuser-id=\"bob\"\nuser-pw=***";
    label="GstSrtSrc\npassphrase=***\nlatency=125";
    label="GstX264Enc\npass=cbr\nkey-int-max=60";
    label="GstHttpSrc\nextra-headers=***";
}
"#;
        assert_eq!(without_secrets(graph), expected);
    }
}
