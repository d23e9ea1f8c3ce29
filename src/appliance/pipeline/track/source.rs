// SPDX-License-Identifier: Apache-2.0
//! The tracking state of all sources, by their ids. Sources are added and removed, and no id is used twice: the entry of a removed
//! source stays empty.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crossbeam_channel::Sender;

use jetwatch_pixels::motion::GrayImage;
use jetwatch_publish::SourceInfo;
use jetwatch_schedule::Status;
use jetwatch_telemetry::SourceCategory;
use jetwatch_track::{TrackEventGenerator, Tracker};
use jetwatch_types::{
    BudgetedImage, Detection, FrameMeta, SourceId, SourceState, Track, TrackEvent,
};

use super::analytics::SourceAnalytics;
use super::camera::SourceCamera;
use super::counts::ActiveCounts;
use super::filter::DetectionFilter;
use super::reorder::ReorderBuffer;
use super::state_hold::StateHold;
use crate::clips::SourceClips;
use crate::switches::SourceSwitches;

/// One entry for each id that was ever used.
#[derive(Default)]
pub(crate) struct SourceTable(Vec<Option<Box<TrackedSource>>>);

impl SourceTable {
    /// Sets the entry of `id`.
    pub(crate) fn insert(&mut self, id: SourceId, source: Box<TrackedSource>) {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()] = Some(source);
    }

    /// Empties the entry of `id`.
    pub(crate) fn remove(&mut self, id: SourceId) {
        self.0[id.index()] = None;
    }

    /// Whether there is a source with this id.
    pub(crate) fn contains(&self, id: SourceId) -> bool {
        self.0.get(id.index()).is_some_and(Option::is_some)
    }

    /// The ids of all sources.
    pub(crate) fn ids(&self) -> Vec<SourceId> {
        let ids = (0..=u16::MAX).map(SourceId).take(self.0.len());
        ids.filter(|id| self.contains(*id)).collect()
    }
}

/// Panics for an id without a source. A source is removed after its last result, so results have one.
impl Index<usize> for SourceTable {
    type Output = TrackedSource;

    fn index(&self, index: usize) -> &TrackedSource {
        self.0[index]
            .as_ref()
            .expect("a source is kept until its last result")
    }
}

impl IndexMut<usize> for SourceTable {
    fn index_mut(&mut self, index: usize) -> &mut TrackedSource {
        self.0[index]
            .as_mut()
            .expect("a source is kept until its last result")
    }
}

/// What is known of one frame before it is tracked.
pub(crate) struct FrameResult {
    pub(crate) meta: FrameMeta,
    /// `None`: the frame skipped the network.
    pub(crate) detections: Option<Vec<Detection>>,
    /// One for each detection, where their appearance is computed; else empty.
    pub(crate) embeddings: Vec<Option<Arc<[f32]>>>,
    /// For the motion of the camera; `None` where it is not estimated, or the CPU cannot read the image.
    pub(crate) gray: Option<GrayImage>,
    /// The full image, where a later step may need it.
    pub(crate) full_image: Option<BudgetedImage>,
}

impl FrameResult {
    /// A frame that skipped the network.
    pub(crate) fn skipped(meta: FrameMeta, full_image: Option<BudgetedImage>) -> Self {
        Self {
            meta,
            detections: None,
            embeddings: Vec::new(),
            gray: None,
            full_image,
        }
    }
}

