//! The follower's sides of all sources, by the sources' ids. Sources come and go, and no id is given twice: the place of one
//! that is gone stays empty.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crossbeam_channel::Sender;

use jetwatch_record::KeptView;
use jetwatch_track::{Lifecycle, Tracker};
use jetwatch_types::{Detection, FrameMeta, SourceId, SourceState, Track, TrackEvent};

use super::reorder::Reorder;
use super::scene::Scene;
use super::sieve::Sieve;

/// One place for each id that was ever given.
#[derive(Default)]
pub(super) struct Lines(Vec<Option<Box<Line>>>);

impl Lines {
    /// Puts `line` into the place of `id`.
    pub(super) fn put(&mut self, id: SourceId, line: Box<Line>) {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()] = Some(line);
    }

    /// Empties the place of `id`.
    pub(super) fn drop_line(&mut self, id: SourceId) {
        self.0[id.index()] = None;
    }

    /// Whether the source is there.
    pub(super) fn has(&self, id: SourceId) -> bool {
        self.0.get(id.index()).is_some_and(Option::is_some)
    }

    /// Who is there.
    pub(super) fn ids(&self) -> Vec<SourceId> {
        let ids = (0..=u16::MAX).map(SourceId).take(self.0.len());
        ids.filter(|id| self.has(*id)).collect()
    }
}

/// Panics for a source that is not there. Results come from those alone that are: the place is given up after the last one.
impl Index<usize> for Lines {
    type Output = Line;

    fn index(&self, index: usize) -> &Line {
        self.0[index]
            .as_ref()
            .expect("a source's place is kept until its last result")
    }
}

impl IndexMut<usize> for Lines {
    fn index_mut(&mut self, index: usize) -> &mut Line {
        self.0[index]
            .as_mut()
            .expect("a source's place is kept until its last result")
    }
}

/// What is known of one frame when its turn comes.
pub(super) type Seen = (FrameMeta, Option<Vec<Detection>>, Option<KeptView>);

/// The follower's side of one source.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) reorder: Reorder<Seen>,
    pub(super) tracker: Tracker,
    pub(super) lifecycle: Lifecycle,
    /// Its rules at work, where it has any.
    pub(super) scene: Option<Scene>,
    /// What is kept of this source's detections.
    pub(super) sieve: Sieve,
    /// States that are told in this order, [`SourceState::Offline`] once the frames from before it are through.
    pub(super) states: VecDeque<(SourceState, Option<String>)>,
    /// The source has ended; said once its last frame is through.
    pub(super) ending: Option<(SourceState, Option<String>)>,
    /// That was said.
    pub(super) over: bool,
    /// Who waits for this place to be given up.
    pub(super) leaving: Option<Sender<()>>,
    pub(super) newest: Option<FrameMeta>,
    pub(super) events: Vec<TrackEvent>,
    pub(super) shown: Vec<Track>,
}

impl Line {
    pub(super) fn new(
        name: &str,
        tracker: Tracker,
        lifecycle: Lifecycle,
        scene: Option<Scene>,
        sieve: Sieve,
    ) -> Self {
        Self {
            name: name.to_owned(),
            reorder: Reorder::default(),
            tracker,
            lifecycle,
            scene,
            sieve,
            states: VecDeque::new(),
            ending: None,
            over: false,
            leaving: None,
            newest: None,
            events: Vec::new(),
            shown: Vec::new(),
        }
    }
}
