//! FLOOR 2: pixels to detections.
//!
//! [`prepare()`] turns the configuration into a [`Prepared`] on the main thread: the model folder ([`model`]) is read and
//! its file hashed once, the runtime library ([`runtime`]) is opened once. Each worker thread then makes its own
//! [`Detector`], which lives and dies there. [`tensor`] writes the input (padding, layout, normalization); [`layout`]
//! and [`nms`] turn raw output into boxes and are pure. [`engines`] finds and builds what TensorRT runs.
//!
//! ```text
//!   DetectorConfig ── prepare ──► Prepared ── make_detector ──► Detector          (TensorRT, ONNX Runtime, or scripted)
//!
//!   Frame ── tensor ──► input ── network ──► outputs ── layout ──► candidates ── nms ──► Detection
//! ```

pub mod decode;
pub mod engines;
mod error;
pub mod graph;
mod labels;
mod lacking;
pub mod layout;
pub mod model;
mod model_keys;
mod network;
pub mod nms;
pub mod onnx;
mod open_network;
mod optimized;
mod prepare;
mod reading;
mod resample;
pub mod runtime;
pub mod scripted;
pub mod tensor;
pub mod tensorrt;
pub mod weights;

pub use error::DetectError;
pub use labels::{ClassFilter, near_labels};
pub use lacking::{EnginesHere, engines_here};
pub use prepare::{Prepared, labels, prepare, prepare_telling};
pub use resample::Resampler;
pub use tensor::fit;
pub use tensorrt::LayerTime;

use jetwatch_types::{Detection, Frame, Xyxy};

/// Finds objects in batches of frames. Implementations: TensorRT, ONNX Runtime, and scripted from ground truth.
pub trait Detector {
    /// Replaces `results` by one list per frame of `batch`, in its order: boxes in source pixels, clipped to the picture, best score first.
    ///
    /// Returns when the results are there. `batch` holds 1 to `batch_size` frames whose pictures have the inner size
    /// of the model's letterbox for their source size. After an error `results` means nothing.
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError>;
}

/// A box that the network proposes, before suppression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its place in the output; breaks ties of equal scores.
    pub cell: u32,
    /// Index into the model's labels.
    pub class: u16,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// The box in input pixels, unclipped.
    pub xyxy: Xyxy,
}
