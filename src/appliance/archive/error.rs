// SPDX-License-Identifier: Apache-2.0
//! Why the archive cannot be used.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why the archive cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The folder or a file in it cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What failed: `create`, `open`, `write`, `sync`, `read`, `rename` or `remove`.
        action: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The device has no room, or the quota or the limit of the file's size is reached. Recording stops until [`Archive::enforce`](crate::Archive::enforce) has
    /// made room.
    #[error("no space is left for {}: recording stops until files were deleted", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// It could not be opened yet.
    #[error("{} is not open: it is tried again every few seconds", path.display())]
    Closed {
        /// The folder.
        path: PathBuf,
    },
    /// Another process writes to the folder.
    #[error("{} is in use by another process, perhaps a daemon with the same record.folder", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The index cannot be read or written.
    #[error("cannot use the index {}: {source}", path.display())]
    Index {
        /// Its file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The folder has no index: nothing was ever kept there.
    #[error("{} has no index: expected a folder in which jetwatch keeps media, such as record.folder of its configuration", path.display())]
    NoArchive {
        /// The folder.
        path: PathBuf,
    },
    /// There is no item of this id.
    #[error("there is no item `{0}`: `jetwatch media list` shows those that there are")]
    Unknown(String),
    /// The item is pinned.
    #[error("`{0}` is pinned: unpin it first")]
    Pinned(String),
    /// The item is being written.
    #[error("`{0}` is still being written")]
    Busy(String),
    /// A name that is no part of a path.
    #[error("`{0}` cannot be the name of a folder of media")]
    Name(String),
    /// The path of an item leads out of the folder.
    #[error("{} is not a file below the folder of the archive", path.display())]
    Outside {
        /// The path.
        path: PathBuf,
    },
}

/// Whether `error` is for want of space: a full device, a reached quota, or a reached limit of the size of files.
#[must_use]
pub fn is_no_space(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::NOSPC, Errno::DQUOT, Errno::FBIG]
        .iter()
        .any(|no_space| code == Some(no_space.raw_os_error()))
}

/// [`ArchiveError::Io`], or [`ArchiveError::Full`] for want of space.
pub(crate) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> ArchiveError {
    let path = path.into();
    move |source| match is_no_space(&source) {
        true => ArchiveError::Full { path },
        false => ArchiveError::Io {
            action,
            path,
            source,
        },
    }
}
