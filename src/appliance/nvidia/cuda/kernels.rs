// SPDX-License-Identifier: Apache-2.0
//! jetwatch's CUDA kernels: the driver compiles their PTX for the GPU. Loading and launching.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use super::library::{CUfunction, CUmodule, Library, SUCCESS};
use super::{CudaError, Device, Stream};

/// PTX of the kernels, terminated by NUL as the driver requires. `make-ptx` generates the file.
const PTX: &str = concat!(include_str!("preprocess.ptx"), "\0");

// Numbers of CUjit_option.
const JIT_ERROR_LOG: u32 = 5;
const JIT_ERROR_LOG_BYTES: u32 = 6;

/// Threads per block; a multiple of the warp size, 32.
pub(super) const BLOCK_THREADS: u32 = 256;

/// The module with all kernels, and the functions in it.
pub(crate) struct Kernels {
    module: CUmodule,
    preprocess: [CUfunction; 6],
    pause: CUfunction,
    /// Dropped last: the module is part of its context.
    device: Arc<Device>,
}

// SAFETY: the handles are bound to a context, not to a thread: CUDA's driver interface may be called from any thread that has made the
// context current.
unsafe impl Send for Kernels {}
// SAFETY: as above; the handles never change, and CUDA documents launches of one function by several threads as safe.
unsafe impl Sync for Kernels {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// `jetwatch_{bgrx,nv12}_{float,half,byte}`, in this order.
    Preprocess(usize),
    /// `jetwatch_pause`: keeps the GPU busy for a number of nanoseconds.
    Pause,
}

/// Blocks in both dimensions, and threads per block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    /// Blocks in x.
    pub columns: u32,
    /// Blocks in y.
    pub rows: u32,
    /// Threads per block, 1 to 1024.
    pub threads: u32,
}

impl Kernels {
    /// Has the driver compile the PTX: some milliseconds, less when the result is in its cache.
    ///
    /// # Errors
    /// The driver does not accept the PTX.
    pub(super) fn load(device: &Arc<Device>) -> Result<Self, CudaError> {
        device.make_current()?;
        let module = translate(device, PTX)?;
        // From here on dropping `kernels` unloads the module.
        let mut kernels = Self {
            module,
            preprocess: [ptr::null_mut(); 6],
            pause: ptr::null_mut(),
            device: Arc::clone(device),
        };
        let names = [
            c"jetwatch_bgrx_float",
            c"jetwatch_bgrx_half",
            c"jetwatch_bgrx_byte",
            c"jetwatch_nv12_float",
            c"jetwatch_nv12_half",
            c"jetwatch_nv12_byte",
        ];
        for (function, name) in kernels.preprocess.iter_mut().zip(names) {
            *function = find(device.library(), module, name)?;
        }
        kernels.pause = find(device.library(), module, c"jetwatch_pause")?;
        Ok(kernels)
    }

    /// Enqueues one launch of `kernel` with its only `parameter` in `stream`.
    ///
    /// # Safety
    /// `P` must have the layout of the kernel's parameter. The memory to which the parameter refers must be as the kernel
    /// expects until the stream has passed this launch, and at each launch of a graph in which it is captured.
    pub(crate) unsafe fn launch<P>(
        &self,
        kernel: Kernel,
        stream: &Stream,
        grid: Grid,
        parameter: &P,
    ) -> Result<(), CudaError> {
        let function = match kernel {
            Kernel::Preprocess(index) => self.preprocess[index],
            Kernel::Pause => self.pause,
        };
        let mut parameters = [ptr::from_ref(parameter).cast_mut().cast::<c_void>()];
        let library = self.device.library();
        // SAFETY: function and stream are alive and of one context; the parameter is copied before the call returns, and the
        // caller guarantees its layout and what it refers to. No shared memory is requested.
        let code = unsafe {
            (library.kernel_launch)(
                function,
                grid.columns,
                grid.rows,
                1,
                grid.threads,
                1,
                1,
                0,
                stream.handle(),
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        library.check("cuLaunchKernel", code)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: loaded by `load` and not unloaded before; the code that launched a kernel has waited for it.
        let _ = unsafe { (self.device.library().module_unload)(self.module) };
    }
}

/// Loads PTX, which must be terminated by NUL.
fn translate(device: &Arc<Device>, ptx: &str) -> Result<CUmodule, CudaError> {
    debug_assert!(ptx.ends_with('\0'));
    let library = device.library();
    let mut log = vec![0_u8; 4096];
    let mut options = [JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES];
    // The size is passed in the bits of the pointer, as CUDA requires.
    let mut values = [
        log.as_mut_ptr().cast::<c_void>(),
        ptr::without_provenance_mut(log.len()),
    ];
    let mut module = ptr::null_mut();
    // SAFETY: the text is terminated by NUL; there are as many options as values, each value has the type that its option
    // requires, and the log's memory outlives the call.
    let code = unsafe {
        (library.module_load)(
            &raw mut module,
            ptx.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if code == SUCCESS {
        return Ok(module);
    }
    let written = CStr::from_bytes_until_nul(&log).unwrap_or_default();
    Err(CudaError::Ptx {
        driver: device.driver_version(),
        device: device.name().to_owned(),
        code_name: library.name_of(code),
        log: match written.to_string_lossy().trim() {
            "" => "the driver reported no reason".to_owned(),
            text => text.to_owned(),
        },
    })
}

fn find(library: &Library, module: CUmodule, name: &CStr) -> Result<CUfunction, CudaError> {
    let mut function = ptr::null_mut();
    // SAFETY: the module is loaded, the name is terminated by NUL, and the pointer refers to a live pointer.
    let code = unsafe { (library.module_function)(&raw mut function, module, name.as_ptr()) };
    library.check("cuModuleGetFunction", code)?;
    Ok(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number behind a directive such as `.version`.
    fn directive<'a>(name: &str) -> &'a str {
        PTX.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
            .expect("the PTX has the directive")
    }

    #[test]
    fn ptx_version_supports_jetpack_5_and_xavier() {
        let (major, minor) = directive(".version ").split_once('.').expect("two numbers");
        let version: (u32, u32) = (
            major.parse().expect("a number"),
            minor.parse().expect("a number"),
        );
        assert!(
            version <= (7, 4),
            "PTX {version:?} is newer than CUDA 11.4 supports"
        );
        let target = directive(".target ");
        let number: u32 = target
            .strip_prefix("sm_")
            .and_then(|number| number.parse().ok())
            .expect("a target such as sm_70");
        assert!(number <= 72, "{target} does not run on a Xavier");
        assert_eq!(directive(".address_size "), "64");
    }

    #[test]
    fn the_ptx_rounds_after_each_step_and_moves_16_bytes_at_a_time() {
        // A fused multiply-add rounds only once.
        assert!(!PTX.contains("fma."));
        for wide in ["ld.global.nc.v4.u32", "st.global.v4."] {
            assert!(PTX.contains(wide), "{wide}");
        }
    }
}
