//! Errors of TensorRT.

use std::path::PathBuf;

use super::parser::NodeError;
use super::version::{Flavor, SUPPORTED, Version};
use crate::cuda::CudaError;

/// Why something in TensorRT failed, with TensorRT's own message where it gave one.
#[derive(Debug, thiserror::Error)]
pub enum TensorRtError {
    /// No library was found.
    #[error(
        "TensorRT was not found (looked for {}): on a Jetson install the packages of JetPack (nvidia-tensorrt), elsewhere \
         TensorRT from NVIDIA, and name the library in detector.tensorrt.library if it lies in no usual place; {reason}",
        looked.join(", ")
    )]
    Missing {
        /// Names that the loader was asked for.
        looked: Vec<String>,
        /// Last error of the dynamic loader.
        reason: String,
    },
    /// A library cannot be opened.
    #[error("{} cannot be opened: {reason}", path.display())]
    Unusable {
        /// The library.
        path: PathBuf,
        /// Error of the dynamic loader.
        reason: String,
    },
    /// The file is a library, but none of TensorRT's.
    #[error("{} is not a TensorRT library: it has no function `{symbol}`; expected libnvinfer.so, libnvinfer_lean.so or libtensorrt_rtx.so", path.display())]
    NotTensorRt {
        /// The library.
        path: PathBuf,
        /// What it lacks.
        symbol: &'static str,
    },
    /// A version whose tables are not known.
    #[error("{} is {flavor} {version}, which this version of jetwatch does not support (supported: {SUPPORTED}). Update jetwatch, or install one of these", path.display())]
    UnknownVersion {
        /// The library.
        path: PathBuf,
        /// What it is.
        flavor: Flavor,
        /// Its version.
        version: Version,
    },
    /// A method that this version lacks was called: a bug of ours.
    #[error("{flavor} {version} has no {method}; this is a bug in jetwatch")]
    NoMethod {
        /// What is open.
        flavor: Flavor,
        /// Its version.
        version: Version,
        /// The method.
        method: &'static str,
    },
    /// This version or flavor cannot do it.
    #[error("{flavor} {version} cannot {what}; {advice}")]
    Unsupported {
        /// What is open.
        flavor: Flavor,
        /// Its version.
        version: Version,
        /// What was asked, as `build engines`.
        what: &'static str,
        /// What to do.
        advice: String,
    },
    /// The ONNX parser library is missing or does not fit.
    #[error("the ONNX parser of TensorRT cannot be opened ({}): {reason}; on a Jetson it is in the package libnvonnxparsers8 or libnvonnxparsers10", looked.join(", "))]
    NoParser {
        /// Names that were tried.
        looked: Vec<String>,
        /// Last error of the dynamic loader.
        reason: String,
    },
    /// The parser refused the network.
    #[error("TensorRT's parser refuses the network: {}", listed(nodes))]
    Parse {
        /// The parser's errors, by node.
        nodes: Vec<NodeError>,
    },
    /// A call failed.
    #[error("TensorRT failed at {call}: {reason}")]
    Failed {
        /// The call, as NVIDIA's documentation names it.
        call: &'static str,
        /// The output of TensorRT.
        reason: String,
    },
    /// The caller asked for a tensor that is not there, or with another shape.
    #[error("tensor `{tensor}`: found {found}, expected {expected}")]
    Tensor {
        /// Its name.
        tensor: String,
        /// What was asked or given.
        found: String,
        /// What the engine has.
        expected: String,
    },
    /// The GPU or its driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A build was ended by its caller.
    #[error("the build was canceled")]
    Canceled,
}

fn listed(nodes: &[NodeError]) -> String {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    nodes.join("; ")
}
