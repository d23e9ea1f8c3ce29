// SPDX-License-Identifier: Apache-2.0
//! Errors of reading and writing reports.

use std::path::{Path, PathBuf};

/// Why a report cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum ReportError {
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    #[error(
        "{0} holds no report; expected files .nsys-rep, .sqlite or benchmark.json in it or below it"
    )]
    NoReports(PathBuf),
    #[error(
        "{0} is empty: the profile was interrupted before it was written; profile again and let nsys end by itself"
    )]
    Empty(PathBuf),
    #[error(
        "{0} is {1}; expected an nsys export (.sqlite), a report (.nsys-rep) or a benchmark.json"
    )]
    Kind(PathBuf, &'static str),
    #[error(
        "{0} is a report of an old Nsight Systems; convert it with that nsys, then use the result: {command}",
        command = export_command(.0)
    )]
    OldReport(PathBuf),
    #[error(
        "{0} needs nsys for its export, which was not found ({1}); install Nsight Systems, give its path with --nsys, or export the \
         report where it was made: {command}",
        command = export_command(.0)
    )]
    NoNsys(PathBuf, std::io::Error),
    #[error(
        "nsys could not export {0}: {1}; the report is truncated or was written by a newer nsys: profile again, or export it with the \
         nsys that wrote it"
    )]
    Export(PathBuf, String),
    #[error(
        "{0}: {1}; the export is truncated or damaged: export it again with nsys export --force-overwrite true"
    )]
    Database(PathBuf, rusqlite::Error),
    #[error("{path} has no table {table}, so there is no {what} in it; {advice}")]
    NoTable {
        path: PathBuf,
        table: &'static str,
        what: &'static str,
        advice: &'static str,
    },
    #[error(
        "{path}: table {table} has no column {column}; this schema ({version}) is unknown: export the report with an nsys from 2021 to 2025"
    )]
    NoColumn {
        path: PathBuf,
        table: String,
        column: String,
        version: String,
    },
    #[error(
        "{path}: table {table}, row {row}: {column} is {found}, expected {expected}; the export is damaged: export it again"
    )]
    Value {
        path: PathBuf,
        table: &'static str,
        row: i64,
        column: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error("{path} has no range {wanted}; its ranges: {known}")]
    NoRange {
        path: PathBuf,
        wanted: String,
        known: String,
    },
    #[error("{0}: {1}")]
    Content(PathBuf, String),
    #[error("cannot write {0}: {1}")]
    Write(PathBuf, std::io::Error),
}

/// With the errors of a report.
pub(super) type Result<T, E = ReportError> = std::result::Result<T, E>;

/// The command that exports a report.
fn export_command(report: &Path) -> String {
    let export = report.with_extension("sqlite");
    format!(
        "nsys export --type sqlite --force-overwrite true -o {} {}",
        export.display(),
        report.display()
    )
}
