// SPDX-License-Identifier: Apache-2.0
//! The metrics of one network's detections on one set of images.

use serde::Serialize;

use super::annotations::{Object, Prediction, Truth};
use super::average_precision::{Curves, Points, curves};
use super::matching::{AreaRange, IOU_THRESHOLDS, ImageMatches, MAX_PREDICTIONS, ScoredMatches};
use jetwatch_types::mean;

/// COCO's twelve numbers, each 0 to 1; `None` without such objects in the truth.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Accuracy {
    /// Average precision over all classes and the overlaps 0.5 to 0.95.
    pub ap: Option<f64>,
    /// The same at the overlap 0.5.
    pub ap50: Option<f64>,
    /// The same at the overlap 0.75.
    pub ap75: Option<f64>,
    /// Average precision for objects of at most 32×32 pixels.
    pub ap_small: Option<f64>,
    /// Average precision for objects of 32×32 to 96×96 pixels.
    pub ap_medium: Option<f64>,
    /// Average precision for objects of at least 96×96 pixels.
    pub ap_large: Option<f64>,
    /// Average recall with the best detection of each class in each image.
    pub ar_1: Option<f64>,
    /// Average recall with the ten best.
    pub ar_10: Option<f64>,
    /// Average recall with the hundred best.
    pub ar_100: Option<f64>,
    /// Average recall for objects of at most 32×32 pixels.
    pub ar_small: Option<f64>,
    /// Average recall for objects of 32×32 to 96×96 pixels.
    pub ar_medium: Option<f64>,
    /// Average recall for objects of at least 96×96 pixels.
    pub ar_large: Option<f64>,
}

/// Right and wrong detections at one score threshold and the overlap 0.5, as in the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct OperatingPoint {
    /// Detections that found an object.
    pub right: u64,
    /// Detections that found none.
    pub wrong: u64,
    /// Objects that no detection found.
    pub missed: u64,
    /// Share of the detections that are right; `None` without detections.
    pub precision: Option<f64>,
    /// Share of the objects that were found; `None` without objects.
    pub recall: Option<f64>,
    /// Harmonic mean of the two; `None` without either.
    pub f1: Option<f64>,
}

/// Metrics of one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassAccuracy {
    /// Name in the annotations.
    pub name: String,
    /// Objects to find, without crowds.
    pub objects: u64,
    /// Average precision over the overlaps 0.5 to 0.95; `None` without objects.
    pub ap: Option<f64>,
    /// Average precision at the overlap 0.5; `None` without objects.
    pub ap50: Option<f64>,
    /// At the score given.
    #[serde(flatten)]
    pub operating: OperatingPoint,
}

/// A network's detections, compared with the annotations.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Over all classes.
    pub accuracy: Accuracy,
    /// Over all classes together, at the score given.
    pub operating: OperatingPoint,
    /// Each class, in the order of [`Truth::categories`].
    pub classes: Vec<ClassAccuracy>,
    /// For objects of every size, by class; [`bootstrap`](super::bootstrap::bootstrap) weights them again.
    pub(super) scored_matches: Vec<ScoredMatches>,
}

impl Evaluation {
    /// Compares `predictions`, in any order, with `annotations`; `threshold` is the minimum score of [`OperatingPoint`].
    ///
    /// Of each class and image the [`MAX_PREDICTIONS`] best detections count.
    ///
    /// # Panics
    ///
    /// Panics when an index in `predictions` is not one of `annotations`.
    pub fn new(truth: &Truth, predictions: &[Prediction], threshold: f64) -> Self {
        let image_matches = image_matches(truth, predictions);
        let [all, small, medium, large] = [
            AreaRange::ALL,
            AreaRange::SMALL,
            AreaRange::MEDIUM,
            AreaRange::LARGE,
        ]
        .map(|range| rankings(truth, &image_matches, range));
        let curves_of = |rankings: &[ScoredMatches], most| -> Vec<Option<Curves>> {
            let mut points = Points::default();
            let each = rankings
                .iter()
                .map(|ranking| curves(ranking, most, |_| 1, &mut points));
            each.collect()
        };
        let whole = curves_of(&all, MAX_PREDICTIONS);
        let [small, medium, large] =
            [small, medium, large].map(|part| curves_of(&part, MAX_PREDICTIONS));
        let accuracy = Accuracy {
            ap: precision(&whole, 0..IOU_THRESHOLDS),
            ap50: precision(&whole, 0..1),
            ap75: precision(&whole, 5..6),
            ap_small: precision(&small, 0..IOU_THRESHOLDS),
            ap_medium: precision(&medium, 0..IOU_THRESHOLDS),
            ap_large: precision(&large, 0..IOU_THRESHOLDS),
            ar_1: recall(&curves_of(&all, 1)),
            ar_10: recall(&curves_of(&all, 10)),
            ar_100: recall(&whole),
            ar_small: recall(&small),
            ar_medium: recall(&medium),
            ar_large: recall(&large),
        };
        let classes: Vec<ClassAccuracy> = truth
            .categories
            .iter()
            .zip(all.iter().zip(&whole))
            .map(|(category, (ranking, curves))| {
                let curves = std::slice::from_ref(curves);
                let operating = OperatingPoint::new(ranking, threshold);
                ClassAccuracy {
                    name: category.name.clone(),
                    objects: operating.right + operating.missed,
                    ap: precision(curves, 0..IOU_THRESHOLDS),
                    ap50: precision(curves, 0..1),
                    operating,
                }
            })
            .collect();
        Self {
            accuracy,
            operating: OperatingPoint::sum(classes.iter().map(|class| &class.operating)),
            classes,
            scored_matches: all,
        }
    }
}

