// SPDX-License-Identifier: Apache-2.0
//! Tracks to published data: [`TrackEvent`]s, and the number of objects of each class.
//!
//! Compares the tracks of each frame with their last published state and decides when an event is due. The publisher
//! encodes and sends them. The pipeline has one generator per source, after its tracker.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use jetwatch_types::{
    Attributes, EventKind, FrameClock, FrameMeta, Track, TrackEvent, TrackId, TrackState, Xyxy,
};

/// A box counts as moved when one of its edges is this share of the box's width or height away from its last published
/// position. The edges of a static object jitter by a few percent, which is not worth an event.
const MOVED_SHARE: f32 = 0.05;

/// Number of visible objects of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassCount {
    /// Index into the model's labels.
    pub class: u16,
    /// Active tracks of that class.
    pub count: usize,
}

/// Last published state of one source's tracks.
#[derive(Debug)]
pub struct TrackEventGenerator {
    update_interval: Duration,
    /// A track is published as lost once it has been lost for this long.
    lost_hold: Duration,
    clock: FrameClock,
    /// Published tracks, sorted by id so that the end of the source reports them in order.
    published: BTreeMap<TrackId, Published>,
    /// Times of the newest frames, newest last: as many as the oldest tentative track has lived.
    frames: VecDeque<FrameTime>,
    /// Every class observed so far, by index.
    counts: Vec<Count>,
    changes: Vec<ClassCount>,
}

/// When a frame was captured, on both clocks.
#[derive(Debug, Clone, Copy)]
struct FrameTime {
    captured_at: SystemTime,
    received_at: Instant,
}

/// One published track.
#[derive(Debug)]
struct Published {
    /// State in the newest event, and that event's capture time.
    last_published: Track,
    last_published_at: SystemTime,
    /// State in the newest frame.
    current: Track,
    first: FrameTime,
    last_matched: FrameTime,
    /// Since when it is lost, by the clock of the generator.
    lost_since: Option<Duration>,
}

/// Active tracks of one class, in the previous frame and in this one.
#[derive(Debug)]
struct Count {
    class: u16,
    before: usize,
    now: usize,
}

