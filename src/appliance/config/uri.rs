// SPDX-License-Identifier: Apache-2.0
//! A source's `uri` as a checked value. [`parse`] reads it from text.

pub(crate) mod parse;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::redact::redact;
use super::schema::ValueType;
use super::section::Section;
use super::yaml::map::Map;
use super::{Secret, Words};

/// A source's address, checked for form only: whether it can be opened is seen when it is.
///
/// Neither `Display` (one line for logs) nor `Debug` shows a password.
#[derive(Clone, PartialEq)]
pub enum SourceUri {
    /// A media file: a plain path or `file://`.
    File(PathBuf),
    /// `rtsp://` or `rtsps://`.
    Rtsp {
        /// The address without credentials, otherwise as it was written.
        location: String,
        /// User name, from the URI or from the `user` key.
        user: Option<String>,
        /// Password, from the URI or from `password`, `password_file`, `password_env`.
        password: Option<Secret>,
        /// Transport of the media. Default: TCP.
        transport: RtspTransport,
        /// Jitter buffer. Default 200 ms.
        latency: Duration,
    },
    /// `http://` or `https://`: Motion JPEG, a still image that is fetched again and again, HLS, MPEG-TS or FLV.
    Http {
        /// The address without credentials, otherwise as it was written.
        location: String,
        /// User name, from the URI or from the `user` key.
        user: Option<String>,
        /// Password, from the URI or from `password`, `password_file`, `password_env`.
        password: Option<Secret>,
        /// From one fetch of a still image to the next. Default 1 s.
        poll: Duration,
    },
    /// `udp://` or `srt://` with MPEG-TS, or `rtmp://`, as GStreamer's element for it reads it.
    Stream(String),
    /// `v4l2:///dev/video0`: a camera of the kernel.
    V4l2 {
        /// The device node.
        device: PathBuf,
        /// Asked of the camera.
        format: V4l2Format,
        /// Width and height asked of the camera, in pixels.
        size: Option<(u32, u32)>,
        /// Frames per second asked of the camera.
        fps: Option<f32>,
    },
    /// `csi://0`: a camera on the Jetson's CSI connector, by sensor number. The platform resolves it.
    Csi {
        /// Sensor number.
        sensor: u32,
        /// Number of the sensor's mode; `None`: the camera's driver chooses.
        mode: Option<u32>,
        /// Width and height asked of the camera, in pixels.
        size: Option<(u32, u32)>,
        /// Frames per second asked of the camera.
        fps: Option<f32>,
    },
    /// `launch:ELEMENT ! ELEMENT`: a GStreamer fragment with one open source pad, parsed on its own.
    Launch(String),
    /// `images:FOLDER`: the JPEG and PNG files of a folder, by name.
    Images(PathBuf),
    /// `synthetic://traffic?…`: the built-in scene.
    Synthetic(SyntheticScene),
}

/// Transport of RTSP media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum RtspTransport {
    /// Interleaved in the control connection.
    Tcp,
    /// RTP over UDP.
    Udp,
    /// RTP over UDP, to a group that the camera chooses.
    Multicast,
}

/// The format to request from a V4L2 camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum V4l2Format {
    /// Raw or Motion JPEG, whichever the camera names first for what else is asked.
    Any,
    /// Uncompressed pixels.
    Raw,
    /// Motion JPEG.
    Mjpeg,
    /// H.264, encoded by the camera.
    H264,
    /// H.265, encoded by the camera.
    H265,
}

/// Parameters of the built-in traffic scene: `synthetic://traffic?seed=1&…`.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct SyntheticScene {
    /// Same seed, same pixels and boxes.
    #[key(range = 0..=i64::MAX, default = 1)]
    pub seed: u64,
    /// Objects in the scene at a time.
    #[key(range = 0..=200, unit = "objects", default = 8)]
    pub objects: u32,
    /// Pixels in a row.
    #[key(range = 16..=7680, unit = "pixels", default = 640)]
    pub width: u32,
    /// Rows.
    #[key(range = 16..=4320, unit = "pixels", default = 360)]
    pub height: u32,
    /// Frames per second.
    #[key(range = 1..=240, unit = "frames per second", default = 30)]
    pub fps: u32,
    /// Frames until the end. Default: endless.
    #[key(range = 1..=1_000_000_000, unit = "frames")]
    pub frames: Option<u64>,
    /// Maximum shift of a shaking camera along each axis; it also turns and zooms a little.
    #[key(range = 0..=200, unit = "pixels", default = 0)]
    pub shake: u32,
    /// Paced like a camera; false: as fast as frames are taken, like a file.
    #[key(name = "realtime", value = ValueType::Boolean, default = true, read = pacing)]
    pub pacing: Pacing,
}

