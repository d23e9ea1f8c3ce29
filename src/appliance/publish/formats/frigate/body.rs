// SPDX-License-Identifier: Apache-2.0
//! Frigate's messages as structs. Field names and types are Frigate's.

use std::collections::BTreeMap;

use serde::Serialize;

/// A message on `events`.
#[derive(Debug, Serialize)]
pub(super) struct EventBody<'a> {
    #[serde(rename = "type")]
    pub step: &'static str,
    /// Never null.
    pub before: &'a ObjectBody,
    pub after: &'a ObjectBody,
}

/// A tracked object. Boxes are `[left, top, right, bottom]` in pixels, times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ObjectBody {
    pub id: String,
    pub camera: String,
    pub frame_time: f64,
    /// The best frame so far. There is no picture of it.
    pub snapshot: BestBody,
    pub label: String,
    /// Nothing gives one.
    pub sub_label: Option<()>,
    pub top_score: f32,
    /// Only before the first message.
    pub false_positive: bool,
    pub start_time: f64,
    pub end_time: Option<f64>,
    pub score: f32,
    #[serde(rename = "box")]
    pub xyxy: [u32; 4],
    pub area: u64,
    /// Width to height.
    pub ratio: f64,
    /// The whole image.
    pub region: [u32; 4],
    pub active: bool,
    pub stationary: bool,
    /// Frames since it came to rest.
    pub motionless_count: u64,
    pub position_changes: u32,
    pub current_zones: Vec<String>,
    pub entered_zones: Vec<String>,
    pub has_clip: bool,
    pub has_snapshot: bool,
    pub thumbnail: Option<()>,
    /// Best score of each attribute so far.
    pub attributes: BTreeMap<String, f32>,
    pub current_attributes: Vec<AttributeBody>,
    pub pending_loitering: bool,
    /// `alert`, `detection`, or none of them.
    pub max_severity: Option<&'static str>,
    /// Speeds are not estimated.
    pub current_estimated_speed: f32,
    pub average_estimated_speed: f32,
    pub velocity_angle: f32,
    pub recognized_license_plate: Option<()>,
    pub recognized_license_plate_score: Option<()>,
}

/// The best frame of an object.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct BestBody {
    pub frame_time: f64,
    #[serde(rename = "box")]
    pub xyxy: [u32; 4],
    pub area: u64,
    pub region: [u32; 4],
    pub score: f32,
    pub attributes: Vec<AttributeBody>,
}

/// A part of an object that a secondary detector has found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct AttributeBody {
    pub label: String,
    #[serde(rename = "box")]
    pub xyxy: [u32; 4],
    pub score: f32,
}

/// A message on `reviews`.
#[derive(Debug, Serialize)]
pub(super) struct ReviewEventBody<'a> {
    #[serde(rename = "type")]
    pub step: &'static str,
    pub before: &'a ReviewBody,
    pub after: &'a ReviewBody,
}

/// A review: what happened at a camera from when something moved until nothing did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ReviewBody {
    pub id: String,
    pub camera: String,
    pub start_time: f64,
    pub end_time: Option<f64>,
    pub severity: &'static str,
    /// Empty: there are no pictures.
    pub thumb_path: &'static str,
    pub data: ReviewData,
}

/// What a review is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct ReviewData {
    /// Identities of objects.
    pub detections: Vec<String>,
    /// Labels.
    pub objects: Vec<String>,
    pub sub_labels: [(); 0],
    pub zones: Vec<String>,
    pub audio: [(); 0],
}

/// A message on `stats`.
#[derive(Debug, Serialize)]
pub(super) struct StatsBody<'a> {
    pub cameras: BTreeMap<&'a str, CameraStatsBody>,
    pub detectors: BTreeMap<&'static str, DetectorStatsBody>,
    pub detection_fps: f64,
    pub gpu_usages: BTreeMap<String, GpuBody>,
    pub service: ServiceBody<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct CameraStatsBody {
    pub camera_fps: f64,
    pub process_fps: f64,
    pub skipped_fps: f64,
    pub detection_fps: f64,
    pub detection_enabled: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct DetectorStatsBody {
    /// Milliseconds.
    pub inference_speed: f64,
    pub detection_start: f64,
}

/// Percentages as text.
#[derive(Debug, Serialize)]
pub(super) struct GpuBody {
    pub gpu: String,
    pub mem: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct ServiceBody<'a> {
    /// Seconds.
    pub uptime: u64,
    pub version: &'a str,
    pub latest_version: &'static str,
    pub storage: BTreeMap<&'static str, ()>,
    /// Degrees Celsius.
    pub temperatures: BTreeMap<String, f32>,
    /// Seconds since 1970.
    pub last_updated: u64,
}
