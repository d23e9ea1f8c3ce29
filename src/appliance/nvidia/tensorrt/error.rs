// SPDX-License-Identifier: Apache-2.0
//! Errors of TensorRT.

use std::path::PathBuf;

use super::parser::NodeError;
use super::version::{Flavor, SUPPORTED, Version};
use crate::cuda::CudaError;

/// A failure of TensorRT, with TensorRT's own message where there is one.
#[derive(Debug, thiserror::Error)]
pub enum TensorRtError {
    /// No library was found.
    #[error(
        "TensorRT was not found (tried {}): on a Jetson install the packages of JetPack (nvidia-tensorrt), elsewhere \
         TensorRT from NVIDIA, and name the library in detector.tensorrt.library if it is not in a default path; {reason}",
        tried.join(", ")
    )]
    Missing {
        /// Names that were tried.
        tried: Vec<String>,
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
    /// The file is a library, but not one of TensorRT.
    #[error("{} is not a TensorRT library: it has no function `{symbol}`; expected libnvinfer.so, libnvinfer_lean.so or libtensorrt_rtx.so", path.display())]
    NotTensorRt {
        /// The library.
        path: PathBuf,
        /// The missing function.
        symbol: &'static str,
    },
    /// A version whose vtables are unknown.
    #[error("{} is {flavor} {version}, which this version of jetwatch does not support (supported: {SUPPORTED}). Update jetwatch, or install one of these", path.display())]
    UnknownVersion {
        /// The library.
        path: PathBuf,
        /// Kind of library.
        flavor: Flavor,
        /// Its version.
        version: Version,
    },
    /// A call of a method that this version does not have: a bug in jetwatch.
    #[error("{flavor} {version} has no {method}; this is a bug in jetwatch")]
    NoMethod {
        /// Kind of library.
        flavor: Flavor,
        /// Its version.
        version: Version,
        /// The method.
        method: &'static str,
    },
    /// This version or flavor does not support the request.
    #[error("{flavor} {version} cannot {what}; {advice}")]
    Unsupported {
        /// Kind of library.
        flavor: Flavor,
        /// Its version.
        version: Version,
        /// The request, such as `build engines`.
        what: &'static str,
        /// The remedy.
        advice: String,
    },
    /// The ONNX parser library is missing or does not fit.
    #[error("the ONNX parser of TensorRT cannot be opened ({}): {reason}; on a Jetson it is in the package libnvonnxparsers8 or libnvonnxparsers10", tried.join(", "))]
    NoParser {
        /// Names that were tried.
        tried: Vec<String>,
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
        /// The call, by its name in NVIDIA's documentation.
        call: &'static str,
        /// TensorRT's message.
        reason: String,
    },
    /// The engine does not have the requested tensor, or it has another shape.
    #[error("tensor `{tensor}`: found {found}, expected {expected}")]
    Tensor {
        /// Name of the tensor.
        tensor: String,
        /// The requested value.
        found: String,
        /// The engine's value.
        expected: String,
    },
    /// The GPU or its driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The caller canceled the build.
    #[error("the build was canceled")]
    Canceled,
}

fn listed(nodes: &[NodeError]) -> String {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    nodes.join("; ")
}
