// SPDX-License-Identifier: Apache-2.0
//! Matches detections with objects by COCO's protocol, for one class and one range of sizes, image by image.
//!
//! Detections are matched in the order of their scores, each with the free object that it overlaps most. A crowd may match
//! any number of times, and an object outside of the range of sizes once, but only detections without another match;
//! neither counts. A detection without a match is wrong, unless its own size is outside of the range.

use super::{Object, Prediction, Xywh};

/// Maximum number of detections in one image of one class.
pub(crate) const MAX_PREDICTIONS: usize = 100;

/// Overlaps (intersection over union) at which detections are matched: 0.5 to 0.95.
pub(super) const IOU_THRESHOLDS: usize = 10;

/// The overlap of index `index`, equal to that of COCO's program to the last bit.
pub(super) fn iou_threshold(index: usize) -> f64 {
    if index + 1 == IOU_THRESHOLDS {
        return 0.95;
    }
    index as f64 * ((0.95 - 0.5) / 9.0) + 0.5
}

/// A range of areas in square pixels, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AreaRange {
    min: f64,
    max: f64,
}

impl AreaRange {
    pub(super) const ALL: Self = Self::new(0.0, 1e10);
    pub(super) const SMALL: Self = Self::new(0.0, 1024.0);
    pub(super) const MEDIUM: Self = Self::new(1024.0, 9216.0);
    pub(super) const LARGE: Self = Self::new(9216.0, 1e10);

    const fn new(min: f64, max: f64) -> Self {
        Self { min, max }
    }

    fn contains(self, area: f64) -> bool {
        self.min <= area && area <= self.max
    }
}

/// One matched detection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScoredMatch {
    /// Score of the detection.
    pub(super) score: f64,
    /// Index of the image.
    pub(super) image: usize,
    /// Rank among the detections of its class in the image, from 0.
    pub(super) rank: u16,
    /// One bit per overlap: the detection is right.
    pub(super) matched: u16,
    /// One bit per overlap: the detection is wrong. If neither, it does not count.
    pub(super) unmatched: u16,
}

/// All detections of one class, matched for one range of sizes.
#[derive(Debug, Clone, Default)]
pub(super) struct ScoredMatches {
    /// Best score first; equal scores in the order of the images.
    pub(super) matches: Vec<ScoredMatch>,
    /// Images with objects that count, and the number of these objects.
    pub(super) objects: Vec<(usize, u32)>,
}

/// Objects and detections of one class in one image, with their overlaps: the same for every range of sizes.
pub(super) struct ImageMatches<'a> {
    objects: Vec<&'a Object>,
    predictions: Vec<&'a Prediction>,
    /// Overlap of each detection with each object, row by row.
    ious: Vec<f64>,
}

impl<'a> ImageMatches<'a> {
    /// `objects` in the order of the file, `predictions` in any; all of one class and image.
    pub(super) fn new(objects: Vec<&'a Object>, mut predictions: Vec<&'a Prediction>) -> Self {
        predictions.sort_by(|a, b| b.score.total_cmp(&a.score));
        predictions.truncate(MAX_PREDICTIONS);
        let ious = predictions
            .iter()
            .flat_map(|found| {
                objects
                    .iter()
                    .map(|object| iou(&found.xywh, &object.xywh, object.crowd))
            })
            .collect();
        Self {
            objects,
            predictions,
            ious,
        }
    }

    /// Matches for one range of sizes and adds the result to `ranking`.
    pub(super) fn evaluate(&self, image: usize, range: AreaRange, ranking: &mut ScoredMatches) {
        let ignored = |object: &Object| object.crowd || !range.contains(object.area);
        // Objects that count come first, so that a detection matches another one only without a match among these.
        let mut order: Vec<usize> = (0..self.objects.len()).collect();
        order.sort_by_key(|index| ignored(self.objects[*index]));
        let counting = order
            .iter()
            .filter(|index| !ignored(self.objects[**index]))
            .count();
        if counting > 0 {
            ranking.objects.push((image, counting as u32));
        }
        let first = ranking.matches.len();
        let scored = self
            .predictions
            .iter()
            .enumerate()
            .map(|(rank, found)| ScoredMatch {
                score: found.score,
                image,
                rank: rank as u16,
                matched: 0,
                unmatched: 0,
            });
        ranking.matches.extend(scored);
        let scored = &mut ranking.matches[first..];
        let mut is_matched = vec![false; self.objects.len()];
        for place in 0..IOU_THRESHOLDS {
            is_matched.fill(false);
            for (row, scored) in scored.iter_mut().enumerate() {
                let bit = 1 << place;
                match self.best_match(row, iou_threshold(place), &order, counting, &is_matched) {
                    Some(position) => {
                        is_matched[order[position]] = true;
                        if position < counting {
                            scored.matched |= bit;
                        }
                    }
                    None if range.contains(area(&self.predictions[row].xywh)) => {
                        scored.unmatched |= bit
                    }
                    None => {}
                }
            }
        }
    }

    /// The object that matches the detection of `row`: its position in `order`, whose first `counting` objects count.
    fn best_match(
        &self,
        row: usize,
        min_iou: f64,
        order: &[usize],
        counting: usize,
        taken: &[bool],
    ) -> Option<usize> {
        let overlaps = &self.ious[row * self.objects.len()..][..self.objects.len()];
        let mut best = min_iou.min(1.0 - 1e-10);
        let mut choice = None;
        for (position, &index) in order.iter().enumerate() {
            if choice.is_some() && position == counting {
                break;
            }
            let free = !taken[index] || self.objects[index].crowd;
            // Of equal overlaps the last one wins.
            if free && overlaps[index] >= best {
                best = overlaps[index];
                choice = Some(position);
            }
        }
        choice
    }
}

