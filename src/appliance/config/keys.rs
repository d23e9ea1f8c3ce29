//! Every key of `jetwatch.yaml`: its form, its range, its default, and what it is for.
//!
//! This is the only list. The loader reads by it, error texts and `configs/jetwatch.schema.json` are made from it, and
//! tests hold the example files against it. A key that is added here and read in [`load`](super::load) is complete.
//! The detector's, the tracker's and the secondary networks' keys have files of their own below.

mod commands;
mod detector;
mod scene;
mod secondary;
mod tracker;

pub(super) use self::commands::TEMPLATE_SOURCE;
use self::commands::{COMMANDS, TEMPLATE};
use self::detector::{DETECTOR, INTERVAL};
use self::scene::{DIRECTION, LINE, STATIONARY, ZONE};
use self::secondary::SECONDARY;
use self::tracker::TRACKER;
use super::form::{Fallback, Form, Key, Unit};

/// The outermost map.
pub const ROOT: &[Key] = &[
    Key::new(
        "device",
        Form::Text("letters, digits, `-`, `_` and `.`, at most 64"),
        "Name of this device in topics and messages. Default: the host name.",
    ),
    Key::required(
        "sources",
        Form::Maps(SOURCE),
        "What to watch: cameras, files, patterns.",
    ),
    Key::new(
        "detector",
        Form::Map(DETECTOR),
        "The network that finds objects.",
    ),
    Key::new(
        "tracker",
        Form::Map(TRACKER),
        "How detections become tracks.",
    ),
    Key::new(
        "secondary",
        Form::Maps(SECONDARY),
        "Networks that look at tracked objects: classifiers, and detectors of their parts. Default: none.",
    ),
    Key::new("publish", Form::Map(PUBLISH), "Where tracks go."),
    Key::new(
        "commands",
        Form::Map(COMMANDS),
        "What may be asked of the running daemon over MQTT.",
    ),
    Key::new(
        "source_templates",
        Form::Maps(TEMPLATE),
        "Sources that commands may add by name. Default: none.",
    ),
    Key::new(
        "tune",
        Form::Map(TUNE),
        "How the machine itself is set, by jetwatch tune.",
    ),
    Key::new("log", Form::Map(LOG), "What is logged."),
];

