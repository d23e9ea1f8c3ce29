// SPDX-License-Identifier: Apache-2.0
//! GPU memory, and host memory that the GPU can access.

use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use super::{CudaError, Device};

// Flags of cuMemHostAlloc.
const PORTABLE: u32 = 1;
const MAPPED: u32 = 2;

/// GPU memory. Its initial contents are undefined.
pub struct DeviceBuffer {
    address: u64,
    len: usize,
    /// Dropped last: the memory is part of its context.
    device: Arc<Device>,
}

impl DeviceBuffer {
    /// Allocates `len` bytes, aligned to 256.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, CudaError> {
        device.make_current()?;
        let mut address = 0;
        // SAFETY: the pointer refers to a live integer and a context is current; CUDA refuses 0 bytes, so it is at least 1.
        let code = unsafe { (device.library().memory_allocate)(&raw mut address, len.max(1)) };
        device.check_allocation("cuMemAlloc", "GPU", len, code)?;
        Ok(Self {
            address,
            len,
            device: Arc::clone(device),
        })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address in GPU memory.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: allocated by `new` and not freed before; the code that passed the address to the GPU waits for it.
        let _ = unsafe { (self.device.library().memory_free)(self.address) };
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({} bytes)", self.len)
    }
}

/// Page-locked host memory, initially zero. The GPU copies from and to it without the CPU, and an integrated GPU also reads
/// it without a copy.
pub struct PinnedBuffer {
    pointer: NonNull<u8>,
    len: usize,
    /// Address for the GPU.
    address: u64,
    /// Dropped last: the memory is part of its context.
    device: Arc<Device>,
}

// SAFETY: `pointer` is memory of the process that only this value owns, as a `Box<[u8]>` would; it may be freed by any thread, since
// `drop` makes the context current.
unsafe impl Send for PinnedBuffer {}
// SAFETY: a shared reference allows reading bytes only. Those who let the GPU write wait for it before they read.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Allocates `len` bytes, aligned to 256.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, CudaError> {
        device.make_current()?;
        let library = device.library();
        let mut pointer = ptr::null_mut();
        // SAFETY: the pointer refers to a live pointer, the flags are CUDA's, a context is current, and the size is at least 1.
        let code =
            unsafe { (library.host_allocate)(&raw mut pointer, len.max(1), PORTABLE | MAPPED) };
        device.check_allocation("cuMemHostAlloc", "page-locked", len, code)?;
        let Some(pointer) = NonNull::new(pointer.cast::<u8>()) else {
            return Err(CudaError::OutOfMemory {
                kind: "page-locked",
                requested: len,
                free: 0,
                total: 0,
            });
        };
        // SAFETY: these bytes were just allocated and have no other reference; their contents are undefined so far.
        unsafe { pointer.write_bytes(0, len) };
        let mut buffer = Self {
            pointer,
            len,
            address: 0,
            device: Arc::clone(device),
        };
        // SAFETY: the memory was allocated as mapped, and no flags are defined.
        let code =
            unsafe { (library.host_address)(&raw mut buffer.address, pointer.as_ptr().cast(), 0) };
        library.check("cuMemHostGetDevicePointer", code)?;
        Ok(buffer)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, read-only.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: allocated and zeroed by `new`, alive while `self` is; the code that lets the GPU write here ensures that
        // nothing reads meanwhile.
        unsafe { slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }

    /// The bytes, writable.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `self` is borrowed mutably, so there is no other slice of it.
        unsafe { slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }

    /// Address for the GPU.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: allocated by `new` and not freed before; the code that passed the address to the GPU waits for it.
        let _ = unsafe { (self.device.library().host_free)(self.pointer.as_ptr().cast()) };
    }
}

impl fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({} bytes)", self.len)
    }
}
