// SPDX-License-Identifier: Apache-2.0
//! Access units in common blocks of memory of whole pages.
//!
//! Units have 5 to 100 KB. Those that stay for seconds, between buffers of the decoder that stay for milliseconds, leave gaps in the
//! heap: a third more than the units have. Blocks of the operating system leave at most a page each.

use bytes::Bytes;
use memmap2::MmapMut;

/// Copies `parts` into one block; they are returned as parts of it. `None`: there is no memory.
pub(crate) fn gather(parts: &[Bytes]) -> Option<Vec<Bytes>> {
    let length = parts.iter().map(Bytes::len).sum();
    if length == 0 {
        return None;
    }
    let mut map = MmapMut::map_anon(length).ok()?;
    let mut end = 0;
    for part in parts {
        map[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    let block = Bytes::from_owner(map);
    let mut begin = 0;
    let of_block = |part: &Bytes| {
        let first = begin;
        begin += part.len();
        block.slice(first..begin)
    };
    Some(parts.iter().map(of_block).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_same_in_one_block() {
        let parts: Vec<Bytes> = [&b"one"[..], b"", b"three"]
            .map(Bytes::copy_from_slice)
            .into();
        let found = gather(&parts).expect("memory");
        assert_eq!(found, parts);
        assert_eq!(found[0].as_ptr().wrapping_add(3), found[2].as_ptr());
        assert_eq!(gather(&parts[1..2]), None);
    }
}
