// SPDX-License-Identifier: Apache-2.0
//! The sequence parameter set of H.265 (ITU-T H.265, 7.3.2.2.1), as far as the header of a file needs it.

use jetwatch_types::Size;

use crate::bit_reader::{BitReader, cropped};
use crate::nal::payload;

/// Bytes of `general_profile_space` to `general_level_idc`.
const PROFILE_BYTES: usize = 12;

/// The facts of a sequence parameter set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) size: Size,
    /// Profile, tier, compatibility, constraints and level, as they are in the parameter set.
    pub(crate) profile: [u8; PROFILE_BYTES],
    pub(crate) temporal_layers: u8,
    pub(crate) is_temporally_nested: bool,
    pub(crate) chroma_format: u8,
    /// Bit depths above 8.
    pub(crate) luma_bits: u8,
    pub(crate) chroma_bits: u8,
}

impl Sequence {
    /// Reads a NAL unit; `None`: it is damaged.
    pub(crate) fn parse(unit: &[u8]) -> Option<Self> {
        let payload = payload(unit, 2)?;
        let mut bits = BitReader::new(&payload);
        bits.skip(4)?;
        let sub_layers = bits.bits(3)?;
        if sub_layers > 6 {
            return None;
        }
        let is_temporally_nested = bits.flag()?;
        let profile = payload.get(1..=PROFILE_BYTES)?.try_into().ok()?;
        bits.skip(PROFILE_BYTES * 8)?;
        skip_sub_layers(&mut bits, sub_layers)?;
        bits.unsigned()?;
        let chroma_format = bits.unsigned()?;
        if chroma_format > 3 {
            return None;
        }
        let are_separate = chroma_format == 3 && bits.flag()?;
        let (width, height) = (bits.unsigned()?, bits.unsigned()?);
        let crop = match bits.flag()? {
            true => {
                let (x, y) = match chroma_format {
                    1 => (2, 2),
                    2 => (2, 1),
                    _ => (1, 1),
                };
                let (x, y) = if are_separate { (1, 1) } else { (x, y) };
                bits.crop(x, y)?
            }
            false => [0; 4],
        };
        let (luma_bits, chroma_bits) = (bits.unsigned()?, bits.unsigned()?);
        if luma_bits > 8 || chroma_bits > 8 {
            return None;
        }
        Some(Self {
            size: cropped(width, height, crop)?,
            profile,
            temporal_layers: sub_layers as u8 + 1,
            is_temporally_nested,
            chroma_format: chroma_format as u8,
            luma_bits: luma_bits as u8,
            chroma_bits: chroma_bits as u8,
        })
    }
}

/// Passes over the profiles and levels of the layers below the highest.
fn skip_sub_layers(bits: &mut BitReader<'_>, sub_layers: u32) -> Option<()> {
    if sub_layers == 0 {
        return Some(());
    }
    let mut present = Vec::new();
    for _ in 0..sub_layers {
        present.push((bits.flag()?, bits.flag()?));
    }
    for _ in sub_layers..8 {
        bits.skip(2)?;
    }
    for (has_profile, has_level) in present {
        if has_profile {
            bits.skip(88)?;
        }
        if has_level {
            bits.skip(8)?;
        }
    }
    Some(())
}

/// Profile, tier, level and constraints of a sequence parameter set, as in ISO/IEC 14496-15, annex E.
pub(crate) fn codec_string(unit: &[u8]) -> String {
    let Some(sequence) = Sequence::parse(unit) else {
        return "hvc1".to_owned();
    };
    let [first, c0, c1, c2, c3, constraints @ .., level] = sequence.profile;
    let space = ["", "A", "B", "C"][usize::from(first >> 6)];
    let tier = if first & 0x20 == 0 { 'L' } else { 'H' };
    let compatibility = u32::from_be_bytes([c0, c1, c2, c3]).reverse_bits();
    let mut text = format!(
        "hvc1.{space}{}.{compatibility:X}.{tier}{level}",
        first & 0x1f
    );
    let kept = constraints.iter().rposition(|byte| *byte != 0);
    for byte in kept.map_or(&[][..], |last| &constraints[..=last]) {
        text.push_str(&format!(".{byte:X}"));
    }
    text
}
