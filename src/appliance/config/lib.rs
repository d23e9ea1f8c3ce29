//! FLOOR 1: the YAML file as one checked value.
//!
//! [`Config::load`] reads a file and gives either a [`Config`] whose every value was checked, or a [`ConfigError`] that
//! lists *all* problems, each with its line, key path, the value found and the accepted form. Nothing here touches the
//! network, a camera or a model: that is what `jetwatch check` does with the result. Rooms above trust these types.
//!
//! [`Document`] is the located tree below it; `detect` reads `model.yaml` through it, so that both kinds of file are
//! refused in the same way. [`KEYS`] is the one list of keys: the loader, its error texts, [`json_schema`] and the tests
//! of the example files are all made from it. Relative paths in a file count from the folder of that file; `~` is not
//! expanded. Neither an error nor a `Debug` form shows a password.

mod changes;
mod document;
mod error;
mod fields;
mod form;
mod keys;
mod load;
mod map;
mod mask;
mod node;
mod overlay;
mod parse_uri;
mod places;
mod roi;
mod rules;
mod schema;
mod secondary;
mod secret;
mod shape;
mod template;
mod tracker;
mod tree;
mod uri;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jetwatch_types::Region;

pub use changes::SourceChanges;
pub use document::Document;
pub use error::{ConfigError, Problem};
pub use form::{Fallback, Form, Key, Unit};
pub use keys::{ROOT as KEYS, SYNTHETIC as SYNTHETIC_KEYS};
pub use map::Map;
pub use mask::mask_secrets;
pub use node::{Node, Value};
pub(crate) use places::Places;
pub use rules::{DirectionRule, LineRule, SceneRules, StationaryRule, ZoneRule};
pub use schema::json_schema;
pub use secondary::SecondaryConfig;
pub use secret::{Secret, SecretError};
pub use shape::{Area, Line, Point, ShapeError, parse_points};
pub use template::{Choices, SourceTemplate, TemplateError, TemplateParameter};
pub use tracker::{Association, ClassMatch, LowScores, TrackerConfig, TrackerKind};
pub use uri::{Pace, RtspTransport, SourceUri, SyntheticScene, V4l2Format};

/// Everything that one daemon is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of this device in topics and messages; default: the host name.
    pub device: String,
    /// At least one source; names are unique.
    pub sources: Vec<SourceConfig>,
    /// The primary detector.
    pub detector: DetectorConfig,
    /// The tracker behind it.
    pub tracker: TrackerConfig,
    /// Networks that look at what is tracked; names are unique, and none stands on itself.
    pub secondary: Vec<SecondaryConfig>,
    /// Where tracks go.
    pub publish: PublishConfig,
    /// What may be asked of the running daemon.
    pub commands: CommandsConfig,
    /// Sources that commands may add by name.
    pub source_templates: Vec<SourceTemplate>,
    /// How the machine itself is set.
    pub tune: TuneConfig,
    /// What is logged.
    pub log: LogConfig,
    /// Where in the file all this stands.
    pub(crate) places: Places,
}

/// Most sources of one daemon.
pub const MAX_SOURCES: usize = 64;

/// One camera, file or pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceConfig {
    /// Its name in topics: letters, digits, `-` and `_`.
    pub name: String,
    /// What to open.
    pub uri: SourceUri,
    /// Files and finite synthetic scenes: start over at the end. Default: false.
    pub loop_at_end: bool,
    /// Threads of a software decoder; 0: one per core. Default 1: several sources decode side by side anyway, and each
    /// more costs a frame of delay and memory of its own.
    pub decoder_threads: u32,
    /// What decodes. Default: auto.
    pub decoder: DecoderChoice,
    /// What crops, scales and converts colors. Default: auto.
    pub scaling: Scaling,
    /// No frame for this long means that the source has stalled and is opened anew; its first one has
    /// [`first_frame_timeout`](Self::first_frame_timeout). Default: 5 s.
    pub stall_timeout: Duration,
    /// First wait before a reconnect; doubles at each failure up to `reconnect_max_wait`. Default: 500 ms.
    pub reconnect_wait: Duration,
    /// Longest wait between reconnects. Default: 30 s.
    pub reconnect_max_wait: Duration,
    /// How often its frames skip the network; `None`: as the detector says.
    pub interval: Option<Interval>,
    /// What is watched for in its picture. Default: nothing.
    pub rules: SceneRules,
    /// The part of its picture that the network looks at; `None`: all of it.
    pub roi: Option<Region>,
    /// Most frames per second that are scaled and looked at, above 0; `None`: all.
    pub max_fps: Option<f32>,
    /// Detections of this source below this score are dropped behind the network, 0 to 1; `None`: none are.
    pub score_threshold: Option<f32>,
    /// Labels of this source to keep, behind the network; empty: all that the detector gives.
    pub classes: Vec<String>,
}

