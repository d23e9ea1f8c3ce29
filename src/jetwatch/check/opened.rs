// SPDX-License-Identifier: Apache-2.0
//! Opens one source for `jetwatch check`, until its first frame, the plan of its pipeline, and its encoded stream where that is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_source::{self as source, Flow, FrameHandler, ProcessingPlan, SourceContext};
use jetwatch_telemetry::StopToken;
use jetwatch_types::{AudioFormat, Frame, Placement, Size, SourceId, SourceState, StreamFormat};

use super::CheckContext;

/// What is missing for clips and continuous recording.
const NO_STREAM: &str = "record keeps its video, but it brings no H.264 or H.265";

/// Longest wait for the encoded stream after the first frame.
const STREAM_TIMEOUT: Duration = Duration::from_secs(5);

/// Result of one source: image size, time to the first frame, and the units used.
pub(super) struct Opened {
    pub(super) size: Size,
    pub(super) waited: Duration,
    pub(super) plan: Option<ProcessingPlan>,
    /// Its encoded video can be kept.
    pub(super) has_stream: bool,
    /// Its sound that can be kept; `None` where none has come, or none is kept.
    pub(super) sound: Option<AudioFormat>,
}

/// What is opened besides the frames of a source.
#[derive(Clone, Copy)]
struct Wanted {
    /// Its encoded video.
    stream: bool,
    sound: bool,
}

/// Messages of a source that is being opened.
enum SourceMessage {
    Frame(Size),
    Plan(ProcessingPlan),
    Stream,
    Sound(AudioFormat),
    Error(String),
}

/// Why a source whose video is to be kept has no encoded stream.
pub(super) fn no_stream(source: &SourceConfig) -> String {
    let reason = match (&source.uri, source::gst::h264_encoder()) {
        (SourceUri::Images(_), _) => "still images are not encoded".to_owned(),
        (_, Err(reason)) => reason,
        (_, Ok(encoder)) => {
            format!(
                "{encoder} encoded none within {} s",
                STREAM_TIMEOUT.as_secs()
            )
        }
    };
    format!("{NO_STREAM}, and {reason}; or set record: {{clips: false, continuous: false}} for it")
}

/// What is said of the sound of a source that is to be kept: whether it is, and the text.
pub(super) fn sound(found: Option<&AudioFormat>) -> Result<String, String> {
    let format = found.ok_or_else(|| {
        format!(
            "record.audio is on, but the source brought no AAC within {} s, and no other sound is kept: its video is kept without; set the \
             camera to AAC, or record: {{audio: false}} for it",
            STREAM_TIMEOUT.as_secs()
        )
    })?;
    Ok(format!(
        "AAC, {} Hz, {} channel(s), is kept with the video",
        format.sample_rate, format.channels
    ))
}

/// Sends the first frame, the plan and the failures of a source to the check.
struct FirstFrame {
    messages: Sender<SourceMessage>,
    is_sent: AtomicBool,
}

impl FrameHandler for FirstFrame {
    fn frame(&self, frame: Frame) -> Flow {
        // Only the first frame is reported, and the source continues: so an end before the stop is the source's own. The
        // sequence number does not identify the first frame: an image that could not be read in place had one too.
        if !self.is_sent.swap(true, Ordering::Relaxed) {
            let message = SourceMessage::Frame(frame.meta.source_size);
            let _ = self.messages.send(message);
        }
        Flow::Continue
    }

    fn state_changed(&self, _source: SourceId, state: SourceState, reason: Option<String>) {
        if state == SourceState::Offline {
            let reason = reason.unwrap_or_else(|| "offline".to_owned());
            let _ = self.messages.send(SourceMessage::Error(reason));
        }
    }

    fn stream_started(&self, _source: SourceId, _format: StreamFormat) {
        let _ = self.messages.send(SourceMessage::Stream);
    }

    fn audio_started(&self, _source: SourceId, format: AudioFormat) {
        let _ = self.messages.send(SourceMessage::Sound(format));
    }

    fn plan(&self, plan: &ProcessingPlan) {
        let _ = self.messages.send(SourceMessage::Plan(plan.clone()));
    }
}

/// Opens the source and waits for one frame and for the plan of its pipeline. The error is the reason why one is missing.
pub(super) fn open(
    source: &SourceConfig,
    input: Size,
    placement: Placement,
    host: &CheckContext,
) -> Result<Opened, String> {
    let (tx, rx) = unbounded();
    let stop = StopToken::default();
    let mut context = SourceContext::standalone(
        &source.name,
        input,
        placement,
        &stop,
        Arc::new(FirstFrame {
            messages: tx,
            is_sent: AtomicBool::new(false),
        }),
    );
    let wanted = Wanted {
        stream: host.keeps(source),
        sound: host.keeps_sound(source),
    };
    context.wants_access_units = wanted.stream;
    context.wants_audio = wanted.sound;
    context.machine = Arc::clone(&host.machine);
    context.nvmm_reader.clone_from(&host.surfaces);
    context.synthetic = Some(jetwatch_traffic::synthetic_factory());
    let started = Instant::now();
    let handle = source::start(source, context)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let result = wait_for_frame(&rx, source, wanted, started);
    stop.stop();
    // The source's own error is already in `result`.
    let _ = handle.join();
    // A plan that the configuration does not accept is reported after the first frame.
    let late = rx.try_iter().find_map(|message| match message {
        SourceMessage::Error(reason) => Some(reason),
        SourceMessage::Frame(_)
        | SourceMessage::Plan(_)
        | SourceMessage::Stream
        | SourceMessage::Sound(_) => None,
    });
    match late {
        Some(reason) if result.is_ok() => Err(reason),
        _ => result,
    }
}

fn wait_for_frame(
    rx: &Receiver<SourceMessage>,
    source: &SourceConfig,
    wanted: Wanted,
    started: Instant,
) -> Result<Opened, String> {
    let timeout = source.first_frame_timeout();
    let end = started + timeout + Duration::from_secs(1);
    // A synthetic source has no GStreamer pipeline and reports no plan.
    let has_plan = !matches!(source.uri, SourceUri::Synthetic(_));
    let (mut first_frame, mut plan) = (None, None);
    let (mut has_stream, mut sound, mut is_late) = (false, None, false);
    loop {
        let end = first_frame.map_or(end, |(_, waited)| started + waited + STREAM_TIMEOUT);
        match rx.recv_deadline(end) {
            Ok(SourceMessage::Frame(size)) => {
                first_frame = first_frame.or(Some((size, started.elapsed())))
            }
            Ok(SourceMessage::Plan(found)) => plan = Some(found),
            Ok(SourceMessage::Stream) => has_stream = true,
            Ok(SourceMessage::Sound(format)) => sound = Some(format),
            Ok(SourceMessage::Error(reason)) => return Err(reason),
            Err(_) if first_frame.is_some() => is_late = true,
            Err(RecvTimeoutError::Timeout) => {
                let waited = timeout.as_millis();
                return Err(format!("no frame within {waited} ms"));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err("the source ended without a frame".to_owned());
            }
        }
        if let Some((size, waited)) = first_frame
            && (is_late
                || ((plan.is_some() || !has_plan)
                    && (has_stream || !wanted.stream)
                    && (sound.is_some() || !wanted.sound)))
        {
            return Ok(Opened {
                size,
                waited,
                plan,
                has_stream,
                sound,
            });
        }
    }
}
