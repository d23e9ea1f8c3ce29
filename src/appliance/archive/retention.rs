// SPDX-License-Identifier: Apache-2.0
//! What is deleted, when, and how much there is.

use std::time::{Duration, SystemTime};

use rusqlite::types::Value;

use super::archive::Archive;
use super::error::ArchiveError;
use super::folder::Space;
use super::index::{Index, PART_US, micros, with_parts};
use super::item::{Item, MediaKind};

/// Most files that one call deletes, so that it takes a bounded time.
const MAX_REMOVALS: usize = 100;

/// How long a row outlives its file: the time in which one can ask why it is gone.
const REMOVED_ROWS_AGE: Duration = Duration::from_secs(7 * 86_400);

/// Time over which the rate of writing is measured.
const RATE_SPAN: Duration = Duration::from_secs(86_400);

/// Shortest time over which a rate means anything.
const MIN_RATE_SPAN: Duration = Duration::from_secs(600);

/// The order in which files are deleted for want of space: by kind, then by age. As the indexes have it.
const ORDER: &str =
    "CASE kind WHEN 'continuous' THEN 0 WHEN 'snapshot' THEN 1 ELSE 2 END, from_us, id";

/// What retention asks for every few seconds, found without a look at each file: indexes, and sums that triggers keep in step, whoever
/// writes.
const TOTALS: &str = "
    DROP INDEX IF EXISTS by_source;
    CREATE INDEX by_source ON items (source, kind, from_us, id) WHERE state <> 'removed';
    CREATE INDEX by_end ON items (to_us, id) WHERE state = 'ready' AND pinned = 0;
    CREATE INDEX by_worth ON items ({ORDER}) WHERE state = 'ready' AND pinned = 0;
    CREATE INDEX by_worth_of_source ON items (source, {ORDER}) WHERE state = 'ready' AND pinned = 0;
    CREATE INDEX removed ON items (removed_us) WHERE state = 'removed' AND announced = 1;
    CREATE TABLE totals (
        source TEXT NOT NULL, kind TEXT NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL, pinned INTEGER NOT NULL,
        PRIMARY KEY (source, kind)
    ) WITHOUT ROWID;
    INSERT INTO totals SELECT source, kind, count(*), sum(bytes), sum(bytes * pinned) FROM items
        WHERE state <> 'removed' GROUP BY source, kind;
    CREATE TRIGGER total_added AFTER INSERT ON items WHEN NEW.state <> 'removed' BEGIN
        INSERT INTO totals VALUES (NEW.source, NEW.kind, 1, NEW.bytes, NEW.bytes * NEW.pinned)
            ON CONFLICT DO UPDATE SET files = files + 1, bytes = bytes + excluded.bytes, pinned = pinned + excluded.pinned;
    END;
    CREATE TRIGGER total_changed AFTER UPDATE OF state, bytes, pinned ON items BEGIN
        UPDATE totals SET files = files + (NEW.state <> 'removed') - (OLD.state <> 'removed'),
            bytes = bytes + NEW.bytes * (NEW.state <> 'removed') - OLD.bytes * (OLD.state <> 'removed'),
            pinned = pinned + NEW.bytes * NEW.pinned * (NEW.state <> 'removed') - OLD.bytes * OLD.pinned * (OLD.state <> 'removed')
            WHERE source = NEW.source AND kind = NEW.kind;
    END;
    CREATE TRIGGER total_forgotten AFTER DELETE ON items WHEN OLD.state <> 'removed' BEGIN
        UPDATE totals SET files = files - 1, bytes = bytes - OLD.bytes, pinned = pinned - OLD.bytes * OLD.pinned
            WHERE source = OLD.source AND kind = OLD.kind;
    END;
";

/// Rows of files that were deleted before a time.
const FORGET: &str =
    "DELETE FROM items WHERE state = 'removed' AND announced = 1 AND removed_us < ?";

