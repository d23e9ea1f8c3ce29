// SPDX-License-Identifier: Apache-2.0
//! Errors of libcuda and of the GPU.

use super::Version;

/// A failure of libcuda or of the GPU. After [`Call`](Self::Call) the context may be unusable: restart the process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum CudaError {
    #[error(
        "NVIDIA's driver library libcuda.so was not found, so there is no NVIDIA GPU to use; install the driver (JetPack \
         brings it; in a container use NVIDIA's container runtime), or set detector.backend to `onnx`"
    )]
    NoLibrary,
    #[error(
        "libcuda.so has no function {name}, expected NVIDIA's driver of CUDA {} or newer; install the driver again",
        Version::MIN_VERSION
    )]
    NoFunction { name: &'static str },
    #[error(
        "NVIDIA's driver supports CUDA {found}, expected {} or newer; update the driver (on a Jetson: JetPack 5 or newer)",
        Version::MIN_VERSION
    )]
    DriverTooOld { found: Version },
    #[error(
        "NVIDIA's driver is installed but sees no GPU; check `nvidia-smi` (in a container: start it with access to \
         the GPU), or set detector.backend to `onnx`"
    )]
    NoDevice,
    #[error("there is no GPU number {ordinal}, expected 0 to {}; choose another", count - 1)]
    NoSuchDevice { ordinal: u32, count: u32 },
    #[error(
        "out of {kind} memory: requested {requested} bytes, {free} of {total} are free; lower detector.batch_size or \
         detector.workers, or end other programs that use the GPU"
    )]
    OutOfMemory {
        kind: &'static str,
        requested: usize,
        free: usize,
        total: usize,
    },
    #[error(
        "NVIDIA's driver (CUDA {driver}) refuses jetwatch's kernels for {device}: {code_name}: {log}"
    )]
    Ptx {
        driver: Version,
        device: String,
        code_name: String,
        log: String,
    },
    /// Recorded work calls functions of the host, which may run only once.
    #[error("the recorded work calls back into the host, expected work of the GPU only")]
    HostCallInGraph,
    #[error("{call} failed with {name} ({code}): {text}")]
    Call {
        call: &'static str,
        code: i32,
        name: String,
        text: String,
    },
}
