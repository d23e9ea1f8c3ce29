// SPDX-License-Identifier: Apache-2.0
//! Pixels to detections.
//!
//! [`load`] turns the configuration into a [`DetectorFactory`] on the main thread: it reads the model folder ([`model`]),
//! hashes its file and opens the runtime library ([`ort_library`]), each once. Each worker thread then creates its own
//! [`Detector`], which stays on that thread. [`TensorWriter`](jetwatch_pixels::TensorWriter) writes the input (padding,
//! layout, normalization). [`decoders`] and [`nms`] turn raw output into boxes and are pure. [`engines`] finds and builds TensorRT engines.
//!
//! ```text
//!   DetectorConfig ── load ──► DetectorFactory ── create ──► Detector          (TensorRT, ONNX Runtime, or scripted)
//!
//!   Frame ── tensor ──► input ── network ──► outputs ── decoder ──► candidates ── nms ──► Detection
//! ```

pub mod class_names;
pub mod decode;
pub mod decoders;
pub mod engines;
mod error;
pub mod external_data;
mod factory;
mod frame_size;
mod gpu_detector;
mod gpu_plan;
pub mod graph;
pub mod label_file;
mod labels;
mod layer_profile;
pub mod layouts;
pub mod model;
mod model_yaml;
pub mod nms;
pub mod onnx;
mod onnx_cuda;
pub mod ort_library;
mod ort_session;
mod postprocess;
pub mod probe;
pub mod scripted;
mod self_check;
mod shared_model;
mod signature;
pub mod tensorrt;
mod yaml_values;

pub use error::DetectError;
pub use factory::{DetectorFactory, classes, load, load_with_progress};
pub use frame_size::check_size;
pub use gpu_detector::GpuDetector;
pub use jetwatch_nvidia::mapped_code::release as release_code;
pub use labels::{ClassFilter, suggest_labels};
pub use layer_profile::LayerProfile;

use std::sync::Arc;

use jetwatch_types::{Detection, Frame, Xyxy};

/// Finds objects in batches of frames. Implementations: TensorRT, ONNX Runtime, and scripted from ground truth.
pub trait Detector {
    /// Replaces `results` by one list per frame of `batch`, in its order: boxes in source pixels, clipped to the image, best score first.
    ///
    /// Blocks until the results are there. `batch` holds 1 to `batch_size` frames whose images have the inner size
    /// of the model's letterbox for their source size.
    ///
    /// # Errors
    /// The batch or an image has the wrong size, the network fails, or its output is invalid. `results` is then undefined.
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError>;

    /// The embeddings of the frames of the last batch, in its order: vectors of length 1. Empty for layouts with boxes or labels.
    fn embeddings(&self) -> &[Arc<[f32]>] {
        &[]
    }
}

/// A box that the network proposes, before suppression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its index in the output; breaks ties of equal scores.
    pub cell: u32,
    /// Index into the model's labels.
    pub class: u16,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// The box in input pixels, unclipped.
    pub xyxy: Xyxy,
}
