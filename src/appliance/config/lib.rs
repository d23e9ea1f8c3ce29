//! The configuration: the YAML file as one checked value.
//!
//! [`Config::load`] reads a file and gives either a [`Config`] whose every value was checked, or a [`ConfigError`] that
//! lists *all* problems, each with its line, key path, the value found and the accepted form. Nothing here touches the
//! network, a camera or a model: that is what `jetwatch check` does with the result. The other crates trust these types.
//!
//! A section of the file is a struct that derives [`Section`](trait@Section): a field is a key, with its type, unit, range,
//! default and description. The reader, [`json_schema`] and the reference page come from that one declaration; rules between
//! keys are functions beside it. [`Document`] is the located tree below; `detect` reads `model.yaml` through it, so that
//! both kinds of file are reported in the same way. Relative paths in a file count from the folder of that file; `~` is not
//! expanded. Neither an error nor a `Debug` form shows a password.

mod analytics;
mod camera_keys;
mod changes;
mod credentials;
mod detector;
mod document;
mod error;
mod fields;
mod json_schema;
mod load;
mod logging;
mod map;
mod mask;
mod mqtt_broker;
mod names;
mod node;
mod overlay;
mod parse_uri;
mod places;
mod publish;
mod reference;
mod roi;
mod schema;
mod secondary;
mod secret;
mod section;
mod shape;
mod source;
mod template;
mod template_rules;
mod tracker;
mod tree;
mod tune;
mod uri;

// The derived code names this crate as others do.
extern crate self as jetwatch_config;

pub use analytics::{DirectionRule, LineRule, SceneRules, StationaryRule, ZoneRule};
pub use changes::SourceChanges;
pub use detector::{
    Backend, DetectorConfig, ENGINES_FOLDER, EngineBuild, Interval, MAX_BATCH_SIZE, OnnxProvider,
    ScriptedConfig, TensorRtConfig,
};
pub use document::Document;
pub use error::{ConfigError, Problem};
pub use json_schema::json_schema;
pub use logging::LogConfig;
pub use map::Map;
pub use mask::mask_secrets;
pub use mqtt_broker::Broker;
pub use node::{Node, Value};
pub(crate) use places::Places;
pub use publish::{Credentials, JsonLinesConfig, MqttConfig, PublishConfig, TlsConfig};
pub use reference::configuration_page;
pub use schema::{DefaultValue, KeySpec, Unit, ValueType};
pub use secondary::SecondaryConfig;
pub use secret::{Secret, SecretError};
pub use section::{KeyValue, ListItem, Parsed, Section, Words};
#[doc(hidden)]
pub use section::{assert_all_optional, count_keys, defaults, join_keys};
pub use shape::{Area, Line, Point, ShapeError, parse_points};
pub use source::{DecoderChoice, MAX_SOURCES, Scaling, SourceConfig};
pub use template::{Choices, CommandsConfig, SourceTemplate, TemplateError, TemplateParameter};
pub use tracker::{Association, ClassMatch, LowScores, TrackerConfig, TrackerKind};
pub use tune::{ClockTuning, TuneConfig};
pub use uri::{Pace, RtspTransport, SourceUri, SyntheticScene, V4l2Format};

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
    /// The network that finds objects.
    pub detector: DetectorConfig,
    /// How detections become tracks.
    pub tracker: TrackerConfig,
    /// Networks that run on the crops of tracked objects: classifiers, and detectors of their parts. Default: none.
    ///
    /// Names are unique, and none runs on itself.
    pub secondary: Vec<SecondaryConfig>,
    /// Where tracks go.
    pub publish: PublishConfig,
    /// What may be asked of the running daemon over MQTT.
    pub commands: CommandsConfig,
    /// Sources that commands may add by name. Default: none.
    pub source_templates: Vec<SourceTemplate>,
    /// Settings of the machine, for jetwatch tune.
    pub tune: TuneConfig,
    /// What is logged.
    pub log: LogConfig,
    /// Where in the file all this stands.
    #[key(no_key, read = places)]
    pub(crate) places: Places,
}

fn places(map: &Map<'_>) -> Option<Places> {
    Some(Places::of(map.node().document()))
}
