// SPDX-License-Identifier: Apache-2.0
//! Objects that were seen: one row for each track, with the files that show it. Rows come from the pipeline at the end of a track,
//! and from the files of tracks that it did not note. They outlive the files, up to a number.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::SystemTime;

use rusqlite::types::Value;
use rusqlite::{Row, params};

use super::archive::Archive;
use super::error::ArchiveError;
use super::index::{COLUMNS, Index, PART_US, from_micros, item, json, micros, with_parts};
use super::item::Item;
use super::query::{HAS_ZONE, MAY_HAVE_ZONE};

/// Most rows on a device, some 1 kB each, and in memory; the oldest leave.
pub(super) const MAX_OBJECTS: usize = 200_000;
pub(super) const MAX_IN_MEMORY: usize = 2000;

/// Most objects that wait to be written; the oldest leave.
const MAX_PENDING: usize = 2000;

/// Most objects of one answer.
const MAX_LISTED: usize = 1000;

/// Longest piece of continuous recording, and longest clip: what begins earlier does not reach into a span.
pub(super) const LONGEST_FILE_US: i64 = 6 * 3_600_000_000;

/// Pieces of video of one source that are this near are one span.
const NEAR_US: i64 = 2_000_000;

/// Tables beside that of the files. Triggers keep them in step with it, whoever writes: a file of a track has an object, and one that is
/// about no track that is known is an object of its own. `details` is apart so that the table that is searched is small.
pub(super) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS objects (
        id TEXT PRIMARY KEY, source TEXT NOT NULL, label TEXT, from_us INTEGER NOT NULL, to_us INTEGER,
        score REAL, zones TEXT NOT NULL, noted INTEGER NOT NULL, reviewed INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS object_details (id TEXT PRIMARY KEY, details TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS object_files (track TEXT NOT NULL, item TEXT NOT NULL, PRIMARY KEY (track, item)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS video_by_time ON items (from_us, source, to_us, state) WHERE kind <> 'snapshot';
    CREATE TRIGGER IF NOT EXISTS file_added AFTER INSERT ON items WHEN NEW.kind <> 'continuous' BEGIN
        INSERT OR IGNORE INTO object_files SELECT value, NEW.id FROM json_each(NEW.tracks);
        INSERT INTO objects SELECT value, NEW.source, NEW.label, NEW.from_us, NULL, NULL, NEW.zones, 0, 0
            FROM json_each(NEW.tracks) WHERE true
            ON CONFLICT (id) DO UPDATE SET label = excluded.label WHERE noted = 0 AND NEW.kind = 'snapshot';
    END;
    CREATE TRIGGER IF NOT EXISTS file_found AFTER INSERT ON items
        WHEN NEW.kind <> 'continuous' AND NEW.state = 'ready' AND NEW.tracks = '[]' BEGIN
        INSERT OR IGNORE INTO object_files VALUES (NEW.id, NEW.id);
        INSERT OR IGNORE INTO objects VALUES (NEW.id, NEW.source, NEW.label, NEW.from_us, NEW.to_us, NULL, NEW.zones, 0, 0);
    END;
    CREATE TRIGGER IF NOT EXISTS file_changed AFTER UPDATE OF tracks ON items WHEN NEW.kind <> 'continuous' BEGIN
        INSERT OR IGNORE INTO object_files SELECT value, NEW.id FROM json_each(NEW.tracks);
        INSERT OR IGNORE INTO objects SELECT value, NEW.source, NULL, NEW.from_us, NULL, NULL, NEW.zones, 0, 0
            FROM json_each(NEW.tracks);
    END;
    CREATE TRIGGER IF NOT EXISTS file_forgotten AFTER DELETE ON items BEGIN
        DELETE FROM object_files WHERE item = OLD.id AND track IN (SELECT value FROM json_each(OLD.tracks) UNION SELECT OLD.id);
        DELETE FROM objects WHERE noted = 0 AND id IN (SELECT value FROM json_each(OLD.tracks) UNION SELECT OLD.id)
            AND NOT EXISTS (SELECT 1 FROM object_files WHERE track = objects.id);
    END;
    CREATE TRIGGER IF NOT EXISTS object_forgotten AFTER DELETE ON objects BEGIN
        DELETE FROM object_details WHERE id = OLD.id;
    END;
";

/// Indexes of the lists, with all that a list may be narrowed down by, in place of those of an earlier version. The rows of files and
/// objects are long, and a list that finds little would read them all.
const LISTS: &str = "
    DROP INDEX IF EXISTS by_time;
    DROP INDEX IF EXISTS objects_by_time;
    DROP INDEX IF EXISTS objects_by_source;
    DROP INDEX IF EXISTS objects_by_label;
    CREATE INDEX files_listed ON items (from_us, id, bytes, source, kind, label, state, to_us, zones);
    CREATE INDEX objects_listed ON objects (from_us, id, source, label, reviewed, zones);
    CREATE INDEX objects_listed_by_source ON objects (source, from_us, id, label, reviewed, zones);
    CREATE INDEX objects_listed_by_label ON objects (label, from_us, id, source, reviewed, zones);
";

/// Objects that began in each part of some minutes, which triggers keep in step: a day has many, and is shown again and again.
const COUNTS: &str = "
    CREATE TABLE object_counts (part INTEGER NOT NULL, source TEXT NOT NULL, objects INTEGER NOT NULL, PRIMARY KEY (part, source)) WITHOUT ROWID;
    INSERT INTO object_counts SELECT from_us / {PART_US}, source, count(*) FROM objects GROUP BY 1, 2;
    CREATE TRIGGER object_counted AFTER INSERT ON objects BEGIN
        INSERT INTO object_counts VALUES (NEW.from_us / {PART_US}, NEW.source, 1) ON CONFLICT DO UPDATE SET objects = objects + 1;
    END;
    CREATE TRIGGER object_moved AFTER UPDATE OF from_us ON objects WHEN NEW.from_us / {PART_US} <> OLD.from_us / {PART_US} BEGIN
        UPDATE object_counts SET objects = objects - 1 WHERE part = OLD.from_us / {PART_US} AND source = OLD.source;
        INSERT INTO object_counts VALUES (NEW.from_us / {PART_US}, NEW.source, 1) ON CONFLICT DO UPDATE SET objects = objects + 1;
    END;
    CREATE TRIGGER object_uncounted AFTER DELETE ON objects BEGIN
        UPDATE object_counts SET objects = objects - 1 WHERE part = OLD.from_us / {PART_US} AND source = OLD.source;
        DELETE FROM object_counts WHERE part = OLD.from_us / {PART_US} AND source = OLD.source AND objects <= 0;
    END;
";

/// Objects by source and part of a span, from the counts and one by one.
const COUNTED: &str = "SELECT source, (part * {PART_US} - ?1) / ?3, objects FROM object_counts \
     WHERE part >= ?1 / {PART_US} AND part < ?2 / {PART_US} AND objects > 0 ORDER BY part";
const UNCOUNTED: &str = "SELECT source, (from_us - ?1) / ?3, 1 FROM objects WHERE from_us >= ?1 AND from_us < ?2 ORDER BY from_us";

/// Fills the tables from the files of an index that an earlier version made.
const FILL: &str = "
    INSERT OR IGNORE INTO object_files
        SELECT track.value, items.id FROM items, json_each(items.tracks) AS track
            WHERE kind <> 'continuous' AND state <> 'removed'
        UNION ALL SELECT id, id FROM items WHERE tracks = '[]' AND kind <> 'continuous' AND state = 'ready';
    INSERT OR IGNORE INTO objects
        SELECT object_files.track, source, max(label), min(from_us), NULL, NULL, max(zones), 0, 0
            FROM object_files JOIN items ON items.id = object_files.item GROUP BY object_files.track;
";

/// An object that was seen: a track, or a file of which no track is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Identity of its track, as in `id` of its events; that of the file, where no track is known.
    pub id: String,
    /// Name of the source.
    pub source: String,
    /// Its label, where it is known.
    pub label: Option<String>,
    /// Capture time of the first frame that shows it, or of the first file.
    pub from: SystemTime,
    /// Capture time of the last frame that shows it; `None`: not known.
    pub to: Option<SystemTime>,
    /// Highest score, 0 to 1, where it is known.
    pub score: Option<f32>,
    /// Zones and lines that it passed, in their order.
    pub zones: Vec<String>,
    /// A person has marked it as seen.
    pub is_reviewed: bool,
    /// What else is known of it, as JSON that only its writer reads; empty: nothing.
    pub details: String,
}

/// Objects to be listed, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectQuery {
    /// The one of this identity only.
    pub id: Option<String>,
    /// Of this source only.
    pub source: Option<String>,
    /// Of this label only.
    pub label: Option<String>,
    /// That passed this zone or line only.
    pub zone: Option<String>,
    /// Begun at this time or later.
    pub from: Option<SystemTime>,
    /// Begun before this time.
    pub to: Option<SystemTime>,
    /// Only those that nobody has marked as seen.
    pub is_new: bool,
    /// Those after this one in the list: the next page.
    pub before: Option<String>,
    /// As many at most, and never more than 1000.
    pub limit: usize,
}

/// What there is to choose from in a list of objects, each in alphabetical order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facets {
    /// Names of sources.
    pub sources: Vec<String>,
    /// Labels.
    pub labels: Vec<String>,
    /// Names of zones and lines.
    pub zones: Vec<String>,
}

