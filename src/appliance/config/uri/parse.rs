// SPDX-License-Identifier: Apache-2.0
//! A source's `uri` from text. Pure: no file is opened and no name resolved.
//!
//! Called by the loader of sources; the other keys of the source are applied there.

mod rtsp;
mod synthetic;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::redact::quoted;
pub(crate) use rtsp::split_host_port;

use crate::schema::nearest;
use crate::{SourceUri, V4l2Format};

/// Accepted forms of `uri`.
pub(crate) const URI_FORMS: &str = "a path, file://, rtsp://, rtsps://, http://, https://, udp://, srt://, rtmp://, v4l2:///dev/video0, csi://0, launch:…, images:FOLDER or synthetic://traffic";

/// What stands before `://`.
const SCHEMES: [&str; 12] = [
    "rtsp",
    "rtsps",
    "http",
    "https",
    "udp",
    "srt",
    "rtmp",
    "rtmps",
    "file",
    "v4l2",
    "csi",
    "synthetic",
];

/// Schemes of other programs, and what to write.
const FOREIGN_SCHEMES: [(&str, &str); 4] = [
    (
        "rtsph",
        "RTSP inside of HTTP is not read; write the camera's rtsp:// or rtsps:// address",
    ),
    ("rtspt", "write rtsp://, which is over TCP"),
    (
        "rtspu",
        "write rtsp:// and set transport: udp, or multicast",
    ),
    (
        "rtspx",
        "write rtsps:// and take `?enableSrtp` out; or take the camera's rtsp:// address without encryption",
    ),
];

/// Why a `uri` is not accepted. Nothing in it repeats a secret.
#[derive(Debug, PartialEq)]
pub(crate) struct UriError {
    /// The accepted form.
    pub(crate) expected: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl UriError {
    fn new(expected: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            hint: None,
        }
    }

    fn with_hint(expected: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            hint: Some(hint.into()),
        }
    }
}

/// Reads `text`, which is not empty; a relative path counts from `folder`.
///
/// # Errors
/// At least one part of `text` that is not accepted.
pub(crate) fn parse(text: &str, folder: &Path) -> Result<SourceUri, Vec<UriError>> {
    if let Some(elements) = text.strip_prefix("launch:") {
        return launch(elements).map_err(one);
    }
    if let Some(images) = text.strip_prefix("images:") {
        return self::images(images, folder).map_err(one);
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return plain_path(text, folder).map_err(one);
    };
    match scheme.to_ascii_lowercase().as_str() {
        "file" => file(rest).map_err(one),
        "rtsp" | "rtsps" | "http" | "https" => rtsp::parse(scheme, rest).map_err(one),
        "udp" | "srt" | "rtmp" | "rtmps" => rtsp::stream(scheme, rest).map_err(one),
        "v4l2" => v4l2(rest).map_err(one),
        "csi" => csi(rest).map_err(one),
        "synthetic" => synthetic::parse(rest),
        "launch" => Err(one(UriError::with_hint(
            URI_FORMS,
            "write launch: without slashes",
        ))),
        other => {
            if let Some((_, hint)) = FOREIGN_SCHEMES.iter().find(|(scheme, _)| *scheme == other) {
                return Err(one(UriError::with_hint(URI_FORMS, *hint)));
            }
            let near = nearest(other.trim_end_matches(':'), SCHEMES);
            let hint = near.map(|scheme| format!("did you mean `{scheme}://`?"));
            let expected = URI_FORMS.to_owned();
            Err(one(UriError { expected, hint }))
        }
    }
}

fn one(refusal: UriError) -> Vec<UriError> {
    vec![refusal]
}

fn launch(elements: &str) -> Result<SourceUri, UriError> {
    let elements = elements.trim();
    if elements.is_empty() || elements.starts_with("//") || elements.ends_with('!') {
        return Err(UriError::new(
            "launch: and GStreamer elements that end with an open pad, as in launch:videotestsrc ! identity",
        ));
    }
    Ok(SourceUri::Launch(elements.to_owned()))
}

