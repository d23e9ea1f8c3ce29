// SPDX-License-Identifier: Apache-2.0
//! Values that are bare on MQTT: their payloads there, and their bodies as JSON lines. The pipeline fills them.

#![allow(missing_docs)] // A field without a comment has that of its type.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::value::{Group, Label, SourceName, Utc};
use crate::Publication;

/// The number of active tracks of one label changed. On MQTT a bare integer.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "count", title = "Count", deny_unknown_fields)]
pub struct Count<'a> {
    pub source: SourceName<'a>,
    pub label: Label<'a>,
    /// Active tracks now.
    pub count: usize,
    /// Capture time of the frame that changed it.
    pub changed_at: Utc,
}

/// The number of active tracks of one group of labels changed. On MQTT a bare integer.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(
    rename = "group_count",
    title = "Count of a group",
    deny_unknown_fields
)]
pub struct GroupCount<'a> {
    pub source: SourceName<'a>,
    pub group: Group<'a>,
    /// Active tracks of all labels of the group now.
    pub count: usize,
    /// Capture time of the frame that changed it.
    pub changed_at: Utc,
}

/// Whether detection of a source, or one of its rules, is switched on. On MQTT `ON` or `OFF`.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "switch", title = "Switch", deny_unknown_fields)]
pub struct Switch<'a> {
    pub source: SourceName<'a>,
    /// Name of the rule, or `stationary`; null for detection.
    pub rule: Option<&'a str>,
    /// Whether it is on; a schedule may still turn it off.
    pub on: bool,
    /// When it was set.
    pub changed_at: Utc,
}

/// The score below which detections of a source are dropped. On MQTT a bare number.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(
    rename = "score_threshold",
    title = "Score threshold",
    deny_unknown_fields
)]
pub struct ScoreThreshold<'a> {
    pub source: SourceName<'a>,
    /// The threshold, 0 to 1.
    #[serde(serialize_with = "four_decimals")]
    #[schemars(range(min = 0, max = 1))]
    pub threshold: f32,
    /// When it was set.
    pub changed_at: Utc,
}

/// Whether the camera of a source reports motion by ONVIF. On MQTT `ON` or `OFF`.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "motion", title = "Motion", deny_unknown_fields)]
pub struct Motion<'a> {
    pub source: SourceName<'a>,
    /// Whether there is motion; false while the camera does not answer.
    pub on: bool,
    /// When it was reported.
    pub changed_at: Utc,
}

fn four_decimals<S: Serializer>(number: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((f64::from(*number) * 1e4).round() / 1e4)
}

/// The payload of `record` on MQTT; `None`: it is its JSON.
pub(crate) fn bare_payload(record: &Publication<'_>) -> Option<String> {
    match record {
        // A bare integer, as Frigate and Home Assistant's sensors have it.
        Publication::Count(Count { count, .. })
        | Publication::GroupCount(GroupCount { count, .. }) => Some(count.to_string()),
        Publication::Switch(Switch { on, .. }) | Publication::Motion(Motion { on, .. }) => {
            Some(if *on { "ON" } else { "OFF" }.to_owned())
        }
        Publication::ScoreThreshold(score) => Some(decimals(score.threshold)),
        _ => None,
    }
}

/// A number with two to four decimals.
fn decimals(number: f32) -> String {
    let text = format!("{number:.4}");
    let short = text.strip_suffix('0').unwrap_or(&text);
    short.strip_suffix('0').unwrap_or(short).to_owned()
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
