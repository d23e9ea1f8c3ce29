// SPDX-License-Identifier: Apache-2.0
//! Records as JSON. Pure: the caller passes the time, and sends or writes the result.
//!
//! All messages have one envelope ([`envelope`]); this file selects and fills the body of a record. MQTT and JSON lines use the same
//! bytes, except for counts and switches, which are bare values on MQTT.

mod analytics;
mod bare;
mod body;
mod control;
mod envelope;
mod machine;
mod media;
mod reload;
mod schema;
mod spool;
mod stats;
mod timestamp;
mod update;
mod value;
mod words;

use std::time::SystemTime;

use self::analytics::{AnalyticsEventBody, LineBody, ZoneBody};
pub(crate) use self::bare::bare_payload;
pub use self::bare::{Count, GroupCount, Motion, ScoreThreshold, Switch};
pub use self::body::SourceStatus;
use self::body::{DetectionsBody, DetectorBody, EventBody};
use self::control::{ActiveBody, ReplyBody};
use self::envelope::{Envelope, MessageBody};
use self::machine::ThrottlingBody;
use self::media::{MediaBody, RecordingBody, SnapshotBody};
pub use self::reload::{ReloadProblem, ReloadState, ReloadStatus};
pub use self::schema::{message_page, message_schema};
use self::spool::GapBody;
pub use self::stats::{
    MachineStats, MediaStats, SPOOL_CLASSES, SecondaryStats, SourceStats, SpoolStats, Stats,
};
pub use self::timestamp::Timestamp;
use self::update::UpdateBody;
use self::value::Names;
pub(crate) use self::value::{EventId, SpoolId, rounded};
pub use self::value::{Group, Label, SourceName, Utc};
use super::Publication;
use jetwatch_types::{Classes, TrackId};

/// Version of the messages: increased when subscribers have to change; new fields do not count.
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// Identity of a track that no restart repeats, as in `id` of its events.
#[must_use]
pub fn track_identity(started_at: SystemTime, source: &str, track: TrackId) -> String {
    let id = EventId {
        started_at,
        source,
        track,
    };
    id.to_string()
}

/// Number of a message.
#[derive(Debug, Clone, Copy)]
struct Number {
    spool: SpoolId,
    seq: u64,
}

/// Writes records as JSON, into a reused buffer.
#[derive(Debug, Clone)]
pub struct Encoder {
    device: String,
    classes: Classes,
    buffer: Vec<u8>,
    /// The next number, where messages are numbered.
    number: Option<Number>,
}

impl Encoder {
    /// An encoder for a device whose model has these classes.
    #[must_use]
    pub fn new(device: &str, classes: &Classes) -> Self {
        Self {
            device: device.to_owned(),
            classes: classes.clone(),
            buffer: Vec::with_capacity(2048),
            number: None,
        }
    }

    /// Numbers events and analytics events from `seq` on, in the numbering `spool`.
    pub fn number_from(&mut self, spool: u64, seq: u64) {
        self.number = Some(Number {
            spool: SpoolId(spool),
            seq,
        });
    }

    /// Number of the next message; `None`: messages have no numbers.
    #[must_use]
    pub fn next_number(&self) -> Option<u64> {
        self.number.map(|number| number.seq)
    }

    /// Identity of the numbering, and the number of the next message; `None`: messages have no numbers.
    #[must_use]
    pub(crate) fn numbering(&self) -> Option<(u64, u64)> {
        self.number.map(|number| (number.spool.0, number.seq))
    }

    /// Calls `each` with the JSON of every message of `record`: one per track event or analytics event, otherwise one. Without line breaks.
    pub fn encode(&mut self, record: &Publication<'_>, now: Timestamp, each: impl FnMut(&[u8])) {
        let names = Names(&self.classes);
        let number = &mut self.number;
        let mut out = Writer {
            device: &self.device,
            buffer: &mut self.buffer,
            each,
        };
        match record {
            Publication::Events {
                source,
                frame,
                events,
                recording,
                snapshots,
            } => {
                for (index, event) in events.iter().enumerate() {
                    let snapshot = snapshots.get(index).and_then(Option::as_deref);
                    out.write(&EventBody {
                        recording: recording.map(RecordingBody::new),
                        snapshot: snapshot.map(SnapshotBody::new),
                        ..EventBody::new(names, source, frame, event, now, take(number))
                    });
                }
            }
            Publication::Frame {
                source,
                frame,
                tracks,
            } => out.write(&DetectionsBody::new(names, source, frame, tracks, now)),
            Publication::Count(count) => out.write(count),
            Publication::GroupCount(count) => out.write(count),
            Publication::Switch(switch) => out.write(switch),
            Publication::ScoreThreshold(threshold) => out.write(threshold),
            Publication::Motion(motion) => out.write(motion),
            Publication::Analytics {
                source,
                rules,
                frame,
                events,
                recording,
            } => {
                for event in *events {
                    let number = take(number);
                    let mut body =
                        AnalyticsEventBody::new(names, source, rules, frame, event, now, number);
                    body.recording = recording.map(RecordingBody::new);
                    out.write(&body);
                }
            }
            Publication::Zone {
                source,
                zone,
                present,
                overcrowded,
                at,
            } => out.write(&ZoneBody::new(
                names,
                source,
                zone,
                present,
                *overcrowded,
                *at,
            )),
            Publication::Line {
                source,
                line,
                crossings,
                since,
                at,
            } => out.write(&LineBody::new(names, source, line, crossings, *since, *at)),
            Publication::Source(status) => out.write(status),
            Publication::Active {
                source,
                activity,
                at,
            } => out.write(&ActiveBody::new(source, activity, *at)),
            Publication::Detector { status, at } => out.write(&DetectorBody::new(status, *at)),
            Publication::Throttling { change, at } => out.write(&ThrottlingBody::new(change, *at)),
            Publication::Reload(status) => out.write(*status),
            Publication::Update(status) => out.write(&UpdateBody::new(status)),
            Publication::Reply { reply, at } => out.write(&ReplyBody::new(reply, *at)),
            Publication::Media { item, at } => out.write(&MediaBody::new(item, *at)),
            // No JSON: MQTT sends it as it is.
            Publication::Snapshot { .. } => {}
            Publication::Gap { gap, at } => out.write(&GapBody::new(gap, *at)),
            Publication::Stats(stats) => out.write(*stats),
        }
    }
}

/// The number of a message that is being encoded; the next one has the number after it.
fn take(number: &mut Option<Number>) -> Option<Number> {
    let taken = *number;
    if let Some(number) = number {
        number.seq += 1;
    }
    taken
}

/// Where the messages of a record go.
struct Writer<'e, F> {
    device: &'e str,
    buffer: &'e mut Vec<u8>,
    each: F,
}

impl<F: FnMut(&[u8])> Writer<'_, F> {
    fn write(&mut self, body: &impl MessageBody) {
        self.buffer.clear();
        serde_json::to_writer(&mut *self.buffer, &Envelope::new(self.device, body))
            .expect("the bodies have text keys, and a Vec takes every byte");
        (self.each)(self.buffer);
    }
}
