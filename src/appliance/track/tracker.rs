//! One source's tracker: IOU, SORT or ByteTrack behind one constructor. Detections in, tracks out, frame by frame.
//!
//! All three keep one list of tracks, one life and one way of choosing pairs. They differ in three places: what box a track
//! is expected to have (its last one, or what [`motion`](super::motion) predicts), which pairs are open at which rank
//! ([`stages`](super::stages)), and which box is told. The pipeline calls [`Tracker::update`] once for every frame of
//! one source, in order, frames without detections too, and [`Tracker::carry`] for those that skipped the network.
//!
//! The order of the detections in a frame means nothing: they are sorted first, so that ids do not depend on how a
//! detector happens to list them.

use std::cmp::Ordering;

use jetwatch_config::{ClassMatch, TrackerConfig, TrackerKind};
use jetwatch_types::{Detection, Track, TrackId, TrackState, Xyxy, intersection_over_union};

use super::assignment::{Assigner, Candidate};
use super::motion::{InSight, Motion, MotionModel};
use super::overlaps::Overlaps;
use super::reassociate::Path;
use super::stages::{Overlap, Stages};

/// The id of a track that has none yet, because it is [`TrackState::Tentative`].
pub const UNCONFIRMED: TrackId = TrackId(0);

/// A score at which one look at an object is enough to publish it, once its probation is over: ByteTrack's for new tracks.
const SURE: f32 = 0.6;

/// Rank of pairs that overlap only when both boxes are made larger: behind all others.
const DISTANT: u8 = 8;

/// By how much they are made larger, as in buffered IOU (C-BIoU): on each side, a quarter of their width and height for each
/// frame since the object was seen, which is that paper's half with every second frame, and at most the whole.
const REACH: f32 = 0.25;
const MOST_REACH: f32 = 1.0;

