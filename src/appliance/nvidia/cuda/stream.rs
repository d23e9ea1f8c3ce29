// SPDX-License-Identifier: Apache-2.0
//! CUDA streams: queues of work on the GPU.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use super::library::CUstream;
use super::{CudaError, Device, DeviceBuffer};

/// CU_STREAM_NON_BLOCKING: does not wait for work in the default stream of the process.
const NON_BLOCKING: u32 = 1;

/// Work that runs in order. Two streams run concurrently.
pub struct Stream {
    raw: CUstream,
    /// Whether another owner created it and destroys it.
    is_borrowed: bool,
    /// Dropped last: the stream is part of its context.
    device: Arc<Device>,
}

// SAFETY: the handle is bound to a context, not to a thread: CUDA's driver interface may be called from any thread that has made the
// context current, which each method does first.
unsafe impl Send for Stream {}
// SAFETY: as above; CUDA documents its calls as thread-safe, and work of several threads is put into the stream one after another.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates an empty stream.
    ///
    /// # Errors
    /// The driver reports a failure.
    pub fn new(device: &Arc<Device>) -> Result<Self, CudaError> {
        device.make_current()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer refers to a live pointer, the flag is CUDA's, and a context is current.
        let code = unsafe { (device.library().stream_create)(&raw mut raw, NON_BLOCKING) };
        device.library().check("cuStreamCreate", code)?;
        Ok(Self {
            raw,
            is_borrowed: false,
            device: Arc::clone(device),
        })
    }

    /// A stream that another owner created and destroys.
    ///
    /// # Safety
    /// `raw` must be a stream of `device` that is alive for as long as the result.
    pub(crate) unsafe fn borrowed(device: &Arc<Device>, raw: *mut c_void) -> Self {
        Self {
            raw: raw.cast(),
            is_borrowed: true,
            device: Arc::clone(device),
        }
    }

    /// The GPU of the stream.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Blocks until all enqueued work is done.
    ///
    /// # Errors
    /// A failure of any earlier work on the GPU.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.device.make_current()?;
        // SAFETY: the handle is alive.
        let code = unsafe { (self.device.library().stream_synchronize)(self.raw) };
        self.device.library().check("cuStreamSynchronize", code)
    }

    /// Copies `bytes` to the beginning of `to`, and blocks until that is done.
    ///
    /// # Errors
    /// A failure of this copy or of any earlier work on the GPU.
    ///
    /// # Panics
    /// When `bytes` is longer than `to`.
    pub fn upload(&self, bytes: &[u8], to: &mut DeviceBuffer) -> Result<(), CudaError> {
        assert!(bytes.len() <= to.len(), "bytes that fit into the buffer");
        let staging = Staging::new(bytes.to_vec());
        // SAFETY: both ranges are alive and long enough. The staging memory is freed only after the wait has succeeded, and CUDA
        // frees GPU memory only when nothing uses it any more.
        unsafe { self.copy(to.address(), staging.address(), bytes.len()) }?;
        self.synchronize()?;
        staging.free();
        Ok(())
    }

    /// Fills `into` from the beginning of `from`, and blocks until that is done.
    ///
    /// # Errors
    /// A failure of this copy or of any earlier work on the GPU.
    ///
    /// # Panics
    /// When `into` is longer than `from`.
    pub fn download(&self, from: &DeviceBuffer, into: &mut [u8]) -> Result<(), CudaError> {
        assert!(into.len() <= from.len(), "bytes that the buffer has");
        let mut staging = Staging::new(vec![0; into.len()]);
        // SAFETY: as in `upload`; nothing reads the staging memory before the wait has succeeded.
        unsafe { self.copy(staging.address_mut(), from.address(), into.len()) }?;
        self.synchronize()?;
        into.copy_from_slice(&staging.free());
        Ok(())
    }

    /// Enqueues a copy of `bytes` bytes; the addresses are of GPU memory or of host memory.
    ///
    /// # Safety
    /// Both ranges stay allocated, the one at `from` unchanged and the one at `to` not used otherwise, until the stream has
    /// passed this copy, and at each launch of a graph in which it is captured.
    pub(crate) unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.make_current()?;
        // SAFETY: the caller guarantees the ranges; CUDA distinguishes host and GPU memory by the address.
        let code = unsafe { (self.device.library().copy)(to, from, bytes, self.raw) };
        self.device.library().check("cuMemcpyAsync", code)
    }

    /// The handle for other libraries. Valid while `self` lives.
    pub(crate) fn raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    pub(super) fn handle(&self) -> CUstream {
        self.raw
    }
}

/// Host memory of a copy. Where the wait for the copy fails, it is unknown whether it is still under way: then the memory is never
/// freed, in place of the caller's memory being read or written after its end.
struct Staging(ManuallyDrop<Vec<u8>>);

impl Staging {
    fn new(bytes: Vec<u8>) -> Self {
        Self(ManuallyDrop::new(bytes))
    }

    fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn address_mut(&mut self) -> u64 {
        self.0.as_mut_ptr().expose_provenance() as u64
    }

    /// The bytes, when the copy is done.
    fn free(self) -> Vec<u8> {
        ManuallyDrop::into_inner(self.0)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.is_borrowed {
            return;
        }
        let _ = self.device.make_current();
        // SAFETY: created by `new` and not destroyed before; CUDA finishes the work that is still in it.
        let _ = unsafe { (self.device.library().stream_destroy)(self.raw) };
    }
}
