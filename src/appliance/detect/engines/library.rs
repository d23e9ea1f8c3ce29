// SPDX-License-Identifier: Apache-2.0
//! Opens TensorRT and the GPU as configured.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::EngineError;
use super::layers::Layers;
use jetwatch_nvidia::cuda::Device;
use jetwatch_nvidia::tensorrt::{Library, Runtime};

/// File names of the libraries, without versions. In a folder with several, those that can build come first.
const STEMS: [&str; 3] = ["libnvinfer.so", "libtensorrt_rtx.so", "libnvinfer_lean.so"];

/// Opens the library at `path`, in the folder `path`, or the one that the dynamic loader finds.
///
/// # Errors
/// There is no library, or it cannot be used.
pub fn open_library(path: Option<&Path>) -> Result<Arc<Library>, EngineError> {
    let in_folder = path.and_then(library_in);
    Ok(Library::open(in_folder.as_deref().or(path))?)
}

/// The first GPU.
///
/// # Errors
/// There is no driver or no GPU, or it cannot be used.
pub fn device() -> Result<Arc<Device>, EngineError> {
    Ok(Device::open(0)?)
}

/// Loads `plan` and counts its layers; `None` when TensorRT reports none. A plan holds machine code: load only a trusted one.
///
/// # Errors
/// TensorRT or the GPU refuses the plan.
pub fn inspect(
    library: &Arc<Library>,
    device: &Device,
    plan: &[u8],
    dla: Option<u32>,
) -> Result<Option<Layers>, EngineError> {
    device.make_current()?;
    let engine = Runtime::new(library, dla)?.deserialize(plan)?;
    Ok(Layers::read(&engine.inspect()?))
}

/// The library in the folder `path`; `None` if it is no folder or has none.
fn library_in(path: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(path).ok()?;
    let names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let newest = |stem: &&str| {
        let is_one = |name: &&String| {
            name.strip_prefix(*stem)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        // Compared as numbers: `libnvinfer.so.10` is newer than `libnvinfer.so.8`.
        let version = |name: &&String| -> Vec<u32> {
            let numbers = name[stem.len()..].split('.');
            numbers.filter_map(|number| number.parse().ok()).collect()
        };
        names.iter().filter(is_one).max_by_key(version).cloned()
    };
    STEMS.iter().find_map(newest).map(|name| path.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_selects_newest_library_with_builder() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let with = |names: &[&str]| {
            for name in names {
                fs::write(folder.path().join(name), "").expect("written");
            }
            library_in(folder.path())
        };
        assert_eq!(with(&["libother.so", "libnvinfer_plugin.so.8"]), None);
        let path = |name: &str| Some(folder.path().join(name));
        let found = with(&["libnvinfer_lean.so.11"]);
        assert_eq!(found, path("libnvinfer_lean.so.11"));
        let found = with(&["libtensorrt_rtx.so.1.7.1"]);
        assert_eq!(found, path("libtensorrt_rtx.so.1.7.1"));
        assert_eq!(with(&["libnvinfer.so.8"]), path("libnvinfer.so.8"));
        let found = with(&["libnvinfer.so", "libnvinfer.so.10"]);
        assert_eq!(found, path("libnvinfer.so.10"));
        assert_eq!(library_in(&folder.path().join("libnvinfer.so")), None);
    }

    #[test]
    fn folder_without_library_and_non_library_are_rejected() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = open_library(Some(folder.path())).expect_err("it is empty");
        assert!(error.is_configuration(), "{error}");
        assert!(error.to_string().contains("cannot be opened"), "{error}");
    }
}