/// Tracks the objects of one source. Allocates only when a frame holds more than any before.
#[derive(Debug)]
pub struct Tracker {
    config: TrackerConfig,
    stages: Stages,
    model: Option<MotionModel>,
    /// Frames come that nobody looked at.
    is_carrying: bool,
    /// Frames that nobody looked at before the last look, and since then.
    skipped: u32,
    unseen: u32,
    /// The frame's detections in an order that does not depend on the detector.
    detections: Vec<Detection>,
    /// Their boxes.
    overlaps: Overlaps,
    /// All tracks in the order of their first detection; Ended ones stay until the next call so that they are reported once.
    tracks: Vec<Track>,
    /// The birth number of each of them.
    births: Vec<u64>,
    /// The motion of each of them; empty where nothing is predicted.
    motions: Vec<Motion>,
    /// The way of each of them; empty where nobody who was lost is looked for.
    paths: Vec<Path>,
    next_birth: u64,
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
            stages: Stages::new(config),
            model: match config.kind {
                TrackerKind::Iou => None,
                TrackerKind::Sort => Some(MotionModel::AreaAspect),
                TrackerKind::ByteTrack => Some(MotionModel::AspectHeight),
            },
            is_carrying: false,
            skipped: 0,
            unseen: 0,
            detections: Vec::new(),
            overlaps: Overlaps::default(),
            tracks: Vec::new(),
            births: Vec::new(),
            motions: Vec::new(),
            paths: Vec::new(),
            next_birth: 0,
            next_id: 1,
            candidates: Vec::new(),
            assigner: Assigner::new(config.association),
        }
    }

    /// The same, which also knows where its tracks are in frames without detections: for sources of which not every frame
    /// goes through the network. All of them, [`iou`](TrackerKind::Iou) too, then predict width and height each for itself.
    #[must_use]
    pub fn with_carrying(config: &TrackerConfig) -> Self {
        let mut tracker = Self::new(config);
        tracker.model = Some(MotionModel::WidthHeight);
        tracker.is_carrying = true;
        tracker
    }

    /// Takes a frame that nobody looked at, and returns all tracks as they stand in it. They go on at their velocity; nothing
    /// is missed, found or ended by it, and only [`age_frames`](Track::age_frames) counts it. A tentative track whose
    /// detection had a score of 0.6 or more may end its probation.
    pub fn carry(&mut self) -> &[Track] {
        self.forget(|track| track.state == TrackState::Ended);
        self.predict();
        self.unseen = self.unseen.saturating_add(1);
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
        self.forget(|track| track.state == TrackState::Ended);
        self.sort(detections);
        self.predict();
        self.skipped = std::mem::take(&mut self.unseen);
        self.find_candidates();
        if self.is_carrying {
            self.find_distant_candidates();
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
                    see(track, &self.detections[*detection]);
                    if let Some(path) = self.paths.get_mut(index) {
                        path.see(&track.xyxy, track.age_frames);
                    }
                    if let Some(motion) = self.motions.get_mut(index) {
                        motion.correct(&track.xyxy);
                        if self.config.kind != TrackerKind::Iou {
                            track.xyxy = motion.xyxy();
                        }
                    }
                }
                None => miss(track, self.config.most_lost_frames()),
            }
        }
        for (detection, track) in self.detections.iter().zip(&pairing.track_of_detection) {
            if track.is_none() && detection.score >= self.config.min_new_track_score {
                self.tracks.push(begin(detection));
                self.births.push(self.next_birth);
                self.motions
                    .extend(self.model.map(|model| Motion::new(model, &detection.xyxy)));
                if self.config.reassociate_frames > 0 {
                    self.paths.push(Path::new(&detection.xyxy));
                }
                self.next_birth += 1;
            }
        }
        // Nobody was told of a tentative track that ends, so it is not reported either.
        self.forget(|track| track.state == TrackState::Ended && track.id == UNCONFIRMED);
        self.confirm();
        &self.tracks
    }

    /// Ends all tracks at the end of the source and returns those that had been confirmed, now [`TrackState::Ended`].
    ///
    /// The tracker can go on afterwards, as when a file starts over; ids are not used again.
    pub fn finish(&mut self) -> &[Track] {
        self.forget(|track| matches!(track.state, TrackState::Ended | TrackState::Tentative));
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
    pub fn births(&self) -> &[u64] {
        &self.births
    }

    /// Takes the detections that the tracker looks at, best first.
    fn sort(&mut self, detections: &[Detection]) {
        let least = self.stages.least_score();
        self.detections.clear();
        self.detections.extend(
            detections
                .iter()
                .filter(|detection| least.is_none_or(|least| detection.score >= least)),
        );
        self.detections.sort_unstable_by(canonical);
    }

    /// Moves every track to where it is expected in this frame.
    fn predict(&mut self) {
        for (track, motion) in self.tracks.iter_mut().zip(&mut self.motions) {
            motion.predict(if track.state == TrackState::Lost {
                InSight::No
            } else {
                InSight::Yes
            });
            track.xyxy = motion.xyxy();
        }
    }

    /// Lists all pairs that are open to each other.
    fn find_candidates(&mut self) {
        self.candidates.clear();
        self.overlaps.take(&self.detections);
        let least = self.stages.least_overlap();
        for (track, known) in self.tracks.iter().enumerate() {
            if known.lost_frames > self.config.max_lost_frames {
                // Only a new track can be this one again.
                continue;
            }
            for (detection, iou) in self.overlaps.with(&known.xyxy, least) {
                let seen = &self.detections[detection];
                if self.config.class_match == ClassMatch::Same && seen.class != known.class {
                    continue;
                }
                let Some(stage) = self.stages.stage(known.state, seen.score) else {
                    continue;
                };
                let iou = match stage.overlap {
                    Overlap::Plain => iou,
                    Overlap::TimesScore => iou * seen.score.clamp(0.0, 1.0),
                };
                if iou >= stage.least {
                    self.candidates.push(Candidate {
                        rank: stage.rank,
                        track,
                        detection,
                        iou: stage.worth(iou),
                    });
                }
            }
        }
    }

    /// Lists pairs of detections with tracks that were seen once, whose velocity nobody knows yet: between two looks a small
    /// object goes farther than its own size. They overlap when both are made larger, and choose after all others.
    fn find_distant_candidates(&mut self) {
        for (track, known) in self.tracks.iter().enumerate() {
            // Without frames in between, a box moves little from one look to the next.
            let is_known = known.hits > 1 || known.age_frames < 2;
            if is_known || known.state == TrackState::Lost {
                continue;
            }
            let reach = (REACH * known.age_frames as f32).min(MOST_REACH);
            for (detection, seen) in self.detections.iter().enumerate() {
                let Some(stage) = self.stages.stage(known.state, seen.score) else {
                    continue;
                };
                if seen.class != known.class {
                    continue;
                }
                let iou = intersection_over_union(
                    &enlarged(&known.xyxy, reach),
                    &enlarged(&seen.xyxy, reach),
                );
                if iou >= stage.least {
                    self.candidates.push(Candidate {
                        rank: stage.rank.saturating_add(DISTANT),
                        track,
                        detection,
                        iou: stage.worth(iou),
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
        let least = self.config.probation_frames;
        let mut found_again = false;
        for index in 0..self.tracks.len() {
            let track = &self.tracks[index];
            let is_sure = self.is_carrying && track.score >= SURE;
            // Who was found by the last look came in one of the frames before it that nobody looked at, on average in the middle.
            let head_start = if track.hits == 1 { self.skipped / 2 } else { 0 };
            let age = track.age_frames.saturating_add(head_start);
            let has_passed = age >= least && (is_sure || track.hits >= least.min(2));
            if track.state != TrackState::Tentative || !has_passed {
                continue;
            }
            self.tracks[index].state = TrackState::Active;
            if let Some(lost) = self.lost_one(index) {
                self.take_over(lost, index);
                found_again = true;
            } else {
                self.tracks[index].id = TrackId(self.next_id);
                self.next_id += 1;
            }
        }
        if found_again {
            self.forget(|track| track.state == TrackState::Ended && track.id == UNCONFIRMED);
        }
    }

    /// The lost track that the new one at `index` most likely is.
    fn lost_one(&self, index: usize) -> Option<usize> {
        let (new, path) = (&self.tracks[index], self.paths.get(index)?);
        let mut best: Option<(f32, usize)> = None;
        for (at, (lost, lost_path)) in self.tracks.iter().zip(&self.paths).enumerate() {
            let other_class =
                self.config.class_match == ClassMatch::Same && lost.class != new.class;
            if lost.state != TrackState::Lost || other_class {
                continue;
            }
            let Some(distance) = lost_path.distance(lost.age_frames, path, new.age_frames) else {
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
    fn take_over(&mut self, lost: usize, new: usize) {
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
        self.paths[new].age_by(age.saturating_sub(track.age_frames));
        track.age_frames = age;
    }

    /// Removes the tracks for which `gone` holds; the others keep their order.
    fn forget(&mut self, gone: impl Fn(&Track) -> bool) {
        let mut kept = 0;
        for index in 0..self.tracks.len() {
            if gone(&self.tracks[index]) {
                continue;
            }
            if kept != index {
                self.tracks.swap(kept, index);
                self.births.swap(kept, index);
                if self.model.is_some() {
                    self.motions.swap(kept, index);
                }
                if !self.paths.is_empty() {
                    self.paths.swap(kept, index);
                }
            }
            kept += 1;
        }
        self.tracks.truncate(kept);
        self.births.truncate(kept);
        self.motions.truncate(kept);
        self.paths.truncate(kept);
    }
}

/// A box made larger on each side by this share of its width and height.
fn enlarged([left, top, right, bottom]: &Xyxy, reach: f32) -> Xyxy {
    let (across, down) = ((right - left) * reach, (bottom - top) * reach);
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
fn begin(detection: &Detection) -> Track {
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
fn see(track: &mut Track, detection: &Detection) {
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
fn miss(track: &mut Track, max_lost_frames: u32) {
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
