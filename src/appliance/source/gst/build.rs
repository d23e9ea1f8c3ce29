// SPDX-License-Identifier: Apache-2.0
//! First half of a pipeline: from an address to decoded video.
//!
//! Every property is set on a named element. The only text that GStreamer parses is a `launch:` fragment of the user,
//! in `launch.rs`.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::convert_plan::VideoFormat;
use crate::digest::Login;
use crate::elements::make;
use crate::pacer::Pacer;
use crate::{SourceContext, SourceError};
use jetwatch_config::{Playback, RtspTransport, Secret, SourceConfig, SourceUri};

use super::audio;
use super::bounded::{LateCalls, OPEN_TIMEOUT};
use super::camera;
use super::decode::{self, DecodeOptions};
use super::diagnostics::SessionDiagnostics;
use super::encode::RawEncoder;
use super::encoded::EncodedCapture;
use super::hardware::VideoHardware;
use super::http::{Camera, HttpSource};
use super::launch::{self, LaunchBin};
use super::rate_probes::pace;
use super::rtsp_packets::RtspPackets;
use super::rtsp_relay::{self, GetParameter, RtspRelay};
use super::scaler::{self, StallMonitor};
use super::stream;
use super::sync_gate::SyncGate;

/// Name of the element that receives RTSP in its pipeline.
pub(super) const RTSP: &str = "rtsp";

/// A pipeline ready to play.
pub(super) struct BuiltPipeline {
    pub(super) pipeline: gst::Pipeline,
    pub(super) stall_monitor: Arc<StallMonitor>,
    pub(super) diagnostics: Arc<SessionDiagnostics>,
    /// What was made of a `launch:` fragment.
    pub(super) launch_bin: Option<Arc<LaunchBin>>,
    /// Holds back what cannot be decoded; `None`: the source begins at its begin.
    pub(super) gate: Option<Arc<SyncGate>>,
    /// Receives over HTTP.
    pub(super) http: Option<HttpSource>,
    /// Encodes what has no stream of its own; `None`: none is requested.
    pub(super) encoder: Option<Arc<RawEncoder>>,
    /// What comes over RTSP.
    pub(super) packets: Option<Arc<RtspPackets>>,
    /// Between `rtspsrc` and its camera.
    pub(super) _relay: Option<RtspRelay>,
}

