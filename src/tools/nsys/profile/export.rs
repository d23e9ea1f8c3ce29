// SPDX-License-Identifier: Apache-2.0
//! The local nsys, which exports a fetched report to SQLite.

use std::io;
use std::path::{Path, PathBuf};

use super::nsys::Version;
use super::{ProfileError, Result};
use crate::local_nsys::{self, call, output_text};

/// The local nsys and its version.
#[derive(Debug, Clone)]
pub struct Exporter {
    program: PathBuf,
    version: Version,
}

impl Exporter {
    /// Reads the version of `program`.
    ///
    /// # Errors
    /// It does not start, or is not Nsight Systems.
    pub fn find(program: &Path) -> Result<Self> {
        let output = call(program, &["--version".as_ref()]).map_err(not_started(program))?;
        let text = output_text(&output);
        let (version, program) = (Version::parse(&text), program.to_owned());
        match version {
            Some(version) => Ok(Self { program, version }),
            None => {
                let (place, program) = ("this machine".to_owned(), program.display().to_string());
                Err(ProfileError::NoVersion(place, program, text))
            }
        }
    }

    /// Version of nsys.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Exports `report` as SQLite to `to`, and replaces an older export atomically.
    ///
    /// # Errors
    /// nsys fails, or writes nothing.
    pub fn export(&self, report: &Path, to: &Path) -> Result<()> {
        let write = |source| ProfileError::Write(to.to_owned(), source);
        // nsys makes the file itself, and names files of its own after it: a folder that is removed with all of them.
        let parent = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix(".export.").tempdir_in(parent);
        let folder = folder.map_err(write)?;
        let exported = folder.path().join("export.sqlite");
        let done = local_nsys::export(&self.program, report, &exported);
        done.map_err(not_started(&self.program))?
            .map_err(|output| ProfileError::Export(report.to_owned(), output))?;
        jetwatch_files::rename(&exported, to).map_err(|error| write(error.source))
    }
}

/// The error where nsys cannot be started.
fn not_started(program: &Path) -> impl FnOnce(io::Error) -> ProfileError {
    |source| ProfileError::NoLocalNsys(program.display().to_string(), source)
}
