// SPDX-License-Identifier: Apache-2.0
//! Which files are listed.

use std::time::SystemTime;

use rusqlite::types::Value;

use super::index::micros;
use super::item::{MediaId, MediaKind};

/// Most files of one answer.
pub(crate) const MAX_LIMIT: usize = 1000;

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

    /// The condition of SQL and its values.
    pub(crate) fn condition(&self) -> (String, Vec<Value>) {
        let mut terms: Vec<&str> = Vec::new();
        let mut values = Vec::new();
        let mut add = |term, value: Value| {
            terms.push(term);
            values.push(value);
        };
        if let Some(source) = &self.source {
            add("source = ?", source.clone().into());
        }
        if let Some(label) = &self.label {
            add("label = ?", label.clone().into());
        }
        if let Some(zone) = &self.zone {
            let term = "EXISTS (SELECT 1 FROM json_each(zones) WHERE value = ?)";
            add(term, zone.clone().into());
        }
        if let Some(track) = &self.track {
            let term = "EXISTS (SELECT 1 FROM json_each(tracks) WHERE value = ?)";
            add(term, track.clone().into());
        }
        if let Some(kind) = self.kind {
            add("kind = ?", kind.word().to_owned().into());
        }
        if let Some(from) = self.from {
            add("coalesce(to_us, from_us) >= ?", micros(from).into());
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
        let condition = match terms.is_empty() {
            true => "1".to_owned(),
            false => terms.join(" AND "),
        };
        (condition, values)
    }
}
