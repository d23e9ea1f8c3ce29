// SPDX-License-Identifier: Apache-2.0
//! Boxes of an MP4 file: a length, a type, and contents.

/// Appends a box of type `kind` whose contents `fill` appends.
pub(super) fn write(out: &mut Vec<u8>, kind: &[u8; 4], fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    out.extend(kind);
    fill(out);
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a box with a version and flags (a full box).
pub(super) fn write_full(
    out: &mut Vec<u8>,
    kind: &[u8; 4],
    version: u8,
    flags: u32,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    write(out, kind, |out| {
        out.extend((u32::from(version) << 24 | flags).to_be_bytes());
        fill(out);
    });
}

/// Appends numbers of 32 bits.
pub(super) fn words(out: &mut Vec<u8>, numbers: &[u32]) {
    for number in numbers {
        out.extend(number.to_be_bytes());
    }
}
