// SPDX-License-Identifier: Apache-2.0
//! Runs of `jetwatch report`.

use std::path::Path;
use std::process::Output;

use super::daemon::{finish, jetwatch, success};

/// `jetwatch report` of `files`, to its end.
pub fn report(arguments: &[&str], files: &[&Path]) -> Output {
    finish(jetwatch().arg("report").args(arguments).args(files))
}

/// A table of a report as CSV.
pub fn csv(table: &str, file: &Path) -> String {
    success(&report(&["--format", "csv", "--table", table], &[file]))
}
