//! A shared object that was opened at run time, and the symbols that were asked of it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// An open shared object. It stays open as long as this lives.
#[derive(Debug)]
pub(super) struct SharedLibrary {
    library: Library,
    path: PathBuf,
}

impl SharedLibrary {
    /// Opens `name`: a path, or a bare name that the loader looks for in its own places. The error is the loader's own sentence.
    ///
    /// Its symbols are not offered to libraries that are opened later: two versions of TensorRT in one process define the same ones, and the second
    /// would call into the first. What NVIDIA's libraries need of each other, they name as their dependencies.
    pub(super) fn open(name: &Path) -> Result<Self, String> {
        let name: &OsStr = name.as_os_str();
        // SAFETY: opening runs the initializers of the library. The name is NVIDIA's, or one that the user wrote into the
        // configuration in order to have that library run in this process.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| loader_sentence(&error))?;
        Ok(Self {
            library,
            path: PathBuf::from(name),
        })
    }

    /// What it was opened as.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The address of function `name` as an `F`; `None` when the library has none of that name.
    ///
    /// # Safety
    /// `F` is the type of a function pointer with the signature that the library's documentation gives for `name`.
    pub(super) unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller vouches for the type; the address stays good while `self` lives, which callers keep alive.
        let symbol = unsafe { self.library.get::<F>(name.as_bytes()) };
        symbol.ok().map(|symbol| *symbol)
    }
}

/// The loader's words without the crate's frame around them.
fn loader_sentence(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    }
}
