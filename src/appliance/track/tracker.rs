// SPDX-License-Identifier: Apache-2.0
//! One source's tracker: IOU, SORT, ByteTrack or OC-SORT behind one constructor. Detections in, tracks out, frame by frame.
//!
//! The kinds share one list of tracks, the track states and the assignment. They differ in the box that a track is expected
//! to have (its last one, or a prediction by the Kalman filter), in which pairs are candidates at which rank (association
//! stages), in the use of past observations, and in which box is reported. The pipeline calls [`Tracker::update`] for every
//! frame of one source with inference, in order, frames without detections too, and [`Tracker::coast`] for skipped frames.
//! `candidates` in the folder of this file lists the pairs.
//!
//! The order of the detections in a frame has no influence: they are sorted first, so that ids do not depend on the output
//! order of a detector.

use std::cmp::Ordering;
use std::sync::Arc;

use jetwatch_config::{TrackerConfig, TrackerKind};
use jetwatch_types::{Classes, Detection, Similarity, Track, TrackId, TrackState};

use super::appearance::Appearance;
use super::assignment::{Assigner, Candidate};
use super::evidence::{ScoreStatistics, evidence};
use super::iou_index::IouIndex;
use super::kalman::{KalmanBox, MotionModel, Visibility};
use super::observations::Observations;
use super::reassociate::Trajectory;
use super::stages::AssociationStages;
use candidates::may_continue;

mod candidates;

/// Id of a track that has none yet, because it is [`TrackState::Tentative`].
pub const UNCONFIRMED: TrackId = TrackId(0);

/// Tracks the objects of one source. Allocates only when a frame holds more than any before, and for embeddings.
#[derive(Debug)]
pub struct Tracker {
    config: TrackerConfig,
    /// Which classes count as the same one; by default each is one of its own.
    classes: Arc<Classes>,
    stages: AssociationStages,
    model: Option<MotionModel>,
    /// Whether some frames come without inference.
    is_coasting: bool,
    /// Frames without inference since the last frame with inference.
    skipped_frames: u32,
    /// The frame's detections in an order that does not depend on the detector.
    detections: Vec<Detection>,
    /// Their places in what the detector gave.
    order: Vec<usize>,
    /// Their embeddings, in the same order; empty when there are none.
    embeddings: Vec<Option<Arc<[f32]>>>,
    /// The detections with enlarged boxes; empty when boxes are compared as they are.
    enlarged: Vec<Detection>,
    /// Index of the boxes to compare.
    iou_index: IouIndex,
    /// All tracks in the order of their first detection. Ended ones stay until the next call, so that they are reported once.
    tracks: Vec<Track>,
    /// Creation id of each track.
    creation_ids: Vec<u64>,
    /// What is known of each track beyond what is reported.
    memories: Vec<Memory>,
    /// Last observations of each track; empty but for OC-SORT.
    observations: Vec<Observations>,
    next_creation_id: u64,
    next_id: u64,
    scores: ScoreStatistics,
    candidates: Vec<Candidate>,
    assigner: Assigner,
}

/// What is known of one track beyond what is reported.
#[derive(Debug)]
struct Memory {
    /// `None` when nothing is predicted.
    motion: Option<KalmanBox>,
    /// `None` when lost tracks are not reassociated.
    trajectory: Option<Trajectory>,
    appearance: Appearance,
    /// Sum over the detections of a tentative track.
    evidence: f32,
}

impl Tracker {
    /// A tracker of the configured kind, without tracks. Its first id is 1.
    pub fn new(config: &TrackerConfig) -> Self {
        Self {
            config: config.clone(),
            classes: Arc::default(),
            stages: AssociationStages::new(config),
            model: match config.kind {
                TrackerKind::Iou => None,
                TrackerKind::Sort | TrackerKind::ByteTrack | TrackerKind::OcSort => {
                    Some(MotionModel::AreaAspect)
                }
            },
            is_coasting: false,
            skipped_frames: 0,
            detections: Vec::new(),
            order: Vec::new(),
            embeddings: Vec::new(),
            enlarged: Vec::new(),
            iou_index: IouIndex::default(),
            tracks: Vec::new(),
            creation_ids: Vec::new(),
            memories: Vec::new(),
            observations: Vec::new(),
            next_creation_id: 0,
            next_id: 1,
            scores: ScoreStatistics::default(),
            candidates: Vec::new(),
            assigner: Assigner::new(config.association),
        }
    }

