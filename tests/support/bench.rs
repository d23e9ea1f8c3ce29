// SPDX-License-Identifier: Apache-2.0
//! Runs of `jetwatch bench` and their results.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::daemon::{Setup, finish};

/// A file of JSON.
pub fn json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

/// Runs `jetwatch bench` with these arguments to its end; results are in the folder `out`.
pub fn bench(setup: &Setup, arguments: &[&str]) -> Output {
    let mut command = setup.command("bench");
    command.arg("--output").arg(setup.path("out"));
    finish(command.args(arguments))
}
