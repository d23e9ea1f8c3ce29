// SPDX-License-Identifier: Apache-2.0
//! Reads profiles and benchmarks; prints tables, verdicts and plots. Offline: it does not depend on the pipeline and
//! starts nothing but nsys.
//!
//! `input_files` finds the files, `input` identifies one, `capture` holds the events of a profile, `tables` and `critical_path` summarize them,
//! `stages` classifies ranges, `advice` derives the verdict, `compare` compares several reports, `html` draws them. [`analyze`] is the entry point.

mod advice;
mod analysis;
mod benchmark;
mod blocks;
pub mod capture;
pub mod compare;
mod critical_path;
mod error;
mod gpu_projection;
mod html;
mod input;
mod input_files;
mod interner;
mod layers_json;
mod metrics;
mod on_demand;
mod plot;
mod run_tables;
mod schema;
pub mod series;
mod stages;
mod summary;
mod summary_stats;
pub mod table;
mod tables;

pub use advice::{Finding, VERDICT};
pub use analysis::{
    ALL_TABLES, Analysis, Plots, Request, analyze, analyze_measurement, table_names,
};
pub use benchmark::{run_findings, trial_limit};
pub use error::ReportError;
use error::Result;
pub use html::page;
pub use input_files::{find_reports, titles};
pub use layers_json::layers_summary;
pub use summary::{PROFILE_KEY, ReportSummary};
