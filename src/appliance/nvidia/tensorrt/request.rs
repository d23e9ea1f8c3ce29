//! What is to be built, and what came of it.

use std::path::Path;
use std::sync::Arc;

use super::calibrator::CalibrationInput;
use super::progress::Progress;
use crate::cuda::Device;

/// In which numbers the layers compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats.
    Fp32,
    /// 16-bit floats where TensorRT finds them faster.
    Fp16,
    /// INT8 where the network's Q/DQ nodes, or a calibration, say so; the rest in 16-bit floats where that is faster and the version lets it.
    Int8,
}

/// Smallest, best and largest shape of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shapes {
    /// Name of the input.
    pub input: String,
    /// Smallest shape.
    pub min: Vec<i64>,
    /// The shape to be fastest at.
    pub opt: Vec<i64>,
    /// Largest shape.
    pub max: Vec<i64>,
}

/// INT8 by calibration, for networks without Q/DQ nodes.
pub struct ImplicitInt8<'c> {
    /// Pictures; `None` when the cache is enough.
    pub images: Option<&'c mut dyn CalibrationInput>,
    /// What an earlier calibration gave.
    pub cache: Option<Vec<u8>>,
}

/// What to build.
pub struct BuildRequest<'b> {
    /// The ONNX file's bytes.
    pub onnx: &'b [u8],
    /// Where they were read from: external data is looked for beside it.
    pub path: Option<&'b Path>,
    /// In which numbers to compute.
    pub precision: Precision,
    /// Shapes of inputs with open axes, other than the batch: of those without an entry the batch alone may be open.
    pub shapes: Vec<Shapes>,
    /// Most pictures in one run, for networks with an open batch axis.
    pub batch: u32,
    /// Contexts that will run side by side: until generation 8 each needs an optimization profile of its own.
    pub contexts: u32,
    /// Number of the DLA core to run on.
    pub dla: Option<u32>,
    /// Whether layers that the DLA cannot run may run on the GPU.
    pub gpu_fallback: bool,
    /// Most bytes of device memory that a layer may take for itself; `None` leaves it to TensorRT.
    pub workspace_bytes: Option<u64>,
    /// The GPU to build on, into whose memory a calibration's pictures are copied. Without it they stay in the memory of
    /// this process, where doubles of TensorRT find them and NVIDIA's do not.
    pub device: Option<&'b Arc<Device>>,
    /// INT8 by calibration.
    pub implicit_int8: Option<ImplicitInt8<'b>>,
    /// Times of kernels from an earlier build.
    pub timing_cache: Option<&'b [u8]>,
    /// Build for this compute capability, such as (8, 6), instead of the GPU that is there: TensorRT-RTX alone.
    pub compute_capability: Option<(u32, u32)>,
    /// Is told of each step, from several threads; `false` ends the build. TensorRT 8 tells nothing.
    pub progress: Option<&'b (dyn Fn(&Progress) -> bool + Sync)>,
}

/// What came of it.
#[derive(Debug)]
pub struct Built {
    /// The plan: an engine as bytes.
    pub plan: Vec<u8>,
    /// Times of kernels, for the next build; `None` where this version keeps none.
    pub timing_cache: Option<Vec<u8>>,
    /// What a calibration gave, for the next build; `None` when nothing was calibrated.
    pub calibration_cache: Option<Vec<u8>>,
    /// Whether the network has Q/DQ nodes.
    pub is_quantized: bool,
}

impl BuildRequest<'_> {
    /// A request with the usual settings: no DLA, one context, batches of one.
    #[must_use]
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
