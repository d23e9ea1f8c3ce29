//! Pictures in NVMM, the memory of Jetson's video engines, as memory that the GPU reads in place.
//!
//! ```text
//!   GStreamer's buffer ─map─► NvBufSurface ─libnvbufsurface─► EGL image ─libcuda─► address and pitch
//! ```
//!
//! A buffer of NVMM shows a structure of NVIDIA's, whose layout depends on the release of L4T: [`SurfaceReader::open`] refuses
//! releases that it does not know, and pictures then go the way that is always open, through the CPU's memory. What is read of
//! the structure is read by way of the kernel and checked against what the pipeline has agreed on, so that another layout is an
//! error and no crash. Each memory is registered once and unregistered when GStreamer frees it: pools give the same few again
//! and again.
//!
//! [`NvmmImage`] is made where the pipeline ends and needs none of these libraries; [`Surface`] is made of it by the detector.

mod error;
mod layout;
mod library;
mod nvmm_image;
mod reader;
mod registration;
mod safe_read;

pub use error::SurfaceError;
pub use nvmm_image::NvmmImage;
pub use reader::{Surface, SurfaceReader};
