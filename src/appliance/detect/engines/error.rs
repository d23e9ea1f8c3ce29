// SPDX-License-Identifier: Apache-2.0
//! Why there is no engine.

use std::io;
use std::path::PathBuf;

use super::miss::CacheMiss;
use crate::graph::GraphError;
use crate::model::ModelError;
use jetwatch_nvidia::cuda::CudaError;
use jetwatch_nvidia::tensorrt::TensorRtError;

/// Why an engine can neither be found nor built.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum EngineError {
    #[error("{0}; or set detector.tensorrt.build to `allow`")]
    Missing(Box<CacheMiss>),
    #[error("{0}")]
    TensorRt(Box<TensorRtError>),
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(
        "model {model}: unknown TensorRT precision `{wanted}`, expected a name that begins with fp32, fp16 or int8; \
         choose another with detector.precision or --precision"
    )]
    UnknownPrecision { model: String, wanted: String },
    /// INT8 of a model without an INT8 file, and without calibration.
    #[error(
        "model {model} has no precision `{wanted}`, and INT8 of its fp32 network needs a calibration: give images with \
         `jetwatch engine build --calibration-images`, a cache with detector.tensorrt.calibration, or make an int8 network \
         with models/quantize.py"
    )]
    NoInt8 { model: String, wanted: String },
    /// FP32 on a DLA.
    #[error(
        "model {model}: a DLA supports only fp16 and int8, but fp32 is configured: choose another with detector.precision or \
         --precision, or leave detector.tensorrt.dla or --dla out"
    )]
    DlaFloats { model: String },
    /// A calibration for a model that has no FP32 file.
    #[error(
        "model {model} has no fp32 network, and only fp32 can be calibrated: leave the calibration out, or add the network to model.yaml"
    )]
    NothingToCalibrate { model: String },
    #[error(
        "model {model} takes images as bytes, and TensorRT calibrates only networks of 32-bit floats: give the network with Q/DQ nodes"
    )]
    CalibratesFloats { model: String },
    #[error(
        "cannot read the calibration cache {}: {source}; make one with `jetwatch engine build --calibration-images`", path.display()
    )]
    Calibration { path: PathBuf, source: io::Error },
    #[error(
        "{} is not a TensorRT calibration cache, which begins with `TRT-`; make one with `jetwatch engine build --calibration-images`",
        path.display()
    )]
    NoCalibration { path: PathBuf },
    #[error(
        "TensorRT made no calibration of {}: if it has Q/DQ nodes, leave the calibration out", path.display()
    )]
    NotCalibrated { path: PathBuf },
    #[error(
        "cannot {what} {}: {source}; give the user that runs jetwatch access to that folder, or choose another with \
         detector.tensorrt.engines or --engines", path.display()
    )]
    Folder {
        /// `write` or `read`.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "not enough disk space for the engine in {}: {needed} MiB are needed, {free} MiB are free; remove old engines (`jetwatch engine list` \
         shows them), or choose another folder with detector.tensorrt.engines or --engines", folder.display()
    )]
    Full {
        folder: PathBuf,
        /// MiB that are needed.
        needed: u64,
        /// MiB that are free.
        free: u64,
    },
    #[error(
        "too little memory to build an engine: {free} MiB of {kind} are free, but a build of this network needs at least \
         {floor} MiB; end other programs, or build when the daemon is stopped"
    )]
    Memory {
        /// `GPU memory` or `memory`.
        kind: &'static str,
        /// MiB that are free.
        free: u64,
        /// MiB below which no build is tried.
        floor: u64,
    },
    #[error("the build was canceled; nothing was written")]
    Canceled,
    #[error(
        "cannot start the build thread: {0}; check the limits on processes and memory (ulimit -u, TasksMax=)"
    )]
    Thread(io::Error),
}

impl From<TensorRtError> for EngineError {
    fn from(error: TensorRtError) -> Self {
        match error {
            TensorRtError::Canceled => Self::Canceled,
            error => Self::TensorRt(Box::new(error)),
        }
    }
}

impl EngineError {
    /// Whether the configuration, the model or the installation must change first: starting again cannot help.
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Missing(_)
            | Self::Model(_)
            | Self::Graph(_)
            | Self::UnknownPrecision { .. }
            | Self::NoInt8 { .. }
            | Self::DlaFloats { .. }
            | Self::NothingToCalibrate { .. }
            | Self::CalibratesFloats { .. }
            | Self::Calibration { .. }
            | Self::NoCalibration { .. }
            | Self::NotCalibrated { .. }
            | Self::Folder { .. } => true,
            Self::TensorRt(error) => !matches!(**error, TensorRtError::Failed { .. }),
            Self::Cuda(error) => !matches!(
                error,
                CudaError::Call { .. } | CudaError::OutOfMemory { .. }
            ),
            Self::Full { .. } | Self::Memory { .. } | Self::Canceled | Self::Thread(_) => false,
        }
    }
}
