//! FLOOR 2: profiles and benchmarks in; tables, verdicts and plots out. Offline: it knows no pipeline and starts nothing but nsys.
//!
//! `input` says what a file is, `capture` holds what a profile tells, `tables` and `critical_path` count it, `advice` says what it
//! means, `compare` sets several beside each other, `html` draws them. [`analyze`] is the way through.

pub mod advice;
mod analysis;
mod benchmark;
pub mod capture;
pub mod compare;
pub mod critical_path;
mod error;
pub mod gpu_projection;
mod html;
mod input;
pub mod metrics;
mod plot;
pub mod schema;
mod summary;
pub mod summary_stats;
pub mod table;
pub mod tables;

pub use analysis::{ALL_TABLES, Analysis, Plots, Request, VERDICT, analyze, table_names};
pub use error::ReportError;
pub use html::page;
pub use summary::{RangeSummary, ReportSummary, Workload};
