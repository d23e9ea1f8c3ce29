//! FLOOR 2: profiles and benchmarks in; tables, verdicts and plots out. Offline: it knows no pipeline and starts nothing but nsys.
//!
//! `input` says what a file is, `capture` holds what a profile tells, `tables` and `stages` count it, `verdict` says what it
//! means, `compare` sets several beside each other, `html` draws them. [`analyze`] is the way through.

mod analysis;
mod benchmark;
pub mod capture;
pub mod compare;
mod digest;
mod error;
pub mod evidence;
mod html;
mod input;
mod plot;
pub mod projection;
pub mod schema;
pub mod spread;
pub mod stages;
pub mod table;
pub mod tables;
pub mod verdict;

pub use analysis::{ALL, Analysis, Plots, Request, VERDICT, analyze, table_names};
pub use digest::{Digest, RangeDigest, Workload};
pub use error::ReportError;
pub use html::page;
