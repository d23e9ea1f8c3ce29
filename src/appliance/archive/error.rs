// SPDX-License-Identifier: Apache-2.0
//! Why the archive cannot be used.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why the archive cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum ArchiveError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("no space is left for {}: recording stops until files were deleted", path.display())]
    Full { path: PathBuf },
    #[error("{} is not open: it is tried again every few seconds", path.display())]
    Closed { path: PathBuf },
    #[error("{} is in use by another process, perhaps a daemon with the same record.folder", path.display())]
    Locked { path: PathBuf },
    #[error("cannot use the index {}: {source}", path.display())]
    Index {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("{} has no index: expected a folder in which jetwatch keeps media, such as record.folder of its configuration", path.display())]
    NoArchive { path: PathBuf },
    #[error("there is no item `{0}`: `jetwatch media list` shows those that there are")]
    Unknown(String),
    #[error("`{0}` is pinned: unpin it first")]
    Pinned(String),
    #[error("`{0}` is still being written")]
    Busy(String),
    #[error("`{0}` cannot be the name of a folder of media")]
    Name(String),
    #[error("{} is not a file below the folder of the archive", path.display())]
    Outside { path: PathBuf },
}

/// Whether `error` is for want of space: a full device, a reached quota, or a reached limit of the size of files.
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
