//! FLOOR 2: pixels to detections.
//!
//! A model folder ([`model`]) says what the network wants and gives; [`tensor`] writes the input (padding, layout,
//! normalization); a [`Detector`] runs the network; [`yolox`] and [`nms`] turn raw output into boxes and are pure.
//! A detector is made and dies on its worker's thread.

use crate::types::{Detection, Frame};

/// Finds objects in batches of frames. Implementations: ONNX Runtime, and scripted from ground truth.
pub trait Detector {
    /// Replaces `results` by one list per frame of `batch`, in its order: boxes in source pixels, clipped to the picture, best score first.
    ///
    /// Returns when the results are there. `batch` holds 1 to `batch_size` frames whose pictures have the inner size
    /// of the model's letterbox for their source size.
    fn detect(&mut self, batch: &[Frame], results: &mut Vec<Vec<Detection>>) -> Result<(), DetectError>;
}

/// Why detection failed.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {}
