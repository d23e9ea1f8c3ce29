// SPDX-License-Identifier: Apache-2.0
//! The index: one table of SQLite. Knows no files but its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};

use super::error::{ArchiveError, io_error};
use super::item::{Item, MediaId, MediaKind, MediaState};
use super::objects::{MAX_IN_MEMORY, MAX_OBJECTS};
use super::query::Query;
use super::retention::RemovalReason;

/// Name of its file in the folder of the archive.
pub(crate) const FILE: &str = "index.sqlite";

/// Its log of changes, and what else belongs to it.
const LOG: &str = "-wal";
const COMPANIONS: [&str; 2] = [LOG, "-shm"];

/// Beside it since it was found to be damaged: the next start checks all of it.
const SUSPECT: &str = ".suspect";

/// Version of the table. Another one is put aside and the index is rebuilt from the folder.
const VERSION: i64 = 1;

/// How long one process waits for the other's change.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const TABLE: &str = "
    CREATE TABLE items (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, state TEXT NOT NULL, source TEXT NOT NULL,
        from_us INTEGER NOT NULL, to_us INTEGER, bytes INTEGER NOT NULL, label TEXT,
        tracks TEXT NOT NULL, zones TEXT NOT NULL, region TEXT,
        pinned INTEGER NOT NULL, incomplete INTEGER NOT NULL, reason TEXT, removed_us INTEGER,
        announced INTEGER NOT NULL, path TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX unannounced ON items (id) WHERE announced = 0;
";

pub(super) const COLUMNS: &str = "id, kind, state, source, from_us, to_us, bytes, label, tracks, zones, region, \
     pinned, incomplete, reason, path";

/// Length of the parts of time of which sums are kept, in microseconds: that of the parts of a day that the page shows.
pub(super) const PART_US: i64 = 300_000_000;

/// `sql` with the length of the parts.
pub(super) fn with_parts(sql: &str) -> String {
    sql.replace("{PART_US}", &PART_US.to_string())
}

/// The open index.
pub(crate) struct Index {
    pub(crate) connection: Connection,
    path: PathBuf,
    /// Most objects that it holds.
    pub(super) max_objects: usize,
    /// A kill or a power cut came before, and its pages were not checked since.
    pub(super) must_check: bool,
}

/// Why an index is put aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    Damaged,
    OtherVersion,
}

impl Index {
    /// Opens the index of the one process that writes; one that is missing or cannot be used is made, and its predecessor put aside
    /// under the returned name.
    pub(crate) fn open(folder: &Path) -> Result<(Self, Option<PathBuf>), ArchiveError> {
        let (index, put_aside) = Self::open_files(folder)?;
        index.add_missing()?;
        Ok((index, put_aside))
    }

    /// An index of no files, in memory.
    pub(crate) fn in_memory() -> Result<Self, ArchiveError> {
        let path = PathBuf::from(":memory:");
        let connection =
            Connection::open_in_memory().map_err(|source| index_error(&path, source))?;
        let index = Self {
            connection,
            path,
            max_objects: MAX_IN_MEMORY,
            must_check: false,
        };
        index.create()?;
        index.add_missing()?;
        Ok(index)
    }

    /// A further connection to the same files; `None` in memory.
    pub(crate) fn beside(&self) -> Result<Option<Self>, ArchiveError> {
        match self.max_objects {
            MAX_IN_MEMORY => Ok(None),
            _ => Self::open_existing(&self.path, false).map(|(index, _)| Some(index)),
        }
    }

