// SPDX-License-Identifier: Apache-2.0
//! Errors of an inference session.

use crate::cuda::CudaError;

/// A failure of creating or using an [`InferenceSession`](super::InferenceSession).
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum SessionError {
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error("the network cannot {doing}: {reason}")]
    Network {
        /// The failed operation, such as `run a batch of 4`.
        doing: String,
        reason: String,
    },
    #[error(
        "{what} is {found}, expected {expected}; the engine does not fit the model, build it again"
    )]
    Plan {
        what: String,
        found: String,
        expected: String,
    },
    /// A call that the plan does not allow: a bug of the caller.
    #[error("{what} is {found}, expected {expected}; this is a bug in jetwatch")]
    Use {
        what: &'static str,
        found: String,
        expected: String,
    },
}
