// SPDX-License-Identifier: Apache-2.0
//! One similarity for many pairs of points, of which some are wrong: random samples, then least squares over those that agree
//! (RANSAC: Fischler and Bolles, 1981).

use jetwatch_types::{Similarity, SplitMix64};

/// Seed of the samples: the same pairs always give the same result.
const SEED: u64 = 0x6a65_7477_6174_6368;

/// Number of samples. With 40 % right pairs, one of them is right with a probability above 0.99999.
const SAMPLES: usize = 100;

/// Least number of pairs that agree, and the least share of them.
const MIN_AGREEING: usize = 10;
const MIN_SHARE: f64 = 0.4;

/// Largest change of scale and rotation between two frames: a factor, and the tangent of the angle.
const MAX_SCALE: f64 = 1.25;
const MAX_SLOPE: f64 = 0.27;

/// Least distance of the two points of a sample, as a share of the diagonal of all points.
const MIN_BASE: f64 = 0.15;

/// Least root mean square distance of the agreeing points from their middle, as a share of the image's diagonal. Closer together
/// they say nothing about scale and rotation: only the shift is taken.
const MIN_SPREAD: f64 = 0.12;

/// A point before, and the same after.
pub(crate) type Pair = ([f64; 2], [f64; 2]);

/// Fits similarities. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct RobustFit {
    agreeing: Vec<Pair>,
}

impl RobustFit {
    /// The similarity that most of `pairs` agree on: each is at most `tolerance` from where it maps the point before. `diagonal` is
    /// that of the image, in the same unit. `None` where too few agree, or on a motion that no camera makes between two frames.
    pub(crate) fn fit(
        &mut self,
        pairs: &[Pair],
        tolerance: f64,
        diagonal: f64,
    ) -> Option<Similarity> {
        let enough = MIN_AGREEING.max((pairs.len() as f64 * MIN_SHARE).ceil() as usize);
        if pairs.len() < enough {
            return None;
        }
        let mut random = SplitMix64::new(SEED);
        let mut best: Option<(usize, Similarity)> = None;
        for _ in 0..SAMPLES {
            let [first, second] = [(); 2].map(|()| {
                // Below the length, which is a usize.
                pairs[(random.next_u64() % pairs.len() as u64) as usize]
            });
            let Some(candidate) = through(&first, &second, diagonal * MIN_BASE) else {
                continue;
            };
            let count = pairs
                .iter()
                .filter(|pair| agrees(&candidate, pair, tolerance))
                .count();
            if best.as_ref().is_none_or(|(most, _)| count > *most) {
                best = Some((count, candidate));
            }
        }
        // Points too close together for a sample may still agree on a shift.
        let mut fitted = match best {
            Some((_, candidate)) => candidate,
            None => median_shift(pairs),
        };
        for _ in 0..3 {
            self.collect(pairs, &fitted, tolerance);
            if self.agreeing.len() < enough {
                return None;
            }
            fitted = least_squares(&self.agreeing, diagonal * MIN_SPREAD);
        }
        self.collect(pairs, &fitted, tolerance);
        (self.agreeing.len() >= enough && is_plausible(&fitted)).then_some(fitted)
    }

    fn collect(&mut self, pairs: &[Pair], similarity: &Similarity, tolerance: f64) {
        self.agreeing.clear();
        let agreeing = pairs
            .iter()
            .filter(|pair| agrees(similarity, pair, tolerance));
        self.agreeing.extend(agreeing);
    }
}

fn agrees(similarity: &Similarity, (before, after): &Pair, tolerance: f64) -> bool {
    let [x, y] = similarity.point(*before);
    let (dx, dy) = (x - after[0], y - after[1]);
    dx * dx + dy * dy <= tolerance * tolerance
}

fn is_plausible(similarity: &Similarity) -> bool {
    let scale = similarity.scale();
    similarity.is_finite()
        && (1.0 / MAX_SCALE..=MAX_SCALE).contains(&scale)
        && similarity.b.abs() <= MAX_SLOPE * similarity.a
}

/// The plausible similarity that maps both points; `None` where they are closer together than `min_base`.
fn through(first: &Pair, second: &Pair, min_base: f64) -> Option<Similarity> {
    let from = [second.0[0] - first.0[0], second.0[1] - first.0[1]];
    let to = [second.1[0] - first.1[0], second.1[1] - first.1[1]];
    let square = from[0] * from[0] + from[1] * from[1];
    if square < min_base * min_base || square == 0.0 {
        return None;
    }
    let linear = Similarity {
        a: (from[0] * to[0] + from[1] * to[1]) / square,
        b: (from[0] * to[1] - from[1] * to[0]) / square,
        x_shift: 0.0,
        y_shift: 0.0,
    };
    let similarity = with_shift(linear, first.0, first.1);
    is_plausible(&similarity).then_some(similarity)
}

/// `linear` with the shift that maps `before` to `after`.
fn with_shift(linear: Similarity, before: [f64; 2], after: [f64; 2]) -> Similarity {
    let [x, y] = linear.direction(before);
    Similarity {
        x_shift: after[0] - x,
        y_shift: after[1] - y,
        ..linear
    }
}

