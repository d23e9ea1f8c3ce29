// SPDX-License-Identifier: Apache-2.0
//! The tracked sources by their ids. Sources are added and removed, and no id is used twice: the entry of a removed source stays
//! empty.

use std::ops::{Index, IndexMut};

use jetwatch_types::SourceId;

use super::source::TrackedSource;

/// One entry for each id that was ever used.
#[derive(Default)]
pub(crate) struct SourceTable(Vec<Option<Box<TrackedSource>>>);

impl SourceTable {
    /// Sets the entry of `id`.
    pub(super) fn insert(&mut self, id: SourceId, source: Box<TrackedSource>) {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()] = Some(source);
    }

    /// Empties the entry of `id`.
    pub(super) fn remove(&mut self, id: SourceId) {
        self.0[id.index()] = None;
    }

    /// The source with this id, where there is one.
    pub(super) fn get_mut(&mut self, id: SourceId) -> Option<&mut TrackedSource> {
        self.0.get_mut(id.index())?.as_deref_mut()
    }

    /// All sources.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TrackedSource> {
        self.0.iter_mut().flatten().map(Box::as_mut)
    }

    /// The ids of all sources.
    pub(super) fn ids(&self) -> Vec<SourceId> {
        let entries = (0..=u16::MAX).map(SourceId).zip(&self.0);
        let present = entries.filter(|(_, entry)| entry.is_some());
        present.map(|(id, _)| id).collect()
    }
}

/// Panics for an id without a source. A source is removed after its last result, so results have one.
impl Index<SourceId> for SourceTable {
    type Output = TrackedSource;

    fn index(&self, id: SourceId) -> &TrackedSource {
        self.0[id.index()]
            .as_ref()
            .expect("a source is kept until its last result")
    }
}

impl IndexMut<SourceId> for SourceTable {
    fn index_mut(&mut self, id: SourceId) -> &mut TrackedSource {
        self.0[id.index()]
            .as_mut()
            .expect("a source is kept until its last result")
    }
}
