//! Why a bundle cannot be packed, installed or rolled back.

use std::io;
use std::path::{Path, PathBuf};

use jetwatch_files::WriteError;

use super::BundleName;

/// Why a bundle cannot be packed, installed or rolled back. Unless a variant says otherwise, the installed version is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// An operation of the file system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What failed, such as `read`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file of the store cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// No key is trusted.
    #[error("found no public key in {}, expected a file of minisign whose name ends in .pub: put the key that your bundles are signed with there", folder.display())]
    NoKeys {
        /// The folder of the keys.
        folder: PathBuf,
    },
    /// A key cannot be used.
    #[error("{}: {problem}", path.display())]
    Key {
        /// The file of the key.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The signature is not one of a trusted key over these bytes.
    #[error("{} is not verified: {problem}", path.display())]
    Signature {
        /// The bundle.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The content is not that of a bundle.
    #[error("{} is no valid bundle: {problem}", path.display())]
    Content {
        /// The bundle, or what it is packed from.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The bundle is valid, and may not be installed here or now.
    #[error("{name} {serial} is refused: {reason}")]
    Refused {
        /// Name of the bundle.
        name: BundleName,
        /// Its serial number.
        serial: u64,
        /// The rule that it breaks.
        reason: String,
    },
    /// The disk is too small.
    #[error("{} has {free} bytes free, expected {needed} at least: remove something there", folder.display())]
    NoSpace {
        /// The folder of the store.
        folder: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that are needed.
        needed: u64,
    },
    /// Another process works on the store.
    #[error("another `jetwatch model` works on {}; try again when it has ended", folder.display())]
    Busy {
        /// The folder of the store.
        folder: PathBuf,
    },
    /// The store is not safe to use, or not in order.
    #[error("{}: {problem}", path.display())]
    Store {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// There is no such bundle here.
    #[error("found no installed bundle {name}; `jetwatch model history` lists them")]
    NotInstalled {
        /// The name that was asked for.
        name: BundleName,
    },
    /// There is nothing to go back to.
    #[error("{name} has no earlier version to roll back to")]
    NoPrevious {
        /// Name of the bundle.
        name: BundleName,
    },
    /// The new version did not work; the old one is in place again.
    #[error("{name} {serial} was rolled back: {reason}")]
    RolledBack {
        /// Name of the bundle.
        name: BundleName,
        /// Serial number of what did not work.
        serial: u64,
        /// Why.
        reason: String,
    },
    /// The new version did not work. The files of the old one are in place again, and the daemon does not work with them either.
    #[error(
        "{name} {serial} was rolled back: {reason}; the daemon does not work with the version before either: {after}"
    )]
    DownAfterRollback {
        /// Name of the bundle.
        name: BundleName,
        /// Serial number of what did not work.
        serial: u64,
        /// Why it was rolled back.
        reason: String,
        /// What is wrong afterwards.
        after: String,
    },
}

/// Makes an error out of one of the operating system.
pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BundleError {
    let path = path.to_owned();
    move |source| BundleError::Io {
        action,
        path,
        source,
    }
}
