// SPDX-License-Identifier: Apache-2.0
//! The local nsys, which exports a fetched report to SQLite.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::ProfileError;
use super::nsys::Version;

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
    pub fn find(program: &Path) -> Result<Self, ProfileError> {
        let output = call(program, &["--version".as_ref()])?;
        let text = output_text(&output);
        let version = Version::parse(&text).ok_or_else(|| ProfileError::NoVersion {
            place: "this machine".to_owned(),
            program: program.display().to_string(),
            output: text,
        })?;
        Ok(Self {
            program: program.to_owned(),
            version,
        })
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
    pub fn export(&self, report: &Path, to: &Path) -> Result<(), ProfileError> {
        let write = |source| ProfileError::Write {
            path: to.to_owned(),
            source,
        };
        // nsys makes the file itself, and names files of its own after it: a folder that is removed with all of them.
        let parent = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = tempfile::Builder::new()
            .prefix(".export.")
            .tempdir_in(parent)
            .map_err(write)?;
        let exported = folder.path().join("export.sqlite");
        let output = call(
            &self.program,
            &[
                "export".as_ref(),
                "--type=sqlite".as_ref(),
                "--force-overwrite=true".as_ref(),
                "--output".as_ref(),
                exported.as_os_str(),
                report.as_os_str(),
            ],
        )?;
        if !output.status.success() || !exported.is_file() {
            return Err(ProfileError::Export {
                path: report.to_owned(),
                output: output_text(&output),
            });
        }
        jetwatch_files::rename(&exported, to).map_err(|error| write(error.source))
    }
}

fn call(program: &Path, arguments: &[&std::ffi::OsStr]) -> Result<Output, ProfileError> {
    Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ProfileError::NoLocalNsys {
            program: program.display().to_string(),
            source,
        })
}

/// Standard output and standard error on one line, without progress bars.
fn output_text(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().filter(|line| !line.contains("[1/1]"));
    let lines: Vec<&str> = lines
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() {
        return format!("it ended with {} and no output", output.status);
    }
    lines.join(" ")
}