/// Builds the pipeline of a source; `get_parameter`: see [`RtspRelay::start`];
/// `logged_format`: see [`SessionDiagnostics::new`].
///
/// # Errors
/// An element is missing or elements cannot be linked, or this machine cannot open the source.
pub(super) fn build(
    config: &SourceConfig,
    context: &SourceContext,
    get_parameter: &Arc<Mutex<GetParameter>>,
    logged_format: &Arc<Mutex<Option<VideoFormat>>>,
) -> Result<BuiltPipeline, SourceError> {
    let uri = &config.uri;
    let pipeline = gst::Pipeline::with_name(&context.name);
    decode::prefer_forms(&pipeline);
    let hardware = VideoHardware::detect(&context.machine);
    let diagnostics = Arc::new(SessionDiagnostics::new(logged_format));
    let capture = EncodedCapture::of(context);
    let encoder = capture
        .clone()
        .map(|capture| RawEncoder::with_capture(context, uri.is_live(), capture));
    let encoder_ref = encoder.as_ref();
    let scaler = scaler::add(
        &pipeline,
        context,
        &hardware,
        config,
        &diagnostics,
        encoder_ref,
    )?;
    let options = DecodeOptions {
        choice: config.decoder,
        threads: config.decoder_threads,
        // That of RTSP is chosen before its media come.
        track: config.track.filter(|_| uri.kind() != "rtsp"),
    };
    let gate = uri
        .is_live()
        .then(|| SyncGate::new(&scaler.stall_monitor, &context.counters));
    let decode = || {
        decode::add(
            &pipeline,
            scaler.input.clone(),
            &hardware,
            options,
            &diagnostics,
            capture.clone(),
            gate.clone(),
        )
    };

    let (mut launch_bin, mut http, mut relay, mut packets) = (None, None, None, None);
    match uri {
        SourceUri::File(path) => {
            let source = make("filesrc", "file")?;
            source.set_property("location", path);
            pipeline.add(&source).map_err(build_error)?;
            source.link(&decode()?).map_err(build_error)?;
        }
        SourceUri::Rtsp {
            location,
            user,
            password,
            transport,
            latency,
        } => {
            let source = make("rtspsrc", RTSP)?;
            let password = password.as_ref().map(Secret::read).transpose();
            let password = password.map_err(SourceError::Password)?;
            let login = user.clone().map(|user| Login {
                user,
                password: password.unwrap_or_default(),
            });
            let camera = rtsp_relay::Camera {
                location: location.clone(),
                ca_file: config.ca_file.clone(),
            };
            let get_parameter = Arc::clone(get_parameter);
            let started = RtspRelay::start(camera, login, Arc::clone(&diagnostics), get_parameter);
            let started = started.map_err(build_error)?;
            source.set_property("location", started.address(location));
            relay = Some(started);
            source.set_property_from_str(
                "protocols",
                match transport {
                    RtspTransport::Udp => "udp",
                    RtspTransport::Multicast => "udp-mcast",
                    RtspTransport::Tcp => "tcp",
                },
            );
            source.set_property(
                "latency",
                u32::try_from(latency.as_millis()).unwrap_or(u32::MAX),
            );
            // A server that answers in part is given up as soon as one whose frames stop.
            let timeout = config.first_frame_timeout().as_micros();
            source.set_property("tcp-timeout", u64::try_from(timeout).unwrap_or(u64::MAX));
            let audio = capture.clone().filter(|capture| capture.wants_audio);
            let selected =
                select_streams_of_rtsp(&source, config.track, &diagnostics, audio.is_some());
            pipeline.add(&source).map_err(build_error)?;
            packets = Some(RtspPackets::watch(&source));
            link_streams_of_rtsp(&source, &decode()?, &pipeline, audio, selected)?;
        }
        SourceUri::Http {
            location,
            user,
            password,
            poll,
        } => {
            let camera = Camera {
                location,
                user: user.as_deref(),
                password: password.as_ref(),
                ca_file: config.ca_file.as_deref(),
                poll: *poll,
                timeout: config.stall_timeout,
            };
            let decode = decode()?;
            let (input, monitor) = (scaler.input.clone(), Arc::clone(&scaler.stall_monitor));
            let context = context.clone();
            let pace = move || {
                if let Some(pacer) = Pacer::new(Playback::Realtime) {
                    pace(&input, pacer, &context, &monitor);
                }
            };
            http = Some(HttpSource::add(&pipeline, &camera, &decode, pace)?);
        }
        SourceUri::Stream(location) => {
            let source = stream::make_source(location)?;
            pipeline.add(&source).map_err(build_error)?;
            source.link(&decode()?).map_err(build_error)?;
        }
        SourceUri::V4l2 {
            device,
            format,
            size,
            fps,
        } => {
            let source = make("v4l2src", camera::ELEMENT)?;
            source.set_property("device", device);
            let filter = make("capsfilter", camera::FILTER)?;
            filter.set_property("caps", camera::requested_caps(*format, *size, *fps));
            pipeline.add_many([&source, &filter]).map_err(build_error)?;
            gst::Element::link_many([&source, &filter, &decode()?]).map_err(build_error)?;
        }
        SourceUri::Launch(fragment) => {
            launch_bin = Some(launch::add(&pipeline, fragment, &decode()?, &diagnostics)?);
        }
        SourceUri::Csi {
            sensor,
            mode,
            size,
            fps,
        } => {
            let source = csi_camera(&hardware, *sensor, *mode)?;
            let filter = make("capsfilter", camera::FILTER)?;
            filter.set_property("caps", camera::csi_caps(*size, *fps));
            pipeline.add_many([&source, &filter]).map_err(build_error)?;
            source.link(&filter).map_err(build_error)?;
            let output = filter.static_pad("src");
            let output = output.ok_or_else(|| build_error("capsfilter has no source pad"))?;
            output.link(&scaler.input).map_err(build_error)?;
        }
        SourceUri::Images(_) => {
            return Err(SourceError::Unsupported {
                uri: uri.to_string(),
                reason: "images are decoded without GStreamer".to_owned(),
            });
        }
        SourceUri::Synthetic(_) => {
            return Err(SourceError::Unsupported {
                uri: "synthetic://".to_owned(),
                reason: "the synthetic scene has no GStreamer pipeline".to_owned(),
            });
        }
    }
    Ok(BuiltPipeline {
        pipeline,
        stall_monitor: scaler.stall_monitor,
        diagnostics,
        launch_bin,
        gate,
        http,
        encoder,
        packets,
        _relay: relay,
    })
}

