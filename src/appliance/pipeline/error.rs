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
#[allow(missing_docs)] // The texts say what each is.
pub enum PipelineError {
    #[error("detector: {0}")]
    Detect(Box<DetectError>),
    #[error("detector, on {}: {cause}", path.display())]
    Image {
        path: std::path::PathBuf,
        cause: Box<DetectError>,
    },
    #[error("{key} ({name}): {cause}")]
    Secondary {
        key: String,
        name: String,
        cause: Box<DetectError>,
    },
    #[error("{key}: the {of} has no label `{label}`; {}", suggestion(near, known))]
    SecondaryClass {
        key: String,
        of: &'static str,
        label: String,
        near: Vec<String>,
        known: Vec<String>,
    },
    #[error(
        "{key}: found {found}, but {model} takes one crop at a time: set it to 1, or export the network with a dynamic batch axis"
    )]
    SecondaryBatch {
        key: String,
        found: usize,
        model: String,
    },
    #[error(
        "tracker.appearance: the secondary network `{name}` ({model}) gives no embeddings; its model.yaml needs `layout: embedding` in output"
    )]
    AppearanceLayout { name: String, model: String },
    #[error(
        "{key} ({name}): {model} gives embeddings and no labels; name it in tracker.appearance"
    )]
    UnusedEmbeddings {
        key: String,
        name: String,
        model: String,
    },
    #[error("detector.model: {model} gives {gives}")]
    NoBoxes { model: String, gives: &'static str },
    #[error("publish: {0}")]
    Publish(PublishError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    Web(#[from] WebError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error("{0}")]
    Source(SourceError),
    #[error(
        "cannot start thread {name}: {cause}; check the limits on processes and memory (ulimit -u, TasksMax=)"
    )]
    Thread { name: String, cause: std::io::Error },
    #[error("still running {waited_ms} ms after the stop: {names}; their work was abandoned")]
    Late { names: String, waited_ms: u128 },
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
