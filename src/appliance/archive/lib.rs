// SPDX-License-Identifier: Apache-2.0
//! Snapshots, clips and recordings on disk: files, an index of them, and when they are deleted.
//!
//! [`Archive::note`] takes objects that were seen, and [`Archive::objects`] lists them with the files that show them.
//!
//! [`Archive`] is one folder. [`Archive::begin`] makes a file, [`Pending`] writes it, and [`Pending::finish`] puts it into the index as
//! complete; [`Archive::items`] lists what there is, [`Archive::enforce`] deletes what is too old or too much. The crate knows no
//! video, no message and no configuration; it has no threads. Every call may block on the device: none belongs on a thread of
//! frames.
//!
//! ```text
//! FOLDER/lock                            held by the one process that writes
//! FOLDER/index.sqlite                    what is known of the files; `-wal` and `-shm` belong to it
//! FOLDER/index.sqlite.damaged-…          put aside, not deleted
//! FOLDER/index.sqlite.suspect            made by an error that shows damage: the next start checks all of the index
//! FOLDER/SOURCE/YYYY-MM-DD/HHMMSS-ID.mp4 clips and continuous recording, by UTC
//! FOLDER/SOURCE/YYYY-MM-DD/HHMMSS-ID.jpg snapshots
//! ```
//!
//! **After a kill or a power cut** the next [`Archive::open`] compares index and folder. The index is in WAL mode with
//! `synchronous = NORMAL`: it is never damaged by a power cut, but may lose its newest changes. A file is synced before the index
//! calls it complete, and its folder, too. So a row that says `ready` has its bytes, and a file whose row was lost is found by its name,
//! which holds source, kind and time. A row is marked as removed before its file is deleted. All pages of the index are checked only
//! after such an end, beside all other calls ([`Archive::check`]), or at the start after an error that shows damage. No state of the folder makes opening fail, except that it cannot be written
//! or that another process holds it.

mod archive;
mod error;
mod folder;
mod heal;
mod index;
mod item;
mod objects;
mod pending;
mod query;
mod retention;
#[cfg(test)]
mod tests;

pub use archive::{Archive, Observer};
pub use error::{ArchiveError, is_no_space};
pub use folder::Space;
pub use heal::{Difference, Healed};
pub use item::{BoundingBox, Item, MediaId, MediaKind, MediaState, NewItem, utc};
pub use objects::{Activity, Facets, Object, ObjectQuery};
pub use pending::{Finish, Pending};
pub use query::Query;
pub use retention::{KindUsage, Limits, RemovalReason, SourceUsage, Usage};
