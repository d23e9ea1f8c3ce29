// SPDX-License-Identifier: Apache-2.0
//! Text files of the evaluation commands: `-` for the standard streams, and atomic replacement of output files.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

/// Whether `path` names standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads a file, or standard input.
///
/// # Errors
/// Reading fails, or the text is not UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    if !is_dash(path) {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// Writes standard output, or a file atomically. Pipes and devices are opened and written; a link stays, and its target is
/// replaced. A closed standard output is not an error.
///
/// # Errors
/// Writing fails; a regular file is then unchanged.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    if is_dash(path) {
        let mut stdout = io::stdout().lock();
        return match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            // The reader has ended, such as `head`.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result,
        };
    }
    match fs::canonicalize(path) {
        // Renaming a file over a pipe or a device would remove it.
        Ok(target) if !target.is_file() => File::options()
            .write(true)
            .open(target)?
            .write_all(text.as_bytes()),
        Ok(target) => replace(&target, text),
        Err(error) if error.kind() == ErrorKind::NotFound => replace(path, text),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    jetwatch_files::write(path, text.as_bytes()).map_err(|error| error.source)
}
