//! The IOU tracker: a detection belongs to the track whose last box it overlaps most.
//!
//! It predicts nothing and looks at no pixel, so a lost track keeps its last box. What it has over the plain form is the
//! order of choice: confirmed tracks seen in the previous frame first, then lost ones, then tentative ones. A stale box
//! thus never takes a detection from a track that is doing well, and a false start never one from either.
//! The pipeline calls [`IouTracker::update`] once for every frame of one source, in order, frames without detections too.

use crate::config::{ClassMatch, TrackerConfig};
use crate::types::{Detection, Track, TrackId, TrackState, intersection_over_union};

use super::assignment::{Assigner, Candidate};

/// The id of a track that has none yet, because it is [`TrackState::Tentative`].
pub const UNCONFIRMED: TrackId = TrackId(0);

/// Tracks the objects of one source. Allocates only when a frame holds more than any before.
#[derive(Debug)]
pub struct IouTracker {
    config: TrackerConfig,
    /// All tracks in the order of their first detection; Ended ones stay until the next call so that they are reported once.
    tracks: Vec<Track>,
    /// The birth number of each of them.
    births: Vec<u64>,
    next_birth: u64,
    next_id: u64,
    candidates: Vec<Candidate>,
    assigner: Assigner,
}

impl IouTracker {
    /// A tracker without tracks. Its first id is 1.
    #[must_use]
    pub fn new(config: &TrackerConfig) -> Self {
        Self {
            config: config.clone(),
            tracks: Vec::new(),
            births: Vec::new(),
            next_birth: 0,
            next_id: 1,
            candidates: Vec::new(),
            assigner: Assigner::new(config.association),
        }
    }

