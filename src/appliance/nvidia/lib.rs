//! CELLAR: the only room with unsafe code. NVIDIA's libraries, all opened at run time and never linked.
//!
//! What leaves this room is safe: its public functions leave no duty to their callers. It names no other room.
//!
//! - [`tensorrt`]: TensorRT 8.5 to 11 and TensorRT-RTX, whose C++ objects are called through tables of their virtual methods.
//! - [`cuda`]: the GPU: memory, streams, graphs, and the kernel that makes tensors of pictures.
//! - [`session`]: one worker's way through the GPU, whatever the network.
//! - [`surface`]: pictures in the memory of Jetson's video engines, read by the GPU where they are.
//! - [`config`]: a network that gives back its input, by which all of that is proven and measured.

#![allow(unsafe_code)]

pub mod cuda;
pub mod loopback;
pub mod session;
mod shared_library;
pub mod surface;
pub mod tensorrt;
