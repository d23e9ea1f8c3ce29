// SPDX-License-Identifier: Apache-2.0
//! Sources over HTTP. The first bytes of an answer decide what it is: JPEG images, in a stream or one at a time, are cut out by
//! [`JpegStream`]; all else (HLS, MPEG-TS, FLV) is left to `decodebin`. Called by [`build`](super::build); [`session`](super::session)
//! fetches still images again.
//!
//! `multipartdemux` is not used: it needs boundaries and lengths to be right, and few cameras' are.
//!
//! ```text
//!   souphttpsrc ─ (probe: images) ─► appsrc ─► decodebin
//!               └─ all else ─────────────────► decodebin
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::SourceError;
use crate::elements::make;
use jetwatch_config::Secret;
use jetwatch_pixels::JpegStream;

use super::build::build_error;
use super::messages;
use super::scaler::StallMonitor;
use super::tls;

/// Bytes without an image after which a stream of parts is given up.
const MAX_WITHOUT_IMAGE: u64 = 4 << 20;
/// Bytes of images that wait for the decoder; further images are left out.
const MAX_WAITING: u64 = 8 << 20;

/// Still images that are no JPEG: where their first bytes are, the bytes, and their kind.
const OTHER_IMAGES: [(usize, &[u8], &str); 5] = [
    (0, b"\x89PNG", "PNG"),
    (0, b"GIF8", "GIF"),
    (4, b"ftypavi", "AVIF"),
    (4, b"ftyphei", "HEIF"),
    (8, b"WEBP", "WebP"),
];

/// How one answer goes on.
#[derive(Default)]
enum Body {
    /// Its first bytes have not come.
    #[default]
    Begins,
    Images(JpegStream),
    /// As [`Self::Begins`], of a still image that is fetched again.
    Again,
    /// Its first bytes are text, of this kind, and no playlist.
    Text(String),
    /// It lists files of the media.
    Playlist,
    /// It has ended after one image; without one, where a camera is busy.
    Still {
        has_image: bool,
    },
}

/// What is received, and how.
pub(super) struct Camera<'a> {
    pub(super) location: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) password: Option<&'a Secret>,
    /// The authorities to trust; `None`: the system's.
    pub(super) ca_file: Option<&'a Path>,
    /// From one fetch of a still image to the next.
    pub(super) poll: Duration,
    /// A connection without data is given up after it.
    pub(super) timeout: Duration,
}

/// Name of the element that receives over HTTP in its pipeline.
pub(super) const HTTP: &str = "http";

/// The receiving side of a source over HTTP.
pub(super) struct HttpSource {
    element: gst::Element,
    body: Arc<Mutex<Body>>,
    poll: Duration,
    fetched_at: Mutex<Instant>,
}

/// Seconds, of `souphttpsrc`.
const DEFAULT_TIMEOUT: u32 = 15;