    /// A tracker that also predicts tracks in frames without detections: for sources with skipped frames. All kinds,
    /// including [`iou`](TrackerKind::Iou), then predict.
    #[must_use]
    pub fn with_coasting(config: &TrackerConfig) -> Self {
        let mut tracker = Self::new(config);
        tracker.model = Some(tracker.model.unwrap_or(MotionModel::WidthHeight));
        tracker.is_coasting = true;
        tracker
    }

    /// Treats the classes of one group as one class, so that a track continues where the network confuses them.
    #[must_use]
    pub fn with_classes(mut self, classes: Arc<Classes>) -> Self {
        self.classes = classes;
        self
    }

    /// Advances by a frame without inference and returns all tracks as predicted for it. Tracks move with their velocity;
    /// none is lost, found or ended, and only [`age_frames`](Track::age_frames) counts the frame. The probation of a
    /// tentative track may end, as if its last detection had been repeated.
    pub fn coast(&mut self) -> &[Track] {
        self.remove_where(|track| track.state == TrackState::Ended);
        self.predict();
        self.skipped_frames = self.skipped_frames.saturating_add(1);
        for (track, memory) in self.tracks.iter_mut().zip(&mut self.memories) {
            track.age_frames = track.age_frames.saturating_add(1);
            memory.evidence += evidence(track.score);
        }
        self.confirm();
        &self.tracks
    }

    /// Advances by a frame with its detections and returns all tracks after it, in the order of their first detection:
    /// tentative, active, lost, and those that ended in this frame.
    ///
    /// ```
    /// use jetwatch_track::Tracker;
    /// use jetwatch_types::{Detection, TrackState};
    ///
    /// # let text = "sources: [{name: a, uri: /v.mp4}]\ndetector: {model: m}\n";
    /// # let config = jetwatch_config::Config::from_str("f.yaml", text).expect("it loads");
    /// let mut tracker = Tracker::new(&config.tracker);
    /// for frame in 0..5_u8 {
    ///     let left = f32::from(frame);
    ///     let xyxy = [left, 0.0, left + 20.0, 40.0];
    ///     tracker.update(&[Detection { class: 0, score: 0.9, xyxy }]);
    /// }
    /// let tracks = tracker.update(&[]);
    /// assert_eq!(tracks.len(), 1);
    /// assert_eq!((tracks[0].id.0, tracks[0].state), (1, TrackState::Lost));
    /// ```
    ///
    /// The box of a matched track is that of its detection with IOU, and the filter's estimate with the other kinds. The box
    /// of a lost track is its last one, or the predicted one.
    pub fn update(&mut self, detections: &[Detection]) -> &[Track] {
        self.update_with_embeddings(detections, &[])
    }

