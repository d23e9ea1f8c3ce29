// SPDX-License-Identifier: Apache-2.0
//! Which files are listed.

use std::time::SystemTime;

use rusqlite::types::Value;

use super::index::{json, micros};
use super::item::{MediaId, MediaKind};
use super::objects::LONGEST_FILE_US;

/// Most files of one answer.
pub(crate) const MAX_LIMIT: usize = 1000;

/// Whether a zone, as JSON, may be in the column: much quicker than [`HAS_ZONE`].
pub(super) const MAY_HAVE_ZONE: &str = "instr(zones, ?)";

/// Whether a zone is in the column.
pub(super) const HAS_ZONE: &str = "EXISTS (SELECT 1 FROM json_each(zones) WHERE value = ?)";

/// Files to be listed, newest first. The default has all files that there are, at most 100.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Of this source only.
    pub source: Option<String>,
    /// About objects of this label only.
    pub label: Option<String>,
    /// About this zone only.
    pub zone: Option<String>,
    /// About the track of this identity only.
    pub track: Option<String>,
    /// Of this kind only.
    pub kind: Option<MediaKind>,
    /// Not before this time.
    pub from: Option<SystemTime>,
    /// Not after this time.
    pub to: Option<SystemTime>,
    /// As many at most; 0: 100, and never more than 1000.
    pub limit: usize,
    /// Those after this one in the list: the next page.
    pub before: Option<MediaId>,
    /// Also those that were deleted.
    pub with_removed: bool,
}

impl Query {
    /// The number of files of an answer.
    pub(crate) fn effective_limit(&self) -> usize {
        match self.limit {
            0 => 100,
            limit => limit.min(MAX_LIMIT),
        }
    }

    /// The statement that finds the ids, and its values. One index has all that it asks for: the rows that are left out are not read.
    pub(crate) fn ids(&self) -> (String, Vec<Value>) {
        let mut terms = vec!["1"];
        let mut values = Vec::new();
        let mut add = |term, value: Value| {
            terms.push(term);
            values.push(value);
        };
        if let Some(source) = &self.source {
            // `by_source` is in the order of the list for one kind only, and has nothing else.
            let is_ordered = self.kind.is_some() && self.label.is_none() && self.zone.is_none();
            let term = if is_ordered {
                "source = ?"
            } else {
                "+source = ?"
            };
            add(term, source.clone().into());
        }
        if let Some(label) = &self.label {
            add("label = ?", label.clone().into());
        }
        if let Some(zone) = &self.zone {
            add(MAY_HAVE_ZONE, json(zone).into());
            add(HAS_ZONE, zone.clone().into());
        }
        if let Some(track) = &self.track {
            let term = "id IN (SELECT item FROM object_files WHERE track = ?)";
            add(term, track.clone().into());
        }
        if let Some(kind) = self.kind {
            add("kind = ?", kind.word().to_owned().into());
        }
        if let Some(from) = self.from {
            add("coalesce(to_us, from_us) >= ?", micros(from).into());
            let earliest = micros(from).saturating_sub(LONGEST_FILE_US);
            add("from_us >= ?", earliest.into());
        }
        if let Some(to) = self.to {
            add("from_us <= ?", micros(to).into());
        }
        if let Some(before) = &self.before {
            let term = "(from_us, id) < (SELECT from_us, id FROM items WHERE id = ?)";
            add(term, before.as_str().to_owned().into());
        }
        if !self.with_removed {
            terms.push("state <> 'removed'");
        }
        let ids = format!(
            "SELECT id FROM items WHERE {} ORDER BY from_us DESC, id DESC LIMIT {}",
            terms.join(" AND "),
            self.effective_limit()
        );
        (ids, values)
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::index::Index;
    use super::super::objects::ObjectQuery;
    use super::*;

    /// However a list is narrowed down, rows that it does not have are not read, and those of an index are not sorted.
    #[test]
    fn lists_are_found_in_an_index_alone() {
        let index = Index::in_memory().expect("an index");
        let text = || Some("a".to_owned());
        let time = Some(UNIX_EPOCH);
        let mut found: Vec<String> = Vec::new();
        for narrowed in 0..64_u32 {
            let has = |bit: u32| narrowed & (1 << bit) != 0;
            found.push(
                ObjectQuery {
                    source: text().filter(|_| has(0)),
                    label: text().filter(|_| has(1)),
                    zone: text().filter(|_| has(2)),
                    is_new: has(3),
                    from: time.filter(|_| has(4)),
                    before: text().filter(|_| has(5)),
                    limit: 50,
                    ..ObjectQuery::default()
                }
                .ids()
                .0,
            );
            found.push(
                Query {
                    source: text().filter(|_| has(0)),
                    label: text().filter(|_| has(1)),
                    zone: text().filter(|_| has(2)),
                    kind: Some(MediaKind::Clip).filter(|_| has(3)),
                    to: time.filter(|_| has(4)),
                    with_removed: has(5),
                    ..Query::default()
                }
                .ids()
                .0,
            );
        }
        for sql in found {
            let steps = index.plan(&sql);
            let is_in_index = [
                "COVERING INDEX objects_listed",
                "COVERING INDEX files_listed",
                "INDEX by_source (source=? AND kind=?",
            ];
            assert!(
                is_in_index.iter().any(|part| steps.contains(part))
                    && !steps.contains("TEMP B-TREE"),
                "{sql}: {steps}"
            );
        }
        let of_track = Query {
            track: text(),
            ..Query::default()
        }
        .ids()
        .0;
        let steps = index.plan(&of_track);
        assert!(
            steps.contains("SEARCH object_files USING PRIMARY KEY (track=?)"),
            "{steps}"
        );
    }
}