impl TrackEventGenerator {
    /// A generator without tracks. Updates of one track are at least `update_interval` of capture time apart.
    pub fn new(update_interval: Duration) -> Self {
        Self {
            update_interval,
            lost_hold: Duration::ZERO,
            clock: FrameClock::default(),
            published: BTreeMap::new(),
            frames: VecDeque::new(),
            counts: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Publishes a track as lost once it has been lost for `hold` by `clock`; one that is found before was never lost to
    /// subscribers.
    #[must_use]
    pub fn with_lost_hold(mut self, hold: Duration, clock: FrameClock) -> Self {
        (self.lost_hold, self.clock) = (hold, clock);
        self
    }

    /// Appends the events of one frame to `events`; `tracks` is everything that the tracker returned for it.
    ///
    /// - `New` in the frame in which a track becomes active.
    /// - `Update` when it has been lost for the hold time, and at once when it is found again after that. When the box has moved, the class has changed or the top score is
    ///   higher: as soon as the update interval has passed since the track's last event.
    /// - `End` once, in the frame in which it ends.
    ///
    /// Must be called for every frame of the source, in order: the start of a track is the capture time of the frame of its
    /// first detection, before it was confirmed.
    pub fn step(&mut self, meta: &FrameMeta, tracks: &[Track], events: &mut Vec<TrackEvent>) {
        let frame = FrameTime {
            captured_at: meta.captured_at,
            received_at: meta.received_at,
        };
        self.frames.push_back(frame);
        let now = self.clock.step(meta);
        for track in tracks {
            match (track.state, self.published.get_mut(&track.id)) {
                (TrackState::Tentative, _) => {}
                (TrackState::Active, None) => events.push(self.on_new(track, frame)),
                // Never published, so neither its loss nor its end is.
                (TrackState::Lost | TrackState::Ended, None) => {}
                (TrackState::Active | TrackState::Lost, Some(entry)) => {
                    if track.state == TrackState::Active {
                        entry.last_matched = frame;
                        entry.lost_since = None;
                    } else {
                        entry.lost_since.get_or_insert(now);
                    }
                    entry.update(track);
                    if !entry.may_be_found(now, self.lost_hold)
                        && entry.should_publish(frame.captured_at, self.update_interval)
                    {
                        events.push(entry.event(EventKind::Update, frame));
                    }
                }
                (TrackState::Ended, Some(published)) => {
                    published.update(track);
                    events.push(published.event(EventKind::End, frame));
                    self.published.remove(&track.id);
                }
            }
        }
        let tentative = tracks
            .iter()
            .filter(|track| track.state == TrackState::Tentative);
        let needed = tentative
            .map(|track| track.age_frames as usize)
            .max()
            .unwrap_or(0);
        while self.frames.len() > needed.max(1) {
            self.frames.pop_front();
        }
        self.count(
            tracks
                .iter()
                .filter(|track| track.state == TrackState::Active),
        );
    }

    /// Stores the attributes of a track for its later events, and appends an `Update` at once when they differ from the
    /// last published ones. No effect on an unpublished track.
    pub fn set_attributes(
        &mut self,
        id: TrackId,
        attributes: Attributes,
        events: &mut Vec<TrackEvent>,
    ) {
        let (Some(entry), Some(newest)) = (self.published.get_mut(&id), self.frames.back()) else {
            return;
        };
        entry.current.attributes = attributes;
        if !entry
            .current
            .attributes
            .same_labels(&entry.last_published.attributes)
        {
            events.push(entry.event(EventKind::Update, *newest));
        }
    }

    /// Appends an `End` for every published track, at the end of the source.
    ///
    /// Call the tracker's [`finish`](super::Tracker::finish) together with it. Both accept frames afterwards.
    pub fn finish(&mut self, events: &mut Vec<TrackEvent>) {
        if let Some(newest) = self.frames.back().copied() {
            for (_, mut entry) in std::mem::take(&mut self.published) {
                entry.current.state = TrackState::Ended;
                events.push(entry.event(EventKind::End, newest));
            }
        }
        self.frames.clear();
        self.count(std::iter::empty());
    }

    /// The classes whose number of active tracks was changed by the last [`step`](Self::step) or [`finish`](Self::finish),
    /// sorted by class. A new class is included with its first object; a class without objects is reported with 0.
    pub fn count_changes(&self) -> &[ClassCount] {
        &self.changes
    }

    /// Capture time of the first frame of a published track that has not ended.
    pub fn started_at(&self, track: TrackId) -> Option<SystemTime> {
        self.published
            .get(&track)
            .map(|entry| entry.first.captured_at)
    }

    /// From the first detection of the oldest track that may still be confirmed to the newest frame.
    #[must_use]
    pub fn unconfirmed_for(&self) -> Duration {
        let (oldest, newest) = (self.frames.front(), self.frames.back());
        let both = oldest.zip(newest);
        both.and_then(|(oldest, newest)| newest.captured_at.duration_since(oldest.captured_at).ok())
            .unwrap_or_default()
    }

    /// Number of confirmed tracks, including lost ones.
    pub fn confirmed(&self) -> usize {
        self.published.len()
    }

    /// Stores a track that has just been confirmed and returns its first event.
    fn on_new(&mut self, track: &Track, frame: FrameTime) -> TrackEvent {
        // A tentative track has no id, but its age gives the frame in which it started.
        let frames_ago = track.age_frames.saturating_sub(1) as usize;
        let first = self
            .frames
            .len()
            .saturating_sub(1)
            .saturating_sub(frames_ago);
        let first = self.frames.get(first).copied().unwrap_or(frame);
        let entry = Published {
            last_published: track.clone(),
            last_published_at: frame.captured_at,
            current: track.clone(),
            first,
            last_matched: frame,
            lost_since: None,
        };
        self.published.insert(track.id, entry);
        TrackEvent {
            kind: EventKind::New,
            before: None,
            after: track.clone(),
            started_at: first.captured_at,
            frame_at: frame.captured_at,
            ended_at: None,
            duration: frame.since(first),
            embedding: None,
        }
    }

    /// Counts active tracks and records the classes whose count has changed.
    fn count<'a>(&mut self, active: impl Iterator<Item = &'a Track>) {
        for count in &mut self.counts {
            count.before = std::mem::take(&mut count.now);
        }
        for track in active {
            match self
                .counts
                .binary_search_by_key(&track.class, |count| count.class)
            {
                Ok(index) => self.counts[index].now += 1,
                Err(index) => self.counts.insert(
                    index,
                    Count {
                        class: track.class,
                        before: 0,
                        now: 1,
                    },
                ),
            }
        }
        self.changes.clear();
        let changed = self.counts.iter().filter(|count| count.now != count.before);
        self.changes.extend(changed.map(|count| ClassCount {
            class: count.class,
            count: count.now,
        }));
    }
}

impl FrameTime {
    /// Time from an earlier frame to this one, by the monotonic clock.
    fn since(self, earlier: Self) -> Duration {
        self.received_at
            .saturating_duration_since(earlier.received_at)
    }
}

impl Published {
    /// Copies the tracker's values, which have no attributes.
    fn update(&mut self, track: &Track) {
        let attributes = std::mem::take(&mut self.current.attributes);
        self.current.clone_from(track);
        self.current.attributes = attributes;
    }

