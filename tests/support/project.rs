//! The folder of the project, for packages of tests inside of it as well.

use std::path::{Path, PathBuf};

/// The folder that has `tests/nvidia_doubles`.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find(|folder| folder.join("tests/nvidia_doubles").is_dir())
        .expect("the package is in the project")
        .to_owned()
}
