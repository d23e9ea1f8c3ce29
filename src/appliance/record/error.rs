// SPDX-License-Identifier: Apache-2.0
//! Errors of recording.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot start or failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum RenderError {
    #[error(
        "cannot record to {}: {found}, expected a name that ends in .mp4, .mkv or .webm",
        path.display()
    )]
    Suffix { path: PathBuf, found: String },
    #[error(
        "cannot record to {}: no encoder for {container} is installed; install one of {}",
        path.display(),
        packages.join(", ")
    )]
    NoEncoder {
        path: PathBuf,
        container: &'static str,
        packages: Vec<&'static str>,
    },
    #[error("cannot record: GStreamer's {element} cannot be used: {reason}; install {package}")]
    Element {
        element: &'static str,
        reason: String,
        package: &'static str,
    },
    #[error("cannot record to {}: {cause}; choose a folder that exists and can be written to", path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("the recording to {} ended early: error of {element}: {reason}; {}; {advice}", path.display(), file_state(*is_mp4))]
    Broken {
        path: PathBuf,
        element: String,
        reason: String,
        /// Whether it is an MP4, which needs its end.
        is_mp4: bool,
        advice: &'static str,
    },
    #[error(
        "the recording to {} is not complete: the encoder did not finish within {waited_ms} ms; the file may not play",
        path.display()
    )]
    Late { path: PathBuf, waited_ms: u128 },
    #[error(
        "nothing was recorded to {}: no source delivered a frame; the file was removed",
        path.display()
    )]
    Nothing { path: PathBuf },
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
