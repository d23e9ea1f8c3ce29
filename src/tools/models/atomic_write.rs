// SPDX-License-Identifier: Apache-2.0
//! Atomic writes of the files of a model folder, and their hashes.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use jetwatch_files::{Sha256Digest, Sha256Hasher, for_each_chunk};

/// Writes `bytes` to `path` atomically.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    jetwatch_files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies `from` to `path` and gives the SHA-256 of what was copied.
pub(crate) fn copy(from: &Path, path: &Path) -> Result<Sha256Digest> {
    let mut hasher = Sha256Hasher::default();
    let copied = jetwatch_files::write_with(path, |file| {
        for_each_chunk(&mut File::open(from)?, |part| {
            hasher.update(part);
            file.write_all(part)
        })
    });
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), path.display()))?;
    Ok(hasher.finish())
}

/// SHA-256 of the file at `path`.
pub(crate) fn hash(path: &Path) -> Result<Sha256Digest> {
    Sha256Digest::of_file(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Fails when one of `paths` exists.
pub(crate) fn reject_existing<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<()> {
    for path in paths {
        if fs::symlink_metadata(path).is_ok() {
            bail!(
                "{} exists already: choose another folder, or replace it with --force",
                path.display()
            );
        }
    }
    Ok(())
}
