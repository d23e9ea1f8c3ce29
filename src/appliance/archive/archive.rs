// SPDX-License-Identifier: Apache-2.0
//! The archive: one folder, opened by the one process that writes, or beside it.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use jetwatch_files::OFlags;
use parking_lot::Mutex;

use super::error::{ArchiveError, io_error, is_no_space};
use super::folder::{self, Space};
use super::heal::{self, Difference, Healed};
use super::index::Index;
use super::item::{Item, MediaId, MediaState, NewItem};
use super::objects::Object;
use super::pending::{Finish, Pending};
use super::query::Query;
use super::retention::{Limits, RemovalReason};

/// Receives every item whose state has changed: it is being written, is ready, or was removed. Called on the thread that
/// changed it.
pub type Observer = Box<dyn Fn(&Item) + Send + Sync>;

/// Idle connections that are kept for lists.
const MAX_IDLE_READERS: usize = 2;

/// Removals that are announced at once.
const MAX_ANNOUNCED: usize = 256;

/// An open archive. Cheap to clone; all clones are the same one. Every call may block on the device.
#[derive(Clone)]
pub struct Archive {
    shared: Arc<Shared>,
}

struct Shared {
    given: PathBuf,
    /// The same without links, once it is open.
    folder: OnceLock<PathBuf>,
    /// `None`: it could not be opened yet.
    index: Mutex<Option<Index>>,
    /// Idle connections for lists, which do not wait for one another, nor for a change.
    readers: Mutex<Readers>,
    /// Objects that are not written yet. Locked before the index.
    noted: Mutex<VecDeque<Object>>,
    limits: Limits,
    is_full: AtomicBool,
    observer: OnceLock<Observer>,
    /// Held by the process that writes.
    lock: Mutex<Option<File>>,
}

#[derive(Default)]
struct Readers {
    idle: Vec<Index>,
    /// How often the index was closed: a connection to an earlier one is not used again.
    closed: u32,
}

impl Archive {
    /// Opens the archive in `folder` as the one process that writes, makes what is missing and heals what a kill has left. The folder
    /// around it must exist.
    ///
    /// # Errors
    /// The folder cannot be made or written, another process holds it, or there is no space for the index.
    pub fn open(folder: &Path, limits: Limits) -> Result<(Self, Healed), ArchiveError> {
        let lock = folder::lock(folder)?;
        let real = folder.canonicalize().map_err(io_error("open", folder))?;
        let (index, put_aside) = Index::open(&real)?;
        let archive = Self::closed(folder, limits);
        archive.set_open(real, index, Some(lock));
        let healed = heal::heal(&archive, put_aside)?;
        Ok((archive, healed))
    }

    /// Opens the archive in `folder` beside the process that writes: to list, pin and remove. Nothing is healed.
    ///
    /// # Errors
    /// The folder has no index of this version, or it cannot be read.
    pub fn attach(folder: &Path, limits: Limits) -> Result<Self, ArchiveError> {
        let real = folder.canonicalize().map_err(io_error("open", folder))?;
        let index = Index::attach(&real)?;
        let archive = Self::closed(folder, limits);
        archive.set_open(real, index, None);
        Ok(archive)
    }

    /// The archive in `folder`, not open: every call fails with [`ArchiveError::Closed`] until [`reopen`](Self::reopen) works.
    pub fn closed(folder: &Path, limits: Limits) -> Self {
        Self {
            shared: Arc::new(Shared {
                given: folder.to_owned(),
                folder: OnceLock::new(),
                index: Mutex::new(None),
                readers: Mutex::default(),
                noted: Mutex::default(),
                limits,
                is_full: AtomicBool::new(false),
                observer: OnceLock::new(),
                lock: Mutex::default(),
            }),
        }
    }

    pub(super) fn with_memory(index: Index) -> Self {
        let archive = Self::closed(Path::new(""), Limits::default());
        archive.set_open(PathBuf::new(), index, None);
        archive
    }

    /// Objects that are not written yet.
    pub(super) fn pending(&self) -> &Mutex<VecDeque<Object>> {
        &self.shared.noted
    }

    fn set_open(&self, folder: PathBuf, index: Index, lock: Option<File>) {
        let _ = self.shared.folder.set(folder);
        *self.shared.lock.lock() = lock;
        *self.shared.index.lock() = Some(index);
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.shared.index.lock().is_some()
    }