    /// As [`open`](Self::open), without what is known of objects.
    fn open_files(folder: &Path) -> Result<(Self, Option<PathBuf>), ArchiveError> {
        let path = folder.join(FILE);
        let is_new = !path.exists();
        // The last connection removes the log of changes at its end. To read all of a large index takes seconds: nothing waits for that
        // without a sign of damage.
        let [log, suspect] = [LOG, SUSPECT].map(|end| with_end(&path, end));
        let (must_check, is_suspect) = (log.exists(), std::fs::remove_file(suspect).is_ok());
        let unusable = match Self::open_existing(&path, true) {
            Ok((index, 0)) if is_new => {
                index.create()?;
                return Ok((index, None));
            }
            Ok((mut index, VERSION)) => {
                match index.has_columns() && (!is_suspect || index.is_sound()) {
                    true => {
                        index.must_check = must_check && !is_suspect;
                        return Ok((index, None));
                    }
                    false => Unusable::Damaged,
                }
            }
            // A file without a table is what a kill leaves that comes before the first change.
            Ok((index, 0)) if index.create().is_ok() => return Ok((index, None)),
            Ok(_) => Unusable::OtherVersion,
            Err(ArchiveError::Index { source, .. }) if is_damaged(&source) => Unusable::Damaged,
            Err(error) => return Err(error),
        };
        let aside = put_aside(&path, unusable)?;
        let (index, _) = Self::open_existing(&path, true)?;
        index.create()?;
        Ok((index, Some(aside)))
    }

    /// Opens the index beside the process that writes.
    pub(crate) fn attach(folder: &Path) -> Result<Self, ArchiveError> {
        let path = folder.join(FILE);
        let none = || ArchiveError::NoArchive {
            path: folder.to_owned(),
        };
        if !path.is_file() {
            return Err(none());
        }
        let was_killed = with_end(&path, LOG).exists();
        let (index, version) = Self::open_existing(&path, false)?;
        if version != VERSION {
            return Err(none());
        }
        if was_killed {
            // Kept at the end of this connection, too: the process that writes is to see that it was killed.
            let kept = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let set = index.connection.set_db_config(kept, true);
            set.map_err(|source| index.error(source))?;
        }
        index.add_missing()?;
        Ok(index)
    }