impl HttpSource {
    /// Adds it to `pipeline` in front of `decode`. `on_playlist` is called where the media comes in files of some seconds each, as fast as
    /// the network is.
    pub(super) fn add(
        pipeline: &gst::Pipeline,
        camera: &Camera<'_>,
        decode: &gst::Element,
        on_playlist: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, SourceError> {
        let element = make("souphttpsrc", HTTP)?;
        element.set_property("location", camera.location);
        element.set_property("is-live", true);
        element.set_property("do-timestamp", true);
        element.set_property("blocksize", 32_768_u32);
        // The supervisor of the source tries again.
        element.set_property("retries", 0);
        let timeout = u32::try_from(camera.timeout.as_secs().max(1)).unwrap_or(60);
        element.set_property("timeout", timeout);
        // Elements for the files of a playlist are to have a session each, and share one where their settings are the default ones. There,
        // GStreamer 1.22 waits for itself, also at the end, where a file is refused while the playlist is fetched again.
        let own = timeout + u32::from(timeout == DEFAULT_TIMEOUT);
        pipeline.connect_deep_element_added(move |_, _, element| {
            if (element.factory()).is_some_and(|factory| factory.name() == "souphttpsrc") {
                element.set_property("timeout", own);
            }
        });
        let password = camera.password.map(Secret::read).transpose();
        let password = password.map_err(SourceError::Password)?.unwrap_or_default();
        if let Some(user) = camera.user {
            element.set_property("user-id", user);
            element.set_property("user-pw", &password);
        }
        if let Some(ca_file) = camera.ca_file {
            // `ssl-ca-file` has no effect with libsoup 3.
            element.set_property("tls-database", tls::authorities(ca_file)?);
        }
        pipeline.add(&element).map_err(build_error)?;
        let output = element
            .static_pad("src")
            .ok_or_else(|| build_error("souphttpsrc has no source pad"))?;
        if let Some(user) = camera.user {
            log_in_to_files(&output, user, &password);
        }
        let body = Arc::new(Mutex::new(Body::default()));
        let receiver = Receiver {
            pipeline: pipeline.downgrade(),
            decode: decode.downgrade(),
            body: Arc::clone(&body),
            images: Mutex::new(None),
            ca_file: camera.ca_file.map(Path::to_owned),
            on_playlist: Box::new(on_playlist),
        };
        let mask = gst::PadProbeType::BUFFER | gst::PadProbeType::EVENT_DOWNSTREAM;
        output.add_probe(mask, move |pad, info| match &info.data {
            Some(gst::PadProbeData::Buffer(buffer)) => receiver.receive(pad, buffer),
            Some(gst::PadProbeData::Event(event)) if event.type_() == gst::EventType::Eos => {
                receiver.end()
            }
            // Kept by the pad for what is linked to it later.
            _ => gst::PadProbeReturn::Ok,
        });
        Ok(Self {
            element,
            body,
            poll: camera.poll,
            fetched_at: Mutex::new(Instant::now()),
        })
    }

    /// The error for an answer that is text, not video.
    pub(super) fn text_error(&self) -> Option<SourceError> {
        match &*self.body.lock() {
            Body::Text(kind) => Some(messages::text_instead_of_video(kind)),
            _ => None,
        }
    }

    /// The error of a playlist without new files for this long.
    pub(super) fn playlist_error(&self, idle: Duration) -> Option<SourceError> {
        matches!(*self.body.lock(), Body::Playlist).then(|| SourceError::Element {
            element: "playlist".to_owned(),
            message: format!("it lists no new files for {} ms", idle.as_millis()),
            hint: Some(
                "the program that writes it may have stopped, or have begun again with smaller numbers (EXT-X-MEDIA-SEQUENCE)",
            ),
        })
    }

    /// Fetches a still image again where that is due; until then the source is alive, unless the last one did not come.
    pub(super) fn poll(&self, stall_monitor: &StallMonitor) {
        let mut fetched_at = self.fetched_at.lock();
        let Body::Still { has_image } = *self.body.lock() else {
            return;
        };
        if has_image {
            stall_monitor.mark_alive();
        }
        if fetched_at.elapsed() < self.poll {
            return;
        }
        *fetched_at = Instant::now();
        // Its thread has ended with the image. A failure is reported on the bus.
        let _ = self.element.set_state(gst::State::Ready);
        *self.body.lock() = Body::Again;
        let _ = self.element.sync_state_with_parent();
    }
}

/// What a probe on the streaming thread needs.
struct Receiver {
    pipeline: gst::glib::WeakRef<gst::Pipeline>,
    decode: gst::glib::WeakRef<gst::Element>,
    body: Arc<Mutex<Body>>,
    /// Where images go, from the first one on.
    images: Mutex<Option<gst_app::AppSrc>>,
    ca_file: Option<PathBuf>,
    on_playlist: Box<dyn Fn() + Send + Sync>,
}

impl Receiver {
    fn receive(&self, pad: &gst::Pad, buffer: &gst::Buffer) -> gst::PadProbeReturn {
        let Ok(mapped) = buffer.map_readable() else {
            return gst::PadProbeReturn::Ok;
        };
        let mut body = self.body.lock();
        if matches!(*body, Body::Begins | Body::Again) {
            if self.images.lock().is_none() {
                let has_images = has_images(&mapped) || announces_parts(pad);
                let is_playlist = mapped.starts_with(b"#EXTM3U");
                let other = OTHER_IMAGES.iter().find(|(at, magic, _)| {
                    (mapped.get(*at..)).is_some_and(|it| it.starts_with(magic))
                });
                let linked = match (other, has_images, &self.ca_file) {
                    (Some((.., kind)), ..) => Err(format!(
                        "the server sends {kind}, which is not read over HTTP; let the camera send JPEG images or a video"
                    )),
                    (None, true, _) => self.add_images(),
                    (None, false, Some(ca_file)) if is_playlist => {
                        tls::trust(ca_file).and_then(|()| self.link(pad))
                    }
                    (None, false, _) => self.link(pad),
                };
                if let Err(reason) = linked {
                    self.fail(pad, &reason);
                    return gst::PadProbeReturn::Handled;
                }
                if is_playlist {
                    *body = Body::Playlist;
                    (self.on_playlist)();
                }
                if !has_images {
                    if !is_playlist && is_text(&mapped) {
                        *body = Body::Text(content_type(pad).unwrap_or_default());
                    }
                    return gst::PadProbeReturn::Remove;
                }
            }
            *body = Body::Images(JpegStream::default());
        }
        let Body::Images(stream) = &mut *body else {
            return gst::PadProbeReturn::Handled;
        };
        let images = self.images.lock();
        stream.push(&mapped, |image| {
            if let Some(images) = images.as_ref()
                && images.current_level_bytes() < MAX_WAITING
            {
                // An error means that the pipeline is being stopped.
                let _ = images.push_buffer(gst::Buffer::from_slice(image));
            }
        });
        if stream.images() == 0 && stream.skipped() > MAX_WITHOUT_IMAGE {
            let reason = "the server sends no JPEG image, nor another kind of video; use the camera's RTSP address";
            self.fail(pad, reason);
        }
        gst::PadProbeReturn::Handled
    }

