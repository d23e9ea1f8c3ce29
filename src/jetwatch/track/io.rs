//! The files of `jetwatch track`: `-` for the standard streams, and output that is there whole or not at all.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

pub(super) fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    if !is_dash(path) {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// Writes standard output, or a file atomically.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    if is_dash(path) {
        let mut stdout = io::stdout().lock();
        return match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            // Who reads has seen enough, as `head` does.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result,
        };
    }
    match fs::canonicalize(path) {
        // A pipe or a device is written into; renaming a file over it would remove it.
        Ok(target) if !target.is_file() => File::options()
            .write(true)
            .open(target)?
            .write_all(text.as_bytes()),
        // A link stays, and the file that it points to is replaced.
        Ok(target) => replace(&target, text),
        Err(error) if error.kind() == ErrorKind::NotFound => replace(path, text),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    jetwatch_files::write(path, text.as_bytes()).map_err(|error| error.source)
}
