// SPDX-License-Identifier: Apache-2.0
//! Errors of an inference session.

use crate::cuda::CudaError;

/// A failure of creating or using an [`InferenceSession`](super::InferenceSession).
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A failure of the GPU or its driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A failure of the network.
    #[error("the network cannot {doing}: {reason}")]
    Network {
        /// The failed operation, such as `run a batch of 4`.
        doing: String,
        /// Message of the network's library.
        reason: String,
    },
    /// A plan that cannot be run.
    #[error(
        "{what} is {found}, expected {expected}; the engine does not fit the model, build it again"
    )]
    Plan {
        /// The part of the plan.
        what: String,
        /// Its value.
        found: String,
        /// The accepted values.
        expected: String,
    },
    /// A call that the plan does not allow: a bug of the caller.
    #[error("{what} is {found}, expected {expected}; this is a bug in jetwatch")]
    Use {
        /// The argument.
        what: &'static str,
        /// Its value.
        found: String,
        /// The accepted values.
        expected: String,
    },
}
