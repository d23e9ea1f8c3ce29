// SPDX-License-Identifier: Apache-2.0
//! Inspects an ONNX file: summary, diagnostics and matching layouts, as data for `jetwatch model inspect`.

use std::path::Path;

use serde::Serialize;

use jetwatch_detect::graph::{self, Diagnostic, GraphError, Network, Severity};
use jetwatch_detect::layouts::{InferredLayout, candidate_layouts};

use crate::lint::lint;

/// An inspected ONNX file.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// Summary of the file.
    pub network: Network,
    /// Problems with the runtimes, the most severe first.
    #[serde(rename = "findings")]
    pub diagnostics: Vec<Diagnostic>,
    /// Matching output layouts, the most likely first.
    pub layouts: Vec<InferredLayout>,
}

impl Inspection {
    /// Whether a runtime can run the network unchanged.
    pub fn is_runnable(&self) -> bool {
        self.diagnostics
            .iter()
            .all(|diagnostic| diagnostic.severity < Severity::Error)
    }
}

/// Inspects the ONNX file at `path`.
///
/// # Errors
/// The file cannot be read, is damaged, or contains no network.
pub fn inspect(path: &Path) -> Result<Inspection, GraphError> {
    let network = graph::read(path)?;
    Ok(Inspection {
        diagnostics: lint(&network),
        layouts: candidate_layouts(&network, None),
        network,
    })
}