    fn open_existing(path: &Path, creates: bool) -> Result<(Self, i64), ArchiveError> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, creates);
        let open = || {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", "normal")?;
            // The log of changes is not to grow beyond what it needs.
            connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
            let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            Ok((connection, version))
        };
        let (connection, version) = open().map_err(|source| index_error(path, source))?;
        let index = Self {
            connection,
            path: path.to_owned(),
            max_objects: MAX_OBJECTS,
            must_check: false,
        };
        Ok((index, version))
    }

    fn create(&self) -> Result<(), ArchiveError> {
        let sql = format!("BEGIN; {TABLE} PRAGMA user_version = {VERSION}; COMMIT;");
        self.connection
            .execute_batch(&sql)
            .map_err(|source| self.error(source))
    }

    /// Adds what an index that is new, or that an earlier version made, has not.
    fn add_missing(&self) -> Result<(), ArchiveError> {
        self.add_totals()?;
        self.add_objects()
    }

    /// Runs `sql` in one change where the index has no `table` yet: an earlier version made it, or it is new.
    pub(super) fn add(&self, table: &str, sql: &str) -> Result<(), ArchiveError> {
        let run = || -> rusqlite::Result<()> {
            let known = "SELECT count(*) FROM sqlite_schema WHERE name = ?";
            let known: i64 = self
                .connection
                .query_row(known, [table], |row| row.get(0))?;
            match known {
                0 => self
                    .connection
                    .execute_batch(&format!("BEGIN IMMEDIATE; {sql} COMMIT;")),
                _ => Ok(()),
            }
        };
        run().map_err(|source| self.error(source))
    }

    fn has_columns(&self) -> bool {
        let columns = format!("SELECT {COLUMNS}, announced, removed_us FROM items LIMIT 1");
        let first = self.connection.query_row(&columns, [], |_| Ok(()));
        first.optional().is_ok()
    }

    /// Whether each page of it is what it should be.
    pub(super) fn is_sound(&self) -> bool {
        let check = "PRAGMA quick_check(1)";
        let answer = self.connection.query_row(check, [], |row| row.get(0));
        answer.is_ok_and(|answer: String| answer == "ok")
    }

    /// Has all of it checked by the next start.
    pub(super) fn suspect(&self) {
        suspect(&self.path);
    }

    pub(crate) fn error(&self, source: rusqlite::Error) -> ArchiveError {
        index_error(&self.path, source)
    }

    /// Adds a row; fails where the id is taken.
    pub(crate) fn insert(&self, item: &Item) -> Result<(), ArchiveError> {
        let region = item.region.map(|region| json(&region));
        let values = params![
            item.id.as_str(),
            item.kind.word(),
            item.state.word(),
            item.source,
            micros(item.from),
            item.to.map(micros),
            size(item.bytes),
            item.label,
            json(&item.tracks),
            json(&item.zones),
            region,
            item.is_pinned,
            item.is_incomplete,
            item.reason.map(RemovalReason::word),
            item.path.to_string_lossy(),
        ];
        let sql = format!(
            "INSERT INTO items ({COLUMNS}, announced) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,1)"
        );
        self.execute(&sql, values).map(|_| ())
    }

    /// Marks a file as complete.
    pub(crate) fn finish(
        &self,
        id: &MediaId,
        to: SystemTime,
        bytes: u64,
        is_incomplete: bool,
    ) -> Result<(), ArchiveError> {
        self.execute(
            "UPDATE items SET state = 'ready', to_us = max(?2, from_us), bytes = ?3, incomplete = ?4 WHERE id = ?1",
            params![id.as_str(), micros(to), size(bytes), is_incomplete],
        )
        .map(|_| ())
    }

    /// Marks a file as removed, to be announced.
    pub(crate) fn mark_removed(
        &self,
        id: &MediaId,
        reason: RemovalReason,
        at: SystemTime,
    ) -> Result<(), ArchiveError> {
        self.execute(
            "UPDATE items SET state = 'removed', reason = ?2, removed_us = ?3, announced = 0, \
             to_us = coalesce(to_us, from_us) WHERE id = ?1",
            params![id.as_str(), reason.word(), micros(at)],
        )
        .map(|_| ())
    }

    /// Sets the tracks of a file.
    pub(crate) fn set_tracks(&self, id: &MediaId, tracks: &[String]) -> Result<(), ArchiveError> {
        let sql = "UPDATE items SET tracks = ?2 WHERE id = ?1";
        self.execute(sql, params![id.as_str(), json(&tracks)])
            .map(|_| ())
    }

    pub(crate) fn execute(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<usize, ArchiveError> {
        let run = || self.connection.prepare(sql)?.execute(values);
        run().map_err(|source| self.error(source))
    }

    pub(crate) fn get(&self, id: &MediaId) -> Result<Option<Item>, ArchiveError> {
        let sql = format!("SELECT {COLUMNS} FROM items WHERE id = ?");
        let run = || {
            self.connection
                .prepare(&sql)?
                .query_row([id.as_str()], item)
                .optional()
        };
        run()
            .map(Option::flatten)
            .map_err(|source| self.error(source))
    }

    /// Rows that meet `condition`, in the order of `order`.
    pub(crate) fn select(
        &self,
        condition: &str,
        values: &[Value],
        order: &str,
        limit: usize,
    ) -> Result<Vec<Item>, ArchiveError> {
        let rest = format!("WHERE {condition} ORDER BY {order} LIMIT {limit}");
        let mut items = Vec::new();
        self.query(&rest, values, |item| items.push(item))?;
        Ok(items)
    }

    /// Calls for every row, in the order of the ids.
    pub(crate) fn for_each(&self, each: impl FnMut(Item)) -> Result<(), ArchiveError> {
        self.query("ORDER BY id", &[], each)
    }

    /// Calls for every row that is selected by `rest` of the statement.
    fn query(
        &self,
        rest: &str,
        values: &[Value],
        mut each: impl FnMut(Item),
    ) -> Result<(), ArchiveError> {
        let sql = format!("SELECT {COLUMNS} FROM items {rest}");
        let mut run = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(&sql)?;
            let rows = statement.query_map(rusqlite::params_from_iter(values), item)?;
            for row in rows {
                if let Some(item) = row? {
                    each(item);
                }
            }
            Ok(())
        };
        run().map_err(|source| self.error(source))
    }

    /// What SQLite does for a statement.
    #[cfg(test)]
    pub(crate) fn plan(&self, sql: &str) -> String {
        let plan = self
            .connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"));
        let mut plan = plan.expect("a statement");
        let values = vec![1; plan.parameter_count()];
        let steps = plan.query_map(rusqlite::params_from_iter(values), |row| row.get(3));
        let steps: Vec<String> = steps.and_then(Iterator::collect).expect("a plan");
        steps.join("; ")
    }

    pub(crate) fn list(&self, query: &Query) -> Result<Vec<Item>, ArchiveError> {
        let (ids, values) = query.ids();
        let limit = query.effective_limit();
        self.select(
            &format!("id IN ({ids})"),
            &values,
            "from_us DESC, id DESC",
            limit,
        )
    }
}

