//! One source's tracker: IOU, SORT or ByteTrack behind one constructor. Detections in, tracks out, frame by frame.
//!
//! All three keep one list of tracks, one life and one way of choosing pairs. They differ in three places: what box a track
//! is expected to have (its last one, or what [`kalman`](super::motion) predicts), which pairs are open at which rank
//! ([`stages`](super::stages)), and which box is told. The pipeline calls [`Tracker::update`] once for every frame of
//! one source, in order, frames without detections too, and [`Tracker::coast`] for those that skipped the network.
//!
//! The order of the detections in a frame means nothing: they are sorted first, so that ids do not depend on how a
//! detector happens to list them.

use std::cmp::Ordering;

use jetwatch_config::{ClassMatch, TrackerConfig, TrackerKind};
use jetwatch_types::{Detection, Track, TrackId, TrackState, Xyxy, intersection_over_union};

use super::assignment::{Assigner, Candidate};
use super::iou_index::IouIndex;
use super::kalman::{KalmanBox, MotionModel, Visibility};
use super::reassociate::Trajectory;
use super::stages::{AssociationStages, SimilarityKind};

/// The id of a track that has none yet, because it is [`TrackState::Tentative`].
pub const UNCONFIRMED: TrackId = TrackId(0);

/// A score at which one look at an object is enough to publish it, once its probation is over: ByteTrack's for new tracks.
const CONFIRM_SCORE: f32 = 0.6;

/// Rank of pairs that overlap only when both boxes are made larger: behind all others.
const BUFFERED_IOU_RANK: u8 = 8;

/// By how much they are made larger, as in buffered IOU (C-BIoU): on each side, a quarter of their width and height for each
/// frame since the object was seen, which is that paper's half with every second frame, and at most the whole.
const BUFFER_RATIO: f32 = 0.25;
const MAX_BUFFER_RATIO: f32 = 1.0;

