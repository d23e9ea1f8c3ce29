// SPDX-License-Identifier: Apache-2.0
//! One session with a GStreamer pipeline: starts it, watches its bus, and stops it on every exit path.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use crate::convert_plan::VideoFormat;
use crate::cut_file::{self, Cut};
use crate::{POLL_INTERVAL, SessionEnd, SourceContext, SourceError};
use jetwatch_config::{RtspTransport, SourceConfig, SourceUri};
use jetwatch_telemetry::FailureLog;
use jetwatch_types::SourceState;

use super::bounded::{LateCalls, OPEN_TIMEOUT, StateNullGuard};
use super::build::{BuiltPipeline, RTSP};
use super::camera;
use super::dot;
use super::flush_guard::FlushGuard;
use super::http::HTTP;
use super::messages::{
    MissingPlugin, RefusedFiles, asks_for_sha256, element_error, has_status, lacks_authentication,
    missing_plugin,
};
use super::push_tracer::WatchGuard;
use super::rtsp_relay::GetParameter;
use super::scaler::ENTRY;
use super::{introspect, tee, thread_names, timing, tls};

/// Time in which a failed pipeline must report its error.
const BUS_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest wait of a source that is stopped for `rtspsrc` to end its attempt to connect.
const STOP_CONNECTING_TIMEOUT: Duration = Duration::from_millis(300);

/// Time without a frame, while data comes, after which the source says so.
const KEYFRAME_NOTICE: Duration = Duration::from_secs(1);

/// What a source keeps from one session to the next.
#[derive(Default)]
pub(super) struct Kept {
    /// What the RTSP camera makes of GET_PARAMETER.
    pub(super) get_parameter: Arc<Mutex<GetParameter>>,
    /// Warnings of elements, and what is said of a session.
    log: FailureLog,
    /// The plan of the newest session, with its notes: it is logged once, and when it changes.
    plan: String,
    /// The video format that was logged last.
    pub(super) logged_format: Arc<Mutex<Option<VideoFormat>>>,
    /// It was looked whether the file is cut.
    is_whole_known: bool,
}

/// One session. `None`: the media is to be played once more, by a new pipeline.
pub(super) fn run(
    config: &SourceConfig,
    built: &BuiltPipeline,
    context: &SourceContext,
    late: &LateCalls,
    kept: &mut Kept,
    first_frame: &dyn Fn(),
) -> Result<Option<SessionEnd>, SourceError> {
    let bus = built
        .pipeline
        .bus()
        .ok_or_else(|| SourceError::Build("the pipeline has no bus".to_owned()))?;
    thread_names::attach(&bus, &context.name);
    let _down = StateNullGuard {
        pipeline: &built.pipeline,
        context,
        late,
    };
    let mut session = Session {
        config,
        context,
        built,
        late,
        kept,
        is_waiting_told: false,
        is_over: false,
        missing: None,
        is_sha256: false,
        refused_files: RefusedFiles::default(),
        dots_done: context.dot.requests.load(Ordering::Relaxed),
        watched: Vec::new(),
        is_connecting: false,
    };

    let result = session.watch(&bus, first_frame);
    session.wait_for_rtsp(
        &bus,
        match result {
            Ok(_) => STOP_CONNECTING_TIMEOUT,
            Err(_) => BUS_DRAIN_TIMEOUT,
        },
    );
    result
}

/// Starts the pipeline; the first elements of the scaler change state before the others. GStreamer starts elements without a
/// linked source pad first, and a decodebin is one of them until its media is known. It could push its first buffer to an
/// entry that is not started yet, and would then stop without an error.
fn start(uri: &SourceUri, pipeline: &gst::Pipeline) -> Result<(), gst::StateChangeError> {
    pipeline.set_state(gst::State::Ready)?;
    camera::choose_mode(uri, pipeline);
    for name in [ENTRY].iter().chain(tee::PROBE_POINTS) {
        if let Some(element) = pipeline.by_name(name) {
            element.set_state(gst::State::Paused)?;
        }
    }
    pipeline.set_state(gst::State::Playing).map(|_| ())
}

