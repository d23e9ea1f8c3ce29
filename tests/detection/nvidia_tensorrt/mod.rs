// SPDX-License-Identifier: Apache-2.0
//! TensorRT's builder, runtime, engine and execution contexts through our tables, on doubles whose classes a compiler laid out
//! from NVIDIA's own headers: a wrong slot or a wrong argument ends the process.
//!
//! For each version that `tests/nvidia_doubles/build` made; without any, these tests are skipped with a message. They do not show what
//! a real network, TensorRT or Jetson does.

mod build;
mod failures;
mod network;
mod run;
