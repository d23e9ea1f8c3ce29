//! FLOOR 2: profiles and benchmarks in; tables, verdicts and plots out. Offline: it knows no pipeline and starts nothing but nsys.
//!
//! `input` says what a file is, `capture` holds what a profile tells, `tables` and `stages` count it, `verdict` says what it
//! means, `compare` sets several beside each other, `html` draws them. [`analyze`] is the way through.

mod analysis;
mod benchmark;
pub mod capture;
pub mod compare;
mod summary;
mod error;
pub mod metrics;
mod html;
mod input;
mod plot;
pub mod gpu_projection;
pub mod schema;
pub mod summary_stats;
pub mod critical_path;
pub mod table;
pub mod tables;
pub mod advice;

pub use analysis::{ALL_TABLES, Analysis, Plots, Request, VERDICT, analyze, table_names};
pub use summary::{ReportSummary, RangeSummary, Workload};
pub use error::ReportError;
pub use html::page;
