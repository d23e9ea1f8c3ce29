// SPDX-License-Identifier: Apache-2.0
//! The folder of the project, for packages of tests inside of it as well, and what its scripts build.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that has `tests/nvidia_doubles`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find(|folder| folder.join("tests/nvidia_doubles").is_dir())
        .expect("the package is in the project")
        .to_owned()
}

/// The path that a script of the project prints: what it has built, if need be.
pub fn built_by(script: &str) -> PathBuf {
    let output = Command::new(root().join(script))
        .output()
        .unwrap_or_else(|error| panic!("{script}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {errors}");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