fn images(path: &str, folder: &Path) -> Result<SourceUri, UriError> {
    if path.trim().is_empty() || path.starts_with("//") || path.starts_with('~') {
        return Err(UriError::new(
            "images: and the path of a folder, as in images:/data/frames",
        ));
    }
    Ok(SourceUri::Images(folder.join(path)))
}

fn plain_path(text: &str, folder: &Path) -> Result<SourceUri, UriError> {
    if text == "~" || text.starts_with("~/") {
        return Err(UriError::with_hint(
            URI_FORMS,
            "`~` is not expanded: write the whole path",
        ));
    }
    if text.starts_with("/dev/video") {
        return Err(UriError::with_hint(
            URI_FORMS,
            format!("a camera is written v4l2://{}", quoted(text)),
        ));
    }
    if text.ends_with('/') {
        return Err(UriError::with_hint(URI_FORMS, "this path names a folder"));
    }
    if is_address(text) {
        let hint =
            "begin the address of a camera with rtsp://; write a file of this name with file://";
        return Err(UriError::with_hint(URI_FORMS, hint));
    }
    Ok(SourceUri::File(folder.join(text)))
}

/// Whether `text` is an address without its scheme, or with half of it: it would be taken for a file, and its password shown as the
/// name of one.
fn is_address(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let host_port = text.split('/').next().unwrap_or_default();
    let (host, _) = host_port.split_once(':').unwrap_or((host_port, ""));
    ["rtsp:", "rtsps:", "rtsp//", "rtsps//"]
        .iter()
        .any(|begin| lower.starts_with(begin))
        || text
            .split_once('@')
            .is_some_and(|(user, _)| user.contains(':'))
        || host.parse::<Ipv4Addr>().is_ok()
}

fn file(rest: &str) -> Result<SourceUri, UriError> {
    let form = "file:// and an absolute path, as in file:///data/video.mp4";
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') || path.ends_with('/') {
        return Err(UriError::with_hint(
            form,
            "a relative path is written without file://",
        ));
    }
    if path.contains(['?', '#']) {
        return Err(UriError::with_hint(form, "write `?` as %3F and `#` as %23"));
    }
    check_escapes(path).map_err(|hint| UriError::with_hint(form, hint))?;
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    if bytes.contains(&0) {
        return Err(UriError::with_hint(form, "a path has no zero byte"));
    }
    Ok(SourceUri::File(PathBuf::from(OsString::from_vec(bytes))))
}

/// Percent-decoders let a stray `%` pass; here it more likely is an unescaped part of a password.
fn check_escapes(text: &str) -> Result<(), String> {
    let is_escape =
        |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    match text.split('%').skip(1).all(is_escape) {
        true => Ok(()),
        false => Err("write `%` as %25".to_owned()),
    }
}

fn v4l2(rest: &str) -> Result<SourceUri, UriError> {
    if !rest.starts_with('/') || rest.ends_with('/') {
        return Err(UriError::new(
            "v4l2:// and the absolute path of a device, as in v4l2:///dev/video0",
        ));
    }
    Ok(SourceUri::V4l2 {
        device: PathBuf::from(rest),
        format: V4l2Format::Any,
        size: None,
        fps: None,
    })
}

