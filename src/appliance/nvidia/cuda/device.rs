// SPDX-License-Identifier: Apache-2.0
//! One GPU and its primary context, which the CUDA runtime inside TensorRT shares.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::library::{CUcontext, CUdevice, Library, OUT_OF_MEMORY, SUCCESS, symbol};
use super::{CudaError, Kernels};

// Numbers of CUdevice_attribute.
const MULTIPROCESSORS: u32 = 16;
const INTEGRATED: u32 = 18;
const MAP_HOST_MEMORY: u32 = 19;
const MEMORY_CLOCK_KHZ: u32 = 36;
const MEMORY_BUS_BITS: u32 = 37;
const THREADS_PER_MULTIPROCESSOR: u32 = 39;
const CAPABILITY_MAJOR: u32 = 75;
const CAPABILITY_MINOR: u32 = 76;

/// A CUDA version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major version: 11 of 11.4.
    pub major: u32,
    /// Minor version: 4 of 11.4.
    pub minor: u32,
}

impl Version {
    /// The oldest version with all functions that are called here: that of JetPack 5.
    pub const MIN_VERSION: Self = Self {
        major: 11,
        minor: 4,
    };

    /// From CUDA's encoding as one number: 11040 is 11.4.
    pub(super) fn from_number(number: c_int) -> Self {
        let number = number.max(0).unsigned_abs();
        Self {
            major: number / 1000,
            minor: number % 1000 / 10,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Memory of a GPU, in bytes. On an integrated GPU it is the system memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Free memory.
    pub free: usize,
    /// Total memory.
    pub total: usize,
}

/// A GPU with its context. Shared by all workers; every object on the GPU keeps it alive.
pub struct Device {
    library: &'static Library,
    device: CUdevice,
    context: CUcontext,
    name: String,
    version: Version,
    capability: (u32, u32),
    is_integrated: bool,
    multiprocessors: u32,
    threads_per_multiprocessor: u32,
    bytes_per_second: Option<u64>,
    /// The kernels, while they are in use: compiled once for all workers.
    kernels: Mutex<Weak<Kernels>>,
}

// SAFETY: CUDA's device and context handles are valid in every thread of the process, and its functions may be called
// from several at once.
unsafe impl Send for Device {}
// SAFETY: as above; the only part that changes is behind a mutex.
unsafe impl Sync for Device {}

impl Device {
    /// Number of GPUs that the driver reports, at least 1.
    ///
    /// # Errors
    /// The driver is missing or too old, or there is no GPU.
    pub fn count() -> Result<u32, CudaError> {
        count(Library::open()?)
    }

    /// Opens libcuda and GPU `ordinal`, from 0. May take a second, because the driver creates a context.
    ///
    /// # Errors
    /// Those of [`count`](Self::count), and an ordinal beyond the last GPU.
    pub fn open(ordinal: u32) -> Result<Arc<Self>, CudaError> {
        let library = Library::open()?;
        let mut number = 0;
        // SAFETY: the pointer refers to a live integer.
        let code = unsafe { (library.driver_version)(&raw mut number) };
        library.check("cuDriverGetVersion", code)?;
        let count = count(library)?;
        if ordinal >= count {
            return Err(CudaError::NoSuchDevice { ordinal, count });
        }
        let mut device = 0;
        // SAFETY: the pointer refers to a live integer; an ordinal beyond the last GPU gives an error code.
        let code = unsafe { (library.device)(&raw mut device, ordinal as c_int) };
        library.check("cuDeviceGet", code)?;
        let attribute = |which| attribute(library, device, which);
        let capability = (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?);
        // Only an integrated GPU that can read host memory saves the copy.
        let is_integrated = attribute(INTEGRATED)? == 1 && attribute(MAP_HOST_MEMORY)? == 1;
        let multiprocessors = attribute(MULTIPROCESSORS)?;
        let threads_per_multiprocessor = attribute(THREADS_PER_MULTIPROCESSOR)?;
        let clock = u64::from(attribute(MEMORY_CLOCK_KHZ).unwrap_or(0)) * 1000;
        // Two transfers per clock, and 8 bits per byte.
        let bandwidth = clock * 2 * u64::from(attribute(MEMORY_BUS_BITS).unwrap_or(0)) / 8;
        let name = name(library, device)?;
        let mut context = ptr::null_mut();
        // SAFETY: the pointer refers to a live pointer and the device was just returned by CUDA; released in `drop`.
        let code = unsafe { (library.context_retain)(&raw mut context, device) };
        library.check("cuDevicePrimaryCtxRetain", code)?;
        let device = Self {
            library,
            device,
            context,
            name,
            version: Version::from_number(number),
            capability,
            is_integrated,
            multiprocessors,
            threads_per_multiprocessor,
            bytes_per_second: (bandwidth > 0).then_some(bandwidth),
            kernels: Mutex::default(),
        };
        device.make_current()?;
        Ok(Arc::new(device))
    }

    /// Name of the GPU, such as `Xavier` or `NVIDIA H200`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The newest CUDA version that the driver supports.
    pub fn driver_version(&self) -> Version {
        self.version
    }

    /// Compute capability, major and minor: (7, 2) is sm_72.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Whether the GPU shares the system memory and reads it without a copy, as on a Jetson.
    pub fn is_integrated(&self) -> bool {
        self.is_integrated
    }

    /// Whether libcuda is the tests' double, whose GPU memory is memory of the host.
    pub fn is_double(&self) -> bool {
        // SAFETY: the function is only looked for, not called.
        unsafe { symbol::<unsafe extern "C" fn()>("jetwatch_cuda_double") }.is_ok()
    }

    /// Number of multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Maximum number of resident threads per multiprocessor.
    pub fn threads_per_multiprocessor(&self) -> u32 {
        self.threads_per_multiprocessor
    }

    /// Theoretical memory bandwidth from clock and bus width; `None` when the driver does not report them.
    pub fn bytes_per_second(&self) -> Option<u64> {
        self.bytes_per_second
    }

    /// Current memory usage.
    ///
    /// # Errors
    /// The driver reports a failure.
    pub fn memory(&self) -> Result<DeviceMemory, CudaError> {
        self.make_current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers refer to live integers, and a context is current.
        let code = unsafe { (self.library.memory_info)(&raw mut free, &raw mut total) };
        self.library.check("cuMemGetInfo", code)?;
        Ok(DeviceMemory { free, total })
    }

    /// Makes this GPU's context current in the calling thread, as most calls require. Cheap.
    ///
    /// # Errors
    /// The driver reports a failure.
    pub fn make_current(&self) -> Result<(), CudaError> {
        // SAFETY: the context is retained for as long as `self` lives.
        let code = unsafe { (self.library.context_set)(self.context) };
        self.library.check("cuCtxSetCurrent", code)
    }

    pub(super) fn library(&self) -> &'static Library {
        self.library
    }

    /// The kernels, compiled for this GPU by the first caller.
    pub(crate) fn kernels(self: &Arc<Self>) -> Result<Arc<Kernels>, CudaError> {
        let mut cached = self.kernels.lock();
        if let Some(kernels) = cached.upgrade() {
            return Ok(kernels);
        }
        let kernels = Arc::new(Kernels::load(self)?);
        *cached = Arc::downgrade(&kernels);
        Ok(kernels)
    }

    /// Converts `code` of an allocation of `requested` bytes to an error that contains the free memory.
    pub(super) fn check_allocation(
        &self,
        call: &'static str,
        kind: &'static str,
        requested: usize,
        code: c_int,
    ) -> Result<(), CudaError> {
        if code != OUT_OF_MEMORY {
            return self.library.check(call, code);
        }
        let DeviceMemory { free, total } = self.memory()?;
        Err(CudaError::OutOfMemory {
            kind,
            requested,
            free,
            total,
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: retained once by `open`; every object in the context holds an `Arc` of this and is gone.
        let code = unsafe { (self.library.context_release)(self.device) };
        if code != SUCCESS {
            log::debug!(code; "the GPU's context could not be released");
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        write!(f, "Device({}, sm_{major}{minor})", self.name)
    }
}

fn count(library: &Library) -> Result<u32, CudaError> {
    let mut count = 0;
    // SAFETY: the pointer refers to a live integer, and `cuInit` has succeeded.
    let code = unsafe { (library.device_count)(&raw mut count) };
    library.check("cuDeviceGetCount", code)?;
    match u32::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(CudaError::NoDevice),
    }
}

fn attribute(library: &Library, device: CUdevice, which: u32) -> Result<u32, CudaError> {
    let mut value = 0;
    // SAFETY: the pointer refers to a live integer and the device was returned by `cuDeviceGet`.
    let code = unsafe { (library.device_attribute)(&raw mut value, which, device) };
    library.check("cuDeviceGetAttribute", code)?;
    // None of these attributes is negative.
    Ok(value.max(0).unsigned_abs())
}

fn name(library: &Library, device: CUdevice) -> Result<String, CudaError> {
    let mut bytes = [0_u8; 256];
    // SAFETY: the pointer refers to that many writable bytes; the name is truncated to fit, including its NUL.
    let code =
        unsafe { (library.device_name)(bytes.as_mut_ptr().cast(), bytes.len() as c_int, device) };
    library.check("cuDeviceGetName", code)?;
    let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_cuda_numbers_them() {
        let version = |major, minor| Version { major, minor };
        assert_eq!(Version::from_number(11040), version(11, 4));
        assert_eq!(Version::from_number(13000), version(13, 0));
        assert_eq!(Version::from_number(12060).to_string(), "12.6");
        assert!(Version::from_number(11030) < Version::MIN_VERSION);
        assert!(version(10, 9) < Version::MIN_VERSION && version(12, 0) > Version::MIN_VERSION);
        assert_eq!(Version::from_number(-1), version(0, 0));
    }
}
