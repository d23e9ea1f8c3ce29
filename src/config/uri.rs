//! What a source's `uri` may say.

use std::path::PathBuf;
use std::time::Duration;

use super::Secret;

/// A source's address, checked for form only: whether it can be opened is seen when it is.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceUri {
    /// A media file: a plain path or `file://`.
    File(PathBuf),
    /// `rtsp://` or `rtsps://`.
    Rtsp {
        /// The address without credentials.
        location: String,
        /// User name, from the URI or from the `user` key.
        user: Option<String>,
        /// Password, from the URI or from `password`, `password_file`, `password_env`.
        password: Option<Secret>,
        /// Transport of the media.
        transport: RtspTransport,
        /// Jitter buffer. Default 200 ms.
        latency: Duration,
    },
    /// `v4l2:///dev/video0`: a camera of the kernel.
    V4l2 {
        /// The device node.
        device: PathBuf,
        /// Asked of the camera; `None`: what it offers first.
        format: V4l2Format,
        /// Width and height asked of the camera, in pixels.
        size: Option<(u32, u32)>,
        /// Frames per second asked of the camera.
        fps: Option<u32>,
    },
    /// `csi://0`: a camera on the Jetson's CSI connector, by sensor number. The platform resolves it.
    Csi {
        /// Sensor number.
        sensor: u32,
    },
    /// `launch:ELEMENT ! ELEMENT`: a GStreamer fragment with one open source pad, parsed alone.
    Launch(String),
    /// `synthetic://traffic?…`: the built-in scene.
    Synthetic(SyntheticScene),
}

/// Transport of RTSP media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtspTransport {
    /// Interleaved in the control connection.
    Tcp,
    /// RTP over UDP.
    Udp,
}

/// What to ask of a V4L2 camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum V4l2Format {
    /// Whatever the camera offers first.
    Any,
    /// Uncompressed pixels.
    Raw,
    /// Motion JPEG.
    Mjpeg,
}

/// Parameters of the built-in traffic scene.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticScene {
    /// Same seed, same pixels and boxes. Default 1.
    pub seed: u64,
    /// Objects in the scene at a time, 0 to 200. Default 8.
    pub objects: u32,
    /// Pixels in a row, 16 to 7680. Default 640.
    pub width: u32,
    /// Rows, 16 to 4320. Default 360.
    pub height: u32,
    /// Frames per second, 1 to 240. Default 30.
    pub fps: u32,
    /// Frames until the end; `None`: endless.
    pub frames: Option<u64>,
    /// Paced like a camera (newest frame wins) or as fast as frames are taken, like a file. `realtime=false` for the latter. Default true.
    pub pace: Pace,
}

/// Who sets the speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The clock, as with a camera.
    Realtime,
    /// The consumer, as with a file.
    AsFast,
}

impl SourceUri {
    /// Whether frames come by the clock, so that old ones are replaced by newer ones when the chain is slower.
    #[must_use]
    pub fn is_live(&self) -> bool {
        match self {
            Self::Rtsp { .. } | Self::V4l2 { .. } | Self::Csi { .. } | Self::Launch(_) => true,
            Self::Synthetic(scene) => scene.pace == Pace::Realtime,
            Self::File(_) => false,
        }
    }
}