struct Session<'a> {
    config: &'a SourceConfig,
    context: &'a SourceContext,
    built: &'a BuiltPipeline,
    late: &'a LateCalls,
    kept: &'a mut Kept,
    /// It was said that a keyframe is awaited.
    is_waiting_told: bool,
    /// The end was reached, and the media cannot be played once more by this pipeline.
    is_over: bool,
    missing: Option<MissingPlugin>,
    /// A server over HTTP takes Digest with SHA-256 alone.
    is_sha256: bool,
    refused_files: RefusedFiles,
    dots_done: u64,
    /// Elements whose times are recorded.
    watched: Vec<WatchGuard>,
    /// Whether `rtspsrc` connects to its server now.
    is_connecting: bool,
}

fn is_mp4(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    ["mp4", "m4v", "mov"]
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known))
}

/// Adds a remedy to errors of local cameras, whose driver reports little, and of MP4 files.
fn with_hint(uri: &SourceUri, error: SourceError) -> SourceError {
    match error {
        SourceError::NoVideo { found, .. } if matches!(uri, SourceUri::File(path) if is_mp4(path)) => {
            SourceError::NoVideo {
                found,
                hint: "; GStreamer leaves out a video that is shorter than a fifth of an MP4 file: if this one has a video, convert it with: \
                       ffmpeg -i FILE -c copy NEW.mkv",
            }
        }
        SourceError::Element {
            element,
            message,
            hint,
        } => SourceError::Element {
            hint: camera::hint(uri, &element, &message).or(hint),
            element,
            message,
        },
        other => other,
    }
}