/// The tracking state of one source.
pub(crate) struct TrackedSource {
    pub(crate) name: String,
    /// What sinks know of it.
    pub(crate) info: SourceInfo,
    /// Marks its ranges on the timeline.
    pub(crate) category: SourceCategory,
    pub(crate) reorder: ReorderBuffer<FrameResult>,
    pub(crate) tracker: Tracker,
    /// `None` where the motion of the camera is not estimated.
    pub(crate) camera: Option<SourceCamera>,
    pub(crate) lifecycle: TrackEventGenerator,
    pub(crate) counts: ActiveCounts,
    /// `None` where the source has no analytics rules.
    pub(crate) analytics: Option<SourceAnalytics>,
    /// `None` where no clips of the source are recorded.
    pub(crate) clips: Option<SourceClips>,
    /// Whether detection is switched on.
    pub(crate) is_switched_on: bool,
    /// What the schedule of detection says; `None`: there is none.
    pub(crate) schedule: Option<Status>,
    /// Whether detection has a schedule, or had one in this run.
    pub(crate) was_scheduled: bool,
    /// Whether pictures of its tracks are kept.
    pub(crate) keeps_snapshots: bool,
    /// By event that is not published yet: identity of the snapshot of its track.
    pub(crate) snapshot_ids: Vec<Option<String>>,
    /// Selects the detections that are tracked.
    pub(crate) filter: DetectionFilter,
    /// States to publish, in this order; [`SourceState::Offline`] once the frames before it are processed.
    pub(crate) states: VecDeque<(SourceState, Option<String>)>,
    /// What is published of them.
    pub(crate) states_published: StateHold,
    /// The end of the source, to publish once its last frame is processed.
    pub(crate) pending_end: Option<(SourceState, Option<String>)>,
    /// The end was published.
    pub(crate) ended_published: bool,
    /// Receives a message once the source is removed.
    pub(crate) removal: Option<Sender<()>>,
    pub(crate) last_meta: Option<FrameMeta>,
    pub(crate) events: Vec<TrackEvent>,
    pub(crate) visible_tracks: Vec<Track>,
}

impl TrackedSource {
    pub(crate) fn new(
        info: SourceInfo,
        tracker: Tracker,
        lifecycle: TrackEventGenerator,
        counts: ActiveCounts,
        analytics: Option<SourceAnalytics>,
        filter: DetectionFilter,
    ) -> Self {
        Self {
            name: info.name.clone(),
            category: SourceCategory::new(&info.name),
            info,
            reorder: ReorderBuffer::default(),
            tracker,
            camera: None,
            lifecycle,
            counts,
            analytics,
            clips: None,
            is_switched_on: true,
            schedule: None,
            was_scheduled: false,
            keeps_snapshots: false,
            snapshot_ids: Vec::new(),
            filter,
            states: VecDeque::new(),
            states_published: StateHold::default(),
            pending_end: None,
            ended_published: false,
            removal: None,
            last_meta: None,
            events: Vec::new(),
            visible_tracks: Vec::new(),
        }
    }

    /// Publishes its states by `hold`.
    pub(crate) fn with_state_hold(mut self, hold: StateHold) -> Self {
        self.states_published = hold;
        self
    }

    /// Whether its frames are tracked: detection is switched on, and on by its schedule.
    pub(crate) fn is_detecting(&self) -> bool {
        self.is_switched_on && self.schedule.is_none_or(|status| status.active)
    }

    /// Sets what the schedule of detection says.
    pub(crate) fn with_schedule(mut self, status: Option<Status>) -> Self {
        self.set_schedule(status);
        self
    }

    /// The same later.
    pub(crate) fn set_schedule(&mut self, status: Option<Status>) {
        self.schedule = status;
        self.was_scheduled |= status.is_some();
    }

    /// Sets what was switched before.
    pub(crate) fn with_switches(mut self, switches: &SourceSwitches) -> Self {
        self.is_switched_on = !switches.detection_off;
        if let Some(analytics) = &mut self.analytics {
            for rule in &switches.rules_off {
                analytics.switch(rule, false, &self.lifecycle);
            }
            for index in 0..analytics.active_rules().count() {
                analytics.apply_active(index, &self.lifecycle);
            }
        }
        if let Some(threshold) = switches.score_threshold {
            self.filter.set_score_threshold(threshold);
        }
        self
    }

    /// Records clips.
    pub(crate) fn with_clips(mut self, clips: Option<SourceClips>) -> Self {
        self.clips = clips;
        self
    }

    /// Keeps pictures of its tracks, where the run has snapshots.
    pub(crate) fn with_snapshots(mut self, keeps: bool) -> Self {
        self.keeps_snapshots = keeps;
        self
    }

    /// Estimates the motion of the camera from now on.
    pub(crate) fn with_camera_motion(mut self) -> Self {
        self.camera = Some(SourceCamera::default());
        self
    }
}
