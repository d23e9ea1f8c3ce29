// SPDX-License-Identifier: Apache-2.0
//! One stage of the pipeline at full speed, with input from memory.
//!
//! Called by `jetwatch bench --only`. Every range goes to a trace, as in a whole pipeline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jetwatch_config::{Config, SourceConfig, SourceUri};
use jetwatch_detect::{self as detect, DetectorFactory};
use jetwatch_pipeline::{
    PipelineError, SINK_CLOSE_TIMEOUT, embedded_broker, join, needs_gstreamer, preload_frames,
    spawn, start_sinks,
};
use jetwatch_publish::Publication;
use jetwatch_source::{self as source, Flow, FrameHandler, SourceContext, SyntheticFactory};
use jetwatch_telemetry::{Heartbeats, Level, Recorder, Stage, StopToken};
use jetwatch_track::{TrackEventGenerator, Tracker};
use jetwatch_types::{
    Classes, Detection, Frame, FrameMeta, Size, SourceId, Track, TrackEvent, TrackState,
};

/// Interval at which sources are checked for their end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Stages that can be measured without the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchStage {
    /// The sources, up to the scaled image.
    Decode,
    /// Scaling of one image of the first source's size, repeated from memory.
    Scale,
    /// Input tensor, inference and decoding of the output.
    Detect,
    /// Tracker and track events.
    Track,
    /// Messages, up to the queues of the sinks.
    Publish,
}

/// Limits of a run; it ends with the first one that is reached.
pub(crate) struct RunLimit {
    frames: AtomicU64,
    until: Option<Duration>,
    stop: StopToken,
}

impl RunLimit {
    /// At most `frames` frames, for at most `duration`, until `stop`.
    pub(crate) fn new(frames: Option<u64>, duration: Option<Duration>, stop: StopToken) -> Self {
        Self {
            frames: AtomicU64::new(frames.unwrap_or(u64::MAX)),
            until: duration,
            stop,
        }
    }

    /// Takes up to `max` frames of the limit; zero: it is reached.
    fn reserve(&self, max: usize, started: Instant) -> usize {
        if self.is_over(started) {
            return 0;
        }
        let most = max as u64;
        let before = self
            .frames
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                Some(left.saturating_sub(most))
            });
        before.unwrap_or_default().min(most) as usize
    }

    fn is_over(&self, started: Instant) -> bool {
        self.stop.is_stopped() || self.until.is_some_and(|until| started.elapsed() >= until)
    }
}

/// Runs the stage `part` of the pipeline that `config` describes, until `budget` is reached. `preload` frames of the first source
/// are used in turn, forwards and backwards, so that objects do not jump. `recorder` gets the times of the stage. Returns the number
/// of frames processed.
///
/// # Errors
/// The detector, a source or a sink cannot be started, or fails.
pub(crate) fn bench_stage(
    config: &Config,
    part: BenchStage,
    preload: usize,
    budget: RunLimit,
    recorder: &Recorder,
    synthetic: Option<&SyntheticFactory>,
) -> Result<u64, PipelineError> {
    if part == BenchStage::Scale || config.sources.iter().any(needs_gstreamer) {
        source::gst::init(&config.log.gst_debug)?;
    }
    let of_detector = match part {
        BenchStage::Detect => recorder.clone(),
        // The detector is not measured.
        _ => Recorder::default(),
    };
    let prepared = Arc::new(detect::load(&config.detector, &of_detector)?);
    match part {
        BenchStage::Decode => {
            bench_sources(&config.sources, &prepared, budget, recorder, synthetic)
        }
        BenchStage::Scale => {
            let still = [static_source(&config.sources[0], &prepared, synthetic)?];
            bench_sources(&still, &prepared, budget, recorder, synthetic)
        }
        BenchStage::Detect => {
            bench_workers(config, &prepared, preload, budget, recorder, synthetic)
        }
        BenchStage::Track => Ok(
            DetectedFrames::collect(config, &prepared, preload, synthetic)?
                .track(config, &budget, recorder),
        ),
        BenchStage::Publish => {
            let detected = DetectedFrames::collect(config, &prepared, preload, synthetic)?;
            detected.publish(config, prepared.classes(), &budget, recorder)
        }
    }
}

/// The same source with one repeated image of its size, in the format of video decoders.
fn static_source(
    source: &SourceConfig,
    prepared: &DetectorFactory,
    synthetic: Option<&SyntheticFactory>,
) -> Result<SourceConfig, PipelineError> {
    let first = preload_frames(source, prepared, 1, synthetic)?;
    let Size { width, height } = first[0].meta.source_size;
    let elements = format!(
        "videotestsrc num-buffers=1 ! video/x-raw,format=NV12,width={width},height={height},framerate=30/1 ! imagefreeze"
    );
    Ok(SourceConfig {
        uri: SourceUri::Launch(elements),
        ..source.clone()
    })
}