/// Tracks the objects of one source. Allocates only when a frame holds more than any before.
#[derive(Debug)]
pub struct Tracker {
    config: TrackerConfig,
    stages: AssociationStages,
    model: Option<MotionModel>,
    /// Frames come that nobody looked at.
    is_coasting: bool,
    /// Frames that nobody looked at before the last look, and since then.
    frames_before_update: u32,
    frames_since_update: u32,
    /// The frame's detections in an order that does not depend on the detector.
    detections: Vec<Detection>,
    /// Their boxes.
    iou_index: IouIndex,
    /// All tracks in the order of their first detection; Ended ones stay until the next call so that they are reported once.
    tracks: Vec<Track>,
    /// The birth number of each of them.
    creation_ids: Vec<u64>,
    /// The motion of each of them; empty where nothing is predicted.
    kalman_boxes: Vec<KalmanBox>,
    /// The way of each of them; empty where nobody who was lost is looked for.
    trajectories: Vec<Trajectory>,
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
            iou_index: IouIndex::default(),
            tracks: Vec::new(),
            creation_ids: Vec::new(),
            kalman_boxes: Vec::new(),
            trajectories: Vec::new(),
            next_creation_id: 0,
            next_id: 1,
            candidates: Vec::new(),
            assigner: Assigner::new(config.association),
        }
    }

    /// The same, which also knows where its tracks are in frames without detections: for sources of which not every frame
    /// goes through the network. All of them, [`iou`](TrackerKind::Iou) too, then predict width and height each for itself.
    #[must_use]
    pub fn with_coasting(config: &TrackerConfig) -> Self {
        let mut tracker = Self::new(config);
        tracker.model = Some(MotionModel::WidthHeight);
        tracker.is_coasting = true;
        tracker
    }

    /// Takes a frame that nobody looked at, and returns all tracks as they stand in it. They go on at their velocity; nothing
    /// is missed, found or ended by it, and only [`age_frames`](Track::age_frames) counts it. A tentative track whose
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

    /// Takes the detections of the source's next frame and returns all tracks as they stand after it, in the order of
    /// their first detection: tentative, active, lost, and those that ended in this very frame.
    ///
    /// The box of a track in sight is that of its detection with IOU, and the filter's estimate with the others; that of a
    /// lost one its last box, or the predicted one.
    pub fn update(&mut self, detections: &[Detection]) -> &[Track] {
        self.remove_where(|track| track.state == TrackState::Ended);
        self.sort(detections);
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
        for (detection, track) in self.detections.iter().zip(&pairing.track_of_detection) {
            if track.is_none() && detection.score >= self.config.min_new_track_score {
                self.tracks.push(start(detection));
                self.creation_ids.push(self.next_creation_id);
                self.kalman_boxes.extend(
                    self.model
                        .map(|model| KalmanBox::new(model, &detection.xyxy)),
                );
                if self.config.reassociate_frames > 0 {
                    self.trajectories.push(Trajectory::new(&detection.xyxy));
                }
                self.next_creation_id += 1;
            }
        }
        // Nobody was told of a tentative track that ends, so it is not reported either.
        self.remove_where(|track| track.state == TrackState::Ended && track.id == UNCONFIRMED);
        self.confirm();
        &self.tracks
    }

    /// Ends all tracks at the end of the source and returns those that had been confirmed, now [`TrackState::Ended`].
    ///
    /// The tracker can go on afterwards, as when a file starts over; ids are not used again.
    pub fn finish(&mut self) -> &[Track] {
        self.remove_where(|track| matches!(track.state, TrackState::Ended | TrackState::Tentative));
        for track in &mut self.tracks {
            track.state = TrackState::Ended;
        }
        &self.tracks
    }

    /// What the last [`update`](Self::update) or [`finish`](Self::finish) returned.
    #[must_use]
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// For each of [`tracks`](Self::tracks) a number that it keeps from its first detection on.
    ///
    /// Who looks back from a confirmed track to its tentative frames, which have no id, finds them by this.
    #[must_use]
    pub fn creation_ids(&self) -> &[u64] {
        &self.creation_ids
    }

    /// Takes the detections that the tracker looks at, best first.
    fn sort(&mut self, detections: &[Detection]) {
        let min_score = self.stages.min_detection_score();
        self.detections.clear();
        self.detections.extend(
            detections
                .iter()
                .filter(|detection| min_score.is_none_or(|least| detection.score >= least)),
        );
        self.detections.sort_unstable_by(canonical);
    }

    /// Moves every track to where it is expected in this frame.
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

    /// Lists all pairs that are open to each other.
    fn find_candidates(&mut self) {
        self.candidates.clear();
        self.iou_index.build(&self.detections);
        let min_iou = self.stages.min_similarity();
        for (track, known) in self.tracks.iter().enumerate() {
            if known.lost_frames > self.config.max_lost_frames {
                // Only a new track can be this one again.
                continue;
            }
            for (detection, iou) in self.iou_index.query(&known.xyxy, min_iou) {
                let seen = &self.detections[detection];
                if self.config.class_match == ClassMatch::Same && seen.class != known.class {
                    continue;
                }
                let Some(stage) = self.stages.stage(known.state, seen.score) else {
                    continue;
                };
                let iou = match stage.similarity {
                    SimilarityKind::Iou => iou,
                    SimilarityKind::IouTimesScore => iou * seen.score.clamp(0.0, 1.0),
                };
                if iou >= stage.min_similarity {
                    self.candidates.push(Candidate {
                        rank: stage.rank,
                        track,
                        detection,
                        iou: stage.weight(iou),
                    });
                }
            }
        }
    }

    /// Lists pairs of detections with tracks that were seen once, whose velocity nobody knows yet: between two looks a small
    /// object goes farther than its own size. They overlap when both are made larger, and choose after all others.
    fn find_buffered_candidates(&mut self) {
        for (track, known) in self.tracks.iter().enumerate() {
            // Without frames in between, a box moves little from one look to the next.
            let is_known = known.hits > 1 || known.age_frames < 2;
            if is_known || known.state == TrackState::Lost {
                continue;
            }
            let ratio = (BUFFER_RATIO * known.age_frames as f32).min(MAX_BUFFER_RATIO);
            for (detection, seen) in self.detections.iter().enumerate() {
                let Some(stage) = self.stages.stage(known.state, seen.score) else {
                    continue;
                };
                if seen.class != known.class {
                    continue;
                }
                let iou = intersection_over_union(
                    &enlarge(&known.xyxy, ratio),
                    &enlarge(&seen.xyxy, ratio),
                );
                if iou >= stage.min_similarity {
                    self.candidates.push(Candidate {
                        rank: stage.rank.saturating_add(BUFFERED_IOU_RANK),
                        track,
                        detection,
                        iou: stage.weight(iou),
                    });
                }
            }
        }
    }

    /// Confirms tentative tracks that have passed their probation and gives them their ids.
    ///
    /// A tentative track was matched in every frame that was looked at, so its age is what counts: with frames between that
    /// were not, a new object is published little later than without. One look is enough only for who is surely there.
    fn confirm(&mut self) {
        let min_frames = self.config.probation_frames;
        let mut found_again = false;
        for index in 0..self.tracks.len() {
            let track = &self.tracks[index];
            let is_sure = self.is_coasting && track.score >= CONFIRM_SCORE;
            // Who was found by the last look came in one of the frames before it that nobody looked at, on average in the middle.
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
                found_again = true;
            } else {
                self.tracks[index].id = TrackId(self.next_id);
                self.next_id += 1;
            }
        }
        if found_again {
            self.remove_where(|track| track.state == TrackState::Ended && track.id == UNCONFIRMED);
        }
    }

    /// The lost track that the new one at `index` most likely is.
    fn find_lost_match(&self, index: usize) -> Option<usize> {
        let (new, trajectory) = (&self.tracks[index], self.trajectories.get(index)?);
        let mut best: Option<(f32, usize)> = None;
        for (at, (lost, lost_trajectory)) in self.tracks.iter().zip(&self.trajectories).enumerate()
        {
            let other_class =
                self.config.class_match == ClassMatch::Same && lost.class != new.class;
            if lost.state != TrackState::Lost || other_class {
                continue;
            }
            let Some(distance) =
                lost_trajectory.distance(lost.age_frames, trajectory, new.age_frames)
            else {
                continue;
            };
            // Of equals the older one.
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// The track at `new` is the lost one, which is no track of its own any more.
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
        // The path goes on in the age of the whole.
        self.trajectories[new].shift_age(age.saturating_sub(track.age_frames));
        track.age_frames = age;
    }

    /// Removes the tracks for which `remove` holds; the others keep their order.
    fn remove_where(&mut self, remove: impl Fn(&Track) -> bool) {
        let mut kept = 0;
        for index in 0..self.tracks.len() {
            if remove(&self.tracks[index]) {
                continue;
            }
            if kept != index {
                self.tracks.swap(kept, index);
                self.creation_ids.swap(kept, index);
                if self.model.is_some() {
                    self.kalman_boxes.swap(kept, index);
                }
                if !self.trajectories.is_empty() {
                    self.trajectories.swap(kept, index);
                }
            }
            kept += 1;
        }
        self.tracks.truncate(kept);
        self.creation_ids.truncate(kept);
        self.kalman_boxes.truncate(kept);
        self.trajectories.truncate(kept);
    }
}

/// A box made larger on each side by this share of its width and height.
fn enlarge([left, top, right, bottom]: &Xyxy, ratio: f32) -> Xyxy {
    let (across, down) = ((right - left) * ratio, (bottom - top) * ratio);
    [left - across, top - down, right + across, bottom + down]
}

/// Best score first; equal ones by class, then by their edges. Detections that are equal in all are the same.
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

/// A frame in which the track was matched.
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

/// A frame in which it was not.
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