/// The camera element of a CSI camera, which exists on a Jetson only.
fn csi_camera(
    hardware: &VideoHardware,
    sensor: u32,
    mode: Option<u32>,
) -> Result<gst::Element, SourceError> {
    camera::check_csi(hardware, sensor)?;
    let source = make("nvarguscamerasrc", camera::ELEMENT)?;
    source.set_property_from_str("sensor-id", &sensor.to_string());
    if let Some(mode) = mode {
        source.set_property_from_str("sensor-mode", &mode.to_string());
    }
    Ok(source)
}

/// Opens and closes the file or device of a source, so that the operating system's error reaches the user.
///
/// # Errors
/// It cannot be opened, or not in time; or it is not what a source of this kind reads.
pub(super) fn check_source(
    uri: &SourceUri,
    context: &SourceContext,
    late: &LateCalls,
) -> Result<(), SourceError> {
    let (path, is_file) = match uri {
        SourceUri::File(path) => (path.clone(), true),
        SourceUri::V4l2 { device, .. } => (device.clone(), false),
        _ => return Ok(()),
    };
    let checked = late.run(context, OPEN_TIMEOUT, move || {
        check_readable(&path, is_file)
    })?;
    checked.unwrap_or(Err(SourceError::NotOpened {
        waited: OPEN_TIMEOUT,
    }))
}

/// What GStreamer has no demuxer for, or decoders that need whole files at once: bytes and where they are (`None`: near the begin), the
/// kind, and how to convert it.
const UNPLAYED: [(Option<usize>, &[u8], &str, &str); 12] = [
    (Some(0), b"GIF8", "animated pictures (GIF)", TO_VIDEO),
    (None, b"acTL", "animated pictures (PNG)", TO_VIDEO),
    (Some(30), b"ANIM", "animated pictures (WebP)", TO_VIDEO),
    (Some(0), b"BM", "BMP pictures", TO_PNG),
    (Some(0), b"II*\0", "TIFF pictures", TO_PNG),
    (Some(0), b"MM\0*", "TIFF pictures", TO_PNG),
    (Some(4), b"ftypavif", "AVIF pictures", TO_PNG),
    (Some(4), b"ftyphei", "HEIF pictures", TO_PNG),
    (Some(4), b"ftypmif1", "HEIF pictures", TO_PNG),
    (Some(4), b"ftypavis", "animated pictures (AVIF)", TO_VIDEO),
    (Some(0), b"DHAV", "recordings of Dahua (DAV)", TO_MKV),
    (Some(0), b"DAHU", "recordings of Dahua (DAV)", TO_MKV),
];
const TO_PNG: &str = "PICTURE PICTURE.png";
const TO_VIDEO: &str = "PICTURE VIDEO.mp4";
const TO_MKV: &str = "RECORDING -c:v copy -an VIDEO.mkv";

