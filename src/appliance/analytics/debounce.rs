// SPDX-License-Identifier: Apache-2.0
//! Debounce: a boolean changes only after several consecutive frames with the new value.

/// The accepted value, initially false, and the number of consecutive frames with the opposite value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Debounce {
    holds: bool,
    opposed: u32,
}

impl Debounce {
    /// Updates with the value of one frame; returns the new value after `inertia_frames` consecutive frames.
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

    /// Accepts the value of the next frame at once, because no frame follows it.
    pub(super) fn settle(&mut self) {
        self.opposed = u32::MAX;
    }

    /// Whether the newest frame had the opposite of the accepted value.
    pub(super) fn is_opposed(&self) -> bool {
        self.opposed > 0
    }

    /// The accepted value.
    pub(super) fn holds(&self) -> bool {
        self.holds
    }
}
