// SPDX-License-Identifier: Apache-2.0
//! SplitMix64 (Steele, Lea and Flood, 2014): pseudo-random 64-bit numbers that are the same on every machine.
//!
//! Not for secrets. For scenes, simulated detector errors and the bootstrap, whose results must be reproducible.

/// Increment of the state: 2⁶⁴ divided by the golden ratio, odd.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of 64-bit numbers that depends on its seed only. Its period is 2⁶⁴.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of the stream.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(INCREMENT);
        mix64(self.0)
    }
}

/// The first number of the stream of `value`: each bit of `value` influences every bit of the result.
#[inline]
pub const fn hash64(value: u64) -> u64 {
    SplitMix64::new(value).next_u64()
}

/// The mixing function: a bijection of 64 bits that maps 0 to 0.
#[inline]
#[must_use]
pub const fn mix64(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_equals_the_reference() {
        // The first numbers of the seed 1234567, as the authors' C program prints them.
        let mut stream = SplitMix64::new(1_234_567);
        let numbers: [u64; 3] = std::array::from_fn(|_| stream.next_u64());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        assert_eq!(hash64(1_234_567), numbers[0]);
        assert_eq!(mix64(0), 0);
    }
}