    /// The answer has ended, or failed.
    fn end(&self) -> gst::PadProbeReturn {
        let mut body = self.body.lock();
        let images = self.images.lock();
        match (&*body, images.as_ref()) {
            (Body::Images(stream), _) if stream.images() == 1 => {
                *body = Body::Still { has_image: true };
            }
            (Body::Again, _) => *body = Body::Still { has_image: false },
            (_, Some(images)) => _ = images.end_of_stream(),
            // Nothing came at all.
            (_, None) => return gst::PadProbeReturn::Ok,
        }
        gst::PadProbeReturn::Handled
    }

    fn link(&self, pad: &gst::Pad) -> Result<(), String> {
        let decode = self
            .decode
            .upgrade()
            .and_then(|decode| decode.static_pad("sink"));
        let input = decode.ok_or("the pipeline is being stopped")?;
        pad.link(&input)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn add_images(&self) -> Result<(), String> {
        let gone = "the pipeline is being stopped";
        let pipeline = self.pipeline.upgrade().ok_or(gone)?;
        let decode = self.decode.upgrade().ok_or(gone)?;
        let source = make("appsrc", "jpeg").map_err(|error| error.to_string())?;
        let source = source
            .downcast::<gst_app::AppSrc>()
            .map_err(|_| "appsrc is another element")?;
        source.set_caps(Some(&gst::Caps::new_empty_simple("image/jpeg")));
        source.set_format(gst::Format::Time);
        source.set_is_live(true);
        source.set_do_timestamp(true);
        let failed = |error: gst::glib::BoolError| error.to_string();
        pipeline.add(&source).map_err(failed)?;
        source.link(&decode).map_err(failed)?;
        source.sync_state_with_parent().map_err(failed)?;
        *self.images.lock() = Some(source);
        Ok(())
    }

    fn fail(&self, pad: &gst::Pad, reason: &str) {
        if let Some(element) = pad.parent_element() {
            gst::element_error!(element, gst::StreamError::WrongType, ("{reason}"));
        }
    }
}

/// Gives the elements that fetch the files of a playlist the log-in of the playlist: they ask `pad` for its address, and take that of each
/// file relative to it.
fn log_in_to_files(pad: &gst::Pad, user: &str, password: &str) {
    let [user, password] =
        [user, password].map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string());
    let login = format!("://{user}:{password}@");
    let answered = gst::PadProbeType::QUERY_UPSTREAM | gst::PadProbeType::PULL;
    pad.add_probe(answered, move |_, info| {
        if let Some(gst::QueryViewMut::Uri(query)) = info.query_mut().map(|query| query.view_mut())
        {
            let with_login = |uri: gst::glib::GString| uri.replacen("://", &login, 1);
            if let Some(uri) = query.uri().map(with_login) {
                query.set_uri(Some(uri.as_str()));
            }
            let (redirected, is_permanent) = query.redirection();
            if let Some(redirected) = redirected.map(with_login) {
                query.set_redirection(Some(redirected.as_str()), is_permanent);
            }
        }
        gst::PadProbeReturn::Ok
    });
}

/// Whether the answer on `pad` is announced as parts, whatever its first bytes are.
fn announces_parts(pad: &gst::Pad) -> bool {
    content_type(pad).is_some_and(|kind| kind.starts_with("multipart/"))
}

/// What the answer on `pad` is announced as, in lower case.
fn content_type(pad: &gst::Pad) -> Option<String> {
    let event = pad.sticky_event::<gst::event::CustomDownstreamSticky>(0)?;
    let kind = messages::response_header(event.structure()?, "Content-Type")?;
    Some(kind.to_ascii_lowercase())
}

/// Whether an answer that begins with `bytes` is text: a page, or an error of a camera.
fn is_text(bytes: &[u8]) -> bool {
    let is_shown = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    std::str::from_utf8(bytes).is_ok() && bytes.iter().all(is_shown)
}

/// Whether an answer that begins with `bytes` has JPEG images: one, many, or parts with a boundary or a header before each.
fn has_images(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_start();
    let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_header = name.len() < text.len()
        && !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
    bytes.starts_with(&[0xff, 0xd8]) || text.starts_with(b"--") || is_header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_images_from_other_media() {
        let images: [&[u8]; 5] = [
            &[0xff, 0xd8, 0xff, 0xe0],
            b"--myboundary\r\nContent-Type: image/jpeg\r\n",
            b"\r\n--x",
            b"Content-Type: image/jpeg\r\nContent-Length: 3\r\n\r\n",
            b"X-Timestamp: 1.2\r\n",
        ];
        for bytes in images {
            assert!(has_images(bytes), "{bytes:?}");
        }
        let others: [&[u8]; 5] = [
            b"#EXTM3U\n#EXT-X-VERSION:3\n",
            &[0x47, 0x40, 0x00, 0x10],
            b"FLV\x01\x05\x00",
            b"<?xml version=\"1.0\"?><MPD>",
            b"\x00\x00\x00\x20ftypisom",
        ];
        for bytes in others {
            assert!(!has_images(bytes), "{bytes:?}");
        }
    }
}
