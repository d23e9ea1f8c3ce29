//! One source's tracker: IOU, SORT or ByteTrack behind one constructor. Detections in, tracks out, frame by frame.
//!
//! The three kinds share one list of tracks, the track states and the assignment. They differ in three points: the box that a
//! track is expected to have (its last one, or a prediction by the Kalman filter), which pairs are candidates at which rank
//! (association stages), and which box is reported. The pipeline calls [`Tracker::update`] for every frame of one source with
//! inference, in order, frames without detections too, and [`Tracker::coast`] for skipped frames.
//!
//! The order of the detections in a frame has no influence: they are sorted first, so that ids do not depend on the output
//! order of a detector.

use std::cmp::Ordering;
use std::sync::Arc;

use jetwatch_config::{ClassMatch, TrackerConfig, TrackerKind};
use jetwatch_types::{
    Classes, Detection, Similarity, Track, TrackId, TrackState, Xyxy, intersection_over_union,
};

use super::appearance::Appearance;
use super::assignment::{Assigner, Candidate};
use super::iou_index::IouIndex;
use super::kalman::{KalmanBox, MotionModel, Visibility};
use super::reassociate::Trajectory;
use super::stages::{AssociationStages, SimilarityKind};

/// Id of a track that has none yet, because it is [`TrackState::Tentative`].
pub const UNCONFIRMED: TrackId = TrackId(0);

/// Score from which one detection is enough to publish an object, once its probation is over: ByteTrack's value for new tracks.
const CONFIRM_SCORE: f32 = 0.6;

/// Rank of pairs that overlap only after both boxes are enlarged: after all others.
const BUFFERED_IOU_RANK: u8 = 8;

/// How much they are enlarged, as in buffered IOU (C-BIoU): on each side by a quarter of their width and height per frame
/// since the last match, which is that paper's half for every second frame, and at most by the whole.
const BUFFER_RATIO: f32 = 0.25;
const MAX_BUFFER_RATIO: f32 = 1.0;

/// Tracks the objects of one source. Allocates only when a frame holds more than any before.
#[derive(Debug)]
pub struct Tracker {
    config: TrackerConfig,
    /// Which classes count as the same one; by default each is one of its own.
    classes: Arc<Classes>,
    stages: AssociationStages,
    model: Option<MotionModel>,
    /// Whether some frames come without inference.
    is_coasting: bool,
    /// Frames without inference before the last frame with inference, and since then.
    frames_before_update: u32,
    frames_since_update: u32,
    /// The frame's detections in an order that does not depend on the detector.
    detections: Vec<Detection>,
    /// Their places in what the detector gave.
    order: Vec<usize>,
    /// Their embeddings, in the same order; empty when there are none.
    embeddings: Vec<Option<Arc<[f32]>>>,
    /// Index of their boxes.
    iou_index: IouIndex,
    /// All tracks in the order of their first detection. Ended ones stay until the next call, so that they are reported once.
    tracks: Vec<Track>,
    /// Creation id of each track.
    creation_ids: Vec<u64>,
    /// Kalman filter of each track; empty when nothing is predicted.
    kalman_boxes: Vec<KalmanBox>,
    /// Trajectory of each track; empty when lost tracks are not reassociated.
    trajectories: Vec<Trajectory>,
    /// Smoothed embedding of each track.
    appearances: Vec<Appearance>,
    next_creation_id: u64,
    next_id: u64,
    candidates: Vec<Candidate>,
    assigner: Assigner,
}

impl Tracker {
    /// A tracker of the configured kind, without tracks. Its first id is 1.
    #[must_use]
    pub fn new(config: &TrackerConfig) -> Self {
        Self {
            config: config.clone(),
            classes: Arc::default(),
            stages: AssociationStages::new(config),
            model: match config.kind {
                TrackerKind::Iou => None,
                TrackerKind::Sort => Some(MotionModel::AreaAspect),
                TrackerKind::ByteTrack => Some(MotionModel::AspectHeight),
            },
            is_coasting: false,
            frames_before_update: 0,
            frames_since_update: 0,
            detections: Vec::new(),
            order: Vec::new(),
            embeddings: Vec::new(),
            iou_index: IouIndex::default(),
            tracks: Vec::new(),
            creation_ids: Vec::new(),
            kalman_boxes: Vec::new(),
            trajectories: Vec::new(),
            appearances: Vec::new(),
            next_creation_id: 0,
            next_id: 1,
            candidates: Vec::new(),
            assigner: Assigner::new(config.association),
        }
    }

