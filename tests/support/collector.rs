// SPDX-License-Identifier: Apache-2.0
//! A standalone source that stores what it delivers for the test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jetwatch_config::{
    DecoderChoice, Playback, RtspTransport, Scaling, Secret, SourceConfig, SourceUri,
};
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_source::{
    self as source, Dot, Flow, FrameHandler, FullImage, ImageSize, ProcessingPlan, SourceContext,
    SourceCounters, SourceError, SourceHandle,
};
use jetwatch_telemetry::{Heartbeats, Recorder, StopToken};
use jetwatch_types::{Frame, FrameMeta, Image, Placement, Size, SourceId, SourceState};

/// Network input of all these tests.
pub const INPUT: Size = Size::new(416, 416);

/// A source's configuration with short waits.
pub fn config(uri: SourceUri) -> SourceConfig {
    SourceConfig {
        name: "cam".to_owned(),
        uri,
        ca_file: None,
        loop_at_end: false,
        playback_fps: Playback::Unlimited,
        decoder_threads: 1,
        decoder: DecoderChoice::Auto,
        scaling: Scaling::Auto,
        stall_timeout: Duration::from_secs(20),
        reconnect_wait: Duration::from_millis(50),
        reconnect_max_wait: Duration::from_millis(400),
        interval: None,
        schedule: None,
        onvif: None,
        record: Default::default(),
        rules: Default::default(),
        roi: None,
        max_fps: None,
        track: None,
        display_aspect: None,
        score_threshold: None,
        offline_hold: Duration::ZERO,
        classes: Vec::new(),
    }
}

/// A camera over RTSP, with its user and password where it has one.
pub fn rtsp(location: String, login: Option<(&str, &str)>) -> SourceUri {
    SourceUri::Rtsp {
        location,
        user: login.map(|(user, _)| user.to_owned()),
        password: login.map(|(_, password)| Secret::Inline(password.to_owned())),
        transport: RtspTransport::Tcp,
        latency: Duration::from_millis(100),
    }
}

/// A camera over HTTP, as [`rtsp`].
pub fn http(location: String, login: Option<(&str, &str)>) -> SourceUri {
    SourceUri::Http {
        location,
        user: login.map(|(user, _)| user.to_owned()),
        password: login.map(|(_, password)| Secret::Inline(password.to_owned())),
        poll: Duration::from_millis(200),
    }
}

/// A fragment of a GStreamer pipeline.
pub fn launch(elements: &str) -> SourceUri {
    SourceUri::Launch(elements.to_owned())
}

/// All frames of a source that ends well.
pub fn frames_of(config: &SourceConfig) -> Vec<CollectedFrame> {
    let (frames, result) = Collector::start(config, usize::MAX).join();
    result.unwrap_or_else(|error| panic!("{}: {error}", config.uri));
    frames
}

/// Why a source fails that is not tried again.
pub fn failure_of(config: &SourceConfig) -> SourceError {
    let (frames, result) = Collector::start(config, usize::MAX).join();
    assert_eq!(frames.len(), 0, "{}", config.uri);
    result
        .err()
        .unwrap_or_else(|| panic!("{} does not fail", config.uri))
}

/// Why a source is offline first.
pub fn first_reason(config: &SourceConfig) -> String {
    first_reason_on(&SysRoot::default(), config)
}

/// As [`first_reason`], on another machine.
pub fn first_reason_on(machine: &SysRoot, config: &SourceConfig) -> String {
    let collector = Collector::start_on(machine, config, usize::MAX);
    let what = format!("a reason of {}", config.uri);
    let reasons = || collector.offline_reasons().into_iter().next();
    let reason = super::daemon::wait_until_some(&what, reasons);
    // A later session may deliver some.
    assert_eq!(collector.count(), 0, "{what}: {reason}");
    let _ = collector.stop();
    reason
}

