// SPDX-License-Identifier: Apache-2.0
//! Detects the kind of a file and opens it: exports directly, reports through nsys, benchmarks as JSON.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{ReportError, Result};
use crate::local_nsys;

/// The first bytes of a SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// A supported input file.
#[derive(Debug)]
pub(super) enum Input {
    /// A SQLite database, with its temporary folder if nsys exported it.
    Export {
        path: PathBuf,
        _folder: Option<tempfile::TempDir>,
    },
    /// JSON.
    Benchmark { bytes: Vec<u8> },
}

/// Finds out what a file is by what stands in it, and by its name where that does not state. A report is exported to a folder
/// of its own, never next to itself: an export that lies there may be of an older report.
pub(super) fn open(path: &Path, nsys: &Path) -> Result<Input> {
    let read = |cause| ReportError::Read(path.to_owned(), cause);
    let mut file = File::open(path).map_err(read)?;
    let mut head = Vec::with_capacity(SQLITE.len());
    let mut start = file.by_ref().take(SQLITE.len() as u64);
    start.read_to_end(&mut head).map_err(read)?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    let wrong = |found| Err(ReportError::Kind(path.to_owned(), found));
    if head.is_empty() {
        return Err(ReportError::Empty(path.to_owned()));
    }
    if head == SQLITE {
        return Ok(Input::Export {
            path: path.to_owned(),
            _folder: None,
        });
    }
    match extension {
        Some("nsys-rep") => export(path, nsys),
        Some("qdrep" | "qdstrm") => Err(ReportError::OldReport(path.to_owned())),
        Some("sqlite" | "db") => wrong("not a SQLite database"),
        _ if head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') => {
            let mut bytes = head;
            file.read_to_end(&mut bytes).map_err(read)?;
            Ok(Input::Benchmark { bytes })
        }
        Some("json") => wrong("not a JSON object"),
        _ => wrong("of an unknown kind"),
    }
}

fn export(path: &Path, nsys: &Path) -> Result<Input> {
    let folder = tempfile::Builder::new()
        .prefix("jetwatch-report-")
        .tempdir()
        .map_err(|cause| ReportError::Write(std::env::temp_dir(), cause))?;
    let exported = folder.path().join("export.sqlite");
    local_nsys::export(nsys, path, &exported)
        .map_err(|cause| ReportError::NoNsys(path.to_owned(), cause))?
        .map_err(|output| ReportError::Export(path.to_owned(), output))?;
    Ok(Input::Export {
        path: exported,
        _folder: Some(folder),
    })
}
