// SPDX-License-Identifier: Apache-2.0
//! Errors of reading images in NVMM without a copy.

use crate::cuda::CudaError;

/// [`UnknownRelease`](Self::UnknownRelease) and [`NoLibrary`](Self::NoLibrary) apply to all images; the other variants concern one
/// buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum SurfaceError {
    #[error(
        "the layout of NVMM's buffers is known for L4T 35 and 36 (JetPack 5 and 6), and this machine has {found}; images are \
         copied instead"
    )]
    UnknownRelease { found: String },
    #[error(
        "libnvbufsurface cannot be used: {reason}; JetPack's package nvidia-l4t-core or nvidia-l4t-multimedia provides it; \
         images are copied instead"
    )]
    NoLibrary { reason: String },
    #[error("a buffer does not look like an image in NVMM: {what} is {found}, expected {expected}")]
    Unexpected {
        what: &'static str,
        found: String,
        expected: String,
    },
    #[error(
        "an image in NVMM is block-linear (in tiles), and the GPU's kernel reads rows; give nvvidconv bl-output=false or a \
         format such as BGRx"
    )]
    BlockLinear,
    #[error(
        "{call} of libnvbufsurface failed; see the kernel's log for nvmap, and restart the daemon"
    )]
    Call { call: &'static str },
    #[error("an image in NVMM cannot be mapped for the GPU: {0}")]
    Cuda(#[from] CudaError),
}
