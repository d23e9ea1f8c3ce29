// SPDX-License-Identifier: Apache-2.0
//! The keys of a source that only one kind of address has, and the address with their values.

use std::time::Duration;

use super::credentials::{LoginKeys, credentials};
use super::schema::KeySpec;
use super::section::Section;
use super::uri::parse;
use super::yaml::map::Map;
use super::{RtspTransport, SourceUri, V4l2Format};

/// Keys of an HTTP camera.
#[derive(Section)]
pub(super) struct HttpKeys {
    /// HTTP only: time between two fetches of a still image.
    #[key(name = "poll_ms", range = 100..=3_600_000, default = 1000)]
    poll: Duration,
}

/// Keys of an RTSP camera.
#[derive(Section)]
pub(super) struct RtspKeys {
    /// RTSP only: transport of the media.
    #[key(default = "tcp")]
    transport: RtspTransport,
    /// RTSP only: jitter buffer.
    #[key(name = "latency_ms", range = 0..=10_000, default = 200)]
    latency: Duration,
}

/// Keys of a V4L2 camera.
#[derive(Section)]
pub(super) struct V4l2Keys {
    /// V4L2 only: format to request.
    #[key(default = "any")]
    format: V4l2Format,
}

/// Keys of every camera at this machine, V4L2 or CSI.
#[derive(Section)]
pub(super) struct LocalCameraKeys {
    /// V4L2 and CSI: width to request, with height. Default: V4L2: the largest at 15 frames per second or more; CSI: the driver's choice.
    #[key(range = 16..=7680, unit = "pixels")]
    width: Option<u32>,
    /// V4L2 and CSI: height to request, with width. Default: as for width.
    #[key(range = 16..=4320, unit = "pixels")]
    height: Option<u32>,
    /// V4L2 and CSI: rate to request; 30 and 29.97 also take 30000/1001. Default: the highest for that size.
    #[key(range = 1.0..=240.0, unit = "frames per second")]
    fps: Option<f32>,
}

/// Keys of a CSI camera.
#[derive(Section)]
pub(super) struct CsiKeys {
    /// CSI only: number of the sensor's mode, as nvarguscamerasrc lists them. Default: by width, height and fps.
    #[key(range = 0..=63)]
    sensor_mode: Option<u32>,
}

/// Groups of keys with the kinds of addresses that have them, and the name of those kinds.
const GROUPS: [(&[KeySpec], &[&str], &str); 6] = [
    (LoginKeys::KEYS, &["rtsp", "http"], "RTSP and HTTP"),
    (RtspKeys::KEYS, &["rtsp"], "RTSP"),
    (HttpKeys::KEYS, &["http"], "HTTP"),
    (V4l2Keys::KEYS, &["v4l2"], "V4L2"),
    (CsiKeys::KEYS, &["csi"], "CSI"),
    (LocalCameraKeys::KEYS, &["v4l2", "csi"], "V4L2 and CSI"),
];

/// The address without the keys next to it, if it is one; what is wrong with it is recorded by [`uri`].
pub(super) fn parse_address(map: &Map<'_>) -> Option<SourceUri> {
    let node = map.get("uri")?;
    parse::parse(&map.text("uri")?, node.folder()).ok()
}

/// The address with the keys that belong to it.
pub(super) fn uri(map: &Map<'_>) -> Option<SourceUri> {
    // Checked in any case, so that their problems are reported together with those of the address.
    let (user, password) = credentials(map);
    let node = map.get("uri")?;
    let uri = match parse::parse(&map.text("uri")?, node.folder()) {
        Ok(uri) => uri,
        Err(refusals) => {
            for refusal in refusals {
                node.reject(Some(refusal.expected), refusal.hint);
            }
            return None;
        }
    };
    check_kind(map, &uri);
    if let SourceUri::Rtsp { user, .. } | SourceUri::Http { user, .. } = &uri
        && user.is_some()
        && LoginKeys::KEYS.iter().any(|key| map.has(key.name))
    {
        map.invalid(
            "uri",
            "credentials are both in the uri and in keys",
            Some("keep the keys and take USER:PASSWORD@ out of the uri"),
        );
    }
    if matches!(uri, SourceUri::V4l2 { .. } | SourceUri::Csi { .. }) {
        check_size(map);
    }
    Some(match uri {
        SourceUri::Rtsp {
            location,
            user: uri_user,
            password: uri_password,
            ..
        } => {
            let keys = RtspKeys::from_map(map)?;
            SourceUri::Rtsp {
                location,
                user: uri_user.or(user),
                password: uri_password.or(password),
                transport: keys.transport,
                latency: keys.latency,
            }
        }
        SourceUri::Http {
            location,
            user: uri_user,
            password: uri_password,
            ..
        } => SourceUri::Http {
            location,
            user: uri_user.or(user),
            password: uri_password.or(password),
            poll: HttpKeys::from_map(map)?.poll,
        },
        SourceUri::V4l2 { device, .. } => {
            let keys = LocalCameraKeys::from_map(map)?;
            SourceUri::V4l2 {
                device,
                format: V4l2Keys::from_map(map)?.format,
                size: keys.width.zip(keys.height),
                fps: keys.fps,
            }
        }
        SourceUri::Csi { sensor, .. } => {
            let keys = LocalCameraKeys::from_map(map)?;
            SourceUri::Csi {
                sensor,
                mode: CsiKeys::from_map(map)?.sensor_mode,
                size: keys.width.zip(keys.height),
                fps: keys.fps,
            }
        }
        other => other,
    })
}

/// Records keys that another kind of address has.
fn check_kind(map: &Map<'_>, uri: &SourceUri) {
    for (keys, kinds, names) in GROUPS {
        if kinds.contains(&uri.kind()) {
            continue;
        }
        for name in keys.iter().map(|key| key.name).filter(|name| map.has(name)) {
            let what = format!(
                "only for {names} cameras, and this source is {}",
                describe(uri)
            );
            let is_of_scene = matches!(
                (name, uri),
                ("width" | "height" | "fps", SourceUri::Synthetic(_))
            );
            let hint = is_of_scene.then_some("write it into the uri: synthetic://traffic?width=…");
            map.invalid(name, &what, hint);
        }
    }
}

/// Width and height only count together.
fn check_size(map: &Map<'_>) {
    for (given, other) in [("width", "height"), ("height", "width")] {
        if map.has(given) && !map.has(other) {
            map.invalid(given, &format!("given without {other}"), None);
        }
    }
}

/// The kind of an address, in words.
pub(super) fn describe(uri: &SourceUri) -> &'static str {
    match uri {
        SourceUri::File(_) => "a file",
        SourceUri::Rtsp { .. } => "an RTSP camera",
        SourceUri::Http { .. } => "an HTTP camera",
        SourceUri::Stream(_) => "a stream",
        SourceUri::V4l2 { .. } => "a V4L2 camera",
        SourceUri::Csi { .. } => "a CSI camera",
        SourceUri::Launch(_) => "a launch fragment",
        SourceUri::Images(_) => "a folder of images",
        SourceUri::Synthetic(_) => "a synthetic scene",
    }
}
