// SPDX-License-Identifier: Apache-2.0
//! The running sources: added and removed while the others run.
//!
//! A source has a queue, a place in the tracking stage, statistics, and a thread. It is added in this order, and removed in
//! reverse order, after its last frame has left the pipeline. Its id is never used again in the same run, so that nothing that is
//! still in the pipeline can be taken for another source's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, bounded};

use jetwatch_config::{Config, EncodingConfig, Interval, RecordConfig, SourceConfig, SourceUri};
use jetwatch_detect::DetectorFactory;
use jetwatch_media::SourceStream;
use jetwatch_record::Overlay;
use jetwatch_schedule::ScheduleState;
use jetwatch_source::{
    self as source, ArgusSupervisor, Dot, FrameHandler, FullImage, ImageSize, NvmmReader,
    SourceContext, SourceCounters, SourceError, SourceHandle, SyntheticFactory,
};
use jetwatch_telemetry::{SourceCategory, StopToken};
use jetwatch_types::{Classes, SourceId};

use super::PipelineError;
use super::clips::ClipFactory;
use super::image_budgets::ImageBudgets;
use super::motion::{self, Following};
use super::shared::Shared;
use super::source_handler::SourceHandler;
use super::switches::Switches;
use super::threads::{Joiner, wait_until};
use super::track::{REMOVED_REASON, TrackInput, TrackedSource};
use super::web::Previews;

mod detection;
mod from_template;

use detection::is_scheduled;
pub(super) use from_template::FromTemplate;

/// Longest time that a source may take to end when it is removed; then it is abandoned.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to end the subscriptions to events of cameras at the end of the run.
const MOTION_END_TIMEOUT: Duration = Duration::from_secs(1);

/// A source of the pipeline.
pub(super) struct RunningSource {
    id: SourceId,
    pub(super) config: SourceConfig,
    /// Ends this source only.
    stop: StopToken,
    handle: SourceHandle,
    /// Follows the motion that its camera reports.
    motion: Option<Following>,
    /// It has ended without a failure.
    has_ended: Arc<AtomicBool>,
    /// When its frames go through the network; `None`: always.
    schedule: Option<ScheduleState>,
    /// The template of a source that a command added; `None`: it is in the configuration file.
    pub(super) from_template: Option<FromTemplate>,
}

impl RunningSource {
    /// Whether it has failed permanently: its thread has ended before the source did.
    pub(super) fn has_failed(&self) -> bool {
        self.handle.is_finished() && !self.has_ended.load(Ordering::Acquire)
    }

    /// Whether it waits because its server has refused the credentials.
    pub(super) fn is_refused(&self) -> bool {
        self.handle.is_refused()
    }
}

/// What all sources of a run have in common.
pub(super) struct SourceDefaults {
    pub(super) detector: Arc<DetectorFactory>,
    /// The full image of skipped frames.
    pub(super) skipped_full_image: FullImage,
    /// Limits the images kept for later stages; `None` where no stage needs them.
    pub(super) image_budgets: Option<ImageBudgets>,
    pub(super) previews: Option<Arc<Previews>>,
    /// Makes the clips of a source; `None` where none are recorded.
    pub(super) clips: Option<ClipFactory>,
    /// Limits of the encoder of sources without an encoded stream.
    pub(super) encoding: EncodingConfig,
    /// Set where nothing but snapshots needs full images: sources without them have none.
    pub(super) only_snapshots: Option<RecordConfig>,
    /// Opens `synthetic://` sources.
    pub(super) synthetic: Option<SyntheticFactory>,
    pub(super) dot: Dot,
    pub(super) nvmm_reader: Option<Arc<NvmmReader>>,
}

/// All sources of a run.
pub(super) struct Sources {
    running: Vec<RunningSource>,
    defaults: SourceDefaults,
    argus: Arc<ArgusSupervisor>,
    shared: Shared,
    switches: Switches,
}