/// Properties of a frame, without its pixels.
#[derive(Debug, Clone)]
pub struct CollectedFrame {
    pub meta: FrameMeta,
    pub image: Size,
    /// Mean of the blue, green and red values.
    pub mean: f32,
    /// Means of the blue, green and red values.
    pub color: [f32; 3],
    /// Size and mean of the full image, if there is one.
    pub full_image: Option<(Size, f32)>,
}

/// Means of an image's blue, green and red values, of every fourth row.
fn color(image: &Image) -> [f32; 3] {
    let size = image.size;
    let mut sums = [0_u64; 3];
    for pixel in (0..size.height)
        .step_by(4)
        .flat_map(|y| image.row(y).chunks_exact(4))
    {
        for (sum, value) in sums.iter_mut().zip(pixel) {
            *sum += u64::from(*value);
        }
    }
    sums.map(|sum| sum as f32 / (size.width * size.height.div_ceil(4)) as f32)
}

/// Mean of an image's blue, green and red values.
fn mean(image: &Image) -> f32 {
    color(image).iter().sum::<f32>() / 3.0
}

/// A state and the reason given for it.
pub type StateChange = (SourceState, Option<String>);

/// Stores everything that a source delivers, and stops it after `max_frames` frames.
struct CollectingHandler {
    frames: Arc<Mutex<Vec<CollectedFrame>>>,
    states: Arc<Mutex<Vec<StateChange>>>,
    plans: Arc<Mutex<Vec<ProcessingPlan>>>,
    max_frames: usize,
    stop: StopToken,
}

impl FrameHandler for CollectingHandler {
    fn frame(&self, frame: Frame) -> Flow {
        let mut frames = self.frames.lock().unwrap();
        frames.push(CollectedFrame {
            meta: frame.meta,
            image: frame.image.size,
            mean: mean(&frame.image),
            color: color(&frame.image),
            full_image: frame
                .full_image
                .as_ref()
                .map(|image| (image.size, mean(image))),
        });
        if frames.len() < self.max_frames {
            return Flow::Continue;
        }
        self.stop.stop();
        Flow::Stop
    }

    fn state_changed(&self, _source: SourceId, state: SourceState, reason: Option<String>) {
        self.states.lock().unwrap().push((state, reason));
    }

    fn plan(&self, plan: &ProcessingPlan) {
        self.plans.lock().unwrap().push(plan.clone());
    }
}

/// A running source and its results.
pub struct Collector {
    pub frames: Arc<Mutex<Vec<CollectedFrame>>>,
    pub states: Arc<Mutex<Vec<StateChange>>>,
    pub counters: Arc<SourceCounters>,
    pub stop: StopToken,
    pub dot_requests: Arc<AtomicU64>,
    pub plans: Arc<Mutex<Vec<ProcessingPlan>>>,
    pub recorder: Recorder,
    /// Those of the source's thread.
    pub heartbeats: Heartbeats,
    handle: SourceHandle,
}

impl Collector {
    /// Starts the source and stops it after `max_frames` frames.
    pub fn start(config: &SourceConfig, max_frames: usize) -> Self {
        Self::start_with_dot(config, max_frames, None)
    }

    /// As [`start`](Self::start), on another machine.
    pub fn start_on(machine: &SysRoot, config: &SourceConfig, most: usize) -> Self {
        Self::start_with(machine, config, most, None, FullImage::None)
    }

    /// As [`start_on`](Self::start_on), with full images.
    pub fn start_with_full_images(machine: &SysRoot, config: &SourceConfig, most: usize) -> Self {
        Self::start_with(machine, config, most, None, FullImage::SourceSize)
    }

    /// As [`start`](Self::start), with a folder for DOT graphs.
    pub fn start_with_dot(
        config: &SourceConfig,
        most: usize,
        dot_folder: Option<std::path::PathBuf>,
    ) -> Self {
        Self::start_with(
            &SysRoot::default(),
            config,
            most,
            dot_folder,
            FullImage::None,
        )
    }

