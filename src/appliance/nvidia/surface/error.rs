//! Why images in NVMM cannot be read in place.

use crate::cuda::CudaError;

/// Why not. With [`UnknownRelease`](Self::UnknownRelease) and [`NoLibrary`](Self::NoLibrary) no image can be; the others are
/// about one buffer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SurfaceError {
    /// Nobody has looked at this release's structures.
    #[error(
        "the layout of NVMM's buffers is known for L4T 35 and 36 (JetPack 5 and 6), and this machine has {found}; images are \
         copied instead"
    )]
    UnknownRelease {
        /// `L4T 37`, or that there is none.
        found: String,
    },
    /// The library is not there, or lacks a function.
    #[error(
        "libnvbufsurface cannot be used: {reason}; JetPack's package nvidia-l4t-core or nvidia-l4t-multimedia provides it; \
         images are copied instead"
    )]
    NoLibrary {
        /// The loader's words, or the function that is missing.
        reason: String,
    },
    /// A buffer that is no image of NVMM, or one of another layout.
    #[error("a buffer does not look like an image in NVMM: {what} is {found}, expected {expected}")]
    Unexpected {
        /// Which field.
        what: &'static str,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// Tiles instead of rows.
    #[error(
        "an image in NVMM is block-linear (in tiles), and the GPU's kernel reads rows; give nvvidconv bl-output=false or a \
         format such as BGRx"
    )]
    BlockLinear,
    /// libnvbufsurface refused.
    #[error(
        "{call} of libnvbufsurface failed; see the kernel's log for nvmap, and restart the daemon"
    )]
    Call {
        /// Which function.
        call: &'static str,
    },
    /// libcuda refused.
    #[error("an image in NVMM cannot be mapped for the GPU: {0}")]
    Cuda(#[from] CudaError),
}