    /// Takes the detections of the source's next frame and returns all tracks as they stand after it, in the order of
    /// their first detection: tentative, active, lost, and those that ended in this very frame.
    pub fn update(&mut self, detections: &[Detection]) -> &[Track] {
        self.forget(|track| track.state == TrackState::Ended);
        self.find_candidates(detections);
        let pairing =
            self.assigner
                .assign(&mut self.candidates, self.tracks.len(), detections.len());
        for (track, detection) in self.tracks.iter_mut().zip(&pairing.detection_of_track) {
            track.age_frames = track.age_frames.saturating_add(1);
            match detection {
                Some(index) => see(track, &detections[*index]),
                None => miss(track, self.config.max_lost_frames),
            }
        }
        for (detection, track) in detections.iter().zip(&pairing.track_of_detection) {
            if track.is_none() && detection.score >= self.config.min_new_track_score {
                self.tracks.push(begin(detection));
                self.births.push(self.next_birth);
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

    /// Lists all pairs that overlap enough and may be of one class.
    fn find_candidates(&mut self, detections: &[Detection]) {
        self.candidates.clear();
        for (track, known) in self.tracks.iter().enumerate() {
            let rank = match known.state {
                TrackState::Active => 0,
                TrackState::Lost => 1,
                TrackState::Tentative | TrackState::Ended => 2,
            };
            let [left, top, right, bottom] = known.xyxy;
            for (detection, seen) in detections.iter().enumerate() {
                // Most pairs are apart; four comparisons without branches between them spare the division.
                let [l, t, r, b] = seen.xyxy;
                if !((l < right) & (r > left) & (t < bottom) & (b > top)) {
                    continue;
                }
                if self.config.class_match == ClassMatch::Same && seen.class != known.class {
                    continue;
                }
                let iou = intersection_over_union(&known.xyxy, &seen.xyxy);
                if iou >= self.config.min_iou {
                    self.candidates.push(Candidate {
                        rank,
                        track,
                        detection,
                        iou,
                    });
                }
            }
        }
    }

    /// Confirms tentative tracks that have passed their probation and gives them their ids.
    fn confirm(&mut self) {
        for track in &mut self.tracks {
            if track.state == TrackState::Tentative && track.hits >= self.config.probation_frames {
                track.state = TrackState::Active;
                track.id = TrackId(self.next_id);
                self.next_id += 1;
            }
        }
    }

    /// Removes the tracks for which `gone` holds; the others keep their order.
    fn forget(&mut self, gone: impl Fn(&Track) -> bool) {
        let mut kept = 0;
        for index in 0..self.tracks.len() {
            if !gone(&self.tracks[index]) {
                self.tracks.swap(kept, index);
                self.births.swap(kept, index);
                kept += 1;
            }
        }
        self.tracks.truncate(kept);
        self.births.truncate(kept);
    }
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
mod tests {
    use super::*;
    use crate::config::Association;
    use crate::types::Xyxy;

    fn config() -> TrackerConfig {
        TrackerConfig {
            association: Association::Greedy,
            min_iou: 0.3,
            probation_frames: 3,
            max_lost_frames: 2,
            class_match: ClassMatch::Same,
            min_new_track_score: 0.0,
        }
    }

    fn found(class: u16, score: f32, xyxy: Xyxy) -> Detection {
        Detection { class, score, xyxy }
    }

    /// A square of 100 pixels whose left edge is at `x`.
    fn square(x: f32) -> Detection {
        found(0, 0.5, [x, 0.0, x + 100.0, 100.0])
    }

    /// `(id, state)` of every track.
    fn states(tracks: &[Track]) -> Vec<(u64, TrackState)> {
        tracks
            .iter()
            .map(|track| (track.id.0, track.state))
            .collect()
    }

    #[test]
    fn the_whole_life_of_one_track() {
        use TrackState::{Active, Ended, Lost, Tentative};
        let mut tracker = IouTracker::new(&config());
        type Step<'a> = (&'a [Detection], &'a [(u64, TrackState)]);
        let steps: [Step<'_>; 13] = [
            (&[], &[]),
            (&[square(0.0)], &[(0, Tentative)]),
            (&[square(10.0)], &[(0, Tentative)]),
            (&[square(20.0)], &[(1, Active)]),
            (&[square(30.0)], &[(1, Active)]),
            (&[], &[(1, Lost)]),
            (&[], &[(1, Lost)]),
            (&[square(40.0)], &[(1, Active)]),
            (&[], &[(1, Lost)]),
            (&[], &[(1, Lost)]),
            (&[], &[(1, Ended)]),
            (&[], &[]),
            (&[square(40.0)], &[(0, Tentative)]),
        ];
        for (frame, (detections, wanted)) in steps.iter().enumerate() {
            assert_eq!(states(tracker.update(detections)), *wanted, "frame {frame}");
        }
    }

    #[test]
    fn what_a_track_tells_about_itself() {
        let mut tracker = IouTracker::new(&TrackerConfig {
            class_match: ClassMatch::Any,
            ..config()
        });
        tracker.update(&[found(4, 0.6, [0.0, 0.0, 10.0, 10.0])]);
        tracker.update(&[found(4, 0.9, [1.0, 0.0, 11.0, 10.0])]);
        tracker.update(&[found(7, 0.7, [2.0, 0.0, 12.0, 10.0])]);
        let wanted = Track {
            id: TrackId(1),
            state: TrackState::Lost,
            class: 7,
            score: 0.7,
            top_score: 0.9,
            xyxy: [2.0, 0.0, 12.0, 10.0],
            age_frames: 4,
            hits: 3,
            lost_frames: 1,
        };
        assert_eq!(tracker.update(&[]), [wanted]);
    }

    #[test]
    fn a_tentative_track_that_misses_a_frame_is_forgotten_and_its_id_never_given() {
        let mut tracker = IouTracker::new(&config());
        tracker.update(&[square(0.0)]);
        tracker.update(&[square(0.0)]);
        assert_eq!(tracker.update(&[]), []);
        for _ in 0..3 {
            tracker.update(&[square(500.0)]);
        }
        assert_eq!(
            states(tracker.update(&[square(500.0)])),
            [(1, TrackState::Active)]
        );
    }

    #[test]
    fn ids_are_dense_in_the_order_of_confirmation() {
        let mut tracker = IouTracker::new(&config());
        tracker.update(&[square(0.0)]);
        tracker.update(&[square(0.0), square(300.0)]);
        tracker.update(&[square(300.0), square(600.0)]);
        tracker.update(&[square(300.0), square(600.0)]);
        let last = tracker.update(&[square(600.0), square(300.0)]);
        assert_eq!(
            states(last),
            [(1, TrackState::Active), (2, TrackState::Active)]
        );
        assert_eq!(last[0].xyxy[0], 300.0);
        assert_eq!(tracker.births(), [1, 2]);
    }

    #[test]
    fn probation_of_one_confirms_at_once_and_no_patience_ends_at_once() {
        let mut tracker = IouTracker::new(&TrackerConfig {
            probation_frames: 1,
            max_lost_frames: 0,
            ..config()
        });
        assert_eq!(
            states(tracker.update(&[square(0.0)])),
            [(1, TrackState::Active)]
        );
        assert_eq!(
            states(tracker.update(&[square(300.0)])),
            [(1, TrackState::Ended), (2, TrackState::Active)]
        );
    }

    #[test]
    fn an_active_track_chooses_before_a_lost_one_with_a_better_box() {
        for association in [Association::Greedy, Association::Optimal] {
            let mut tracker = IouTracker::new(&TrackerConfig {
                probation_frames: 1,
                association,
                ..config()
            });
            tracker.update(&[square(0.0), square(140.0)]);
            // The first is lost where it stood; the second walks into its place.
            tracker.update(&[square(90.0)]);
            tracker.update(&[square(50.0)]);
            let tracks = tracker.update(&[square(5.0)]);
            assert_eq!(
                states(tracks),
                [(1, TrackState::Ended), (2, TrackState::Active)],
                "{association:?}"
            );
        }
    }

    #[test]
    fn classes_stay_apart_unless_any_may_match() {
        for (class_match, wanted) in [(ClassMatch::Same, 2), (ClassMatch::Any, 1)] {
            let mut tracker = IouTracker::new(&TrackerConfig {
                probation_frames: 1,
                class_match,
                ..config()
            });
            tracker.update(&[found(1, 0.5, [0.0, 0.0, 9.0, 9.0])]);
            assert_eq!(
                tracker.update(&[found(2, 0.5, [0.0, 0.0, 9.0, 9.0])]).len(),
                wanted,
                "{class_match:?}"
            );
        }
    }

    #[test]
    fn a_weak_detection_keeps_a_track_but_starts_none() {
        let mut tracker = IouTracker::new(&TrackerConfig {
            probation_frames: 1,
            min_new_track_score: 0.5,
            ..config()
        });
        assert_eq!(tracker.update(&[found(0, 0.4, [0.0, 0.0, 9.0, 9.0])]), []);
        tracker.update(&[found(0, 0.5, [0.0, 0.0, 9.0, 9.0])]);
        assert_eq!(
            states(tracker.update(&[found(0, 0.4, [0.0, 0.0, 9.0, 9.0])])),
            [(1, TrackState::Active)]
        );
    }

    #[test]
    fn the_least_overlap_counts_exactly() {
        let mut tracker = IouTracker::new(&TrackerConfig {
            probation_frames: 1,
            min_iou: 0.5,
            ..config()
        });
        tracker.update(&[found(0, 0.5, [0.0, 0.0, 10.0, 10.0])]);
        assert_eq!(
            tracker
                .update(&[found(0, 0.5, [0.0, 0.0, 10.0, 5.0])])
                .len(),
            1,
            "an IOU of 0.5 is enough"
        );
        assert_eq!(
            tracker
                .update(&[found(0, 0.5, [0.0, 0.0, 10.0, 2.4])])
                .len(),
            2,
            "one of 0.48 is not"
        );
    }

    #[test]
    fn a_box_that_is_no_box_starts_a_track_that_matches_nothing() {
        let mut tracker = IouTracker::new(&config());
        for _ in 0..5 {
            let tracks = tracker.update(&[found(0, 0.5, [f32::NAN; 4]), found(0, 0.5, [5.0; 4])]);
            assert!(
                tracks
                    .iter()
                    .all(|track| track.state == TrackState::Tentative && track.hits == 1)
            );
        }
    }

    #[test]
    fn finish_ends_the_confirmed_once_and_goes_on_with_new_ids() {
        let mut tracker = IouTracker::new(&config());
        for _ in 0..3 {
            tracker.update(&[square(0.0)]);
        }
        tracker.update(&[square(0.0), square(300.0)]);
        assert_eq!(states(tracker.finish()), [(1, TrackState::Ended)]);
        assert_eq!(tracker.finish(), []);
        for _ in 0..2 {
            tracker.update(&[square(0.0)]);
        }
        assert_eq!(
            states(tracker.update(&[square(0.0)])),
            [(2, TrackState::Active)]
        );
    }
}
