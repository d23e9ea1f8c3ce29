//! Why the chain cannot start or had to stop.

use crate::config::ConfigError;
use crate::detect::DetectError;
use crate::publish::PublishError;
use crate::render::RenderError;
use crate::source::SourceError;

/// Why the chain cannot start or had to stop. Each text holds its cause's whole text, so no cause is given beside it.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The detector cannot be made, or failed.
    #[error("detector: {0}")]
    Detect(DetectError),
    /// The detector failed on a picture of a list.
    #[error("detector, on {}: {cause}", path.display())]
    Picture {
        /// The picture's file.
        path: std::path::PathBuf,
        /// What the detector said.
        cause: Box<DetectError>,
    },
    /// A sink cannot be started.
    #[error("publish: {0}")]
    Publish(PublishError),
    /// Rules of sources are about objects that the network does not know; whole sentences.
    #[error("{}", .0.join("\n"))]
    UnknownObjects(Vec<String>),
    /// What was named on the command line is no source.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A recording cannot be started.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// GStreamer cannot be started.
    #[error("{0}")]
    Source(SourceError),
    /// The operating system gives no thread.
    #[error(
        "cannot start thread {name}: {cause}; check the limits on processes and memory (ulimit -u, TasksMax=)"
    )]
    Thread {
        /// Its name.
        name: String,
        /// The operating system's words.
        cause: std::io::Error,
    },
    /// Threads did not end in time.
    #[error("still running {waited_ms} ms after the stop: {names}; their work was abandoned")]
    Late {
        /// Who.
        names: String,
        /// How long was waited.
        waited_ms: u128,
    },
}

impl From<DetectError> for PipelineError {
    fn from(error: DetectError) -> Self {
        Self::Detect(error)
    }
}

impl From<PublishError> for PipelineError {
    fn from(error: PublishError) -> Self {
        Self::Publish(error)
    }
}

impl From<SourceError> for PipelineError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}
