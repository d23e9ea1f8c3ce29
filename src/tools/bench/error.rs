//! Why a benchmark has no result.

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// The warm-up took every batch.
    #[error(
        "no batch is left to measure: {batches} ran, and the warm-up drops {warmup} at the front and {warmup} at the end; run more of them (--batches, --frames or --duration, or a longer source) or drop fewer (--warmup)"
    )]
    NoBatchesLeft {
        /// Batches that ran.
        batches: usize,
        /// Batches that the warm-up drops at each end.
        warmup: usize,
    },
    /// What was given to `--sweep` is no key with values.
    #[error("--sweep {text}: expected KEY=VALUE,VALUE…, such as detector.batch_size=1,2,4")]
    InvalidAxis {
        /// What was given.
        text: String,
    },
    /// One key was given twice.
    #[error("--sweep {key} is given twice; write all its values into one: {key}=VALUE,VALUE…")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A `benchmark.json` of a process is not what was written.
    #[error("the results of the processes cannot be joined: {what} is missing or of another kind")]
    InvalidDocument {
        /// What.
        what: &'static str,
    },
}
