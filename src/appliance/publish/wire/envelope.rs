// SPDX-License-Identifier: Apache-2.0
//! What all messages begin with, and the list of their bodies.

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::SCHEMA_VERSION;
use super::analytics::{AnalyticsEventBody, LineBody, ZoneBody};
use super::bare::{Count, GroupCount, Motion, ScoreThreshold, Switch};
use super::body::{DetectionsBody, DetectorBody, EventBody, SourceStatus};
use super::control::{ActiveBody, ReplyBody};
use super::machine::ThrottlingBody;
use super::media::MediaBody;
use super::reload::ReloadStatus;
use super::spool::GapBody;
use super::stats::Stats;
use super::update::UpdateBody;
use super::value::Device;

/// The fields of a message behind those of its envelope.
pub(super) trait MessageBody: Serialize {
    /// `kind` of the message.
    const KIND: &'static str;
}

/// A message.
#[derive(Serialize)]
pub(super) struct Envelope<'a, B> {
    version: u32,
    kind: &'static str,
    device: Device<'a>,
    #[serde(flatten)]
    body: &'a B,
}

impl<'a, B: MessageBody> Envelope<'a, B> {
    pub(super) fn new(device: &'a str, body: &'a B) -> Self {
        Self {
            version: SCHEMA_VERSION,
            kind: B::KIND,
            device: Device(device),
            body,
        }
    }
}

/// Gives bodies their kinds.
macro_rules! messages {
    ($($kind:literal: $body:ty,)*) => {
        $(impl MessageBody for $body {
            const KIND: &'static str = $kind;
        })*

        /// The kinds of all messages, and the names of the definitions of their bodies, which are added to `generator`.
        pub(super) fn definitions(generator: &mut SchemaGenerator) -> Vec<(&'static str, String)> {
            vec![$({
                generator.subschema_for::<$body>();
                ($kind, <$body>::schema_name().into_owned())
            },)*]
        }
    };
}

messages! {
    "event": EventBody<'_>,
    "detections": DetectionsBody<'_>,
    "count": Count<'_>,
    "group_count": GroupCount<'_>,
    "switch": Switch<'_>,
    "score_threshold": ScoreThreshold<'_>,
    "motion": Motion<'_>,
    "active": ActiveBody<'_>,
    "analytics": AnalyticsEventBody<'_>,
    "zone": ZoneBody<'_>,
    "line": LineBody<'_>,
    "source": SourceStatus<'_>,
    "detector": DetectorBody<'_>,
    "throttling": ThrottlingBody<'_>,
    "reload": ReloadStatus,
    "update": UpdateBody<'_>,
    "reply": ReplyBody<'_>,
    "stats": Stats,
    "gap": GapBody,
    "media": MediaBody<'_>,
}
