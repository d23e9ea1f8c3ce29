// SPDX-License-Identifier: Apache-2.0
//! A shared library opened at run time, and its symbols.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// An open shared library. Dropping it closes it.
#[derive(Debug)]
pub(super) struct SharedLibrary {
    library: Library,
    path: PathBuf,
}

impl SharedLibrary {
    /// Opens `name`: a path, or a bare name that the loader searches for. The error is the loader's message.
    ///
    /// Its symbols are not visible to libraries that are opened later: two versions of TensorRT in one process define the same
    /// ones, and the second would call into the first. NVIDIA's libraries list what they need as their dependencies.
    pub(super) fn open(name: &Path) -> Result<Self, String> {
        let name: &OsStr = name.as_os_str();
        // SAFETY: opening runs the initializers of the library. The name is NVIDIA's, or one that the user has configured so that
        // this library runs in this process.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| loader_sentence(&error))?;
        Ok(Self {
            library,
            path: PathBuf::from(name),
        })
    }

    /// The path or name with which it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The address of function `name` as an `F`; `None` when the library has no such function.
    ///
    /// # Safety
    /// `F` is the type of a function pointer with the signature that the library's documentation gives for `name`.
    pub(super) unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller guarantees the type; the address is valid while `self` lives, which callers ensure.
        let symbol = unsafe { self.library.get::<F>(name.as_bytes()) };
        symbol.ok().map(|symbol| *symbol)
    }
}

/// The loader's message without the prefix of the crate.
fn loader_sentence(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    }
}