    /// Like [`update`](Self::update), with the appearance of the detections: one entry for each detection, in the same order,
    /// `None` where it was not computed. Entries that are left out count as `None`.
    ///
    /// Where a track and a detection both have an embedding, their cosine similarity counts with
    /// [`appearance_weight`](TrackerConfig::appearance_weight). Embeddings need no particular length; all of one network have
    /// the same number of values.
    pub fn update_with_embeddings(
        &mut self,
        detections: &[Detection],
        embeddings: &[Option<Arc<[f32]>>],
    ) -> &[Track] {
        self.remove_where(|track| track.state == TrackState::Ended);
        self.sort(detections, embeddings);
        self.predict();
        self.find_candidates();
        let pairing = self.assigner.assign(
            &mut self.candidates,
            self.tracks.len(),
            self.detections.len(),
        );
        let tracks = self.tracks.iter_mut().zip(&mut self.memories);
        for (at, ((track, memory), detection)) in
            tracks.zip(&pairing.detection_of_track).enumerate()
        {
            track.age_frames = track.age_frames.saturating_add(1);
            let Some(index) = *detection else {
                on_miss(track, self.config.most_lost_frames());
                continue;
            };
            let detection = &self.detections[index];
            if track.state == TrackState::Tentative {
                memory.evidence += evidence(detection.score);
            } else {
                self.scores.observe(detection.score);
            }
            on_match(track, detection);
            if let Some(Some(embedding)) = self.embeddings.get(index) {
                memory.appearance.observe(embedding);
            }
            if let Some(path) = &mut memory.trajectory {
                path.observe(&detection.xyxy, track.age_frames);
            }
            let observations = self.observations.get_mut(at);
            if let Some(motion) = &mut memory.motion {
                let reupdated = (observations.as_ref())
                    .and_then(|it| it.reupdated(&detection.xyxy, track.age_frames));
                if let Some(reupdated) = reupdated {
                    *motion = reupdated;
                }
                motion.correct(&detection.xyxy);
                if self.config.kind != TrackerKind::Iou {
                    track.xyxy = motion.xyxy();
                }
            }
            if let Some(observations) = observations {
                observations.observe(&detection.xyxy, track.age_frames, memory.motion.as_ref());
            }
        }
        let start_score = self
            .scores
            .start_score(self.config.min_new_track_score, self.config.new_track_share);
        for index in 0..self.detections.len() {
            let is_new = self.assigner.pairing().track_of_detection[index].is_none();
            if is_new && self.detections[index].score >= start_score {
                self.start(index);
            }
        }
        self.skipped_frames = 0;
        for track in &self.tracks {
            let is_dropped = track.state == TrackState::Ended && track.id == UNCONFIRMED;
            if is_dropped && track.hits > 1 {
                self.scores.add_outcome(false);
            }
        }
        // A tentative track was never published, so its end is not reported either.
        self.remove_where(|track| track.state == TrackState::Ended && track.id == UNCONFIRMED);
        self.confirm();
        &self.tracks
    }

    /// Compensates the motion of the camera before the next [`update`](Self::update) or [`coast`](Self::coast): `motion` maps
    /// the image of the previous frame to that of the next one. Boxes, estimated motion, observations and trajectories of all
    /// tracks are moved with it. A transform that is not finite is ignored.
    pub fn compensate(&mut self, motion: &Similarity) {
        if !motion.is_finite() || *motion == Similarity::IDENTITY {
            return;
        }
        for (track, memory) in self.tracks.iter_mut().zip(&mut self.memories) {
            track.xyxy = motion.xyxy(&track.xyxy);
            if let Some(kalman_box) = &mut memory.motion {
                kalman_box.transform(motion);
            }
            if let Some(trajectory) = &mut memory.trajectory {
                trajectory.transform(motion);
            }
        }
        for observations in &mut self.observations {
            observations.transform(motion);
        }
    }

    /// Ends all tracks at the end of the source and returns those that had been confirmed, now [`TrackState::Ended`].
    ///
    /// The tracker accepts frames afterwards, as when a file restarts; ids are not reused.
    pub fn finish(&mut self) -> &[Track] {
        self.remove_where(|track| matches!(track.state, TrackState::Ended | TrackState::Tentative));
        for track in &mut self.tracks {
            track.state = TrackState::Ended;
        }
        &self.tracks
    }

    /// Result of the last [`update`](Self::update) or [`finish`](Self::finish).
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// For each of [`tracks`](Self::tracks) a number that stays the same from its first detection on.
    ///
    /// It links a confirmed track to its tentative frames, which have no id.
    pub fn creation_ids(&self) -> &[u64] {
        &self.creation_ids
    }

    /// Mean direction of the embeddings of one of [`tracks`](Self::tracks), a vector of length 1; `None` without an embedding.
    pub fn embedding(&self, id: TrackId) -> Option<&[f32]> {
        let index = self.tracks.iter().position(|track| track.id == id)?;
        self.memories.get(index)?.appearance.vector()
    }

