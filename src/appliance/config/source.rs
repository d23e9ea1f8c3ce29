// SPDX-License-Identifier: Apache-2.0
//! `sources`: one camera, file or pattern each, with the rules between its keys.

use std::path::PathBuf;
use std::time::Duration;

use jetwatch_schedule::Schedule;
use jetwatch_types::Region;

use super::analytics::SceneRules;
use super::camera_keys::{self, CsiKeys, HttpKeys, LocalCameraKeys, RtspKeys, V4l2Keys};
use super::credentials::LoginKeys;
use super::detector::Interval;
use super::groups::KeptLabels;
use super::names::{self, NAME, is_name};
use super::redact::quoted;
use super::roi::parse_region;
use super::schema::{DefaultValue, ValueType};
use super::section::{KeyValue, Section};
use super::uri::parse::URI_FORMS;
use super::yaml::map::Map;
use super::{OnvifConfig, SourceRecordConfig, SourceUri, Words, onvif};

/// Maximum number of sources of one daemon.
pub const MAX_SOURCES: usize = 64;

/// One camera, file or pattern.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(check = check_source)]
#[section(also = LoginKeys, also = RtspKeys, also = HttpKeys, also = V4l2Keys, also = LocalCameraKeys, also = CsiKeys)]
pub struct SourceConfig {
    /// Name of the source in topics and messages; unique, also when case is ignored.
    #[key(text = NAME, check = is_name)]
    pub name: String,
    /// What to open. http: Motion JPEG, still images, HLS, MPEG-TS, FLV; udp, srt: MPEG-TS; images: JPEG and PNG files; synthetic://traffic takes the parameters seed, objects, width, height, fps, frames, shake, realtime.
    #[key(text = URI_FORMS, read = camera_keys::uri)]
    pub uri: SourceUri,
    /// https:// and rtsps:// only, in uri or onvif.address: PEM file of the authorities to trust, or of the camera's own certificate. Those of HLS hold beside the system's, for all sources over https:// without ca_file. Default: the system's authorities.
    pub ca_file: Option<PathBuf>,
    /// Start over at the end. Files, and synthetic scenes with `frames`.
    #[key(name = "loop", default = false)]
    pub loop_at_end: bool,
    /// Plays a file, a folder of images or a launch line like a camera, at this rate: the newest frame wins. realtime: at the pace of the timestamps; 0: as fast as frames are taken, without drops.
    #[key(default = 0)]
    pub playback_fps: Playback,
    /// Threads of a software decoder; 0: one per core.
    ///
    /// Default 1: several sources decode in parallel anyway, and each further thread costs a frame of delay and memory.
    #[key(range = 0..=64, unit = "threads", default = 1)]
    pub decoder_threads: u32,
    /// Number of the video track, as in ffmpeg's 0:v:N, from 0. Default: of a file the one that is not a cover or preview; of a camera the first.
    #[key(range = 0..=31)]
    pub track: Option<u32>,
    /// What decodes. auto: the device's decoder if it can, else the CPU; hardware and software refuse the other.
    #[key(default = "auto")]
    pub decoder: DecoderChoice,
    /// What crops, scales and converts colors. auto: the VIC if it can, else the CPU, never the GPU; the other words refuse anything else.
    #[key(default = "auto")]
    pub scaling: Scaling,
    /// A source without a frame for this long is opened again. The first frame has at least 20 s from a file, 10 s over HTTP, UDP, SRT or RTMP.
    #[key(name = "stall_timeout_ms", range = 100..=600_000, default = 5000)]
    pub stall_timeout: Duration,
    /// First wait before a reconnect; it doubles at each failure.
    #[key(name = "reconnect_wait_ms", range = 10..=600_000, default = 500)]
    pub reconnect_wait: Duration,
    /// Maximum wait between reconnects.
    #[key(name = "reconnect_max_wait_ms", range = 10..=3_600_000, default = 30_000)]
    pub reconnect_max_wait: Duration,
    /// The state offline is published once the source has been away for this long.
    ///
    /// Off by default: a source that goes silent is away only after `stall_timeout_ms`, which is a hold of its own.
    #[key(name = "offline_hold_s", range = 0..=86_400, default = 0)]
    pub offline_hold: Duration,
    /// Part of the image that the network sees, in shares of its width and height. Boxes and rules refer to the whole image. Default: all of it.
    #[key(text = "left,top,width,height, each from 0 to 1, such as 0.25,0.5,0.5,0.5", parse = parse_region)]
    pub roi: Option<Region>,
    /// Width to height of the image as it is shown, for a camera that sends it squeezed without saying so. Default: as the media says, else square pixels.
    #[key(text = "width:height, such as 16:9 or 4:3", parse = parse_aspect)]
    pub display_aspect: Option<(u32, u32)>,
    /// Maximum rate in frames per second; further frames are dropped evenly, before scaling. Default: none.
    #[key(range = 0.0..=240.0, exclusive_min)]
    pub max_fps: Option<f32>,
    /// Detections of this source below this score are dropped. It can be stricter than detector.score_threshold, not weaker. Default: the detector's.
    #[key(range = 0.0..=1.0)]
    pub score_threshold: Option<f32>,
    /// Labels or groups to keep, of those that the detector gives. Default: all.
    #[key(text = "a label of the model")]
    pub classes: Vec<String>,
    /// Frames that skip the network after each one that goes through it. Default: detector.interval.
    pub interval: Option<Interval>,
    /// When detection, or the rule, is active. Default: always.
    pub schedule: Option<Schedule>,
    /// Events that the camera reports by ONVIF. Default: none.
    pub onvif: Option<OnvifConfig>,
    /// What is kept of its video.
    pub record: SourceRecordConfig,
    /// What is watched for in its images.
    #[key(flatten)]
    pub rules: SceneRules,
}

