// SPDX-License-Identifier: Apache-2.0
//! The analyzed part of a capture: a time window, or an occurrence of a range.

use super::super::schema::{Export, NVTX};
use super::super::table::listed;
use super::super::{ReportError, Result};

/// A part of a capture, in ns from its start. Events that overlap it count completely, as in nsys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWindow {
    /// The first ns.
    pub from: i64,
    /// The first ns after it.
    pub until: i64,
}

impl Default for TimeWindow {
    fn default() -> Self {
        Self {
            from: i64::MIN,
            until: i64::MAX,
        }
    }
}

impl TimeWindow {
    /// Whether an event overlaps it.
    pub(crate) const fn overlaps(&self, start: i64, end: i64) -> bool {
        (start >= self.from && start < self.until)
            || (end >= self.from && end < self.until)
            || (start < self.from && end >= self.until)
    }

    /// The intersection of both.
    pub(crate) fn intersect(self, other: Self) -> Self {
        Self {
            from: self.from.max(other.from),
            until: self.until.min(other.until),
        }
    }
}

/// Reads a time from the capture's start, such as `1.5s`, `20ms`, `300us` or `17ns`, in ns.
///
/// # Errors
/// The text is not a time, as a sentence for the user.
pub fn parse_time(text: &str) -> Result<i64, String> {
    let wrong = || format!("found {text:?}, expected a time with ns, us, ms or s, such as 1.5s");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let split = split.ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let ns = number.parse::<f64>().map_err(|_| wrong())? * factor;
    // Captures last hours at most; a number that f64 no longer holds exactly is a mistake.
    Some(ns as i64).filter(|_| ns < 9e15).ok_or_else(wrong)
}

/// Maximum number of names in an error.
const MAX_NAMES: usize = 20;

/// The time of one occurrence of a range, in the notation of nsys: `text` or `text@domain`; or as in the tables, `domain:text`.
/// `#3` and, as nsys counts from 0, `/2` behind a name are its third; a range of this whole name comes first.
///
/// # Errors
/// The export has no NVTX ranges or not this one, or cannot be read.
pub(crate) fn find_range(export: &Export, wanted: &str) -> Result<TimeWindow> {
    export.require(&NVTX)?;
    let numbered = |sign, first: i64| {
        let (name, number) = wanted.rsplit_once(sign)?;
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| (name, (number.parse().unwrap_or(i64::MAX) - first).max(0)))
    };
    let meanings = [Some((wanted, 0)), numbered('#', 1), numbered('/', 0)];
    // Columns that not every version has.
    let column = |name: &'static str| match export.has_column(&NVTX, name) {
        true => name,
        false => "NULL",
    };
    let [own, id, number_of_domain] = ["text", "textId", "domainId"].map(column);
    if [own, id] == ["NULL"; 2] {
        return Err(export.no_column(&NVTX, "text"));
    }
    let (text, domain) = ("coalesce(s.value, n.own)", "d.own");
    let ranges = format!(
        "SELECT start, end, eventType, globalTid >> 24 AS process, {own} AS own, {id} AS id, {number_of_domain} AS domain FROM NVTX_EVENTS"
    );
    let from = format!(
        "FROM ({ranges}) AS n LEFT JOIN StringIds AS s ON s.id = n.id \
         LEFT JOIN (SELECT DISTINCT domain, process, own FROM ({ranges}) WHERE eventType = 75) AS d \
         ON d.domain = n.domain AND d.process = n.process WHERE n.eventType IN (59, 60, 70, 71)"
    );
    let query = format!(
        "SELECT n.start, n.end {from} AND ?1 IN ({text}, {text} || '@*', {text} || '@' || {domain}, {domain} || ':' || {text}) \
         ORDER BY n.start LIMIT 1 OFFSET ?2"
    );
    for meaning in meanings.into_iter().flatten() {
        let found = export.select(&query, meaning, |row| {
            let until = row.get::<_, Option<i64>>(1)?.unwrap_or(i64::MAX);
            let from = row.get(0)?;
            Ok(TimeWindow { from, until })
        })?;
        if let Some(found) = found.first() {
            return Ok(*found);
        }
    }
    let name = format!("coalesce({domain} || ':', '') || {text}");
    let query = format!(
        "SELECT {name} || ' (' || count(*) || ')' {from} GROUP BY {name} ORDER BY count(*) DESC LIMIT {MAX_NAMES}"
    );
    let names = export.select(&query, [], |row| row.get::<_, Option<String>>(0))?;
    let names: Vec<String> = names.into_iter().flatten().collect();
    Err(ReportError::NoRange {
        path: export.source.clone(),
        wanted: wanted.to_owned(),
        known: listed(&names),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, ns) in [
            ("1.5s", 1_500_000_000),
            ("20ms", 20_000_000),
            ("3us", 3_000),
            ("17ns", 17),
        ] {
            assert_eq!(parse_time(text), Ok(ns), "{text}");
        }
        for text in ["", "5", "1 s", "s", "1e9s", "-1s", "99999999s"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn event_overlapping_window_counts() {
        let window = TimeWindow {
            from: 10,
            until: 20,
        };
        for (start, end, holds) in [
            (0, 9, false),
            (0, 10, true),
            (0, 30, true),
            (12, 13, true),
            (19, 40, true),
            (20, 40, false),
        ] {
            assert_eq!(window.overlaps(start, end), holds, "{start} to {end}");
        }
        assert!(TimeWindow::default().overlaps(-5, i64::MAX - 1));
    }
}
