// SPDX-License-Identifier: Apache-2.0
//! libcuda's functions, looked up by name once per process.
//!
//! An error stays a number until it is checked: a newer driver has numbers that no list of today has.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use super::{CudaError, Version};
use crate::shared_library::SharedLibrary;

/// The driver's name, and the one that only links against it have: on machines without a driver, that may be CUDA's stub.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Number of a device.
pub(super) type CUdevice = c_int;
/// An address in the memory of the device.
pub(super) type CUdeviceptr = u64;

/// Declares the driver's objects, which only pointers refer to, as its header does.
macro_rules! objects {
    ($($pointer:ident = $object:ident;)*) => {$(
        #[doc = concat!("CUDA's `", stringify!($object), "`.")]
        #[repr(C)]
        pub(super) struct $object([u8; 0]);
        #[doc = concat!("Refers to a [`", stringify!($object), "`].")]
        pub(super) type $pointer = *mut $object;
    )*};
}

objects! {
    CUcontext = CUctx_st;
    CUevent = CUevent_st;
    CUfunction = CUfunc_st;
    CUgraph = CUgraph_st;
    CUgraphExec = CUgraphExec_st;
    CUgraphNode = CUgraphNode_st;
    CUmodule = CUmod_st;
    CUstream = CUstream_st;
}

/// Return value of every function: 0, or an error number.
pub(super) type CuResult = c_int;

/// Error numbers with their own variants; all others are reported by name.
pub(super) const SUCCESS: CuResult = 0;
pub(super) const OUT_OF_MEMORY: CuResult = 2;
const NO_DEVICE: CuResult = 100;

/// Makes [`Library`] with one field for each function.
macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $name:literal ($($argument:ty),* $(,)?);)*) => {
        /// Functions of libcuda, all present.
        pub(super) struct Library {
            $($(#[$doc])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> CuResult,)*
        }

        impl Library {
            fn find() -> Result<Self, CudaError> {
                Ok(Self {
                    $(
                        // SAFETY: CUDA's driver interface documents this signature for this name; it never changes for a name:
                        // new signatures get new names (`_v2`).
                        $field: unsafe { symbol::<unsafe extern "C" fn($($argument),*) -> CuResult>($name) }?,
                    )*
                })
            }
        }
    };
}

functions! {
    init = "cuInit"(c_uint);
    driver_version = "cuDriverGetVersion"(*mut c_int);
    error_name = "cuGetErrorName"(CuResult, *mut *const c_char);
    error_text = "cuGetErrorString"(CuResult, *mut *const c_char);
    device_count = "cuDeviceGetCount"(*mut c_int);
    device = "cuDeviceGet"(*mut CUdevice, c_int);
    device_name = "cuDeviceGetName"(*mut c_char, c_int, CUdevice);
    device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_uint, CUdevice);
    context_retain = "cuDevicePrimaryCtxRetain"(*mut CUcontext, CUdevice);
    context_release = "cuDevicePrimaryCtxRelease_v2"(CUdevice);
    context_set = "cuCtxSetCurrent"(CUcontext);
    memory_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    memory_allocate = "cuMemAlloc_v2"(*mut CUdeviceptr, usize);
    memory_free = "cuMemFree_v2"(CUdeviceptr);
    host_allocate = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
    host_free = "cuMemFreeHost"(*mut c_void);
    host_address = "cuMemHostGetDevicePointer_v2"(*mut CUdeviceptr, *mut c_void, c_uint);
    copy = "cuMemcpyAsync"(CUdeviceptr, CUdeviceptr, usize, CUstream);
    stream_create = "cuStreamCreate"(*mut CUstream, c_uint);
    stream_destroy = "cuStreamDestroy_v2"(CUstream);
    stream_synchronize = "cuStreamSynchronize"(CUstream);
    capture_begin = "cuStreamBeginCapture_v2"(CUstream, c_uint);
    capture_end = "cuStreamEndCapture"(CUstream, *mut CUgraph);
    graph_instantiate = "cuGraphInstantiateWithFlags"(*mut CUgraphExec, CUgraph, u64);
    graph_launch = "cuGraphLaunch"(CUgraphExec, CUstream);
    graph_exec_destroy = "cuGraphExecDestroy"(CUgraphExec);
    graph_destroy = "cuGraphDestroy"(CUgraph);
    event_create = "cuEventCreate"(*mut CUevent, c_uint);
    event_destroy = "cuEventDestroy_v2"(CUevent);
    event_record = "cuEventRecordWithFlags"(CUevent, CUstream, c_uint);
    event_synchronize = "cuEventSynchronize"(CUevent);
    event_elapsed = "cuEventElapsedTime"(*mut f32, CUevent, CUevent);
    module_load = "cuModuleLoadDataEx"(*mut CUmodule, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
    module_unload = "cuModuleUnload"(CUmodule);
    module_function = "cuModuleGetFunction"(*mut CUfunction, CUmodule, *const c_char);
    kernel_launch = "cuLaunchKernel"(
        CUfunction,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        CUstream,
        *mut *mut c_void,
        *mut *mut c_void,
    );
}

/// The function `name` of libcuda.
///
/// # Safety
/// `F` must be the type of a C function with the signature that CUDA documents for `name`.
pub(super) unsafe fn symbol<F: Copy>(name: &'static str) -> Result<F, CudaError> {
    // SAFETY: the caller guarantees the signature; the library is never closed, so the pointer stays valid.
    unsafe { shared()?.function(name) }.ok_or(CudaError::NoFunction { name })
}

/// libcuda, opened once and never closed.
fn shared() -> Result<&'static SharedLibrary, CudaError> {
    static SHARED: OnceLock<SharedLibrary> = OnceLock::new();
    if let Some(library) = SHARED.get() {
        return Ok(library);
    }
    let library = NAMES
        .iter()
        .find_map(|name| SharedLibrary::open(Path::new(name)).ok())
        .ok_or(CudaError::NoLibrary)?;
    Ok(SHARED.get_or_init(|| library))
}

