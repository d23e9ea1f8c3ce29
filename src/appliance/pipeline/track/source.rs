// SPDX-License-Identifier: Apache-2.0
//! The tracking state of one source: what its frames, switches and schedules change. `publishing.rs` has what it publishes.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use jetwatch_config::{CameraMotionModel, Config, SourceConfig};
use jetwatch_detect::{ClassFilter, DetectError};
use jetwatch_pixels::motion::GrayImage;
use jetwatch_publish::SourceInfo;
use jetwatch_schedule::{Schedule, Status};
use jetwatch_telemetry::SourceCategory;
use jetwatch_track::{TrackEventGenerator, Tracker};
use jetwatch_types::{
    BudgetedImage, Classes, Detection, EventKind, FrameClock, FrameMeta, Track, TrackEvent,
    TrackState,
};

use super::analytics::SourceAnalytics;
use super::camera::SourceCamera;
use super::counts::ActiveCounts;
use super::filter::DetectionFilter;
use super::reorder::ReorderBuffer;
use super::states::SourceStates;
use crate::clips::SourceClips;
use crate::switches::{SourceSwitches, SwitchChange};

/// What is known of one frame before it is tracked.
pub(crate) struct FrameResult {
    pub(crate) meta: FrameMeta,
    /// When a worker took it, and when its detections were sent; `None`: it skipped the network.
    pub(crate) in_worker: Option<[Instant; 2]>,
    /// `None`: the frame skipped the network.
    pub(crate) detections: Option<Vec<Detection>>,
    /// One for each detection, where their appearance is computed; else empty.
    pub(crate) embeddings: Vec<Option<Arc<[f32]>>>,
    /// For the motion of the camera; `None` where it is not estimated, or the CPU cannot read the image.
    pub(crate) gray: Option<GrayImage>,
    /// The full image, where a later step may need it.
    pub(crate) full_image: Option<BudgetedImage>,
}

/// The tracking state of one source.
pub(crate) struct TrackedSource {
    /// What sinks know of it.
    pub(super) info: SourceInfo,
    /// Marks its ranges on the timeline.
    pub(super) category: SourceCategory,
    pub(super) reorder: ReorderBuffer<FrameResult>,
    tracker: Tracker,
    /// `None` where the motion of the camera is not estimated.
    camera: Option<SourceCamera>,
    pub(super) lifecycle: TrackEventGenerator,
    pub(super) counts: ActiveCounts,
    /// `None` where the source has no analytics rules.
    pub(super) analytics: Option<SourceAnalytics>,
    /// `None` where no clips of the source are recorded.
    pub(super) clips: Option<SourceClips>,
    pub(super) detection: DetectionSwitch,
    /// Whether pictures of its tracks are kept.
    pub(super) keeps_snapshots: bool,
    /// By event that is not published yet: identity of the snapshot of its track.
    pub(super) snapshot_ids: Vec<Option<String>>,
    /// Selects the detections that are tracked.
    pub(super) filter: DetectionFilter,
    pub(super) states: SourceStates,
    pub(super) last_meta: Option<FrameMeta>,
    pub(super) events: Vec<TrackEvent>,
    pub(super) visible_tracks: Vec<Track>,
    /// Whether events of type new and end carry the embedding of the track.
    output_embedding: bool,
}

/// Whether the frames of a source are tracked.
pub(super) struct DetectionSwitch {
    pub(super) is_switched_on: bool,
    /// What its schedule says; `None`: there is none.
    pub(super) schedule: Option<Status>,
    /// It has a schedule, or had one in this run.
    pub(super) was_scheduled: bool,
}

impl TrackedSource {
    /// A source before its first frame. `thresholds` are the score threshold and the IOU of the detector; `schedule` is what the
    /// schedule of detection says.
    ///
    /// # Errors
    /// A label that the model does not have.
    pub(crate) fn new(
        config: &Config,
        source: &SourceConfig,
        classes: &Arc<Classes>,
        thresholds: [f32; 2],
        switches: &SourceSwitches,
        schedule: Option<Status>,
        clips: Option<SourceClips>,
    ) -> Result<Self, DetectError> {
        let update_interval = config.publish.update_interval;
        let hold = config.publish.count_hold;
        let clock = match source.uri.is_live() {
            true => FrameClock::default(),
            false => FrameClock::with_media_time(),
        };
        let lifecycle = TrackEventGenerator::new(update_interval).with_lost_hold(hold, clock);
        let mut analytics = SourceAnalytics::new(source, classes, update_interval, (hold, clock));
        if let Some(analytics) = &mut analytics {
            for rule in &switches.rules_off {
                analytics.switch(rule, false, &lifecycle);
            }
            analytics.apply_active(&lifecycle);
        }
        // It predicts tracks where frames skip the network.
        let tracker = match config.detector.interval_of(source).can_skip() {
            true => Tracker::with_coasting(&config.tracker),
            false => Tracker::new(&config.tracker),
        };
        let mut filter = DetectionFilter::new(source, classes, thresholds)?;
        if let Some(threshold) = switches.score_threshold {
            filter.set_score_threshold(threshold);
        }
        let estimates_motion = config.tracker.camera_motion != CameraMotionModel::Off;
        Ok(Self {
            info: source_info(config, source, classes)?,
            category: SourceCategory::new(&source.name),
            reorder: ReorderBuffer::default(),
            tracker: tracker.with_classes(Arc::clone(classes)),
            camera: estimates_motion.then(SourceCamera::default),
            lifecycle,
            counts: ActiveCounts::new(Arc::clone(classes), hold, clock),
            analytics,
            clips,
            detection: DetectionSwitch {
                is_switched_on: !switches.detection_off,
                schedule,
                was_scheduled: schedule.is_some(),
            },
            keeps_snapshots: config.record.has_snapshots(source),
            snapshot_ids: Vec::new(),
            filter,
            states: SourceStates::new(source.offline_hold),
            last_meta: None,
            events: Vec::new(),
            visible_tracks: Vec::new(),
            output_embedding: config.tracker.output_embedding,
        })
    }

