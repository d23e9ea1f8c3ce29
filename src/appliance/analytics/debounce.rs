//! A yes or no that must be seen several times in a row before it counts.

/// What holds, and for how many frames the opposite was seen in a row. It begins with no.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Debounce {
    holds: bool,
    opposed: u32,
}

impl Debounce {
    /// Takes in what one frame shows; the new value in the frame in which it has been seen `inertia_frames` times.
    pub(super) fn step(&mut self, value: bool, inertia_frames: u32) -> Option<bool> {
        if value == self.holds {
            self.opposed = 0;
            return None;
        }
        self.opposed = self.opposed.saturating_add(1);
        if self.opposed < inertia_frames {
            return None;
        }
        *self = Self {
            holds: value,
            opposed: 0,
        };
        Some(value)
    }

    /// The next frame is the last: what it shows holds at once.
    pub(super) fn settle(&mut self) {
        self.opposed = u32::MAX;
    }

    /// Whether the newest frame showed the opposite of what holds.
    pub(super) fn is_opposed(&self) -> bool {
        self.opposed > 0
    }

    /// What holds.
    pub(super) fn holds(&self) -> bool {
        self.holds
    }
}
