// SPDX-License-Identifier: Apache-2.0
//! Random numbers, lattice noise and approximations of sine and cosine that are the same on every machine.
//!
//! Nothing here calls the platform's math library, whose last bits differ between machines. Used by most files of the scene.

use jetwatch_types::{SplitMix64, hash64};

/// Random numbers that depend on a list of keys only.
#[derive(Debug, Clone)]
pub(super) struct Rng(SplitMix64);

impl Rng {
    /// The stream of these keys. Their order matters.
    pub(super) fn new(keys: &[u64]) -> Self {
        let state = keys
            .iter()
            .fold(0x6a65_7477, |state, key| hash64(state ^ hash64(*key)));
        let mut stream = SplitMix64::new(state);
        // The scenes are defined by the numbers after the first one.
        let _ = stream.next_u64();
        Self(stream)
    }

    /// The next 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 up to, but excluding, 1.
    pub(super) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u32 << 24) as f32
    }

    /// From `low` up to `high`.
    pub(super) fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// From 0 up to, but excluding, `count`, which is at least 1.
    pub(super) fn below(&mut self, count: usize) -> usize {
        // The bias of the remainder is below `count` / 2⁶⁴.
        (self.bits() % count as u64) as usize
    }

    /// True with this probability.
    pub(super) fn bool(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    /// One of `choices`, which is not empty.
    pub(super) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Sine of an angle in turns: `sin_approx(0.25)` is 1. The error is at most 0.0012.
pub(super) fn sin_approx(turns: f32) -> f32 {
    let x = turns - (turns + 0.5).floor();
    let rough = 8.0 * x - 16.0 * x * x.abs();
    0.775 * rough + 0.225 * rough * rough.abs()
}

/// Cosine of an angle in turns, with the error of [`sin_approx`].
pub(super) fn cos_approx(turns: f32) -> f32 {
    sin_approx(turns + 0.25)
}

/// A random number from 0 to 1 for each cell of a grid.
pub(super) fn lattice(x: i32, y: i32, salt: u32) -> f32 {
    let mut h = (x as u32).wrapping_mul(0x85eb_ca6b)
        ^ (y as u32).wrapping_mul(0xc2b2_ae35)
        ^ salt.wrapping_mul(0x27d4_eb2f);
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ (h >> 12)).wrapping_mul(0x297a_2d39);
    (h ^ (h >> 15)) as f32 / u32::MAX as f32
}

/// Value noise from 0 to 1, smooth, with features of size 1.
pub(super) fn noise(x: f32, y: f32, salt: u32) -> f32 {
    let (xf, yf) = (x.floor(), y.floor());
    let (xi, yi) = (xf as i32, yf as i32);
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (tx, ty) = (ease(x - xf), ease(y - yf));
    let (x1, y1) = (xi.wrapping_add(1), yi.wrapping_add(1));
    let top = lattice(xi, yi, salt) * (1.0 - tx) + lattice(x1, yi, salt) * tx;
    let bottom = lattice(xi, y1, salt) * (1.0 - tx) + lattice(x1, y1, salt) * tx;
    top * (1.0 - ty) + bottom * ty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosine_approximation_matches_cosine() {
        for step in -400..400 {
            let turns = step as f32 / 97.0;
            let sine = (f64::from(turns) * std::f64::consts::TAU).sin() as f32;
            assert!(
                (sin_approx(turns) - sine).abs() < 0.0012,
                "sin_approx({turns}) is {}, not {sine}",
                sin_approx(turns)
            );
        }
    }

    #[test]
    fn rng_depends_on_every_key_and_covers_range() {
        let first = |keys: &[u64]| Rng::new(keys).bits();
        assert_eq!(first(&[1, 2, 3]), first(&[1, 2, 3]));
        for other in [&[1, 2, 4][..], &[2, 1, 3], &[1, 2], &[1, 2, 3, 0]] {
            assert_ne!(first(&[1, 2, 3]), first(other), "{other:?}");
        }
        let mut rng = Rng::new(&[7]);
        let draws: Vec<f32> = (0..1000).map(|_| rng.range(-2.0, 3.0)).collect();
        let mean = draws.iter().sum::<f32>() / 1000.0;
        assert!(
            draws.iter().all(|v| (-2.0..3.0).contains(v)) && (mean - 0.5).abs() < 0.2,
            "mean {mean}"
        );
    }

    #[test]
    fn noise_stays_in_range_and_has_no_steps() {
        let mut before = noise(-3.0, 0.3, 5);
        for step in 1..600 {
            let now = noise(-3.0 + step as f32 * 0.01, 0.3, 5);
            assert!((0.0..=1.0).contains(&now) && (now - before).abs() < 0.05);
            before = now;
        }
    }
}
