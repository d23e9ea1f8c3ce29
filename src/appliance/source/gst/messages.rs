// SPDX-License-Identifier: Apache-2.0
//! Bus messages as typed errors: the element, its message, and a remedy.

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::SourceError;
use crate::elements::{has_decoder, package_for};

/// A plug-in that GStreamer needs and has not found, or not been able to use.
pub(super) struct MissingPlugin {
    what: String,
    media_type: String,
    caps: Option<gst::Caps>,
}

/// Parses a `missing-plugin` element message; its format is documented with `GstMissingPlugin` in gst-plugins-base.
pub(super) fn missing_plugin(message: &gst::MessageRef) -> Option<MissingPlugin> {
    let structure = message
        .structure()
        .filter(|structure| structure.name() == "missing-plugin")?;
    let what = structure
        .get::<String>("name")
        .unwrap_or_else(|_| "this media type".to_owned());
    let caps = structure.get::<gst::Caps>("detail").ok();
    let media_type = caps
        .as_ref()
        .and_then(|caps| caps.structure(0))
        .map_or_else(
            || {
                structure
                    .get::<String>("detail")
                    .unwrap_or_else(|_| "unknown".to_owned())
            },
            |media| media.name().to_string(),
        );
    Some(MissingPlugin {
        what,
        media_type,
        caps,
    })
}

impl MissingPlugin {
    /// The error with the package name, or that what is installed fails: GStreamer says for both that a plug-in is missing.
    pub(super) fn into_error(self) -> SourceError {
        if self.media_type == "video/x-bayer" {
            return SourceError::Refused(
                "the camera sends what its sensor sees, without color (video/x-bayer); a sensor of a Jetson is csi://0, and any other is \
                 launch:v4l2src device=/dev/video0 ! bayer2rgb"
                    .to_owned(),
            );
        }
        if self.media_type.starts_with("text/") {
            return text_instead_of_video(&self.media_type);
        }
        if self.caps.as_deref().is_some_and(has_decoder) {
            return SourceError::Undecodable {
                what: self.what,
                caps: self.media_type,
            };
        }
        SourceError::MissingPlugin {
            package: package_for(&self.media_type),
            what: self.what,
            caps: self.media_type,
        }
    }
}

/// The error of a server that sends text of this kind, which may be empty.
pub(super) fn text_instead_of_video(kind: &str) -> SourceError {
    let kind = if kind.is_empty() { "of no kind" } else { kind };
    SourceError::Refused(format!(
        "this is text ({kind}), not video: a page, or what a camera answers without a log-in; check the path in the uri, user and password"
    ))
}

/// The error to report: a missing plug-in explains more than the element that failed because of it.
pub(super) fn element_error(
    message: &gst::message::Error,
    missing: Option<MissingPlugin>,
) -> SourceError {
    if let Some(missing) = missing {
        return missing.into_error();
    }
    if message.error().matches(gst::CoreError::MissingPlugin)
        && let Some(error) = message
            .debug()
            .and_then(|debug| error_of_missing(missing_plugins_in(&debug)))
    {
        return error;
    }
    let error = message.error();
    let element = message
        .src()
        .map_or_else(|| "pipeline".to_owned(), |object| object.name().to_string());
    let debug = message
        .debug()
        .map(|debug| without_secrets(detail_of(&debug)))
        .unwrap_or_default();
    // Elements for playlists repeat the debug text of the element that fetches a file.
    let text = match detail_of(error.message()) {
        text if text.is_empty() => error.message().to_owned(),
        text => text,
    };
    let mut text = without_secrets(text.trim_end_matches(", Redirect to: (NULL)").to_owned());
    if is_access_refused(message) {
        let message = if debug.is_empty() { text } else { debug };
        return SourceError::AccessRefused { element, message };
    }
    if !debug.is_empty() && !text.contains(&debug) {
        text = format!("{text} ({debug})");
    }
    SourceError::Element {
        element,
        hint: rtsp_hint(message, &text)
            .or_else(|| hint_by_text(&text))
            .or_else(|| hint_for(&error)),
        message: text,
    }
}

