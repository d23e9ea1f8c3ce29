// SPDX-License-Identifier: Apache-2.0
//! `record`: what is kept of the video on disk, for how long, and what a source changes of that.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use super::folders::state_folder;
use super::groups::KeptLabels;
use super::section::{KeyValue, Section};
use super::spool::parse_bytes;
use super::yaml::map::Map;
use super::yaml::node::Value;
use super::{Config, SourceConfig, Words};

/// Folder unless the configuration names another: `media` in `$JETWATCH_STATE_DIR`, or in `/var/lib/jetwatch`.
static MEDIA_FOLDER: LazyLock<PathBuf> = LazyLock::new(|| state_folder("media"));

/// Accepted form of the size of what is kept.
const STORED_SIZES: &str = "a size from 1MiB to 256TiB, such as 20GiB";

/// Accepted form of the size of a ring.
const RING_SIZES: &str = "a size from 1MiB to 1GiB, such as 32MiB";

/// Snapshots, clips and continuous recording, all off by default.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct RecordConfig {
    /// Folder of the files and their index; its parent must exist. Default: /var/lib/jetwatch/media.
    pub folder: Option<PathBuf>,
    /// The best picture of each track.
    pub snapshots: SnapshotConfig,
    /// The video around each track.
    pub clips: ClipConfig,
    /// All of the video.
    pub continuous: ContinuousConfig,
    /// Keep the sound of sources with AAC in clips and continuous recording. It records speech.
    #[key(default = false)]
    pub audio: bool,
    /// The encoder for sources that bring no H.264 or H.265.
    pub encoding: EncodingConfig,
    /// When files are deleted. Pinned ones never are.
    pub retention: RetentionConfig,
}

/// The best picture of each track.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default, check = check_snapshots)]
pub struct SnapshotConfig {
    /// Keep the best picture of each track as a JPEG file.
    #[key(default = false)]
    pub enabled: bool,
    /// Quality of the JPEG encoder.
    #[key(range = 1..=100, default = 85)]
    pub quality: u8,
    /// Maximum width. Default: as wide as the source.
    #[key(range = 64..=8192, unit = "pixels")]
    pub max_width: Option<u32>,
    /// Also publish the pictures over MQTT; the newest of each label is retained.
    #[key(default = false)]
    pub mqtt: bool,
    /// Draw box, label and score on pictures over MQTT, not on files.
    #[key(default = false)]
    pub drawn: bool,
    /// Labels or groups of the tracks. Default: all.
    #[key(text = "a label of the model")]
    pub labels: Vec<String>,
}

/// The video around each track.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default, check = check_lengths)]
pub struct ClipConfig {
    /// Keep the video around each track.
    #[key(default = false)]
    pub enabled: bool,
    /// What begins and prolongs a clip of a source with `onvif`.
    #[key(default = "objects")]
    pub trigger: ClipTrigger,
    /// Video before the start of the track, from a keyframe on.
    #[key(name = "pre_roll_s", range = 0..=60, default = 5)]
    pub pre_roll: Duration,
    /// Video after the end of the track.
    #[key(name = "post_roll_s", range = 0..=300, default = 5)]
    pub post_roll: Duration,
    /// Maximum length of a clip, with pre- and post-roll.
    #[key(name = "max_s", range = 1..=3600, default = 60)]
    pub max: Duration,
    /// Labels or groups of the tracks. Default: all.
    #[key(text = "a label of the model")]
    pub labels: Vec<String>,
    /// Zones that a track must have entered; sources without such a zone are not affected. Default: none.
    #[key(text = "the name of a zone")]
    pub zones: Vec<String>,
    /// Maximum memory for the video before a clip, per source.
    #[key(text = RING_SIZES, parse = parse_ring_size, default = "32MiB")]
    pub ring_bytes: u64,
}

/// What begins and prolongs a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Words)]
pub enum ClipTrigger {
    /// Tracks.
    #[default]
    Objects,
    /// Motion that the camera reports. Tracks prolong a clip, and begin none.
    Motion,
    /// Both.
    Any,
}

/// All of the video.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct ContinuousConfig {
    /// Keep all of the video.
    #[key(default = false)]
    pub enabled: bool,
    /// Length of a file.
    #[key(name = "segment_s", range = 10..=3600, default = 60)]
    pub segment: Duration,
}

/// The encoder for sources that bring no H.264 or H.265, such as raw and Motion JPEG cameras: once for clips, continuous recording and the live stream of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(default)]
pub struct EncodingConfig {
    /// Maximum rate of the encoded video.
    #[key(range = 1..=60, unit = "frames per second", default = 15)]
    pub max_fps: u32,
    /// Maximum bit rate of the encoded video; scenes at rest take less.
    #[key(range = 100..=50_000, unit = "kbit/s", default = 4000)]
    pub max_bitrate_kbps: u32,
}

