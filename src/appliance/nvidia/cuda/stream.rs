//! A queue of work on the GPU.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::CUstream;

use super::{CudaError, Device, DeviceBuffer};

/// CU_STREAM_NON_BLOCKING: does not wait for what others put into the process's default stream.
const NON_BLOCKING: u32 = 1;

/// Work that runs in order; two streams run side by side.
pub struct Stream {
    raw: CUstream,
    /// Whether someone else made it and destroys it.
    is_borrowed: bool,
    /// Dropped last: the stream lives in its context.
    device: Arc<Device>,
}

// SAFETY: CUDA's streams may be used from any thread, and from several at once.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// An empty stream of its own.
    pub fn new(device: &Arc<Device>) -> Result<Self, CudaError> {
        device.make_current()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is to a live pointer, the flag is CUDA's, and a context is current.
        let code = unsafe { (device.library().stream_create)(&raw mut raw, NON_BLOCKING) };
        device.library().check("cuStreamCreate", code)?;
        Ok(Self {
            raw,
            is_borrowed: false,
            device: Arc::clone(device),
        })
    }

    /// A stream that someone else made and destroys.
    ///
    /// # Safety
    /// `raw` must be a stream of `device`, alive for as long as the result is.
    pub(crate) unsafe fn borrowed(device: &Arc<Device>, raw: *mut c_void) -> Self {
        Self {
            raw: raw.cast(),
            is_borrowed: true,
            device: Arc::clone(device),
        }
    }

    /// The GPU it runs on.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Waits until all that was put in is done. An error may be that of anything that ran before on the GPU.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.device.make_current()?;
        // SAFETY: the handle is alive.
        let code = unsafe { (self.device.library().stream_synchronize)(self.raw) };
        self.device.library().check("cuStreamSynchronize", code)
    }

    /// Copies `bytes` to the beginning of `to` and waits until they are there. Panics when they do not fit.
    pub fn upload(&self, bytes: &[u8], to: &mut DeviceBuffer) -> Result<(), CudaError> {
        assert!(bytes.len() <= to.len(), "bytes that fit into the buffer");
        // SAFETY: both ranges are alive and long enough, and neither is let go before `synchronize` returns.
        unsafe {
            self.copy(
                to.address(),
                bytes.as_ptr().expose_provenance() as u64,
                bytes.len(),
            )
        }?;
        self.synchronize()
    }

    /// Fills `into` from the beginning of `from` and waits until that is done. Panics when `from` is shorter.
    pub fn download(&self, from: &DeviceBuffer, into: &mut [u8]) -> Result<(), CudaError> {
        assert!(into.len() <= from.len(), "bytes that the buffer has");
        // SAFETY: both ranges are alive and long enough, and neither is let go before `synchronize` returns; `into` is
        // borrowed for writing, so nobody else sees it change.
        unsafe {
            self.copy(
                into.as_mut_ptr().expose_provenance() as u64,
                from.address(),
                into.len(),
            )
        }?;
        self.synchronize()
    }

    /// Puts a copy of `bytes` bytes into the stream; the addresses are of the GPU's memory or of the host's.
    ///
    /// # Safety
    /// Both ranges stay allocated, the one at `from` unchanged and the one at `to` unused by anyone else, until the stream
    /// has come past this copy, and at each launch of a graph in which it is captured.
    pub(crate) unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.make_current()?;
        // SAFETY: the caller vouches for the ranges; CUDA tells host from GPU by the address.
        let code = unsafe { (self.device.library().copy)(to, from, bytes, self.raw) };
        self.device.library().check("cuMemcpyAsync", code)
    }

    /// The handle for libraries that take one. Valid while `self` lives.
    pub(crate) fn raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    pub(super) fn handle(&self) -> CUstream {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_borrowed {
            return;
        }
        let _ = self.device.make_current();
        // SAFETY: made by `new` and not destroyed before; CUDA finishes what is still in it.
        let _ = unsafe { (self.device.library().stream_destroy)(self.raw) };
    }
}
