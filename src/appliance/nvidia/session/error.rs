//! Why a run on the GPU failed.

use crate::cuda::CudaError;

/// A failure of making or using an [`Execution`](super::Execution).
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The GPU or its driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The network.
    #[error("the network cannot {doing}: {reason}")]
    Network {
        /// What it was asked to do, as `run a batch of 4`.
        doing: String,
        /// What its library said.
        reason: String,
    },
    /// A plan that cannot be run.
    #[error(
        "{what} is {found}, expected {expected}; the engine does not fit the model, build it again"
    )]
    Plan {
        /// Which part.
        what: String,
        /// What it is.
        found: String,
        /// What it could be.
        expected: String,
    },
    /// A use that the plan does not allow: a bug of the caller.
    #[error("{what} is {found}, expected {expected}; this is a bug in jetwatch")]
    Use {
        /// Which argument.
        what: &'static str,
        /// What it is.
        found: String,
        /// What it could be.
        expected: String,
    },
}