/// What a source has in a span of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// Objects that began in each part of the span: number of the part from 0, and how many. Parts without any are missing.
    pub objects: Vec<(u32, u32)>,
    /// Spans with video, in their order; they do not overlap.
    pub video: Vec<(SystemTime, SystemTime)>,
}

impl Archive {
    /// An index of objects without a folder, in memory: no file can be made, and all ends with the process.
    ///
    /// # Errors
    /// There is no memory.
    pub fn in_memory() -> Result<Self, ArchiveError> {
        Ok(Self::with_memory(Index::in_memory()?))
    }

    /// Notes an object whose track has ended, to be written with the next ones. Does not touch the device.
    pub fn note(&self, object: Object) {
        let mut pending = self.pending().lock();
        if pending.len() >= MAX_PENDING {
            pending.pop_front();
        }
        pending.push_back(object);
    }

    /// Writes the objects that were noted.
    ///
    /// # Errors
    /// The index cannot be written: they wait for the next time.
    pub(crate) fn write_noted(&self) -> Result<(), ArchiveError> {
        self.with_index(|index| {
            // Only for this moment: who notes does not wait for the device.
            let mut objects = std::mem::take(&mut *self.pending().lock());
            let written = index.write_objects(&objects);
            if written.is_err() {
                let mut pending = self.pending().lock();
                objects.append(&mut pending);
                let excess = objects.len().saturating_sub(MAX_PENDING);
                objects.drain(..excess);
                *pending = objects;
            }
            written
        })
    }

