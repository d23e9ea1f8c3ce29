// SPDX-License-Identifier: Apache-2.0
//! Errors of libcuda and of the GPU.

use super::Version;

/// A failure of libcuda or of the GPU. After [`Call`](Self::Call) the context may be unusable: restart the process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// libcuda is not installed.
    #[error(
        "NVIDIA's driver library libcuda.so was not found, so there is no NVIDIA GPU to use; install the driver (JetPack \
         brings it; in a container use NVIDIA's container runtime), or set detector.backend to `onnx`"
    )]
    NoLibrary,
    /// libcuda does not have a function that every driver since CUDA 11.4 has.
    #[error(
        "libcuda.so has no function {name}, expected NVIDIA's driver of CUDA {} or newer; install the driver again",
        Version::MIN_VERSION
    )]
    NoFunction {
        /// Name of the function.
        name: &'static str,
    },
    /// The driver is older than CUDA 11.4.
    #[error(
        "NVIDIA's driver supports CUDA {found}, expected {} or newer; update the driver (on a Jetson: JetPack 5 or newer)",
        Version::MIN_VERSION
    )]
    DriverTooOld {
        /// Supported version.
        found: Version,
    },
    /// The driver is installed but reports no GPU.
    #[error(
        "NVIDIA's driver is installed but sees no GPU; check `nvidia-smi` (in a container: start it with access to \
         the GPU), or set detector.backend to `onnx`"
    )]
    NoDevice,
    /// There is no GPU with that number.
    #[error("there is no GPU number {ordinal}, expected 0 to {}; choose another", count - 1)]
    NoSuchDevice {
        /// The requested number.
        ordinal: u32,
        /// GPUs of the machine, at least 1.
        count: u32,
    },
    /// An allocation failed.
    #[error(
        "out of {kind} memory: requested {requested} bytes, {free} of {total} are free; lower detector.batch_size or \
         detector.workers, or end other programs that use the GPU"
    )]
    OutOfMemory {
        /// `GPU` or `page-locked`.
        kind: &'static str,
        /// Requested bytes.
        requested: usize,
        /// Free bytes of the GPU.
        free: usize,
        /// Total bytes of the GPU.
        total: usize,
    },
    /// The driver cannot compile jetwatch's kernels.
    #[error(
        "NVIDIA's driver (CUDA {driver}) refuses jetwatch's kernels for {device}: {code_name}: {log}"
    )]
    Ptx {
        /// Version that the driver supports.
        driver: Version,
        /// Name of the GPU.
        device: String,
        /// CUDA's name of the error.
        code_name: String,
        /// The compiler's log.
        log: String,
    },
    /// Recorded work calls functions of the host, which may run only once.
    #[error("the recorded work calls back into the host, expected work of the GPU only")]
    HostCallInGraph,
    /// Another call failed.
    #[error("{call} failed with {name} ({code}): {text}")]
    Call {
        /// Name of the libcuda function.
        call: &'static str,
        /// CUDA's error number.
        code: i32,
        /// CUDA's error name.
        name: String,
        /// CUDA's error description.
        text: String,
    },
}
