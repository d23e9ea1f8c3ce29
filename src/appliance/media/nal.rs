// SPDX-License-Identifier: Apache-2.0
//! NAL units: found in a byte stream by their start codes, and written with their lengths for MP4.

use jetwatch_types::VideoCodec;

/// The NAL units of a byte stream, without start codes and the zeros around them.
pub(crate) fn nal_units(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = start_code(bytes).map(|(_, after)| &bytes[after..]);
    std::iter::from_fn(move || {
        loop {
            let unit = rest?;
            let (end, next) = match start_code(unit) {
                Some((at, after)) => (at, Some(&unit[after..])),
                None => (unit.len(), None),
            };
            rest = next;
            // Trailing zeros belong to the start code or are padding.
            let end = unit[..end].iter().rposition(|byte| *byte != 0);
            if let Some(last) = end {
                return Some(&unit[..=last]);
            }
        }
    })
}

/// Start and end of the first start code, `00 00 01`.
fn start_code(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut at = 2;
    while at < bytes.len() {
        match bytes[at] {
            // The byte can only be the third of a start code, or none of it.
            2.. => at += 3,
            1 if bytes[at - 1] == 0 && bytes[at - 2] == 0 => return Some((at - 2, at + 1)),
            1 => at += 3,
            0 => at += 1,
        }
    }
    None
}

/// What a NAL unit is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NalKind {
    /// H.265 only.
    VideoParameterSet,
    SequenceParameterSet,
    PictureParameterSet,
    /// Ends, delimiters and padding, which a file does not need.
    Structure,
    /// A part of an image.
    Slice,
    /// Everything else.
    Other,
}

/// The kind of `unit`, which is not empty.
pub(crate) fn kind_of(codec: VideoCodec, unit: &[u8]) -> NalKind {
    match codec {
        VideoCodec::H264 => match unit[0] & 0x1f {
            1..=5 => NalKind::Slice,
            7 => NalKind::SequenceParameterSet,
            8 => NalKind::PictureParameterSet,
            9..=12 => NalKind::Structure,
            _ => NalKind::Other,
        },
        VideoCodec::H265 => match unit[0] >> 1 & 0x3f {
            0..=31 => NalKind::Slice,
            32 => NalKind::VideoParameterSet,
            33 => NalKind::SequenceParameterSet,
            34 => NalKind::PictureParameterSet,
            35..=38 => NalKind::Structure,
            _ => NalKind::Other,
        },
    }
}

/// Appends the NAL units of a byte stream to `out`, each after its length in 4 bytes. Parameter sets are left out: they are in
/// the header of the file.
pub(crate) fn write_with_lengths(codec: VideoCodec, bytes: &[u8], out: &mut Vec<u8>) {
    for unit in nal_units(bytes) {
        if matches!(kind_of(codec, unit), NalKind::Slice | NalKind::Other)
            && let Ok(length) = u32::try_from(unit.len())
        {
            out.extend(length.to_be_bytes());
            out.extend_from_slice(unit);
        }
    }
}

/// The payload of a NAL unit without the bytes that prevent start codes in it (`00 00 03`).
fn unescape(payload: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(payload.len());
    let mut zeros = 0;
    for byte in payload {
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = match byte {
            0 => zeros + 1,
            _ => 0,
        };
        plain.push(*byte);
    }
    plain
}

/// The payload of a NAL unit after a header of `header` bytes.
pub(crate) fn payload(unit: &[u8], header: usize) -> Option<Vec<u8>> {
    unit.get(header..).map(unescape)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_split_at_start_codes_of_both_lengths() {
        let stream = [
            9, 9, 0, 0, 0, 1, 0x67, 1, 0, 2, 0, 0, 1, 0x68, 3, 0, 0, 0, 0, 1, 0x65, 0, 0, 3, 1,
        ];
        let units: Vec<_> = nal_units(&stream).collect();
        assert_eq!(
            units,
            [&[0x67, 1, 0, 2][..], &[0x68, 3], &[0x65, 0, 0, 3, 1]]
        );
        let mut out = Vec::new();
        write_with_lengths(VideoCodec::H264, &stream, &mut out);
        assert_eq!(out, [0, 0, 0, 5, 0x65, 0, 0, 3, 1]);
        assert_eq!(unescape(&[0, 0, 3, 1, 3, 0, 0, 3]), [0, 0, 1, 3, 0, 0]);
        assert_eq!(nal_units(&[0, 0, 1]).count(), 0);
    }

    proptest! {
        #[test]
        fn units_that_were_put_together_are_found(
            units in prop::collection::vec(prop::collection::vec(1..=255_u8, 1..40), 0..8),
            long in prop::collection::vec(any::<bool>(), 8),
        ) {
            let mut stream = Vec::new();
            for (unit, long) in units.iter().zip(long) {
                stream.extend_from_slice(if long { &[0, 0, 0, 1] } else { &[0, 0, 1] });
                stream.extend_from_slice(unit);
            }
            prop_assert_eq!(nal_units(&stream).collect::<Vec<_>>(), units);
        }
    }
}
