//! Which detections are right: COCO's protocol for one class, one range of sizes, picture by picture.
//!
//! Detections choose in the order of their scores, and each takes the free object that it overlaps most. A crowd may be
//! taken any number of times, and an object outside of the range of sizes once, but only by what finds no better object;
//! neither counts, for or against. A detection that finds nothing is wrong, unless its own size is outside of the range.

use super::{Object, Prediction, Xywh};

/// Most detections that are judged in one picture of one class.
pub const MAX_PREDICTIONS: usize = 100;

/// Overlaps (intersection over union) at which a detection is judged: 0.5 to 0.95.
pub(super) const IOU_THRESHOLDS: usize = 10;

/// The overlap of place `index`, computed as COCO's program does, to the last bit.
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

/// One judged detection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScoredMatch {
    /// Its confidence.
    pub(super) score: f64,
    /// Index of the picture.
    pub(super) image: usize,
    /// Its place among those of its class in the picture, from 0.
    pub(super) rank: u16,
    /// One bit for each overlap: it is right.
    pub(super) matched: u16,
    /// One bit for each overlap: it is wrong. Neither right nor wrong: it does not count.
    pub(super) unmatched: u16,
}

/// All detections of one class, judged for one range of sizes.
#[derive(Debug, Clone, Default)]
pub(super) struct ScoredMatches {
    /// Best score first; equal scores in the order of the pictures.
    pub(super) matches: Vec<ScoredMatch>,
    /// Pictures with objects that count, and how many.
    pub(super) objects: Vec<(usize, u32)>,
}

/// Objects and detections of one class in one picture, with their overlaps: the same for every range of sizes.
pub(super) struct ImageMatches<'a> {
    objects: Vec<&'a Object>,
    predictions: Vec<&'a Prediction>,
    /// Overlap of each detection with each object, row by row.
    ious: Vec<f64>,
}

impl<'a> ImageMatches<'a> {
    /// `objects` in the order of the file, `predictions` in any; all of one class and picture.
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

    /// Judges for one range of sizes and adds the result to `ranking`.
    pub(super) fn evaluate(&self, image: usize, range: AreaRange, ranking: &mut ScoredMatches) {
        let ignored = |object: &Object| object.crowd || !range.contains(object.area);
        // Those that count come first, so that a detection looks at the others only when it found none of these.
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
        let judged = self
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
        ranking.matches.extend(judged);
        let judged = &mut ranking.matches[first..];
        let mut is_matched = vec![false; self.objects.len()];
        for place in 0..IOU_THRESHOLDS {
            is_matched.fill(false);
            for (row, judged) in judged.iter_mut().enumerate() {
                let bit = 1 << place;
                match self.best_match(row, iou_threshold(place), &order, counting, &is_matched) {
                    Some(position) => {
                        is_matched[order[position]] = true;
                        if position < counting {
                            judged.matched |= bit;
                        }
                    }
                    None if range.contains(area(&self.predictions[row].xywh)) => {
                        judged.unmatched |= bit
                    }
                    None => {}
                }
            }
        }
    }

    /// Which object the detection of `row` takes: its position in `order`, whose first `counting` objects count.
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
            // Of equal overlaps the last one is taken.
            if free && overlaps[index] >= best {
                best = overlaps[index];
                choice = Some(position);
            }
        }
        choice
    }
}

impl ScoredMatches {
    /// Sorts by score, once every picture was judged.
    pub(super) fn finish(&mut self) {
        self.matches.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
}

fn area(xywh: &Xywh) -> f64 {
    xywh[2] * xywh[3]
}

/// Intersection over union; over the detection's own area where the object is a crowd, since a crowd may hold many.
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
            .map(|judged| (judged.matched & 1 == 1, judged.unmatched & 1 == 1));
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