/// One of `sources`.
pub const SOURCE: &[Key] = &[
    Key::required(
        "name",
        Form::Text("letters, digits, `-` and `_`, at most 64"),
        "Name of the source in topics and messages; unique, also when case is ignored.",
    ),
    Key::required(
        "uri",
        Form::Text(URI_FORMS),
        "What to open: a path or file://, rtsp:// or rtsps://, v4l2:///dev/video0, csi://0, launch:ELEMENTS, images:FOLDER (its JPEG and PNG files), or synthetic://traffic with the parameters seed, objects, width, height, fps, frames, realtime.",
    ),
    Key::or(
        "loop",
        Form::Boolean,
        Fallback::Boolean(false),
        "Start over at the end. Files, and synthetic scenes with `frames`.",
    ),
    Key::or(
        "decoder_threads",
        Form::count(0, 64, "threads"),
        Fallback::Integer(1),
        "Threads of a software decoder; 0: one per core.",
    ),
    Key::or(
        "decoder",
        Form::Words(&["auto", "hardware", "software"]),
        Fallback::Text("auto"),
        "What decodes: auto takes the machine's video decoder for what it can decode, and the processor for the rest; hardware and software refuse the other.",
    ),
    Key::or(
        "scaling",
        Form::Words(&["auto", "vic", "gpu", "cpu"]),
        Fallback::Text("auto"),
        "What crops, scales and converts colors: auto takes the VIC of a Jetson where it can do that, else the processor, and never the GPU; the other words refuse to run on anything else.",
    ),
    Key::or(
        "stall_timeout_ms",
        Form::milliseconds(100, 600_000),
        Fallback::Integer(5000),
        "No frame for this long means that the source has stalled; it is opened anew. The first frame of a file has 20 s at least.",
    ),
    Key::or(
        "reconnect_wait_ms",
        Form::milliseconds(10, 600_000),
        Fallback::Integer(500),
        "First wait before a reconnect; it doubles at each failure.",
    ),
    Key::or(
        "reconnect_max_wait_ms",
        Form::milliseconds(10, 3_600_000),
        Fallback::Integer(30_000),
        "Longest wait between reconnects.",
    ),
    Key::new(
        "roi",
        Form::Text("left,top,width,height, each from 0 to 1, such as 0.25,0.5,0.5,0.5"),
        "The part of the picture that the network looks at, in shares of the picture's width and height; it is cut out before it is scaled. Boxes, zones and lines stay in the whole picture. Default: all of it.",
    ),
    Key::new(
        "max_fps",
        Form::Number {
            min: 0.0,
            min_accepted: false,
            max: 240.0,
        },
        "Most frames per second that are scaled and looked at; the others are left out before they are scaled, evenly. Default: all.",
    ),
    Key::new(
        "score_threshold",
        Form::share(),
        "Detections of this source below this score are dropped, behind the network: it can be stricter than detector.score_threshold, not weaker. Default: the detector's.",
    ),
    Key::new(
        "classes",
        Form::Texts("a label of the model"),
        "Labels of this source to keep, of those that the detector gives. Default: all of them.",
    ),
    Key::or(
        "transport",
        Form::Words(&["tcp", "udp"]),
        Fallback::Text("tcp"),
        "RTSP only: transport of the media.",
    ),
    Key::or(
        "latency_ms",
        Form::milliseconds(0, 10_000),
        Fallback::Integer(200),
        "RTSP only: jitter buffer.",
    ),
    Key::new(
        "user",
        Form::Text("a user name"),
        "RTSP only: user name; needs one of the three password keys.",
    ),
    Key::new(
        "password",
        Form::Secret,
        "RTSP only: the password itself. Better: password_file or password_env.",
    ),
    Key::new(
        "password_file",
        Form::Path,
        "RTSP only: file whose first line is the password; read at every connect.",
    ),
    Key::new(
        "password_env",
        Form::Text("the name of an environment variable"),
        "RTSP only: environment variable that holds the password; where it is not set, a line of secrets.env beside this file.",
    ),
    Key::or(
        "format",
        Form::Words(&["any", "raw", "mjpeg"]),
        Fallback::Text("any"),
        "V4L2 only: what to ask of the camera.",
    ),
    Key::new(
        "width",
        Form::count(16, 7680, "pixels"),
        "V4L2 and CSI: width to ask for, together with height. Default: a V4L2 camera gives the largest that it offers, often at a low rate, and a CSI camera what its driver prefers.",
    ),
    Key::new(
        "height",
        Form::count(16, 4320, "pixels"),
        "V4L2 and CSI: height to ask for, together with width. Default: as with width.",
    ),
    Key::new(
        "fps",
        Form::count(1, 240, "frames per second"),
        "V4L2 and CSI: rate to ask for. Default: the highest for that size.",
    ),
    Key::new(
        "sensor_mode",
        Form::Integer {
            min: 0,
            max: 63,
            unit: Unit::None,
        },
        "CSI only: number of the sensor's mode, as nvarguscamerasrc lists them. Default: the one that fits width, height and fps.",
    ),
    Key::new(
        "interval",
        INTERVAL,
        "Frames that skip the network after each one that goes through it, or adaptive. Default: detector.interval.",
    ),
    Key::new(
        "zones",
        Form::Maps(ZONE),
        "Areas of the picture in which objects are counted. Default: none.",
    ),
    Key::new(
        "lines",
        Form::Maps(LINE),
        "Lines in the picture whose crossings are counted. Default: none.",
    ),
    Key::new(
        "directions",
        Form::Maps(DIRECTION),
        "Ways that objects go. Default: none.",
    ),
    Key::new(
        "stationary",
        Form::Map(STATIONARY),
        "Tells when an object comes to rest, and when it moves again. Default: not told.",
    ),
];

