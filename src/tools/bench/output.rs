// SPDX-License-Identifier: Apache-2.0
//! The folder of the results, and files in it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// The name of the result of one run.
pub(super) const FILE: &str = "benchmark.json";

/// Creates the folder and writes a test file, so that a run does not fail at its end.
///
/// # Errors
/// The folder is not writable.
pub fn prepare_folder(folder: &Path) -> anyhow::Result<()> {
    let trial = folder.join(".trial");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&trial, ""))
        .and_then(|()| fs::remove_file(&trial))
        .with_context(|| {
            format!(
                "cannot write to the folder {}; choose another one with --output",
                folder.display()
            )
        })
}

/// Writes a temporary file first, so that a reader never sees an incomplete file.
pub(super) fn write(path: &Path, document: &Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document)? + "\n";
    jetwatch_files::write(path, text.as_bytes()).with_context(|| {
        format!(
            "cannot write {}; choose another folder with --output",
            path.display()
        )
    })
}