/// What is kept, by source and kind.
const KEPT: &str = "SELECT source, kind, files, bytes, pinned, (SELECT from_us FROM items WHERE items.source = totals.source \
     AND items.kind = totals.kind AND state <> 'removed' ORDER BY from_us LIMIT 1) FROM totals WHERE files > 0 ORDER BY source, kind";

/// Bytes of the files that began in each part of some minutes, which triggers keep in step, whoever writes: the rate of writing is asked
/// for every few seconds, and a day has many files. Those of files that were deleted since count, too.
const WRITTEN_TABLE: &str = "
    CREATE TABLE written (part INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
    INSERT INTO written SELECT from_us / {PART_US}, sum(bytes) FROM items GROUP BY 1;
    CREATE TRIGGER written_added AFTER INSERT ON items WHEN NEW.bytes > 0 BEGIN
        INSERT INTO written VALUES (NEW.from_us / {PART_US}, NEW.bytes) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
    END;
    CREATE TRIGGER written_changed AFTER UPDATE OF bytes ON items WHEN NEW.bytes <> OLD.bytes BEGIN
        INSERT INTO written VALUES (NEW.from_us / {PART_US}, NEW.bytes - OLD.bytes)
            ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
    END;
";

/// What was written in a span, and when the first of it began.
const WRITTEN: &str = "SELECT coalesce(sum(bytes), 0), (SELECT from_us FROM items WHERE from_us >= ?1 * {PART_US} ORDER BY from_us LIMIT 1) \
     FROM written WHERE part BETWEEN ?1 AND ?2";

/// Bytes that no rate is asked of any more.
const FORGET_WRITTEN: &str = "DELETE FROM written WHERE part < ?";

/// Limits of what is kept. The default has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Older files are deleted.
    pub max_age: Option<Duration>,
    /// Greatest size of the files of one source.
    pub max_bytes_per_source: Option<u64>,
    /// Space that stays free on the device.
    pub min_free_bytes: u64,
    /// The same as a share of the device; the greater of the two holds.
    pub min_free_percent: u8,
}

impl Limits {
    /// Bytes that stay free on a device of this size.
    #[must_use]
    pub fn min_free(&self, space: Space) -> u64 {
        let share = u128::from(space.total) * u128::from(self.min_free_percent) / 100;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        self.min_free_bytes.max(share)
    }
}

jetwatch_types::named_enum! {
    /// Why a file was deleted.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RemovalReason {
        /// It is older than what is kept.
        Age = "age",
        /// The files of its source were larger than what is kept.
        SourceBytes = "source_bytes",
        /// Less space was free than is to stay free.
        FreeSpace = "free_space",
        /// It was asked for.
        Operator = "operator",
        /// The file was deleted by another program.
        Missing = "missing",
        /// It was cut off before there was anything to see.
        Unusable = "unusable",
    }

    /// Its word in messages.
    pub fn word, from_word;
}

/// Files of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindUsage {
    /// The kind.
    pub kind: MediaKind,
    /// Their number.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
}

/// Files of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceUsage {
    /// Name of the source.
    pub source: String,
    /// By kind; kinds without files are missing.
    pub kinds: Vec<KindUsage>,
    /// Capture time of the oldest.
    pub oldest: Option<SystemTime>,
}

/// What is kept, and how long it can go on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// By source, by name.
    pub sources: Vec<SourceUsage>,
    /// Size of the pinned files, which are kept whatever their age.
    pub pinned_bytes: u64,
    /// Space on the device.
    pub space: Space,
    /// Bytes written per day, from what was written in the last day; `None`: too little was written.
    pub bytes_per_day: Option<f64>,
    /// Days until retention has to delete for want of space, at this rate; `None` without a rate.
    pub days_left: Option<f64>,
    /// Recording has stopped for want of space.
    pub is_full: bool,
}

impl Usage {
    /// Size of all files of a kind.
    pub fn bytes_of(&self, kind: MediaKind) -> u64 {
        let kinds = self.sources.iter().flat_map(|source| &source.kinds);
        kinds
            .filter(|usage| usage.kind == kind)
            .map(|usage| usage.bytes)
            .sum()
    }
}