    /// Stores the detections with a sufficient score, best first, and their embeddings.
    fn sort(&mut self, detections: &[Detection], embeddings: &[Option<Arc<[f32]>>]) {
        let min_score = self.stages.min_detection_score();
        self.order.clear();
        self.order
            .extend((0..detections.len()).filter(|index| detections[*index].score >= min_score));
        self.order
            .sort_unstable_by(|a, b| canonical(&detections[*a], &detections[*b]));
        self.detections.clear();
        self.detections
            .extend(self.order.iter().map(|index| detections[*index]));
        self.embeddings.clear();
        if !embeddings.is_empty() {
            let of = |index: &usize| embeddings.get(*index).cloned().flatten();
            self.embeddings.extend(self.order.iter().map(of));
        }
    }

    /// Moves every track to its predicted box in this frame.
    fn predict(&mut self) {
        for (track, memory) in self.tracks.iter_mut().zip(&mut self.memories) {
            let Some(motion) = &mut memory.motion else {
                continue;
            };
            motion.predict(if track.state == TrackState::Lost {
                Visibility::Hidden
            } else {
                Visibility::Visible
            });
            track.xyxy = motion.xyxy();
        }
    }

    /// Starts a track with the detection at `index`.
    fn start(&mut self, index: usize) {
        let detection = &self.detections[index];
        let motion = self.model.map(|it| KalmanBox::new(it, &detection.xyxy));
        let mut appearance = Appearance::default();
        if let Some(Some(embedding)) = self.embeddings.get(index) {
            appearance.observe(embedding);
        }
        if self.config.kind == TrackerKind::OcSort {
            self.observations
                .push(Observations::new(&detection.xyxy, motion.as_ref()));
        }
        self.memories.push(Memory {
            trajectory: (self.config.reassociate_frames > 0)
                .then(|| Trajectory::new(&detection.xyxy)),
            motion,
            appearance,
            evidence: evidence(detection.score),
        });
        self.tracks.push(Track {
            id: UNCONFIRMED,
            state: TrackState::Tentative,
            class: detection.class,
            score: detection.score,
            top_score: detection.score,
            xyxy: detection.xyxy,
            age_frames: 1,
            hits: 1,
            lost_frames: 0,
            attributes: Default::default(),
        });
        self.creation_ids.push(self.next_creation_id);
        self.next_creation_id += 1;
    }

    /// Confirms tentative tracks that have passed their probation and assigns their ids.
    ///
    /// A tentative track was matched in every frame with inference, so its age counts: with skipped frames in between, a new
    /// object is published little later than without. One detection is enough only if its score is at least the usual one.
    fn confirm(&mut self) {
        let min_frames = self.config.probation_frames;
        let usual = self.scores.usual_evidence();
        let min_evidence = match min_frames {
            1 => 0.0,
            _ => {
                let share = self.config.probation_evidence * self.scores.caution();
                min_frames as f32 * share * usual
            }
        };
        let mut has_reassociated = false;
        for index in 0..self.tracks.len() {
            let (track, memory) = (&self.tracks[index], &self.memories[index]);
            let is_sure = self.is_coasting && evidence(track.score) >= usual;
            let has_passed = track.age_frames >= min_frames
                && (is_sure || track.hits >= min_frames.min(2))
                && memory.evidence >= min_evidence;
            if track.state != TrackState::Tentative || !has_passed {
                continue;
            }
            self.tracks[index].state = TrackState::Active;
            self.scores.add_outcome(true);
            if let Some(lost) = self.find_lost_match(index) {
                self.adopt(lost, index);
                has_reassociated = true;
            } else {
                self.tracks[index].id = TrackId(self.next_id);
                self.next_id += 1;
            }
        }
        if has_reassociated {
            self.remove_where(|track| track.state == TrackState::Ended && track.id == UNCONFIRMED);
        }
    }

