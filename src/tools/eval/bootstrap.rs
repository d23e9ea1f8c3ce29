// SPDX-License-Identifier: Apache-2.0
//! Bootstrap over images: how much of a metric depends on the choice of images.
//!
//! Each round draws as many images as there are, with repetition, and evaluates them again. Two networks are evaluated on the
//! same draws, so that their difference varies less than either value: a hard image is hard for both.
//! The same seed gives the same intervals on every machine, with any number of threads.
//!
//! A rare class is missing from some draws, and rare classes are often the hard ones: the interval of a single
//! value is therefore biased upwards. The interval of a difference is not.

use std::thread;

use serde::Serialize;

use super::average_precision::{Points, curves};
use super::evaluation::Evaluation;
use super::matching::MAX_PREDICTIONS;
use jetwatch_types::{SplitMix64, mean, mix64, quantile};

/// The range that holds 95 of 100 rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Interval {
    /// 2.5 of 100 rounds are below.
    pub low: f64,
    /// 2.5 of 100 rounds are above.
    pub high: f64,
}

/// Intervals of average precision at all overlaps, and at 0.5.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ConfidenceIntervals {
    /// Of [`ap`](super::Accuracy::ap).
    pub ap: Interval,
    /// Of [`ap50`](super::Accuracy::ap50).
    pub ap50: Interval,
}

/// One round: average precision at all overlaps and at 0.5, for each network.
type Round = Vec<[f64; 2]>;

/// Intervals of each evaluation, and of its difference to the first, over `rounds` draws of the `images` images
/// of `evaluations`, computed by `threads` threads.
///
/// `None` without images or where no draw holds an object. The difference of the first to itself is omitted.
pub(crate) fn bootstrap(
    evaluations: &[&Evaluation],
    images: usize,
    rounds: u32,
    seed: u64,
    threads: usize,
) -> Option<(Vec<ConfidenceIntervals>, Vec<ConfidenceIntervals>)> {
    if images == 0 {
        return None;
    }
    let threads = threads.clamp(1, 256) as u32;
    let drawn: Vec<Round> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                scope.spawn(move || {
                    let mut work = Workspace::new(images);
                    (first..rounds)
                        .step_by(threads as usize)
                        .filter_map(|round| work.round(evaluations, seed, round))
                        .collect::<Vec<Round>>()
                })
            })
            .collect();
        let results = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        results.flatten().collect()
    });
    if drawn.is_empty() {
        return None;
    }
    let spread = |of: &dyn Fn(&Round) -> [f64; 2]| {
        let [ap, ap50] = [0, 1].map(|kind| interval(drawn.iter().map(|round| of(round)[kind])));
        ConfidenceIntervals { ap, ap50 }
    };
    let own = (0..evaluations.len()).map(|index| spread(&|round| round[index]));
    let differences = (1..evaluations.len())
        .map(|index| spread(&|round| [0, 1].map(|kind| round[index][kind] - round[0][kind])));
    Some((own.collect(), differences.collect()))
}

/// Working memory of one thread.
struct Workspace {
    /// Number of times that each image was drawn.
    weights: Vec<u32>,
    points: Points,
}

impl Workspace {
    fn new(images: usize) -> Self {
        Self {
            weights: vec![0; images],
            points: Points::default(),
        }
    }

    /// `None` when the draw holds no object.
    fn round(&mut self, evaluations: &[&Evaluation], seed: u64, round: u32) -> Option<Round> {
        let Self { weights, points } = self;
        // The round number seeds the draw, so that the result does not depend on the thread.
        let mut stream = SplitMix64::new(mix64(seed ^ mix64(u64::from(round) + 1)));
        weights.fill(0);
        for _ in 0..weights.len() {
            let drawn = uniform_below(stream.next_u64(), weights.len());
            weights[drawn] += 1;
        }
        let of_network = |evaluation: &&Evaluation| {
            let classes: Vec<[f64; 2]> = evaluation
                .scored_matches
                .iter()
                .filter_map(|ranking| {
                    let weight = |image: usize| weights[image];
                    let curves = curves(ranking, MAX_PREDICTIONS, weight, points)?;
                    let all = mean(curves.iter().map(|curve| curve.precision))?;
                    Some([all, curves[0].precision])
                })
                .collect();
            let over = |kind: usize| mean(classes.iter().map(|class| class[kind]));
            Some([over(0)?, over(1)?])
        };
        evaluations.iter().map(of_network).collect()
    }
}

