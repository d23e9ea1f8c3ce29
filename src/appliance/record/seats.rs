//! Whose place in a recording is whose: the places have names, and the sources of those names sit in them, one after the other.

use jetwatch_types::SourceId;

use super::overlay::Overlay;

/// The places of a recording.
pub(super) struct Seats {
    names: Vec<String>,
    /// By the source's index.
    of: Vec<Option<usize>>,
    /// Who is away for a while.
    away: Vec<SourceId>,
    /// By the place: what draws from the next frame on.
    pub(super) fresh: Vec<Option<Box<Overlay>>>,
}

impl Seats {
    /// Places with these names, in this order.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            of: Vec::new(),
            away: Vec::new(),
            fresh: names.iter().map(|_| None).collect(),
            names,
        }
    }

    /// Gives the place of this name to a source; whether there is one.
    pub(super) fn take(&mut self, source: SourceId, name: &str, overlay: Box<Overlay>) -> bool {
        let Some(seat) = self.names.iter().position(|known| known == name) else {
            return false;
        };
        let index = source.index();
        if self.of.len() <= index {
            self.of.resize(index + 1, None);
        }
        self.of[index] = Some(seat);
        self.fresh[seat] = Some(overlay);
        true
    }

    /// Remembers that a source is away.
    pub(super) fn set_away(&mut self, source: SourceId) {
        if !self.is_away(source) {
            self.away.push(source);
        }
    }

    /// Forgets that a source is away.
    pub(super) fn set_back(&mut self, source: SourceId) {
        self.away.retain(|away| *away != source);
    }

    /// Whether a source is away.
    pub(super) fn is_away(&self, source: SourceId) -> bool {
        self.away.contains(&source)
    }

    /// Takes the place of a source back; the place, where nobody has been given it since.
    pub(super) fn give_up(&mut self, source: SourceId) -> Option<usize> {
        self.set_back(source);
        let seat = self.of.get_mut(source.index())?.take()?;
        (!self.of.contains(&Some(seat))).then_some(seat)
    }

    /// The place of a source.
    pub(super) fn of(&self, source: SourceId) -> Option<usize> {
        self.of.get(source.index()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_belongs_to_its_name_and_not_to_a_source() {
        let overlay = || Box::new(Overlay::new(&[]));
        let mut seats = Seats::new(vec!["gate".to_owned(), "yard".to_owned()]);
        assert!(seats.take(SourceId(0), "gate", overlay()));
        assert!(seats.take(SourceId(1), "yard", overlay()));
        assert!(!seats.take(SourceId(2), "new", overlay()));
        seats.fresh[1] = None;
        // Started anew, under an id of its own.
        assert!(seats.take(SourceId(3), "yard", overlay()));
        let places = [0, 1, 2, 3, 9].map(|id| seats.of(SourceId(id)));
        assert_eq!(places, [Some(0), Some(1), None, Some(1), None]);
        assert!(seats.fresh[1].is_some());
        // The one before leaves late, and takes nothing along.
        assert_eq!(seats.give_up(SourceId(1)), None);
        assert_eq!(seats.give_up(SourceId(3)), Some(1));
        assert_eq!(seats.give_up(SourceId(3)), None);
        assert_eq!(seats.of(SourceId(3)), None);
    }
}
