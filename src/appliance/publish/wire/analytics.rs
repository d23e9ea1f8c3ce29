// SPDX-License-Identifier: Apache-2.0
//! Analytics events, zones and lines as JSON.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use super::body::FrameBody;
use super::media::RecordingBody;
use super::value::{
    EventId, Group, Label, Latency, Names, SourceName, SpoolId, TrackNumber, Utc,
    whole_milliseconds,
};
use super::words::{AnalyticsType, SideWord};
use super::{Number, Timestamp};
use crate::AnalyticsMessage;
use jetwatch_config::{LineRule, SceneRules, ZoneRule};
use jetwatch_types::{AnalyticsEventKind, Crossings, FrameMeta, ZoneCount};

/// A condition of a rule became true. Those about a track come between its `new` and its `end`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "analytics", title = "Analytics event", deny_unknown_fields)]
pub(super) struct AnalyticsEventBody<'a> {
    source: SourceName<'a>,
    #[serde(rename = "type")]
    event_type: AnalyticsType,
    /// Name of the zone, line or direction.
    name: Option<&'a str>,
    /// Identity of the track; null for `overcrowding` and `overcrowding_over`.
    id: Option<EventId<'a>>,
    /// Number of the track; null as `id`.
    track_id: Option<TrackNumber>,
    /// Name of the class; null as `id`.
    label: Option<Label<'a>>,
    /// Group of the label in `detector.groups`.
    group: Option<Group<'a>>,
    /// The side to which a line was crossed, seen along it.
    to: Option<SideWord>,
    /// Objects in the zone, for `overcrowding` and `overcrowding_over`.
    count: Option<u32>,
    /// Time in the zone (`zone_left`, `loitering`) or at rest (`stationary`).
    duration_ms: Option<u64>,
    /// Capture time of the frame that showed it.
    at: Utc,
    latency_ms: Latency,
    frame: FrameBody,
    /// The clip that is being recorded and holds the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingBody<'a>>,
    /// Identity of the numbering, only on MQTT. A message with a known `spool` and `seq` is a repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    spool: Option<SpoolId>,
    /// Number of the message, only on MQTT. In one `spool` it grows by 1 with every event and analytics event; a missing number comes later or is in a `gap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    seq: Option<u64>,
    /// Age of the message when it was sent; only if it waited for more than 2 s, or for a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ms: Option<u64>,
}

/// Objects in a zone, published at the start and after changes, at most once in `publish.update_interval_ms`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "zone", title = "Zone", deny_unknown_fields)]
pub(super) struct ZoneBody<'a> {
    source: SourceName<'a>,
    /// Name of the zone.
    zone: &'a str,
    /// Objects in the zone.
    count: u32,
    /// Objects by label, without labels that have not been in it.
    present: Vec<ZoneCountBody<'a>>,
    /// Objects by group, in the same way.
    groups: Vec<ZoneGroupCountBody<'a>>,
    /// Objects from which on it is overcrowded.
    #[schemars(range(min = 1))]
    object_threshold: Option<u32>,
    /// Whether it is overcrowded.
    overcrowded: Option<bool>,
    /// Capture time of the newest counted frame.
    changed_at: Utc,
}

/// Objects of one label in a zone.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "zone_count",
    title = "Objects of a label",
    deny_unknown_fields
)]
struct ZoneCountBody<'a> {
    label: Label<'a>,
    /// Objects of this label.
    count: u32,
}

/// Objects of one group of labels in a zone.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "zone_group_count",
    title = "Objects of a group",
    deny_unknown_fields
)]
struct ZoneGroupCountBody<'a> {
    group: Group<'a>,
    /// Objects of its labels.
    count: u32,
}

/// Crossings of a line, published at the start and after changes, at most once in `publish.update_interval_ms`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "line", title = "Line", deny_unknown_fields)]
pub(super) struct LineBody<'a> {
    source: SourceName<'a>,
    /// Name of the line.
    line: &'a str,
    /// Crossings to the left, seen along the line.
    to_left: u64,
    /// Crossings to the right.
    to_right: u64,
    /// Crossings by label, without zeros.
    crossings: Vec<CrossingsBody<'a>>,
    /// Crossings by group, without zeros.
    groups: Vec<GroupCrossingsBody<'a>>,
    /// When the daemon began to count.
    since: Utc,
    /// Capture time of the newest counted frame.
    changed_at: Utc,
}

/// Crossings of a line by objects of one label.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "crossings",
    title = "Crossings of a label",
    deny_unknown_fields
)]
struct CrossingsBody<'a> {
    label: Label<'a>,
    /// Crossings to the left.
    to_left: u64,
    /// Crossings to the right.
    to_right: u64,
}

/// Crossings of a line by objects of one group of labels.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "group_crossings",
    title = "Crossings of a group",
    deny_unknown_fields
)]
struct GroupCrossingsBody<'a> {
    group: Group<'a>,
    /// Crossings to the left.
    to_left: u64,
    /// Crossings to the right.
    to_right: u64,
}