    fn start_with(
        machine: &SysRoot,
        config: &SourceConfig,
        most: usize,
        dot_folder: Option<std::path::PathBuf>,
        view: FullImage,
    ) -> Self {
        let plans: Arc<Mutex<Vec<ProcessingPlan>>> = Arc::default();
        let frames: Arc<Mutex<Vec<CollectedFrame>>> = Arc::default();
        let states: Arc<Mutex<Vec<_>>> = Arc::default();
        let (stop, counters, dot_requests) = (
            StopToken::default(),
            Arc::<SourceCounters>::default(),
            Arc::new(AtomicU64::new(0)),
        );
        let (recorder, heartbeats) = (Recorder::default(), Heartbeats::default());
        let handler = CollectingHandler {
            frames: Arc::clone(&frames),
            states: Arc::clone(&states),
            plans: Arc::clone(&plans),
            max_frames: most,
            stop: stop.clone(),
        };
        let context = SourceContext {
            id: SourceId(0),
            name: config.name.clone(),
            input: INPUT,
            placement: Placement::TopLeft,
            image_size: ImageSize::Network,
            handler: Arc::new(handler),
            skipped_image: None,
            stop: stop.clone(),
            recorder: recorder.clone(),
            dot: Dot {
                folder: dot_folder,
                requests: Arc::clone(&dot_requests),
            },
            counters: Arc::clone(&counters),
            heartbeat: Arc::new(heartbeats.register(&config.name)),
            argus: Arc::new(jetwatch_source::ArgusSupervisor::disabled()),
            nvmm_reader: None,
            wants_access_units: false,
            wants_audio: false,
            encoding: Default::default(),
            full_image: view,
            synthetic: Some(jetwatch_traffic::synthetic_factory()),
            machine: Arc::new(Machine::find(machine)),
        };
        let handle = source::start(config, context).expect("a thread can be started");
        Self {
            frames,
            states,
            counters,
            stop,
            dot_requests,
            plans,
            recorder,
            heartbeats,
            handle,
        }
    }

    /// Frames so far.
    pub fn count(&self) -> usize {
        self.frames.lock().unwrap().len()
    }

    /// Whether the source has been in this state.
    pub fn has_reached(&self, state: SourceState) -> bool {
        self.states
            .lock()
            .unwrap()
            .iter()
            .any(|(seen, _)| *seen == state)
    }

    /// Reasons given for being offline.
    pub fn offline_reasons(&self) -> Vec<String> {
        self.states
            .lock()
            .unwrap()
            .iter()
            .filter(|(state, _)| *state == SourceState::Offline)
            .filter_map(|(_, reason)| reason.clone())
            .collect()
    }

    /// Asks for a DOT graph.
    pub fn ask_for_dot(&self) {
        self.dot_requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the source has given `count` frames.
    pub fn wait_for_frames(&self, count: usize, what: &str) {
        super::daemon::wait_until_some(what, || (self.count() >= count).then_some(()));
    }

    /// The frames of a source that ends well, and its last plan.
    pub fn frames_and_plan(self) -> (Vec<CollectedFrame>, ProcessingPlan) {
        let plans = Arc::clone(&self.plans);
        let (frames, result) = self.join();
        result.unwrap_or_else(|error| panic!("{error}"));
        let plan = plans.lock().unwrap().last().cloned();
        (frames, plan.expect("a plan"))
    }

    /// Waits for the end, within the timeout of the tests.
    pub fn join(self) -> (Vec<CollectedFrame>, Result<(), SourceError>) {
        super::daemon::wait_until_some("the source ends", || {
            self.handle.is_finished().then_some(())
        });
        let result = self.handle.join();
        (
            Arc::try_unwrap(self.frames).map_or_else(
                |shared| shared.lock().unwrap().clone(),
                |own| own.into_inner().unwrap(),
            ),
            result,
        )
    }

    /// Stops it and waits for its end.
    pub fn stop(self) -> (Vec<CollectedFrame>, Result<(), SourceError>) {
        self.stop.stop();
        self.join()
    }
}