/// Keys of a source that only an RTSP camera has.
pub(super) const RTSP_ONLY: &[&str] = &[
    "transport",
    "latency_ms",
    "user",
    "password",
    "password_file",
    "password_env",
];

/// Keys of a source that only a V4L2 camera has.
pub(super) const V4L2_ONLY: &[&str] = &["format"];

/// Keys of a source that only a CSI camera has.
pub(super) const CSI_ONLY: &[&str] = &["sensor_mode"];

/// Keys of a source that every camera at this machine has, V4L2 or CSI.
pub(super) const LOCAL_CAMERA_ONLY: &[&str] = &["width", "height", "fps"];

/// What `uri` may be.
pub(super) const URI_FORMS: &str = "a path, file://, rtsp://, rtsps://, v4l2:///dev/video0, csi://0, launch:…, images:FOLDER or synthetic://traffic";

/// Parameters of `synthetic://traffic?…`. They are not keys of the file but are checked by the same means.
pub const SYNTHETIC: &[Key] = &[
    Key::or(
        "seed",
        Form::Integer {
            min: 0,
            max: i64::MAX,
            unit: Unit::None,
        },
        Fallback::Integer(1),
        "Same seed, same pixels and boxes.",
    ),
    Key::or(
        "objects",
        Form::count(0, 200, "objects"),
        Fallback::Integer(8),
        "Objects in the scene at a time.",
    ),
    Key::or(
        "width",
        Form::count(16, 7680, "pixels"),
        Fallback::Integer(640),
        "Pixels in a row.",
    ),
    Key::or(
        "height",
        Form::count(16, 4320, "pixels"),
        Fallback::Integer(360),
        "Rows.",
    ),
    Key::or(
        "fps",
        Form::count(1, 240, "frames per second"),
        Fallback::Integer(30),
        "Frames per second.",
    ),
    Key::new(
        "frames",
        Form::count(1, 1_000_000_000, "frames"),
        "Frames until the end. Default: endless.",
    ),
    Key::or(
        "realtime",
        Form::Boolean,
        Fallback::Boolean(true),
        "Paced like a camera; false: as fast as frames are taken, like a file.",
    ),
];

/// `publish`.
pub const PUBLISH: &[Key] = &[
    Key::or(
        "update_interval_ms",
        Form::milliseconds(0, 600_000),
        Fallback::Integer(500),
        "Shortest time between two update events of one track; 0: one with every frame.",
    ),
    Key::or(
        "stats_interval_s",
        Form::seconds(1, 86_400),
        Fallback::Integer(10),
        "Time between two messages with statistics.",
    ),
    Key::or(
        "detections",
        Form::Boolean,
        Fallback::Boolean(false),
        "Publish the tracks of every frame too, below SOURCE/detections.",
    ),
    Key::new(
        "mqtt",
        Form::WordOrMap("off", MQTT),
        "MQTT, or off. Default: an embedded broker on 127.0.0.1:1883.",
    ),
    Key::new(
        "json_lines",
        Form::Map(JSON_LINES),
        "One JSON object per line, into a file. Default: none.",
    ),
];