/// Greatest rate of [`Playback::Fps`], in frames per second.
const MAX_PLAYBACK_FPS: i64 = 240;

/// Who sets the pace of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Playback {
    /// The consumer.
    #[default]
    Unlimited,
    /// The timestamps of the frames.
    Realtime,
    /// The clock: so many frames per second.
    Fps(u32),
}

impl KeyValue for Playback {
    const TYPE: ValueType = ValueType::WordOrCount {
        word: "realtime",
        max: MAX_PLAYBACK_FPS,
        things: "frames per second",
    };
    const WHEN_ABSENT: DefaultValue = DefaultValue::Required;

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        Some(match map.word_or_count(name)? {
            None => Self::Realtime,
            Some(0) => Self::Unlimited,
            Some(fps) => Self::Fps(fps),
        })
    }
}

/// Minimum time for a file's first frame.
const FILE_FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(20);

/// Least time for the first frame of a stream over HTTP, UDP, SRT or RTMP.
const STREAM_FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(10);

impl SourceConfig {
    /// Whether frames come by the clock, so that old ones are replaced by newer ones when the pipeline is slower: those of a
    /// camera, and those of a file with a playback rate.
    pub fn is_live(&self) -> bool {
        self.uri.is_live() || self.playback_fps != Playback::Unlimited
    }

    /// Whether it differs from `other` in nothing but its schedules, and in them.
    pub(crate) fn differs_in_schedules(&self, other: &Self) -> bool {
        self != other && self.without_schedules() == other.without_schedules()
    }

    fn without_schedules(&self) -> Self {
        let mut bare = self.clone();
        bare.schedule = None;
        bare.rules.clear_schedules();
        bare
    }

    /// How long its first frame may take. A camera that is away is opened again; a file fails for good, and on a machine that
    /// has just started the libraries that decode it come from a cold disk: it has 20 s at least. GStreamer waits 6 s for the sound of
    /// FLV, which comes over HTTP and RTMP, before it gives an image.
    pub fn first_frame_timeout(&self) -> Duration {
        match &self.uri {
            SourceUri::Http { .. } | SourceUri::Stream(_) => {
                self.stall_timeout.max(STREAM_FIRST_FRAME_TIMEOUT)
            }
            uri if uri.is_live() => self.stall_timeout,
            _ => self.stall_timeout.max(FILE_FIRST_FRAME_TIMEOUT),
        }
    }
}