/// How the parser of launch lines logs the value of a property, whose name it leaves out.
const UNNAMED_VALUE: &str = "unescaping ";

/// `text` of GStreamer without the passwords in the addresses and parameters that it repeats.
pub(super) fn without_secrets(text: String) -> String {
    if text.starts_with(UNNAMED_VALUE) {
        return format!("{UNNAMED_VALUE}a value");
    }
    match text.contains("://") {
        true => jetwatch_config::redact(&text),
        false => jetwatch_config::redact_parameters(&text),
    }
}

/// Status of RTSP or HTTP in an error.
fn status(message: &gst::message::Error) -> Option<u32> {
    let details = message.details()?;
    let fields = ["rtsp-status-code", "http-status-code"];
    fields
        .iter()
        .find_map(|field| details.get::<u32>(*field).ok())
}

/// Whether a server has answered with an error.
pub(super) fn has_status(message: &gst::message::Error) -> bool {
    // libsoup 2 counts failures before an answer as numbers below those of HTTP.
    status(message).is_some_and(|status| status >= 100)
}

/// Whether a server refuses this user: RTSP and HTTP status 401 or 403. `rtspsrc` has no error code for 403, but gives the status, and that of
/// GStreamer 1.16 has neither for a 401 without a method that it knows.
fn is_access_refused(message: &gst::message::Error) -> bool {
    message.error().matches(gst::ResourceError::NotAuthorized)
        || matches!(status(message), Some(401 | 403))
        || lacks_authentication(message)
}

/// Whether `rtspsrc` found no demand for credentials in an answer where it looked for one.
pub(super) fn lacks_authentication(message: &gst::message::Error) -> bool {
    let is_told =
        |debug: gst::glib::GString| debug.contains("No supported authentication protocol");
    message.debug().is_some_and(is_told)
}

/// Files of a playlist that the server has refused in a row.
#[derive(Default)]
pub(super) struct RefusedFiles {
    count: u32,
    /// Of the last one.
    status: u32,
    address: String,
}

impl RefusedFiles {
    /// Refusals in a row after which there is nothing to wait for: elements for playlists ask for the files of a live one without a limit.
    const MAX: u32 = 5;

    /// Counts an answer to an element that fetches such files, which reports its headers.
    pub(super) fn note(&mut self, message: &gst::MessageRef) {
        let answer = http_answer(message).and_then(|answer| {
            let status = answer.get::<u32>("http-status-code").ok()?;
            Some((status, answer.get::<String>("uri").ok()?))
        });
        match answer {
            Some((status @ 400.., address)) => {
                let count = self.count + 1;
                *self = Self {
                    count,
                    status,
                    address,
                };
            }
            Some((200..=299, _)) => *self = Self::default(),
            _ => {}
        }
    }

    pub(super) fn are_all(&self) -> bool {
        self.count >= Self::MAX
    }

    /// What to say of them, if there are any.
    pub(super) fn error(&self) -> Option<SourceError> {
        let Self { count, status, .. } = self;
        let address = without_secrets(self.address.clone());
        let message = match count {
            0 => return None,
            1 => format!("the server answers {status} to a file of the playlist, {address}"),
            _ => format!(
                "the server answers {status} to each of the last {count} files of the playlist, at last {address}"
            ),
        };
        let element = "playlist".to_owned();
        Some(match status {
            401 | 403 => SourceError::AccessRefused { element, message },
            _ => SourceError::Element {
                element,
                message,
                hint: Some(
                    "check the program that writes the playlist: it may have stopped, or remove files that it still lists",
                ),
            },
        })
    }
}

/// What an element reports of an answer over HTTP.
fn http_answer(message: &gst::MessageRef) -> Option<&gst::StructureRef> {
    message
        .structure()
        .filter(|structure| structure.name() == "http-headers")
}

