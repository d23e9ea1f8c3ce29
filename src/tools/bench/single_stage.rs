// SPDX-License-Identifier: Apache-2.0
//! One stage of the pipeline at full speed, with input from memory.
//!
//! Called by `jetwatch bench --only`. Every range goes to a trace, as in a whole pipeline.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use jetwatch_config::{Config, SourceConfig, SourceUri};
use jetwatch_detect::{self as detect, DetectorFactory};
use jetwatch_pipeline::{
    PipelineError, SINK_CLOSE_TIMEOUT, embedded_broker, needs_gstreamer, preload_frames,
    start_sinks,
};
use jetwatch_publish::Publication;
use jetwatch_source::{self as source, Flow, FrameHandler, SourceContext};
use jetwatch_telemetry::{Heartbeats, Level, Recorder, Stage};
use jetwatch_track::{TrackEventGenerator, Tracker};
use jetwatch_traffic::synthetic_factory;
use jetwatch_types::{
    Classes, Detection, Frame, FrameMeta, Size, SourceId, Track, TrackEvent, TrackState,
};

use super::detector_only::{Detectors, Result, RunLimit};

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
) -> Result<u64> {
    if part == BenchStage::Scale || config.sources.iter().any(needs_gstreamer) {
        source::gst::init(&config.log.gst_debug)?;
    }
    // The detector is not measured, but for its own stage.
    let unmeasured = Recorder::default();
    let prepared = || detect::load(&config.detector, &unmeasured);
    let detected = || DetectedFrames::collect(Detectors::load(config, preload, &unmeasured)?);
    match part {
        BenchStage::Decode => bench_sources(&config.sources, &prepared()?, budget, recorder),
        BenchStage::Scale => {
            let prepared = prepared()?;
            let still = [static_source(&config.sources[0], &prepared)?];
            bench_sources(&still, &prepared, budget, recorder)
        }
        BenchStage::Detect => {
            let detectors = Detectors::load(config, preload, recorder)?;
            Ok(detectors.run(vec![budget], recorder)?.frames)
        }
        BenchStage::Track => Ok(detected()?.track(config, &budget, recorder)),
        BenchStage::Publish => detected()?.publish(config, &budget, recorder),
    }
}

/// The same source with one repeated image of its size, in the format of video decoders.
fn static_source(source: &SourceConfig, prepared: &DetectorFactory) -> Result<SourceConfig> {
    let first = preload_frames(source, prepared, 1, Some(&synthetic_factory()))?;
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
}

impl FrameHandler for FrameCounter {
    fn frame(&self, _frame: Frame) -> Flow {
        if self.limit.reserve(1, self.started) == 0 {
            return Flow::Stop;
        }
        if self.limit.left.load(Ordering::Acquire) > 0 {
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
) -> Result<u64> {
    let started = Instant::now();
    let stop = budget.stop.clone();
    let budget = Arc::new(budget);
    let mut handles = Vec::new();
    for (index, source) in (0_u16..).zip(sources) {
        let handler = FrameCounter {
            limit: Arc::clone(&budget),
            started,
        };
        let context = SourceContext {
            id: SourceId(index),
            recorder: recorder.clone(),
            synthetic: Some(synthetic_factory()),
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
    let ended = handles.into_iter().map(source::SourceHandle::join);
    let ended: Vec<_> = ended.collect();
    ended.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(budget.taken())
}

/// The detections on the preloaded frames.
struct DetectedFrames {
    frames: Vec<(FrameMeta, Vec<Detection>)>,
    /// Labels of one group are one class for the tracker, as in the pipeline.
    classes: Arc<Classes>,
}

impl DetectedFrames {
    fn collect(detectors: Detectors<'_>) -> Result<Self> {
        let mut detector = detectors.prepared.create(0)?;
        let mut frames = Vec::with_capacity(detectors.frames.len());
        let mut results = Vec::new();
        for frame in detectors.frames.iter() {
            let one: &[Frame] = std::slice::from_ref(frame);
            detector.detect(one, &mut results)?;
            frames.push((frame.meta, results.pop().unwrap_or_default()));
        }
        Ok(Self {
            frames,
            classes: Arc::clone(detectors.prepared.classes()),
        })
    }

    /// The frames forwards and backwards without end, with new numbers and times.
    fn repeat_forever(&self) -> impl Iterator<Item = (FrameMeta, &[Detection])> {
        let last = self.frames.len() - 1;
        let back = (1..last).rev();
        let places: Vec<usize> = (0..=last).chain(back).collect();
        let began = SystemTime::now();
        let numbered = (0_u64..).zip(places.into_iter().cycle());
        numbered.map(move |(seq, place)| {
            let (meta, detections) = &self.frames[place];
            let time = Duration::from_millis(33) * u32::try_from(seq).unwrap_or(0);
            let meta = FrameMeta {
                seq,
                captured_at: began + time,
                received_at: Instant::now(),
                ..*meta
            };
            (meta, detections.as_slice())
        })
    }

    /// A tracker, and what makes events of its tracks.
    fn tracker(&self, config: &Config) -> (Tracker, TrackEventGenerator) {
        let tracker = Tracker::new(&config.tracker).with_classes(Arc::clone(&self.classes));
        let lifecycle = TrackEventGenerator::new(config.publish.update_interval);
        (tracker, lifecycle)
    }

    fn track(&self, config: &Config, budget: &RunLimit, recorder: &Recorder) -> u64 {
        let (mut tracker, mut lifecycle) = self.tracker(config);
        let (mut events, started) = (Vec::new(), Instant::now());
        for (meta, detections) in self.repeat_forever() {
            if budget.reserve(1, started) == 0 {
                break;
            }
            let _whole = recorder.batch(Level::Track, 1);
            let _range = recorder.range_with_payload(Stage::Track, 1, meta.seq);
            events.clear();
            lifecycle.step(&meta, tracker.update(detections), &mut events);
        }
        budget.taken()
    }

    fn publish(&self, config: &Config, budget: &RunLimit, recorder: &Recorder) -> Result<u64> {
        // Kept until the sinks are closed.
        let broker = embedded_broker(config)?;
        let heartbeats = Heartbeats::default();
        let mut sinks = start_sinks(config, &self.classes, broker.as_ref(), &heartbeats)?;
        let output = self.track_output(config);
        let source = &config.sources[0].name;
        let started = Instant::now();
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
        }
        for sink in sinks {
            sink.close(SINK_CLOSE_TIMEOUT);
        }
        if let Some(broker) = broker {
            broker.stop();
        }
        Ok(budget.taken())
    }

    /// Track events and visible tracks of the frames, forwards and backwards once.
    fn track_output(&self, config: &Config) -> Vec<(FrameMeta, Vec<TrackEvent>, Vec<Track>)> {
        let (mut tracker, mut lifecycle) = self.tracker(config);
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
