// SPDX-License-Identifier: Apache-2.0
//! Reads the process's own memory through the kernel.
//!
//! An address from a structure whose layout may differ is not dereferenced: the kernel copies from it, or returns an error. That
//! costs one system call per buffer of a pool.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::io;

#[repr(C)]
struct MemoryRange {
    address: *mut c_void,
    bytes: usize,
}

unsafe extern "C" {
    // Of the C library, since glibc 2.15; its documentation gives this signature.
    fn process_vm_readv(
        process: c_int,
        to: *const MemoryRange,
        to_count: c_ulong,
        from: *const MemoryRange,
        from_count: c_ulong,
        flags: c_ulong,
    ) -> c_long;
}

/// Fills `into` with the bytes at `address`.
///
/// # Errors
/// Not all of them are readable, or the kernel forbids the call.
pub(super) fn read(address: u64, into: &mut [u8]) -> io::Result<()> {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let to = MemoryRange {
        address: into.as_mut_ptr().cast(),
        bytes: into.len(),
    };
    let from = MemoryRange {
        address: address as *mut c_void,
        bytes: into.len(),
    };
    // SAFETY: `to` is memory that is borrowed mutably; the kernel checks whether `from` is readable.
    let count = unsafe { process_vm_readv(process, &raw const to, 1, &raw const from, 1, 0) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    if count as usize != into.len() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_read_returns_memory_or_error() {
        let numbers = [7_u8, 8, 9];
        let mut read_back = [0; 3];
        read(numbers.as_ptr() as u64, &mut read_back).expect("it is there");
        assert_eq!(read_back, numbers);
        for nowhere in [0, 8, 0xdead_beef_0000, u64::MAX - 7] {
            assert!(read(nowhere, &mut read_back).is_err(), "{nowhere:#x}");
        }
    }
}
