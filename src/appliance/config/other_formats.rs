// SPDX-License-Identifier: Apache-2.0
//! `also` of `publish.mqtt`: messages in the shapes of other systems, beside our own.

use std::time::Duration;

use super::names::{NAME, is_name};
use super::section::{KeyValue, Section, Words};
use super::yaml::map::Map;
use super::yaml::node::Value;

/// Accepted form of topics and prefixes.
const TOPIC: &str = "topic levels: no `+`, `#`, `$` or space, and no `/` at an end";

/// Most items of `also`.
const MAX_FORMATS: usize = 8;

/// Messages in the shape of another system.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(check = check_keys)]
pub struct FormatConfig {
    /// System whose shape the messages have.
    pub format: FormatKind,
    /// frigate: first levels of every topic.
    #[key(text = TOPIC, check = is_topic, default = "frigate")]
    pub prefix: String,
    /// deepstream: topic of every message.
    #[key(text = TOPIC, check = is_topic, default = "deepstream")]
    pub topic: String,
    /// deepstream: full: a message for each object and event; minimal: one for each frame with objects.
    #[key(default = "full")]
    pub payload: DeepStreamPayload,
    /// Width of the image in whose pixels boxes are; needs height. Default: that of the source.
    #[key(range = 1..=16_384, unit = "pixels")]
    pub width: Option<u32>,
    /// Height of that image; needs width.
    #[key(range = 1..=16_384, unit = "pixels")]
    pub height: Option<u32>,
    /// Messages in memory while the broker is away; then updates, then the oldest, are dropped and counted. There is no spool.
    #[key(range = 1..=1_000_000, unit = "messages", default = 1000)]
    pub queue_messages: usize,
    /// frigate: what is an alert, what a detection, and when a review ends.
    pub reviews: ReviewConfig,
    /// deepstream, payload minimal: one message for this many frames.
    #[key(range = 1..=10_000, unit = "frames", default = 1)]
    pub frame_interval: u32,
    /// deepstream, payload full: also a message of type moving or stopped for each update of a track.
    #[key(default = false)]
    pub updates: bool,
    /// deepstream: which labels are vehicles, persons, faces and products.
    pub objects: ObjectKinds,
    /// deepstream: the sensors and places of sources. Default: named after the source.
    pub sensors: Vec<SensorConfig>,
}

impl FormatConfig {
    /// What the client id of its connection ends with, after that of `publish.mqtt`; `same` items of this format are before it.
    pub fn client_suffix(&self, same: usize) -> String {
        match same {
            0 => format!("-{}", self.format.word()),
            _ => format!("-{}-{}", self.format.word(), same + 1),
        }
    }

    /// Where it publishes.
    fn place(&self) -> &str {
        match self.format {
            FormatKind::Frigate => &self.prefix,
            FormatKind::DeepStream => &self.topic,
        }
    }
}

/// Whose shape messages have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum FormatKind {
    /// Frigate's MQTT topics.
    Frigate,
    /// DeepStream's nvmsgconv.
    DeepStream,
}

/// Which of nvmsgconv's two schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum DeepStreamPayload {
    /// One message for each object and event.
    Full,
    /// One message for each frame.
    Minimal,
}

/// What is an alert, what a detection, and when a review ends.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct ReviewConfig {
    /// Labels or groups of objects that can be alerts. Default: all.
    #[key(text = "a label")]
    pub alert_labels: Vec<String>,
    /// Zones in which such an object is an alert. Default: all zones of the source.
    #[key(text = "the name of a zone")]
    pub alert_zones: Vec<String>,
    /// false: such an object is an alert wherever it is. Loitering and overcrowding are always alerts.
    #[key(default = true)]
    pub alert_requires_zone: bool,
    /// Labels or groups of objects that make a review. Default: all.
    #[key(text = "a label")]
    pub detection_labels: Vec<String>,
    /// A review ends when its source had no object in motion for this long.
    #[key(name = "cutoff_s", range = 1..=3600, default = 30)]
    pub cutoff: Duration,
}

