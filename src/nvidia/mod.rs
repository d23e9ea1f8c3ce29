//! CELLAR: the only room with unsafe code. NVIDIA's libraries, all opened at run time and never linked.
//!
//! What leaves this room is safe: its public functions leave no duty to their callers. It names no other room.
//!
//! - [`tensorrt`]: TensorRT 8.5 to 11 and TensorRT-RTX, whose C++ objects are called through tables of their virtual methods.

#![allow(unsafe_code)]

mod shared_library;
pub mod tensorrt;