impl OperatingPoint {
    fn new(ranking: &ScoredMatches, threshold: f64) -> Self {
        let objects: u64 = ranking
            .objects
            .iter()
            .map(|(_, count)| u64::from(*count))
            .sum();
        let passing = ranking
            .matches
            .iter()
            .filter(|scored| scored.score >= threshold);
        let (right, wrong) = passing.fold((0, 0), |(right, wrong), scored| {
            (
                right + u64::from(scored.matched & 1),
                wrong + u64::from(scored.unmatched & 1),
            )
        });
        Self::from_counts(right, wrong, objects - right)
    }

    fn sum<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let [right, wrong, missed] = parts.fold([0; 3], |[right, wrong, missed], part| {
            [right + part.right, wrong + part.wrong, missed + part.missed]
        });
        Self::from_counts(right, wrong, missed)
    }

    fn from_counts(right: u64, wrong: u64, missed: u64) -> Self {
        let share = |whole: u64| (whole > 0).then(|| right as f64 / whole as f64);
        let both = 2 * right + wrong + missed;
        Self {
            right,
            wrong,
            missed,
            precision: share(right + wrong),
            recall: share(right + missed),
            f1: (both > 0).then(|| 2.0 * right as f64 / both as f64),
        }
    }
}

/// The images of each class that have annotations or predictions of it, in order.
fn image_matches<'a>(
    truth: &'a Truth,
    predictions: &'a [Prediction],
) -> Vec<Vec<(usize, ImageMatches<'a>)>> {
    let mut objects: Vec<&Object> = truth.objects.iter().collect();
    let mut found: Vec<&Prediction> = predictions.iter().collect();
    // Stable: the order within an image decides between equals.
    objects.sort_by_key(|object| (object.category, object.image));
    found.sort_by_key(|found| (found.category, found.image));
    let mut scenes: Vec<Vec<(usize, ImageMatches<'a>)>> =
        truth.categories.iter().map(|_| Vec::new()).collect();
    let (mut objects, mut found) = (objects.as_slice(), found.as_slice());
    loop {
        let heads = [
            objects
                .first()
                .map(|object| (object.category, object.image)),
            found.first().map(|found| (found.category, found.image)),
        ];
        let Some(place) = heads.into_iter().flatten().min() else {
            return scenes;
        };
        let (category, image) = place;
        assert!(
            image < truth.images.len(),
            "image {image} of {}",
            truth.images.len()
        );
        let here = take_while(&mut objects, |object| {
            (object.category, object.image) == place
        });
        let image_predictions =
            take_while(&mut found, |found| (found.category, found.image) == place);
        scenes[category].push((
            image,
            ImageMatches::new(here.to_vec(), image_predictions.to_vec()),
        ));
    }
}

/// Splits off and returns the first items that are `wanted`.
fn take_while<'a, T>(items: &mut &'a [T], wanted: impl Fn(&T) -> bool) -> &'a [T] {
    let end = items
        .iter()
        .position(|item| !wanted(item))
        .unwrap_or(items.len());
    let (first, rest) = items.split_at(end);
    *items = rest;
    first
}

