//! Whose place in a recording is whose: the places have names, and the sources of those names sit in them, one after the other.

use jetwatch_types::SourceId;

use super::overlay::Overlay;

/// The places of a recording.
pub(super) struct TileAssignment {
    names: Vec<String>,
    /// By the source's index.
    tile_of: Vec<Option<usize>>,
    /// Who is away for a while.
    offline: Vec<SourceId>,
    /// By the place: what draws from the next frame on.
    pub(super) new_overlays: Vec<Option<Box<Overlay>>>,
}

impl TileAssignment {
    /// Places with these names, in this order.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            tile_of: Vec::new(),
            offline: Vec::new(),
            new_overlays: names.iter().map(|_| None).collect(),
            names,
        }
    }

    /// Gives the place of this name to a source; whether there is one.
    pub(super) fn assign(&mut self, source: SourceId, name: &str, overlay: Box<Overlay>) -> bool {
        let Some(tile) = self.names.iter().position(|known| known == name) else {
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

    /// Remembers that a source is away.
    pub(super) fn set_offline(&mut self, source: SourceId) {
        if !self.is_offline(source) {
            self.offline.push(source);
        }
    }

    /// Forgets that a source is away.
    pub(super) fn set_online(&mut self, source: SourceId) {
        self.offline.retain(|away| *away != source);
    }

    /// Whether a source is away.
    pub(super) fn is_offline(&self, source: SourceId) -> bool {
        self.offline.contains(&source)
    }

    /// Takes the place of a source back; the place, where nobody has been given it since.
    pub(super) fn release(&mut self, source: SourceId) -> Option<usize> {
        self.set_online(source);
        let tile = self.tile_of.get_mut(source.index())?.take()?;
        (!self.tile_of.contains(&Some(tile))).then_some(tile)
    }

    /// The place of a source.
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
        let mut seats = TileAssignment::new(vec!["gate".to_owned(), "yard".to_owned()]);
        assert!(seats.assign(SourceId(0), "gate", overlay()));
        assert!(seats.assign(SourceId(1), "yard", overlay()));
        assert!(!seats.assign(SourceId(2), "new", overlay()));
        seats.new_overlays[1] = None;
        // Started anew, under an id of its own.
        assert!(seats.assign(SourceId(3), "yard", overlay()));
        let places = [0, 1, 2, 3, 9].map(|id| seats.tile_of(SourceId(id)));
        assert_eq!(places, [Some(0), Some(1), None, Some(1), None]);
        assert!(seats.new_overlays[1].is_some());
        // The one before leaves late, and takes nothing along.
        assert_eq!(seats.release(SourceId(1)), None);
        assert_eq!(seats.release(SourceId(3)), Some(1));
        assert_eq!(seats.release(SourceId(3)), None);
        assert_eq!(seats.tile_of(SourceId(3)), None);
    }
}
