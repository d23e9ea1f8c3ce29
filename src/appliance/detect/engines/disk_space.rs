// SPDX-License-Identifier: Apache-2.0
//! Free disk space for the engine cache, checked before a build of several minutes.

use std::io;
use std::path::Path;

use super::EngineError;
use super::atomic_file::folder_error;

/// Bytes that a user without special rights may still write to the disk of `folder`.
pub(super) fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Fails when the disk of `folder` has less than `bytes` free.
pub(super) fn check(folder: &Path, bytes: u64) -> Result<(), EngineError> {
    let free = free_bytes(folder).map_err(|source| folder_error("read", folder, source))?;
    if free >= bytes {
        return Ok(());
    }
    Err(EngineError::Full {
        folder: folder.to_owned(),
        needed: bytes.div_ceil(1 << 20),
        free: free >> 20,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_disk_space_is_reported_with_both_sizes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        check(folder.path(), 1).expect("there is space for a byte");
        let error = check(folder.path(), u64::MAX)
            .expect_err("no disk is that large")
            .to_string();
        assert!(
            error.starts_with("not enough disk space for the engine in ")
                && error.contains("17592186044416 MiB are needed"),
            "{error}"
        );
        let error = check(&folder.path().join("gone"), 1)
            .expect_err("there is no such folder")
            .to_string();
        assert!(error.contains("No such file"), "{error}");
    }
}