/// Which labels are of which kind.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct ObjectKinds {
    /// Labels or groups of vehicles. Default: vehicle, car, bus, truck, motorcycle.
    #[key(text = "a label")]
    pub vehicle: Vec<String>,
    /// Labels or groups of persons. Default: person, pedestrian.
    #[key(text = "a label")]
    pub person: Vec<String>,
    /// Labels or groups of faces. Default: face.
    #[key(text = "a label")]
    pub face: Vec<String>,
    /// Labels or groups of products. Default: product.
    #[key(text = "a label")]
    pub product: Vec<String>,
}

/// The sensor and the place of one source.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct SensorConfig {
    /// Name of the source.
    #[key(text = NAME, check = is_name)]
    pub source: String,
    /// Identity of the sensor. Default: the name of the source.
    pub id: Option<String>,
    /// Type of the sensor.
    #[key(name = "type", text = "text", default = "Camera")]
    pub kind: String,
    /// What it sees. Default: none.
    pub description: Option<String>,
    /// Where it is on the earth.
    pub location: Location,
    /// Where it is in the coordinates of the place.
    pub coordinate: Coordinate,
    /// What it watches.
    pub place: PlaceConfig,
}

impl SensorConfig {
    /// The sensor of a source that the configuration says nothing about.
    pub fn named(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            id: None,
            kind: "Camera".to_owned(),
            description: None,
            location: Location::default(),
            coordinate: Coordinate::default(),
            place: PlaceConfig::default(),
        }
    }
}

/// What a sensor watches.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct PlaceConfig {
    /// Identity of the place. Default: the name of the source.
    pub id: Option<String>,
    /// Name of the place. Default: the name of the source.
    pub name: Option<String>,
    /// Type of the place, such as garage. Default: none.
    #[key(name = "type")]
    pub kind: Option<String>,
    /// Where it is on the earth.
    pub location: Location,
    /// Identity of the part of it that is seen: of the aisle or the entrance. Default: none.
    pub part_id: Option<String>,
    /// Name of that part. Default: none.
    pub part_name: Option<String>,
    /// Level of that part. Default: none.
    pub level: Option<String>,
    /// Where that part is in the coordinates of the place.
    pub coordinate: Coordinate,
}

/// A place on the earth.
#[derive(Debug, Clone, Copy, PartialEq, Section)]
#[section(default)]
pub struct Location {
    /// Latitude in degrees.
    #[key(range = -90.0..=90.0, default = 0.0)]
    pub lat: f32,
    /// Longitude in degrees.
    #[key(range = -180.0..=180.0, default = 0.0)]
    pub lon: f32,
    /// Altitude in meters.
    #[key(range = -11_000.0..=100_000.0, default = 0.0)]
    pub alt: f32,
}

/// A place in the coordinates of a site.
#[derive(Debug, Clone, Copy, PartialEq, Section)]
#[section(default)]
pub struct Coordinate {
    /// To the right.
    #[key(range = -1_000_000.0..=1_000_000.0, default = 0.0)]
    pub x: f32,
    /// Forward.
    #[key(range = -1_000_000.0..=1_000_000.0, default = 0.0)]
    pub y: f32,
    /// Upward.
    #[key(range = -1_000_000.0..=1_000_000.0, default = 0.0)]
    pub z: f32,
}

fn is_topic(text: &str) -> bool {
    let is_level = |level: &str| !level.is_empty() && !level.contains(['+', '#', '$', ' ']);
    text.chars().count() <= 128 && text.split('/').all(is_level)
}

/// Records keys that the format does not have, and half of a size.
fn check_keys(map: &Map<'_>) {
    for (given, other) in [("width", "height"), ("height", "width")] {
        if map.has(given) && !map.has(other) {
            map.invalid(given, &format!("given without {other}"), None);
        }
    }
    // A format that is missing or unknown is reported where it is read.
    let Some(format) = FormatKind::read(map, "format") else {
        return;
    };
    let others: &[&str] = match format {
        FormatKind::Frigate => &[
            "topic",
            "payload",
            "frame_interval",
            "updates",
            "objects",
            "sensors",
        ],
        FormatKind::DeepStream => &["prefix", "reviews"],
    };
    refuse(map, others, &format!("not for format: {}", format.word()));
    if format == FormatKind::DeepStream {
        match DeepStreamPayload::read(map, "payload") {
            Some(DeepStreamPayload::Full) => {
                refuse(map, &["frame_interval"], "only for payload: minimal");
            }
            Some(DeepStreamPayload::Minimal) => refuse(map, &["updates"], "only for payload: full"),
            None => {}
        }
    }
}

