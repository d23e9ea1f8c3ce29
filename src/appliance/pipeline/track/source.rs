//! The follower's sides of all sources, by the sources' ids. Sources come and go, and no id is given twice: the place of one
//! that is gone stays empty.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crossbeam_channel::Sender;

use jetwatch_record::BudgetedImage;
use jetwatch_track::{TrackEventGenerator, Tracker};
use jetwatch_types::{Detection, FrameMeta, SourceId, SourceState, Track, TrackEvent};

use super::analytics::SourceAnalytics;
use super::filter::DetectionFilter;
use super::reorder::ReorderBuffer;

/// One place for each id that was ever given.
#[derive(Default)]
pub(crate) struct SourceTable(Vec<Option<Box<TrackedSource>>>);

impl SourceTable {
    /// Puts `source` into the place of `id`.
    pub(crate) fn insert(&mut self, id: SourceId, line: Box<TrackedSource>) {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()] = Some(line);
    }

    /// Empties the place of `id`.
    pub(crate) fn remove(&mut self, id: SourceId) {
        self.0[id.index()] = None;
    }

    /// Whether the source is there.
    pub(crate) fn contains(&self, id: SourceId) -> bool {
        self.0.get(id.index()).is_some_and(Option::is_some)
    }

    /// Who is there.
    pub(crate) fn ids(&self) -> Vec<SourceId> {
        let ids = (0..=u16::MAX).map(SourceId).take(self.0.len());
        ids.filter(|id| self.contains(*id)).collect()
    }
}

/// Panics for a source that is not there. Results come from those alone that are: the place is given up after the last one.
impl Index<usize> for SourceTable {
    type Output = TrackedSource;

    fn index(&self, index: usize) -> &TrackedSource {
        self.0[index]
            .as_ref()
            .expect("a source's place is kept until its last result")
    }
}

impl IndexMut<usize> for SourceTable {
    fn index_mut(&mut self, index: usize) -> &mut TrackedSource {
        self.0[index]
            .as_mut()
            .expect("a source's place is kept until its last result")
    }
}

/// What is known of one frame when its turn comes.
pub(crate) type PendingFrame = (FrameMeta, Option<Vec<Detection>>, Option<BudgetedImage>);

/// The follower's side of one source.
pub(crate) struct TrackedSource {
    pub(crate) name: String,
    pub(crate) reorder: ReorderBuffer<PendingFrame>,
    pub(crate) tracker: Tracker,
    pub(crate) lifecycle: TrackEventGenerator,
    /// Its rules at work, where it has any.
    pub(crate) analytics: Option<SourceAnalytics>,
    /// What is kept of this source's detections.
    pub(crate) filter: DetectionFilter,
    /// States that are told in this order, [`SourceState::Offline`] once the frames from before it are through.
    pub(crate) states: VecDeque<(SourceState, Option<String>)>,
    /// The source has ended; said once its last frame is through.
    pub(crate) pending_end: Option<(SourceState, Option<String>)>,
    /// That was said.
    pub(crate) ended_published: bool,
    /// Who waits for this place to be given up.
    pub(crate) removal: Option<Sender<()>>,
    pub(crate) last_meta: Option<FrameMeta>,
    pub(crate) events: Vec<TrackEvent>,
    pub(crate) visible_tracks: Vec<Track>,
}

impl TrackedSource {
    pub(crate) fn new(
        name: &str,
        tracker: Tracker,
        lifecycle: TrackEventGenerator,
        analytics: Option<SourceAnalytics>,
        filter: DetectionFilter,
    ) -> Self {
        Self {
            name: name.to_owned(),
            reorder: ReorderBuffer::default(),
            tracker,
            lifecycle,
            analytics,
            filter,
            states: VecDeque::new(),
            pending_end: None,
            ended_published: false,
            removal: None,
            last_meta: None,
            events: Vec::new(),
            visible_tracks: Vec::new(),
        }
    }
}