/// Least time for a file's first frame.
const FIRST_OF_A_FILE: Duration = Duration::from_secs(20);

impl SourceConfig {
    /// How long its first frame may take. A camera that is away is opened anew; a file fails for good, and on a machine that
    /// has just started the libraries that decode it come from a cold disk: it has 20 s at least.
    #[must_use]
    pub fn first_frame_timeout(&self) -> Duration {
        match self.uri.is_live() {
            true => self.stall_timeout,
            false => self.stall_timeout.max(FIRST_OF_A_FILE),
        }
    }
}

/// What decodes video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecoderChoice {
    /// The machine's video decoder for what it can decode, the processor for the rest.
    #[default]
    Auto,
    /// The machine's video decoder, or an error.
    Hardware,
    /// The processor.
    Software,
}

/// What crops, scales and converts colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scaling {
    /// The VIC where the machine has one and it can do what is needed, else the processor; never the GPU, which has the
    /// network to run.
    #[default]
    Auto,
    /// The video image compositor of a Jetson, or an error.
    Vic,
    /// The GPU of a Jetson, or an error.
    Gpu,
    /// The processor.
    Cpu,
}

/// Most frames in one batch.
pub const MAX_BATCH_SIZE: i64 = 64;

/// The primary detector.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectorConfig {
    /// Which implementation.
    pub backend: Backend,
    /// Model folder with its `model.yaml`; `None` only for [`Backend::Scripted`].
    pub model: Option<PathBuf>,
    /// Precision whose file is taken from the model folder, such as `fp32` or `int8`; `None`: the model's first, and with
    /// TensorRT int8 where the model has it.
    pub precision: Option<String>,
    /// Detections below this score are dropped, 0 to 1. `None`: the model's own.
    pub score_threshold: Option<f32>,
    /// Boxes of one class that overlap a better one by more than this IOU are dropped, 0 to 1. `None`: the model's own.
    pub nms_iou: Option<f32>,
    /// Labels to keep; empty: all.
    pub classes: Vec<String>,
    /// Most frames in one batch. Default 1.
    pub batch_size: usize,
    /// Longest wait of a batch's first frame for company. Default 10 ms.
    pub batch_timeout: Duration,
    /// How often frames skip the network, unless their source says otherwise. Default: never.
    pub interval: Interval,
    /// The most that [`Interval::Adaptive`] may choose. Default 5.
    pub max_interval: u32,
    /// Detectors that run side by side. Default 2.
    pub workers: usize,
    /// Threads of the network inside each worker. Default 1.
    pub threads_per_worker: usize,
    /// Path of libonnxruntime.so; `None`: `ORT_DYLIB_PATH`, then the usual places.
    pub onnxruntime: Option<PathBuf>,
    /// ONNX Runtime only: what runs the network. Default: auto.
    pub onnx_provider: OnnxProvider,
    /// TensorRT only: its library, its engines, and how they are built.
    pub tensorrt: TensorRtConfig,
    /// Scripted detector only: labels and imperfections.
    pub scripted: ScriptedConfig,
}

/// How often frames of a source skip the network, with their tracks carried by the tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// So many after each one that goes through it; 0: none.
    Frames(u32),
    /// As few as keep every live source without drops.
    Adaptive,
}

impl Interval {
    /// Whether a frame ever skips the network.
    #[must_use]
    pub fn can_skip(self) -> bool {
        self != Self::Frames(0)
    }
}

/// Implementations of the detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The best that can work here with the model given.
    Auto,
    /// ONNX Runtime.
    Onnx,
    /// An engine that TensorRT has built for this GPU.
    TensorRt,
    /// Ground truth of synthetic sources, for demonstrations and tests. It looks at no pixel.
    Scripted,
}

/// What runs the network with ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnnxProvider {
    /// The GPU where that works, else the processor.
    Auto,
    /// The processor.
    Cpu,
    /// The first NVIDIA GPU, or an error.
    Cuda,
}

/// TensorRT's library, its engines, and how they are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorRtConfig {
    /// Path of libnvinfer.so, or the folder that holds it; `None`: where the system's loader finds it.
    pub library: Option<PathBuf>,
    /// Folder of the engines. Default `/var/lib/jetwatch/engines`.
    pub engines: PathBuf,
    /// Whether the daemon may build an engine. Default: never.
    pub build: EngineBuild,
    /// The DLA core that runs what it can of the network, from 0; `None`: the GPU runs all of it.
    pub dla: Option<u32>,
    /// Layers that the DLA cannot run are run by the GPU. Default: yes.
    pub gpu_fallback: bool,
    /// Memory that a layer may use while it computes, in MiB; `None`: TensorRT's own choice.
    pub workspace_mib: Option<u64>,
    /// Calibration cache that makes INT8 of a network in FP32.
    pub calibration: Option<PathBuf>,
}

