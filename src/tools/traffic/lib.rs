// SPDX-License-Identifier: Apache-2.0
//! A drawn street with its ground truth: the `synthetic://` source, labeled datasets, and scores against the truth.
//!
//! A tool: the appliance does not depend on it. The program hands [`synthetic_factory`] to the pipeline, which calls it for
//! each source with a `synthetic://` URI. `jetwatch dataset` calls [`dataset::write`], `jetwatch demo` uses [`Scorer`].

mod crop_resize;
pub mod dataset;
pub mod scene;
mod score;
mod synthetic_source;

use std::sync::Arc;

use jetwatch_source::SyntheticFactory;

pub use score::{SceneSequence, Score, Scorer};
pub use synthetic_source::SyntheticSource;

/// The factory that makes a [`SyntheticSource`] of a `synthetic://` URI.
pub fn synthetic_factory() -> SyntheticFactory {
    Arc::new(|scene, options| Box::new(SyntheticSource::new(scene, options)))
}
