//! Why a recording cannot be made or went wrong.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot be made or went wrong.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The file's name does not say which kind of file it is to be.
    #[error(
        "cannot record to {}: {found}, expected a name that ends in .mp4, .mkv or .webm",
        path.display()
    )]
    Suffix {
        /// The file.
        path: PathBuf,
        /// What its name ends in.
        found: String,
    },
    /// Nothing here can encode video for this kind of file.
    #[error(
        "cannot record to {}: no encoder for {container} is installed; install one of {}",
        path.display(),
        packages.join(", ")
    )]
    NoEncoder {
        /// The file.
        path: PathBuf,
        /// The kind of file.
        container: &'static str,
        /// Packages with encoders that would do.
        packages: Vec<&'static str>,
    },
    /// An element is missing or refuses.
    #[error("cannot record: GStreamer's {element} cannot be used: {reason}; install {package}")]
    Element {
        /// Its name.
        element: &'static str,
        /// GStreamer's words.
        reason: String,
        /// Where it is from.
        package: &'static str,
    },
    /// The file cannot be made.
    #[error("cannot record to {}: {cause}; choose a folder that exists and can be written to", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        cause: io::Error,
    },
    /// The encoder or the disk failed while it ran.
    #[error("the recording to {} ended early: {element} says: {reason}; {advice}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The element that failed.
        element: String,
        /// Its words.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// The file could not be completed.
    #[error(
        "the recording to {} is not complete: the encoder did not end within {waited_ms} ms; the file may not play",
        path.display()
    )]
    Late {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        waited_ms: u128,
    },
    /// No frame came.
    #[error(
        "nothing was recorded to {}: no source gave a frame; the file was removed",
        path.display()
    )]
    Nothing {
        /// The file.
        path: PathBuf,
    },
    /// The operating system gives no thread.
    #[error(
        "cannot start thread record: {0}; check the limits on processes and memory (ulimit -u, TasksMax=)"
    )]
    Thread(io::Error),
}
