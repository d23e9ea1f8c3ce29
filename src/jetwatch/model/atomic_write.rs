//! Files of a model folder, put into their places whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use jetwatch_detect::model::hexadecimal;

/// Writes `bytes` beside `path` first, so that nobody ever sees half of it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    jetwatch_files::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies `origin` to `path` and gives the SHA-256 of what was copied.
pub(super) fn copy(from: &Path, path: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    let copied = jetwatch_files::write_with(path, |file| {
        for_each_chunk(&mut File::open(from)?, |part| {
            hasher.update(part);
            file.write_all(part)
        })
    });
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), path.display()))?;
    Ok(hexadecimal(&hasher.finalize()))
}

/// SHA-256 of the file at `path`.
pub(super) fn hash(path: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    File::open(path)
        .and_then(|mut file| {
            for_each_chunk(&mut file, |part| {
                hasher.update(part);
                Ok(())
            })
        })
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hexadecimal(&hasher.finalize()))
}

/// Fails when one of `paths` is there.
pub(super) fn reject_existing<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<()> {
    for path in paths {
        if fs::symlink_metadata(path).is_ok() {
            bail!(
                "{} is there already: choose another folder, or replace it with --force",
                path.display()
            );
        }
    }
    Ok(())
}

fn for_each_chunk(
    file: &mut File,
    mut consume: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            len => consume(&buffer[..len])?,
        }
    }
}