/// What decodes video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Words)]
pub enum DecoderChoice {
    /// The machine's video decoder for what it can decode, the CPU for the rest.
    #[default]
    Auto,
    /// The machine's video decoder, or an error.
    Hardware,
    /// The CPU.
    Software,
}

/// What crops, scales and converts colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Words)]
pub enum Scaling {
    /// The VIC where the machine has one and it can do what is needed, else the CPU; never the GPU, which has the network to
    /// run.
    #[default]
    Auto,
    /// The video image compositor of a Jetson, or an error.
    Vic,
    /// The GPU of a Jetson, or an error.
    Gpu,
    /// The CPU.
    Cpu,
}

/// Reads `width:height`.
///
/// # Errors
/// They are no numbers, or not the shape of an image.
fn parse_aspect(text: &str) -> Result<(u32, u32), String> {
    let sides = text.split_once(':').and_then(|(width, height)| {
        Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
    });
    let is_shape =
        |(width, height): &(u32, u32)| (1..=1000).contains(width) && (1..=1000).contains(height);
    sides.filter(is_shape).ok_or_else(|| {
        format!(
            "`{}` is not a shape; expected width:height, each from 1 to 1000, such as 16:9",
            quoted(text)
        )
    })
}

/// Rules between the keys of one source.
fn check_source(map: &Map<'_>) {
    check_waits(map);
    if let Some(uri) = camera_keys::parse_address(map) {
        check_loop(map, &uri);
        check_playback(map, &uri);
        check_work(map, &uri);
        check_tls(map, &uri);
        onvif::check(map, &uri);
        if matches!(uri, SourceUri::Images(_)) && map.has("max_fps") {
            map.invalid(
                "max_fps",
                "images of a folder have no rate",
                Some("leave it out"),
            );
        }
    }
}

/// Only a server that is spoken to over TLS has a certificate.
fn check_tls(map: &Map<'_>, uri: &SourceUri) {
    let has_tls =
        |address: &str| address.starts_with("rtsps://") || address.starts_with("https://");
    let is_tls = match uri {
        SourceUri::Rtsp { location, .. } | SourceUri::Http { location, .. } => has_tls(location),
        _ => false,
    };
    let onvif = map.section("onvif").and_then(|onvif| onvif.text("address"));
    let is_tls = is_tls || onvif.is_some_and(|address| has_tls(&address));
    if map.has("ca_file") && !is_tls {
        map.invalid(
            "ca_file",
            "only for addresses with https:// or rtsps://",
            Some("leave it out, or write such an address where the camera has one"),
        );
    }
}

fn check_waits(map: &Map<'_>) {
    let wait = |name| map.duration(name).map(|wait| wait.as_millis());
    if let (Some(first), Some(max)) = (wait("reconnect_wait_ms"), wait("reconnect_max_wait_ms"))
        && max < first
    {
        let key = ["reconnect_max_wait_ms", "reconnect_wait_ms"]
            .into_iter()
            .find(|key| map.has(key));
        let what = format!("the longest wait, {max} ms, is shorter than the first, {first} ms");
        map.invalid(key.unwrap_or("reconnect_max_wait_ms"), &what, None);
    }
}

fn check_loop(map: &Map<'_>, uri: &SourceUri) {
    if map.boolean("loop") != Some(true) {
        return;
    }
    match uri {
        SourceUri::File(_) | SourceUri::Images(_) => {}
        SourceUri::Synthetic(scene) if scene.frames.is_some() => {}
        SourceUri::Synthetic(_) => {
            map.invalid(
                "loop",
                "the scene has no end",
                Some("add frames=… to the uri, or leave loop out"),
            );
        }
        _ => {
            let what = format!("{} has no end to start over at", camera_keys::describe(uri));
            map.invalid("loop", &what, Some("leave it out"));
        }
    }
}

