//! FLOOR 2: profiles and benchmarks in; tables, verdicts and plots out. Offline: it knows no pipeline and starts nothing but nsys.

pub mod capture;
mod error;
pub mod evidence;
pub mod projection;
pub mod schema;
pub mod spread;
pub mod stages;
pub mod table;
pub mod tables;
pub mod verdict;

pub use error::ReportError;