    /// Opens an archive that is not, for all its clones; only one thread may do so.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn reopen(&self) -> Result<Healed, ArchiveError> {
        // Nothing is written before it is healed: what is being written would look like what a kill has left.
        let (opened, healed) = Self::open(&self.shared.given, self.shared.limits)?;
        let closed = || ArchiveError::Closed {
            path: self.shared.given.clone(),
        };
        let mut opened = Arc::into_inner(opened.shared).ok_or_else(closed)?;
        let (folder, index) = (opened.folder.take(), opened.index.get_mut().take());
        let (folder, index) = folder.zip(index).ok_or_else(closed)?;
        self.set_open(folder, index, opened.lock.get_mut().take());
        Ok(healed)
    }

    /// Whether the pages of the index are what they should be, where a kill or a power cut came before the last opening. That takes seconds
    /// for a large one, in which all other calls go on. One that is damaged is closed for all clones: [`reopen`](Self::reopen) makes it
    /// again from the files.
    ///
    /// # Errors
    /// The index cannot be opened beside.
    pub fn check(&self) -> Result<bool, ArchiveError> {
        let must_check = self.with_index(|index| Ok(index.must_check))?;
        if !must_check || self.read(|index| Ok(index.is_sound()))? {
            return Ok(true);
        }
        let mut index = self.shared.index.lock();
        if let Some(index) = index.take() {
            index.suspect();
        }
        let mut readers = self.shared.readers.lock();
        readers.idle.clear();
        readers.closed += 1;
        *self.shared.lock.lock() = None;
        Ok(false)
    }

    /// Whether [`open`](Self::open) would work: the folder exists or can be made, can be written, and no other process holds it.
    /// Leaves the folder, where it had to be made.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn probe(folder: &Path) -> Result<Space, ArchiveError> {
        match folder::lock(folder) {
            // The daemon runs: it has opened the folder.
            Err(ArchiveError::Locked { .. }) => {}
            Err(error) => return Err(error),
            Ok(_lock) => {
                let path = folder.join(".check");
                let written = fs::write(&path, b"x").and_then(|()| fs::remove_file(&path));
                written.map_err(io_error("write", path))?;
            }
        }
        Space::of(folder)
    }

    /// Calls `observer` for every change from now on. Only the first call counts.
    pub fn observe(&self, observer: Observer) {
        let _ = self.shared.observer.set(observer);
    }

    /// The folder, absolute and without links once it is open.
    pub fn folder(&self) -> &Path {
        self.shared.folder.get().unwrap_or(&self.shared.given)
    }

    /// The limits of what is kept.
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// Space on the device of the folder.
    ///
    /// # Errors
    /// The folder is gone.
    pub fn space(&self) -> Result<Space, ArchiveError> {
        Space::of(self.folder())
    }

    /// Whether recording has stopped for want of space. [`enforce`](Self::enforce) starts it again once there is room.
    pub fn is_full(&self) -> bool {
        self.shared.is_full.load(Ordering::Acquire)
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.shared.is_full.store(is_full, Ordering::Release);
    }

    /// Whether this is the process that writes.
    pub(crate) fn is_writer(&self) -> bool {
        self.shared.lock.lock().is_some()
    }

    /// Makes the file of `item` and its row, in state `recording`.
    ///
    /// # Errors
    /// [`ArchiveError::Full`] while there is no space, which is then known without a try; the file or the row cannot be written.
    pub fn begin(&self, item: NewItem) -> Result<Pending, ArchiveError> {
        if self.is_full() {
            return Err(ArchiveError::Full {
                path: self.folder().to_owned(),
            });
        }
        // Before a file is made.
        self.with_index(|_| Ok(()))?;
        let begun = self.begin_file(item);
        if let Err(ArchiveError::Full { .. }) = &begun {
            self.set_full(true);
        }
        let pending = begun?;
        self.notify(pending.item());
        Ok(pending)
    }

    fn begin_file(&self, new: NewItem) -> Result<Pending, ArchiveError> {
        let extension = new.extension();
        let id = new
            .id
            .unwrap_or_else(|| MediaId::new(new.kind, SystemTime::now()));
        let relative = folder::item_path(&new.source, new.from, &id, extension)?;
        let path = self.folder().join(&relative);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = jetwatch_files::open_below(self.folder(), Path::new(&relative), flags)
            .map_err(io_error("create", &path))?;
        let item = Item {
            id,
            kind: new.kind,
            state: MediaState::Recording,
            source: new.source,
            from: new.from,
            to: None,
            bytes: 0,
            label: new.label,
            tracks: new.tracks,
            zones: new.zones,
            region: new.region,
            is_pinned: false,
            is_incomplete: false,
            reason: None,
            path: relative,
        };
        if let Err(error) = self.with_index(|index| index.insert(&item)) {
            // It is empty, and nothing knows it.
            let _ = remove_if_there(self.folder(), &item.path);
            return Err(error);
        }
        Ok(Pending::new(self.clone(), item, path, file))
    }

    pub(crate) fn finish(
        &self,
        id: &MediaId,
        end: Finish,
        bytes: u64,
    ) -> Result<Item, ArchiveError> {
        let item = self.with_index(|index| {
            index.finish(id, end.to, bytes, end.is_incomplete)?;
            index.get(id)
        });
        let item = self.note_full(item)?;
        let item = item.ok_or_else(|| ArchiveError::Unknown(id.to_string()))?;
        self.notify(&item);
        Ok(item)
    }

    pub(crate) fn set_tracks(&self, id: &MediaId, tracks: &[String]) -> Result<(), ArchiveError> {
        self.with_index(|index| index.set_tracks(id, tracks))
    }

    fn note_full<T>(&self, result: Result<T, ArchiveError>) -> Result<T, ArchiveError> {
        if let Err(ArchiveError::Full { .. }) = &result {
            self.set_full(true);
        }
        result
    }

    /// Deletes a file that was begun, and its row.
    pub(crate) fn forget(&self, item: &Item) -> Result<(), ArchiveError> {
        let sql = "DELETE FROM items WHERE id = ?";
        self.with_index(|index| index.execute(sql, [item.id.as_str()]))?;
        remove_if_there(self.folder(), &item.path)
    }

    /// The files that `query` asks for, newest first.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn items(&self, query: &Query) -> Result<Vec<Item>, ArchiveError> {
        self.read(|index| index.list(query))
    }

    /// What is known of a file; also of one that was removed in the last days.
    ///
    /// # Errors
    /// There is none of this id, or the index cannot be read.
    pub fn get(&self, id: &MediaId) -> Result<Item, ArchiveError> {
        let item = self.with_index(|index| index.get(id))?;
        item.ok_or_else(|| ArchiveError::Unknown(id.to_string()))
    }

    /// The file of `item`, absolute, without links and proven to be below the folder.
    ///
    /// # Errors
    /// It is not there, or not below the folder.
    pub fn file_of(&self, item: &Item) -> Result<PathBuf, ArchiveError> {
        folder::proven_path(self.folder(), &item.path)
    }

    /// Keeps a file whatever its age and whatever the space, or ends that. Returns the item as it is now.
    ///
    /// # Errors
    /// There is none of this id, it was removed, or the index cannot be written.
    pub fn pin(&self, id: &MediaId, is_pinned: bool) -> Result<Item, ArchiveError> {
        let changed = self.with_index(|index| {
            let sql = "UPDATE items SET pinned = ?2 WHERE id = ?1 AND state <> 'removed'";
            index.execute(sql, rusqlite::params![id.as_str(), is_pinned])
        })?;
        if changed == 0 {
            return Err(ArchiveError::Unknown(id.to_string()));
        }
        let item = self.get(id)?;
        // A mark on the file itself: an index that is damaged is made again from the files.
        let mark = || {
            let file = jetwatch_files::open_below(self.folder(), &item.path, OFlags::RDONLY)?;
            let mode = file.metadata()?.permissions().mode();
            let mode = if is_pinned {
                mode & !0o222
            } else {
                mode | 0o200
            };
            file.set_permissions(Permissions::from_mode(mode))
        };
        if let Err(error) = mark() {
            let path = item.path.display();
            log::warn!("{path}: that it is pinned or not is in the index only: {error}");
        }
        Ok(item)
    }

    /// Deletes a file. Its row stays for some days with the reason.
    ///
    /// # Errors
    /// There is none of this id, it is pinned or being written, or it cannot be deleted.
    pub fn remove(&self, id: &MediaId, reason: RemovalReason) -> Result<Item, ArchiveError> {
        let item = self.get(id)?;
        match item.state {
            MediaState::Removed => return Err(ArchiveError::Unknown(id.to_string())),
            MediaState::Recording => return Err(ArchiveError::Busy(id.to_string())),
            MediaState::Ready if item.is_pinned => {
                return Err(ArchiveError::Pinned(id.to_string()));
            }
            MediaState::Ready => {}
        }
        let path = self.folder().join(&item.path);
        let removed = self.remove_file(item, reason, SystemTime::now())?;
        self.announce_removals()?;
        removed.ok_or(ArchiveError::Io {
            action: "remove",
            path,
            source: std::io::ErrorKind::PermissionDenied.into(),
        })
    }

    /// Marks a file as removed and deletes it. The mark comes first: after a kill in between, the next start deletes the file. `None`: it
    /// cannot be deleted, which is logged, and stays.
    pub(crate) fn remove_file(
        &self,
        mut item: Item,
        reason: RemovalReason,
        now: SystemTime,
    ) -> Result<Option<Item>, ArchiveError> {
        let path = self.folder().join(&item.path);
        let mark = || self.with_index(|index| index.mark_removed(&item.id, reason, now));
        let marked = mark();
        if let Err(error) = &marked
            && !matches!(error, ArchiveError::Full { .. })
        {
            return marked.map(|()| None);
        }
        if let Err(error) = remove_if_there(self.folder(), &item.path) {
            log::warn!("{error}");
            if marked.is_ok() {
                let sql = "UPDATE items SET state = 'ready', reason = NULL, removed_us = NULL, announced = 1 WHERE id = ?";
                self.with_index(|index| index.execute(sql, [item.id.as_str()]))?;
            }
            return Ok(None);
        }
        if marked.is_err() {
            // A full device had no room for the mark; now it has.
            mark()?;
        }
        if let Some(day) = path.parent() {
            // Fails unless it is empty.
            let _ = fs::remove_dir(day);
        }
        item.state = MediaState::Removed;
        item.reason = Some(reason);
        Ok(Some(item))
    }

    /// Calls the observer for files that were removed, by this process or another, and not announced yet; returns their number. Without
    /// an observer they wait.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn announce_removals(&self) -> Result<usize, ArchiveError> {
        let Some(observer) = self.shared.observer.get() else {
            return Ok(0);
        };
        let removed = self.with_index(|index| {
            let removed = index.select("announced = 0", &[], "removed_us, id", MAX_ANNOUNCED)?;
            for item in &removed {
                let sql = "UPDATE items SET announced = 1 WHERE id = ?";
                index.execute(sql, [item.id.as_str()])?;
            }
            Ok(removed)
        })?;
        removed.iter().for_each(observer);
        Ok(removed.len())
    }

    /// What differs between index and folder. Beside a process that writes, what it is writing is none of it.
    ///
    /// # Errors
    /// The folder or the index cannot be read.
    pub fn differences(&self) -> Result<Vec<Difference>, ArchiveError> {
        heal::differences(self)
    }

    /// Runs `work` with the index, which no other thread uses meanwhile.
    pub(crate) fn with_index<T>(
        &self,
        work: impl FnOnce(&Index) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        let index = self.shared.index.lock();
        work(index.as_ref().ok_or_else(|| ArchiveError::Closed {
            path: self.folder().to_owned(),
        })?)
    }

    /// Runs `work`, which only reads, with a connection that no other thread uses meanwhile. In memory there is only the one.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Index) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        let (idle, closed) = {
            let mut readers = self.shared.readers.lock();
            (readers.idle.pop(), readers.closed)
        };
        let reader = match idle {
            Some(reader) => Some(reader),
            None => self.with_index(Index::beside)?,
        };
        let Some(reader) = reader else {
            return self.with_index(work);
        };
        let done = work(&reader);
        let mut readers = self.shared.readers.lock();
        if done.is_ok() && readers.closed == closed && readers.idle.len() < MAX_IDLE_READERS {
            readers.idle.push(reader);
        }
        done
    }

    fn notify(&self, item: &Item) {
        if let Some(observer) = self.shared.observer.get() {
            observer(item);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let objects = std::mem::take(&mut *self.noted.lock());
        let Some(index) = self.index.get_mut() else {
            return;
        };
        if let Err(error) = index.write_objects(&objects) {
            log::warn!("the last objects are not in the archive: {error}");
        }
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("folder", &self.folder())
            .finish_non_exhaustive()
    }
}

/// Deletes the file at `relative` below `folder`; a missing file is not an error.
pub(crate) fn remove_if_there(folder: &Path, relative: &Path) -> Result<(), ArchiveError> {
    match jetwatch_files::remove_below(folder, relative) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            debug_assert!(!is_no_space(&error));
            Err(io_error("remove", folder.join(relative))(error))
        }
        _ => Ok(()),
    }
}