fn check_playback(map: &Map<'_>, uri: &SourceUri) {
    if Playback::read(map, "playback_fps").is_none_or(|playback| playback == Playback::Unlimited) {
        return;
    }
    let (what, hint) = match uri {
        SourceUri::File(_) | SourceUri::Images(_) | SourceUri::Launch(_) => return,
        SourceUri::Synthetic(_) => (
            "a synthetic scene has a rate of its own".to_owned(),
            "set fps=… in the uri",
        ),
        _ => (
            format!(
                "{} sends its frames by the clock already",
                camera_keys::describe(uri)
            ),
            "leave it out; max_fps lowers the rate",
        ),
    };
    map.invalid("playback_fps", &what, Some(hint));
}

/// Words that ask for work which this kind of source does not have.
fn check_work(map: &Map<'_>, uri: &SourceUri) {
    let decoder = DecoderChoice::read(map, "decoder");
    let has_video = !matches!(
        uri,
        SourceUri::Csi { .. } | SourceUri::Images(_) | SourceUri::Synthetic(_)
    );
    if decoder.is_some_and(|decoder| decoder != DecoderChoice::Auto) && !has_video {
        let what = format!("{} has no video to decode", camera_keys::describe(uri));
        map.invalid("decoder", &what, Some("leave it out"));
    }
    if map.has("track") && !has_video {
        let what = format!("{} has no tracks", camera_keys::describe(uri));
        map.invalid("track", &what, Some("leave it out"));
    }
    if map.has("display_aspect") && matches!(uri, SourceUri::Synthetic(_)) {
        let what = "a synthetic scene has square pixels";
        map.invalid("display_aspect", what, Some("leave it out"));
    }
    let scaling = Scaling::read(map, "scaling");
    let is_synthetic = matches!(uri, SourceUri::Synthetic(_));
    if scaling.is_some_and(|scaling| scaling != Scaling::Auto) && is_synthetic {
        let what = "a synthetic scene is drawn at the network's size, so that nothing scales";
        map.invalid("scaling", what, Some("leave it out"));
    }
}

/// Records names that mean the same topic to a reader that ignores case, and names that are topics already.
pub(super) fn check_names(maps: &[Map<'_>]) {
    let mut known: Vec<String> = Vec::new();
    for map in maps {
        let Some(name) = names::name_of(map) else {
            continue;
        };
        if names::RESERVED.contains(&name.as_str()) {
            map.invalid(
                "name",
                &format!("`{name}` is a topic of the device"),
                Some("choose another name"),
            );
        }
        if known.contains(&name) {
            let what = format!("`{name}` is the name of an earlier source (case is ignored)");
            map.invalid("name", &what, Some("choose another name"));
        }
        known.push(name);
    }
}

/// What a source keeps of the detections must be something that the detector gives.
pub(super) fn check_filters(maps: &[Map<'_>], detector: &Map<'_>) {
    let least = detector.number("score_threshold");
    let kept = KeptLabels::of(detector);
    for map in maps {
        if let (Some(own), Some(least)) = (map.number("score_threshold"), least)
            && own < least
        {
            let what = format!(
                "{own} is below detector.score_threshold, {least}, which drops such detections of every source"
            );
            map.invalid(
                "score_threshold",
                &what,
                Some("lower detector.score_threshold, and set a higher one for the other sources"),
            );
        }
        let labels = map.texts("classes").unwrap_or_default();
        for label in labels
            .iter()
            .filter(|label| kept.as_ref().is_some_and(|kept| !kept.keeps(label)))
        {
            let what = format!(
                "`{label}` is not in detector.classes, which leaves it out for every source"
            );
            map.invalid("classes", &what, Some("add it there"));
        }
    }
}
