// SPDX-License-Identifier: Apache-2.0
//! Blocks of a row of the timeline: events, short ones merged.

/// A row of the timeline shows at most about twice as many blocks: what is closer together than this part of the capture is one block.
const RESOLUTION: i64 = 3_000;

/// Begin, end, name, and how many events are in it.
pub(super) type Block = (i64, i64, u32, u32);

/// The time below which events are too short, or too close to each other, to be distinguished in a row of `span`, in ns.
pub(super) fn least((from, until): (i64, i64)) -> i64 {
    ((until - from) / RESOLUTION).max(1)
}

/// Appends an event to a row, or to its last block if both are too short to be distinguished.
pub(super) fn push_block(blocks: &mut Vec<Block>, (start, end, name): (i64, i64, u32), least: i64) {
    if let Some(last) = blocks.last_mut() {
        let is_close = start - last.1 < least;
        let is_short = last.1 - last.0 < least || end - start < least;
        if is_close && is_short {
            // The name of the longer one stays.
            if end - start > last.1 - last.0 {
                last.2 = name;
            }
            last.1 = last.1.max(end);
            last.3 += 1;
            return;
        }
    }
    blocks.push((start, end, name, 1));
}

#[cfg(test)]
mod tests {
    use super::push_block;

    #[test]
    fn adjacent_short_events_are_merged() {
        let mut blocks = Vec::new();
        for event in [(0, 3, 1), (5, 9, 2), (11, 12, 1), (50, 90, 3), (92, 190, 4)] {
            push_block(&mut blocks, event, 10);
        }
        assert_eq!(blocks, [(0, 12, 2, 3), (50, 90, 3, 1), (92, 190, 4, 1)]);
    }
}
