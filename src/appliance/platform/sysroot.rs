// SPDX-License-Identifier: Apache-2.0
//! The root folder of all system paths: `/`, or a folder of a test.
//!
//! It distinguishes missing files (`None`) from unreadable ones (an error). Links are followed as the kernel does,
//! so a link to an absolute path leaves a root that is not `/`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::str::FromStr;

use super::PlatformError;

/// A root folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysRoot {
    folder: PathBuf,
}

impl Default for SysRoot {
    /// The real system.
    fn default() -> Self {
        Self::new("/")
    }
}

impl SysRoot {
    /// The system below `folder`; `/` is the real system.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Location of an absolute path below this root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// Whether the path exists. Paths that may not be accessed count as missing.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The text of a file without white space and zero bytes at its ends; `None` when there is no such file, or when it
    /// has no value at the moment, such as the thermal zone of an engine that is off.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn text(&self, path: &str) -> Result<Option<String>, PlatformError> {
        let path = self.path(path);
        match fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let ends = |c: char| c == '\0' || c.is_whitespace();
                Ok(Some(text.trim_matches(ends).to_owned()))
            }
            Err(source) if is_absent(&source) => Ok(None),
            Err(source) => Err(PlatformError::Read { path, source }),
        }
    }

    /// The number in a file; `None` as with [`text`](Self::text).
    ///
    /// # Errors
    /// The file cannot be read, or is not a number.
    pub fn number<T: FromStr>(&self, path: &str) -> Result<Option<T>, PlatformError> {
        let Some(found) = self.text(path)? else {
            return Ok(None);
        };
        match found.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(PlatformError::Malformed {
                path: self.path(path),
                line: None,
                found,
                expected: "a number",
            }),
        }
    }

    /// The names in a folder, in natural order (`zone2` before `zone10`); none if the folder does not exist.
    ///
    /// # Errors
    /// The folder exists and cannot be read.
    pub fn names(&self, path: &str) -> Result<Vec<String>, PlatformError> {
        let path = self.path(path);
        let failed = |source| PlatformError::Read {
            path: path.clone(),
            source,
        };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(source) if is_absent(&source) => return Ok(Vec::new()),
            Err(source) => return Err(failed(source)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        Ok(names)
    }

    /// Writes to an existing file in place, as the kernel's files require.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), PlatformError> {
        let path = self.path(path);
        fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
            .map_err(|source| PlatformError::Write { path, source })
    }

    /// Writes a file atomically; an existing one keeps its permissions.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn replace(&self, path: &str, text: &str) -> Result<(), PlatformError> {
        // Keeps a symbolic link and replaces its target.
        let named = self.path(path);
        let path = fs::canonicalize(&named).unwrap_or(named);
        jetwatch_files::write(&path, text.as_bytes()).map_err(|error| PlatformError::Write {
            path,
            source: error.source,
        })
    }

    /// Removes a file; does nothing when it is missing.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(super) fn remove(&self, path: &str) -> Result<(), PlatformError> {
        let path = self.path(path);
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(source) if source.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(PlatformError::Write { path, source }),
        }
    }
}

/// Whether an error means that there is no value, not that reading failed.
fn is_absent(error: &io::Error) -> bool {
    // No such device: the driver is not loaded or the engine is off.
    const NO_SUCH_DEVICE: [i32; 2] = [6, 19];
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::WouldBlock
    ) || error
        .raw_os_error()
        .is_some_and(|code| NO_SUCH_DEVICE.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_file_is_none_and_unreadable_file_is_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        fs::create_dir_all(root.path("/sys/zone10")).expect("created");
        fs::create_dir_all(root.path("/sys/zone2")).expect("created");
        fs::write(root.path("/sys/zone2/temp"), "41500\n").expect("written");
        fs::write(root.path("/sys/zone2/type"), "CPU-therm\0\n").expect("written");
        assert_eq!(root.names("/sys").expect("readable"), ["zone2", "zone10"]);
        assert_eq!(
            root.number("/sys/zone2/temp").expect("readable"),
            Some(41_500)
        );
        let text = root.text("/sys/zone2/type").expect("readable");
        assert_eq!(text.as_deref(), Some("CPU-therm"));
        assert_eq!(root.text("/sys/zone3/type").expect("missing is fine"), None);
        assert!(root.names("/nothing").expect("missing is fine").is_empty());
        // A folder exists, but is not a file.
        let error = root.text("/sys/zone10").expect_err("a folder has no text");
        assert!(error.to_string().contains("zone10"), "{error}");
        let error = root
            .number::<u32>("/sys/zone2/type")
            .expect_err("no number");
        assert!(
            error
                .to_string()
                .ends_with("found \"CPU-therm\", expected a number"),
            "{error}"
        );
    }

    #[test]
    fn replace_is_atomic_and_write_needs_existing_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        assert!(root.write("/setting", "2").is_err());
        root.replace("/setting", "first").expect("written");
        root.write("/setting", "2").expect("written");
        assert_eq!(root.number("/setting").expect("readable"), Some(2));
        assert_eq!(root.names("/").expect("readable"), ["setting"]);
        root.remove("/setting").expect("removed");
        root.remove("/setting").expect("gone is fine");
    }
}