/// A number from 0 below `count`, by multiplication: the bias is `count` in 2⁶⁴.
fn uniform_below(bits: u64, count: usize) -> usize {
    ((u128::from(bits) * count as u128) >> 64) as usize
}

fn interval(values: impl Iterator<Item = f64>) -> Interval {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    Interval {
        low: quantile(&sorted, 0.025),
        high: quantile(&sorted, 0.975),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, Image, Object, Prediction, Truth};
    use jetwatch_types::Size;

    /// One object in each of `images` images.
    fn truth(images: usize) -> Truth {
        Truth {
            images: (0..images)
                .map(|id| Image {
                    id: id as i64,
                    file_name: format!("{id}.png"),
                    size: Size::new(64, 64),
                })
                .collect(),
            categories: vec![Category {
                id: 1,
                name: "car".to_owned(),
            }],
            objects: (0..images)
                .map(|image| Object {
                    image,
                    category: 0,
                    xywh: [0.0, 0.0, 32.0, 32.0],
                    area: 1024.0,
                    crowd: false,
                })
                .collect(),
        }
    }

    /// Finds the object in the images for which `detects` is true.
    fn evaluation(truth: &Truth, detects: impl Fn(usize) -> bool) -> Evaluation {
        let found: Vec<Prediction> = (0..truth.images.len())
            .filter(|image| detects(*image))
            .map(|image| Prediction {
                image,
                category: 0,
                score: 0.9,
                xywh: [0.0, 0.0, 32.0, 32.0],
            })
            .collect();
        Evaluation::new(truth, &found, 0.5)
    }

    #[test]
    fn a_perfect_network_has_no_interval_and_an_average_one_has_the_binomials() {
        let truth = truth(400);
        let (perfect, half) = (
            evaluation(&truth, |_| true),
            evaluation(&truth, |image| image % 2 == 0),
        );
        let (own, differences) =
            bootstrap(&[&perfect, &half], 400, 2000, 1, 2).expect("there are objects");
        assert_eq!((own[0].ap.low, own[0].ap.high), (1.0, 1.0));
        // Without wrong detections average precision is the recall, up to the step of 0.01: a share of 400 draws at one half
        // has the standard deviation 0.025.
        let Interval { low, high } = own[1].ap;
        assert!(
            (low - 0.451).abs() < 0.012 && (high - 0.549).abs() < 0.012,
            "{low} {high}"
        );
        assert_eq!(differences.len(), 1);
        assert!((differences[0].ap.low - (low - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn bootstrap_depends_on_seed_not_on_thread_count() {
        let truth = truth(50);
        let some = evaluation(&truth, |image| image % 3 == 0);
        let draw = |seed, threads| bootstrap(&[&some], 50, 101, seed, threads);
        assert_eq!(draw(7, 1), draw(7, 3));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn difference_of_network_to_itself_is_zero() {
        let truth = truth(50);
        let some = evaluation(&truth, |image| image % 3 == 0);
        let (_, differences) = bootstrap(&[&some, &some], 50, 100, 1, 1).expect("objects");
        assert_eq!(
            differences[0].ap,
            Interval {
                low: 0.0,
                high: 0.0
            }
        );
    }

    #[test]
    fn interval_is_none_without_images() {
        let empty = evaluation(&Truth::default(), |_| true);
        assert_eq!(bootstrap(&[&empty], 0, 100, 1, 1), None);
        let nothing = Truth {
            objects: Vec::new(),
            ..truth(3)
        };
        let evaluated = evaluation(&nothing, |_| true);
        assert_eq!(bootstrap(&[&evaluated], 3, 100, 1, 1), None);
    }

    #[test]
    fn quantiles_interpolate_between_neighbors() {
        let sorted = [0.0, 1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), 2.0);
        assert_eq!(quantile(&sorted, 0.625), 2.5);
        assert_eq!(quantile(&sorted, 1.0), 4.0);
        assert_eq!(quantile(&[7.0], 0.025), 7.0);
    }
}
