// SPDX-License-Identifier: Apache-2.0
//! Why a benchmark has no result.

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchmarkError {
    #[error(
        "no batch is left to measure: {batches} ran, and the warm-up drops {warmup} at the front and {warmup} at the end; run more of them (--batches, --frames or --duration, or a longer source) or drop fewer (--warmup)"
    )]
    NoBatchesLeft { batches: usize, warmup: usize },
    #[error("--sweep {text}: expected KEY=VALUE,VALUE…, such as detector.batch_size=1,2,4")]
    InvalidAxis { text: String },
    #[error("--sweep {key} is given twice; write all its values into one: {key}=VALUE,VALUE…")]
    DuplicateKey { key: String },
}