impl Archive {
    /// Deletes what the limits do not allow, at most 100 files: by age, by the size of a source, and for the space that is to stay free.
    /// Pinned files stay, and so do those that are being written. Returns what was deleted; as many as 100 mean that there may be
    /// more. Call it every few seconds.
    ///
    /// # Errors
    /// The index cannot be used. Files that cannot be deleted are logged.
    pub fn enforce(&self, now: SystemTime) -> Result<Vec<Item>, ArchiveError> {
        let removed = self.enforce_limits(now);
        if let Err(ArchiveError::Full { .. }) = removed {
            // Not even the index can be written.
            self.set_full(true);
        }
        removed
    }

    fn enforce_limits(&self, now: SystemTime) -> Result<Vec<Item>, ArchiveError> {
        let limits = self.limits();
        let mut removed = Vec::new();
        if let Some(age) = limits.max_age
            && let Some(limit) = now.checked_sub(age)
        {
            let old = self.removable("to_us < ?", &[micros(limit).into()], "to_us, id")?;
            self.remove_all(old, RemovalReason::Age, now, u64::MAX, &mut removed)?;
            self.forget_objects(limit)?;
        }
        if let Some(max) = limits.max_bytes_per_source {
            for (source, bytes) in self.with_index(Index::bytes_by_source)? {
                if bytes > max {
                    let files = self.removable("source = ?", &[source.into()], ORDER)?;
                    let excess = bytes - max;
                    let reason = RemovalReason::SourceBytes;
                    self.remove_all(files, reason, now, excess, &mut removed)?;
                }
            }
        }
        let space = self.space()?;
        let min_free = limits.min_free(space);
        let mut lacking = min_free.saturating_sub(space.free);
        let mut is_exhausted = false;
        // What was just deleted is free only at the next call.
        if lacking > 0 && removed.is_empty() {
            let files = self.removable("1", &[], ORDER)?;
            is_exhausted = files.len() < MAX_REMOVALS;
            let reason = RemovalReason::FreeSpace;
            lacking = self.remove_all(files, reason, now, lacking, &mut removed)?;
        }
        // With nothing left to delete, recording would fill the device to its end.
        self.set_full(lacking > 0 && is_exhausted);
        let limit = now.checked_sub(REMOVED_ROWS_AGE).map_or(0, micros);
        self.with_index(|index| index.execute(FORGET, [limit]))?;
        let part = rate_begin(now) / PART_US;
        self.with_index(|index| index.execute(FORGET_WRITTEN, [part]))?;
        self.write_noted()?;
        Ok(removed)
    }

    /// Files that may be deleted, the first that are.
    fn removable(
        &self,
        condition: &str,
        values: &[Value],
        order: &str,
    ) -> Result<Vec<Item>, ArchiveError> {
        let condition = removable(condition);
        self.with_index(|index| index.select(&condition, values, order, MAX_REMOVALS))
    }

    /// Deletes of `files` as many as give `bytes`; returns what is lacking still.
    fn remove_all(
        &self,
        files: Vec<Item>,
        reason: RemovalReason,
        now: SystemTime,
        bytes: u64,
        removed: &mut Vec<Item>,
    ) -> Result<u64, ArchiveError> {
        let mut lacking = bytes;
        for item in files {
            if lacking == 0 || removed.len() >= MAX_REMOVALS {
                break;
            }
            if let Some(item) = self.remove_file(item, reason, now)? {
                lacking = lacking.saturating_sub(item.bytes.max(1));
                removed.push(item);
            }
        }
        Ok(lacking)
    }

    /// What is kept, and how long it can go on.
    ///
    /// # Errors
    /// The index or the device cannot be read.
    pub fn usage(&self, now: SystemTime) -> Result<Usage, ArchiveError> {
        let space = self.space()?;
        let mut usage = self.read(|index| index.usage(now))?;
        usage.space = space;
        let room = space.free.saturating_sub(self.limits().min_free(space));
        usage.days_left = usage.bytes_per_day.map(|rate| room as f64 / rate);
        usage.is_full = self.is_full();
        Ok(usage)
    }
}

