//! Why the chain cannot start or had to stop.

use crate::detect::DetectError;
use crate::publish::PublishError;
use crate::source::SourceError;

/// Why the chain cannot start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The detector cannot be made, or failed.
    #[error("detector: {0}")]
    Detect(#[from] DetectError),
    /// A sink cannot be started.
    #[error("publish: {0}")]
    Publish(#[from] PublishError),
    /// GStreamer cannot be started.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// The operating system gives no thread.
    #[error("cannot start thread {name}: {cause}; check the limits on processes and memory (ulimit -u, TasksMax=)")]
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