/// When files are deleted.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct RetentionConfig {
    /// Files are deleted once they are older. Default: they have no maximum age.
    #[key(range = 1..=3650, unit = "days")]
    pub max_age_days: Option<u32>,
    /// Maximum size of the files of one source. Default: what the free space allows.
    #[key(text = STORED_SIZES, parse = parse_stored_size)]
    pub max_bytes_per_source: Option<u64>,
    /// Space that stays free on the disk.
    #[key(text = STORED_SIZES, parse = parse_stored_size, default = "1GiB")]
    pub min_free_bytes: u64,
    /// The same as a share of the disk; the greater of the two holds.
    #[key(range = 0..=90, unit = "percent", default = 5)]
    pub min_free_percent: u8,
}

/// What a source changes of `record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(default)]
pub struct SourceRecordConfig {
    /// Keep snapshots of this source. Default: record.snapshots.enabled.
    pub snapshots: Option<bool>,
    /// Keep clips of this source. Default: record.clips.enabled.
    pub clips: Option<bool>,
    /// Keep all video of this source. Default: record.continuous.enabled.
    pub continuous: Option<bool>,
    /// Keep the sound of this source. Default: record.audio.
    pub audio: Option<bool>,
}

impl RecordConfig {
    /// The folder of the files.
    pub fn folder_path(&self) -> &Path {
        self.folder.as_deref().unwrap_or(&MEDIA_FOLDER)
    }

    /// Whether snapshots of `source` are kept.
    #[must_use]
    pub fn has_snapshots(&self, source: &SourceConfig) -> bool {
        source.record.snapshots.unwrap_or(self.snapshots.enabled)
    }

    /// Whether clips of `source` are kept.
    #[must_use]
    pub fn has_clips(&self, source: &SourceConfig) -> bool {
        source.record.clips.unwrap_or(self.clips.enabled)
    }

    /// What begins the clips of `source`.
    pub fn clip_trigger(&self, source: &SourceConfig) -> ClipTrigger {
        match source.onvif {
            Some(_) => self.clips.trigger,
            None => ClipTrigger::Objects,
        }
    }

    /// Whether all video of `source` is kept.
    #[must_use]
    pub fn is_continuous(&self, source: &SourceConfig) -> bool {
        source.record.continuous.unwrap_or(self.continuous.enabled)
    }
}

impl RecordConfig {
    /// Whether the sound of `source` is kept with its video.
    #[must_use]
    pub fn has_audio(&self, source: &SourceConfig) -> bool {
        source.record.audio.unwrap_or(self.audio)
    }
}

impl Config {
    /// The sources of the file, and an example for each template: what the daemon may have to run.
    fn possible_sources(&self) -> impl Iterator<Item = SourceConfig> {
        let templates = self.source_templates.iter();
        let examples = templates.filter_map(|template| template.example_source());
        self.sources.iter().cloned().chain(examples)
    }

    /// Whether snapshots of any source are kept.
    pub fn has_snapshots(&self) -> bool {
        self.possible_sources()
            .any(|source| self.record.has_snapshots(&source))
    }

    /// Whether clips or all video of any source are kept.
    pub fn has_video_files(&self) -> bool {
        let has = |source: &SourceConfig| {
            self.record.has_clips(source) || self.record.is_continuous(source)
        };
        self.possible_sources().any(|source| has(&source))
    }

    /// Whether anything is kept in the folder of `record`.
    pub fn has_media(&self) -> bool {
        self.has_snapshots() || self.has_video_files()
    }
}

fn check_snapshots(map: &Map<'_>) {
    if map.boolean("drawn") == Some(true) && map.boolean("mqtt") == Some(false) {
        let what = "only pictures that are published are drawn on, and none is";
        map.invalid("drawn", what, Some("add mqtt: true, or leave it out"));
    }
}

fn check_lengths(map: &Map<'_>) {
    let seconds = |name| map.duration(name).map(|time: Duration| time.as_secs());
    let (Some(before), Some(after), Some(max)) = (
        seconds("pre_roll_s"),
        seconds("post_roll_s"),
        seconds("max_s"),
    ) else {
        return;
    };
    if before + after >= max {
        let given = ["max_s", "post_roll_s", "pre_roll_s"];
        let key = given.into_iter().find(|key| map.has(key));
        let what =
            format!("{before} s before and {after} s after a track leave nothing of {max} s");
        let hint = "raise max_s, or lower pre_roll_s or post_roll_s";
        map.invalid(key.unwrap_or("max_s"), &what, Some(hint));
    }
}

