// SPDX-License-Identifier: Apache-2.0
//! Figures of the daemon for Prometheus: what they are called, their text, and the ways to read them.
//!
//! ```text
//! pipeline ──► SourceSeries (atomics), Figures (copies) ──► write_figures ──► listener: GET /metrics
//!                                                                        └──► TextFile: node_exporter's collector
//! ```
//!
//! The pipeline counts into [`SourceSeries`] and makes [`Figures`] when they are asked for; this crate knows neither a source nor
//! a sink. Reading costs the frames' threads nothing but copies of counters: text is made on the threads of this crate.
//! [`families`] declares every family once; the reference page is made from it.

mod error;
mod exporter;
mod exposition;
pub mod families;
mod figures;
mod listener;
mod series;
mod service;
mod text_file;
mod token;
mod write;

pub use error::MetricsError;
pub use exporter::{Exporter, check};
pub use exposition::{CONTENT_TYPE, Form, WriteFigures};
pub use figures::{
    DetectorFigures, DetectorInfo, DetectorState, Figures, MachineFigures, MediaFigures,
    MqttFigures, ProcessFigures, SourceFigures, SpoolFigures,
};
pub use series::{SeriesRules, SourceSeries};
pub use write::write_figures;