/// A row; `None` for one that another program wrote: it is as if it were not there.
pub(super) fn item(row: &Row<'_>) -> rusqlite::Result<Option<Item>> {
    let text = |column| row.get::<_, String>(column);
    let (Some(id), Some(kind), Some(state)) = (
        MediaId::parse(&text(0)?),
        MediaKind::from_word(&text(1)?),
        MediaState::from_word(&text(2)?),
    ) else {
        return Ok(None);
    };
    let texts = |column| -> rusqlite::Result<Vec<String>> {
        Ok(serde_json::from_str(&text(column)?).unwrap_or_default())
    };
    let region: Option<String> = row.get(10)?;
    let reason: Option<String> = row.get(13)?;
    Ok(Some(Item {
        id,
        kind,
        state,
        source: text(3)?,
        from: from_micros(row.get(4)?),
        to: row.get::<_, Option<i64>>(5)?.map(from_micros),
        bytes: u64::try_from(row.get::<_, i64>(6)?).unwrap_or_default(),
        label: row.get(7)?,
        tracks: texts(8)?,
        zones: texts(9)?,
        region: region.and_then(|region| serde_json::from_str(&region).ok()),
        is_pinned: row.get(11)?,
        is_incomplete: row.get(12)?,
        reason: reason.and_then(|reason| RemovalReason::from_word(&reason)),
        path: text(14)?.into(),
    }))
}

pub(super) fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and finite numbers")
}

fn size(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Microseconds since 1970; times before that are 1970.
pub(crate) fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn from_micros(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

fn index_error(path: &Path, source: rusqlite::Error) -> ArchiveError {
    if is_damaged(&source) {
        suspect(path);
    }
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => ArchiveError::Full { path },
        _ => ArchiveError::Index { path, source },
    }
}

fn suspect(path: &Path) {
    let _ = std::fs::write(with_end(path, SUSPECT), "");
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Renames the index at `path` and what belongs to it; returns its new name.
fn put_aside(path: &Path, why: Unusable) -> Result<PathBuf, ArchiveError> {
    let word = match why {
        Unusable::Damaged => "damaged",
        Unusable::OtherVersion => "other-version",
    };
    let seconds = micros(SystemTime::now()) / 1_000_000;
    let name = |number: u32| match number {
        0 => with_end(path, &format!(".{word}-{seconds}")),
        number => with_end(path, &format!(".{word}-{seconds}-{number}")),
    };
    let aside = (0..)
        .map(name)
        .find(|name| !name.exists())
        .expect("a name is free");
    std::fs::rename(path, &aside).map_err(io_error("rename", path))?;
    for end in COMPANIONS {
        let companion = with_end(path, end);
        if companion.exists() {
            let renamed = std::fs::rename(&companion, with_end(&aside, end));
            renamed.map_err(io_error("rename", companion))?;
        }
    }
    Ok(aside)
}
