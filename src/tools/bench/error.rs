// SPDX-License-Identifier: Apache-2.0
//! Why a benchmark has no result.

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// No batch is left after the warm-up.
    #[error(
        "no batch is left to measure: {batches} ran, and the warm-up drops {warmup} at the front and {warmup} at the end; run more of them (--batches, --frames or --duration, or a longer source) or drop fewer (--warmup)"
    )]
    NoBatchesLeft {
        /// Batches that ran.
        batches: usize,
        /// Batches that the warm-up drops at each end.
        warmup: usize,
    },
    /// A value of `--sweep` is not a key with values.
    #[error("--sweep {text}: expected KEY=VALUE,VALUE…, such as detector.batch_size=1,2,4")]
    InvalidAxis {
        /// The value.
        text: String,
    },
    /// One key was given twice.
    #[error("--sweep {key} is given twice; write all its values into one: {key}=VALUE,VALUE…")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The `benchmark.json` of a process has an unexpected form.
    #[error("the results of the processes cannot be joined: {what} is missing or of another kind")]
    InvalidDocument {
        /// The key.
        what: &'static str,
    },
}
