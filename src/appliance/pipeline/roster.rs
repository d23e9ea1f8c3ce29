//! Who is in the chain: sources that join and leave while the others run.
//!
//! A source has a lane, a place at the follower, numbers at the meter, and a thread. It joins in this order, and leaves in the
//! opposite one, after its last frame went through the chain. Its id is never given again in the same run, so that nothing
//! that is still on its way can be taken for another source's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use jetwatch_config::SourceConfig;
use jetwatch_record::Overlay;
use jetwatch_source::{self as source, SourceContext, SourceCounters, SourceHandle, StopToken};
use jetwatch_track::TrackEventGenerator;
use jetwatch_types::{SourceId, SourceState};

use super::analytics::SourceAnalytics;
use super::command::FromTemplate;
use super::filter::DetectionFilter;
use super::intervals;
use super::source_table::TrackedSource;
use super::threads::wait_until;
use super::track::{REMOVED_REASON, TrackMessage};
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
        let interval = intervals::interval(&self.config, source);
        let id = self
            .batcher
            .add(self.execution_mode.drops_frames(source), interval);
        let id = id.ok_or_else(|| thread(used_up()))?;
        let counters: Arc<SourceCounters> = Arc::default();
        self.stats.add_source(&source.name, Arc::clone(&counters));
        // The follower ends after everybody else.
        let _ = self.messages.send(TrackMessage::SourceAdded {
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
        let _ = self.messages.send(TrackMessage::SourceRemoved { id, done });
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
            intervals::tracker(&self.config, source),
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
        let gate = self.in_flight.clone();
        let (image_size, full_image) = self
            .execution_mode
            .image_requests(self.image_budget.is_some());
        let (lanes, running, ending, messages, messages_of_end) = (
            Arc::clone(&self.batcher),
            Arc::clone(&self.batcher),
            Arc::clone(&self.batcher),
            self.messages.clone(),
            self.messages.clone(),
        );
        let (left, whole) = (stop.clone(), self.stop.clone());
        let has_ended = Arc::clone(has_ended);
        SourceContext {
            id,
            name: source.name.clone(),
            input: self.source_defaults.size,
            placement: self.source_defaults.placement,
            image_size,
            on_frame: Arc::new(move |frame| gate.acquire(frame, |frame| lanes.push(frame))),
            skip_policy: intervals::skip_policy(
                &self.config,
                source,
                &self.batcher,
                self.skipped_full_image,
                self.image_budget.as_ref(),
            ),
            on_state_changed: Arc::new(move |id, state, reason| {
                match state {
                    SourceState::Online => running.set_running(id, true),
                    SourceState::Offline => {
                        running.set_running(id, false);
                        running.mark_discontinuity(id);
                    }
                    SourceState::Ended => {
                        running.set_running(id, false);
                        has_ended.store(true, Ordering::Release);
                    }
                    // A file is as good as there; a camera that was away still is.
                    SourceState::Connecting => {}
                }
                let is_taken_out =
                    state == SourceState::Ended && left.is_stopped() && !whole.is_stopped();
                let reason = match is_taken_out {
                    true => Some(REMOVED_REASON.to_owned()),
                    false => reason,
                };
                let _ = messages.send(TrackMessage::SourceState { id, state, reason });
            }),
            on_ended: Arc::new(move |id| {
                ending.close(id);
                // The follower may have seen the last result before the lane was closed.
                let _ = messages_of_end.send(TrackMessage::QueueClosed { id });
            }),
            stop: stop.clone(),
            recorder: self.source_defaults.recorder.clone(),
            dot: self.dot.clone(),
            counters,
            heartbeat: Arc::new(self.heartbeats.register(&format!("source-{}", source.name))),
            argus: Arc::clone(&self.argus),
            machine: Arc::clone(&self.machine),
            nvmm_reader: self.nvmm_reader.clone(),
            full_image,
            on_plan: Arc::new(|_| {}),
        }
    }
}