/// Does not wait for the writer of a pipe.
fn check_readable(path: &Path, is_file: bool) -> Result<(), SourceError> {
    let fail = |cause| SourceError::File {
        path: path.to_owned(),
        cause,
        user: rustix::process::getuid().as_raw().to_string(),
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = opened.map(File::from).map_err(|error| fail(error.into()))?;
    let metadata = file.metadata().map_err(fail)?;
    if metadata.is_dir() {
        return Err(fail(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
    }
    if is_file && !metadata.is_file() {
        return Err(SourceError::NotAFile {
            path: path.to_owned(),
        });
    }
    if !metadata.is_file() {
        return Ok(());
    }
    if metadata.len() == 0 {
        return Err(SourceError::Empty);
    }
    let mut start = Vec::new();
    // Opening it again reports an error.
    let _ = file.take(512).read_to_end(&mut start);
    let unplayed = UNPLAYED.iter().find(|(at, magic, ..)| match at {
        Some(at) => (start.get(*at..)).is_some_and(|it| it.starts_with(magic)),
        None => start.windows(magic.len()).any(|it| it == *magic),
    });
    if let Some((.., kind, arguments)) = unplayed {
        return Err(SourceError::Unsupported {
            uri: path.display().to_string(),
            reason: format!(
                "GStreamer does not play {kind}; convert it with: ffmpeg -i {arguments}"
            ),
        });
    }
    Ok(())
}

/// One video track of a server's description is set up, the first unless `track` names another, and the first of its sound where it is
/// kept: any other track would cost three threads and its bandwidth. Returns their numbers, as they become known: the `rtspsrc` of
/// GStreamer 1.16 sets the others up as well, as its own handler has the last word.
fn select_streams_of_rtsp(
    source: &gst::Element,
    track: Option<u32>,
    diagnostics: &Arc<SessionDiagnostics>,
    keeps_sound: bool,
) -> Arc<Mutex<Vec<u32>>> {
    let selected = Arc::default();
    let known: Arc<Mutex<Vec<u32>>> = Arc::clone(&selected);
    // The numbers of the streams that are video, in their order, and of the one that is sound.
    let listed = Mutex::new((Vec::new(), None));
    let wanted = track.unwrap_or(0) as usize;
    let diagnostics = Arc::clone(diagnostics);
    source.connect("select-stream", false, move |arguments| {
        let stream: u32 = arguments.get(1)?.get().ok()?;
        let caps: gst::Caps = arguments.get(2)?.get().ok()?;
        let media = caps
            .structure(0)
            .and_then(|media| media.get::<String>("media").ok());
        let (videos, sound) = &mut *listed.lock();
        let is_selected = match media.as_deref() {
            Some("video") => {
                // A description is read again where the server refuses UDP.
                if !videos.contains(&stream) {
                    videos.push(stream);
                    diagnostics.set_video_streams(videos.len());
                }
                videos.get(wanted) == Some(&stream)
            }
            Some("audio") if keeps_sound => match audio::rtp_depayloader(&caps)? {
                Ok(_) => *sound.get_or_insert(stream) == stream,
                Err(format) => {
                    audio::note_other(&diagnostics, &format);
                    false
                }
            },
            other => {
                diagnostics.add_other_stream(other.unwrap_or("unknown").to_owned());
                false
            }
        };
        if is_selected && !known.lock().contains(&stream) {
            known.lock().push(stream);
        }
        Some(is_selected.to_value())
    });
    selected
}

/// Links the video to the decoder, each payload type of it: `rtspsrc` has a pad for each, and a camera may change them within a session.
fn link_streams_of_rtsp(
    source: &gst::Element,
    decode: &gst::Element,
    pipeline: &gst::Pipeline,
    sound: Option<EncodedCapture>,
    selected: Arc<Mutex<Vec<u32>>>,
) -> Result<(), SourceError> {
    let joined = make("funnel", "types")?;
    pipeline.add(&joined).map_err(build_error)?;
    joined.link(decode).map_err(build_error)?;
    let joined = joined.downgrade();
    let pipeline = pipeline.downgrade();
    source.connect_pad_added(move |_, pad| {
        // Their names are `recv_rtp_src_NUMBER_SSRC_TYPE`.
        let name = pad.name();
        let number = name.rsplit('_').nth(2);
        let number = number.and_then(|number| number.parse().ok());
        if number.is_some_and(|number| !selected.lock().contains(&number)) {
            return;
        }
        let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
        if let (Some(capture), Some(Ok(depayloader)), Some(pipeline)) =
            (&sound, audio::rtp_depayloader(&caps), pipeline.upgrade())
        {
            audio::keep(&pipeline, pad, Some(depayloader), capture);
            return;
        }
        let media = caps.structure(0);
        let media = media.and_then(|media| media.get::<String>("media").ok());
        if media.as_deref() != Some("video") {
            return;
        }
        let input = joined.upgrade();
        let input = input.and_then(|joined| joined.request_pad_simple("sink_%u"));
        let linked = input.map(|input| pad.link(&input));
        if let Some(Err(error)) = linked {
            log::warn!("cannot link the RTSP stream to the decoder: {error}");
        }
    });
    Ok(())
}

pub(super) fn build_error(error: impl std::fmt::Display) -> SourceError {
    SourceError::Build(error.to_string())
}