    /// The objects that `query` asks for, newest first, each with its complete files.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn objects(&self, query: &ObjectQuery) -> Result<Vec<(Object, Vec<Item>)>, ArchiveError> {
        self.write_noted()?;
        self.read(|index| {
            let objects = index.objects(query)?;
            let ids: Vec<&str> = objects.iter().map(|object| object.id.as_str()).collect();
            let mut files = index.files_of(&ids)?;
            let with_files = |object: Object| {
                let files = files.remove(&object.id).unwrap_or_default();
                (object, files)
            };
            Ok(objects.into_iter().map(with_files).collect())
        })
    }

    /// What objects differ by.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn facets(&self) -> Result<Facets, ArchiveError> {
        self.write_noted()?;
        self.read(|index| {
            Ok(Facets {
                sources: index.values_of("source")?,
                labels: index.values_of("label")?,
                // Few lists of zones differ.
                zones: index.texts(
                    "SELECT DISTINCT value FROM (SELECT DISTINCT zones FROM objects), json_each(zones) ORDER BY 1",
                )?,
            })
        })
    }

    /// What each source has from `from` to before `to`, in `parts` parts of the span.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn activity(
        &self,
        from: SystemTime,
        to: SystemTime,
        parts: u32,
    ) -> Result<BTreeMap<String, Activity>, ArchiveError> {
        self.write_noted()?;
        self.read(|index| index.activity(micros(from), micros(to), parts.max(1)))
    }

    /// Marks objects as seen by a person, or ends that. Returns how many there are of them.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn review(&self, ids: &[String], is_reviewed: bool) -> Result<usize, ArchiveError> {
        self.write_noted()?;
        self.with_index(|index| {
            index.in_one_change(|| {
                let run = || -> rusqlite::Result<usize> {
                    let sql = "UPDATE objects SET reviewed = ?2 WHERE id = ?1";
                    let mut statement = index.connection.prepare(sql)?;
                    let mut changed = 0;
                    for id in ids {
                        changed += statement.execute(params![id, is_reviewed])?;
                    }
                    Ok(changed)
                };
                run().map_err(|source| index.error(source))
            })
        })
    }

    /// Deletes the rows of objects from before `limit` of which no file is left.
    pub(super) fn forget_objects(&self, limit: SystemTime) -> Result<(), ArchiveError> {
        self.with_index(|index| {
            let sql = "DELETE FROM objects WHERE from_us < ?1 AND NOT EXISTS (SELECT 1 FROM object_files \
                       JOIN items ON items.id = item WHERE track = objects.id AND state <> 'removed')";
            index.execute(sql, [micros(limit)]).map(|_| ())
        })
    }
}

