// SPDX-License-Identifier: Apache-2.0
//! The sequence parameter set of H.264 (ITU-T H.264, 7.3.2.1.1), as far as the header of a file needs it.

use jetwatch_types::Size;

use crate::bit_reader::{BitReader, cropped};
use crate::nal::payload;

/// Profiles whose parameter sets state the chroma format.
const WITH_CHROMA: [u32; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

/// Largest number of reference frames in one cycle of picture order counts.
const MAX_CYCLE: u32 = 255;

/// The chroma format, and the bit depths above 8 of luma and chroma.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chroma {
    pub(crate) format: u32,
    pub(crate) luma_bits: u32,
    pub(crate) chroma_bits: u32,
}

/// The facts of a sequence parameter set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) size: Size,
    /// `None`: the profile has 4:2:0 with 8 bits only.
    pub(crate) chroma: Option<Chroma>,
}

impl Sequence {
    /// Reads a NAL unit; `None`: it is damaged.
    pub(crate) fn parse(unit: &[u8]) -> Option<Self> {
        let payload = payload(unit, 1)?;
        let mut bits = BitReader::new(&payload);
        let profile = bits.bits(8)?;
        bits.skip(16)?;
        bits.unsigned()?;
        let mut planes = 1;
        let chroma = match WITH_CHROMA.contains(&profile) {
            true => {
                let format = bits.unsigned()?;
                if format > 3 {
                    return None;
                }
                let are_separate = format == 3 && bits.flag()?;
                planes = if are_separate { 0 } else { format };
                let chroma = Chroma {
                    format,
                    luma_bits: bits.unsigned()?,
                    chroma_bits: bits.unsigned()?,
                };
                if chroma.luma_bits > 6 || chroma.chroma_bits > 6 {
                    return None;
                }
                bits.skip(1)?;
                if bits.flag()? {
                    skip_scaling_lists(&mut bits, if format == 3 { 12 } else { 8 })?;
                }
                Some(chroma)
            }
            false => None,
        };
        skip_picture_order(&mut bits)?;
        bits.unsigned()?;
        bits.skip(1)?;
        let width = bits.unsigned()?.checked_add(1)?.checked_mul(16)?;
        let map_units = bits.unsigned()?.checked_add(1)?;
        let fields = if bits.flag()? { 1 } else { 2 };
        if fields == 2 {
            bits.skip(1)?;
        }
        let height = map_units.checked_mul(16)?.checked_mul(fields)?;
        bits.skip(1)?;
        let crop = match bits.flag()? {
            true => {
                let (x, y) = match planes {
                    1 => (2, 2),
                    2 => (2, 1),
                    _ => (1, 1),
                };
                bits.crop(x, y * fields)?
            }
            false => [0; 4],
        };
        Some(Self {
            size: cropped(width, height, crop)?,
            chroma,
        })
    }
}

fn skip_scaling_lists(bits: &mut BitReader<'_>, lists: u32) -> Option<()> {
    for list in 0..lists {
        if !bits.flag()? {
            continue;
        }
        let (mut last, mut next) = (8, 8);
        for _ in 0..if list < 6 { 16 } else { 64 } {
            if next != 0 {
                next = (last + bits.signed()?).rem_euclid(256);
            }
            if next != 0 {
                last = next;
            }
        }
    }
    Some(())
}

fn skip_picture_order(bits: &mut BitReader<'_>) -> Option<()> {
    bits.unsigned()?;
    match bits.unsigned()? {
        0 => {
            bits.unsigned()?;
        }
        1 => {
            bits.skip(1)?;
            bits.signed()?;
            bits.signed()?;
            let cycle = bits.unsigned()?;
            if cycle > MAX_CYCLE {
                return None;
            }
            for _ in 0..cycle {
                bits.signed()?;
            }
        }
        2 => {}
        _ => return None,
    }
    Some(())
}

/// The size of the images of a sequence parameter set.
pub(crate) fn size_of(unit: &[u8]) -> Option<Size> {
    Sequence::parse(unit).map(|sequence| sequence.size)
}

/// Profile, constraints and level of a sequence parameter set, as in RFC 6381.
pub(crate) fn codec_string(unit: &[u8]) -> String {
    let byte = |at: usize| unit.get(at).copied().unwrap_or_default();
    format!("avc1.{:02X}{:02X}{:02X}", byte(1), byte(2), byte(3))
}
