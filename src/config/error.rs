//! All problems of a file in one report.

/// Everything wrong with one file.
#[derive(Debug)]
pub struct ConfigError;

/// One thing wrong with a file.
#[derive(Debug)]
pub struct Problem;
