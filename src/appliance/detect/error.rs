// SPDX-License-Identifier: Apache-2.0
//! Errors of creating and of running a detector.

use std::path::PathBuf;

use super::engines::EngineError;
use super::model::ModelError;
use super::ort_library::RuntimeError;
use jetwatch_nvidia::cuda::CudaError;
use jetwatch_nvidia::session::SessionError;
use jetwatch_nvidia::surface::SurfaceError;
use jetwatch_nvidia::tensorrt::TensorRtError;
use jetwatch_types::{Size, SourceId};

/// Why detection failed. Errors of loading a model and of creating a detector come before the first frame. Errors of
/// [`Detector::detect`](crate::Detector::detect) stop the daemon, because the next frame would fail in the same way.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The configuration names no model where one is needed.
    #[error(
        "no model is configured: set detector.model to a folder with a model.yaml, or detector.backend to `scripted` \
         for demonstrations with synthetic sources"
    )]
    NoModel,
    /// The model folder cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// ONNX Runtime cannot be used.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// There is no engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The GPU cannot be used.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// TensorRT cannot be used, or refuses the engine.
    #[error(transparent)]
    TensorRt(#[from] TensorRtError),
    /// A run on the GPU failed.
    #[error(transparent)]
    Execution(#[from] SessionError),
    /// Images of a Jetson's engines cannot be read in place.
    #[error(transparent)]
    Surface(#[from] SurfaceError),
    /// Neither TensorRT nor ONNX Runtime can run the model.
    #[error("no runtime can run the model here. TensorRT: {tensorrt}. ONNX Runtime: {onnx}")]
    NoRuntime {
        /// Why TensorRT cannot.
        tensorrt: Box<DetectError>,
        /// Why ONNX Runtime cannot.
        onnx: Box<DetectError>,
    },
    /// A label in `detector.classes` that the model does not have.
    #[error("detector.classes: the model has no label `{label}`; {}", suggestion(near, *count))]
    UnknownClass {
        /// The label.
        label: String,
        /// Similar labels of the model.
        near: Vec<String>,
        /// Number of labels of the model.
        count: usize,
    },
    /// A group in `detector.groups` of which the model has no label.
    #[error(
        "detector.groups.{group}: the model has none of its labels ({}), expected at least one; {}",
        labels.join(", "),
        suggestion(near, *count)
    )]
    EmptyGroup {
        /// Name of the group.
        group: String,
        /// Its labels.
        labels: Vec<String>,
        /// Similar labels of the model.
        near: Vec<String>,
        /// Number of labels of the model.
        count: usize,
    },
    /// ONNX Runtime refuses the network.
    #[error(
        "{} cannot load {}: {reason}; the network may be damaged, or need a newer ONNX Runtime",
        library.display(),
        path.display()
    )]
    Load {
        /// The network's file.
        path: PathBuf,
        /// The ONNX Runtime in use.
        library: PathBuf,
        /// The library's error message.
        reason: String,
    },
    /// The GPU is requested, but ONNX Runtime cannot use it.
    #[error(
        "{} cannot run the network on an NVIDIA GPU: {reason}; {}",
        library.display(),
        if *has_cuda {
            "its CUDA provider needs the CUDA and cuDNN libraries that it was built for, or set detector.onnx_provider to auto"
        } else {
            "it was built without the CUDA provider: name one that has it in detector.onnxruntime, or set detector.onnx_provider to auto"
        }
    )]
    NoCudaProvider {
        /// The ONNX Runtime in use.
        library: PathBuf,
        /// Whether it was built with the provider.
        has_cuda: bool,
        /// The library's error message.
        reason: String,
    },
    /// The network does not match `model.yaml`.
    #[error("{}: {tensor}: found {found}, expected {expected}; {advice}", path.display())]
    Tensor {
        /// The network's file.
        path: PathBuf,
        /// The tensor, such as `input \`images\``.
        tensor: String,
        /// What the network has.
        found: String,
        /// The contents of `model.yaml`.
        expected: String,
        /// What to change.
        advice: String,
    },
    /// The network failed.
    #[error(
        "the network failed on a batch of {batch}: {reason}; if memory ran out, lower detector.batch_size or detector.workers"
    )]
    Infer {
        /// Frames in the batch.
        batch: usize,
        /// The library's error message.
        reason: String,
    },
    /// The layers cannot be timed.
    #[error("the layers of the network cannot be timed: {reason}")]
    Layers {
        /// Cause and remedy.
        reason: String,
    },
    /// A batch of a size that the detector was not made for: a bug of the caller.
    #[error(
        "a batch of {found} frames came to a detector made for 1 to {most}; this is a bug in jetwatch"
    )]
    BatchSize {
        /// Frames in the batch.
        found: usize,
        /// Maximum number of frames.
        most: usize,
    },
    /// An image that was not scaled to the letterbox's inner size: a bug of the caller.
    #[error(
        "frame {seq} of source {}: the image is {found}, expected {expected} ({source_size} laid into {input}); \
         this is a bug in jetwatch",
        source_id.0
    )]
    ImageSize {
        /// The source.
        source_id: SourceId,
        /// The frame's number.
        seq: u64,
        /// Size of the image.
        found: Size,
        /// The letterbox's inner size.
        expected: Size,
        /// Size of the source's images.
        source_size: Size,
        /// Size of the network's input.
        input: Size,
    },
    /// The network's output contains NaN or infinite numbers.
    #[error(
        "frame {seq} of source {}: output `{tensor}` holds {value} at index {index} ({boxes} such boxes): an overflow in \
         reduced precision or a broken export; run with another detector.precision",
        source_id.0
    )]
    NotFinite {
        /// The source.
        source_id: SourceId,
        /// The frame's number.
        seq: u64,
        /// Name of the output.
        tensor: String,
        /// Index of the first such value in this frame's part of the output.
        index: usize,
        /// The value there.
        value: String,
        /// Number of boxes with such values.
        boxes: usize,
    },
    /// The network's output contains scores outside of 0 to 1.
    #[error(
        "frame {seq} of source {}: output `{tensor}` holds the score {value} at index {index}, expected 0 to 1: the \
         network was exported without its sigmoid, or its output is not in the layout that model.yaml gives; where the \
         layout has output.first_class, check it",
        source_id.0
    )]
    BeyondOne {
        /// The source.
        source_id: SourceId,
        /// The frame's number.
        seq: u64,
        /// Name of the output.
        tensor: String,
        /// Index of the first such value in this frame's part of the output.
        index: usize,
        /// The value there.
        value: String,
    },
    /// The network gave a class that has no label.
    #[error(
        "frame {seq} of source {}: output `{tensor}` holds the class {value} at index {index}, expected 0 to {}: labels in \
         model.yaml are not those that the network was trained with, or its output is not in the layout that model.yaml gives; where the \
         layout has output.first_class, check it",
        source_id.0,
        labels - 1
    )]
    NoLabel {
        /// The source.
        source_id: SourceId,
        /// The frame's number.
        seq: u64,
        /// Name of the output.
        tensor: String,
        /// Index of the first such value in this frame's part of the output.
        index: usize,
        /// The value there.
        value: String,
        /// Number of labels, at least 1.
        labels: usize,
    },
    /// Tensors of one image do not have the same number of rows.
    #[error(
        "frame {seq} of source {}: output `{tensor}` has {numbers} numbers beside {of_first} in `{first}`, expected one row for \
         each detection in both: check tensors in model.yaml, or export the network so that its outputs belong together",
        source_id.0
    )]
    OtherRows {
        /// The source.
        source_id: SourceId,
        /// The frame's number.
        seq: u64,
        /// Name of the output.
        tensor: String,
        /// Length of the output.
        numbers: usize,
        /// Name of the first output.
        first: String,
        /// Length of the first output.
        of_first: usize,
    },
    /// Ground truth of a class that the scripted detector does not know.
    #[error("a synthetic scene shows `{label}`; the scripted detector knows {}", super::scripted::LABELS.join(", "))]
    UnknownTruthLabel {
        /// The label.
        label: &'static str,
    },
}

