//! Memory of the GPU, and memory of the host that the GPU reaches.

use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use super::{CudaError, Device};

// Flags of cuMemHostAlloc.
const PORTABLE: u32 = 1;
const MAPPED: u32 = 2;

/// Memory of the GPU. What is in it at first is unknown.
pub struct DeviceBuffer {
    address: u64,
    len: usize,
    /// Dropped last: the memory lives in its context.
    device: Arc<Device>,
}

impl DeviceBuffer {
    /// `len` bytes, at an address that is a multiple of 256.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, CudaError> {
        device.make_current()?;
        let mut address = 0;
        // SAFETY: the pointer is to a live integer and a context is current; CUDA refuses 0 bytes, so it is 1 at least.
        let code = unsafe { (device.library().memory_allocate)(&raw mut address, len.max(1)) };
        device.check_allocation("cuMemAlloc", "GPU", len, code)?;
        Ok(Self {
            address,
            len,
            device: Arc::clone(device),
        })
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lies in the GPU's memory.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: allocated by `new` and not freed before; the code that gave the address to the GPU waits for it.
        let _ = unsafe { (self.device.library().memory_free)(self.address) };
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({} bytes)", self.len)
    }
}

/// Page-locked memory of the host, zero at first. The GPU copies from and to it without the CPU's help, and an integrated
/// GPU also reads it in place.
pub struct PinnedBuffer {
    pointer: NonNull<u8>,
    len: usize,
    /// Where the GPU sees the memory.
    address: u64,
    /// Dropped last: the memory lives in its context.
    device: Arc<Device>,
}

// SAFETY: it is plain memory with one owner.
unsafe impl Send for PinnedBuffer {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// `len` bytes, at an address that is a multiple of 256.
    pub fn new(device: &Arc<Device>, len: usize) -> Result<Self, CudaError> {
        device.make_current()?;
        let library = device.library();
        let mut pointer = ptr::null_mut();
        // SAFETY: the pointer is to a live pointer, the flags are CUDA's, a context is current, and it is 1 byte at least.
        let code =
            unsafe { (library.host_allocate)(&raw mut pointer, len.max(1), PORTABLE | MAPPED) };
        device.check_allocation("cuMemHostAlloc", "page-locked", len, code)?;
        let Some(pointer) = NonNull::new(pointer.cast::<u8>()) else {
            return Err(CudaError::OutOfMemory {
                kind: "page-locked",
                asked: len,
                free: 0,
                total: 0,
            });
        };
        // SAFETY: these bytes were just allocated and have no other reference; CUDA does not define their contents.
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

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: allocated and set to zero by `new`, alive while `self` is; the code that lets the GPU write here
        // guarantees that nothing reads meanwhile.
        unsafe { slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `self` is borrowed for writing, so there is no other slice of it.
        unsafe { slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }

    /// Where the GPU sees the memory.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: allocated by `new` and not freed before; the code that gave the address to the GPU waits for it.
        let _ = unsafe { (self.device.library().host_free)(self.pointer.as_ptr().cast()) };
    }
}

impl fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({} bytes)", self.len)
    }
}