impl<'a> AnalyticsEventBody<'a> {
    /// Without what is recorded of it.
    pub(super) fn new(
        names: Names<'a>,
        source: &'a str,
        rules: &'a SceneRules,
        frame: &FrameMeta,
        message: &AnalyticsMessage,
        now: Timestamp,
        number: Option<Number>,
    ) -> Self {
        let event = &message.event;
        let zone = |index: usize| rules.zones.get(index).map(|rule| rule.name.as_str());
        let line = |index: usize| rules.lines.get(index).map(|rule| rule.name.as_str());
        let direction_name =
            |index: usize| rules.directions.get(index).map(|rule| rule.name.as_str());
        let (mut count, mut duration_ms, mut side) = (None, None, None);
        let mut lasted = |time| duration_ms = Some(whole_milliseconds(time));
        let (event_type, name) = match event.kind {
            AnalyticsEventKind::ZoneEntered { zone: index } => {
                (AnalyticsType::ZoneEntered, zone(index))
            }
            AnalyticsEventKind::ZoneLeft { zone: index, dwell } => {
                lasted(dwell);
                (AnalyticsType::ZoneLeft, zone(index))
            }
            AnalyticsEventKind::Loitering { zone: index, dwell } => {
                lasted(dwell);
                (AnalyticsType::Loitering, zone(index))
            }
            AnalyticsEventKind::Overcrowded {
                zone: index,
                count: objects,
            } => {
                count = Some(objects);
                (AnalyticsType::Overcrowding, zone(index))
            }
            AnalyticsEventKind::OvercrowdingEnded {
                zone: index,
                count: objects,
            } => {
                count = Some(objects);
                (AnalyticsType::OvercrowdingOver, zone(index))
            }
            AnalyticsEventKind::LineCrossed { line: index, to } => {
                side = Some(to.into());
                (AnalyticsType::LineCrossed, line(index))
            }
            AnalyticsEventKind::Direction { direction } => {
                (AnalyticsType::Direction, direction.and_then(direction_name))
            }
            AnalyticsEventKind::Stationary { since } => {
                lasted(since);
                (AnalyticsType::Stationary, None)
            }
            AnalyticsEventKind::Moving => (AnalyticsType::Moving, None),
        };
        let id = message.started_at.zip(event.track);
        Self {
            source: SourceName(source),
            event_type,
            name,
            id: id.map(|(started_at, track)| EventId {
                started_at,
                source,
                track,
            }),
            track_id: event.track.map(|track| TrackNumber(track.0)),
            label: event.class.map(|class| names.label(class)),
            group: event.class.and_then(|class| names.group(class)),
            to: side,
            count,
            duration_ms,
            at: Utc(event.at),
            latency_ms: Latency::new(frame, now),
            frame: frame.into(),
            recording: None,
            spool: number.map(|number| number.spool),
            seq: number.map(|number| number.seq),
            late_ms: None,
        }
    }
}

impl<'a> ZoneBody<'a> {
    pub(super) fn new(
        names: Names<'a>,
        source: &'a str,
        rule: &'a ZoneRule,
        present: &[ZoneCount],
        overcrowded: Option<bool>,
        at: SystemTime,
    ) -> Self {
        let of_label = |class: &ZoneCount| ZoneCountBody {
            label: names.label(class.class),
            count: class.count,
        };
        Self {
            source: SourceName(source),
            zone: &rule.name,
            count: present.iter().map(|class| class.count).sum(),
            present: present.iter().map(of_label).collect(),
            groups: of_groups(
                names,
                present,
                |entry| entry.class,
                |group, members| ZoneGroupCountBody {
                    group,
                    count: members.iter().map(|entry| entry.count).sum(),
                },
            ),
            object_threshold: rule.object_threshold,
            overcrowded,
            changed_at: Utc(at),
        }
    }
}

impl<'a> LineBody<'a> {
    pub(super) fn new(
        names: Names<'a>,
        source: &'a str,
        rule: &'a LineRule,
        crossings: &[Crossings],
        since: SystemTime,
        at: SystemTime,
    ) -> Self {
        let of_label = |class: &Crossings| CrossingsBody {
            label: names.label(class.class),
            to_left: class.to_left,
            to_right: class.to_right,
        };
        Self {
            source: SourceName(source),
            line: &rule.name,
            to_left: crossings.iter().map(|class| class.to_left).sum(),
            to_right: crossings.iter().map(|class| class.to_right).sum(),
            crossings: crossings.iter().map(of_label).collect(),
            groups: of_groups(
                names,
                crossings,
                |entry| entry.class,
                |group, members| GroupCrossingsBody {
                    group,
                    to_left: members.iter().map(|entry| entry.to_left).sum(),
                    to_right: members.iter().map(|entry| entry.to_right).sum(),
                },
            ),
            since: Utc(since),
            changed_at: Utc(at),
        }
    }
}

/// What `make` makes of each group, in the order of the configuration, and of those of `entries` whose class is in it. Without groups
/// of which there is none.
fn of_groups<'a, E, B>(
    names: Names<'a>,
    entries: &[E],
    class: impl Fn(&E) -> u16,
    make: impl Fn(Group<'a>, &[&E]) -> B,
) -> Vec<B> {
    let of_group = |(index, name): (usize, &'a String)| {
        let is_member = |entry: &&E| names.0.group_index(class(entry)) == Some(index);
        let members: Vec<&E> = entries.iter().filter(is_member).collect();
        (!members.is_empty()).then(|| make(Group(name), &members))
    };
    let groups = names.0.groups().iter().enumerate();
    groups.filter_map(of_group).collect()
}