impl Sources {
    /// No sources yet.
    pub(super) fn new(defaults: SourceDefaults, shared: &Shared, switches: Switches) -> Self {
        Self {
            running: Vec::new(),
            defaults,
            argus: Arc::new(ArgusSupervisor::with_restart_unit()),
            shared: shared.clone(),
            switches,
        }
    }

    /// The sources, in the order in which they were added.
    pub(super) fn running(&self) -> &[RunningSource] {
        &self.running
    }

    /// The labels of the detector and their groups.
    pub(super) fn classes(&self) -> &Classes {
        self.defaults.detector.classes()
    }

    /// DOT graphs of the sources.
    pub(super) fn dot(&self) -> &Dot {
        &self.defaults.dot
    }

    /// Whether the threads of all sources have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.running
            .iter()
            .all(|source| source.handle.is_finished())
    }

    /// Starts the sources of `config`, the first ones of a run.
    pub(super) fn start(&mut self, config: &Config) -> Result<(), PipelineError> {
        for source in &config.sources {
            self.add(config, source)?;
        }
        // The tracking stage ends after all senders.
        let _ = self.shared.inputs.send(TrackInput::SourcesReady);
        self.shared.batcher.hold_open(false);
        Ok(())
    }

    /// Adds one source. Does not wait for its first frame.
    pub(super) fn add(
        &mut self,
        config: &Config,
        source: &SourceConfig,
    ) -> Result<(), PipelineError> {
        let clips = self.defaults.clips.as_ref();
        let clips = clips.map(|clips| clips.source(config, source, self.classes()));
        let (stream, clips) = clips.transpose()?.flatten().unzip();
        if let Some(previews) = &self.defaults.previews {
            previews.add_stream(&source.name, stream.as_ref());
        }
        let now = SystemTime::now();
        let schedule = source.schedule.clone();
        let schedule = schedule.map(|schedule| ScheduleState::new(schedule, now));
        let switches = self.switches_of(&source.name);
        let tracked_source = TrackedSource::new(
            config,
            source,
            self.defaults.detector.classes(),
            [self.score_threshold(), self.defaults.detector.nms_iou()],
            &switches,
            schedule.as_ref().map(ScheduleState::status),
            clips,
        )?;
        if needs_gstreamer(source) {
            source::gst::init(&config.log.gst_debug)?;
        }
        let thread = |cause| PipelineError::Thread {
            name: format!("source-{}", source.name),
            cause,
        };
        let used_up = || std::io::Error::other("65536 sources have run; restart the daemon");
        let id = self
            .shared
            .batcher
            .add(source.is_live(), config.detector.interval_of(source));
        let id = id.ok_or_else(|| thread(used_up()))?;
        let is_detecting = !switches.detection_off && is_scheduled(schedule.as_ref());
        self.shared.batcher.set_detecting(id, is_detecting);
        let counters: Arc<SourceCounters> = Arc::default();
        self.shared
            .stats
            .add_source(&source.name, Arc::clone(&counters));
        let _ = self.shared.inputs.send(TrackInput::SourceAdded {
            id,
            source: Box::new(tracked_source),
            overlay: Box::new(
                Overlay::new(self.classes().labels())
                    .with_rules(&source.rules)
                    .with_roi(source.roi),
            ),
        });
        let stop = self.shared.stop.child();
        let has_ended: Arc<AtomicBool> = Arc::default();
        let skips =
            can_skip(config, source) || can_be_switched(config) || source.schedule.is_some();
        let ends = (&stop, &has_ended);
        let context = self.source_context(id, source, skips, ends, counters, stream);
        let inputs = self.shared.inputs.clone();
        let changed = move |on| inputs.send(TrackInput::Motion { id, on }).is_ok();
        let motion = motion::start(source, stop.clone(), changed)?;
        match source::start(source, context) {
            Ok(handle) => self.running.push(RunningSource {
                id,
                config: source.clone(),
                stop,
                handle,
                motion,
                has_ended,
                schedule,
                from_template: None,
            }),
            Err(cause) => {
                stop.stop();
                if let Some(motion) = &motion {
                    motion.end();
                }
                self.shared.batcher.close(id);
                self.wait_until_drained(id, Instant::now() + REMOVE_TIMEOUT);
                return Err(thread(cause));
            }
        }
        Ok(())
    }

    /// Removes the sources with these names and waits until their last frames have left the pipeline. Returns the names of those
    /// that did not end in time: their frames are refused.
    pub(super) fn remove(&mut self, names: &[String]) -> Vec<String> {
        let (leaving, staying) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|source: &RunningSource| names.contains(&source.config.name));
        self.running = staying;
        let leaving: Vec<RunningSource> = leaving;
        for source in &leaving {
            source.stop.stop();
            if let Some(motion) = &source.motion {
                motion.end();
            }
            // A reader that waits for room returns.
            self.shared.batcher.close(source.id);
        }
        let pipeline_stop = &self.shared.stop;
        let until = Instant::now() + REMOVE_TIMEOUT;
        let motion_ends_by = Instant::now() + MOTION_END_TIMEOUT;
        let mut late = Vec::new();
        for source in leaving {
            let name = source.config.name;
            let has_ended = wait_until(until, || {
                source.handle.is_finished() || pipeline_stop.is_stopped()
            });
            // The place of its subscription is free before another one asks for it.
            if let Some(motion) = &source.motion {
                motion.wait(motion_ends_by);
            }
            if has_ended && source.handle.is_finished() {
                // A failure was logged when it happened.
                let _ = source.handle.join();
            } else if !pipeline_stop.is_stopped() {
                log::warn!(source = name.as_str(); "did not end in time and was abandoned");
                late.push(name.clone());
            }
            self.wait_until_drained(source.id, until);
            log::info!(source = name.as_str(); "{REMOVED_REASON}");
        }
        late
    }

    /// Removes the sources with the names `leaving`, then adds `joining`. Returns what went wrong.
    pub(super) fn replace<'a>(
        &mut self,
        config: &Config,
        leaving: &[String],
        joining: impl Iterator<Item = &'a SourceConfig>,
    ) -> Vec<String> {
        // Even if all of them are removed: others are added.
        self.shared.batcher.hold_open(true);
        let mut problems: Vec<String> = self
            .remove(leaving)
            .iter()
            .map(|name| format!("source {name} does not end; it was left behind"))
            .collect();
        for source in joining {
            if let Err(error) = self.add(config, source) {
                problems.push(format!("source {}: {error}", source.name));
            }
        }
        self.shared.batcher.hold_open(false);
        problems
    }

    /// Records that the source `name` was added from a template.
    pub(super) fn set_template(&mut self, name: &str, template: FromTemplate) {
        let mut sources = self.running.iter_mut();
        if let Some(source) = sources.find(|source| source.config.name == name) {
            source.from_template = Some(template);
        }
    }

    /// Forgets all templates: all sources count as sources of the configuration file.
    pub(super) fn clear_templates(&mut self) {
        for source in &mut self.running {
            source.from_template = None;
        }
    }

    /// Joins the threads of all sources after a stop. Returns the names of those that failed permanently, with their errors.
    pub(super) fn join(&mut self, joiner: &mut Joiner) -> Vec<(String, SourceError)> {
        // A reader that waits for room must return, but queued frames are still processed.
        if !self.have_ended() {
            self.shared.batcher.close_all();
        }
        let mut failed = Vec::new();
        let followed = || self.running.iter().filter_map(|it| it.motion.as_ref());
        followed().for_each(Following::end);
        let motion_ends_by = Instant::now() + MOTION_END_TIMEOUT;
        followed().for_each(|motion| motion.wait(motion_ends_by));
        for source in self.running.drain(..) {
            let RunningSource { config, handle, .. } = source;
            if let Some(Err(error)) = joiner.join(&format!("source-{}", config.name), handle) {
                failed.push((config.name, error));
            }
        }
        failed
    }

    /// Waits until the tracking stage has removed a source whose queue is closed.
    fn wait_until_drained(&self, id: SourceId, until: Instant) {
        let (done, drained): (_, Receiver<()>) = bounded(1);
        let _ = self
            .shared
            .inputs
            .send(TrackInput::SourceRemoved { id, done });
        let timeout = until.saturating_duration_since(Instant::now());
        if drained
            .recv_timeout(timeout.max(Duration::from_millis(100)))
            .is_err()
        {
            // The tracking stage removes it once the workers have completed its frames.
            log::warn!(id = id.index(); "frames of a removed source are still being processed");
        } else {
            self.shared.batcher.remove(id);
        }
        self.shared.stats.remove_source(id);
    }

    fn source_context(
        &self,
        id: SourceId,
        source: &SourceConfig,
        can_skip: bool,
        (stop, has_ended): (&StopToken, &Arc<AtomicBool>),
        counters: Arc<SourceCounters>,
        stream: Option<Arc<SourceStream>>,
    ) -> SourceContext {
        let wants_access_units = stream.is_some();
        let wants_audio = stream.as_ref().is_some_and(|stream| stream.wants_sound());
        let defaults = &self.defaults;
        let only_snapshots = defaults.only_snapshots.as_ref();
        let budgets = defaults.image_budgets.as_ref();
        let needs_each = budgets.is_some_and(ImageBudgets::needs_each)
            && only_snapshots.is_none_or(|record| record.has_snapshots(source));
        let full_image = match needs_each {
            true => FullImage::SourceSize,
            false if defaults.previews.is_some() => FullImage::OnDemand,
            false => FullImage::None,
        };
        let handler: Arc<dyn FrameHandler> = Arc::new(SourceHandler {
            shared: self.shared.clone(),
            image_budgets: defaults.image_budgets.clone(),
            previews: defaults.previews.clone(),
            is_live: source.uri.is_live(),
            stream,
            stop: stop.clone(),
            has_ended: Arc::clone(has_ended),
        });
        let heartbeat = self
            .shared
            .heartbeats
            .register(&format!("source-{}", source.name));
        SourceContext {
            id,
            name: source.name.clone(),
            input: defaults.detector.input_size(),
            placement: defaults.detector.placement(),
            image_size: ImageSize::Network,
            handler,
            skipped_image: can_skip.then_some(defaults.skipped_full_image),
            stop: stop.clone(),
            recorder: self
                .shared
                .recorder
                .clone()
                .with_source(SourceCategory::new(&source.name)),
            dot: defaults.dot.clone(),
            counters,
            heartbeat: Arc::new(heartbeat),
            argus: Arc::clone(&self.argus),
            machine: Arc::clone(&self.shared.machine),
            nvmm_reader: defaults.nvmm_reader.clone(),
            wants_access_units,
            wants_audio,
            encoding: defaults.encoding,
            full_image,
            synthetic: defaults.synthetic.clone(),
        }
    }
}

/// Whether `source` is read by GStreamer, which must be initialized first.
pub fn needs_gstreamer(source: &SourceConfig) -> bool {
    !matches!(source.uri, SourceUri::Synthetic(_))
}

/// Whether frames of this source may skip the network.
fn can_skip(config: &Config, source: &SourceConfig) -> bool {
    let interval = config.detector.interval_of(source);
    // Only the adaptive interval of a live source follows the load.
    interval.can_skip() && (source.is_live() || !matches!(interval, Interval::Adaptive))
}

/// Whether detection may be switched off while the daemon runs.
fn can_be_switched(config: &Config) -> bool {
    config.commands.enabled && config.publish.mqtt.is_some()
}
