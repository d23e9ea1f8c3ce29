//! Why the GPU cannot be used, or why a call to it failed.

use super::Version;

/// A failure of libcuda or of the GPU. After [`Call`](Self::Call) the context may be beyond repair: end and start again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// libcuda is not there.
    #[error(
        "NVIDIA's driver library libcuda.so was not found, so there is no NVIDIA GPU to use; install the driver (JetPack \
         brings it; in a container use NVIDIA's container runtime), or set detector.backend to `onnx`"
    )]
    NoLibrary,
    /// libcuda lacks a function that every driver since CUDA 11.4 has.
    #[error(
        "libcuda.so has no function {name}, expected NVIDIA's driver of CUDA {} or newer; install the driver again",
        Version::MIN_VERSION
    )]
    NoFunction {
        /// The function's name.
        name: &'static str,
    },
    /// The driver is older than CUDA 11.4.
    #[error(
        "NVIDIA's driver supports CUDA {found}, expected {} or newer; update the driver (on a Jetson: JetPack 5 or newer)",
        Version::MIN_VERSION
    )]
    DriverTooOld {
        /// What the driver supports.
        found: Version,
    },
    /// The driver is there and sees no GPU.
    #[error(
        "NVIDIA's driver is installed but sees no GPU; see what `nvidia-smi` says (in a container: start it with access to \
         the GPU), or set detector.backend to `onnx`"
    )]
    NoDevice,
    /// There is no GPU of that number.
    #[error("there is no GPU number {ordinal}, expected 0 to {}; choose another", count - 1)]
    NoSuchDevice {
        /// The number asked for.
        ordinal: u32,
        /// GPUs of the machine, at least 1.
        count: u32,
    },
    /// Memory ran out.
    #[error(
        "out of {kind} memory: asked for {asked} bytes, {free} of {total} are free; lower detector.batch_size or \
         detector.workers, or end other programs that use the GPU"
    )]
    OutOfMemory {
        /// `GPU` or `page-locked`.
        kind: &'static str,
        /// Bytes asked for.
        asked: usize,
        /// Free bytes of the GPU.
        free: usize,
        /// All bytes of the GPU.
        total: usize,
    },
    /// The driver cannot translate our kernels.
    #[error(
        "NVIDIA's driver (CUDA {driver}) refuses jetwatch's kernels for {device}: {code_name}: {log}"
    )]
    Ptx {
        /// What the driver supports.
        driver: Version,
        /// Name of the GPU.
        device: String,
        /// CUDA's name of the error.
        code_name: String,
        /// What the translator wrote.
        log: String,
    },
    /// Any other call failed.
    #[error("{call} failed with {name} ({code}): {text}")]
    Call {
        /// The function of libcuda.
        call: &'static str,
        /// CUDA's number of the error.
        code: i32,
        /// CUDA's name of it.
        name: String,
        /// CUDA's description of it.
        text: String,
    },
}
