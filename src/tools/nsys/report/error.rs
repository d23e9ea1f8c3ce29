// SPDX-License-Identifier: Apache-2.0
//! Errors of reading and writing reports.

use std::path::PathBuf;

/// Why a report cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// A folder without reports.
    #[error(
        "{} holds no report; expected files .nsys-rep, .sqlite or benchmark.json in it or below it",
        path.display()
    )]
    NoReports {
        /// The folder.
        path: PathBuf,
    },
    /// The file is empty.
    #[error(
        "{} is empty: the profile was interrupted before it was written; profile again and let nsys end by itself",
        path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is of an unsupported kind.
    #[error(
        "{} is {found}; expected an nsys export (.sqlite), a report (.nsys-rep) or a benchmark.json",
        path.display()
    )]
    Kind {
        /// The file.
        path: PathBuf,
        /// The detected kind.
        found: String,
    },
    /// A report of Nsight Systems before 2021.4, which only nsys itself converts.
    #[error(
        "{} is a report of an old Nsight Systems; convert it with that nsys, then use the result: \
         nsys export --type sqlite --force-overwrite true -o {} {}",
        path.display(),
        path.with_extension("sqlite").display(),
        path.display()
    )]
    OldReport {
        /// The file.
        path: PathBuf,
    },
    /// A report needs an export, and nsys was not found.
    #[error(
        "{} needs nsys for its export, which was not found ({cause}); install Nsight Systems, give its path with --nsys, or export the \
         report where it was made: nsys export --type sqlite --force-overwrite true -o {} {}",
        path.display(),
        path.with_extension("sqlite").display(),
        path.display()
    )]
    NoNsys {
        /// The report.
        path: PathBuf,
        /// The error of its start.
        cause: std::io::Error,
    },
    /// nsys could not export a report.
    #[error(
        "nsys could not export {}: {output}; the report is truncated or was written by a newer nsys: profile again, or export it with the \
         nsys that wrote it",
        path.display()
    )]
    Export {
        /// The report.
        path: PathBuf,
        /// The last output of nsys.
        output: String,
    },
    /// The database is damaged or is being written.
    #[error(
        "{}: {cause}; the export is truncated or damaged: export it again with nsys export --force-overwrite true",
        path.display()
    )]
    Database {
        /// The file.
        path: PathBuf,
        /// The output of SQLite.
        cause: rusqlite::Error,
    },
    /// A required table is missing.
    #[error(
        "{} has no table {table}, so there is no {what} in it; {advice}",
        path.display()
    )]
    NoTable {
        /// The file.
        path: PathBuf,
        /// The first missing table.
        table: &'static str,
        /// Content of the table.
        what: &'static str,
        /// Remedy.
        advice: &'static str,
    },
    /// A required column is missing.
    #[error(
        "{}: table {table} has no column {column}; this schema ({version}) is unknown: export the report with an nsys from 2021 to 2025",
        path.display()
    )]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The version of the file as text.
        version: String,
    },
    /// A value of the database has a wrong type.
    #[error(
        "{}: table {table}, row {row}: {column} is {found}, expected {expected}; the export is damaged: export it again",
        path.display()
    )]
    Value {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The row's number.
        row: i64,
        /// The column.
        column: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The report does not contain the requested range.
    #[error(
        "{} has no range {wanted}; its ranges: {known}",
        path.display()
    )]
    NoRange {
        /// The file.
        path: PathBuf,
        /// The requested range.
        wanted: String,
        /// Names of existing ranges.
        known: String,
    },
    /// There are no events to report on.
    #[error("{}: {reason}", path.display())]
    Nothing {
        /// The file.
        path: PathBuf,
        /// Reason and remedy.
        reason: String,
    },
    /// The file is not a benchmark.json.
    #[error("{}: {reason}", path.display())]
    Benchmark {
        /// The file.
        path: PathBuf,
        /// What was found, what was expected.
        reason: String,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
}
