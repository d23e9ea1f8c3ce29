// SPDX-License-Identifier: Apache-2.0
//! CLEAR MOT, counted frame by frame: how well tracks match known objects over a sequence (Bernardin and Stiefelhagen, 2008).
//! Pure.
//!
//! An object without a track is a miss, a track without an object a false positive, and an object whose track is another than
//! the last it had a switch: `MOTA = 1 − (misses + false positives + switches) / objects`. The matching is that of
//! [`Metrics`](crate::Metrics), TrackEval's convention; added here are classes, which must agree, and ignored objects, hidden ones
//! for example: they need not be found, and tracks that lie mostly in them are not counted as wrong.

use jetwatch_types::{Xyxy, area};

use crate::mot_metrics::{ClearMatcher, iou, mota};

/// A known object in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroundTruthObject {
    /// Identity over the sequence.
    pub id: u32,
    /// Class, in the numbering of the tracks.
    pub class: u16,
    /// Box in the pixels of the tracks' boxes.
    pub xyxy: Xyxy,
    /// Ignored: neither a miss when not found, nor a false positive when found.
    pub ignored: bool,
}

/// A track, or with any unique number a detection, in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hypothesis {
    /// Identity over the sequence.
    pub id: u64,
    /// Class index.
    pub class: u16,
    /// Bounding box.
    pub xyxy: Xyxy,
}

/// Counts over a sequence.
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
    /// Multiple object tracking accuracy, at most 1 and without a minimum; `None` without objects.
    pub fn mota(&self) -> Option<f64> {
        let errors = self.misses + self.false_positives + self.switches;
        mota(errors, self.objects)
    }

    /// Share of the objects that were found, 0 to 1; `None` without objects.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        (self.objects > 0).then(|| self.matches as f64 / self.objects as f64)
    }

    /// Share of the tracks that are objects, 0 to 1; `None` without tracks.
    pub fn precision(&self) -> Option<f64> {
        let tracks = self.matches + self.false_positives;
        (tracks > 0).then(|| self.matches as f64 / tracks as f64)
    }
}

/// Counts over one sequence, frame by frame.
#[derive(Debug)]
pub struct ClearMotCounter {
    min_iou: f32,
    matcher: ClearMatcher<u32, u64>,
    frames: u64,
    objects: u64,
    false_positives: u64,
}

impl ClearMotCounter {
    /// Boxes match at an IOU of at least `min_iou`, usually 0.5, and only within a class.
    pub fn new(min_iou: f32) -> Self {
        Self {
            min_iou,
            matcher: ClearMatcher::new(f64::from(min_iou)),
            frames: 0,
            objects: 0,
            false_positives: 0,
        }
    }

    /// Counts one frame; frames come in order, and omitted ones are not counted.
    pub fn frame(&mut self, objects: &[GroundTruthObject], tracks: &[Hypothesis]) {
        let (ignored, required): (Vec<&GroundTruthObject>, Vec<&GroundTruthObject>) =
            objects.iter().partition(|object| object.ignored);
        let object_ids: Vec<u32> = required.iter().map(|object| object.id).collect();
        let track_ids: Vec<u64> = tracks.iter().map(|track| track.id).collect();
        let pairs = self
            .matcher
            .frame(&object_ids, &track_ids, |object, track| {
                let (object, track) = (required[object], &tracks[track]);
                if object.class == track.class {
                    iou(&object.xyxy, &track.xyxy)
                } else {
                    0.0
                }
            });
        let mut is_matched = vec![false; tracks.len()];
        for track in pairs.iter().flatten() {
            is_matched[*track] = true;
        }
        let wrong = tracks.iter().zip(is_matched).filter(|(track, taken)| {
            let is_ignored =
                |object: &&GroundTruthObject| mostly_within(track, object, self.min_iou);
            !taken && !ignored.iter().any(is_ignored)
        });
        self.false_positives += wrong.count() as u64;
        self.objects += required.len() as u64;
        self.frames += 1;
    }

    /// Counts so far.
    pub fn counts(&self) -> ClearMot {
        let counts = self.matcher.counts();
        ClearMot {
            frames: self.frames,
            objects: self.objects,
            matches: counts.matches,
            misses: self.objects - counts.matches,
            false_positives: self.false_positives,
            switches: counts.switches,
        }
    }
}

/// Whether at least `share` of the track's box lies in the ignored object's: a part of a hidden object has no box.
fn mostly_within(track: &Hypothesis, object: &GroundTruthObject, share: f32) -> bool {
    track.class == object.class && is_within(&track.xyxy, &object.xyxy, share)
}

/// Whether at least `share` of the first box, which has an area, lies in the second one.
pub(crate) fn is_within(inner: &Xyxy, outer: &Xyxy, share: f32) -> bool {
    let both = [
        inner[0].max(outer[0]),
        inner[1].max(outer[1]),
        inner[2].min(outer[2]),
        inner[3].min(outer[3]),
    ];
    area(&both) >= share * area(inner) && area(inner) > 0.0
}

