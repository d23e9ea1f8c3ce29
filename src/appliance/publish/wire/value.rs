// SPDX-License-Identifier: Apache-2.0
//! Values as messages write them: names, times, identities and rounded numbers.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::fmt::StdFmtWrite;
use jiff::fmt::temporal::DateTimePrinter;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::Timestamp;
use jetwatch_types::{Classes, FrameMeta, TrackId};

/// A time of day as RFC 3339 in UTC with milliseconds, `2026-01-31T12:00:00.250Z`.
#[derive(Debug, Clone, Copy)]
pub struct Utc(pub SystemTime);

impl Default for Utc {
    fn default() -> Self {
        Self(UNIX_EPOCH)
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
        // Years beyond 9999 have no RFC 3339 form; only a broken clock can ask for one.
        let time = jiff::Timestamp::try_from(self.0).unwrap_or(jiff::Timestamp::MAX);
        PRINTER
            .print_timestamp(&time, StdFmtWrite(f))
            .map_err(|_| fmt::Error)
    }
}

impl JsonSchema for Utc {
    fn schema_name() -> Cow<'static, str> {
        "time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "RFC 3339, UTC, milliseconds.",
            "type": "string",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        })
    }
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Identity of a track that no restart repeats: `<start in seconds>.<microseconds>-<source>-<track>`, after Frigate's form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventId<'a> {
    pub started_at: SystemTime,
    pub source: &'a str,
    pub track: TrackId,
}

impl fmt::Display for EventId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self
            .started_at
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        write!(
            f,
            "{}.{:06}-{}-{}",
            since.as_secs(),
            since.subsec_micros(),
            self.source,
            self.track
        )
    }
}

impl Serialize for EventId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for EventId<'_> {
    fn schema_name() -> Cow<'static, str> {
        "event_id".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Identity of the track, unique over restarts: capture time of its first frame in seconds since 1970 \
                (UTC), source, and number.",
            "type": "string",
            "pattern": r"^[0-9]+\.[0-9]{6}-.+-[0-9]+$",
        })
    }
}

/// Name of the device, `device` in its configuration.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "device")]
pub(crate) struct Device<'a>(pub &'a str);

/// Identity of a numbering of messages: 16 hexadecimal digits. A new one begins with a new spool, and where the numbers of an earlier process are not all known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpoolId(pub u64);

impl fmt::Display for SpoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for SpoolId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for SpoolId {
    fn schema_name() -> Cow<'static, str> {
        "spool_id".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Identity of the numbering. A new one begins with a new spool, or where earlier numbers are not all \
                known.",
            "type": "string",
            "pattern": r"^[0-9a-f]{16}$",
        })
    }
}

/// Name of the source.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "source")]
pub struct SourceName<'a>(pub &'a str);

/// Name of the class, as the model has it.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "label")]
pub struct Label<'a>(pub &'a str);

/// Name of a group in `detector.groups`.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "group")]
pub struct Group<'a>(pub &'a str);

/// Names of classes and their groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a>(pub &'a Classes);

impl<'a> Names<'a> {
    /// The label of a class. A class beyond the labels cannot come from a checked model; it is shown as such, since a
    /// message that names no class would hide the mistake.
    pub(super) fn label(self, class: u16) -> Label<'a> {
        Label(self.0.label(class).unwrap_or("(class without label)"))
    }

    /// The group of a class.
    pub(super) fn group(self, class: u16) -> Option<Group<'a>> {
        self.0.group(class).map(Group)
    }
}

/// Number of the track in its source since the start.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "track_id")]
pub(super) struct TrackNumber(#[schemars(range(min = 1))] pub u64);

/// From the arrival of the frame to the encoding of this message.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "latency_ms")]
pub(super) struct Latency(#[schemars(range(min = 0))] pub f64);

impl Latency {
    pub(super) fn new(frame: &FrameMeta, now: Timestamp) -> Self {
        let time = now.monotonic.saturating_duration_since(frame.received_at);
        Self(milliseconds(time))
    }
}

/// `value` with as many decimals as `steps` has zeros. NaN and infinities become 0: JSON cannot represent them.
pub(crate) fn rounded(value: f32, steps: f32) -> f32 {
    if value.is_finite() {
        (value * steps).round() / steps
    } else {
        0.0
    }
}

/// `value` with three decimals, 0 when it is no number.
pub(super) fn finite(value: f64) -> f64 {
    if value.is_finite() {
        (value * 1e3).round() / 1e3
    } else {
        0.0
    }
}

/// A duration in milliseconds with microseconds behind the point.
pub(super) fn milliseconds(time: Duration) -> f64 {
    finite(time.as_secs_f64() * 1e3)
}

/// A duration in milliseconds.
pub(super) fn whole_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_milliseconds() {
        let at = |ms| Utc(UNIX_EPOCH + Duration::from_millis(ms)).to_string();
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(1_769_860_800_250), "2026-01-31T12:00:00.250Z");
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert!(
            Utc(far).to_string().starts_with("9999-12-30T"),
            "{}",
            Utc(far)
        );
    }

    #[test]
    fn event_ids_differ_by_start_source_and_track() {
        let id = |us, source, track| {
            let started_at = UNIX_EPOCH + Duration::from_micros(us);
            EventId {
                started_at,
                source,
                track: TrackId(track),
            }
            .to_string()
        };
        let found = id(1_700_000_000_000_042, "gate", 7);
        assert_eq!(found, "1700000000.000042-gate-7");
        assert_ne!(id(1, "gate", 7), id(2, "gate", 7));
    }

    #[test]
    fn numbers_are_rounded_and_always_numbers() {
        assert_eq!(rounded(0.873_312_9, 1e4), 0.8733);
        assert_eq!(rounded(f32::NAN, 10.0), 0.0);
        assert_eq!(finite(f64::INFINITY), 0.0);
        assert_eq!(milliseconds(Duration::from_nanos(1_234_567)), 1.235);
    }
}