    /// A tracker that also predicts tracks in frames without detections: for sources with skipped frames. All kinds,
    /// including [`iou`](TrackerKind::Iou), then predict width and height independently.
    #[must_use]
    pub fn with_coasting(config: &TrackerConfig) -> Self {
        let mut tracker = Self::new(config);
        tracker.model = Some(MotionModel::WidthHeight);
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
    /// none is lost, found or ended, and only [`age_frames`](Track::age_frames) counts the frame. A tentative track whose
    /// detection had a score of 0.6 or more may end its probation.
    pub fn coast(&mut self) -> &[Track] {
        self.remove_where(|track| track.state == TrackState::Ended);
        self.predict();
        self.frames_since_update = self.frames_since_update.saturating_add(1);
        for track in &mut self.tracks {
            track.age_frames = track.age_frames.saturating_add(1);
        }
        self.confirm();
        &self.tracks
    }

    /// Advances by a frame with its detections and returns all tracks after it, in the order of their first detection:
    /// tentative, active, lost, and those that ended in this frame.
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
        self.frames_before_update = std::mem::take(&mut self.frames_since_update);
        self.find_candidates();
        if self.is_coasting {
            self.find_buffered_candidates();
        }
        let pairing = self.assigner.assign(
            &mut self.candidates,
            self.tracks.len(),
            self.detections.len(),
        );
        for (index, detection) in pairing.detection_of_track.iter().enumerate() {
            let track = &mut self.tracks[index];
            track.age_frames = track.age_frames.saturating_add(1);
            match detection {
                Some(detection) => {
                    on_match(track, &self.detections[*detection]);
                    if let Some(Some(embedding)) = self.embeddings.get(*detection) {
                        self.appearances[index].observe(embedding);
                    }
                    if let Some(path) = self.trajectories.get_mut(index) {
                        path.observe(&track.xyxy, track.age_frames);
                    }
                    if let Some(motion) = self.kalman_boxes.get_mut(index) {
                        motion.correct(&track.xyxy);
                        if self.config.kind != TrackerKind::Iou {
                            track.xyxy = motion.xyxy();
                        }
                    }
                }
                None => on_miss(track, self.config.most_lost_frames()),
            }
        }
        for (index, (detection, track)) in
            (self.detections.iter().zip(&pairing.track_of_detection)).enumerate()
        {
            if track.is_none() && detection.score >= self.config.min_new_track_score {
                self.tracks.push(start(detection));
                self.creation_ids.push(self.next_creation_id);
                self.kalman_boxes.extend(
                    self.model
                        .map(|model| KalmanBox::new(model, &detection.xyxy)),
                );
                let mut appearance = Appearance::default();
                if let Some(Some(embedding)) = self.embeddings.get(index) {
                    appearance.observe(embedding);
                }
                self.appearances.push(appearance);
                if self.config.reassociate_frames > 0 {
                    self.trajectories.push(Trajectory::new(&detection.xyxy));
                }
                self.next_creation_id += 1;
            }
        }
        // A tentative track was never published, so its end is not reported either.
        self.remove_where(|track| track.state == TrackState::Ended && track.id == UNCONFIRMED);
        self.confirm();
        &self.tracks
    }

