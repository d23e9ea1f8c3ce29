//! Why the chain cannot start or had to stop.

use jetwatch_config::ConfigError;
use jetwatch_detect::DetectError;
use jetwatch_publish::PublishError;
use jetwatch_record::RenderError;
use jetwatch_source::SourceError;

/// Why the chain cannot start or had to stop. Each text holds its cause's whole text, so no cause is given beside it.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The detector cannot be made, or failed.
    #[error("detector: {0}")]
    Detect(DetectError),
    /// The detector failed on a picture of a list.
    #[error("detector, on {}: {cause}", path.display())]
    Image {
        /// The picture's file.
        path: std::path::PathBuf,
        /// What the detector said.
        cause: Box<DetectError>,
    },
    /// A secondary network cannot be made, or failed.
    #[error("{key} ({name}): {cause}")]
    Secondary {
        /// Its place in the configuration.
        key: String,
        /// Its name.
        name: String,
        /// What the detector said.
        cause: Box<DetectError>,
    },
    /// A secondary network is to look at a class that what it stands on does not find.
    #[error("{key}: the {of} has no label `{label}`; {}", suggestion(near, known))]
    SecondaryClass {
        /// The key.
        key: String,
        /// Who has the labels.
        of: &'static str,
        /// The label.
        label: String,
        /// Labels that come near it.
        near: Vec<String>,
        /// All labels.
        known: Vec<String>,
    },
    /// A secondary network takes one crop at a time, and more are asked for.
    #[error(
        "{key}: found {found}, but {model} takes one crop at a time: set it to 1, or export the network with a dynamic batch axis"
    )]
    SecondaryBatch {
        /// The key.
        key: String,
        /// What was asked for.
        found: usize,
        /// The model's name.
        model: String,
    },
    /// A sink cannot be started.
    #[error("publish: {0}")]
    Publish(PublishError),
    /// What was named on the command line is no source, or the file asks for what the network does not know.
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

/// Labels beyond this many are not listed.
const MAX_LISTED: usize = 20;

pub(super) fn suggestion(near: &[String], known: &[String]) -> String {
    match (near, known.len()) {
        ([], ..=MAX_LISTED) => format!("it has {}", known.join(", ")),
        ([], count) => format!("its {count} labels are in its model.yaml"),
        (near, _) => format!("did you mean {}?", near.join(" or ")),
    }
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