/// The similarity with the least sum of squared distances; a shift where the points are not spread over `min_spread`.
fn least_squares(pairs: &[Pair], min_spread: f64) -> Similarity {
    let count = pairs.len() as f64;
    let mean = |of: fn(&Pair) -> [f64; 2]| {
        let sum = pairs.iter().map(of).fold([0.0, 0.0], |sum, point| {
            [sum[0] + point[0], sum[1] + point[1]]
        });
        [sum[0] / count, sum[1] / count]
    };
    let (before, after) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut square, mut along, mut across) = (0.0, 0.0, 0.0);
    for (from, to) in pairs {
        let [x, y] = [from[0] - before[0], from[1] - before[1]];
        let [u, v] = [to[0] - after[0], to[1] - after[1]];
        square += x * x + y * y;
        along += x * u + y * v;
        across += x * v - y * u;
    }
    let linear = match square / count >= min_spread * min_spread {
        true => Similarity {
            a: along / square,
            b: across / square,
            ..Similarity::IDENTITY
        },
        false => Similarity::IDENTITY,
    };
    with_shift(linear, before, after)
}

/// The shift by the median of each axis.
fn median_shift(pairs: &[Pair]) -> Similarity {
    let median = |axis: usize| {
        let mut shifts: Vec<f64> = pairs
            .iter()
            .map(|(before, after)| after[axis] - before[axis])
            .collect();
        shifts.sort_unstable_by(f64::total_cmp);
        shifts.get(shifts.len() / 2).copied().unwrap_or(0.0)
    };
    Similarity::shift(median(0), median(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIAGONAL: f64 = 734.0;

    /// Points of a grid over 640×360, moved by `motion`; of each ten, `wrong` are anywhere.
    fn pairs(motion: &Similarity, wrong: usize) -> Vec<Pair> {
        let mut random = SplitMix64::new(5);
        let mut number = |most: f64| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 * most;
        (0..120)
            .map(|index| {
                let before = [
                    (index % 12) as f64 * 55.0 + 10.0,
                    (index / 12) as f64 * 35.0 + 8.0,
                ];
                let [x, y] = motion.point(before);
                let noise = [number(1.0) - 0.5, number(1.0) - 0.5];
                match index % 10 < wrong {
                    true => (before, [number(640.0), number(360.0)]),
                    false => (before, [x + noise[0], y + noise[1]]),
                }
            })
            .collect()
    }

    fn largest_error(found: &Similarity, motion: &Similarity) -> f64 {
        let corners = [[0.0, 0.0], [640.0, 0.0], [0.0, 360.0], [640.0, 360.0]];
        let error = |corner: [f64; 2]| {
            let (a, b) = (found.point(corner), motion.point(corner));
            (a[0] - b[0]).hypot(a[1] - b[1])
        };
        corners.into_iter().map(error).fold(0.0, f64::max)
    }

    #[test]
    fn known_motions_are_found_among_wrong_pairs() {
        let motions = [
            Similarity::IDENTITY,
            Similarity::shift(31.0, -12.5),
            Similarity::about([320.0, 180.0], 1.0, 0.1),
            Similarity::about([100.0, 300.0], 1.12, -0.05),
        ];
        for motion in motions {
            for wrong in [0, 3, 5] {
                let fitted = RobustFit::default().fit(&pairs(&motion, wrong), 2.5, DIAGONAL);
                let fitted = fitted.expect("half of the pairs agree");
                let error = largest_error(&fitted, &motion);
                assert!(error < 0.6, "{motion:?} with {wrong} of 10 wrong: {error}");
            }
        }
    }

    #[test]
    fn too_few_and_implausible_pairs_give_nothing() {
        let mut fit = RobustFit::default();
        let shift = Similarity::shift(5.0, 5.0);
        assert_eq!(fit.fit(&pairs(&shift, 7), 2.5, DIAGONAL), None, "3 of 10");
        assert_eq!(fit.fit(&pairs(&shift, 0)[..9], 2.5, DIAGONAL), None);
        assert_eq!(fit.fit(&[], 2.5, DIAGONAL), None);
        let twice = Similarity::about([320.0, 180.0], 2.0, 0.0);
        assert_eq!(fit.fit(&pairs(&twice, 0), 2.5, DIAGONAL), None);
        let turned = Similarity::about([320.0, 180.0], 1.0, 1.5);
        assert_eq!(fit.fit(&pairs(&turned, 0), 2.5, DIAGONAL), None);
    }

    #[test]
    fn points_close_together_give_a_shift_only() {
        let shift = Similarity::shift(4.0, -3.0);
        let close: Vec<Pair> = pairs(&shift, 0)
            .into_iter()
            .map(|(before, after)| {
                let moved = [after[0] - before[0], after[1] - before[1]];
                let before = [300.0 + before[0] * 0.05, 200.0 + before[1] * 0.05];
                (before, [before[0] + moved[0], before[1] + moved[1]])
            })
            .collect();
        let fitted = RobustFit::default()
            .fit(&close, 2.5, DIAGONAL)
            .expect("all agree");
        assert_eq!((fitted.a, fitted.b), (1.0, 0.0));
        assert!((fitted.x_shift - 4.0).abs() < 0.1 && (fitted.y_shift + 3.0).abs() < 0.1);
    }

    #[test]
    fn results_do_not_change_from_call_to_call() {
        let pairs = pairs(&Similarity::about([3.0, 4.0], 1.05, 0.02), 4);
        let mut fit = RobustFit::default();
        let first = fit.fit(&pairs, 2.5, DIAGONAL);
        assert!(first.is_some());
        assert_eq!(fit.fit(&pairs, 2.5, DIAGONAL), first);
    }
}
