// SPDX-License-Identifier: Apache-2.0
//! A log of messages on disk, until a broker has acknowledged them.
//!
//! [`Spool`] holds two [`Log`]s of one format. The front one is in memory of the kernel (tmpfs): it survives the end of the process and
//! costs no wear. What must survive a power cut is copied to the back one and synced there, in batches. This crate has no threads
//! and knows no broker; `jetwatch-publish` calls it, and `jetwatch spool` reads the folders.
//!
//! ```text
//! FOLDER/lock                        held by the one process that writes
//! FOLDER/cursor                      two slots, written in turn: what is acknowledged
//! FOLDER/00000000000000000042.seg    records from number 42 on
//! FOLDER/….seg.damaged               segments with bad bytes: put aside, not deleted
//! ```
//!
//! No state of a folder makes opening fail, except that it cannot be written or that another process holds it.

mod cursor;
mod disk;
mod folder;
mod log;
mod overflow;
mod record;
mod room;
mod segment;
mod tiers;

use std::io;
use std::path::PathBuf;

pub use cursor::{ClockShift, Gap, GapReason};
pub use disk::{Disk, Operation};
pub use folder::{LogStatus, Opened};
pub use log::{Log, LogOptions};
pub use record::{Batch, Class, Record};
pub use room::Dropped;
pub use tiers::{FolderProblem, Folders, Spool, SpoolStatus, Stored, random_id, read_folder};

/// Why a folder cannot be used, or a record not be stored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum SpoolError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} is in use by another process, perhaps a daemon with the same publish.mqtt.client_id", path.display())]
    Locked { path: PathBuf },
    #[error("{} holds {bytes} bytes, its greatest size", path.display())]
    Full { path: PathBuf, bytes: u64 },
}

impl SpoolError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// Whether there is no room: the disk or the log is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ),
            Self::Full { .. } => true,
            Self::Locked { .. } => false,
        }
    }

    /// Whether the folder does not exist or is closed to this user, as for a program that was started by hand.
    pub fn is_unavailable(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        matches!(
            source.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
        )
    }
}