    /// Whether its frames are tracked: detection is switched on, and on by its schedule.
    pub(super) fn is_detecting(&self) -> bool {
        let detection = &self.detection;
        detection.is_switched_on && detection.schedule.is_none_or(|status| status.active)
    }

    /// Tracks a frame: sets the events and the visible tracks. Without detections it skipped the network.
    pub(super) fn track(&mut self, frame: &mut FrameResult) {
        let FrameResult {
            meta,
            detections,
            embeddings,
            gray,
            ..
        } = frame;
        match detections {
            Some(detections) => {
                if let Some(camera) = &mut self.camera
                    && let Some(motion) = camera.estimate(gray.as_ref(), detections)
                {
                    self.tracker.compensate(&motion);
                }
                self.filter.apply(detections, embeddings);
                self.tracker.update_with_embeddings(detections, embeddings);
                if let Some(camera) = &mut self.camera {
                    camera.set_tracks(self.tracker.tracks());
                }
            }
            None => {
                self.tracker.coast();
            }
        }
        let tracks = self.tracker.tracks();
        self.lifecycle.step(meta, tracks, &mut self.events);
        if self.output_embedding {
            add_embeddings(&self.tracker, &mut self.events);
        }
        if let Some(analytics) = &mut self.analytics {
            analytics.step(meta, tracks, &self.lifecycle, &self.events);
        }
        let is_visible =
            |track: &&Track| matches!(track.state, TrackState::Active | TrackState::Lost);
        self.visible_tracks.clear();
        let visible = tracks.iter().filter(is_visible);
        self.visible_tracks.extend(visible.cloned());
    }

    /// Ends all tracks: sets their events. Returns the last frame; `None`: none was tracked since the last end.
    pub(super) fn end_tracks(&mut self) -> Option<FrameMeta> {
        if let Some(camera) = &mut self.camera {
            camera.reset();
        }
        let meta = self.last_meta.take()?;
        self.tracker.finish();
        self.lifecycle.finish(&mut self.events);
        if self.output_embedding {
            add_embeddings(&self.tracker, &mut self.events);
        }
        if let Some(analytics) = &mut self.analytics {
            analytics.finish(&self.lifecycle, &self.events);
        }
        self.visible_tracks.clear();
        Some(meta)
    }

    /// Passes the events of a frame that are not published yet to its clips; the clip that they begin is named in them.
    pub(super) fn step_clips(&mut self, meta: &FrameMeta) {
        if let Some(clips) = &mut self.clips {
            let analytics = self.analytics.iter();
            let pending = analytics.flat_map(|analytics| analytics.pending());
            clips.step(meta, &self.events, pending);
            clips.set_processed(meta, self.lifecycle.unconfirmed_for());
        }
    }

    /// Switches something.
    pub(super) fn switch(&mut self, change: &SwitchChange) {
        match change {
            SwitchChange::Detection(on) => self.detection.is_switched_on = *on,
            SwitchChange::Rule(rule, on) => {
                if let Some(analytics) = &mut self.analytics {
                    analytics.switch(rule, *on, &self.lifecycle);
                }
            }
            SwitchChange::ScoreThreshold(threshold) => self.filter.set_score_threshold(*threshold),
        }
    }

    /// Takes what the schedule of detection says.
    pub(super) fn set_schedule(&mut self, status: Option<Status>) {
        self.detection.schedule = status;
        self.detection.was_scheduled |= status.is_some();
    }

    /// Takes new schedules of its rules, in the order of their names.
    pub(super) fn set_rule_schedules(&mut self, schedules: Vec<Option<Schedule>>) {
        if let Some(analytics) = &mut self.analytics {
            analytics.set_schedules(schedules, SystemTime::now());
            analytics.apply_active(&self.lifecycle);
        }
    }

    /// When a schedule of a rule changes next.
    pub(super) fn next_rule_change(&self) -> Option<SystemTime> {
        self.analytics.as_ref()?.next_change()
    }
}

/// What sinks know of a source.
fn source_info(
    config: &Config,
    source: &SourceConfig,
    classes: &Classes,
) -> Result<SourceInfo, DetectError> {
    let filters = [&config.detector.classes, &source.classes];
    let mut labels: Vec<(u16, &String)> = (0..).zip(classes.labels()).collect();
    for wanted in filters {
        let filter = ClassFilter::with_groups(classes, wanted)?;
        labels.retain(|(class, _)| filter.accepts(*class));
    }
    Ok(SourceInfo {
        name: source.name.clone(),
        labels: labels.into_iter().map(|(_, label)| label.clone()).collect(),
        has_chosen_labels: filters.iter().any(|wanted| !wanted.is_empty()),
        rules: source.rules.clone(),
        has_schedule: source.schedule.is_some(),
        has_motion: source.onvif.is_some(),
        has_pictures: config.record.snapshots.mqtt && config.record.has_snapshots(source),
    })
}

/// Adds the embeddings of the tracks to their first and last events.
fn add_embeddings(tracker: &Tracker, events: &mut [TrackEvent]) {
    for event in events {
        if event.kind != EventKind::Update {
            event.embedding = tracker.embedding(event.after.id).map(Arc::from);
        }
    }
}
