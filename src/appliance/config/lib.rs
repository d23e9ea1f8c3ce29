// SPDX-License-Identifier: Apache-2.0
//! The configuration: the YAML file as one checked value.
//!
//! [`Config::load`] reads a file and gives either a [`Config`] whose every value was checked, or a [`ConfigError`] that
//! lists *all* problems, each with its line, key path, the value found and the accepted form. Nothing here touches the
//! network, a camera or a model: that is what `jetwatch check` does with the result. The other crates trust these types.
//!
//! A section of the file is a struct that derives [`Section`](trait@Section): a field is a key, with its type, unit, range,
//! default and description. The reader, [`json_schema`] and the reference page come from that one declaration; rules between
//! keys are functions in the same file. [`Document`] is the located tree below; `detect` reads `model.yaml` through it, so that
//! both kinds of file are reported in the same way. Relative paths in a file count from the folder of that file; `~` is not
//! expanded. Neither an error nor a `Debug` form shows a password.

mod analytics;
mod camera_keys;
mod credentials;
mod detector;
mod diff;
mod error;
mod folders;
mod foreign_keys;
mod geometry;
mod groups;
mod home_assistant;
mod json_schema;
mod key_spans;
mod load;
mod logging;
mod metrics;
#[cfg(test)]
mod mistakes;
mod mqtt_broker;
mod mqtt_states;
mod names;
mod onvif;
mod other_formats;
mod overrides;
mod placeholder;
mod publish;
mod record;
mod redact;
mod reference;
mod renamed;
mod roi;
mod rule_edit;
mod schedule;
mod schema;
mod secondary;
#[cfg(test)]
mod secrecy;
mod secret;
mod secret_names;
mod section;
mod source;
mod spool;
mod template;
mod template_rules;
mod tracker;
mod tune;
mod uri;
mod web;
mod webhook;
mod written;
mod yaml;

// The derived code names this crate as others do.
extern crate self as jetwatch_config;

pub use analytics::{DirectionRule, LineRule, STATIONARY, SceneRules, StationaryRule, ZoneRule};
pub use detector::{
    Backend, DetectorConfig, ENGINES_FOLDER, EngineBuild, Interval, MAX_BATCH_SIZE, OnnxProvider,
    ScriptedConfig, TensorRtConfig,
};
pub use diff::{SourceDiff, restart_required_keys};
pub use error::{ConfigError, Problem};
pub use folders::{model_folders, of_user, own_state_folder, page_files, user_cache};
pub use geometry::{GeometryError, Point, Polygon, Segment, parse_points};
pub use home_assistant::HomeAssistantConfig;
pub use json_schema::{json_schema, schema_of};
pub(crate) use key_spans::KeySpans;
pub use logging::LogConfig;
pub use metrics::{MetricsConfig, MetricsTlsConfig};
pub use mqtt_broker::Broker;
pub use mqtt_states::StatesConfig;
pub use onvif::{OnvifConfig, OnvifEvents};
pub use other_formats::{
    Coordinate, DeepStreamPayload, FormatConfig, FormatKind, Location, ObjectKinds, PlaceConfig,
    ReviewConfig, SensorConfig,
};
pub use publish::{
    Credentials, JsonLinesConfig, MqttConfig, MqttVersion, PublishConfig, TlsConfig,
};
pub use record::{
    ClipConfig, ClipTrigger, ContinuousConfig, EncodingConfig, RecordConfig, RetentionConfig,
    SnapshotConfig, SourceRecordConfig,
};
pub use redact::{redact, redact_parameters};
pub use reference::{append_lists, configuration_page, escape_markdown, heading_slug};
pub use rule_edit::{
    EditedRule, FileRules, RuleEditError, WrittenRules, add_sources, edit_rules, rules_of_file,
    rules_yaml,
};
pub use schedule::NamedSchedule;
pub use schema::{DefaultValue, KeySpec, Unit, ValueType};
pub use secondary::{MAX_CROP_BATCH_SIZE, SecondaryConfig};
pub use secret::{Secret, SecretError};
pub use secret_names::is_secret_property;
pub use section::{KeyValue, ListItem, Parsed, Section, Words};
#[doc(hidden)]
pub use section::{assert_all_optional, count_keys, defaults, join_keys};
pub use source::{DecoderChoice, MAX_SOURCES, Playback, Scaling, SourceConfig};
pub use spool::{Durability, RUNTIME_FOLDER, Replay, STATE_FOLDER, SpoolConfig};
pub use template::{Choices, CommandsConfig, SourceTemplate, TemplateError, TemplateParameter};
pub use tracker::{
    Association, ByteTrackConfig, CameraMotionModel, ClassMatch, OcSortConfig, TrackerConfig,
    TrackerKind,
};
pub use tune::{ClockTuning, TuneConfig};
pub use uri::{Pacing, RtspTransport, SourceUri, SyntheticScene, V4l2Format};
pub use web::{Network, PreviewConfig, WebConfig, WebRole, WebTlsConfig};
pub use webhook::{Header, HttpUrl, WebhookConfig, WebhookEvent, WebhookSpool};
pub use yaml::document::Document;
pub use yaml::map::Map;
pub use yaml::node::{Node, Value};

use jetwatch_schedule::Zone;

/// The configuration of one daemon.
#[derive(Debug, Clone, Section)]
pub struct Config {
    /// Name of this device in topics and messages. Default: the host name.
    #[key(text = names::DEVICE, check = names::is_device, default_with = |_| names::device())]
    pub device: String,
    /// What to watch: cameras, files, patterns.
    ///
    /// At least one; names are unique.
    #[key(required)]
    pub sources: Vec<SourceConfig>,
    /// The time zone of schedules that name none. Default: that of the system.
    #[key(value = ValueType::Text("an IANA name such as Europe/Berlin"), read = schedule::time_zone)]
    pub time_zone: Option<Zone>,
    /// Windows by name: one or a list each, with the keys days (of mon, tue, wed, thu, fri, sat, sun), from, to and time_zone. Default: none.
    pub schedules: Vec<NamedSchedule>,
    /// The network that finds objects.
    pub detector: DetectorConfig,
    /// How detections become tracks.
    pub tracker: TrackerConfig,
    /// Networks that run on crops of tracked objects. Default: none.
    ///
    /// Names are unique, and none runs on itself.
    pub secondary: Vec<SecondaryConfig>,
    /// Where tracks go.
    pub publish: PublishConfig,
    /// Snapshots, clips and continuous recording, all off by default.
    pub record: RecordConfig,
    /// Entities in Home Assistant.
    pub homeassistant: HomeAssistantConfig,
    /// Figures for Prometheus. Off unless listen or text_file is given.
    pub metrics: MetricsConfig,
    /// The page of the daemon: pictures, events, the device, zones.
    pub web: WebConfig,
    /// Commands over MQTT.
    pub commands: CommandsConfig,
    /// Sources that commands may add by name. Default: none.
    pub source_templates: Vec<SourceTemplate>,
    /// Settings of the device, for jetwatch tune.
    pub tune: TuneConfig,
    /// What is logged.
    pub log: LogConfig,
    /// What the file should say in another way, one line each.
    #[key(no_key, read = no_notes)]
    pub notes: Vec<String>,
    /// Where in the file all this stands.
    #[key(no_key, read = key_spans)]
    pub(crate) key_spans: KeySpans,
}

/// The loader adds them.
fn no_notes(_: &Map<'_>) -> Option<Vec<String>> {
    Some(Vec::new())
}

fn key_spans(map: &Map<'_>) -> Option<KeySpans> {
    Some(KeySpans::of(map.node().document()))
}
