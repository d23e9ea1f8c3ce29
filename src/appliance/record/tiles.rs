// SPDX-License-Identifier: Apache-2.0
//! Assignment of sources to the tiles of a recording, by source name.

use jetwatch_types::SourceId;

use super::overlay::Overlay;

/// The tiles of a recording.
pub(super) struct TileAssignment {
    names: Vec<String>,
    /// Tile by source index.
    tile_of: Vec<Option<usize>>,
    /// Sources that are offline.
    offline: Vec<SourceId>,
    /// By tile: a new overlay for the next frame.
    pub(super) new_overlays: Vec<Option<Box<Overlay>>>,
}

impl TileAssignment {
    /// Tiles with these names, in this order.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            tile_of: Vec::new(),
            offline: Vec::new(),
            new_overlays: names.iter().map(|_| None).collect(),
            names,
        }
    }

    /// Assigns the tile of this name to a source; returns whether there is one.
    pub(super) fn assign(&mut self, source: SourceId, name: &str, overlay: Box<Overlay>) -> bool {
        let Some(tile) = self.names.iter().position(|tile| tile == name) else {
            return false;
        };
        let index = source.index();
        if self.tile_of.len() <= index {
            self.tile_of.resize(index + 1, None);
        }
        self.tile_of[index] = Some(tile);
        self.new_overlays[tile] = Some(overlay);
        true
    }

    /// Marks a source as offline.
    pub(super) fn set_offline(&mut self, source: SourceId) {
        if !self.is_offline(source) {
            self.offline.push(source);
        }
    }

    /// Marks a source as online.
    pub(super) fn set_online(&mut self, source: SourceId) {
        self.offline.retain(|away| *away != source);
    }

    pub(super) fn is_offline(&self, source: SourceId) -> bool {
        self.offline.contains(&source)
    }

    /// Frees the tile of a source; returns it unless it is already assigned to another source.
    pub(super) fn release(&mut self, source: SourceId) -> Option<usize> {
        self.set_online(source);
        let tile = self.tile_of.get_mut(source.index())?.take()?;
        (!self.tile_of.contains(&Some(tile))).then_some(tile)
    }

    pub(super) fn tile_of(&self, source: SourceId) -> Option<usize> {
        self.tile_of.get(source.index()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tile_belongs_to_source_name() {
        let overlay = || Box::new(Overlay::new(&[]));
        let mut assignment = TileAssignment::new(vec!["gate".to_owned(), "yard".to_owned()]);
        assert!(assignment.assign(SourceId(0), "gate", overlay()));
        assert!(assignment.assign(SourceId(1), "yard", overlay()));
        assert!(!assignment.assign(SourceId(2), "new", overlay()));
        assignment.new_overlays[1] = None;
        // Restarted, with a new id.
        assert!(assignment.assign(SourceId(3), "yard", overlay()));
        let tiles = [0, 1, 2, 3, 9].map(|id| assignment.tile_of(SourceId(id)));
        assert_eq!(tiles, [Some(0), Some(1), None, Some(1), None]);
        assert!(assignment.new_overlays[1].is_some());
        // The earlier one leaves late, and its tile stays assigned.
        assert_eq!(assignment.release(SourceId(1)), None);
        assert_eq!(assignment.release(SourceId(3)), Some(1));
        assert_eq!(assignment.release(SourceId(3)), None);
        assert_eq!(assignment.tile_of(SourceId(3)), None);
    }
}