impl DetectError {
    /// Whether the configuration, the model or the installation must change first. A restart does not help.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_configuration(),
            Self::Cuda(error) => is_installation(error),
            Self::TensorRt(error) => !matches!(
                error,
                TensorRtError::Failed { .. } | TensorRtError::Canceled
            ),
            Self::Execution(error) => matches!(error, SessionError::Plan { .. }),
            Self::NoModel
            | Self::Model(_)
            | Self::Runtime(_)
            | Self::NoRuntime { .. }
            | Self::UnknownClass { .. }
            | Self::EmptyGroup { .. }
            | Self::Load { .. }
            | Self::NoCudaProvider { .. }
            | Self::Tensor { .. }
            | Self::NotFinite { .. }
            | Self::BeyondOne { .. }
            | Self::OtherRows { .. }
            | Self::NoLabel { .. } => true,
            Self::Infer { .. }
            | Self::Layers { .. }
            | Self::BatchSize { .. }
            | Self::ImageSize { .. }
            | Self::Surface(_)
            | Self::UnknownTruthLabel { .. } => false,
        }
    }

    /// Whether something is not installed: a runtime's library or the GPU.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Runtime(error) => matches!(error, RuntimeError::Missing { .. }),
            Self::TensorRt(error) => matches!(error, TensorRtError::Missing { .. }),
            Self::Engine(EngineError::TensorRt(error)) => {
                matches!(**error, TensorRtError::Missing { .. })
            }
            Self::Cuda(error) | Self::Engine(EngineError::Cuda(error)) => {
                matches!(error, CudaError::NoLibrary | CudaError::NoDevice)
            }
            _ => false,
        }
    }
}

/// Whether the driver or the selected GPU must change first.
fn is_installation(error: &CudaError) -> bool {
    match error {
        CudaError::NoLibrary
        | CudaError::NoFunction { .. }
        | CudaError::DriverTooOld { .. }
        | CudaError::NoDevice
        | CudaError::NoSuchDevice { .. }
        | CudaError::Ptx { .. } => true,
        CudaError::OutOfMemory { .. } | CudaError::HostCallInGraph | CudaError::Call { .. } => {
            false
        }
    }
}

fn suggestion(near: &[String], count: usize) -> String {
    if near.is_empty() {
        return format!("the model's {count} labels are in its model.yaml");
    }
    format!("did you mean {}?", near.join(" or "))
}
