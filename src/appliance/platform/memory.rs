// SPDX-License-Identifier: Apache-2.0
//! The machine's memory, as `/proc/meminfo` gives it.

use super::{PlatformError, SysRoot};

/// Memory of the machine, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All that the kernel uses.
    pub total: u64,
    /// What programs can still get without swapping.
    pub available: u64,
}

impl Memory {
    /// `None` where the kernel does not report it.
    ///
    /// # Errors
    /// `/proc/meminfo` cannot be read.
    pub fn read(root: &SysRoot) -> Result<Option<Self>, PlatformError> {
        Ok(root.text("/proc/meminfo")?.as_deref().and_then(Self::parse))
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
            kib.checked_mul(1024)
        };
        Some(Self {
            total: bytes("MemTotal:")?,
            available: bytes("MemAvailable:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_from_meminfo() {
        let text = "MemTotal:       8000 kB\nMemFree:   10 kB\nMemAvailable:    2048 kB\n";
        let found = Memory::parse(text).expect("both lines are there");
        assert_eq!((found.total, found.available), (8000 << 10, 2 << 20));
        assert_eq!(Memory::parse("MemTotal: 8 kB\n"), None);
        let here = Memory::read(&SysRoot::default()).expect("readable");
        assert!(here.expect("any kernel since 3.14").available > 1 << 20);
    }

    #[test]
    fn missing_meminfo_is_no_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        assert_eq!(Memory::read(&root).expect("missing is fine"), None);
    }
}
