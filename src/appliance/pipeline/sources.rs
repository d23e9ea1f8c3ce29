//! Who is in the chain: sources that join and leave while the others run.
//!
//! A source has a lane, a place at the follower, numbers at the meter, and a thread. It joins in this order, and leaves in the
//! opposite one, after its last frame went through the chain. Its id is never given again in the same run, so that nothing
//! that is still on its way can be taken for another source's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use jetwatch_config::{Config, Interval, SourceConfig};
use jetwatch_record::{ImageBudget, Overlay};
use jetwatch_source::{
    self as source, Flow, FrameHandler, SourceContext, SourceCounters, SourceHandle, StopToken,
};
use jetwatch_track::{TrackEventGenerator, Tracker};
use jetwatch_types::{Frame, FrameMeta, Image, SourceId, SourceState};

use super::analytics::SourceAnalytics;
use super::batcher::Batcher;
use super::control::FromTemplate;
use super::execution_mode::InFlightLimit;
use super::filter::DetectionFilter;
use super::source_table::TrackedSource;
use super::start::wait_until;
use super::track::{REMOVED_REASON, TrackInput};
use super::{Pipeline, PipelineError, needs_gstreamer};

/// Longest that a source may take to leave; then it is left behind.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A source of the chain.
pub(super) struct RunningSource {
    pub(super) id: SourceId,
    pub(super) config: SourceConfig,
    /// Ends this source alone.
    stop: StopToken,
    pub(super) handle: SourceHandle,
    /// It said that it has ended.
    has_ended: Arc<AtomicBool>,
    /// How it came, where it is not in the file.
    pub(super) from_template: Option<FromTemplate>,
}

impl RunningSource {
    /// Whether it has given up: its thread is over, and it never said that it has ended.
    pub(super) fn has_failed(&self) -> bool {
        self.handle.is_finished() && !self.has_ended.load(Ordering::Acquire)
    }
}

impl Pipeline {
    /// Starts one more source. Nothing waits for its first frame.
    pub(super) fn add_source(&mut self, source: &SourceConfig) -> Result<(), PipelineError> {
        let tracked_source = self.tracked_source(source)?;
        if needs_gstreamer(source) {
            source::gst::init(&self.config.log.gst_debug)?;
        }
        let thread = |cause| PipelineError::Thread {
            name: format!("source-{}", source.name),
            cause,
        };
        let used_up = || std::io::Error::other("65536 sources have run; restart the daemon");
        let interval = interval(&self.config, source);
        let id = self
            .batcher
            .add(self.execution_mode.drops_frames(source), interval);
        let id = id.ok_or_else(|| thread(used_up()))?;
        let counters: Arc<SourceCounters> = Arc::default();
        self.stats.add_source(&source.name, Arc::clone(&counters));
        // The follower ends after everybody else.
        let _ = self.inputs.send(TrackInput::SourceAdded {
            id,
            source: Box::new(tracked_source),
            overlay: Box::new(
                Overlay::new(&self.source_defaults.labels)
                    .with_rules(&source.rules)
                    .with_roi(source.roi),
            ),
        });
        let stop = self.stop.child();
        let has_ended: Arc<AtomicBool> = Arc::default();
        let context = self.source_context(id, source, &stop, counters, &has_ended);
        match source::start(source, context) {
            Ok(handle) => self.sources.push(RunningSource {
                id,
                config: source.clone(),
                stop,
                handle,
                has_ended,
                from_template: None,
            }),
            Err(cause) => {
                self.batcher.close(id);
                self.wait_until_drained(id, Instant::now() + REMOVE_TIMEOUT);
                return Err(thread(cause));
            }
        }
        Ok(())
    }

    /// Stops the sources with these names and waits until their last frames are through. Gives the names of those that did
    /// not end in time: nothing that they still give is taken.
    pub(super) fn remove_sources(&mut self, names: &[String]) -> Vec<String> {
        let (leaving, staying) = std::mem::take(&mut self.sources)
            .into_iter()
            .partition(|member: &RunningSource| names.contains(&member.config.name));
        self.sources = staying;
        let leaving: Vec<RunningSource> = leaving;
        for member in &leaving {
            member.stop.stop();
            // A reader that waits for room hears it there.
            self.batcher.close(member.id);
        }
        let until = Instant::now() + REMOVE_TIMEOUT;
        let mut late = Vec::new();
        for member in leaving {
            let name = member.config.name;
            let has_ended = wait_until(until, || {
                member.handle.is_finished() || self.stop.is_stopped()
            });
            if has_ended && member.handle.is_finished() {
                // Why it may have failed was said when it did.
                let _ = member.handle.join();
            } else if !self.stop.is_stopped() {
                log::warn!(source = name.as_str(); "does not end; left behind");
                late.push(name.clone());
            }
            self.wait_until_drained(member.id, until);
            log::info!(source = name.as_str(); "{REMOVED_REASON}");
        }
        late
    }

    /// Waits until the follower has given up the place of a source whose lane is closed.
    fn wait_until_drained(&self, id: SourceId, until: Instant) {
        let (done, drained): (_, Receiver<()>) = bounded(1);
        let _ = self.inputs.send(TrackInput::SourceRemoved { id, done });
        let timeout = until.saturating_duration_since(Instant::now());
        if drained
            .recv_timeout(timeout.max(Duration::from_millis(100)))
            .is_err()
        {
            // Its place is given up as soon as the workers are through with its frames.
            log::warn!(id = id.index(); "frames of a source that left are still being worked on");
        } else {
            self.batcher.remove(id);
        }
        self.stats.remove_source(id);
    }