/// Folder of the engines unless the configuration names another.
pub const ENGINES_FOLDER: &str = "/var/lib/jetwatch/engines";

impl Default for TensorRtConfig {
    fn default() -> Self {
        Self {
            library: None,
            engines: ENGINES_FOLDER.into(),
            build: EngineBuild::Never,
            dla: None,
            gpu_fallback: true,
            workspace_mib: None,
            calibration: None,
        }
    }
}

/// What becomes of a missing engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineBuild {
    /// It is an error, with the command that builds it.
    Never,
    /// It is built, which takes minutes on a Jetson.
    Allow,
}

/// How the scripted detector differs from the truth. All zero: it repeats it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScriptedConfig {
    /// Share of objects missed, 0 to 1.
    pub miss_rate: f32,
    /// Largest shift of each box edge, as a share of the box's side, 0 to 1.
    pub jitter: f32,
    /// Objects less visible than this are not seen, 0 to 1.
    pub min_visible: f32,
    /// Seed of misses and shifts.
    pub seed: u64,
    /// Time that a frame takes, in which a worker is busy; zero: as little as it needs.
    pub frame_time: Duration,
}

/// Where tracks go. Several sinks may be on at once.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishConfig {
    /// MQTT; `None` when `publish.mqtt: off`.
    pub mqtt: Option<MqttConfig>,
    /// JSON lines; `None` when not configured.
    pub json_lines: Option<JsonLinesConfig>,
    /// Shortest time between two `update` events of one track. Default 500 ms.
    pub update_interval: Duration,
    /// Time between two `stats` messages. Default 10 s.
    pub stats_interval: Duration,
    /// Whether every frame's tracks are published below `<source>/detections`. Default false.
    pub detections: bool,
}

/// The MQTT client.
#[derive(Debug, Clone, PartialEq)]
pub struct MqttConfig {
    /// Which broker.
    pub broker: Broker,
    /// First level of every topic. Default `jetwatch`.
    pub prefix: String,
    /// MQTT client id; default `jetwatch-<device>`.
    pub client_id: String,
    /// User and where the password comes from.
    pub credentials: Option<Credentials>,
    /// Trust and identity, for `mqtts://`.
    pub tls: TlsConfig,
    /// MQTT keep-alive. Default 15 s.
    pub keep_alive: Duration,
    /// Messages kept while the broker is away; more are dropped, oldest first, and counted. Default 10 000.
    pub queue_messages: usize,
}

/// Which broker.
#[derive(Debug, Clone, PartialEq)]
pub enum Broker {
    /// One inside the daemon, listening on this address. Default 127.0.0.1:1883.
    Embedded {
        /// Where it listens.
        listen: SocketAddr,
    },
    /// One elsewhere.
    Url {
        /// Host name or address.
        host: String,
        /// Port; 1883, or 8883 with TLS.
        port: u16,
        /// `mqtts://` instead of `mqtt://`.
        tls: bool,
    },
}

/// User name and password source.
#[derive(Clone, PartialEq)]
pub struct Credentials {
    /// User name.
    pub user: String,
    /// Where the password is.
    pub password: Secret,
}

/// TLS of the MQTT client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsConfig {
    /// PEM file of the certificate authorities to trust; `None`: the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the client's certificate chain.
    pub cert_file: Option<PathBuf>,
    /// PEM file of the client's key.
    pub key_file: Option<PathBuf>,
}

/// The JSON-lines sink.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonLinesConfig {
    /// File to append to; `None`: standard output.
    pub path: Option<PathBuf>,
}

/// What may be asked of the running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandsConfig {
    /// Whether commands over MQTT are listened to. Default: no.
    pub enabled: bool,
}

/// How the machine itself is set, by `jetwatch tune`. `None`: as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TuneConfig {
    /// A power mode of this machine, by its number or name.
    pub power_mode: Option<String>,
    /// What becomes of the clocks. Default: nothing.
    pub clocks: ClockTuning,
    /// A profile of the fan, by its name.
    pub fan_profile: Option<String>,
    /// `kernel.perf_event_paranoid`, -1 to 4.
    pub perf_event_paranoid: Option<i32>,
    /// Whether all is given back when the unit `jetwatch-tune` stops. Default: no.
    pub restore_on_stop: bool,
}

/// What becomes of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockTuning {
    /// The system moves them as it likes.
    #[default]
    Leave,
    /// They are held at the highest that the power mode allows.
    Max,
}

/// What is logged.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// Least severity. Default: info.
    pub level: log::LevelFilter,
    /// GStreamer's own log, in the syntax of `GST_DEBUG`, bridged into ours. Default `*:1` (errors; demuxers warn about sound files).
    pub gst_debug: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("password", &self.password)
            .finish()
    }
}
