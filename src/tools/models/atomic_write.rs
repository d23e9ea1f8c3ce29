//! Atomic writes of the files of a model folder, and their hashes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use jetwatch_detect::model::hexadecimal;

/// Writes `bytes` to a temporary file next to `path` and renames it into place.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, |file| file.write_all(bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Copies `from` to `path` atomically and returns the SHA-256 of what was copied, as hexadecimal digits.
pub(crate) fn copy(from: &Path, path: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    let copied = write_atomically(path, |file| {
        for_each_chunk(&mut File::open(from)?, |part| {
            hasher.update(part);
            file.write_all(part)
        })
    });
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), path.display()))?;
    Ok(hexadecimal(&hasher.finalize()))
}

/// SHA-256 of the file at `path`, as hexadecimal digits.
pub(crate) fn hash(path: &Path) -> Result<String> {
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

/// Fails when one of `paths` exists.
pub(crate) fn reject_existing<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<()> {
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

fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let partial = path.with_file_name(format!(
        ".{}.{}.new",
        name.to_string_lossy(),
        std::process::id()
    ));
    let filled = File::create(&partial).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    });
    filled.inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::remove_file(&partial);
    })
}
