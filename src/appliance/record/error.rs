// SPDX-License-Identifier: Apache-2.0
//! Errors of recording.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot start or failed.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The file's extension does not select a known container.
    #[error(
        "cannot record to {}: {found}, expected a name that ends in .mp4, .mkv or .webm",
        path.display()
    )]
    Suffix {
        /// The file.
        path: PathBuf,
        /// The extension that was found.
        found: String,
    },
    /// No installed encoder fits this container.
    #[error(
        "cannot record to {}: no encoder for {container} is installed; install one of {}",
        path.display(),
        packages.join(", ")
    )]
    NoEncoder {
        /// The file.
        path: PathBuf,
        /// The container.
        container: &'static str,
        /// Packages with suitable encoders.
        packages: Vec<&'static str>,
    },
    /// An element is missing or failed to initialize.
    #[error("cannot record: GStreamer's {element} cannot be used: {reason}; install {package}")]
    Element {
        /// Name of the element.
        element: &'static str,
        /// GStreamer's message.
        reason: String,
        /// The package that provides it.
        package: &'static str,
    },
    /// The file cannot be created.
    #[error("cannot record to {}: {cause}; choose a folder that exists and can be written to", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        cause: io::Error,
    },
    /// The encoder or the disk failed during the recording.
    #[error("the recording to {} ended early: error of {element}: {reason}; {}; {advice}", path.display(), file_state(*is_mp4))]
    Broken {
        /// The file.
        path: PathBuf,
        /// The element that failed.
        element: String,
        /// Its message.
        reason: String,
        /// Whether it is an MP4, which needs its end.
        is_mp4: bool,
        /// The remedy.
        advice: &'static str,
    },
    /// The file could not be finalized.
    #[error(
        "the recording to {} is not complete: the encoder did not finish within {waited_ms} ms; the file may not play",
        path.display()
    )]
    Late {
        /// The file.
        path: PathBuf,
        /// The timeout, in ms.
        waited_ms: u128,
    },
    /// No frame was received.
    #[error(
        "nothing was recorded to {}: no source delivered a frame; the file was removed",
        path.display()
    )]
    Nothing {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused the thread.
    #[error(
        "cannot start thread record: {0}; check the limits on processes and memory (ulimit -u, TasksMax=)"
    )]
    Thread(io::Error),
}
/// What is left of a recording that ended early.
fn file_state(is_mp4: bool) -> &'static str {
    match is_mp4 {
        true => "an .mp4 cannot be played without its end, other containers can",
        false => "the file plays up to there",
    }
}
