// SPDX-License-Identifier: Apache-2.0
//! The GPU through libcuda: device, memory, streams, events, graphs, and the preprocessing kernel.
//!
//! The functions are those of CUDA 11.4, as in JetPack 5. The public interface is safe.
//! What callers cannot check (raw addresses, copies that continue after the call returns) is `unsafe` and visible in this
//! crate only.
//!
//! ```text
//!   Library ─► Device ─┬─► Stream ─► Graph
//!    (libcuda)         ├─► Event
//!                      ├─► DeviceBuffer, PinnedBuffer, EglPixels
//!                      └─► Kernels ─► Preprocess
//! ```

mod device;
mod egl;
mod error;
mod event;
mod graph;
mod kernels;
mod library;
mod memory;
mod preprocess;
mod stream;

pub use device::{Device, DeviceMemory, Version};
pub use error::CudaError;
pub use event::{Event, EventKind};
pub use memory::{DeviceBuffer, PinnedBuffer};
pub use preprocess::{ColorMatrix, Element, PixelFormat, PlaneOrder, TensorFormat};
pub use stream::Stream;

pub(crate) use egl::EglPixels;
pub(crate) use event::Recording;
pub(crate) use graph::{Graph, HostCalls};
pub(crate) use kernels::{Grid, Kernel, Kernels};
pub(crate) use preprocess::{IMAGE_ENTRY_BYTES, ImageEntry, Preprocess};