/// A header of an answer that `souphttpsrc` reports, in a message or an event.
pub(super) fn response_header(answer: &gst::StructureRef, name: &str) -> Option<String> {
    let headers = answer.get::<gst::Structure>("response-headers").ok()?;
    let mut headers = headers.iter();
    let (_, value) = headers.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    value.get().ok()
}

/// Whether an answer, whose headers `souphttpsrc` reports, asks for Digest with SHA-256 and offers nothing that libsoup knows.
pub(super) fn asks_for_sha256(message: &gst::MessageRef) -> bool {
    // Several challenges are a list.
    http_answer(message)
        .and_then(|answer| response_header(answer, "WWW-Authenticate"))
        .is_some_and(|text| text.to_ascii_lowercase().contains("sha-256"))
}

/// The remedy for what an RTSP server refuses, which `rtspsrc` reports as a failure to read.
fn rtsp_hint(message: &gst::message::Error, text: &str) -> Option<&'static str> {
    if text.contains("no protocols left") || text.contains("allow more transport protocols") {
        return Some(
            "the camera does not offer this transport; set transport: udp, or tcp where it is udp now; some have multicast alone",
        );
    }
    matches!(status(message), Some(453 | 503)).then_some(
        "the camera serves no further client; close another program that uses it, or wait until the session of an earlier one has \
         timed out",
    )
}

/// The remedy for what an SRT peer, a server of RTSP, RTMP or HTTP, or an MP4 file has.
fn hint_by_text(text: &str) -> Option<&'static str> {
    let hints = [
        (
            "Server does not accept Range HTTP header",
            "the answer has ended before the length that it announced (Content-Length), and its rest cannot be fetched",
        ),
        (
            "Failed to authenticate",
            "check passphrase= in the uri; without encryption there is none",
        ),
        (
            "Could not receive message. (Parse error)",
            "what answers there does not speak RTSP; check the port in the uri, which is often 554",
        ),
        (
            "Failed to read any data from stream",
            "check the application and the key in the RTMP address, and that the stream is published",
        ),
        (
            "no known streams found",
            "GStreamer leaves out a track that is shorter than a fifth of the file; convert it with: ffmpeg -i FILE -c copy NEW.mkv",
        ),
        (
            "failed to set passphrase",
            "passphrase= in the uri has 10 to 79 characters",
        ),
    ];
    let found = hints.iter().find(|(reason, _)| text.contains(reason));
    found.map(|(_, hint)| *hint)
}

/// The missing decoders in the debug text of decodebin's error, one per line: `Missing decoder: WHAT (CAPS)`. decodebin reports
/// them here, and not by messages, for streams that it could have output undecoded if its caps allowed it.
fn missing_plugins_in(debug: &str) -> Vec<MissingPlugin> {
    let listed = debug.lines().filter_map(|line| {
        let (what, caps) = line
            .trim()
            .strip_prefix("Missing ")?
            .split_once(": ")?
            .1
            .rsplit_once(" (")?;
        let media_type = caps.split([',', ')']).next()?.to_owned();
        Some(MissingPlugin {
            what: what.to_owned(),
            media_type,
            caps: caps.strip_suffix(')').and_then(|caps| caps.parse().ok()),
        })
    });
    listed.collect()
}

/// Streams other than video need no plug-in: then there is just no video.
fn error_of_missing(mut missing: Vec<MissingPlugin>) -> Option<SourceError> {
    let is_video_or_image = |plugin: &MissingPlugin| {
        plugin.media_type.starts_with("video/") || plugin.media_type.starts_with("image/")
    };
    if let Some(at) = missing.iter().position(is_video_or_image) {
        return Some(missing.swap_remove(at).into_error());
    }
    let found: Vec<&str> = missing.iter().map(|plugin| plugin.what.as_str()).collect();
    (!found.is_empty()).then(|| SourceError::NoVideo {
        found: found.join(", "),
        hint: "",
    })
}

/// The last line of GStreamer's debug text that does not say where in its code something happened.
fn detail_of(debug: &str) -> String {
    debug
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty() && !line.contains("(): /Gst"))
        .unwrap_or_default()
        .trim_end_matches('.')
        .to_owned()
}

