// SPDX-License-Identifier: Apache-2.0
//! Counts of objects and crossings by class, in lists sorted by class.

use jetwatch_types::{Crossings, Side, ZoneCount};

/// Adds an object to the counts, which are sorted by class.
pub(super) fn present(counts: &mut Vec<ZoneCount>, class: u16) {
    match counts.binary_search_by_key(&class, |entry| entry.class) {
        Ok(index) => counts[index].count += 1,
        Err(index) => counts.insert(index, ZoneCount { class, count: 1 }),
    }
}

/// Adds a crossing to the counts, which are sorted by class.
pub(super) fn crossing(counts: &mut Vec<Crossings>, class: u16, to: Side) {
    let index = match counts.binary_search_by_key(&class, |entry| entry.class) {
        Ok(index) => index,
        Err(index) => {
            let none = Crossings {
                class,
                to_left: 0,
                to_right: 0,
            };
            counts.insert(index, none);
            index
        }
    };
    match to {
        Side::Left => counts[index].to_left += 1,
        Side::Right => counts[index].to_right += 1,
    }
}
