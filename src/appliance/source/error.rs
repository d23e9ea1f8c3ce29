// SPDX-License-Identifier: Apache-2.0
//! Errors of sources, each with a remedy.

use std::path::PathBuf;
use std::time::Duration;

use jetwatch_config::SecretError;

/// Why one session with a source ended.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum SourceError {
    #[error("cannot open {}: {cause}; check the path and that user {user} may read it", path.display())]
    File {
        path: PathBuf,
        cause: std::io::Error,
        user: String,
    },
    #[error(
        "not open after {} ms; check the disk, the network share or the device behind it", waited.as_millis()
    )]
    NotOpened { waited: Duration },
    #[error(
        "an earlier attempt to open or close it has not ended yet; check the server, the disk or the device behind it"
    )]
    StillBlocked,
    #[error("{} is not a regular file; name a video file, or read a pipe with a launch fragment", path.display())]
    NotAFile { path: PathBuf },
    #[error("GStreamer does not start: {0}")]
    Init(String),
    #[error("GStreamer element {element} is missing; install it with: apt-get install {package}")]
    MissingElement {
        element: &'static str,
        package: &'static str,
    },
    #[error("no GStreamer plug-in for {what} ({caps}); install it with: apt-get install {package}")]
    MissingPlugin {
        what: String,
        caps: String,
        package: &'static str,
    },
    #[error(
        "the installed GStreamer plug-in for {what} ({caps}) cannot decode this stream: it is damaged or unusual, or memory or file \
         descriptors have run out; try it with: gst-play-1.0"
    )]
    Undecodable { what: String, caps: String },
    #[error(
        "the certificate of the server is not trusted ({reasons}); {}",
        certificate_remedies(reasons)
    )]
    Certificate { reasons: String },
    #[error(
        "launch fragment is not usable: {0}; it must be GStreamer elements as for gst-launch-1.0 that end in raw or encoded video"
    )]
    Launch(String),
    #[error("{} does not offer {requested}; it offers: {offered}; change format, width, height and fps of this source", device.display())]
    CameraFormat {
        device: PathBuf,
        requested: String,
        offered: String,
    },
    #[error("cannot build the pipeline: {0}")]
    Build(String),
    #[error("{element}: {message}{}", hint.map(|hint| format!("; {hint}")).unwrap_or_default())]
    Element {
        element: String,
        message: String,
        hint: Option<&'static str>,
    },
    #[error(
        "{element}: the server refuses access ({message}); check user and password of this source (user, password_file), and the path in its \
         uri; a reload tries again at once, and further attempts are rare, so that the camera does not lock the account"
    )]
    AccessRefused { element: String, message: String },
    #[error(
        "an image in NVMM cannot be read without a copy (see the log for the reason); the source is reopened without zero-copy"
    )]
    ZeroCopyFailed,
    #[error("no frame for {} ms (stall_timeout_ms)", waited.as_millis())]
    Stalled { waited: Duration },
    #[error(
        "no first frame within {} ms; the file is cut off or damaged, or this machine is too busy to open it (a larger \
         stall_timeout_ms waits longer)", waited.as_millis()
    )]
    NoStart { waited: Duration },
    #[error("the media has no video frame; check that the file is complete and has a video track")]
    Empty,
    #[error("the media has no video stream (found: {found}){hint}")]
    NoVideo { found: String, hint: &'static str },
    /// This machine cannot open such a source.
    #[error("{uri}: {reason}")]
    Unsupported { uri: String, reason: String },
    /// The requested decoding or scaling is not possible.
    #[error("{0}")]
    Refused(String),
    #[error("password: {0}")]
    Password(SecretError),
}

/// What to do about each of the `reasons` why a certificate is not trusted.
fn certificate_remedies(reasons: &str) -> String {
    const REMEDIES: [(&str, &str); 3] = [
        (
            "unknown-ca",
            "set ca_file of this source to a file with the certificate of its authority, or with its own where it is signed by itself, as \
             cameras do: openssl s_client -connect HOST:PORT </dev/null | openssl x509 -out FILE (compare its fingerprint with what the \
             camera's page shows)",
        ),
        (
            "bad-identity",
            "write in the uri the name that the certificate has, with a line for it in /etc/hosts, or give the camera a certificate with \
             the host of the uri",
        ),
        (
            "activated expired",
            "check the clock of this machine and of the camera, or renew the certificate",
        ),
    ];
    let applies = |words: &str| words.split(' ').any(|word| reasons.contains(word));
    let mut texts = REMEDIES
        .iter()
        .filter(|(words, _)| applies(words))
        .peekable();
    if texts.peek().is_none() {
        return "give the camera another certificate".to_owned();
    }
    texts.map(|(_, text)| *text).collect::<Vec<_>>().join("; ")
}

impl SourceError {
    /// Whether only other credentials help, so that frequent attempts are useless and may lock the account.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::AccessRefused { .. })
    }

    /// Whether a retry is useless without a change by the user. A file that cannot be decoded stays so.
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
