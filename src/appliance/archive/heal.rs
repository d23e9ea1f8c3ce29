// SPDX-License-Identifier: Apache-2.0
//! Compares index and folder, and heals what a kill, a power cut or another program has left.

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use jetwatch_files::OFlags;

use super::archive::{Archive, remove_if_there};
use super::error::ArchiveError;
use super::folder::{self, Found};
use super::item::{Item, MediaId, MediaKind, MediaState};
use super::retention::RemovalReason;

/// Last two bytes of a whole JPEG file.
const JPEG_END: [u8; 2] = [0xff, 0xd9];

/// What was healed when an archive was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Healed {
    /// Files that the index did not know, and now does.
    pub indexed: usize,
    /// Files that the index knew and that were gone.
    pub missing: usize,
    /// Files that were cut off while they were written, and are kept as incomplete.
    pub incomplete: usize,
    /// Files that were deleted: cut off before there was anything to see, or marked as removed before.
    pub deleted: usize,
    /// Files whose size was not that of the index.
    pub resized: usize,
    /// The index that was put aside, since it was damaged or of another version.
    pub put_aside: Option<PathBuf>,
    /// Time that it took.
    pub took: Duration,
}

impl Healed {
    /// Whether there was anything to heal.
    pub fn is_nothing(&self) -> bool {
        *self
            == Self {
                took: self.took,
                ..Self::default()
            }
    }
}

impl fmt::Display for Healed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files indexed, {} missing, {} incomplete, {} deleted, {} of another size",
            self.indexed, self.missing, self.incomplete, self.deleted, self.resized
        )?;
        match &self.put_aside {
            Some(path) => write!(
                f,
                "; labels, tracks and zones of these files are only in the old index {}",
                path.display()
            ),
            None => Ok(()),
        }
    }
}

/// One difference between index and folder.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// A file that the index does not know.
    Unindexed {
        /// Below the folder.
        path: PathBuf,
    },
    /// A file of the index that is not there.
    Missing(Box<Item>),
    /// A file that was being written when the process ended.
    Unfinished(Box<Item>),
    /// A file that is marked as removed and still there.
    Leftover(Box<Item>),
    /// A file of another size than in the index.
    Size {
        /// As the index has it.
        item: Box<Item>,
        /// Its size.
        bytes: u64,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unindexed { path } => write!(f, "{}: not in the index", path.display()),
            Self::Missing(item) => write!(f, "{}: the file is not there", item.path.display()),
            Self::Unfinished(item) => {
                write!(f, "{}: cut off while it was written", item.path.display())
            }
            Self::Leftover(item) => {
                write!(
                    f,
                    "{}: marked as removed, and still there",
                    item.path.display()
                )
            }
            Self::Size { item, bytes } => write!(
                f,
                "{}: has {bytes} bytes, in the index {}",
                item.path.display(),
                item.bytes
            ),
        }
    }
}

/// What a comparison has found, with what it needs to heal it.
enum Finding {
    Unindexed(Found),
    Missing(Item),
    Unfinished(Item, Found),
    Leftover(Item),
    Size(Item, Found),
}

/// Compares the rows with the files. Each difference is looked at again, since the writing process may go on meanwhile.
fn compare(archive: &Archive) -> Result<Vec<Finding>, ArchiveError> {
    let files = folder::scan(archive.folder())?;
    let mut files: HashMap<MediaId, Found> = files
        .into_iter()
        .map(|found| (found.id.clone(), found))
        .collect();
    let is_beside_writer = !archive.is_writer() && folder::is_locked(archive.folder());
    let mut findings = Vec::new();
    // Row by row, so that memory is that of the names of the files.
    let each = |item: Item| {
        let found = files.remove(&item.id);
        let found = found.filter(|found| found.path == item.path);
        match (item.state, found) {
            (MediaState::Recording, _) if is_beside_writer => {}
            (MediaState::Removed, Some(_)) => findings.push(Finding::Leftover(item)),
            (MediaState::Removed, None) => {}
            (_, None) => {
                if !archive.folder().join(&item.path).exists() {
                    findings.push(Finding::Missing(item));
                }
            }
            (MediaState::Recording, Some(found)) => findings.push(Finding::Unfinished(item, found)),
            (MediaState::Ready, Some(found)) if found.bytes != item.bytes => {
                findings.push(Finding::Size(item, found));
            }
            (MediaState::Ready, Some(_)) => {}
        }
    };
    archive.with_index(|index| index.for_each(each))?;
    // Those without a row. Another process may have changed that since.
    for (id, found) in files {
        let is_new = archive.with_index(|index| index.get(&id))?.is_none()
            && archive.folder().join(&found.path).exists();
        if is_new {
            findings.push(Finding::Unindexed(found));
        }
    }
    Ok(findings)
}

