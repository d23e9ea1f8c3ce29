// SPDX-License-Identifier: Apache-2.0
//! Virtual methods: their vtable slots, and the first version that has them.

use super::error::TensorRtError;
use super::version::{Flavor, Generation, Version};

/// A virtual method of TensorRT.
#[derive(Debug)]
pub(super) struct Method {
    /// Name in NVIDIA's documentation.
    pub(super) name: &'static str,
    /// Slot in each generation, in the order of [`Generation::column`].
    slots: [VtableSlot; 4],
}

/// Slot of a method in the vtables of one generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct VtableSlot {
    number: u16,
    /// The first version of the generation that has the method.
    since: (u16, u16),
    exists: bool,
}

/// The slot is valid in all versions of the generation.
pub(super) const fn at(number: u16) -> VtableSlot {
    VtableSlot {
        number,
        since: (0, 0),
        exists: true,
    }
}

/// The generation does not have the method.
pub(super) const NONE: VtableSlot = VtableSlot {
    number: 0,
    since: (0, 0),
    exists: false,
};

impl VtableSlot {
    /// The method exists since this version of the generation.
    pub(super) const fn since(mut self, major: u16, minor: u16) -> Self {
        self.since = (major, minor);
        self
    }
}

impl Method {
    /// `slots` are those of generation 8, 10, 11 and of TensorRT-RTX.
    pub(super) const fn new(name: &'static str, slots: [VtableSlot; 4]) -> Self {
        Self { name, slots }
    }

    /// The slot in `version`.
    ///
    /// # Errors
    /// `version` does not have the method.
    pub(super) fn slot(
        &self,
        generation: Generation,
        version: Version,
        flavor: Flavor,
    ) -> Result<usize, TensorRtError> {
        let slot = self.slots[generation.column()];
        if slot.exists && (version.major, version.minor) >= slot.since {
            return Ok(usize::from(slot.number));
        }
        Err(TensorRtError::NoMethod {
            flavor,
            version,
            method: self.name,
        })
    }

    /// Whether `version` has the method.
    pub(super) fn exists(&self, generation: Generation, version: Version, flavor: Flavor) -> bool {
        self.slot(generation, version, flavor).is_ok()
    }
}
