// SPDX-License-Identifier: Apache-2.0
//! Errors of reading images in NVMM without a copy.

use crate::cuda::CudaError;

/// [`UnknownRelease`](Self::UnknownRelease) and [`NoLibrary`](Self::NoLibrary) apply to all images; the other variants concern one
/// buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SurfaceError {
    /// The layout of this release's structures is unknown.
    #[error(
        "the layout of NVMM's buffers is known for L4T 35 and 36 (JetPack 5 and 6), and this machine has {found}; images are \
         copied instead"
    )]
    UnknownRelease {
        /// `L4T 37`, or that there is no L4T.
        found: String,
    },
    /// The library is missing, or does not have a function.
    #[error(
        "libnvbufsurface cannot be used: {reason}; JetPack's package nvidia-l4t-core or nvidia-l4t-multimedia provides it; \
         images are copied instead"
    )]
    NoLibrary {
        /// The loader's message, or the missing function.
        reason: String,
    },
    /// A buffer that is not an image in NVMM, or one with another layout.
    #[error("a buffer does not look like an image in NVMM: {what} is {found}, expected {expected}")]
    Unexpected {
        /// Name of the field.
        what: &'static str,
        /// Its value.
        found: String,
        /// The accepted values.
        expected: String,
    },
    /// The image is in tiles instead of rows.
    #[error(
        "an image in NVMM is block-linear (in tiles), and the GPU's kernel reads rows; give nvvidconv bl-output=false or a \
         format such as BGRx"
    )]
    BlockLinear,
    /// A call of libnvbufsurface failed.
    #[error(
        "{call} of libnvbufsurface failed; see the kernel's log for nvmap, and restart the daemon"
    )]
    Call {
        /// Name of the function.
        call: &'static str,
    },
    /// A call of libcuda failed.
    #[error("an image in NVMM cannot be mapped for the GPU: {0}")]
    Cuda(#[from] CudaError),
}
