// SPDX-License-Identifier: Apache-2.0
//! The tests of `tests/` that run the code of `jetwatch-nvidia` on the doubles of NVIDIA's libraries, as a program that is small
//! enough to be built with a sanitizer. `run` does so.

#[path = "../detection/nvidia_cuda.rs"]
mod nvidia_cuda;
#[path = "../detection/nvidia_preprocess.rs"]
mod nvidia_preprocess;
#[path = "../detection/nvidia_surface.rs"]
mod nvidia_surface;
#[path = "../detection/nvidia_tensorrt/mod.rs"]
mod nvidia_tensorrt;

#[path = "../support"]
mod support {
    pub mod child;
    pub mod cuda;
    pub mod jetson_elements;
    pub mod onnx_graph;
    pub mod onnx_message;
    pub mod project;
    pub mod tensorrt;
}
