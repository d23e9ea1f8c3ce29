// SPDX-License-Identifier: Apache-2.0
//! Errors of reading and writing reports.

use std::path::PathBuf;

/// Why a report cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum ReportError {
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error(
        "{} holds no report; expected files .nsys-rep, .sqlite or benchmark.json in it or below it",
        path.display()
    )]
    NoReports { path: PathBuf },
    #[error(
        "{} is empty: the profile was interrupted before it was written; profile again and let nsys end by itself",
        path.display()
    )]
    Empty { path: PathBuf },
    #[error(
        "{} is {found}; expected an nsys export (.sqlite), a report (.nsys-rep) or a benchmark.json",
        path.display()
    )]
    Kind { path: PathBuf, found: String },
    #[error(
        "{} is a report of an old Nsight Systems; convert it with that nsys, then use the result: \
         nsys export --type sqlite --force-overwrite true -o {} {}",
        path.display(),
        path.with_extension("sqlite").display(),
        path.display()
    )]
    OldReport { path: PathBuf },
    #[error(
        "{} needs nsys for its export, which was not found ({cause}); install Nsight Systems, give its path with --nsys, or export the \
         report where it was made: nsys export --type sqlite --force-overwrite true -o {} {}",
        path.display(),
        path.with_extension("sqlite").display(),
        path.display()
    )]
    NoNsys {
        path: PathBuf,
        cause: std::io::Error,
    },
    #[error(
        "nsys could not export {}: {output}; the report is truncated or was written by a newer nsys: profile again, or export it with the \
         nsys that wrote it",
        path.display()
    )]
    Export { path: PathBuf, output: String },
    #[error(
        "{}: {cause}; the export is truncated or damaged: export it again with nsys export --force-overwrite true",
        path.display()
    )]
    Database {
        path: PathBuf,
        cause: rusqlite::Error,
    },
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
    #[error("{}: {reason}", path.display())]
    Nothing { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    Benchmark { path: PathBuf, reason: String },
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        path: PathBuf,
        cause: std::io::Error,
    },
}
