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
use jetwatch_track::Lifecycle;
use jetwatch_types::{SourceId, SourceState};

use super::command::Made;
use super::follow::{LEFT, News};
use super::intervals;
use super::lines::Line;
use super::scene::Scene;
use super::sieve::Sieve;
use super::threads::finished_by;
use super::{Pipeline, PipelineError, needs_gstreamer};

/// Longest that a source may take to leave; then it is left behind.
const LEAVING: Duration = Duration::from_secs(10);

/// A source of the chain.
pub(super) struct Member {
    pub(super) id: SourceId,
    pub(super) config: SourceConfig,
    /// Ends this source alone.
    stop: StopToken,
    pub(super) handle: SourceHandle,
    /// It said that it has ended.
    has_ended: Arc<AtomicBool>,
    /// How it came, where it is not in the file.
    pub(super) made: Option<Made>,
}

impl Member {
    /// Whether it has given up: its thread is over, and it never said that it has ended.
    pub(super) fn has_failed(&self) -> bool {
        self.handle.is_finished() && !self.has_ended.load(Ordering::Acquire)
    }
}

impl Pipeline {
    /// Starts one more source. Nothing waits for its first frame.
    pub(super) fn join_source(&mut self, source: &SourceConfig) -> Result<(), PipelineError> {
        let line = self.line(source)?;
        if needs_gstreamer(source) {
            source::gst::init(&self.config.log.gst_debug)?;
        }
        let thread = |cause| PipelineError::Thread {
            name: format!("source-{}", source.name),
            cause,
        };
        let used_up = || std::io::Error::other("65536 sources have run; restart the daemon");
        let interval = intervals::interval(&self.config, source);
        let id = self.lanes.add(self.course.replaces(source), interval);
        let id = id.ok_or_else(|| thread(used_up()))?;
        let counters: Arc<SourceCounters> = Arc::default();
        self.meter.join(&source.name, Arc::clone(&counters));
        // The follower ends after everybody else.
        let _ = self.news.send(News::Joined {
            id,
            line: Box::new(line),
            overlay: Box::new(
                Overlay::new(&self.inlet.labels)
                    .with_rules(&source.rules)
                    .with_roi(source.roi),
            ),
        });
        let stop = self.stop.child();
        let has_ended: Arc<AtomicBool> = Arc::default();
        let context = self.source_context(id, source, &stop, counters, &has_ended);
        match source::start(source, context) {
            Ok(handle) => self.sources.push(Member {
                id,
                config: source.clone(),
                stop,
                handle,
                has_ended,
                made: None,
            }),
            Err(cause) => {
                self.lanes.close(id);
                self.part_with(id, Instant::now() + LEAVING);
                return Err(thread(cause));
            }
        }
        Ok(())
    }

    /// Stops the sources with these names and waits until their last frames are through. Gives the names of those that did
    /// not end in time: nothing that they still give is taken.
    pub(super) fn let_go(&mut self, names: &[String]) -> Vec<String> {
        let (leaving, staying) = std::mem::take(&mut self.sources)
            .into_iter()
            .partition(|member: &Member| names.contains(&member.config.name));
        self.sources = staying;
        let leaving: Vec<Member> = leaving;
        for member in &leaving {
            member.stop.stop();
            // A reader that waits for room hears it there.
            self.lanes.close(member.id);
        }
        let until = Instant::now() + LEAVING;
        let mut late = Vec::new();
        for member in leaving {
            let name = member.config.name;
            let has_ended = finished_by(until, || {
                member.handle.is_finished() || self.stop.is_stopped()
            });
            if has_ended && member.handle.is_finished() {
                // Why it may have failed was said when it did.
                let _ = member.handle.join();
            } else if !self.stop.is_stopped() {
                log::warn!(source = name.as_str(); "does not end; left behind");
                late.push(name.clone());
            }
            self.part_with(member.id, until);
            log::info!(source = name.as_str(); "{LEFT}");
        }
        late
    }

    /// Waits until the follower has given up the place of a source whose lane is closed.
    fn part_with(&self, id: SourceId, until: Instant) {
        let (gone, heard): (_, Receiver<()>) = bounded(1);
        let _ = self.news.send(News::Left { id, gone });
        let patience = until.saturating_duration_since(Instant::now());
        if heard
            .recv_timeout(patience.max(Duration::from_millis(100)))
            .is_err()
        {
            // Its place is given up as soon as the workers are through with its frames.
            log::warn!(id = id.index(); "frames of a source that left are still being worked on");
        } else {
            self.lanes.retire(id);
        }
        self.meter.leave(id);
    }

    fn line(&self, source: &SourceConfig) -> Result<Line, PipelineError> {
        let update_interval = self.config.publish.update_interval;
        Ok(Line::new(
            &source.name,
            intervals::tracker(&self.config, source),
            Lifecycle::new(update_interval),
            Scene::new(source, &self.inlet.labels, update_interval),
            Sieve::new(source, &self.inlet.labels)?,
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
        let gate = self.gate.clone();
        let (picture, view) = self.course.wishes(self.shelf.is_some());
        let (lanes, running, ending, news, news_of_end) = (
            Arc::clone(&self.lanes),
            Arc::clone(&self.lanes),
            Arc::clone(&self.lanes),
            self.news.clone(),
            self.news.clone(),
        );
        let (left, whole) = (stop.clone(), self.stop.clone());
        let has_ended = Arc::clone(has_ended);
        SourceContext {
            id,
            name: source.name.clone(),
            input: self.inlet.size,
            placement: self.inlet.placement,
            picture,
            deliver: Arc::new(move |frame| gate.pass(frame, |frame| lanes.offer(frame))),
            skipping: intervals::of_source(
                &self.config,
                source,
                &self.lanes,
                self.carried_view,
                self.shelf.as_ref(),
            ),
            observe: Arc::new(move |id, state, reason| {
                match state {
                    SourceState::Online => running.set_running(id, true),
                    SourceState::Offline => {
                        running.set_running(id, false);
                        running.part(id);
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
                    true => Some(LEFT.to_owned()),
                    false => reason,
                };
                let _ = news.send(News::Source { id, state, reason });
            }),
            on_end: Arc::new(move |id| {
                ending.close(id);
                // The follower may have seen the last result before the lane was closed.
                let _ = news_of_end.send(News::Closed { id });
            }),
            stop: stop.clone(),
            recorder: self.inlet.recorder.clone(),
            dot: self.dot.clone(),
            counters,
            pulse: Arc::new(self.pulses.join(&format!("source-{}", source.name))),
            argus: Arc::clone(&self.argus),
            machine: Arc::clone(&self.machine),
            surfaces: self.surfaces.clone(),
            view,
            on_plan: Arc::new(|_| {}),
        }
    }
}
