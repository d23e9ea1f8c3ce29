//! `sources`: each with its address, the keys that fit its kind, and names that differ.

use super::super::keys::{CSI_ONLY, LOCAL_CAMERA_ONLY, RTSP_ONLY, V4L2_ONLY};
use super::super::map::Map;
use super::super::roi::parse_region;
use super::super::{
    DecoderChoice, RtspTransport, Scaling, SourceConfig, SourceUri, V4l2Format, parse_uri,
};
use super::{MAX_NAME_CHARS, credentials, detector, form_of, scene};
use jetwatch_types::Region;

/// Topic levels beside the names of sources.
const RESERVED_NAMES: [&str; 3] = ["status", "stats", "command"];

/// The sources in their order; `None` for each that has a problem.
pub(super) fn sources(maps: &[Map<'_>]) -> Vec<Option<SourceConfig>> {
    check_names(maps);
    maps.iter().map(source).collect()
}

/// One source that is not in a list, as a template gives it.
pub(crate) fn one_source(map: &Map<'_>) -> Option<SourceConfig> {
    check_names(std::slice::from_ref(map));
    source(map)
}

fn source(map: &Map<'_>) -> Option<SourceConfig> {
    let name = name(map);
    let uri = uri(map);
    let loop_at_end = map.boolean("loop");
    if let (Some(true), Some(uri)) = (loop_at_end, &uri) {
        check_loop(map, uri);
    }
    let decoder_threads = map.integer("decoder_threads");
    let decoder = map.choice(
        "decoder",
        &[
            DecoderChoice::Auto,
            DecoderChoice::Hardware,
            DecoderChoice::Software,
        ],
    );
    let scaling = map.choice(
        "scaling",
        &[Scaling::Auto, Scaling::Vic, Scaling::Gpu, Scaling::Cpu],
    );
    if let Some(uri) = &uri {
        check_work(map, uri, decoder, scaling);
    }
    let stall_timeout = map.duration("stall_timeout_ms");
    let reconnect_wait = map.duration("reconnect_wait_ms");
    let reconnect_max_wait = map.duration("reconnect_max_wait_ms");
    if let (Some(first), Some(most)) = (reconnect_wait, reconnect_max_wait)
        && most < first
    {
        let (first, most) = (first.as_millis(), most.as_millis());
        let key = ["reconnect_max_wait_ms", "reconnect_wait_ms"]
            .into_iter()
            .find(|key| map.has(key));
        let what = format!("the longest wait, {most} ms, is shorter than the first, {first} ms");
        map.unfit(key.unwrap_or("reconnect_max_wait_ms"), &what, None);
    }
    let interval = match map.has("interval") {
        true => detector::interval(map).map(Some),
        false => Some(None),
    };
    let rules = scene::rules(map);
    let roi = match map.has("roi") {
        true => region(map).map(Some),
        false => Some(None),
    };
    let max_fps = map.number("max_fps");
    let score_threshold = map.number("score_threshold");
    let classes = map.texts("classes");
    if let (Some(SourceUri::Images(_)), true) = (&uri, map.has("max_fps")) {
        map.unfit(
            "max_fps",
            "pictures of a folder have no rate",
            Some("leave it out"),
        );
    }
    Some(SourceConfig {
        name: name?,
        uri: uri?,
        loop_at_end: loop_at_end?,
        decoder_threads: decoder_threads?,
        decoder: decoder?,
        scaling: scaling?,
        stall_timeout: stall_timeout?,
        reconnect_wait: reconnect_wait?,
        reconnect_max_wait: reconnect_max_wait?,
        interval: interval?,
        rules: rules?,
        roi: roi?,
        max_fps,
        score_threshold,
        classes: classes?,
    })
}

/// The part of the picture that `roi` names; what is wrong with it stands in its own words.
fn region(map: &Map<'_>) -> Option<Region> {
    let text = map.text("roi")?;
    match parse_region(&text) {
        Ok(region) => Some(region),
        Err(problem) => {
            map.unfit("roi", &problem, None);
            None
        }
    }
}

/// What a source keeps of the detections must be something that the detector gives.
pub(super) fn check_filters(maps: &[Map<'_>], detector: &Map<'_>) {
    let least = detector.number("score_threshold");
    let given = detector.texts("classes").unwrap_or_default();
    for map in maps {
        if let (Some(own), Some(least)) = (map.number("score_threshold"), least)
            && own < least
        {
            let what = format!(
                "{own} is below detector.score_threshold, {least}, which drops such detections of every source"
            );
            map.unfit(
                "score_threshold",
                &what,
                Some("lower detector.score_threshold, and set a higher one for the other sources"),
            );
        }
        let unknown = map.texts("classes").unwrap_or_default();
        for label in unknown
            .iter()
            .filter(|label| !given.is_empty() && !given.contains(label))
        {
            let what = format!(
                "`{label}` is not in detector.classes, which leaves it out for every source"
            );
            map.unfit("classes", &what, Some("add it there"));
        }
    }
}

fn name(map: &Map<'_>) -> Option<String> {
    let name = map.text("name")?;
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > MAX_NAME_CHARS || !name.chars().all(is_name_char) {
        return map.get("name")?.expect(&form_of(map, "name"));
    }
    Some(name)
}

/// Records names that mean the same topic to someone who ignores case, and names that are topics already.
fn check_names(maps: &[Map<'_>]) {
    let mut known: Vec<String> = Vec::new();
    for map in maps {
        // A missing or malformed name is reported where the source is read.
        let Some(name) = map
            .has("name")
            .then(|| name(map))
            .flatten()
            .map(|name| name.to_ascii_lowercase())
        else {
            continue;
        };
        if RESERVED_NAMES.contains(&name.as_str()) {
            map.unfit(
                "name",
                &format!("`{name}` is a topic of the device"),
                Some("choose another name"),
            );
        }
        if known.contains(&name) {
            let what = format!("`{name}` is the name of an earlier source (case is ignored)");
            map.unfit("name", &what, Some("choose another name"));
        }
        known.push(name);
    }
}

fn uri(map: &Map<'_>) -> Option<SourceUri> {
    let text = map.text("uri");
    // The keys beside it are read in any case, so that their own problems are told too.
    let settings = Settings::read(map);
    let node = map.get("uri")?;
    let uri = match parse_uri::parse(&text?, node.folder()) {
        Ok(uri) => uri,
        Err(refusals) => {
            for refusal in refusals {
                node.refuse(Some(refusal.expected), refusal.hint);
            }
            return None;
        }
    };
    let groups: [(&[&str], &[&str], &str); 4] = [
        (RTSP_ONLY, &["rtsp"], "RTSP"),
        (V4L2_ONLY, &["v4l2"], "V4L2"),
        (CSI_ONLY, &["csi"], "CSI"),
        (LOCAL_CAMERA_ONLY, &["v4l2", "csi"], "V4L2 and CSI"),
    ];
    for (only_for, kinds, names) in groups {
        for name in only_for
            .iter()
            .filter(|name| !kinds.contains(&uri.kind()) && map.has(name))
        {
            let what = format!(
                "only for {names} cameras, and this source is {}",
                describe(&uri)
            );
            let hint = matches!(
                (*name, &uri),
                ("width" | "height" | "fps", SourceUri::Synthetic(_))
            )
            .then_some("write it into the uri: synthetic://traffic?width=…");
            map.unfit(name, &what, hint);
        }
    }
    settings.apply(map, uri)
}

fn describe(uri: &SourceUri) -> &'static str {
    match uri {
        SourceUri::File(_) => "a file",
        SourceUri::Rtsp { .. } => "an RTSP camera",
        SourceUri::V4l2 { .. } => "a V4L2 camera",
        SourceUri::Csi { .. } => "a CSI camera",
        SourceUri::Launch(_) => "a launch fragment",
        SourceUri::Images(_) => "a folder of pictures",
        SourceUri::Synthetic(_) => "a synthetic scene",
    }
}

/// Words that ask for work which this kind of source does not have.
fn check_work(
    map: &Map<'_>,
    uri: &SourceUri,
    decoder: Option<DecoderChoice>,
    scaling: Option<Scaling>,
) {
    let is_asked = decoder.is_some_and(|decoder| decoder != DecoderChoice::Auto);
    if is_asked
        && matches!(
            uri,
            SourceUri::Csi { .. } | SourceUri::Images(_) | SourceUri::Synthetic(_)
        )
    {
        let what = format!("{} has no video to decode", describe(uri));
        map.unfit("decoder", &what, Some("leave it out"));
    }
    let is_asked = scaling.is_some_and(|scaling| scaling != Scaling::Auto);
    if is_asked && matches!(uri, SourceUri::Synthetic(_)) {
        let what = "a synthetic scene is drawn at the network's size, so that nothing scales";
        map.unfit("scaling", what, Some("leave it out"));
    }
}

fn check_loop(map: &Map<'_>, uri: &SourceUri) {
    match uri {
        SourceUri::File(_) | SourceUri::Images(_) => {}
        SourceUri::Synthetic(scene) if scene.frames.is_some() => {}
        SourceUri::Synthetic(_) => {
            map.unfit(
                "loop",
                "the scene has no end",
                Some("add frames=… to the uri, or leave loop out"),
            );
        }
        _ => {
            let what = format!("{} has no end to start over at", describe(uri));
            map.unfit("loop", &what, Some("leave it out"));
        }
    }
}

/// The keys beside `uri` that belong to one kind of source.
struct Settings {
    transport: Option<RtspTransport>,
    latency: Option<std::time::Duration>,
    credentials: (Option<String>, Option<super::Secret>),
    format: Option<V4l2Format>,
    mode: Option<u32>,
    size: (Option<u32>, Option<u32>),
    fps: Option<u32>,
}

impl Settings {
    fn read(map: &Map<'_>) -> Self {
        Self {
            transport: map.choice("transport", &[RtspTransport::Tcp, RtspTransport::Udp]),
            latency: map.duration("latency_ms"),
            credentials: credentials(map),
            format: map.choice(
                "format",
                &[V4l2Format::Any, V4l2Format::Raw, V4l2Format::Mjpeg],
            ),
            mode: map.integer("sensor_mode"),
            size: (map.integer("width"), map.integer("height")),
            fps: map.integer("fps"),
        }
    }

    /// `uri` with these settings; keys that do not fit it were reported.
    fn apply(self, map: &Map<'_>, uri: SourceUri) -> Option<SourceUri> {
        Some(match uri {
            SourceUri::Rtsp {
                location,
                user,
                password,
                ..
            } => {
                let both = ["user", "password", "password_file", "password_env"];
                if user.is_some() && both.iter().any(|name| map.has(name)) {
                    let hint = "keep the keys and take USER:PASSWORD@ out of the uri";
                    map.unfit(
                        "uri",
                        "credentials stand in the uri and in keys beside it",
                        Some(hint),
                    );
                }
                let (key_user, key_password) = self.credentials;
                SourceUri::Rtsp {
                    location,
                    user: user.or(key_user),
                    password: password.or(key_password),
                    transport: self.transport?,
                    latency: self.latency?,
                }
            }
            SourceUri::V4l2 { device, .. } => SourceUri::V4l2 {
                device,
                format: self.format?,
                size: self.size(map),
                fps: self.fps,
            },
            SourceUri::Csi { sensor, .. } => SourceUri::Csi {
                sensor,
                mode: self.mode,
                size: self.size(map),
                fps: self.fps,
            },
            other => other,
        })
    }

    /// Width and height, which only count together.
    fn size(&self, map: &Map<'_>) -> Option<(u32, u32)> {
        for (given, other) in [("width", "height"), ("height", "width")] {
            if map.has(given) && !map.has(other) {
                map.unfit(given, &format!("given without {other}"), None);
            }
        }
        self.size.0.zip(self.size.1)
    }
}