/// What differs, by path.
pub(crate) fn differences(archive: &Archive) -> Result<Vec<Difference>, ArchiveError> {
    let mut differences: Vec<Difference> = compare(archive)?
        .into_iter()
        .map(|finding| match finding {
            Finding::Unindexed(found) => Difference::Unindexed { path: found.path },
            Finding::Missing(item) => Difference::Missing(Box::new(item)),
            Finding::Unfinished(item, _) => Difference::Unfinished(Box::new(item)),
            Finding::Leftover(item) => Difference::Leftover(Box::new(item)),
            Finding::Size(item, found) => Difference::Size {
                item: Box::new(item),
                bytes: found.bytes,
            },
        })
        .collect();
    differences.sort_by_cached_key(ToString::to_string);
    Ok(differences)
}

/// Heals all differences, in one change of the index.
pub(crate) fn heal(archive: &Archive, put_aside: Option<PathBuf>) -> Result<Healed, ArchiveError> {
    let started = Instant::now();
    let mut healed = Healed {
        put_aside,
        ..Healed::default()
    };
    let findings = compare(archive)?;
    if !findings.is_empty() {
        archive.with_index(|index| index.execute("BEGIN", []))?;
        let done = findings
            .into_iter()
            .try_for_each(|finding| heal_one(archive, finding, &mut healed));
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = archive.with_index(|index| index.execute(end, []));
        done.and(ended.map(|_| ()))?;
    }
    healed.took = started.elapsed();
    Ok(healed)
}

fn heal_one(archive: &Archive, finding: Finding, healed: &mut Healed) -> Result<(), ArchiveError> {
    let now = SystemTime::now();
    match finding {
        Finding::Missing(item) => {
            healed.missing += 1;
            archive.with_index(|index| index.mark_removed(&item.id, RemovalReason::Missing, now))
        }
        Finding::Leftover(item) => {
            healed.deleted += 1;
            remove_if_there(archive.folder(), &item.path)
        }
        Finding::Size(item, found) => {
            healed.resized += 1;
            let to = item.to.unwrap_or(found.modified);
            archive.with_index(|index| index.finish(&item.id, to, found.bytes, true))
        }
        Finding::Unfinished(item, found) if is_usable(archive.folder(), &found) => {
            healed.incomplete += 1;
            archive.with_index(|index| {
                // A whole picture lacks nothing but its mark.
                let is_cut = item.kind != MediaKind::Snapshot;
                index.finish(&item.id, found.modified, found.bytes, is_cut)
            })
        }
        Finding::Unfinished(item, _) => {
            healed.deleted += 1;
            archive
                .with_index(|index| index.mark_removed(&item.id, RemovalReason::Unusable, now))?;
            remove_if_there(archive.folder(), &item.path)
        }
        Finding::Unindexed(found) if is_usable(archive.folder(), &found) => {
            healed.indexed += 1;
            archive.with_index(|index| index.insert(&item_of(found)))
        }
        Finding::Unindexed(found) => {
            healed.deleted += 1;
            remove_if_there(archive.folder(), &found.path)
        }
    }
}

/// What the name of a file says of it.
fn item_of(found: Found) -> Item {
    // The time of the name is that of its making, which is near its first picture.
    let from = found.id.made_at().min(found.modified);
    Item {
        kind: found.id.kind(),
        id: found.id,
        state: MediaState::Ready,
        source: found.source,
        from,
        to: Some(found.modified),
        bytes: found.bytes,
        label: None,
        tracks: Vec::new(),
        zones: Vec::new(),
        region: None,
        is_pinned: found.is_read_only,
        is_incomplete: false,
        reason: None,
        path: found.path,
    }
}

/// Whether there is anything to see in a file: video that was cut off plays to its end, half a picture is of no use.
fn is_usable(folder: &Path, found: &Found) -> bool {
    if found.bytes == 0 || found.id.kind() != MediaKind::Snapshot {
        return found.bytes > 0;
    }
    let end = || {
        let path = Path::new(&found.path);
        let mut file = jetwatch_files::open_below(folder, path, OFlags::RDONLY)?;
        file.seek(SeekFrom::End(-2))?;
        let mut end = [0; 2];
        file.read_exact(&mut end).map(|()| end)
    };
    end().is_ok_and(|end| end == JPEG_END)
}
