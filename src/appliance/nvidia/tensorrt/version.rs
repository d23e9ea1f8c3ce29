// SPDX-License-Identifier: Apache-2.0
//! Versions of TensorRT, and their generations of vtables.

use std::fmt;

/// A version as reported by the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major number.
    pub major: u16,
    /// Minor number.
    pub minor: u16,
    /// Patch number.
    pub patch: u16,
}

impl Version {
    /// `major.minor.patch`.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// From the return value of `getInferLibVersion`: 8502 is 8.5.2, 100300 is 10.3.0, and 10701 of TensorRT-RTX is 1.7.1.
    pub(crate) fn from_number(number: i32, flavor: Flavor) -> Self {
        let number = number.unsigned_abs();
        // Up to version 8 the major number counts thousands, since then ten thousands.
        let thousands = if flavor != Flavor::Rtx && number < 10_000 {
            1000
        } else {
            10_000
        };
        let part = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        Self::new(
            part(number / thousands),
            part(number % thousands / 100),
            part(number % 100),
        )
    }

    /// The number that this version's headers pass to the factory functions.
    pub(super) fn number(self, flavor: Flavor) -> i32 {
        let thousands = if flavor != Flavor::Rtx && self.major < 10 {
            1000
        } else {
            10_000
        };
        i32::from(self.major) * thousands + i32::from(self.minor) * 100 + i32::from(self.patch)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Kind of library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// `libnvinfer`: builder and runtime.
    Full,
    /// `libnvinfer_lean` or `libnvinfer_dispatch`: runtime for version-compatible plans only.
    Lean,
    /// `libtensorrt_rtx`: TensorRT for RTX.
    Rtx,
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "TensorRT",
            Self::Lean => "TensorRT lean runtime",
            Self::Rtx => "TensorRT-RTX",
        })
    }
}

/// Versions whose methods have the same vtable slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    /// 8.5 and 8.6.
    Eight,
    /// 10.0 to 10.16.
    Ten,
    /// 11.0 to 11.4.
    Eleven,
    /// TensorRT-RTX from 1.7: the vtables of generation 11 with some differences.
    Rtx,
}

impl Generation {
    /// The generation of `version`; `None` when its vtables are unknown, so that calls would be undefined behavior.
    pub fn from_version(version: Version, flavor: Flavor) -> Option<Self> {
        let Version { major, minor, .. } = version;
        match (flavor, major) {
            // Older TensorRT-RTX mixes two generations; a major version after 1 may introduce a new one.
            (Flavor::Rtx, 1) if minor >= 7 => Some(Self::Rtx),
            (Flavor::Rtx, _) => None,
            (_, 8) if minor >= 5 => Some(Self::Eight),
            (_, 10) => Some(Self::Ten),
            (_, 11) => Some(Self::Eleven),
            _ => None,
        }
    }

    /// Column in the method tables.
    pub(super) const fn column(self) -> usize {
        match self {
            Self::Eight => 0,
            Self::Ten => 1,
            Self::Eleven => 2,
            Self::Rtx => 3,
        }
    }
}

/// Supported versions, for messages.
pub(super) const SUPPORTED: &str =
    "TensorRT 8.5, 8.6, 10.x and 11.x, and TensorRT-RTX 1.7 and newer of version 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_versions_and_back() {
        for (number, flavor, version) in [
            (8502, Flavor::Full, Version::new(8, 5, 2)),
            (8601, Flavor::Full, Version::new(8, 6, 1)),
            (100_300, Flavor::Full, Version::new(10, 3, 0)),
            (101_601, Flavor::Full, Version::new(10, 16, 1)),
            (110_400, Flavor::Lean, Version::new(11, 4, 0)),
            (10_701, Flavor::Rtx, Version::new(1, 7, 1)),
        ] {
            assert_eq!(Version::from_number(number, flavor), version);
            assert_eq!(version.number(flavor), number);
        }
    }

    #[test]
    fn unknown_versions_have_no_generation() {
        let of =
            |flavor, major, minor| Generation::from_version(Version::new(major, minor, 0), flavor);
        assert_eq!(of(Flavor::Full, 8, 5), Some(Generation::Eight));
        assert_eq!(of(Flavor::Full, 10, 13), Some(Generation::Ten));
        assert_eq!(of(Flavor::Lean, 11, 4), Some(Generation::Eleven));
        assert_eq!(of(Flavor::Rtx, 1, 7), Some(Generation::Rtx));
        for (flavor, major, minor) in [
            (Flavor::Full, 8, 4),
            (Flavor::Full, 7, 2),
            (Flavor::Full, 9, 3),
            (Flavor::Full, 12, 0),
            (Flavor::Rtx, 1, 4),
            (Flavor::Rtx, 2, 0),
        ] {
            assert_eq!(of(flavor, major, minor), None, "{flavor} {major}.{minor}");
        }
    }
}