impl ScoredMatches {
    /// Sorts by score, after every image was matched.
    pub(super) fn finish(&mut self) {
        self.matches.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
}

fn area(xywh: &Xywh) -> f64 {
    xywh[2] * xywh[3]
}

/// Intersection over union; over the detection's own area if the object is a crowd, since a crowd may hold many.
fn iou(found: &Xywh, object: &Xywh, crowd: bool) -> f64 {
    let side = |axis: usize| {
        (found[axis] + found[axis + 2]).min(object[axis] + object[axis + 2])
            - found[axis].max(object[axis])
    };
    let (width, height) = (side(0), side(1));
    if width <= 0.0 || height <= 0.0 {
        return 0.0;
    }
    let both = width * height;
    let whole = if crowd {
        area(found)
    } else {
        area(found) + area(object) - both
    };
    both / whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(xywh: Xywh, crowd: bool) -> Object {
        Object {
            image: 0,
            category: 0,
            xywh,
            area: area(&xywh),
            crowd,
        }
    }

    fn found(score: f64, xywh: Xywh) -> Prediction {
        Prediction {
            image: 0,
            category: 0,
            score,
            xywh,
        }
    }

    /// For each detection, best first: right and wrong at the overlap 0.5; and the number of objects that count.
    fn evaluate(
        objects: &[Object],
        found: &[Prediction],
        range: AreaRange,
    ) -> (Vec<(bool, bool)>, u32) {
        let mut ranking = ScoredMatches::default();
        ImageMatches::new(objects.iter().collect(), found.iter().collect()).evaluate(
            0,
            range,
            &mut ranking,
        );
        ranking.finish();
        let flags = ranking
            .matches
            .iter()
            .map(|scored| (scored.matched & 1 == 1, scored.unmatched & 1 == 1));
        let counting = ranking.objects.iter().map(|(_, count)| count).sum();
        (flags.collect(), counting)
    }

    const RIGHT: (bool, bool) = (true, false);
    const WRONG: (bool, bool) = (false, true);
    const NEITHER: (bool, bool) = (false, false);

    #[test]
    fn iou_matches_coco_protocol() {
        let steps: Vec<f64> = (0..IOU_THRESHOLDS).map(iou_threshold).collect();
        for (index, step) in steps.iter().enumerate() {
            assert!((step - (0.5 + 0.05 * index as f64)).abs() < 1e-12);
        }
        assert_eq!((steps[0], steps[9]), (0.5, 0.95));
    }

    #[test]
    fn object_is_matched_once_by_highest_score() {
        let objects = [object([0.0, 0.0, 10.0, 10.0], false)];
        let twice = [
            found(0.5, [0.0, 0.0, 10.0, 10.0]),
            found(0.9, [0.0, 0.0, 10.0, 8.0]),
        ];
        assert_eq!(
            evaluate(&objects, &twice, AreaRange::ALL),
            (vec![RIGHT, WRONG], 1)
        );
    }

    #[test]
    fn a_crowd_matches_any_number_and_none_of_them_counts() {
        let objects = [
            object([0.0, 0.0, 100.0, 100.0], true),
            object([0.0, 0.0, 10.0, 10.0], false),
        ];
        // All inside the crowd; the first is the single object, which is preferred however well the crowd fits.
        let inside = [
            found(0.9, [0.0, 0.0, 10.0, 9.0]),
            found(0.8, [50.0, 50.0, 10.0, 10.0]),
            found(0.7, [60.0, 50.0, 10.0, 10.0]),
            found(0.6, [95.0, 0.0, 10.0, 10.0]),
            found(0.5, [96.0, 0.0, 10.0, 10.0]),
        ];
        assert_eq!(
            evaluate(&objects, &inside, AreaRange::ALL),
            (vec![RIGHT, NEITHER, NEITHER, NEITHER, WRONG], 1),
            "the last two lie in the crowd by a half and by less"
        );
    }

    #[test]
    fn objects_out_of_size_range_are_ignored() {
        let objects = [
            object([0.0, 0.0, 100.0, 100.0], false),
            object([200.0, 0.0, 20.0, 20.0], false),
        ];
        let all = [
            found(0.9, [0.0, 0.0, 100.0, 100.0]),
            found(0.8, [200.0, 0.0, 20.0, 20.0]),
            found(0.7, [300.0, 300.0, 20.0, 20.0]),
            found(0.6, [300.0, 0.0, 100.0, 100.0]),
        ];
        assert_eq!(
            evaluate(&objects, &all, AreaRange::SMALL),
            (vec![NEITHER, RIGHT, WRONG, NEITHER], 1)
        );
        assert_eq!(
            evaluate(&objects, &all, AreaRange::LARGE),
            (vec![RIGHT, NEITHER, NEITHER, WRONG], 1)
        );
        assert_eq!(
            evaluate(&objects, &all, AreaRange::MEDIUM),
            (vec![NEITHER; 4], 0)
        );
        // 32×32 is both small and medium, as both ends of a range belong to it.
        let edge = [object([0.0, 0.0, 32.0, 32.0], false)];
        assert_eq!(evaluate(&edge, &[], AreaRange::SMALL).1, 1);
        assert_eq!(evaluate(&edge, &[], AreaRange::MEDIUM).1, 1);
    }

    #[test]
    fn at_most_the_hundred_best_predictions_are_evaluated() {
        let far: Vec<Prediction> = (0..150)
            .map(|index| found(f64::from(index), [0.0, 0.0, 1.0, 1.0]))
            .collect();
        let (flags, _) = evaluate(&[], &far, AreaRange::ALL);
        assert_eq!(flags, [WRONG; MAX_PREDICTIONS]);
    }
}
