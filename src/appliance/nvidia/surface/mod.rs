// SPDX-License-Identifier: Apache-2.0
//! Images in NVMM, the memory of Jetson's video engines, read by the GPU without a copy.
//!
//! ```text
//!   GStreamer's buffer ─map─► NvBufSurface ─libnvbufsurface─► EGL image ─libcuda─► address and pitch
//! ```
//!
//! A mapped NVMM buffer is a structure of NVIDIA's, whose layout depends on the release of L4T. [`SurfaceReader::open`] refuses
//! unknown releases; images are then copied through CPU memory. The structure is read with a system call and checked against
//! the negotiated caps, so that an unexpected layout is an error and not a crash. Each memory block is registered once and
//! unregistered when GStreamer frees it: a pool reuses the same few blocks.
//!
//! [`NvmmImage`] is created at the end of the GStreamer pipeline and needs none of these libraries; the detector converts it to
//! a [`Surface`].

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
