//! Why a report cannot be read or written.

use std::path::PathBuf;

/// What went wrong with one file or one question.
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
    /// The file is empty.
    #[error(
        "{} is empty: the profile was cut off before it was written; profile again and let nsys end by itself",
        path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is none of the kinds that are read.
    #[error(
        "{} is {found}; expected an nsys export (.sqlite), a report (.nsys-rep) or a benchmark.json",
        path.display()
    )]
    Kind {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        found: String,
    },
    /// A report of Nsight Systems before 2021.4, which only nsys itself converts.
    #[error(
        "{} is a report of an old Nsight Systems; convert it where that nsys is installed, then give the result: \
         nsys export --type sqlite --force-overwrite true -o {} {}",
        path.display(),
        path.with_extension("sqlite").display(),
        path.display()
    )]
    OldReport {
        /// The file.
        path: PathBuf,
    },
    /// A report is to be exported and nsys is not there.
    #[error(
        "{} needs nsys to be exported, and it was not found ({cause}); install Nsight Systems, name it with --nsys, or export the \
         report where it was made: nsys export --type sqlite --force-overwrite true -o {} {}",
        path.display(),
        path.with_extension("sqlite").display(),
        path.display()
    )]
    NoNsys {
        /// The report.
        path: PathBuf,
        /// What starting it stated.
        cause: std::io::Error,
    },
    /// nsys could not export a report.
    #[error(
        "nsys could not export {}: {output}; the report is cut off or was made by a newer nsys: profile again, or export it with the \
         nsys that made it",
        path.display()
    )]
    Export {
        /// The report.
        path: PathBuf,
        /// The last that nsys stated.
        output: String,
    },
    /// The database is damaged or is being written.
    #[error(
        "{}: {cause}; the export is cut off or damaged: export it again with nsys export --force-overwrite true",
        path.display()
    )]
    Database {
        /// The file.
        path: PathBuf,
        /// The output of SQLite.
        cause: rusqlite::Error,
    },
    /// A table is missing that is needed.
    #[error(
        "{} has no table {table}, so there is no {what} in it; {advice}",
        path.display()
    )]
    NoTable {
        /// The file.
        path: PathBuf,
        /// The first that is missing.
        table: &'static str,
        /// What would stand in it.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A table has no such column.
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
        /// The version that the file gives, or that it gives none.
        version: String,
    },
    /// A value of the database cannot be what it is.
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
    /// A range to look within is not in the report.
    #[error(
        "{} has no range {wanted}; its ranges: {known}",
        path.display()
    )]
    NoRange {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        wanted: String,
        /// Names that are there.
        known: String,
    },
    /// Nothing is left to report on.
    #[error("{}: {reason}", path.display())]
    Nothing {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A benchmark.json is not one.
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