    /// Compensates the motion of the camera before the next [`update`](Self::update) or [`coast`](Self::coast): `motion` maps
    /// the image of the previous frame to that of the next one. Boxes, estimated motion and trajectories of all tracks are moved
    /// with it. A transform that is not finite is ignored.
    pub fn compensate(&mut self, motion: &Similarity) {
        if !motion.is_finite() || *motion == Similarity::IDENTITY {
            return;
        }
        for track in &mut self.tracks {
            track.xyxy = motion.xyxy(&track.xyxy);
        }
        for kalman_box in &mut self.kalman_boxes {
            kalman_box.transform(motion);
        }
        for trajectory in &mut self.trajectories {
            trajectory.transform(motion);
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
    #[must_use]
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// For each of [`tracks`](Self::tracks) a number that stays the same from its first detection on.
    ///
    /// It links a confirmed track to its tentative frames, which have no id.
    #[must_use]
    pub fn creation_ids(&self) -> &[u64] {
        &self.creation_ids
    }

    /// Mean direction of the embeddings of one of [`tracks`](Self::tracks), a vector of length 1; `None` without an embedding.
    #[must_use]
    pub fn embedding(&self, id: TrackId) -> Option<&[f32]> {
        let index = self.tracks.iter().position(|track| track.id == id)?;
        self.appearances.get(index)?.vector()
    }

    /// Stores the detections with a sufficient score, best first, and their embeddings.
    fn sort(&mut self, detections: &[Detection], embeddings: &[Option<Arc<[f32]>>]) {
        let min_score = self.stages.min_detection_score();
        self.order.clear();
        self.order.extend(
            (0..detections.len())
                .filter(|index| min_score.is_none_or(|min| detections[*index].score >= min)),
        );
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
        for (track, motion) in self.tracks.iter_mut().zip(&mut self.kalman_boxes) {
            motion.predict(if track.state == TrackState::Lost {
                Visibility::Hidden
            } else {
                Visibility::Visible
            });
            track.xyxy = motion.xyxy();
        }
    }

    /// Lists all pairs that may be associated.
    fn find_candidates(&mut self) {
        self.candidates.clear();
        self.iou_index.build(&self.detections);
        let min_iou = self.stages.min_similarity();
        for (index, track) in self.tracks.iter().enumerate() {
            if track.lost_frames > self.config.max_lost_frames {
                // Kept for re-association only.
                continue;
            }
            for (detection, iou) in self.iou_index.query(&track.xyxy, min_iou) {
                let found = &self.detections[detection];
                if self.config.class_match == ClassMatch::Same
                    && !self.classes.are_alike(found.class, track.class)
                {
                    continue;
                }
                let Some(stage) = self.stages.stage(track.state, found.score) else {
                    continue;
                };
                let appearance =
                    appearance_similarity(&self.appearances[index], &self.embeddings, detection);
                if appearance.is_some_and(|it| it < self.config.min_appearance_similarity) {
                    continue;
                }
                let iou = match stage.similarity {
                    SimilarityKind::Iou => iou,
                    SimilarityKind::IouTimesScore => iou * found.score.clamp(0.0, 1.0),
                };
                if iou >= stage.min_similarity {
                    self.candidates.push(Candidate {
                        rank: stage.rank,
                        track: index,
                        detection,
                        iou: with_appearance(
                            stage.weight(iou),
                            appearance,
                            self.config.appearance_weight,
                        ),
                    });
                }
            }
        }
    }

    /// Lists pairs of detections with tracks that were detected once, whose velocity is unknown: between two frames with
    /// inference a small object moves farther than its own size. They overlap when both are enlarged, and rank last.
    fn find_buffered_candidates(&mut self) {
        for (index, track) in self.tracks.iter().enumerate() {
            // Without skipped frames in between, a box moves little from one frame to the next.
            let has_velocity = track.hits > 1 || track.age_frames < 2;
            if has_velocity || track.state == TrackState::Lost {
                continue;
            }
            let ratio = (BUFFER_RATIO * track.age_frames as f32).min(MAX_BUFFER_RATIO);
            for (detection, found) in self.detections.iter().enumerate() {
                let Some(stage) = self.stages.stage(track.state, found.score) else {
                    continue;
                };
                let appearance =
                    appearance_similarity(&self.appearances[index], &self.embeddings, detection);
                if !self.classes.are_alike(found.class, track.class)
                    || appearance.is_some_and(|it| it < self.config.min_appearance_similarity)
                {
                    continue;
                }
                let iou = intersection_over_union(
                    &enlarge(&track.xyxy, ratio),
                    &enlarge(&found.xyxy, ratio),
                );
                if iou >= stage.min_similarity {
                    self.candidates.push(Candidate {
                        rank: stage.rank.saturating_add(BUFFERED_IOU_RANK),
                        track: index,
                        detection,
                        iou: with_appearance(
                            stage.weight(iou),
                            appearance,
                            self.config.appearance_weight,
                        ),
                    });
                }
            }
        }
    }

    /// Confirms tentative tracks that have passed their probation and assigns their ids.
    ///
    /// A tentative track was matched in every frame with inference, so its age counts: with skipped frames in between, a new
    /// object is published little later than without. One detection is enough only with a high score.
    fn confirm(&mut self) {
        let min_frames = self.config.probation_frames;
        let mut has_reassociated = false;
        for index in 0..self.tracks.len() {
            let track = &self.tracks[index];
            let is_sure = self.is_coasting && track.score >= CONFIRM_SCORE;
            // An object first detected in this frame appeared in one of the skipped frames before, on average in the middle.
            let head_start = if track.hits == 1 {
                self.frames_before_update / 2
            } else {
                0
            };
            let age = track.age_frames.saturating_add(head_start);
            let has_passed = age >= min_frames && (is_sure || track.hits >= min_frames.min(2));
            if track.state != TrackState::Tentative || !has_passed {
                continue;
            }
            self.tracks[index].state = TrackState::Active;
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
        let (new, trajectory) = (&self.tracks[index], self.trajectories.get(index)?);
        let mut best: Option<(f32, usize)> = None;
        for (at, (lost, lost_trajectory)) in self.tracks.iter().zip(&self.trajectories).enumerate()
        {
            let other_class = self.config.class_match == ClassMatch::Same
                && !self.classes.are_alike(lost.class, new.class);
            if lost.state != TrackState::Lost || other_class {
                continue;
            }
            let Some(distance) =
                lost_trajectory.distance(lost.age_frames, trajectory, new.age_frames)
            else {
                continue;
            };
            let appearance = self.appearances[at].similarity_to(&self.appearances[index]);
            if appearance.is_some_and(|it| it < self.config.min_appearance_similarity) {
                continue;
            }
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
        let appearance = std::mem::take(&mut self.appearances[lost]);
        if self.appearances[new] == Appearance::default() {
            self.appearances[new] = appearance;
        }
        // The trajectory continues with the age of the joined track.
        self.trajectories[new].shift_age(age.saturating_sub(track.age_frames));
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
                self.appearances.swap(retained, index);
                if self.model.is_some() {
                    self.kalman_boxes.swap(retained, index);
                }
                if !self.trajectories.is_empty() {
                    self.trajectories.swap(retained, index);
                }
            }
            retained += 1;
        }
        self.tracks.truncate(retained);
        self.creation_ids.truncate(retained);
        self.kalman_boxes.truncate(retained);
        self.trajectories.truncate(retained);
        self.appearances.truncate(retained);
    }
}

/// Cosine similarity of a track and a detection, where both have an embedding.
fn appearance_similarity(
    track: &Appearance,
    embeddings: &[Option<Arc<[f32]>>],
    detection: usize,
) -> Option<f32> {
    track.similarity(embeddings.get(detection)?.as_deref()?)
}

/// The weight of a pair by its overlap and its appearance.
fn with_appearance(overlap: f32, appearance: Option<f32>, share: f32) -> f32 {
    appearance.map_or(overlap, |it| {
        (1.0 - share) * overlap + share * it.clamp(f32::EPSILON, 1.0)
    })
}

/// A box enlarged on each side by this share of its width and height.
fn enlarge([left, top, right, bottom]: &Xyxy, ratio: f32) -> Xyxy {
    let (across, down) = ((right - left) * ratio, (bottom - top) * ratio);
    [left - across, top - down, right + across, bottom + down]
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

/// A new track in its first frame.
fn start(detection: &Detection) -> Track {
    Track {
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
    }
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
