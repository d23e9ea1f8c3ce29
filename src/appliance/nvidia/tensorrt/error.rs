// SPDX-License-Identifier: Apache-2.0
//! Errors of TensorRT.

use std::path::PathBuf;

use super::parser::NodeError;
use super::version::{Flavor, SUPPORTED, Version};
use crate::cuda::CudaError;

/// A failure of TensorRT, with TensorRT's own message where there is one.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum TensorRtError {
    #[error(
        "TensorRT was not found (tried {}): on a Jetson install the packages of JetPack (nvidia-tensorrt), elsewhere \
         TensorRT from NVIDIA, and name the library in detector.tensorrt.library if it is not in a default path; {reason}",
        tried.join(", ")
    )]
    Missing { tried: Vec<String>, reason: String },
    #[error("{} cannot be opened: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("{} is not a TensorRT library: it has no function `{symbol}`; expected libnvinfer.so, libnvinfer_lean.so or libtensorrt_rtx.so", path.display())]
    NotTensorRt { path: PathBuf, symbol: &'static str },
    #[error("{} is {flavor} {version}, which this version of jetwatch does not support (supported: {SUPPORTED}). Update jetwatch, or install one of these", path.display())]
    UnknownVersion {
        path: PathBuf,
        flavor: Flavor,
        version: Version,
    },
    #[error("{flavor} {version} has no {method}; this is a bug in jetwatch")]
    NoMethod {
        flavor: Flavor,
        version: Version,
        method: &'static str,
    },
    #[error("{flavor} {version} cannot {what}; {advice}")]
    Unsupported {
        flavor: Flavor,
        version: Version,
        /// The request, such as `build engines`.
        what: &'static str,
        advice: String,
    },
    #[error("the ONNX parser of TensorRT cannot be opened ({}): {reason}; on a Jetson it is in the package libnvonnxparsers8 or libnvonnxparsers10", tried.join(", "))]
    NoParser { tried: Vec<String>, reason: String },
    #[error("TensorRT's parser refuses the network: {}", listed(nodes))]
    Parse { nodes: Vec<NodeError> },
    #[error("TensorRT failed at {call}: {reason}")]
    Failed { call: &'static str, reason: String },
    #[error("tensor `{tensor}`: found {found}, expected {expected}")]
    Tensor {
        tensor: String,
        found: String,
        expected: String,
    },
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error("the build was canceled")]
    Canceled,
}

fn listed(nodes: &[NodeError]) -> String {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    nodes.join("; ")
}