impl Library {
    /// Opens libcuda and initializes it, once per process; after a failure the next call tries again.
    ///
    /// # Errors
    /// The driver is missing, too old, or fails to initialize.
    pub(super) fn open() -> Result<&'static Self, CudaError> {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        // The version comes first: an old driver lacks functions, and its age is the better error.
        let version = Self::version()?;
        if version < Version::MIN_VERSION {
            return Err(CudaError::DriverTooOld { found: version });
        }
        let library = Self::find()?;
        // SAFETY: no flags are defined, so 0 is required.
        let code = unsafe { (library.init)(0) };
        if code == NO_DEVICE {
            return Err(CudaError::NoDevice);
        }
        library.check("cuInit", code)?;
        Ok(LIBRARY.get_or_init(|| library))
    }

    /// The newest CUDA version that the driver supports. The only call that is allowed before initialization.
    fn version() -> Result<Version, CudaError> {
        type DriverGetVersion = unsafe extern "C" fn(*mut c_int) -> CuResult;
        // SAFETY: this is the signature that CUDA documents.
        let get_version: DriverGetVersion = unsafe { symbol("cuDriverGetVersion") }?;
        let mut number = 0;
        // SAFETY: the pointer refers to a live integer, the only requirement.
        let code = unsafe { get_version(&raw mut number) };
        if code == SUCCESS {
            return Ok(Version::from_number(number));
        }
        Err(CudaError::Call {
            call: "cuDriverGetVersion",
            code,
            name: "an error".to_owned(),
            text: "the driver did not report its version".to_owned(),
        })
    }

    /// Converts `code` to an error, unless it is 0.
    pub(super) fn check(&self, call: &'static str, code: CuResult) -> Result<(), CudaError> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(CudaError::Call {
            call,
            code,
            name: self.code_text(self.error_name, code, "an unknown error"),
            text: self.code_text(self.error_text, code, "the driver has no description of it"),
        })
    }

    /// CUDA's name of error `code`.
    pub(super) fn name_of(&self, code: CuResult) -> String {
        self.code_text(self.error_name, code, "an unknown error")
    }

    fn code_text(
        &self,
        query: unsafe extern "C" fn(CuResult, *mut *const c_char) -> CuResult,
        code: CuResult,
        unknown: &str,
    ) -> String {
        let mut text = ptr::null();
        // SAFETY: the pointer refers to a live pointer; any number is allowed, unknown ones give an error and null.
        let status = unsafe { query(code, &raw mut text) };
        if status != SUCCESS || text.is_null() {
            return unknown.to_owned();
        }
        // SAFETY: on success the text is a constant of the library, terminated by NUL, and the library is never closed.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}