impl Index {
    /// Makes the tables of the objects where they are missing.
    pub(super) fn add_objects(&self) -> Result<(), ArchiveError> {
        self.add("objects", &format!("{TABLES} {FILL}"))?;
        self.add("files_listed", LISTS)?;
        self.add("object_counts", &with_parts(COUNTS))
    }

    /// Does `work` in one change of the index, all or nothing.
    fn in_one_change<T>(
        &self,
        work: impl FnOnce() -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        self.execute("BEGIN IMMEDIATE", [])?;
        let done = work();
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.execute(end, []);
        let done = done?;
        ended.map(|_| done)
    }

    /// Writes objects, if there are any.
    pub(super) fn write_objects(&self, objects: &VecDeque<Object>) -> Result<(), ArchiveError> {
        match objects.is_empty() {
            true => Ok(()),
            false => self.in_one_change(|| self.put_objects(objects)),
        }
    }

    fn put_objects(&self, objects: &VecDeque<Object>) -> Result<(), ArchiveError> {
        let run = || -> rusqlite::Result<()> {
            let mut rows = self.connection.prepare(
                "INSERT INTO objects VALUES (?,?,?,?,?,?,?,1,?) ON CONFLICT (id) DO UPDATE SET label = excluded.label, \
                 from_us = excluded.from_us, to_us = excluded.to_us, score = excluded.score, zones = excluded.zones, noted = 1",
            )?;
            let mut details = self
                .connection
                .prepare("INSERT OR REPLACE INTO object_details VALUES (?,?)")?;
            for object in objects {
                rows.execute(params![
                    object.id,
                    object.source,
                    object.label,
                    micros(object.from),
                    object.to.map(micros),
                    object.score.map(f64::from),
                    json(&object.zones),
                    object.is_reviewed,
                ])?;
                if !object.details.is_empty() {
                    details.execute(params![object.id, object.details])?;
                }
            }
            let sql = "SELECT coalesce(sum(objects), 0) FROM object_counts";
            let count: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
            let excess = count - i64::try_from(self.max_objects).unwrap_or(i64::MAX);
            if excess > 0 {
                let sql = "DELETE FROM objects WHERE id IN (SELECT id FROM objects ORDER BY from_us, id LIMIT ?)";
                self.connection.execute(sql, [excess])?;
            }
            Ok(())
        };
        run().map_err(|source| self.error(source))
    }

    fn objects(&self, query: &ObjectQuery) -> Result<Vec<Object>, ArchiveError> {
        let (ids, values) = query.ids();
        let sql = format!(
            "SELECT objects.id, source, label, from_us, to_us, score, zones, reviewed, coalesce(details, '') \
             FROM objects LEFT JOIN object_details ON object_details.id = objects.id \
             WHERE objects.id IN ({ids}) ORDER BY from_us DESC, objects.id DESC"
        );
        let run = || -> rusqlite::Result<Vec<Object>> {
            let mut statement = self.connection.prepare(&sql)?;
            let rows = statement.query_map(rusqlite::params_from_iter(values), object)?;
            rows.collect()
        };
        run().map_err(|source| self.error(source))
    }

    /// The complete files of each of these objects.
    fn files_of(&self, ids: &[&str]) -> Result<HashMap<String, Vec<Item>>, ArchiveError> {
        let columns: Vec<String> = COLUMNS
            .split(',')
            .map(|column| format!("items.{}", column.trim()))
            .collect();
        let sql = format!(
            "SELECT {}, track FROM object_files JOIN items ON items.id = item \
             WHERE track = ? AND state = 'ready' ORDER BY from_us",
            columns.join(", ")
        );
        let run = || -> rusqlite::Result<HashMap<String, Vec<Item>>> {
            let mut files: HashMap<String, Vec<Item>> = HashMap::new();
            let mut statement = self.connection.prepare(&sql)?;
            for id in ids {
                for found in statement.query_map([id], item)? {
                    if let Some(found) = found? {
                        files.entry((*id).to_owned()).or_default().push(found);
                    }
                }
            }
            Ok(files)
        };
        run().map_err(|source| self.error(source))
    }