fn refuse(map: &Map<'_>, keys: &[&str], what: &str) {
    for key in keys.iter().filter(|key| map.has(key)) {
        map.invalid(key, what, Some("leave it out"));
    }
}

/// Records formats that would publish where others do. `map` is that of `publish.mqtt`.
pub(super) fn check_places(map: &Map<'_>) {
    let Some(items) = map.list("also") else {
        return;
    };
    if items.len() > MAX_FORMATS {
        let what = format!(
            "{} formats, at most {MAX_FORMATS} are accepted",
            items.len()
        );
        map.invalid("also", &what, None);
    }
    let own = map.text("prefix");
    let formats: Vec<Option<FormatConfig>> = items.iter().map(FormatConfig::from_map).collect();
    for (index, (item, format)) in items.iter().zip(&formats).enumerate() {
        let Some(format) = format else { continue };
        let key = match format.format {
            FormatKind::Frigate => "prefix",
            FormatKind::DeepStream => "topic",
        };
        let first = format.place().split('/').next();
        if first == own.as_deref() {
            let what = "the first level is publish.mqtt.prefix, where our own messages are";
            item.invalid(key, what, Some("choose another"));
        }
        let before = formats[..index].iter().flatten();
        if before.clone().any(|other| other.place() == format.place()) {
            let what = format!("another format publishes at `{}`", format.place());
            item.invalid(key, &what, Some("choose another"));
        }
        check_sensors(item);
    }
}

/// Records sensors that are given twice for one source.
fn check_sensors(format: &Map<'_>) {
    let Some(sensors) = format.list("sensors") else {
        return;
    };
    let of = |map: &Map<'_>| map.text("source").map(|name| name.to_ascii_lowercase());
    let names: Vec<Option<String>> = sensors.iter().map(of).collect();
    for (index, sensor) in sensors.iter().enumerate() {
        if names[index].is_some() && names[..index].contains(&names[index]) {
            sensor.invalid("source", "another sensor has this source", None);
        }
    }
}

/// Records sensors of sources that are not there. `root` is the outermost map.
pub(super) fn check_sources(root: &Map<'_>, sources: &[Map<'_>]) {
    // Sources that commands add are not known yet.
    if root.has("source_templates") || !root.has("publish") {
        return;
    }
    let Some(publish) = root.section("publish") else {
        return;
    };
    let is_map = |publish: &Map<'_>| {
        let mqtt = publish.has("mqtt").then(|| publish.get("mqtt")).flatten();
        mqtt.is_some_and(|node| matches!(node.value(), Value::Map(_)))
    };
    if !is_map(&publish) {
        return;
    }
    let known: Vec<String> = sources.iter().filter_map(|map| map.text("name")).collect();
    let formats = publish.section("mqtt").and_then(|mqtt| mqtt.list("also"));
    for format in formats.into_iter().flatten() {
        for sensor in format.list("sensors").into_iter().flatten() {
            let Some(name) = sensor.text("source") else {
                continue;
            };
            if !known.contains(&name) {
                let hint = format!("known here: {}", known.join(", "));
                sensor.invalid("source", "there is no source of this name", Some(&hint));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistakes::loaded;

    #[test]
    fn formats_have_defaults_and_places() {
        let config = loaded(
            "publish: {mqtt: {also: [{format: frigate}, {format: frigate, prefix: home/nvr}, \
             {format: deepstream, payload: minimal, sensors: [{source: a, location: {lat: -33.5}}]}]}}",
        );
        let formats = config.publish.mqtt.expect("MQTT is on").also;
        assert_eq!(formats[0].prefix, "frigate");
        assert_eq!(formats[0].reviews, ReviewConfig::default());
        assert_eq!(formats[0].reviews.cutoff, Duration::from_secs(30));
        assert_eq!(formats[1].client_suffix(1), "-frigate-2");
        assert_eq!(formats[2].client_suffix(0), "-deepstream");
        assert_eq!(formats[2].sensors[0].location.lat, -33.5);
        assert_eq!(formats[2].sensors[0].kind, "Camera");
    }
}
