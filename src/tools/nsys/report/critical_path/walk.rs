// SPDX-License-Identifier: Apache-2.0
//! The walk: backwards from the last result, each time to what released it.
//!
//! A step was released by the step before it on its own thread, or by another thread:
//!
//! - a batch that waited, by the frame that a source passed to its queue;
//! - a source that waited for room in a full queue, by the batch that took frames out of it, and so by what that detector did before;
//! - a detector that waited for room at the tracking stage, by what the tracking stage finished;
//! - the tracking stage, by the results of a detector, where they came after its own last work.
//!
//! What a source's thread does between its stages is `input`: the next image of a camera or file.

use foldhash::HashMap;
use jetwatch_telemetry::Stage;

use super::steps::{Step, StepIndex, Steps};
use super::{Segment, StageTimes};
use crate::report::stages::{Group, TRACK_STAGES};

/// Stages with which the work of a detector on a batch ends.
const WORK: [Stage; 2] = [Stage::Infer, Stage::Decode];

/// How many frames back the one is looked for that ended the wait of a batch.
const MAX_SEARCH: usize = 64;

/// Most time between two steps of a thread that had more to do, in ns, and as a part of the timeline.
const MAX_AT_ONCE_NS: i64 = 20_000;
const AT_ONCE_PARTS: i64 = 10_000;

/// Steps of some stages, by one of their times.
struct Index(Vec<(i64, StepIndex)>);

impl Index {
    fn new(times: impl Iterator<Item = (i64, StepIndex)>) -> Self {
        let mut times: Vec<(i64, StepIndex)> = times.collect();
        times.sort_unstable();
        Self(times)
    }

    /// Those at or before a time, the latest first.
    fn until(&self, time: i64) -> impl Iterator<Item = (i64, StepIndex)> + '_ {
        let end = self.0.partition_point(|(at, _)| *at <= time);
        self.0[..end].iter().rev().copied()
    }

    /// The latest at or before a time.
    fn last(&self, time: i64) -> Option<(i64, StepIndex)> {
        self.until(time).next()
    }
}

pub(super) struct Walk<'a> {
    steps: &'a Steps<'a>,
    times: &'a mut HashMap<Stage, StageTimes>,
    /// Frames passed to the queues, by their begin.
    enqueued: Index,
    /// Without those, as earlier versions recorded: images received, by their end.
    received: Index,
    /// Batches, by their begin.
    batches: Index,
    /// Work of detectors, by its end.
    worked: Index,
    /// Work of the tracking stage, by its end.
    tracked: Index,
    /// Time between two steps of a thread that had more to do, in ns.
    at_once_ns: i64,
    /// Whether live sources bring more frames than are taken.
    drops: bool,
    /// What was walked so far.
    segments: Vec<Segment>,
}

/// Whether a thread worked or waited in a part of the path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    Work,
    Wait,
}

/// What released a step: its place, the time until which its own thread's time counts, and whether the time between is waiting.
struct Released {
    place: StepIndex,
    at: i64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(steps: &'a Steps<'a>, times: &'a mut HashMap<Stage, StageTimes>) -> Self {
        let places = |wanted| steps.places(wanted);
        let starts = |wanted| places(wanted).map(|(step, place)| (step.start, place));
        let ends = |wanted| places(wanted).map(|(step, place)| (step.end, place));
        let enqueued = Index::new(starts(&[Stage::Enqueue]));
        let batches = Index::new(starts(&[Stage::Batch]));
        let is_needed = enqueued.0.is_empty() || batches.0.is_empty();
        let received: &'static [Stage] = if is_needed { &[Stage::Source] } else { &[] };
        Self {
            received: Index::new(ends(received)),
            enqueued,
            batches,
            worked: Index::new(ends(&WORK)),
            tracked: Index::new(ends(&TRACK_STAGES)),
            at_once_ns: steps.span().map_or(0, |(from, until)| {
                ((until - from) / AT_ONCE_PARTS).min(MAX_AT_ONCE_NS)
            }),
            drops: drops(steps),
            segments: Vec::new(),
            steps,
            times,
        }
    }

    /// Adds the path that ends with the last step of the given stages; returns its parts, the latest first.
    pub(super) fn walk_back_from_last(mut self, stages: &'static [Stage]) -> Vec<Segment> {
        let ends = self.steps.places(stages);
        let ends = ends.map(|(step, place)| (step.end, place));
        let Some((mut cursor, mut place)) = ends.max() else {
            return self.segments;
        };
        // Each step is met a few times at most; more means that the times contradict each other.
        let most = 4 * self.steps.threads.iter().map(Vec::len).sum::<usize>() + 16;
        for _ in 0..most {
            let step = self.steps.at(place);
            let released = match self.by_other_thread(&step, cursor) {
                // A camera goes on whether its frames are taken or dropped: only the wait for it counts.
                Some(released) if step.stage == Stage::Batch && self.drops => {
                    let waited = (released.at, cursor);
                    self.add(step.stage, place, waited, Activity::Work);
                    self.add_source(released, step.start);
                    self.before(&step, place)
                }
                Some(released) => {
                    // The time from the release on is a wait, but that of a batch, which waits for more frames until its timeout.
                    let activity = match step.stage {
                        Stage::Batch => Activity::Work,
                        _ => Activity::Wait,
                    };
                    self.add(step.stage, place, (released.at, cursor), activity);
                    Some(released)
                }
                None => {
                    self.add(step.stage, place, (step.start, cursor), Activity::Work);
                    self.before(&step, place)
                }
            };
            let Some(Released { place: next, at }) = released else {
                break;
            };
            (cursor, place) = (at, next);
        }
        self.segments
    }