fn csi(rest: &str) -> Result<SourceUri, UriError> {
    let digits = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    match rest.parse::<u32>() {
        Ok(sensor) if digits && sensor < 16 => Ok(SourceUri::Csi {
            sensor,
            mode: None,
            size: None,
            fps: None,
        }),
        _ => Err(UriError::new("csi:// and a sensor number from 0 to 15")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What `text` means, seen from the folder `conf`.
    pub(crate) fn parsed(text: &str) -> SourceUri {
        parse(text, Path::new("conf")).unwrap_or_else(|refusals| panic!("{text}: {refusals:?}"))
    }

    /// Accepted forms and hints of a refused `text`.
    pub(crate) fn refused(text: &str) -> String {
        let refusals = parse(text, Path::new("conf")).expect_err(text);
        let lines = refusals
            .into_iter()
            .map(|r| format!("{}; {}", r.expected, r.hint.unwrap_or_default()));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn files() {
        let cases = [
            ("a.mp4", "conf/a.mp4"),
            ("/v/a b.mp4", "/v/a b.mp4"),
            ("12:30.mp4", "conf/12:30.mp4"),
            ("file:///v/a%20b%25.mp4", "/v/a b%.mp4"),
            ("FILE://localhost/v/a.mp4", "/v/a.mp4"),
        ];
        for (text, path) in cases {
            assert_eq!(parsed(text), SourceUri::File(PathBuf::from(path)), "{text}");
        }
        #[rustfmt::skip]
        let rows = [
            ("~/a.mp4", "`~` is not expanded"),
            ("/dev/video0", "a camera is written v4l2:///dev/video0"),
            ("videos/", "names a folder"),
            ("file://a.mp4", "a relative path is written without file://"),
            ("file:///v/100%.mp4", "write `%` as %25"),
            ("file:///v/%00", "zero byte"),
            ("file:///v/a?b", "write `?` as %3F"),
            ("udp://239.1.1.1", "the port is missing"),
            ("srt://h:99999", "a port is"),
            ("rtmp:///live", "the host is missing"),
            // go2rtc#81: addresses of UniFi Protect.
            ("rtspx://h:7441/k", "write rtsps://"),
            ("rtspt://h/k", "write rtsp://, which is over TCP"),
            ("rtspu://h/k", "set transport: udp"),
            ("rtsph://h/k", "RTSP inside of HTTP is not read"),
            ("smb://h/a.mp4", "expected"),
            ("rstp://h/a", "did you mean `rtsp://`?"),
            ("rtsp:://h/a", "did you mean `rtsp://`?"),
            ("rtsp:/u:p@h/a", "begin the address of a camera with rtsp://"),
            ("rtsp//h/a", "begin the address of a camera with rtsp://"),
            ("u:p/w@h/a", "begin the address of a camera with rtsp://"),
            ("192.0.2.7:554/a", "begin the address of a camera with rtsp://"),
            ("192.0.2.7", "begin the address of a camera with rtsp://"),
        ];
        for (text, wanted) in rows {
            let found = refused(text);
            assert!(
                found.contains(wanted) || wanted == "expected",
                "{text} gave {found}"
            );
        }
    }

    #[test]
    fn camera_and_launch_uris_are_parsed() {
        let any = V4l2Format::Any;
        let device = PathBuf::from("/dev/video0");
        let wanted = SourceUri::V4l2 {
            device,
            format: any,
            size: None,
            fps: None,
        };
        assert_eq!(parsed("v4l2:///dev/video0"), wanted);
        let csi = SourceUri::Csi {
            sensor: 1,
            mode: None,
            size: None,
            fps: None,
        };
        assert_eq!(parsed("csi://1"), csi);
        let found = parsed("launch: videotestsrc ! a://b ");
        assert_eq!(found, SourceUri::Launch("videotestsrc ! a://b".to_owned()));
        let images = SourceUri::Images(PathBuf::from("conf/a b/c"));
        assert_eq!(parsed("images:a b/c"), images);
        assert_eq!(images.to_string(), "images:conf/a b/c");
        for text in [
            "v4l2://dev/video0",
            "v4l2://",
            "csi://",
            "csi://16",
            "csi://+1",
            "csi://a",
            "launch:",
            "launch:a !",
            "images:",
            "images:///data",
            "images:~/data",
            "launch://a",
        ] {
            refused(text);
        }
    }

    #[test]
    fn uri_debug_and_display_hide_password() {
        for text in [
            "rtsp://admin:hunter2@cam/1",
            "rtsp://cam/?password=hunter2",
            "launch:rtspsrc location=rtsp://a:hunter2@cam user-pw=hunter2 ! identity",
        ] {
            let uri = parsed(text);
            let shown = format!("{uri} {uri:?} {uri:#?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
