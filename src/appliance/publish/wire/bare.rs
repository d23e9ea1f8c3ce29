// SPDX-License-Identifier: Apache-2.0
//! Values that are bare on MQTT: their payloads there, and their bodies as JSON lines.

use schemars::JsonSchema;
use serde::Serialize;

use super::body::{CountBody, GroupCountBody};
use super::value::{Device, Group, Label, SourceName, Utc};
use super::{Encoder, SCHEMA_VERSION, schema, write};
use crate::Publication;

/// Whether detection of a source, or one of its rules, is switched on. Only as a JSON line; on MQTT it is `ON` or `OFF`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "switch", title = "Switch", deny_unknown_fields)]
pub(super) struct SwitchBody<'a> {
    #[schemars(schema_with = "schema::version")]
    version: u32,
    #[schemars(extend("const" = "switch"))]
    kind: &'static str,
    device: Device<'a>,
    source: SourceName<'a>,
    /// Name of the zone, line or direction, or `stationary`; null for detection of the source.
    rule: Option<&'a str>,
    /// Whether it is on. A schedule may turn it off all the same.
    on: bool,
    /// When it was set.
    changed_at: Utc,
}

/// The score below which detections of a source are dropped. Only as a JSON line; on MQTT it is a bare number.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "score_threshold",
    title = "Score threshold",
    deny_unknown_fields
)]
pub(super) struct ScoreThresholdBody<'a> {
    #[schemars(schema_with = "schema::version")]
    version: u32,
    #[schemars(extend("const" = "score_threshold"))]
    kind: &'static str,
    device: Device<'a>,
    source: SourceName<'a>,
    /// The threshold, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    threshold: f64,
    /// When it was set.
    changed_at: Utc,
}

/// The payload of `record` on MQTT; `None`: it is its JSON.
pub(crate) fn bare_payload(record: &Publication<'_>) -> Option<String> {
    match record {
        // A bare integer, as Frigate and Home Assistant's sensors have it.
        Publication::Count { count, .. } | Publication::GroupCount { count, .. } => {
            Some(count.to_string())
        }
        Publication::Switch { on, .. } => Some(if *on { "ON" } else { "OFF" }.to_owned()),
        Publication::ScoreThreshold { threshold, .. } => Some(decimals(*threshold)),
        _ => None,
    }
}

/// A number with two to four decimals.
fn decimals(number: f32) -> String {
    let text = format!("{number:.4}");
    let short = text.strip_suffix('0').unwrap_or(&text);
    short.strip_suffix('0').unwrap_or(short).to_owned()
}

impl Encoder {
    /// Writes the JSON of a record with a bare payload; nothing for others.
    pub(super) fn write_value(&self, record: &Publication<'_>, buffer: &mut Vec<u8>) {
        let device = Device(&self.device);
        match record {
            Publication::Count {
                source,
                label,
                count,
                at,
            } => write(
                buffer,
                &CountBody {
                    version: SCHEMA_VERSION,
                    kind: "count",
                    device,
                    source: SourceName(source),
                    label: Label(label),
                    count: *count,
                    changed_at: Utc(*at),
                },
            ),
            Publication::GroupCount {
                source,
                group,
                count,
                at,
            } => write(
                buffer,
                &GroupCountBody {
                    version: SCHEMA_VERSION,
                    kind: "group_count",
                    device,
                    source: SourceName(source),
                    group: Group(group),
                    count: *count,
                    changed_at: Utc(*at),
                },
            ),
            Publication::Switch {
                source,
                rule,
                on,
                at,
            } => write(
                buffer,
                &SwitchBody {
                    version: SCHEMA_VERSION,
                    kind: "switch",
                    device,
                    source: SourceName(source),
                    rule: *rule,
                    on: *on,
                    changed_at: Utc(*at),
                },
            ),
            Publication::ScoreThreshold {
                source,
                threshold,
                at,
            } => write(
                buffer,
                &ScoreThresholdBody {
                    version: SCHEMA_VERSION,
                    kind: "score_threshold",
                    device,
                    source: SourceName(source),
                    threshold: (f64::from(*threshold) * 1e4).round() / 1e4,
                    changed_at: Utc(*at),
                },
            ),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_have_two_to_four_decimals() {
        for (number, wanted) in [
            (0.5, "0.50"),
            (0.0, "0.00"),
            (1.0, "1.00"),
            (0.35, "0.35"),
            (0.125, "0.125"),
            (0.33333, "0.3333"),
        ] {
            assert_eq!(decimals(number), wanted);
        }
    }
}
