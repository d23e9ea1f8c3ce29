//! Why a source failed, with what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use jetwatch_config::SecretError;

/// Why one session with a source ended.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("cannot open {}: {cause}; check the path and that user {user} may read it", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        cause: std::io::Error,
        /// Who tried.
        user: String,
    },
    /// GStreamer itself could not be started.
    #[error("GStreamer does not start: {0}")]
    Init(String),
    /// An element that jetwatch itself uses is not installed.
    #[error("GStreamer element {element} is missing; install it with: apt-get install {package}")]
    MissingElement {
        /// Factory name.
        element: &'static str,
        /// Debian and Ubuntu package.
        package: &'static str,
    },
    /// A plug-in for the container or codec is not installed.
    #[error("no GStreamer plug-in for {what} ({caps}); install it with: apt-get install {package}")]
    MissingPlugin {
        /// What is missing, in GStreamer's words.
        what: String,
        /// The media type.
        caps: String,
        /// Debian and Ubuntu package that usually has it.
        package: &'static str,
    },
    /// The launch fragment cannot be parsed or has no free source pad.
    #[error(
        "launch fragment is not usable: {0}; it must be GStreamer elements joined by ! with one free source pad"
    )]
    Launch(String),
    /// The camera has no such format, size or rate.
    #[error("{} does not offer {wanted}; it offers: {offered}; change format, width, height and fps of this source", device.display())]
    CameraFormat {
        /// The device node.
        device: PathBuf,
        /// What the configuration asks for.
        wanted: String,
        /// What the camera can do.
        offered: String,
    },
    /// Elements do not fit together.
    #[error("cannot build the pipeline: {0}")]
    Build(String),
    /// An element reported an error.
    #[error("{element}: {message}{}", hint.map(|hint| format!("; {hint}")).unwrap_or_default())]
    Element {
        /// Path of the element.
        element: String,
        /// GStreamer's words and debug detail.
        message: String,
        /// What to do.
        hint: Option<&'static str>,
    },
    /// A picture in NVMM could not be read where it is; what comes next is copied, so that opening it again helps.
    #[error(
        "a picture in NVMM cannot be read in place (the log says why); it is opened again, with copies"
    )]
    ZeroCopyFailed,
    /// Frames stopped coming.
    #[error("no frame for {} ms (stall_timeout_ms)", waited.as_millis())]
    Stalled {
        /// How long.
        waited: Duration,
    },
    /// A file gives no frame at all.
    #[error(
        "no first frame within {} ms; the file is cut off or damaged, or this machine is too busy to open it (a larger \
         stall_timeout_ms waits longer)", waited.as_millis()
    )]
    NoStart {
        /// How long was waited for it.
        waited: Duration,
    },
    /// The media ended before its first frame.
    #[error("the media has no video frame; check that the file is complete and has a video track")]
    Empty,
    /// The media has streams, but none of them is video.
    #[error("the media has no video stream (found: {found})")]
    NoVideo {
        /// Media types found.
        found: String,
    },
    /// This machine cannot open such a source.
    #[error("{uri}: {reason}")]
    Unsupported {
        /// The address.
        uri: String,
        /// Why, and what to use instead.
        reason: String,
    },
    /// What the configuration asks of decoding or scaling cannot be done.
    #[error("{0}")]
    Refused(String),
    /// A password could not be read.
    #[error("password: {0}")]
    Password(SecretError),
}

impl SourceError {
    /// Whether trying again can help without anybody doing something. A file that cannot be decoded stays so.
    #[must_use]
    pub const fn is_permanent(&self, live: bool) -> bool {
        match self {
            Self::Init(_)
            | Self::MissingElement { .. }
            | Self::Launch(_)
            | Self::Unsupported { .. } => true,
            _ => !live,
        }
    }
}