/// The condition of files that may be deleted and meet `condition`.
fn removable(condition: &str) -> String {
    format!("state = 'ready' AND pinned = 0 AND {condition}")
}

impl Index {
    /// Makes the sums and indexes of retention where they are missing.
    pub(super) fn add_totals(&self) -> Result<(), ArchiveError> {
        self.add("totals", &TOTALS.replace("{ORDER}", ORDER))?;
        self.add("written", &with_parts(WRITTEN_TABLE))
    }

    fn bytes_by_source(&self) -> Result<Vec<(String, u64)>, ArchiveError> {
        let run = || -> rusqlite::Result<Vec<(String, u64)>> {
            let sql = "SELECT source, sum(bytes) FROM totals GROUP BY source";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, count(row.get(1)?))))?;
            rows.collect()
        };
        run().map_err(|source| self.error(source))
    }

    fn usage(&self, now: SystemTime) -> Result<Usage, ArchiveError> {
        let run = || -> rusqlite::Result<Usage> {
            let mut usage = Usage::default();
            let mut statement = self.connection.prepare(KEPT)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let Some(kind) = MediaKind::from_word(&row.get::<_, String>(1)?) else {
                    continue;
                };
                let source: String = row.get(0)?;
                let oldest = super::index::from_micros(row.get(5)?);
                if usage
                    .sources
                    .last()
                    .is_none_or(|last| last.source != source)
                {
                    usage.sources.push(SourceUsage {
                        source,
                        kinds: Vec::new(),
                        oldest: None,
                    });
                }
                let last = usage.sources.last_mut().expect("it was pushed");
                last.oldest = Some(last.oldest.map_or(oldest, |known| known.min(oldest)));
                last.kinds.push(KindUsage {
                    kind,
                    files: count(row.get(2)?),
                    bytes: count(row.get(3)?),
                });
                usage.pinned_bytes += count(row.get(4)?);
            }
            let parts = [rate_begin(now) / PART_US, micros(now) / PART_US];
            let mut statement = self.connection.prepare(&with_parts(WRITTEN))?;
            let (bytes, first): (i64, Option<i64>) =
                statement.query_row(parts, |row| Ok((row.get(0)?, row.get(1)?)))?;
            if let Some(first) = first.filter(|_| bytes > 0) {
                let span = (micros(now) - first) as f64 / 1e6;
                let span = span.max(MIN_RATE_SPAN.as_secs_f64());
                usage.bytes_per_day = Some(bytes as f64 * RATE_SPAN.as_secs_f64() / span);
            }
            Ok(usage)
        };
        run().map_err(|source| self.error(source))
    }
}

/// Begin of the time over which the rate of writing is measured.
fn rate_begin(now: SystemTime) -> i64 {
    now.checked_sub(RATE_SPAN).map_or(0, micros)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each call takes as long with a million files as with a hundred.
    #[test]
    fn no_statement_reads_or_sorts_all_files() {
        let index = Index::in_memory().expect("an index");
        let first = |condition: &str, order: &str| {
            let condition = removable(condition);
            format!("SELECT path FROM items WHERE {condition} ORDER BY {order} LIMIT 100")
        };
        let statements = [
            first("to_us < ?", "to_us, id"),
            first("source = ?", ORDER),
            first("1", ORDER),
            FORGET.to_owned(),
            KEPT.to_owned(),
            with_parts(WRITTEN),
            FORGET_WRITTEN.to_owned(),
        ];
        for sql in statements {
            let steps = index.plan(&sql);
            assert!(!steps.contains("TEMP B-TREE"), "{sql}: {steps}");
            let indexes = [
                "INDEX by_",
                "INDEX removed",
                "SEARCH written USING INTEGER PRIMARY KEY",
            ];
            assert!(
                indexes.iter().any(|index| steps.contains(index)),
                "{sql}: {steps}"
            );
        }
    }
}
