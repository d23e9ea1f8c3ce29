//! CLEAR MOT: how well tracks follow known objects over a sequence (Bernardin and Stiefelhagen, 2008). Pure.
//!
//! Frame by frame, an object keeps the track that it had if both still overlap enough; the others are paired best overlap
//! first. An object without a track is a miss, a track without an object a false positive, and an object whose track is
//! another than the last it had a switch: `MOTA = 1 − (misses + false positives + switches) / objects`. The original pairs
//! for the least total distance instead of greedily; at overlaps of a half and more both give the same pairs but for
//! boxes that nearly coincide. Objects marked as ignored, hidden ones for example, are not asked for, and tracks on them
//! are not counted as wrong.

use std::collections::HashMap;

use jetwatch_types::{Xyxy, area, intersection_over_union};

/// A known object in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroundTruthObject {
    /// Its identity over the sequence.
    pub id: u32,
    /// Its class, in the numbering of the tracks.
    pub class: u16,
    /// Its box in the pixels of the tracks' boxes.
    pub xyxy: Xyxy,
    /// Neither asked for nor counted as wrong.
    pub ignored: bool,
}

/// A track, or with any unique number a detection, in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hypothesis {
    /// Its identity over the sequence.
    pub id: u64,
    /// Its class.
    pub class: u16,
    /// Its box.
    pub xyxy: Xyxy,
}

/// What was counted over a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClearMot {
    /// Frames.
    pub frames: u64,
    /// Objects to be found, over all frames.
    pub objects: u64,
    /// Objects with a track.
    pub matches: u64,
    /// Objects without one.
    pub misses: u64,
    /// Tracks without an object, ignored ones included.
    pub false_positives: u64,
    /// Changes of an object's track.
    pub switches: u64,
}

impl ClearMot {
    /// Multiple object tracking accuracy, at most 1 and without a least; `None` without objects.
    #[must_use]
    pub fn mota(&self) -> Option<f64> {
        let errors = self.misses + self.false_positives + self.switches;
        (self.objects > 0).then(|| 1.0 - errors as f64 / self.objects as f64)
    }

    /// Share of the objects that were found, 0 to 1; `None` without objects.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        (self.objects > 0).then(|| self.matches as f64 / self.objects as f64)
    }

    /// Share of the tracks that are objects, 0 to 1; `None` without tracks.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        let tracks = self.matches + self.false_positives;
        (tracks > 0).then(|| self.matches as f64 / tracks as f64)
    }
}

/// Follows one sequence.
#[derive(Debug)]
pub struct ClearMotCounter {
    min_iou: f32,
    /// The last track of each object.
    last: HashMap<u32, u64>,
    counts: ClearMot,
}

impl ClearMotCounter {
    /// Boxes match at an IOU of at least `min_iou`, usually 0.5, and only within a class.
    #[must_use]
    pub fn new(min_iou: f32) -> Self {
        Self {
            min_iou,
            last: HashMap::new(),
            counts: ClearMot::default(),
        }
    }

    /// Counts one frame; frames come in their order, left-out ones are simply not counted.
    pub fn frame(&mut self, objects: &[GroundTruthObject], tracks: &[Hypothesis]) {
        let overlap = |object: &GroundTruthObject, track: &Hypothesis| {
            if object.class == track.class {
                intersection_over_union(&object.xyxy, &track.xyxy)
            } else {
                0.0
            }
        };
        let mut is_matched = vec![false; tracks.len()];
        let mut found = vec![None; objects.len()];
        for (object, found) in objects.iter().zip(&mut found) {
            let Some(last) = self.last.get(&object.id) else {
                continue;
            };
            let same =
                (0..tracks.len()).find(|track| tracks[*track].id == *last && !is_matched[*track]);
            if let Some(track) = same
                && overlap(object, &tracks[track]) >= self.min_iou
            {
                (*found, is_matched[track]) = (Some(track), true);
            }
        }
        let mut pairs: Vec<(f32, usize, usize)> = Vec::new();
        for (index, object) in objects.iter().enumerate() {
            if found[index].is_none() {
                let near =
                    (0..tracks.len()).map(|track| (overlap(object, &tracks[track]), index, track));
                pairs.extend(
                    near.filter(|(iou, _, track)| *iou >= self.min_iou && !is_matched[*track]),
                );
            }
        }
        // Objects that are asked for come before ignored ones; equal overlaps go by their places.
        pairs.sort_by(|a, b| {
            let ignored = |pair: &(f32, usize, usize)| objects[pair.1].ignored;
            ignored(a)
                .cmp(&ignored(b))
                .then(b.0.total_cmp(&a.0))
                .then((a.1, a.2).cmp(&(b.1, b.2)))
        });
        for (_, object, track) in pairs {
            if found[object].is_none() && !is_matched[track] {
                (found[object], is_matched[track]) = (Some(track), true);
            }
        }
        for (object, found) in objects.iter().zip(found) {
            let before = found.and_then(|track| self.last.insert(object.id, tracks[track].id));
            if object.ignored {
                continue;
            }
            self.counts.objects += 1;
            match found {
                Some(track) => {
                    self.counts.matches += 1;
                    let changed = before.is_some_and(|before| before != tracks[track].id);
                    self.counts.switches += u64::from(changed);
                }
                None => self.counts.misses += 1,
            }
        }
        let wrong = tracks.iter().zip(is_matched).filter(|(track, taken)| {
            !taken
                && !objects
                    .iter()
                    .any(|object| object.ignored && mostly_within(track, object, self.min_iou))
        });
        self.counts.false_positives += wrong.count() as u64;
        self.counts.frames += 1;
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> ClearMot {
        self.counts
    }
}

/// Whether at least `share` of the track's box lies in the ignored object's: a part of something hidden has no own box.
fn mostly_within(track: &Hypothesis, object: &GroundTruthObject, share: f32) -> bool {
    let (a, b) = (&track.xyxy, &object.xyxy);
    let both = [
        a[0].max(b[0]),
        a[1].max(b[1]),
        a[2].min(b[2]),
        a[3].min(b[3]),
    ];
    track.class == object.class && area(&both) >= share * area(a) && area(a) > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: u32, left: f32) -> GroundTruthObject {
        GroundTruthObject {
            id,
            class: 0,
            xyxy: [left, 0.0, left + 10.0, 10.0],
            ignored: false,
        }
    }