    fn tracked_source(&self, source: &SourceConfig) -> Result<TrackedSource, PipelineError> {
        let update_interval = self.config.publish.update_interval;
        Ok(TrackedSource::new(
            &source.name,
            tracker(&self.config, source),
            TrackEventGenerator::new(update_interval),
            SourceAnalytics::new(source, &self.source_defaults.labels, update_interval),
            DetectionFilter::new(source, &self.source_defaults.labels)?,
        ))
    }

    fn source_context(
        &self,
        id: SourceId,
        source: &SourceConfig,
        stop: &StopToken,
        counters: Arc<SourceCounters>,
        has_ended: &Arc<AtomicBool>,
    ) -> SourceContext {
        let (image_size, full_image) = self
            .execution_mode
            .image_requests(self.image_budget.is_some());
        let handler = SourceHandler {
            batcher: Arc::clone(&self.batcher),
            in_flight: self.in_flight.clone(),
            image_budget: self.image_budget.clone(),
            inputs: self.inputs.clone(),
            stop: stop.clone(),
            pipeline_stop: self.stop.clone(),
            has_ended: Arc::clone(has_ended),
        };
        SourceContext {
            id,
            name: source.name.clone(),
            input: self.source_defaults.size,
            placement: self.source_defaults.placement,
            image_size,
            handler: Arc::new(handler),
            skipped_image: can_skip(&self.config, source).then_some(self.skipped_full_image),
            stop: stop.clone(),
            recorder: self.source_defaults.recorder.clone(),
            dot: self.dot.clone(),
            counters,
            heartbeat: Arc::new(self.heartbeats.register(&format!("source-{}", source.name))),
            argus: Arc::clone(&self.argus),
            machine: Arc::clone(&self.machine),
            nvmm_reader: self.nvmm_reader.clone(),
            full_image,
            synthetic: self.source_defaults.synthetic.clone(),
        }
    }
}

/// Connects one source to the batcher and to the track stage.
struct SourceHandler {
    batcher: Arc<Batcher>,
    in_flight: InFlightLimit,
    /// Where the full images of skipped frames are kept for later steps.
    image_budget: Option<ImageBudget>,
    inputs: Sender<TrackInput>,
    /// Ends this source.
    stop: StopToken,
    /// Ends the whole pipeline.
    pipeline_stop: StopToken,
    has_ended: Arc<AtomicBool>,
}

impl FrameHandler for SourceHandler {
    fn frame(&self, frame: Frame) -> Flow {
        self.in_flight
            .acquire(frame, |frame| self.batcher.push(frame))
    }

    fn should_skip(&self, source: SourceId) -> bool {
        self.batcher.should_skip(source)
    }

    fn skipped(&self, meta: FrameMeta, full_image: Option<Image>) {
        let full_image = full_image.zip(self.image_budget.as_ref());
        let full_image = full_image.and_then(|(image, budget)| budget.try_acquire(image));
        self.batcher.push_skipped(meta, full_image);
    }

    fn state_changed(&self, id: SourceId, state: SourceState, reason: Option<String>) {
        match state {
            SourceState::Online => self.batcher.set_running(id, true),
            SourceState::Offline => {
                self.batcher.set_running(id, false);
                self.batcher.mark_discontinuity(id);
            }
            SourceState::Ended => {
                self.batcher.set_running(id, false);
                self.has_ended.store(true, Ordering::Release);
            }
            // A file is as good as running; a camera that was offline still is.
            SourceState::Connecting => {}
        }
        let is_removed = state == SourceState::Ended
            && self.stop.is_stopped()
            && !self.pipeline_stop.is_stopped();
        let reason = match is_removed {
            true => Some(REMOVED_REASON.to_owned()),
            false => reason,
        };
        let message = TrackInput::SourceState { id, state, reason };
        let _ = self.inputs.send(message);
    }

    fn ended(&self, id: SourceId) {
        self.batcher.close(id);
        // The track stage may have seen the last result before the queue was closed.
        let _ = self.inputs.send(TrackInput::QueueClosed { id });
    }
}

/// The batcher, which lets frames skip the network where a source asks for it and sends them to `messages`.
pub(super) fn with_intervals(
    batcher: Batcher,
    config: &Config,
    messages: Sender<TrackInput>,
) -> Batcher {
    let on_skipped = move |ticket, (meta, full_image)| {
        // A track stage that has ended wants nothing more.
        let _ = messages.send(TrackInput::Skipped {
            order: ticket,
            meta,
            full_image,
        });
    };
    let detector = &config.detector;
    batcher.with_intervals(
        &[],
        detector.max_interval,
        detector.workers,
        Box::new(on_skipped),
    )
}

/// The tracker of one source, which predicts where frames skip the network.
pub(super) fn tracker(config: &Config, source: &SourceConfig) -> Tracker {
    if interval(config, source).can_skip() {
        Tracker::with_coasting(&config.tracker)
    } else {
        Tracker::new(&config.tracker)
    }
}

/// Whether frames of this source may skip the network.
fn can_skip(config: &Config, source: &SourceConfig) -> bool {
    let interval = interval(config, source);
    // The interval of what is no camera does not follow the load.
    interval.can_skip() && (source.uri.is_live() || !matches!(interval, Interval::Adaptive))
}

/// Frames that may wait for one that goes through the network, of all sources together.
pub(super) fn max_skipped(config: &Config) -> usize {
    let of_source = |source| match interval(config, source) {
        Interval::Frames(frames) => frames,
        Interval::Adaptive => config.detector.max_interval,
    };
    config
        .sources
        .iter()
        .map(|source| of_source(source) as usize)
        .sum()
}

/// How often frames of one source skip the network.
pub(super) fn interval(config: &Config, source: &SourceConfig) -> Interval {
    source.interval.unwrap_or(config.detector.interval)
}
