// SPDX-License-Identifier: Apache-2.0
//! Bits of a raw byte sequence payload (RBSP), most significant first. It reads hostile bytes: every call is `None` at the end.

use jetwatch_types::Size;

/// Longest prefix of an Exp-Golomb code that is read; the standards need 31.
const MAX_PREFIX: u32 = 31;

/// Largest width and height that are taken for real: twice 16K.
pub(crate) const MAX_SIDE: u32 = 32_768;

pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits read.
    position: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// One bit.
    pub(crate) fn flag(&mut self) -> Option<bool> {
        Some(self.bits(1)? == 1)
    }

    /// `count` bits, at most 32.
    pub(crate) fn bits(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.bytes.get(self.position / 8)?;
            let bit = byte >> (7 - self.position % 8) & 1;
            value = value << 1 | u32::from(bit);
            self.position += 1;
        }
        Some(value)
    }

    /// Passes over `count` bits.
    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.position = self.position.checked_add(count)?;
        (self.position <= self.bytes.len() * 8).then_some(())
    }

    /// An unsigned Exp-Golomb code, `ue(v)`.
    pub(crate) fn unsigned(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > MAX_PREFIX {
                return None;
            }
        }
        let suffix = self.bits(zeros)?;
        ((1_u64 << zeros) - 1 + u64::from(suffix)).try_into().ok()
    }

    /// A signed Exp-Golomb code, `se(v)`.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let code = i64::from(self.unsigned()?);
        Some(match code % 2 {
            0 => -(code / 2),
            _ => (code + 1) / 2,
        })
    }

    /// The four offsets of a cropping window, in units of `unit_x` and `unit_y` pixels.
    pub(crate) fn crop(&mut self, unit_x: u32, unit_y: u32) -> Option<[u32; 4]> {
        Some([
            self.unsigned()?.checked_mul(unit_x)?,
            self.unsigned()?.checked_mul(unit_x)?,
            self.unsigned()?.checked_mul(unit_y)?,
            self.unsigned()?.checked_mul(unit_y)?,
        ])
    }
}

/// The size after cropping by `[left, right, top, bottom]`, in pixels.
pub(crate) fn cropped(width: u32, height: u32, crop: [u32; 4]) -> Option<Size> {
    let [left, right, top, bottom] = crop;
    let size = Size::new(
        width.checked_sub(left.checked_add(right)?)?,
        height.checked_sub(top.checked_add(bottom)?)?,
    );
    let is_real = |side| (1..=MAX_SIDE).contains(&side);
    (is_real(size.width) && is_real(size.height)).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_golomb_codes_are_read_until_the_end() {
        // 1, 010, 011, 00100, 00101: 0, 1, 2, 3, 4.
        let mut bits = BitReader::new(&[0b1010_0110, 0b0100_0010, 0b1000_0000]);
        let values: Vec<_> = (0..5).map_while(|_| bits.unsigned()).collect();
        assert_eq!(values, [0, 1, 2, 3, 4]);
        assert_eq!(bits.unsigned(), None, "zeros to the end");
        let mut bits = BitReader::new(&[0b0100_1100, 0b1000_0101]);
        let values: Vec<_> = (0..4).map_while(|_| bits.signed()).collect();
        assert_eq!(values, [1, -1, 2, -2]);
        assert_eq!(BitReader::new(&[0; 8]).unsigned(), None);
        assert_eq!(BitReader::new(&[1]).skip(9), None);
    }
}