    fn texts(&self, sql: &str) -> Result<Vec<String>, ArchiveError> {
        let run = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map([], |row| row.get(0))?.collect()
        };
        run().map_err(|source| self.error(source))
    }

    /// The values of a column that an index begins with: one step in the index for each, where DISTINCT reads all of it.
    fn values_of(&self, column: &str) -> Result<Vec<String>, ArchiveError> {
        self.texts(&format!(
            "WITH RECURSIVE known (value) AS (SELECT min({column}) FROM objects UNION ALL \
             SELECT (SELECT min({column}) FROM objects WHERE {column} > value) FROM known WHERE value IS NOT NULL) \
             SELECT value FROM known WHERE value IS NOT NULL"
        ))
    }

    fn activity(
        &self,
        from: i64,
        to: i64,
        parts: u32,
    ) -> Result<BTreeMap<String, Activity>, ArchiveError> {
        let part = ((to - from) / i64::from(parts)).max(1);
        let run = || -> rusqlite::Result<BTreeMap<String, Activity>> {
            let mut found: BTreeMap<String, Activity> = BTreeMap::new();
            let are_whole = [from, to, part].iter().all(|time| time % PART_US == 0);
            // Added up here, in the order of the index: SQLite would sort all of them.
            let sql = if are_whole { COUNTED } else { UNCOUNTED };
            let mut statement = self.connection.prepare(&with_parts(sql))?;
            let mut rows = statement.query([from, to, part])?;
            while let Some(row) = rows.next()? {
                let (source, part) = (row.get_ref(0)?.as_str()?, row.get(1)?);
                let count: u32 = row.get(2)?;
                if !found.contains_key(source) {
                    found.insert(source.to_owned(), Activity::default());
                }
                let objects = found.get_mut(source).map(|activity| &mut activity.objects);
                let objects = objects.expect("it was inserted");
                match objects.last_mut() {
                    Some((last, sum)) if *last == part => *sum += count,
                    _ => objects.push((part, count)),
                }
            }
            // The kind as in the condition of `video_by_time`, whose rows are few beside those of pictures.
            let sql = "SELECT source, from_us, to_us FROM items WHERE kind <> 'snapshot' AND from_us >= ?1 \
                       AND from_us < ?2 AND to_us > ?3 AND state = 'ready' ORDER BY from_us";
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([from.saturating_sub(LONGEST_FILE_US), to, from])?;
            let mut spans: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let (begin, end): (i64, i64) = (row.get(1)?, row.get(2)?);
                let spans = spans.entry(row.get(0)?).or_default();
                match spans.last_mut() {
                    Some((_, last)) if begin <= *last + NEAR_US => *last = end.max(*last),
                    _ => spans.push((begin, end)),
                }
            }
            for (source, spans) in spans {
                let times = |(begin, end): (i64, i64)| (from_micros(begin), from_micros(end));
                found.entry(source).or_default().video = spans.into_iter().map(times).collect();
            }
            Ok(found)
        };
        run().map_err(|source| self.error(source))
    }
}

impl ObjectQuery {
    /// The statement that finds the ids, and its values. Its indexes have all that it asks for: the rows that are left out are not read.
    pub(super) fn ids(&self) -> (String, Vec<Value>) {
        let mut terms = vec!["1"];
        let mut values: Vec<Value> = Vec::new();
        let mut add = |term, value: Value| {
            terms.push(term);
            values.push(value);
        };
        if let Some(id) = &self.id {
            add("id = ?", id.clone().into());
        }
        if let Some(source) = &self.source {
            add("source = ?", source.clone().into());
        }
        if let Some(label) = &self.label {
            add("label = ?", label.clone().into());
        }
        if let Some(zone) = &self.zone {
            add(MAY_HAVE_ZONE, json(zone).into());
            add(HAS_ZONE, zone.clone().into());
        }
        if let Some(from) = self.from {
            add("from_us >= ?", micros(from).into());
        }
        if let Some(to) = self.to {
            add("from_us < ?", micros(to).into());
        }
        if let Some(before) = &self.before {
            let term = "(from_us, id) < (SELECT from_us, id FROM objects WHERE id = ?)";
            add(term, before.clone().into());
        }
        if self.is_new {
            terms.push("reviewed = 0");
        }
        let ids = format!(
            "SELECT id FROM objects WHERE {} ORDER BY from_us DESC, id DESC LIMIT {}",
            terms.join(" AND "),
            self.limit.min(MAX_LISTED)
        );
        (ids, values)
    }
}

fn object(row: &Row<'_>) -> rusqlite::Result<Object> {
    let zones: String = row.get(6)?;
    Ok(Object {
        id: row.get(0)?,
        source: row.get(1)?,
        label: row.get(2)?,
        from: from_micros(row.get(3)?),
        to: row.get::<_, Option<i64>>(4)?.map(from_micros),
        score: row.get::<_, Option<f64>>(5)?.map(|score| score as f32),
        zones: serde_json::from_str(&zones).unwrap_or_default(),
        is_reviewed: row.get(7)?,
        details: row.get(8)?,
    })
}
