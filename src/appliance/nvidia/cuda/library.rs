//! libcuda's functions, found by name once for the process.
//!
//! cudarc opens the library. Its own functions are not called: they panic where a symbol is missing, and they return
//! the errors of CUDA 11.4 as a Rust enum, in which a number that a newer driver gives would be undefined behavior. Here
//! an error is a number until it is looked at. Called by everything in `cuda`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys;
use sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule, CUstream,
};

use super::{CudaError, Version};

/// What every function returns: 0, or the number of an error.
pub(super) type CuResult = c_int;

/// Numbers that are told apart; all others are reported as they are.
pub(super) const SUCCESS: CuResult = 0;
pub(super) const OUT_OF_MEMORY: CuResult = 2;
const NO_DEVICE: CuResult = 100;

/// Makes [`Library`] with one field for each function.
macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $name:literal ($($argument:ty),* $(,)?);)*) => {
        /// Functions of libcuda, all found.
        pub(super) struct Library {
            $($(#[$doc])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> CuResult,)*
        }

        impl Library {
            fn find() -> Result<Self, CudaError> {
                Ok(Self {
                    $(
                        // SAFETY: CUDA's driver interface documents this signature for this name; it never changes for
                        // a name, new signatures get new names (`_v2`).
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
/// `F` must be the type of a C function with the signature that CUDA documents for `name`, and libcuda must be present.
pub(super) unsafe fn symbol<F: Copy>(name: &'static str) -> Result<F, CudaError> {
    // SAFETY: `Library::open` has seen that the library is there, so cudarc opens it and does not panic.
    let library = unsafe { sys::culib() };
    // SAFETY: the caller vouches for the signature; cudarc never closes the library, so the copied pointer stays valid.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found
        .map(|found| *found)
        .map_err(|_| CudaError::NoFunction { name })
}

impl Library {
    /// Opens libcuda and initializes it, once for the process; a failure is tried again by the next call.
    pub(super) fn open() -> Result<&'static Self, CudaError> {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        // SAFETY: opens shared libraries by libcuda's names, whose initializers are NVIDIA's or those of a stand-in.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoLibrary);
        }
        // The version is asked first: an old driver lacks functions, and its age is the better sentence.
        let version = Self::version()?;
        if version < Version::MIN_VERSION {
            return Err(CudaError::DriverTooOld { found: version });
        }
        let library = Self::find()?;
        // SAFETY: no flags are defined, 0 is demanded.
        let code = unsafe { (library.init)(0) };
        if code == NO_DEVICE {
            return Err(CudaError::NoDevice);
        }
        library.check("cuInit", code)?;
        Ok(LIBRARY.get_or_init(|| library))
    }

    /// The newest CUDA that the driver supports. The one question that may come before initialization.
    fn version() -> Result<Version, CudaError> {
        type Ask = unsafe extern "C" fn(*mut c_int) -> CuResult;
        // SAFETY: this is the signature that CUDA documents.
        let ask: Ask = unsafe { symbol("cuDriverGetVersion") }?;
        let mut number = 0;
        // SAFETY: the pointer is to a live integer, the only demand.
        let code = unsafe { ask(&raw mut number) };
        if code == SUCCESS {
            return Ok(Version::from_number(number));
        }
        Err(CudaError::Call {
            call: "cuDriverGetVersion",
            code,
            name: "an error".to_owned(),
            text: "the driver could not say its version".to_owned(),
        })
    }

    /// The error behind `code`, if it is one.
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

    /// CUDA's name of the error `code`.
    pub(super) fn name_of(&self, code: CuResult) -> String {
        self.code_text(self.error_name, code, "an unknown error")
    }

    fn code_text(
        &self,
        ask: unsafe extern "C" fn(CuResult, *mut *const c_char) -> CuResult,
        code: CuResult,
        unknown: &str,
    ) -> String {
        let mut text = ptr::null();
        // SAFETY: the pointer is to a live pointer; any number is allowed, unknown ones give an error and null.
        let answer = unsafe { ask(code, &raw mut text) };
        if answer != SUCCESS || text.is_null() {
            return unknown.to_owned();
        }
        // SAFETY: on success the text is a constant of the library, ended by NUL, and the library is never closed.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}
