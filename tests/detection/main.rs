// SPDX-License-Identifier: Apache-2.0
//! Detection: models, detectors, the bindings of NVIDIA's libraries, and what is inferred of which frame. One module per topic.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod accuracy;
mod appearance;
mod camera_motion;
mod detect_onnx;
mod detect_onnx_cuda;
mod detect_onnx_files;
mod detect_onnx_outputs;
mod detect_tensorrt;
mod engine;
mod exports;
mod interval;
mod model_classifiers;
mod model_fetch;
mod model_finished;
mod model_inspect;
mod nvidia_cuda;
mod nvidia_preprocess;
mod nvidia_surface;
mod nvidia_tensorrt;
mod roi;
mod run_onnx;
mod secondary;
mod street_nano;
mod tensorrt_real;
