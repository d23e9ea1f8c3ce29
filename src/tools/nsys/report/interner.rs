// SPDX-License-Identifier: Apache-2.0
//! Numbers for keys, in the order of their first occurrence. Used where events refer to threads, names and streams.

use std::hash::Hash;

use foldhash::HashMap;

/// Keys with their numbers.
#[derive(Debug, Default)]
pub(super) struct Interner<K> {
    numbers: HashMap<K, u32>,
    /// By number.
    pub(super) keys: Vec<K>,
    /// The last result: equal keys are often consecutive.
    last: Option<(K, u32)>,
}

impl<K: Copy + Eq + Hash> Interner<K> {
    /// The number of a key.
    pub(super) fn number(&mut self, key: K) -> u32 {
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let next = self.keys.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
        }
        self.last = Some((key, number));
        number
    }
}

/// The place of an entry of a short list, which it is added to where it is not there.
pub(super) fn position_or_push<T: PartialEq>(list: &mut Vec<T>, entry: T) -> usize {
    let known = list.iter().position(|other| *other == entry);
    known.unwrap_or_else(|| {
        list.push(entry);
        list.len() - 1
    })
}