/// Records what does not hold between `record` and the other sections. `root` is the outermost map.
pub(super) fn check(root: &Map<'_>, sources: &[Map<'_>], detector: Option<&Map<'_>>) {
    if !root.has("record") {
        return;
    }
    let Some(record) = root.section("record") else {
        return;
    };
    if let Some(snapshots) = given_section(&record, "snapshots") {
        check_mqtt(root, &snapshots);
        check_labels(&snapshots, detector);
    }
    if let Some(clips) = given_section(&record, "clips") {
        check_labels(&clips, detector);
        check_zones(root, &clips, sources);
        check_trigger(root, &clips, sources);
    }
}

fn given_section<'d>(map: &Map<'d>, name: &str) -> Option<Map<'d>> {
    map.has(name).then(|| map.section(name)).flatten()
}

fn check_mqtt(root: &Map<'_>, snapshots: &Map<'_>) {
    let publish = given_section(root, "publish");
    let mqtt = publish.and_then(|publish| publish.get("mqtt"));
    let is_off = mqtt.is_some_and(|mqtt| matches!(mqtt.value(), Value::Text("off")));
    if is_off && snapshots.boolean("mqtt") == Some(true) {
        let hint = "name a broker in publish.mqtt, or leave it out";
        snapshots.invalid("mqtt", "publish.mqtt is off", Some(hint));
    }
}

fn check_labels(map: &Map<'_>, detector: Option<&Map<'_>>) {
    let Some(kept) = detector.and_then(KeptLabels::of) else {
        return;
    };
    for label in map.texts("labels").into_iter().flatten() {
        if !kept.keeps(&label) {
            let what = format!("`{label}` is not among detector.classes");
            let hint = "add it there, or leave it out here";
            map.invalid("labels", &what, Some(hint));
        }
    }
}

/// Records zones that no source has. Those of sources that commands add are not known yet.
fn check_zones(root: &Map<'_>, clips: &Map<'_>, sources: &[Map<'_>]) {
    if root.has("source_templates") {
        return;
    }
    let zones = sources.iter().filter_map(|source| source.list("zones"));
    let known: Vec<String> = zones
        .flatten()
        .filter_map(|zone| zone.text("name"))
        .collect();
    for zone in clips.texts("zones").into_iter().flatten() {
        if !known.contains(&zone) {
            let hint = match known.is_empty() {
                true => "no source has zones: leave it out".to_owned(),
                false => format!("known here: {}", known.join(", ")),
            };
            let what = format!("no source has a zone `{zone}`");
            clips.invalid("zones", &what, Some(&hint));
        }
    }
}

/// Motion is reported by cameras with `onvif` alone.
fn check_trigger(root: &Map<'_>, clips: &Map<'_>, sources: &[Map<'_>]) {
    let trigger = ClipTrigger::read(clips, "trigger").unwrap_or_default();
    let has_motion = root.has("source_templates") || sources.iter().any(|map| map.has("onvif"));
    if trigger != ClipTrigger::Objects && !has_motion {
        let hint = "add onvif: {events: motion} to the source whose camera reports it";
        clips.invalid(
            "trigger",
            "no source follows the motion of its camera",
            Some(hint),
        );
    }
}

fn parse_ring_size(text: &str) -> Option<u64> {
    parse_bytes(text, 1 << 20..=1 << 30)
}

fn parse_stored_size(text: &str) -> Option<u64> {
    parse_bytes(text, 1 << 20..=256 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mistakes::loaded;

    #[test]
    fn sources_override_what_is_kept() {
        let config = loaded(
            "sources: [{name: a, uri: /v.mp4, record: {snapshots: false, clips: true}}]\nrecord: {snapshots: {enabled: true}}",
        );
        assert!(!config.has_snapshots() && config.has_video_files());
        let source = &config.sources[0];
        assert!(config.record.has_clips(source) && !config.record.is_continuous(source));
        let config = loaded("record: {continuous: {enabled: true, segment_s: 30}}");
        assert!(config.has_video_files());
    }

    #[test]
    fn sizes_have_bounds() {
        for (text, ring, stored) in [
            ("1MiB", true, true),
            ("1GiB", true, true),
            ("2GiB", false, true),
            ("256TiB", false, true),
            ("257TiB", false, false),
            ("0MiB", false, false),
            ("5", false, false),
        ] {
            assert_eq!(parse_ring_size(text).is_some(), ring, "{text}");
            assert_eq!(parse_stored_size(text).is_some(), stored, "{text}");
        }
    }
}