    /// Whether the track is lost for less than `hold` and not published as lost. Its box is only predicted meanwhile, so nothing
    /// else is worth an event, either.
    fn may_be_found(&self, now: Duration, hold: Duration) -> bool {
        self.last_published.state != TrackState::Lost
            && self
                .lost_since
                .is_some_and(|since| now.saturating_sub(since) < hold)
    }

    /// Whether the track differs enough from its last published state.
    fn should_publish(&self, at: SystemTime, update_interval: Duration) -> bool {
        if self.current.state != self.last_published.state {
            return true;
        }
        // A clock that was set back counts as time passed: one update too many, instead of none until it catches up.
        let is_due = at
            .duration_since(self.last_published_at)
            .map_or(true, |since| since >= update_interval);
        is_due
            && (self.current.class != self.last_published.class
                || self.current.top_score > self.last_published.top_score
                || has_moved(&self.last_published.xyxy, &self.current.xyxy))
    }

    /// The event with the current state of the track, which becomes the last published state.
    fn event(&mut self, kind: EventKind, frame: FrameTime) -> TrackEvent {
        self.last_published_at = frame.captured_at;
        let ended = (kind == EventKind::End).then_some(self.last_matched);
        let before = std::mem::replace(&mut self.last_published, self.current.clone());
        TrackEvent {
            kind,
            before: Some(before),
            after: self.current.clone(),
            started_at: self.first.captured_at,
            frame_at: frame.captured_at,
            ended_at: ended.map(|last| last.captured_at),
            duration: ended.unwrap_or(frame).since(self.first),
            embedding: None,
        }
    }
}

/// Whether an edge of the box has moved by more than [`MOVED_SHARE`] of the box's size.
fn has_moved(from: &Xyxy, to: &Xyxy) -> bool {
    let across = (from[2] - from[0]) * MOVED_SHARE;
    let down = (from[3] - from[1]) * MOVED_SHARE;
    let limits = [across, down, across, down];
    from.iter()
        .zip(to)
        .zip(limits)
        .any(|((from, to), limit)| (to - from).abs() > limit)
}

#[cfg(test)]
mod tests;