/// `publish.mqtt`.
pub const MQTT: &[Key] = &[
    Key::or(
        "broker",
        Form::Text(BROKER_FORMS),
        Fallback::Text("embedded"),
        "embedded: a broker inside the daemon; else the address of one elsewhere. Ports: 1883, with TLS 8883.",
    ),
    Key::or(
        "listen",
        Form::Text("an address with a port, such as 127.0.0.1:1883 or [::]:1883"),
        Fallback::Text("127.0.0.1:1883"),
        "Embedded broker only: where it listens. Addresses that are open to the network need user and a password.",
    ),
    Key::or(
        "prefix",
        Form::Text("one topic level: no `/`, `+`, `#`, `$` or space"),
        Fallback::Text("jetwatch"),
        "First level of every topic.",
    ),
    Key::new(
        "client_id",
        Form::Text("an MQTT client id: printable ASCII without spaces, at most 128"),
        "MQTT client id; unique at the broker. Default: jetwatch-DEVICE.",
    ),
    Key::new(
        "user",
        Form::Text("a user name"),
        "User name at the broker; needs one of the three password keys. The embedded broker then lets in this user only.",
    ),
    Key::new(
        "password",
        Form::Secret,
        "The password itself. Better: password_file or password_env.",
    ),
    Key::new(
        "password_file",
        Form::Path,
        "File whose first line is the password; read at every connect.",
    ),
    Key::new(
        "password_env",
        Form::Text("the name of an environment variable"),
        "Environment variable that holds the password; where it is not set, a line of secrets.env beside this file.",
    ),
    Key::new(
        "tls",
        Form::Map(TLS),
        "mqtts:// only: trust and identity. Default: the system's authorities, no client certificate.",
    ),
    Key::or(
        "keep_alive_s",
        Form::seconds(5, 3600),
        Fallback::Integer(15),
        "MQTT keep-alive.",
    ),
    Key::or(
        "queue_messages",
        Form::count(1, 1_000_000, "messages"),
        Fallback::Integer(10_000),
        "Messages kept while the broker is away; beyond that the oldest are dropped and counted.",
    ),
];

/// What `broker` may be.
pub(super) const BROKER_FORMS: &str = "embedded, mqtt://HOST:PORT or mqtts://HOST:PORT";

/// `publish.mqtt.tls`.
pub const TLS: &[Key] = &[
    Key::new(
        "ca_file",
        Form::Path,
        "PEM file of the certificate authorities to trust. Default: the system's.",
    ),
    Key::new(
        "cert_file",
        Form::Path,
        "PEM file of the client's certificate chain; needs key_file.",
    ),
    Key::new(
        "key_file",
        Form::Path,
        "PEM file of the client's key; needs cert_file.",
    ),
];

/// `publish.json_lines`.
pub const JSON_LINES: &[Key] = &[Key::required(
    "path",
    Form::Path,
    "File to append to; `-`: standard output.",
)];

/// `tune`.
pub const TUNE: &[Key] = &[
    Key::new(
        "power_mode",
        Form::Text(
            "a power mode of this machine: its name, or its number in quotes, such as \"8\"",
        ),
        "Power mode by name or number, as /etc/nvpmodel.conf lists them. Default: as it is.",
    ),
    Key::or(
        "clocks",
        Form::Words(&["leave", "max"]),
        Fallback::Text("leave"),
        "max: held at the highest that the power mode allows, by jetson_clocks.",
    ),
    Key::new(
        "fan_profile",
        Form::Text("a profile of this machine's fan, such as cool or quiet"),
        "Fan profile by name, as /etc/nvfancontrol.conf lists them. Default: as it is.",
    ),
    Key::new(
        "perf_event_paranoid",
        Form::Integer {
            min: -1,
            max: 4,
            unit: Unit::None,
        },
        "Who may profile: kernel.perf_event_paranoid. Default: as it is.",
    ),
    Key::or(
        "restore_on_stop",
        Form::Boolean,
        Fallback::Boolean(false),
        "Give all back when the unit jetwatch-tune stops.",
    ),
];

/// `log`.
pub const LOG: &[Key] = &[
    Key::or(
        "level",
        Form::Words(&["error", "warn", "info", "debug", "trace"]),
        Fallback::Text("info"),
        "Least severity that is logged.",
    ),
    Key::or(
        "gst_debug",
        Form::Text("GST_DEBUG's form, such as *:2 or 3,rtspsrc:5, with levels from 0 to 9"),
        Fallback::Text("*:1"),
        "What GStreamer logs, bridged into our log.",
    ),
];
