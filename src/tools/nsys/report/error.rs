// SPDX-License-Identifier: Apache-2.0
//! Errors of reading and writing reports.

use std::path::{Path, PathBuf};

/// Why a report cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum ReportError {
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, std::io::Error),
    #[error(
        "{path} holds no report; expected files .nsys-rep, .sqlite or benchmark.json in it or below it",
        path = .0.display()
    )]
    NoReports(PathBuf),
    #[error(
        "{path} is empty: the profile was interrupted before it was written; profile again and let nsys end by itself",
        path = .0.display()
    )]
    Empty(PathBuf),
    #[error(
        "{path} is {1}; expected an nsys export (.sqlite), a report (.nsys-rep) or a benchmark.json",
        path = .0.display()
    )]
    Kind(PathBuf, &'static str),
    #[error(
        "{path} is a report of an old Nsight Systems; convert it with that nsys, then use the result: {command}",
        path = .0.display(),
        command = export_command(.0)
    )]
    OldReport(PathBuf),
    #[error(
        "{path} needs nsys for its export, which was not found ({1}); install Nsight Systems, give its path with --nsys, or export the \
         report where it was made: {command}",
        path = .0.display(),
        command = export_command(.0)
    )]
    NoNsys(PathBuf, std::io::Error),
    #[error(
        "nsys could not export {path}: {1}; the report is truncated or was written by a newer nsys: profile again, or export it with the \
         nsys that wrote it",
        path = .0.display()
    )]
    Export(PathBuf, String),
    #[error(
        "{path}: {1}; the export is truncated or damaged: export it again with nsys export --force-overwrite true",
        path = .0.display()
    )]
    Database(PathBuf, rusqlite::Error),
    #[error(
        "{} has no table {table}, so there is no {what} in it; {advice}",
        path.display()
    )]
    NoTable {
        path: PathBuf,
        table: &'static str,
        what: &'static str,
        advice: &'static str,
    },
    #[error(
        "{}: table {table} has no column {column}; this schema ({version}) is unknown: export the report with an nsys from 2021 to 2025",
        path.display()
    )]
    NoColumn {
        path: PathBuf,
        table: String,
        column: String,
        version: String,
    },
    #[error(
        "{}: table {table}, row {row}: {column} is {found}, expected {expected}; the export is damaged: export it again",
        path.display()
    )]
    Value {
        path: PathBuf,
        table: &'static str,
        row: i64,
        column: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error(
        "{} has no range {wanted}; its ranges: {known}",
        path.display()
    )]
    NoRange {
        path: PathBuf,
        wanted: String,
        known: String,
    },
    #[error("{path}: {1}", path = .0.display())]
    Content(PathBuf, String),
    #[error("cannot write {path}: {1}", path = .0.display())]
    Write(PathBuf, std::io::Error),
}

/// The command that exports a report.
fn export_command(report: &Path) -> String {
    let export = report.with_extension("sqlite");
    format!(
        "nsys export --type sqlite --force-overwrite true -o {} {}",
        export.display(),
        report.display()
    )
}