fn hint_for(error: &gst::glib::Error) -> Option<&'static str> {
    if let Some(kind) = error.kind::<gst::ResourceError>() {
        return match kind {
            gst::ResourceError::NotFound => Some("check the address or device"),
            gst::ResourceError::OpenRead | gst::ResourceError::OpenReadWrite => {
                Some("check that it is reachable and that you may open it")
            }
            gst::ResourceError::Read => Some("check that it is still connected"),
            gst::ResourceError::Busy => Some("another program uses it; close that one"),
            _ => None,
        };
    }
    match error.kind::<gst::StreamError>() {
        Some(gst::StreamError::Demux | gst::StreamError::Decode) => {
            Some("the media is damaged or incomplete; try it with: gst-play-1.0")
        }
        Some(gst::StreamError::TypeNotFound) => Some("GStreamer does not recognize the media type"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_the_parser_of_launch_lines_logs_are_left_out() {
        let text = |text: &str| without_secrets(text.to_owned());
        assert_eq!(text("unescaping hunter"), "unescaping a value");
        assert_eq!(text("user-pw=hunter set"), "user-pw=***");
        assert_eq!(text("no buffer"), "no buffer");
    }

    #[test]
    fn places_in_the_code_of_gstreamer_are_left_out_where_more_is_said() {
        gst::init().expect("GStreamer starts");
        let place = "Not found: ../a.c(1): f (): /GstPipeline:cam";
        let file = "File not found (404), URL: http://host/a.ts";
        let both = format!("{place}:\n{file}, Redirect to: (NULL)");
        for (said, wanted) in [(both.as_str(), file), (place, place)] {
            let message = gst::message::Error::new(gst::ResourceError::NotFound, said);
            let gst::MessageView::Error(error) = message.view() else {
                panic!("{message:?} is not an error");
            };
            let text = element_error(error, None).to_string();
            assert_eq!(
                text,
                format!("pipeline: {wanted}; check the address or device")
            );
        }
    }

    #[test]
    fn missing_audio_plugin_is_ignored() {
        gst::init().expect("GStreamer starts");
        let debug = "gstdecodebin2.c(1): expose ():\nno suitable plugins found:\n\
                     Missing decoder: Raw 16-bit PCM audio (audio/x-raw, format=(string)S16LE)\n";
        let error = error_of_missing(missing_plugins_in(debug)).expect("something is listed");
        assert_eq!(
            error.to_string(),
            "the media has no video stream (found: Raw 16-bit PCM audio)"
        );
    }

    #[test]
    fn a_codec_without_plugin_names_its_package() {
        gst::init().expect("GStreamer starts");
        let debug = "Missing decoder: MPEG-4 AAC (audio/mpeg, mpegversion=(int)4)\n\
                     Missing decoder: H.277 (Main Profile) (video/x-h277, width=(int)64)\n";
        let error = error_of_missing(missing_plugins_in(debug)).expect("something is listed");
        let text = error.to_string();
        assert!(
            text.contains("H.277") && text.contains("apt-get install gstreamer1.0-libav"),
            "{text}"
        );
        assert!(error_of_missing(missing_plugins_in("no list here")).is_none());
    }

    #[test]
    fn an_installed_codec_that_fails_is_not_called_missing() {
        gst::init().expect("GStreamer starts");
        let debug = "Missing decoder: H.264 (High 4:4:4 Profile) \
                     (video/x-h264, stream-format=(string)avc, width=(int)0, profile=(string)high-4:4:4)\n";
        let error = error_of_missing(missing_plugins_in(debug)).expect("something is listed");
        let text = error.to_string();
        assert!(
            text.contains("H.264") && text.contains("damaged") && !text.contains("apt-get"),
            "{text}"
        );
        let version = |number: i32| {
            let caps = gst::Caps::builder("video/mpeg").field("mpegversion", number);
            has_decoder(&caps.field("systemstream", false).build())
        };
        assert!(version(2) && !version(77));
    }
}