fn rankings(
    truth: &Truth,
    scenes: &[Vec<(usize, ImageMatches<'_>)>],
    range: AreaRange,
) -> Vec<ScoredMatches> {
    debug_assert_eq!(truth.categories.len(), scenes.len());
    let ranking_of = |scenes: &Vec<(usize, ImageMatches<'_>)>| {
        let mut ranking = ScoredMatches::default();
        for (image, scene) in scenes {
            scene.evaluate(*image, range, &mut ranking);
        }
        ranking.finish();
        ranking
    };
    scenes.iter().map(ranking_of).collect()
}

/// Mean over the classes with objects, and over the overlaps of these indices.
fn precision(classes: &[Option<Curves>], overlaps: std::ops::Range<usize>) -> Option<f64> {
    let known = classes.iter().flatten();
    mean(known.flat_map(|curves| curves[overlaps.clone()].iter().map(|curve| curve.precision)))
}

fn recall(classes: &[Option<Curves>]) -> Option<f64> {
    let known = classes.iter().flatten();
    mean(known.flat_map(|curves| curves.iter().map(|curve| curve.recall)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, Image};
    use jetwatch_types::Size;

    /// Two images, three categories: two cars, a bus, and no person.
    fn truth() -> Truth {
        let image = |id| Image {
            id,
            file_name: format!("{id}.png"),
            size: Size::new(640, 480),
        };
        let category = |(id, name): (i64, &str)| Category {
            id,
            name: name.to_owned(),
        };
        let object = |image, category, left| Object {
            image,
            category,
            xywh: [left, 0.0, 50.0, 50.0],
            area: 2500.0,
            crowd: false,
        };
        Truth {
            images: vec![image(1), image(2)],
            categories: [(1, "car"), (2, "bus"), (3, "person")]
                .map(category)
                .to_vec(),
            objects: vec![object(0, 0, 0.0), object(1, 0, 100.0), object(1, 1, 300.0)],
        }
    }

    fn found(image: usize, category: usize, score: f64, left: f64) -> Prediction {
        Prediction {
            image,
            category,
            score,
            xywh: [left, 0.0, 50.0, 50.0],
        }
    }

    #[test]
    fn ground_truth_scores_perfectly() {
        let truth = truth();
        let all = [
            found(1, 1, 0.9, 300.0),
            found(0, 0, 0.8, 0.0),
            found(1, 0, 0.7, 100.0),
        ];
        let evaluation = Evaluation::new(&truth, &all, 0.5);
        let Accuracy {
            ap,
            ap50,
            ar_1,
            ap_medium,
            ap_small,
            ap_large,
            ..
        } = evaluation.accuracy;
        assert_eq!([ap, ap50, ar_1, ap_medium], [Some(1.0); 4]);
        assert_eq!([ap_small, ap_large], [None; 2], "all are of medium size");
        assert_eq!(evaluation.operating.f1, Some(1.0));
        let person = &evaluation.classes[2];
        assert_eq!((person.ap, person.objects), (None, 0));
        assert_eq!(person.operating, OperatingPoint::default());
    }

    #[test]
    fn threshold_changes_operating_point_but_not_average_precision() {
        let truth = truth();
        let some = [
            found(0, 0, 0.8, 0.0),
            found(1, 0, 0.2, 100.0),
            found(0, 1, 0.5, 0.0),
        ];
        let evaluation = Evaluation::new(&truth, &some, 0.5);
        let (car, bus) = (&evaluation.classes[0], &evaluation.classes[1]);
        assert_eq!(car.ap, Some(1.0));
        let counts =
            |operating: &OperatingPoint| (operating.right, operating.wrong, operating.missed);
        assert_eq!(counts(&car.operating), (1, 0, 1));
        assert_eq!((bus.ap, counts(&bus.operating)), (Some(0.0), (0, 1, 1)));
        assert_eq!(counts(&evaluation.operating), (1, 1, 2));
        assert_eq!(evaluation.operating.precision, Some(0.5));
        assert_eq!(evaluation.operating.recall, Some(1.0 / 3.0));
        assert_eq!(evaluation.operating.f1, Some(0.4));
        assert_eq!(evaluation.accuracy.ap, Some(0.5), "persons do not count");
    }

    #[test]
    fn without_any_detection_every_object_is_missed() {
        let evaluation = Evaluation::new(&truth(), &[], 0.5);
        assert_eq!(evaluation.accuracy.ap, Some(0.0));
        assert_eq!(
            (evaluation.operating.missed, evaluation.operating.precision),
            (3, None)
        );
    }
}