impl Session<'_> {
    /// Starts the pipeline and watches it until the session ends.
    fn watch(
        &mut self,
        bus: &gst::Bus,
        first_frame: &dyn Fn(),
    ) -> Result<Option<SessionEnd>, SourceError> {
        let pipeline = self.built.pipeline.clone();
        let uri = self.config.uri.clone();
        let started = self
            .late
            .run(self.context, OPEN_TIMEOUT, move || start(&uri, &pipeline))?;
        let Some(started) = started else {
            return Err(SourceError::NotOpened {
                waited: OPEN_TIMEOUT,
            });
        };
        let refused = started.is_err();
        let requested_at = Instant::now();
        let mut announced = false;
        loop {
            self.context.heartbeat.busy();
            if let Some(message) = bus.timed_pop(gst::ClockTime::from_mseconds(
                POLL_INTERVAL.as_millis() as u64,
            )) {
                if let Some(end) = self.handle(&message)? {
                    return Ok(Some(end));
                }
                if self.is_over {
                    return Ok(None);
                }
            } else if refused && requested_at.elapsed() > BUS_DRAIN_TIMEOUT {
                return Err(SourceError::Build(
                    "the pipeline did not start and reported no error; set GST_DEBUG=3 for details"
                        .to_owned(),
                ));
            }
            if !announced && self.built.stall_monitor.frames() > 0 {
                announced = true;
                self.confirm()?;
                first_frame();
            }
            if self.context.stop.is_stopped() {
                return Ok(Some(SessionEnd::Stopped));
            }
            let idle = self.built.stall_monitor.idle();
            let timeout = match announced {
                true => self.config.stall_timeout,
                false => self.config.first_frame_timeout(),
            };
            if idle >= timeout {
                self.dump("stall");
                if let Some(error) = self.launch_error() {
                    return Err(error);
                }
                let http = self.built.http.as_ref();
                let playlist = http.and_then(|http| http.playlist_error(idle));
                let refused = self.refused_files.error().or_else(|| self.text_error());
                if let Some(error) = refused.or(playlist) {
                    return Err(error);
                }
                if let Some(error) = self.silence(idle).filter(|_| !announced) {
                    return Err(error);
                }
                return Err(match announced || self.config.uri.is_live() {
                    true => SourceError::Stalled { waited: idle },
                    false => SourceError::NoStart { waited: idle },
                });
            }
            if let Some(http) = &self.built.http {
                http.poll(&self.built.stall_monitor);
            }
            if let Some(packets) = &self.built.packets {
                packets.end_silent();
            }
            if !announced {
                self.note_wait_for_keyframe();
            }
            self.dump_if_requested();
        }
    }

    /// The error of a server that sends nothing, where there is more to say than that.
    fn silence(&self, idle: Duration) -> Option<SourceError> {
        let (element, over, hint) = match &self.config.uri {
            SourceUri::Rtsp { .. } if self.built.diagnostics.video_streams() > 1 => (
                RTSP,
                "in this video stream",
                "the camera offers several; set track: 0, 1 and so on to choose one",
            ),
            SourceUri::Rtsp {
                transport: RtspTransport::Udp,
                ..
            } => (
                RTSP,
                "over UDP",
                "a firewall may keep it out; try transport: tcp",
            ),
            SourceUri::Rtsp {
                transport: RtspTransport::Multicast,
                ..
            } => (
                RTSP,
                "by multicast",
                "a router or a firewall may keep it out; try transport: tcp",
            ),
            // GStreamer 1.20 tries again for itself, without a word.
            SourceUri::Stream(location) if location.starts_with("srt:") => (
                "stream",
                "over SRT",
                "check passphrase= in the uri, the address, and that the other side sends",
            ),
            _ => return None,
        };
        Some(SourceError::Element {
            element: element.to_owned(),
            message: format!("no media came {over} for {} ms", idle.as_millis()),
            hint: Some(hint),
        })
    }

    /// Says that data comes, but no image that can be decoded.
    fn note_wait_for_keyframe(&mut self) {
        let gate = self.built.gate.as_ref();
        let is_waiting = gate.is_some_and(|gate| gate.is_waiting());
        if self.is_waiting_told
            || !is_waiting
            || self.built.stall_monitor.elapsed() < KEYFRAME_NOTICE
        {
            return;
        }
        self.is_waiting_told = true;
        let text = "receives data, waits for a keyframe";
        self.note(text, log::Level::Info);
        let (id, handler) = (self.context.id, &self.context.handler);
        handler.state_changed(id, SourceState::Connecting, Some(text.to_owned()));
    }

    /// Logs `text`, and less often where it repeats.
    fn note(&mut self, text: &str, level: log::Level) {
        let source = self.context.name.as_str();
        match self.kept.log.admit(text, Instant::now()) {
            Some(0) => log::log!(level, source; "{text}"),
            Some(repeats) => log::log!(level, source, repeats; "{text}"),
            None => {}
        }
    }

    /// Waits until `rtspsrc` has cleaned up after a connection that failed. It does so on its own thread after the error, and a
    /// pipeline that is stopped meanwhile reads connections that are being freed. An attempt that lasts longer than `limit` is
    /// interrupted by the stop; `rtspsrc` then gets more time than its 0.1 s to clean up.
    fn wait_for_rtsp(&mut self, bus: &gst::Bus, limit: Duration) {
        const PROGRESS: &[gst::MessageType] = &[gst::MessageType::Progress];
        let begun = Instant::now();
        while let Some(message) = bus.pop_filtered(PROGRESS) {
            self.note_progress(&message);
        }
        while self.is_connecting && begun.elapsed() < limit {
            self.context.heartbeat.busy();
            let wait = gst::ClockTime::from_mseconds(POLL_INTERVAL.as_millis() as u64);
            if let Some(message) = bus.timed_pop_filtered(wait, PROGRESS) {
                self.note_progress(&message);
            }
        }
        if self.is_connecting
            && let Some(source) = self.built.pipeline.by_name(RTSP)
        {
            let nanoseconds = BUS_DRAIN_TIMEOUT.as_nanos();
            source.set_property("teardown-timeout", nanoseconds as u64);
        }
    }

    /// Keeps whether `rtspsrc` connects to its server now.
    fn note_progress(&mut self, message: &gst::Message) {
        if let gst::MessageView::Progress(progress) = message.view()
            && let (kind, "open", _) = progress.get()
        {
            self.is_connecting =
                matches!(kind, gst::ProgressType::Start | gst::ProgressType::Continue);
        }
    }

    /// Reads the actual plan from the pipeline, and checks it against the configuration.
    fn confirm(&mut self) -> Result<(), SourceError> {
        let found = introspect::elements_upstream(self.built);
        let plan = introspect::plan(&found, self.built);
        let lines: Vec<String> = std::iter::once(plan.to_string())
            .chain(plan.notes.iter().map(ToString::to_string))
            .collect();
        let text = lines.join("\n");
        if text != std::mem::replace(&mut self.kept.plan, text.clone()) {
            for line in lines {
                log::info!(source = self.context.name.as_str(); "{line}");
            }
        }
        let context = &self.context;
        let is_launch = matches!(self.config.uri, SourceUri::Launch(_));
        let diagnostics = &self.built.diagnostics;
        self.watched = timing::attach(
            &found,
            &context.name,
            is_launch,
            diagnostics,
            &context.recorder,
        );
        self.context.handler.plan(&plan);
        match plan.rejected_by(self.config.decoder, self.config.scaling) {
            Some(reason) => Err(SourceError::Refused(reason)),
            None => Ok(()),
        }
    }

    /// `Some` when the session has ended.
    fn handle(&mut self, message: &gst::Message) -> Result<Option<SessionEnd>, SourceError> {
        match message.view() {
            gst::MessageView::Eos(_) => self.end_of_media(),
            gst::MessageView::Error(error) => {
                self.dump("error");
                if self.context.stop.is_stopped() {
                    return Ok(Some(SessionEnd::Stopped));
                }
                if let Some(reason) = self.built.diagnostics.take_rejection() {
                    return Err(SourceError::Refused(reason));
                }
                if self.built.diagnostics.is_zero_copy_disabled() {
                    return Err(SourceError::ZeroCopyFailed);
                }
                if let Some(error) = self.built.diagnostics.take_failure() {
                    return Err(error);
                }
                if let Some(error) = self.launch_error() {
                    return Err(error);
                }
                if self.is_sha256 && has_status(error) {
                    return Err(SourceError::AccessRefused {
                        element: HTTP.to_owned(),
                        message: "it takes Digest with SHA-256 only, which GStreamer does not know over HTTP: let the camera take MD5, too"
                            .to_owned(),
                    });
                }
                if let Some(error) = self.text_error() {
                    return Err(error);
                }
                if let Some(error) = self.http_error(error).or_else(|| self.rtsp_error()) {
                    return Err(error);
                }
                let uri = &self.config.uri;
                if let (SourceUri::File(path), 0) = (uri, self.built.stall_monitor.frames())
                    && let Some(cut) = self.find_cut(path)
                {
                    return Err(SourceError::Element {
                        element: path.display().to_string(),
                        message: cut.to_string(),
                        hint: Some("record it again, or repair it with a tool such as untrunc"),
                    });
                }
                let with_status = self.status_behind(error);
                let error = match with_status.as_ref().map(|message| message.view()) {
                    Some(gst::MessageView::Error(error)) => error,
                    _ => error,
                };
                Err(camera::format_error(uri, &self.built.pipeline, error)
                    .unwrap_or_else(|| with_hint(uri, element_error(error, self.missing.take()))))
            }
            gst::MessageView::Warning(warning) => {
                let element = warning.src().map(|src| src.name().to_string());
                let text = format!(
                    "{}: {}",
                    element.unwrap_or_default(),
                    warning.error().message()
                );
                self.note(&text, log::Level::Warn);
                Ok(None)
            }
            gst::MessageView::Progress(_) => {
                self.note_progress(message);
                Ok(None)
            }
            gst::MessageView::Element(_) => {
                if let Some(missing) = missing_plugin(message) {
                    self.missing = Some(missing);
                }
                self.is_sha256 |= asks_for_sha256(message);
                if message.src().is_some_and(|element| element.name() != HTTP) {
                    self.refused_files.note(message);
                }
                if self.refused_files.are_all()
                    && let Some(error) = self.refused_files.error()
                {
                    return Err(error);
                }
                Ok(None)
            }
            gst::MessageView::StateChanged(change) => {
                if message
                    .src()
                    .is_some_and(|object| object == self.built.pipeline.upcast_ref::<gst::Object>())
                {
                    self.dump(&format!("{:?}-{:?}", change.old(), change.current()).to_lowercase());
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The error of a server over HTTP that sends text in place of video.
    fn text_error(&self) -> Option<SourceError> {
        let http = self.built.http.as_ref()?;
        http.text_error()
            .filter(|_| self.built.stall_monitor.frames() == 0)
    }

    /// Why the server of an HTTP source cannot be spoken to, which GStreamer does not say.
    fn http_error(&self, error: &gst::message::Error) -> Option<SourceError> {
        let SourceUri::Http { location, .. } = &self.config.uri else {
            return None;
        };
        let is_answer = has_status(error) || error.error().matches(gst::StreamError::WrongType);
        if is_answer || error.src().is_none_or(|element| element.name() != HTTP) {
            return None;
        }
        let (location, ca_file) = (location.clone(), self.config.ca_file.clone());
        let asked = (self.late).run(self.context, OPEN_TIMEOUT, move || {
            tls::connection_error(&location, ca_file.as_deref())
        });
        asked.ok().flatten().flatten()
    }

    /// Why no stream of an RTSP camera was chosen, which `rtspsrc` takes for a transport that is missing, or a pad without a link.
    fn rtsp_error(&self) -> Option<SourceError> {
        let SourceUri::Rtsp { .. } = self.config.uri else {
            return None;
        };
        let diagnostics = &self.built.diagnostics;
        let (videos, others) = (diagnostics.video_streams(), diagnostics.other_streams());
        let wanted = self.config.track.unwrap_or(0);
        match videos {
            _ if videos > wanted as usize => None,
            // The camera has described nothing.
            0 if others.is_empty() => None,
            0 => Some(SourceError::NoVideo {
                found: others.join(", "),
                hint: "; set the address of the camera's video",
            }),
            _ => Some(SourceError::Refused(format!(
                "track is {wanted}, but the camera offers {videos} video streams, from 0 on"
            ))),
        }
    }

    /// The message with the status of an answer for which `rtspsrc` looks for credentials first, and reports that there are none: 401 as
    /// well as 404.
    fn status_behind(&self, error: &gst::message::Error) -> Option<gst::Message> {
        if !lacks_authentication(error) || has_status(error) {
            return None;
        }
        let bus = self.built.pipeline.bus()?;
        let wait = gst::ClockTime::from_mseconds(200);
        let next = bus.timed_pop_filtered(wait, &[gst::MessageType::Error])?;
        let is_told = matches!(next.view(), gst::MessageView::Error(error) if has_status(error));
        is_told.then_some(next)
    }

    /// What the file at `path` lacks; a share that does not answer is not waited for without a limit.
    fn find_cut(&self, path: &Path) -> Option<Cut> {
        let path = path.to_owned();
        let found = (self.late).run(self.context, OPEN_TIMEOUT, move || cut_file::find(&path));
        found.ok().flatten().flatten()
    }

    /// The error of a `launch:` fragment that does not end in video.
    fn launch_error(&self) -> Option<SourceError> {
        let has_frames = self.built.stall_monitor.frames() > 0;
        let launch = self.built.launch_bin.as_ref().filter(|_| !has_frames)?;
        launch.failure(true).map(SourceError::Refused)
    }

    fn end_of_media(&mut self) -> Result<Option<SessionEnd>, SourceError> {
        if self.built.stall_monitor.frames() == 0 {
            if let Some(missing) = self.missing.take() {
                return Err(missing.into_error());
            }
            if let Some(error) = self.launch_error() {
                return Err(error);
            }
            if matches!(self.config.uri, SourceUri::Csi { .. }) {
                let element = camera::ELEMENT.to_owned();
                return Err(SourceError::Element {
                    hint: camera::hint(&self.config.uri, &element, ""),
                    element,
                    message: "the camera driver ended the stream without an image".to_owned(),
                });
            }
            let others = self.built.diagnostics.other_streams();
            return Err(if others.is_empty() {
                SourceError::Empty
            } else {
                let found = others.join(", ");
                with_hint(&self.config.uri, SourceError::NoVideo { found, hint: "" })
            });
        }
        if self.context.stop.is_stopped() {
            return Ok(Some(SessionEnd::Stopped));
        }
        if let SourceUri::File(path) = &self.config.uri
            && !std::mem::replace(&mut self.kept.is_whole_known, true)
            && let Some(cut) = self.find_cut(path)
        {
            self.note(&cut.to_string(), log::Level::Warn);
        }
        if !self.config.loop_at_end {
            return Ok(Some(SessionEnd::EndOfMedia));
        }
        let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::KEY_UNIT;
        let _flush = FlushGuard::begin();
        // A stream without a container, such as Motion JPEG, is not seekable.
        self.is_over = (self.built.pipeline)
            .seek_simple(flags, gst::ClockTime::ZERO)
            .is_err();
        Ok(None)
    }

    fn dump(&self, why: &str) {
        dot::dump(
            self.context.dot.folder.as_deref(),
            &self.context.name,
            why,
            &self.built.pipeline,
        );
    }

    fn dump_if_requested(&mut self) {
        let requested = self.context.dot.requests.load(Ordering::Relaxed);
        if requested != self.dots_done {
            self.dots_done = requested;
            self.dump("asked");
        }
    }
}