    fn track(id: u64, left: f32) -> Hypothesis {
        Hypothesis {
            id,
            class: 0,
            xyxy: [left, 0.0, left + 10.0, 10.0],
        }
    }

    fn counted(frames: &[(&[GroundTruthObject], &[Hypothesis])]) -> ClearMot {
        let mut counter = ClearMotCounter::new(0.5);
        for (objects, tracks) in frames {
            counter.frame(objects, tracks);
        }
        counter.counts()
    }

    #[test]
    fn misses_false_positives_and_switches_are_counted() {
        let counts = counted(&[
            (
                &[object(1, 0.0), object(2, 50.0)],
                &[track(7, 1.0), track(8, 200.0)],
            ),
            (
                &[object(1, 2.0), object(2, 52.0)],
                &[track(9, 2.0), track(8, 53.0)],
            ),
        ]);
        let wanted = ClearMot {
            frames: 2,
            objects: 4,
            matches: 3,
            misses: 1,
            false_positives: 1,
            switches: 1,
        };
        assert_eq!(counts, wanted);
        assert_eq!(counts.mota(), Some(0.25));
        assert_eq!(
            (counts.recall(), counts.precision()),
            (Some(0.75), Some(0.75))
        );
        assert_eq!(ClearMot::default().mota(), None);
    }

    #[test]
    fn an_object_keeps_its_track_although_another_overlaps_more() {
        let counts = counted(&[
            (&[object(1, 0.0)], &[track(7, 0.0)]),
            (&[object(1, 0.0)], &[track(8, 0.0), track(7, 3.0)]),
        ]);
        assert_eq!(
            (counts.switches, counts.false_positives, counts.matches),
            (0, 1, 2)
        );
    }

    #[test]
    fn identity_switch_counts_after_gap() {
        let counts = counted(&[
            (&[object(1, 0.0)], &[track(7, 0.0)]),
            (&[object(1, 0.0)], &[]),
            (&[object(1, 0.0)], &[track(8, 0.0)]),
            (&[object(1, 0.0)], &[track(8, 0.0)]),
        ]);
        assert_eq!((counts.switches, counts.misses), (1, 1));
    }

    #[test]
    fn ignored_objects_are_not_required_and_their_tracks_are_not_false_positives() {
        let hidden = GroundTruthObject {
            ignored: true,
            ..object(3, 100.0)
        };
        let part = Hypothesis {
            xyxy: [102.0, 2.0, 106.0, 6.0],
            ..track(4, 0.0)
        };
        let counts = counted(&[(
            &[object(1, 0.0), hidden],
            &[track(7, 0.0), part, track(9, 300.0)],
        )]);
        assert_eq!(
            (counts.objects, counts.misses, counts.false_positives),
            (1, 0, 1)
        );
    }

    #[test]
    fn other_classes_do_not_match() {
        let other = Hypothesis {
            class: 1,
            ..track(7, 0.0)
        };
        let counts = counted(&[(&[object(1, 0.0)], &[other])]);
        assert_eq!((counts.misses, counts.false_positives), (1, 1));
    }
}
