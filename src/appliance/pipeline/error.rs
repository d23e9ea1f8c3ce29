// SPDX-License-Identifier: Apache-2.0
//! Why the pipeline cannot start or had to stop.

use jetwatch_config::ConfigError;
use jetwatch_detect::DetectError;
use jetwatch_metrics::MetricsError;
use jetwatch_publish::PublishError;
use jetwatch_record::RenderError;
use jetwatch_source::SourceError;
use jetwatch_web::WebError;

/// Why the pipeline cannot start or had to stop. Each text includes the text of its cause, so `source()` returns none.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The detector cannot be made, or failed.
    #[error("detector: {0}")]
    Detect(Box<DetectError>),
    /// The detector failed on an image of a list.
    #[error("detector, on {}: {cause}", path.display())]
    Image {
        /// The file of the image.
        path: std::path::PathBuf,
        /// The error of the detector.
        cause: Box<DetectError>,
    },
    /// A secondary network cannot be made, or failed.
    #[error("{key} ({name}): {cause}")]
    Secondary {
        /// Its key in the configuration.
        key: String,
        /// Its name.
        name: String,
        /// The error of the detector.
        cause: Box<DetectError>,
    },
    /// A secondary network is configured for a class that its parent does not detect.
    #[error("{key}: the {of} has no label `{label}`; {}", suggestion(near, known))]
    SecondaryClass {
        /// The key.
        key: String,
        /// The parent: the detector or a secondary network.
        of: &'static str,
        /// The label.
        label: String,
        /// Similar labels.
        near: Vec<String>,
        /// All labels.
        known: Vec<String>,
    },
    /// A secondary network takes one crop at a time, and the batch size is larger.
    #[error(
        "{key}: found {found}, but {model} takes one crop at a time: set it to 1, or export the network with a dynamic batch axis"
    )]
    SecondaryBatch {
        /// The key.
        key: String,
        /// The configured batch size.
        found: usize,
        /// The model's name.
        model: String,
    },
    /// The network for the appearance of detections gives no embeddings.
    #[error(
        "tracker.appearance: the secondary network `{name}` ({model}) gives no embeddings; its model.yaml needs `layout: embedding` in output"
    )]
    AppearanceLayout {
        /// Its name in the configuration.
        name: String,
        /// The model's name.
        model: String,
    },
    /// A secondary network gives embeddings that nothing reads.
    #[error(
        "{key} ({name}): {model} gives embeddings and no labels; name it in tracker.appearance"
    )]
    UnusedEmbeddings {
        /// Its key in the configuration.
        key: String,
        /// Its name.
        name: String,
        /// The model's name.
        model: String,
    },
    /// The detector gives embeddings.
    #[error(
        "detector.model: {model} gives embeddings and no boxes; add it to the list `secondary` and name it in tracker.appearance"
    )]
    DetectorEmbeddings {
        /// The model's name.
        model: String,
    },
    /// A sink cannot be started.
    #[error("publish: {0}")]
    Publish(PublishError),
    /// Metrics cannot be offered.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The page cannot be offered.
    #[error(transparent)]
    Web(#[from] WebError),
    /// The source on the command line is invalid, or the file has labels that the network does not have.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A recording cannot be started.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// GStreamer cannot be started.
    #[error("{0}")]
    Source(SourceError),
    /// The operating system refused a thread.
    #[error(
        "cannot start thread {name}: {cause}; check the limits on processes and memory (ulimit -u, TasksMax=)"
    )]
    Thread {
        /// Its name.
        name: String,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// Threads did not end in time.
    #[error("still running {waited_ms} ms after the stop: {names}; their work was abandoned")]
    Late {
        /// The names of the threads.
        names: String,
        /// The deadline, in ms.
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
        Self::Detect(Box::new(error))
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