/// Counts the frames of all sources until the limit is reached, and drops them.
struct FrameCounter {
    limit: Arc<RunLimit>,
    started: Instant,
    done: Arc<AtomicU64>,
}

impl FrameHandler for FrameCounter {
    fn frame(&self, _frame: Frame) -> Flow {
        if self.limit.reserve(1, self.started) == 0 {
            return Flow::Stop;
        }
        self.done.fetch_add(1, Ordering::AcqRel);
        if self.limit.frames.load(Ordering::Acquire) > 0 {
            return Flow::Continue;
        }
        self.limit.stop.stop();
        Flow::Stop
    }
}

fn bench_sources(
    sources: &[SourceConfig],
    prepared: &DetectorFactory,
    budget: RunLimit,
    recorder: &Recorder,
    synthetic: Option<&SyntheticFactory>,
) -> Result<u64, PipelineError> {
    let started = Instant::now();
    let stop = budget.stop.clone();
    let budget = Arc::new(budget);
    let done = Arc::new(AtomicU64::new(0));
    let mut handles = Vec::new();
    for (index, source) in (0_u16..).zip(sources) {
        let handler = FrameCounter {
            limit: Arc::clone(&budget),
            started,
            done: Arc::clone(&done),
        };
        let context = SourceContext {
            id: SourceId(index),
            recorder: recorder.clone(),
            synthetic: synthetic.cloned(),
            ..SourceContext::standalone(
                &source.name,
                prepared.input_size(),
                prepared.placement(),
                &stop,
                Arc::new(handler),
            )
        };
        let handle = source::start(source, context).map_err(|cause| PipelineError::Thread {
            name: format!("source-{}", source.name),
            cause,
        })?;
        handles.push(handle);
    }
    while !handles.iter().all(source::SourceHandle::is_finished) {
        if budget.is_over(started) {
            stop.stop();
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let ended: Vec<_> = handles
        .into_iter()
        .map(source::SourceHandle::join)
        .collect();
    ended.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(done.load(Ordering::Acquire))
}

fn bench_workers(
    config: &Config,
    prepared: &Arc<DetectorFactory>,
    preload: usize,
    budget: RunLimit,
    recorder: &Recorder,
    synthetic: Option<&SyntheticFactory>,
) -> Result<u64, PipelineError> {
    let preloaded = Arc::new(preload_frames(
        &config.sources[0],
        prepared,
        preload,
        synthetic,
    )?);
    let size = config.detector.batch_size.min(preloaded.len());
    let (budget, done) = (Arc::new(budget), Arc::new(AtomicU64::new(0)));
    // No worker begins before every detector is loaded.
    let ready = Arc::new(std::sync::Barrier::new(config.detector.workers));
    let mut threads = Vec::new();
    for index in 0..config.detector.workers {
        let (prepared, preloaded, recorder) = (
            Arc::clone(prepared),
            Arc::clone(&preloaded),
            recorder.clone(),
        );
        let (budget, done, ready) = (Arc::clone(&budget), Arc::clone(&done), Arc::clone(&ready));
        threads.push(spawn(&format!("detect-{index}"), move || {
            let made = prepared.create(index);
            ready.wait();
            let mut detector = made?;
            let started = Instant::now();
            let mut results = Vec::new();
            let mut at = index * size % preloaded.len();
            loop {
                let count = budget.reserve(size, started);
                if count == 0 {
                    return Ok(());
                }
                at = if at + count > preloaded.len() { 0 } else { at };
                let whole = recorder.batch(Level::Detect, count);
                detector.detect(&preloaded[at..at + count], &mut results)?;
                drop(whole);
                done.fetch_add(count as u64, Ordering::AcqRel);
                at += count;
            }
        })?);
    }
    let ended: Vec<Result<(), detect::DetectError>> = threads.into_iter().map(join).collect();
    ended.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(done.load(Ordering::Acquire))
}

/// The detections on the preloaded frames.
struct DetectedFrames {
    frames: Vec<(FrameMeta, Vec<Detection>)>,
    /// Labels of one group are one class for the tracker, as in the pipeline.
    classes: Arc<Classes>,
}

impl DetectedFrames {
    fn collect(
        config: &Config,
        prepared: &DetectorFactory,
        preload: usize,
        synthetic: Option<&SyntheticFactory>,
    ) -> Result<Self, PipelineError> {
        let preloaded = preload_frames(&config.sources[0], prepared, preload, synthetic)?;
        let mut detector = prepared.create(0)?;
        let mut frames = Vec::with_capacity(preloaded.len());
        let mut results = Vec::new();
        for frame in &preloaded {
            let one: &[Frame] = std::slice::from_ref(frame);
            detector.detect(one, &mut results)?;
            frames.push((frame.meta, results.pop().unwrap_or_default()));
        }
        Ok(Self {
            frames,
            classes: Arc::clone(prepared.classes()),
        })
    }

    /// The frames forwards and backwards without end, with new numbers and times.
    fn repeat_forever(&self) -> impl Iterator<Item = (FrameMeta, &[Detection])> {
        let last = self.frames.len() - 1;
        let back = (1..last).rev();
        let places: Vec<usize> = (0..=last).chain(back).collect();
        let began = SystemTime::now();
        (0_u64..)
            .zip(places.into_iter().cycle())
            .map(move |(seq, place)| {
                let (meta, detections) = &self.frames[place];
                let meta = FrameMeta {
                    seq,
                    captured_at: began
                        + Duration::from_millis(33) * u32::try_from(seq).unwrap_or(0),
                    received_at: Instant::now(),
                    ..*meta
                };
                (meta, detections.as_slice())
            })
    }

    fn track(&self, config: &Config, budget: &RunLimit, recorder: &Recorder) -> u64 {
        let mut tracker = Tracker::new(&config.tracker).with_classes(Arc::clone(&self.classes));
        let mut lifecycle = TrackEventGenerator::new(config.publish.update_interval);
        let (mut events, started, mut done) = (Vec::new(), Instant::now(), 0);
        for (meta, detections) in self.repeat_forever() {
            if budget.reserve(1, started) == 0 {
                break;
            }
            let _whole = recorder.batch(Level::Track, 1);
            let _range = recorder.range_with_payload(Stage::Track, 1, meta.seq);
            events.clear();
            lifecycle.step(&meta, tracker.update(detections), &mut events);
            done += 1;
        }
        done
    }

    fn publish(
        &self,
        config: &Config,
        classes: &Classes,
        budget: &RunLimit,
        recorder: &Recorder,
    ) -> Result<u64, PipelineError> {
        // Kept until the sinks are closed.
        let broker = embedded_broker(config)?;
        let mut sinks = start_sinks(config, classes, broker.as_ref(), &Heartbeats::default())?;
        let output = self.track_output(config);
        let source = &config.sources[0].name;
        let (started, mut done) = (Instant::now(), 0);
        for (meta, events, tracks) in output.iter().cycle() {
            if budget.reserve(1, started) == 0 {
                break;
            }
            let frame = FrameMeta {
                captured_at: SystemTime::now(),
                received_at: Instant::now(),
                ..*meta
            };
            let _whole = recorder.batch(Level::Track, 1);
            let _range = recorder.range_with_payload(Stage::Publish, 1, frame.seq);
            for sink in &mut sinks {
                if !events.is_empty() {
                    sink.publish(&Publication::Events {
                        source,
                        frame: &frame,
                        events,
                        recording: None,
                        snapshots: &[],
                    });
                }
                if config.publish.detections {
                    sink.publish(&Publication::Frame {
                        source,
                        frame: &frame,
                        tracks,
                    });
                }
            }
            done += 1;
        }
        for sink in sinks {
            sink.close(SINK_CLOSE_TIMEOUT);
        }
        if let Some(broker) = broker {
            broker.stop();
        }
        Ok(done)
    }

    /// Track events and visible tracks of the frames, forwards and backwards once.
    fn track_output(&self, config: &Config) -> Vec<(FrameMeta, Vec<TrackEvent>, Vec<Track>)> {
        let mut tracker = Tracker::new(&config.tracker).with_classes(Arc::clone(&self.classes));
        let mut lifecycle = TrackEventGenerator::new(config.publish.update_interval);
        let once = (2 * self.frames.len()).saturating_sub(2).max(1);
        let to_output = |(meta, detections): (FrameMeta, &[Detection])| {
            let mut events = Vec::new();
            let tracks = tracker.update(detections);
            lifecycle.step(&meta, tracks, &mut events);
            let is_shown =
                |track: &&Track| matches!(track.state, TrackState::Active | TrackState::Lost);
            let visible = tracks.iter().filter(is_shown).cloned().collect();
            (meta, events, visible)
        };
        self.repeat_forever().take(once).map(to_output).collect()
    }
}
