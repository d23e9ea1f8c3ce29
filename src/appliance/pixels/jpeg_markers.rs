// SPDX-License-Identifier: Apache-2.0
//! Checks whether a JPEG file is complete, and finds its Huffman tables. Not a decoder: it parses markers only.
//!
//! Decoders fill the missing part of a truncated file, gray or from the last rows, without an error. That is fine for
//! viewing, but accuracy measured on a partial image is wrong.

/// Start of image.
pub(super) const START: u8 = 0xd8;
/// End of image.
pub(super) const END: u8 = 0xd9;
/// Start of scan; coded data follows its header.
pub(super) const SCAN: u8 = 0xda;
/// Huffman tables.
const TABLES: u8 = 0xc4;

/// Markers without a length: restarts, which also divide coded data, and a temporary one.
pub(super) const fn has_no_length(marker: u8) -> bool {
    matches!(marker, 0x01 | 0xd0..=0xd7)
}

/// Whether `bytes` begin like a JPEG file.
pub(super) fn is_jpeg(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, START, 0xff])
}

/// Whether the JPEG in `bytes` has its end marker, after at least one scan. Bytes after it are ignored.
pub(super) fn is_complete(bytes: &[u8]) -> bool {
    let mut at = 2;
    let mut scans = 0;
    while let Some((marker, next)) = next_marker(bytes, at) {
        at = next;
        match marker {
            END => return scans > 0,
            _ if has_no_length(marker) || marker == START => {}
            _ => {
                // The length includes its own two bytes.
                let Some(length) = bytes.get(at..at + 2) else {
                    return false;
                };
                at += usize::from(u16::from_be_bytes([length[0], length[1]])).max(2);
                scans += usize::from(marker == SCAN);
            }
        }
    }
    false
}

/// The segments with Huffman tables before the first scan, and where that begins. `None`: there is no scan.
pub(super) fn huffman_tables(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut at, mut tables) = (2, Vec::new());
    loop {
        let (marker, next) = next_marker(bytes, at)?;
        if marker == SCAN {
            return Some((tables, next - 2));
        }
        at = next;
        if !has_no_length(marker) {
            let length = bytes.get(at..at + 2)?;
            at += usize::from(u16::from_be_bytes([length[0], length[1]]));
        }
        if marker == TABLES {
            tables.extend_from_slice(bytes.get(next - 2..at)?);
        }
    }
}

/// The next marker at or after `at`, and the offset of its content. Skips coded data, in which 0xff is followed by 0.
fn next_marker(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let rest = bytes.get(at..)?;
    let found = rest
        .windows(2)
        .position(|pair| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0xff))?;
    Some((rest[found + 1], at + found + 2))
}

#[cfg(test)]
mod tests {
    use jetwatch_types::Size;

    use super::*;
    use crate::codec::{ImageFormat, encode_rgb};

    /// An image of noise, so that its coded data contain every byte value.
    fn noise() -> Vec<u8> {
        let mut state = 1_u32;
        let samples: Vec<u8> = (0..64 * 48 * 3)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        encode_rgb(ImageFormat::Jpeg, Size::new(64, 48), &samples).expect("a size of JPEG")
    }

    #[test]
    fn truncated_jpeg_is_incomplete() {
        let bytes = noise();
        assert!(is_jpeg(&bytes) && is_complete(&bytes));
        // Stuffing.
        assert!(bytes.windows(2).any(|pair| pair == [0xff, 0x00]));
        for end in 0..bytes.len() {
            assert!(!is_complete(&bytes[..end]), "{end} of {}", bytes.len());
        }
        let padded = [&bytes[..], b"something behind"].concat();
        assert!(is_complete(&padded));
    }

    #[test]
    fn a_thumbnail_in_the_header_does_not_end_the_image() {
        let bytes = noise();
        let inner: &[u8] = &[0xff, START, 0xff, END];
        // An application segment after the start marker, as written by cameras.
        let header = [&[0xff, START, 0xff, 0xe1, 0, 6], inner].concat();
        let whole = [&header[..], &bytes[2..]].concat();
        assert!(is_complete(&whole));
        assert!(!is_complete(&whole[..whole.len() - 2]));
    }

    #[test]
    fn markers_without_an_image_are_not_complete() {
        for bytes in [
            &[][..],
            &[0xff, START],
            &[0xff, START, 0xff, END],
            &[0xff, START, 0xff, SCAN, 0xff],
            &[0xff, START, 0xff, SCAN, 0xff, 0xff, 1, 2],
        ] {
            assert!(!is_complete(bytes), "{bytes:?}");
        }
    }
}