#[cfg(test)]
mod tests {
    use jetwatch_types::TrackId;

    use super::*;
    use crate::{Metrics, TrackRow, TruthRow};

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

    /// Two boxes that overlap, of which a track in the middle overlaps the second more: best pair first would lose the first.
    const CROWDED: (&[f32], &[f32]) = (&[0.0, 3.0], &[2.0, 6.0]);

    #[test]
    fn each_case_has_its_counts() {
        let still = [object(1, 0.0)];
        let hidden = GroundTruthObject {
            ignored: true,
            ..object(3, 100.0)
        };
        let part = Hypothesis {
            xyxy: [102.0, 2.0, 106.0, 6.0],
            ..track(4, 0.0)
        };
        let other_class = Hypothesis {
            class: 1,
            ..track(7, 0.0)
        };
        type Frames<'a> = &'a [(&'a [GroundTruthObject], &'a [Hypothesis])];
        // Expected: frames, objects, matches, misses, false positives, switches.
        #[rustfmt::skip]
        let cases: [(&str, Frames, [u64; 6]); 6] = [
            (
                "a miss, a false positive, a switch",
                &[
                    (
                        &[object(1, 0.0), object(2, 50.0)],
                        &[track(7, 1.0), track(8, 200.0)],
                    ),
                    (
                        &[object(1, 2.0), object(2, 52.0)],
                        &[track(9, 2.0), track(8, 53.0)],
                    ),
                ],
                [2, 4, 3, 1, 1, 1],
            ),
            ("an object keeps its track although another overlaps more", &[(&still, &[track(7, 0.0)]), (&still, &[track(8, 0.0), track(7, 3.0)])], [2, 2, 2, 0, 1, 0]),
            ("a switch counts after a gap", &[(&still, &[track(7, 0.0)]), (&still, &[]), (&still, &[track(8, 0.0)]), (&still, &[track(8, 0.0)])], [4, 4, 3, 1, 0, 1]),
            ("pairs have the greatest total overlap", &[(&[object(1, 0.0), object(2, 3.0)], &[track(7, 2.0), track(8, 6.0)])], [1, 2, 2, 0, 0, 0]),
            ("an ignored object is not required, and its track is not wrong", &[(&[object(1, 0.0), hidden], &[track(7, 0.0), part, track(9, 300.0)])], [1, 1, 1, 0, 1, 0]),
            ("other classes do not match", &[(&still, &[other_class])], [1, 1, 0, 1, 1, 0]),
        ];
        for (name, frames, expected) in cases {
            let found = counted(frames);
            let numbers = [
                found.frames,
                found.objects,
                found.matches,
                found.misses,
                found.false_positives,
                found.switches,
            ];
            assert_eq!(numbers, expected, "{name}");
        }
        let counts = counted(cases[0].1);
        assert_eq!(counts.mota(), Some(0.25));
        assert_eq!(
            (counts.recall(), counts.precision()),
            (Some(0.75), Some(0.75))
        );
        assert_eq!(ClearMot::default().mota(), None);
    }

    #[test]
    fn counts_agree_with_metrics_of_the_whole_sequence() {
        type FrameBoxes<'a> = (&'a [f32], &'a [(u64, f32)]);
        let frames: [FrameBoxes; 5] = [
            (&[0.0, 50.0], &[(7, 1.0), (8, 200.0)]),
            (CROWDED.0, &[(7, 2.0), (9, 6.0)]),
            (&[0.0, 3.0], &[]),
            (&[0.0, 3.0], &[(10, 0.0), (7, 3.0)]),
            (&[], &[(9, 0.0)]),
        ];
        let mut counter = ClearMotCounter::new(0.5);
        let (mut truth, mut rows) = (Vec::new(), Vec::new());
        for (frame, (objects, tracks)) in (1..).zip(frames) {
            let objects: Vec<_> = (1..)
                .zip(objects)
                .map(|(id, left)| object(id, *left))
                .collect();
            let tracks: Vec<_> = tracks.iter().map(|(id, left)| track(*id, *left)).collect();
            counter.frame(&objects, &tracks);
            truth.extend(objects.iter().map(|object| TruthRow {
                frame,
                object: u64::from(object.id),
                xyxy: object.xyxy,
            }));
            rows.extend(tracks.iter().map(|track| TrackRow {
                frame,
                id: TrackId(track.id),
                xyxy: track.xyxy,
                score: 1.0,
                class: 0,
            }));
        }
        let (counts, metrics) = (counter.counts(), Metrics::new(&truth, &rows));
        assert_eq!(counts.mota(), Some(metrics.mota()));
        assert_eq!(
            (counts.misses, counts.false_positives, counts.switches),
            (
                metrics.misses(),
                metrics.false_positives(),
                metrics.switches()
            )
        );
        assert!(counts.switches > 0 && counts.misses > 0, "{counts:?}");
    }
}
