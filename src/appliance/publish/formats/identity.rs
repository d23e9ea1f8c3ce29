// SPDX-License-Identifier: Apache-2.0
//! Identities in the forms of other systems, made from ours: a repeated run of the same events has the same ones, and no state is
//! kept for them. They are not secrets.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use jetwatch_types::hash64;

/// A number that depends on every byte of `parts` and on where they end.
pub(super) fn fingerprint(seed: u64, parts: &[&[u8]]) -> u64 {
    let begin = hash64(seed);
    parts.iter().fold(begin, |hash, part| {
        let bytes = part.iter().copied();
        let inside = bytes.fold(hash, |hash, byte| hash64(hash ^ u64::from(byte)));
        // Beyond every byte: "ab", "c" differs from "a", "bc".
        hash64(inside ^ (1 << 8))
    })
}

/// Frigate's identity of what begins at `start`: the time, and six letters or digits from `fingerprint`.
pub(super) fn frigate_id(start: SystemTime, fingerprint: u64) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let since = start.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut id = format!("{}.{:06}-", since.as_secs(), since.subsec_micros());
    let mut left = fingerprint;
    for _ in 0..6 {
        id.push(char::from(ALPHABET[(left % 36) as usize]));
        left /= 36;
    }
    id
}

/// A UUID (RFC 9562, version 8: custom) from two fingerprints.
pub(super) fn uuid(high: u64, low: u64) -> String {
    let bits = (u128::from(high) << 64) | u128::from(low);
    let version = (bits & !(0xf << 76)) | (8 << 76);
    let bits = (version & !(0x3 << 62)) | (0x2 << 62);
    let digits = format!("{bits:032x}");
    let mut text = String::with_capacity(36);
    for (part, (from, to)) in [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)]
        .into_iter()
        .enumerate()
    {
        let dash = if part == 0 { "" } else { "-" };
        let _ = write!(text, "{dash}{}", &digits[from..to]);
    }
    text
}

/// Seconds since 1970.
pub(super) fn seconds(at: SystemTime) -> f64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    // As many digits as a double keeps.
    (since.as_secs_f64() * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn identities_have_the_forms_of_their_systems() {
        let start = UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_042);
        let id = frigate_id(start, fingerprint(1, &[b"gate", b"7"]));
        let (time, letters) = id.split_once('-').expect("two parts");
        assert_eq!((time, letters.len()), ("1700000000.000042", 6));
        assert!(
            letters
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        );
        let id = uuid(u64::MAX, u64::MAX);
        assert_eq!(id, "ffffffff-ffff-8fff-bfff-ffffffffffff");
        assert_eq!(uuid(0, 0), "00000000-0000-8000-8000-000000000000");
        assert_eq!(seconds(start), 1_700_000_000.000_042);
    }

    #[test]
    fn fingerprints_differ_by_seed_bytes_and_ends() {
        let all = [
            fingerprint(1, &[b"ab", b"c"]),
            fingerprint(1, &[b"a", b"bc"]),
            fingerprint(1, &[b"abc"]),
            fingerprint(2, &[b"abc"]),
            fingerprint(1, &[]),
        ];
        for (index, value) in all.iter().enumerate() {
            assert!(!all[..index].contains(value), "{index}");
        }
    }
}