    /// Adds what a source's thread did from `from` until it passed a frame on.
    fn add_source(&mut self, passed: Released, from: i64) {
        let Released { mut place, at } = passed;
        let mut cursor = at;
        loop {
            let step = self.steps.at(place);
            let worked = (step.start.max(from), cursor);
            self.add(step.stage, place, worked, Activity::Work);
            let Some(before) = self.step_before(place, step.start) else {
                return;
            };
            let outside = (before.at.max(from), step.start);
            self.add(Stage::Input, place, outside, Activity::Work);
            if before.at <= from {
                return;
            }
            (place, cursor) = (before.place, before.at);
        }
    }

    /// Adds a time of the thread of `place`, from its begin to its end, to a stage.
    fn add(
        &mut self,
        stage: Stage,
        (thread, _): StepIndex,
        (start, end): (i64, i64),
        activity: Activity,
    ) {
        let Some(times) = self.times.get_mut(&stage).filter(|_| end > start) else {
            return;
        };
        match activity {
            Activity::Work => times.critical_ns += end - start,
            Activity::Wait => times.critical_wait_ns += end - start,
        }
        let thread = self.steps.thread_index(thread);
        match self.segments.last_mut() {
            Some(last) if last.thread == thread && last.start == end => last.start = start,
            _ => self.segments.push(Segment { thread, start, end }),
        }
    }

    /// The release of a step that was waiting until `cursor`; `None` where it was at work.
    fn by_other_thread(&self, step: &Step, cursor: i64) -> Option<Released> {
        match step.stage {
            Stage::Batch => self.frame_for(step, cursor),
            Stage::Enqueue => {
                let (begin, batch) = self.batches.last(cursor)?;
                let made_room = begin > step.start;
                made_room.then(|| self.step_before(batch, begin)).flatten()
            }
            Stage::SendResults => {
                let (at, place) = self.tracked.last(cursor)?;
                (at > step.start).then_some(Released { place, at })
            }
            _ => None,
        }
    }

    /// The frame that a batch waited for: the last that came before it ended.
    fn frame_for(&self, batch: &Step, cursor: i64) -> Option<Released> {
        // A frame that comes in the moment in which others are taken was not waited for.
        if cursor - batch.start <= self.at_once_ns {
            return None;
        }
        if self.enqueued.0.is_empty() {
            let (at, place) = self.received.last(cursor)?;
            return (at > batch.start).then_some(Released { place, at });
        }
        for (begin, place) in self.enqueued.until(cursor).take(MAX_SEARCH) {
            // In the time of the batch there was room. Before it, one may have waited for the room that the batch made.
            let at = match begin > batch.start {
                true => begin,
                false => self.steps.at(place).end,
            };
            if batch.start < at && at <= cursor {
                return Some(Released { place, at });
            }
        }
        None
    }

    /// What came before a step that was not waiting: the step before it on its thread, or what another thread passed to it later.
    fn before(&mut self, step: &Step, place: StepIndex) -> Option<Released> {
        let own = self.step_before(place, step.start);
        let passed = match step.stage {
            Stage::Track => self.worked.last(step.start),
            // Without batches on the timeline, frames come from the sources all the same.
            Stage::Tensor | Stage::Infer if own.is_none() => self.received.last(step.start),
            _ => None,
        };
        let passed = passed.map(|(at, place)| Released { place, at });
        // A thread that goes on at once was at work, whatever it was passed in that moment.
        let is_at_once = |own: &Released| step.start - own.at <= self.at_once_ns;
        let goes_on = own.as_ref().is_some_and(is_at_once);
        let passed = passed.filter(|_| !goes_on);
        let latest = own.into_iter().chain(passed).max_by_key(|it| it.at)?;
        let gap = (latest.at, step.start);
        match Group::of(step.stage) {
            Group::Source => self.add(Stage::Input, place, gap, Activity::Work),
            _ => self.add(step.stage, place, gap, Activity::Wait),
        }
        Some(latest)
    }

    /// The step before one on its thread; it ends at `until` at the latest.
    fn step_before(&self, (thread, at): StepIndex, until: i64) -> Option<Released> {
        let place = (thread, at.checked_sub(1)?);
        let at = self.steps.at(place).end.min(until);
        Some(Released { place, at })
    }
}

/// Whether noticeably fewer frames went through the network than were passed to the queues.
fn drops(steps: &Steps<'_>) -> bool {
    /// Frames in queues and networks at both ends of a timeline.
    const ON_THE_WAY: u64 = 16;
    const NOTICEABLE: f64 = 0.02;
    let enqueued = steps.places(&[Stage::Enqueue]).count() as u64;
    let inferred = steps.places(&[Stage::Infer]);
    let inferred = inferred.map(|(step, _)| u64::from(step.payload.max(1)));
    let inferred: u64 = inferred.sum();
    let dropped = enqueued.saturating_sub(inferred + ON_THE_WAY);
    dropped as f64 > enqueued as f64 * NOTICEABLE
}
