// SPDX-License-Identifier: Apache-2.0
//! Safe access to NVIDIA's libraries, which are opened at run time and never linked. With `jetwatch-nvtx` the only crate with unsafe code.
//!
//! Its public functions are safe and have no preconditions beyond their types. It depends on no crate of the pipeline.
//!
//! - [`tensorrt`]: TensorRT 8.5 to 11 and TensorRT-RTX, whose C++ objects are called through tables of their virtual methods.
//! - [`cuda`]: the GPU: memory, streams, graphs, and the kernel that converts images to tensors.
//! - [`session`]: one worker's inference session on the GPU, for any network.
//! - [`onnx`]: ONNX Runtime's CUDA provider as the network of such a session.
//! - [`surface`]: images in NVMM, the memory of Jetson's video engines, read by the GPU without a copy.
//! - [`loopback`]: a network that returns its input, to test and measure all of that.
//! - [`mapped_code`]: gives back the memory of code that these and other libraries needed once.

#![allow(unsafe_code)]

pub mod cuda;
pub mod loopback;
pub mod mapped_code;
pub mod onnx;
pub mod session;
mod shared_library;
pub mod surface;
pub mod tensorrt;
