// SPDX-License-Identifier: Apache-2.0
//! Request for a build, and its result.

use std::path::Path;
use std::sync::Arc;

use super::calibrator::CalibrationInput;
use super::progress::Progress;
use crate::cuda::Device;

/// Precision of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats.
    Fp32,
    /// 16-bit floats where TensorRT measures them as faster.
    Fp16,
    /// INT8 as defined by the network's Q/DQ nodes or a calibration; other layers in 16-bit floats where that is faster and the version allows it.
    Int8,
}

/// Minimum, optimum and maximum shape of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shapes {
    /// Name of the input.
    pub input: String,
    /// Minimum shape.
    pub min: Vec<i64>,
    /// Shape to optimize for.
    pub opt: Vec<i64>,
    /// Maximum shape.
    pub max: Vec<i64>,
}

/// INT8 by calibration, for networks without Q/DQ nodes.
pub struct ImplicitInt8<'c> {
    /// Calibration images; `None` when the cache is sufficient.
    pub images: Option<&'c mut dyn CalibrationInput>,
    /// Result of an earlier calibration.
    pub cache: Option<Vec<u8>>,
}

/// A build request.
pub struct BuildRequest<'b> {
    /// Contents of the ONNX file.
    pub onnx: &'b [u8],
    /// Path of the file: external data is searched for in the same folder.
    pub path: Option<&'b Path>,
    /// Precision of the layers.
    pub precision: Precision,
    /// Shapes of inputs with open axes other than the batch. Inputs without an entry may have an open batch only.
    pub shapes: Vec<Shapes>,
    /// Maximum number of images per run, for networks with an open batch axis.
    pub batch: u32,
    /// Number of contexts that will run concurrently: up to generation 8 each needs its own optimization profile.
    pub contexts: u32,
    /// DLA core to run on, from 0; `None`: the GPU.
    pub dla: Option<u32>,
    /// Whether layers that the DLA cannot run may run on the GPU.
    pub gpu_fallback: bool,
    /// Maximum device memory that a layer may use for itself, in bytes; `None`: TensorRT's default.
    pub workspace_bytes: Option<u64>,
    /// GPU to build on, into whose memory calibration images are copied. Without it they stay in host memory, which only test
    /// doubles of TensorRT can read.
    pub device: Option<&'b Arc<Device>>,
    /// INT8 by calibration.
    pub implicit_int8: Option<ImplicitInt8<'b>>,
    /// Kernel times of an earlier build.
    pub timing_cache: Option<&'b [u8]>,
    /// Build for this compute capability, such as (8, 6), instead of the installed GPU: TensorRT-RTX only.
    pub compute_capability: Option<(u32, u32)>,
    /// Called for each step, from several threads; `false` cancels the build. TensorRT 8 reports no progress.
    pub progress: Option<&'b (dyn Fn(&Progress) -> bool + Sync)>,
}

/// Result of a build.
#[derive(Debug)]
pub struct Built {
    /// The plan: a serialized engine.
    pub plan: Vec<u8>,
    /// Kernel times for the next build; `None` when this version has no timing cache.
    pub timing_cache: Option<Vec<u8>>,
    /// Result of the calibration for the next build; `None` without a calibration.
    pub calibration_cache: Option<Vec<u8>>,
    /// Whether the network has Q/DQ nodes.
    pub is_quantized: bool,
}

impl BuildRequest<'_> {
    /// A request with default settings: no DLA, one context, a batch of one.
    pub fn new(onnx: &[u8], precision: Precision) -> BuildRequest<'_> {
        BuildRequest {
            onnx,
            path: None,
            precision,
            shapes: Vec::new(),
            batch: 1,
            contexts: 1,
            dla: None,
            gpu_fallback: false,
            workspace_bytes: None,
            device: None,
            implicit_int8: None,
            timing_cache: None,
            compute_capability: None,
            progress: None,
        }
    }
}
