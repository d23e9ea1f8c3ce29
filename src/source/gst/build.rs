//! The first half of a pipeline: from an address to decoded video.
//!
//! Every property is set on a named element. The only text that GStreamer parses is a `launch:` fragment, alone, because
//! parsing it is what the user asked for.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::config::{RtspTransport, SourceConfig, SourceUri};
use crate::source::elements::make;
use crate::source::{SourceContext, SourceError};

use super::camera;
use super::scale::{self, Progress};

/// A pipeline ready to play.
pub(super) struct Launch {
    pub(super) pipeline: gst::Pipeline,
    pub(super) progress: Arc<Progress>,
    /// Media types that turned out not to be video.
    pub(super) others: Arc<Mutex<Vec<String>>>,
}

/// Builds the pipeline of a source.
pub(super) fn build(config: &SourceConfig, context: &SourceContext) -> Result<Launch, SourceError> {
    let uri = &config.uri;
    let pipeline = gst::Pipeline::with_name(&context.name);
    let scaler = scale::add(&pipeline, context)?;
    let decode = make("decodebin", "decode")?;
    // Only video is decoded; sound and subtitles are left alone.
    decode.set_property(
        "caps",
        gst::Caps::builder("video/x-raw").any_features().build(),
    );
    decode.set_property("expose-all-streams", false);
    pipeline.add(&decode).map_err(build_error)?;
    limit_decoder_threads(&decode, config.decoder_threads);
    let others = Arc::new(Mutex::new(Vec::new()));
    link_video_when_it_appears(&decode, scaler.input, Arc::clone(&others));

    match uri {
        SourceUri::File(path) => {
            check_readable(path)?;
            let source = make("filesrc", "file")?;
            source.set_property("location", path);
            pipeline.add(&source).map_err(build_error)?;
            source.link(&decode).map_err(build_error)?;
        }
        SourceUri::Rtsp {
            location,
            user,
            password,
            transport,
            latency,
        } => {
            let source = make("rtspsrc", "rtsp")?;
            source.set_property("location", location);
            source.set_property_from_str(
                "protocols",
                match transport {
                    RtspTransport::Tcp => "tcp",
                    RtspTransport::Udp => "udp",
                },
            );
            source.set_property(
                "latency",
                u32::try_from(latency.as_millis()).unwrap_or(u32::MAX),
            );
            if let Some(user) = user {
                source.set_property("user-id", user);
            }
            if let Some(password) = password {
                source.set_property("user-pw", password.read().map_err(SourceError::Password)?);
            }
            pipeline.add(&source).map_err(build_error)?;
            link_video_of_rtsp(&source, &decode);
        }
        SourceUri::V4l2 {
            device,
            format,
            size,
            fps,
        } => {
            check_readable(device)?;
            let source = make("v4l2src", camera::ELEMENT)?;
            source.set_property("device", device);
            let wanted = make("capsfilter", "camera-format")?;
            wanted.set_property("caps", camera::wanted_caps(*format, *size, *fps));
            pipeline.add_many([&source, &wanted]).map_err(build_error)?;
            gst::Element::link_many([&source, &wanted, &decode]).map_err(build_error)?;
        }
        SourceUri::Launch(fragment) => {
            let bin = gst::parse::bin_from_description(fragment, true)
                .map_err(|error| SourceError::Launch(error.message().to_owned()))?;
            pipeline.add(&bin).map_err(build_error)?;
            bin.link(&decode)
                .map_err(|_| SourceError::Launch("it has no free source pad".to_owned()))?;
        }
        SourceUri::Csi { sensor } => {
            return Err(SourceError::Unsupported {
                uri: format!("csi://{sensor}"),
                reason: "this machine has no Jetson CSI camera; use v4l2:///dev/videoN for a USB camera",
            });
        }
        SourceUri::Images(_) => {
            return Err(SourceError::Unsupported {
                uri: uri.to_string(),
                reason: "pictures are decoded by jetwatch itself",
            });
        }
        SourceUri::Synthetic(_) => {
            return Err(SourceError::Unsupported {
                uri: "synthetic://".to_owned(),
                reason: "the built-in scene needs no GStreamer pipeline",
            });
        }
    }
    Ok(Launch {
        pipeline,
        progress: scaler.progress,
        others,
    })
}

/// Opens and closes it, so that the operating system's own words reach the user.
fn check_readable(path: &Path) -> Result<(), SourceError> {
    let fail = |cause| SourceError::File {
        path: path.to_owned(),
        cause,
        user: rustix::process::getuid().as_raw().to_string(),
    };
    let metadata = File::open(path)
        .and_then(|file| file.metadata())
        .map_err(fail)?;
    if metadata.is_dir() {
        return Err(fail(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
    }
    if metadata.is_file() && metadata.len() == 0 {
        return Err(SourceError::Empty);
    }
    Ok(())
}

/// Sets the number of threads of the software decoder that decodebin chooses, when it makes it.
fn limit_decoder_threads(decode: &gst::Element, threads: u32) {
    let Some(bin) = decode.downcast_ref::<gst::Bin>() else {
        return;
    };
    let threads = i32::try_from(threads).unwrap_or(i32::MAX);
    bin.connect_element_added(move |_, element| {
        if element.has_property_with_type("max-threads", i32::static_type()) {
            element.set_property("max-threads", threads);
        }
    });
}

fn link_video_when_it_appears(
    decode: &gst::Element,
    input: gst::Pad,
    others: Arc<Mutex<Vec<String>>>,
) {
    decode.connect_pad_added(move |_, pad| {
        let media = media_type(pad);
        if !media.starts_with("video/") || input.is_linked() {
            others
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(media);
            return;
        }
        if let Err(error) = pad.link(&input) {
            log::warn!("cannot link {media} to the scaler: {error}");
        }
    });
}

fn link_video_of_rtsp(source: &gst::Element, decode: &gst::Element) {
    let Some(input) = decode.static_pad("sink") else {
        return;
    };
    source.connect_pad_added(move |_, pad| {
        let is_video = pad
            .current_caps()
            .or_else(|| Some(pad.query_caps(None)))
            .and_then(|caps| {
                caps.structure(0)
                    .and_then(|media| media.get::<String>("media").ok())
            })
            .is_some_and(|media| media == "video");
        if is_video
            && !input.is_linked()
            && let Err(error) = pad.link(&input)
        {
            log::warn!("cannot link the RTSP stream to the decoder: {error}");
        }
    });
}

fn media_type(pad: &gst::Pad) -> String {
    pad.current_caps()
        .or_else(|| Some(pad.query_caps(None)))
        .and_then(|caps| caps.structure(0).map(|media| media.name().to_string()))
        .unwrap_or_else(|| "unknown".to_owned())
}

fn build_error(error: impl std::fmt::Display) -> SourceError {
    SourceError::Build(error.to_string())
}
