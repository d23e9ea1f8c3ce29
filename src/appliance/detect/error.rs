// SPDX-License-Identifier: Apache-2.0
//! Errors of creating and of running a detector.

use std::path::PathBuf;

use super::engines::EngineError;
use super::model::ModelError;
use super::ort_library::{self, RuntimeError};
use jetwatch_nvidia::cuda::CudaError;
use jetwatch_nvidia::session::SessionError;
use jetwatch_nvidia::surface::SurfaceError;
use jetwatch_nvidia::tensorrt::TensorRtError;
use jetwatch_types::{Size, SourceId};

/// Why detection failed. Errors of loading a model and of creating a detector come before the first frame. Errors of
/// [`Detector::detect`](crate::Detector::detect) stop the daemon, because the next frame would fail in the same way.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum DetectError {
    #[error(
        "no model is configured: set detector.model to a folder with a model.yaml, or detector.backend to `scripted` \
         for demonstrations with synthetic sources"
    )]
    NoModel,
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    TensorRt(#[from] TensorRtError),
    #[error(transparent)]
    Execution(#[from] SessionError),
    #[error(transparent)]
    Surface(#[from] SurfaceError),
    #[error("no runtime can run the model here. TensorRT: {tensorrt}. ONNX Runtime: {onnx}")]
    NoRuntime {
        tensorrt: Box<DetectError>,
        onnx: Box<DetectError>,
    },
    #[error("detector.classes: the model has no label `{label}`; {}", suggestion(near, *count))]
    UnknownClass {
        label: String,
        near: Vec<String>,
        count: usize,
    },
    #[error(
        "detector.groups.{group}: the model has none of its labels ({}), expected at least one; {}",
        labels.join(", "),
        suggestion(near, *count)
    )]
    EmptyGroup {
        group: String,
        labels: Vec<String>,
        near: Vec<String>,
        count: usize,
    },
    #[error(
        "{} cannot load {}: {}",
        library.display(),
        path.display(),
        ort_library::why_refused(reason)
    )]
    Load {
        path: PathBuf,
        library: PathBuf,
        reason: String,
    },
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
        library: PathBuf,
        has_cuda: bool,
        reason: String,
    },
    #[error("{}: {tensor}: found {found}, expected {expected}; {advice}", path.display())]
    Tensor {
        path: PathBuf,
        /// The tensor, such as `input \`images\``.
        tensor: String,
        found: String,
        expected: String,
        advice: String,
    },
    #[error(
        "the network failed on a batch of {batch}: {reason}; if memory ran out, lower detector.batch_size or detector.workers"
    )]
    Infer { batch: usize, reason: String },
    #[error("the layers of the network cannot be timed: {reason}")]
    Layers { reason: String },
    /// A batch of a size that the detector was not made for: a bug of the caller.
    #[error(
        "a batch of {found} frames came to a detector made for 1 to {most}; this is a bug in jetwatch"
    )]
    BatchSize { found: usize, most: usize },
    /// An image that was not scaled to the letterbox's inner size: a bug of the caller.
    #[error(
        "frame {seq} of source {}: the image is {found}, expected {expected} ({source_size} laid into {input}); \
         this is a bug in jetwatch",
        source_id.0
    )]
    ImageSize {
        source_id: SourceId,
        seq: u64,
        found: Size,
        expected: Size,
        source_size: Size,
        input: Size,
    },
    #[error(
        "frame {seq} of source {}: output `{tensor}` holds {value} at index {index} ({boxes} such boxes): an overflow in \
         reduced precision or a broken export; run with another detector.precision",
        source_id.0
    )]
    NotFinite {
        source_id: SourceId,
        seq: u64,
        tensor: String,
        /// Index of the first such value in this frame's part of the output.
        index: usize,
        value: String,
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
        source_id: SourceId,
        seq: u64,
        tensor: String,
        /// Index of the first such value in this frame's part of the output.
        index: usize,
        value: String,
    },
    #[error(
        "frame {seq} of source {}: output `{tensor}` holds the class {value} at index {index}, expected {first_class} to \
         {}: labels in model.yaml are not those that the network was trained with, or its output is not in the layout that model.yaml gives; where the \
         layout has output.first_class, check it",
        source_id.0,
        first_class + labels - 1
    )]
    NoLabel {
        source_id: SourceId,
        seq: u64,
        tensor: String,
        /// Index of the first such value in this frame's part of the output.
        index: usize,
        value: String,
        /// Number of the first class in the output.
        first_class: usize,
        /// Number of labels, at least 1.
        labels: usize,
    },
    #[error(
        "frame {seq} of source {}: output `{tensor}` has {numbers} numbers beside {of_first} in `{first}`, expected one row for \
         each detection in both: check tensors in model.yaml, or export the network so that its outputs belong together",
        source_id.0
    )]
    OtherRows {
        source_id: SourceId,
        seq: u64,
        tensor: String,
        numbers: usize,
        first: String,
        of_first: usize,
    },
    #[error("a synthetic scene shows `{label}`; the scripted detector knows {}", super::scripted::LABELS.join(", "))]
    UnknownTruthLabel { label: &'static str },
}

impl DetectError {
    /// Whether the configuration, the model or the installation must change first. A restart does not help.
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