    /// Index of the lost track that most likely is the same object as the new one at `index`.
    fn find_lost_match(&self, index: usize) -> Option<usize> {
        let new = &self.tracks[index];
        let trajectory = self.memories[index].trajectory.as_ref()?;
        let mut best: Option<(f32, usize)> = None;
        for (at, (lost, memory)) in self.tracks.iter().zip(&self.memories).enumerate() {
            let other_class = !may_continue(&self.config, &self.classes, lost.class, new.class);
            if lost.state != TrackState::Lost || other_class {
                continue;
            }
            let appearance = (memory.appearance).similarity_to(&self.memories[index].appearance);
            if appearance.is_some_and(|it| it < self.config.min_appearance_similarity) {
                continue;
            }
            let Some(distance) = memory
                .trajectory
                .as_ref()
                .and_then(|path| path.distance(lost.age_frames, trajectory, new.age_frames))
            else {
                continue;
            };
            // Among equals, the older one.
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// Gives the identity of the track at `lost` to the one at `new`, and ends the former without a report.
    fn adopt(&mut self, lost: usize, new: usize) {
        let before = &mut self.tracks[lost];
        let (id, age, hits) = (before.id, before.age_frames, before.hits);
        let (top_score, attributes) = (before.top_score, std::mem::take(&mut before.attributes));
        before.id = UNCONFIRMED;
        before.state = TrackState::Ended;
        let track = &mut self.tracks[new];
        track.id = id;
        track.hits = track.hits.saturating_add(hits);
        track.top_score = track.top_score.max(top_score);
        track.attributes = attributes;
        let appearance = std::mem::take(&mut self.memories[lost].appearance);
        let memory = &mut self.memories[new];
        if memory.appearance == Appearance::default() {
            memory.appearance = appearance;
        }
        // What was observed continues with the age of the joined track.
        let older = age.saturating_sub(track.age_frames);
        if let Some(observations) = self.observations.get_mut(new) {
            observations.shift_age(older);
        }
        if let Some(trajectory) = &mut memory.trajectory {
            trajectory.shift_age(older);
        }
        track.age_frames = age;
    }

    /// Removes the tracks for which `remove` holds; the others keep their order.
    fn remove_where(&mut self, remove: impl Fn(&Track) -> bool) {
        let mut retained = 0;
        for index in 0..self.tracks.len() {
            if remove(&self.tracks[index]) {
                continue;
            }
            if retained != index {
                self.tracks.swap(retained, index);
                self.creation_ids.swap(retained, index);
                self.memories.swap(retained, index);
                if !self.observations.is_empty() {
                    self.observations.swap(retained, index);
                }
            }
            retained += 1;
        }
        self.tracks.truncate(retained);
        self.creation_ids.truncate(retained);
        self.memories.truncate(retained);
        self.observations.truncate(retained);
    }
}

/// Best score first; equal ones by class, then by their edges.
fn canonical(a: &Detection, b: &Detection) -> Ordering {
    let by_edges = || {
        let mut edges = a.xyxy.iter().zip(&b.xyxy).map(|(a, b)| a.total_cmp(b));
        edges.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    b.score
        .total_cmp(&a.score)
        .then_with(|| a.class.cmp(&b.class))
        .then_with(by_edges)
}

/// Updates a track that was matched in this frame.
fn on_match(track: &mut Track, detection: &Detection) {
    track.class = detection.class;
    track.score = detection.score;
    track.top_score = track.top_score.max(detection.score);
    track.xyxy = detection.xyxy;
    track.hits = track.hits.saturating_add(1);
    track.lost_frames = 0;
    if track.state == TrackState::Lost {
        track.state = TrackState::Active;
    }
}

/// Updates a track that was not matched in this frame.
fn on_miss(track: &mut Track, max_lost_frames: u32) {
    track.lost_frames = track.lost_frames.saturating_add(1);
    track.state = match track.state {
        TrackState::Active | TrackState::Lost if track.lost_frames <= max_lost_frames => {
            TrackState::Lost
        }
        _ => TrackState::Ended,
    };
}

#[cfg(test)]
mod tests;