fn pacing(map: &Map<'_>) -> Option<Pacing> {
    Some(match map.boolean("realtime")? {
        true => Pacing::Realtime,
        false => Pacing::Unlimited,
    })
}

/// Who sets the speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// The clock, as with a camera.
    Realtime,
    /// The consumer, as with a file.
    Unlimited,
}

impl SourceUri {
    /// Whether frames come by the clock, so that old ones are replaced by newer ones when the pipeline is slower.
    pub fn is_live(&self) -> bool {
        match self {
            Self::Rtsp { .. }
            | Self::Http { .. }
            | Self::Stream(_)
            | Self::V4l2 { .. }
            | Self::Csi { .. }
            | Self::Launch(_) => true,
            Self::Synthetic(scene) => scene.pacing == Pacing::Realtime,
            Self::File(_) | Self::Images(_) => false,
        }
    }

    /// What kind of source this is, in a word for logs and messages: `file`, `rtsp`, `http`, `stream`, `v4l2`, `csi`, `launch`,
    /// `images` or `synthetic`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Rtsp { .. } => "rtsp",
            Self::Http { .. } => "http",
            Self::Stream(_) => "stream",
            Self::V4l2 { .. } => "v4l2",
            Self::Csi { .. } => "csi",
            Self::Launch(_) => "launch",
            Self::Images(_) => "images",
            Self::Synthetic(_) => "synthetic",
        }
    }
}

impl fmt::Display for SourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Rtsp { location, .. } | Self::Http { location, .. } | Self::Stream(location) => {
                f.write_str(&redact(location))
            }
            Self::V4l2 { device, .. } => write!(f, "v4l2://{}", device.display()),
            Self::Csi { sensor, .. } => write!(f, "csi://{sensor}"),
            Self::Launch(text) => write!(f, "launch:{}", redact(text)),
            Self::Images(folder) => write!(f, "images:{}", folder.display()),
            Self::Synthetic(scene) => scene.fmt(f),
        }
    }
}

impl fmt::Display for SyntheticScene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            objects,
            width,
            height,
            fps,
            frames,
            shake,
            pacing,
        } = self;
        write!(
            f,
            "synthetic://traffic?seed={seed}&objects={objects}&width={width}&height={height}&fps={fps}"
        )?;
        if let Some(frames) = frames {
            write!(f, "&frames={frames}")?;
        }
        if *shake > 0 {
            write!(f, "&shake={shake}")?;
        }
        f.write_str(if *pacing == Pacing::Unlimited {
            "&realtime=false"
        } else {
            ""
        })
    }
}

impl fmt::Debug for SourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Rtsp {
                location,
                user,
                password,
                transport,
                latency,
            } => f
                .debug_struct("Rtsp")
                .field("location", &redact(location))
                .field("user", user)
                .field("password", password)
                .field("transport", transport)
                .field("latency", latency)
                .finish(),
            Self::Http {
                location,
                user,
                password,
                poll,
            } => f
                .debug_struct("Http")
                .field("location", &redact(location))
                .field("user", user)
                .field("password", password)
                .field("poll", poll)
                .finish(),
            Self::Stream(location) => f.debug_tuple("Stream").field(&redact(location)).finish(),
            Self::V4l2 {
                device,
                format,
                size,
                fps,
            } => f
                .debug_struct("V4l2")
                .field("device", device)
                .field("format", format)
                .field("size", size)
                .field("fps", fps)
                .finish(),
            Self::Images(folder) => f.debug_tuple("Images").field(folder).finish(),
            Self::Csi {
                sensor,
                mode,
                size,
                fps,
            } => f
                .debug_struct("Csi")
                .field("sensor", sensor)
                .field("mode", mode)
                .field("size", size)
                .field("fps", fps)
                .finish(),
            Self::Launch(text) => f.debug_tuple("Launch").field(&redact(text)).finish(),
            Self::Synthetic(scene) => f.debug_tuple("Synthetic").field(scene).finish(),
        }
    }
}
