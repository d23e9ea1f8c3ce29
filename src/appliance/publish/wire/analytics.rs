//! Analytics events, zones and lines as JSON.

use std::time::SystemTime;

use serde::Serialize;

use super::body::FrameBody;
use super::value::{EventId, Utc};
use super::{Encoder, SCHEMA_VERSION, Timestamp, frame_body, latency_ms, whole_milliseconds};
use crate::AnalyticsMessage;
use jetwatch_config::{LineRule, SceneRules, ZoneRule};
use jetwatch_types::{AnalyticsEventKind, Crossings, FrameMeta, Side, ZoneCount};

/// One analytics event.
#[derive(Serialize)]
pub(super) struct AnalyticsEventBody<'a> {
    version: u32,
    kind: &'static str,
    device: &'a str,
    source: &'a str,
    #[serde(rename = "type")]
    fact: &'static str,
    /// The zone, line or direction.
    name: Option<&'a str>,
    id: Option<EventId<'a>>,
    track_id: Option<u64>,
    label: Option<&'a str>,
    /// To which side a line was crossed.
    to: Option<&'static str>,
    /// Objects in a zone.
    count: Option<u32>,
    /// How long an object was in a zone, or has stood still.
    duration_ms: Option<u64>,
    at: Utc,
    latency_ms: f64,
    frame: FrameBody,
}

/// Objects in one zone.
#[derive(Serialize)]
pub(super) struct ZoneBody<'a> {
    version: u32,
    kind: &'static str,
    device: &'a str,
    source: &'a str,
    zone: &'a str,
    count: u32,
    present: Vec<ZoneCountBody<'a>>,
    object_threshold: Option<u32>,
    overcrowded: Option<bool>,
    changed_at: Utc,
}

/// Objects of one label.
#[derive(Serialize)]
struct ZoneCountBody<'a> {
    label: &'a str,
    count: u32,
}

/// Crossings of one line.
#[derive(Serialize)]
pub(super) struct LineBody<'a> {
    version: u32,
    kind: &'static str,
    device: &'a str,
    source: &'a str,
    line: &'a str,
    to_left: u64,
    to_right: u64,
    crossings: Vec<CrossingsBody<'a>>,
    since: Utc,
    changed_at: Utc,
}

/// Crossings of one label.
#[derive(Serialize)]
struct CrossingsBody<'a> {
    label: &'a str,
    to_left: u64,
    to_right: u64,
}

impl Encoder {
    pub(super) fn analytics_event<'a>(
        &'a self,
        source: &'a str,
        rules: &'a SceneRules,
        frame: &FrameMeta,
        message: &AnalyticsMessage,
        now: Timestamp,
    ) -> AnalyticsEventBody<'a> {
        let event = &message.event;
        let zone = |zone: usize| rules.zones.get(zone).map(|rule| rule.name.as_str());
        let line = |line: usize| rules.lines.get(line).map(|rule| rule.name.as_str());
        let direction_name =
            |index: usize| rules.directions.get(index).map(|rule| rule.name.as_str());
        let mut body = AnalyticsEventBody {
            version: SCHEMA_VERSION,
            kind: "analytics",
            device: &self.device,
            source,
            fact: "",
            name: None,
            id: message
                .started_at
                .zip(event.track)
                .map(|(started_at, track)| EventId {
                    started_at,
                    source,
                    track,
                }),
            track_id: event.track.map(|track| track.0),
            label: event.class.map(|class| self.label(class)),
            to: None,
            count: None,
            duration_ms: None,
            at: Utc(event.at),
            latency_ms: latency_ms(frame, now),
            frame: frame_body(frame),
        };
        let duration = |time| Some(whole_milliseconds(time));
        (body.fact, body.name) = match event.kind {
            AnalyticsEventKind::ZoneEntered { zone: place } => ("zone_entered", zone(place)),
            AnalyticsEventKind::ZoneLeft { zone: place, dwell } => {
                body.duration_ms = duration(dwell);
                ("zone_left", zone(place))
            }
            AnalyticsEventKind::Loitering { zone: place, dwell } => {
                body.duration_ms = duration(dwell);
                ("loitering", zone(place))
            }
            AnalyticsEventKind::Overcrowded { zone: place, count } => {
                body.count = Some(count);
                ("overcrowding", zone(place))
            }
            AnalyticsEventKind::OvercrowdingEnded { zone: place, count } => {
                body.count = Some(count);
                ("overcrowding_over", zone(place))
            }
            AnalyticsEventKind::LineCrossed { line: place, to } => {
                body.to = Some(match to {
                    Side::Left => "left",
                    Side::Right => "right",
                });
                ("line_crossed", line(place))
            }
            AnalyticsEventKind::Direction { direction } => {
                ("direction", direction.and_then(direction_name))
            }
            AnalyticsEventKind::Stationary { since } => {
                body.duration_ms = duration(since);
                ("stationary", None)
            }
            AnalyticsEventKind::Moving => ("moving", None),
        };
        body
    }

    pub(super) fn zone<'a>(
        &'a self,
        source: &'a str,
        rule: &'a ZoneRule,
        present: &[ZoneCount],
        overcrowded: Option<bool>,
        at: SystemTime,
    ) -> ZoneBody<'a> {
        let of_label = |class: &ZoneCount| ZoneCountBody {
            label: self.label(class.class),
            count: class.count,
        };
        ZoneBody {
            version: SCHEMA_VERSION,
            kind: "zone",
            device: &self.device,
            source,
            zone: &rule.name,
            count: present.iter().map(|class| class.count).sum(),
            present: present.iter().map(of_label).collect(),
            object_threshold: rule.object_threshold,
            overcrowded,
            changed_at: Utc(at),
        }
    }

    pub(super) fn line<'a>(
        &'a self,
        source: &'a str,
        rule: &'a LineRule,
        crossings: &[Crossings],
        since: SystemTime,
        at: SystemTime,
    ) -> LineBody<'a> {
        let of_label = |class: &Crossings| CrossingsBody {
            label: self.label(class.class),
            to_left: class.to_left,
            to_right: class.to_right,
        };
        LineBody {
            version: SCHEMA_VERSION,
            kind: "line",
            device: &self.device,
            source,
            line: &rule.name,
            to_left: crossings.iter().map(|class| class.to_left).sum(),
            to_right: crossings.iter().map(|class| class.to_right).sum(),
            crossings: crossings.iter().map(of_label).collect(),
            since: Utc(since),
            changed_at: Utc(at),
        }
    }
}
