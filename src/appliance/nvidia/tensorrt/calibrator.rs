// SPDX-License-Identifier: Apache-2.0
//! Implicit INT8: the calibrator from which TensorRT 8 and 10 request images, or the result of an earlier calibration.
//!
//! It is an `IInt8EntropyCalibrator2`, the only one that DLA accepts. Generation 11 has none: there the network determines the
//! precision.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use parking_lot::Mutex;

use super::ffi_guard::no_unwind;
use super::logger::{InterfaceInfo, Table, api_language, not_deleted};
use super::object::FunctionPointer;
use super::request::ImplicitInt8;
use super::shared_object::SharedObject;
use super::version::Generation;
use crate::cuda::{CudaError, Device, DeviceBuffer, Stream};

/// Source of calibration images.
pub trait CalibrationInput {
    /// Number of images per batch, at least 1.
    fn batch_size(&self) -> usize;

    /// The next batch in the format of the network's input, `[batch_size, 3, height, width]`, normalized; `None` after the last.
    ///
    /// # Errors
    /// The reason why images cannot be read.
    fn next_batch(&mut self) -> Result<Option<&[f32]>, String>;
}

/// Memory of a batch that TensorRT can read.
pub(super) enum CalibrationMemory {
    /// GPU memory, as large as the largest batch so far.
    Device {
        stream: Stream,
        buffer: Option<DeviceBuffer>,
    },
    /// Memory of this process: sufficient when the library runs on the CPU, as test doubles do.
    Host(Vec<f32>),
}

impl CalibrationMemory {
    /// Memory of `device`, or of this process.
    pub(super) fn new(device: Option<&Arc<Device>>) -> Result<Self, CudaError> {
        match device {
            Some(device) => Ok(Self::Device {
                stream: Stream::new(device)?,
                buffer: None,
            }),
            None => Ok(Self::Host(Vec::new())),
        }
    }

    /// Copies `batch` and returns its address, which is valid until the next call.
    fn upload(&mut self, batch: &[f32]) -> Result<u64, CudaError> {
        match self {
            Self::Device { stream, buffer } => {
                let bytes = size_of_val(batch);
                let buffer = match buffer {
                    Some(buffer) if buffer.len() >= bytes => buffer,
                    _ => buffer.insert(DeviceBuffer::new(stream.device(), bytes)?),
                };
                // SAFETY: any floats are valid bytes, and bytes need no alignment.
                let (_, bytes, _) = unsafe { batch.align_to::<u8>() };
                stream.upload(bytes, buffer)?;
                Ok(buffer.address())
            }
            Self::Host(memory) => {
                memory.clear();
                memory.extend_from_slice(batch);
                Ok(memory.as_ptr().expose_provenance() as u64)
            }
        }
    }
}

/// The calibrator. Must outlive the build.
#[repr(C)]
pub(super) struct Calibrator<'c> {
    table: *const FunctionPointer,
    /// Result of an earlier calibration.
    cache: Option<Vec<u8>>,
    /// Number of images per batch.
    batch_size: i32,
    /// TensorRT calls from one thread in the known versions; nothing here relies on it.
    state: Mutex<State<'c>>,
}

struct State<'c> {
    input: Option<&'c mut dyn CalibrationInput>,
    /// Number of values per batch.
    values: usize,
    memory: CalibrationMemory,
    /// What TensorRT wrote in this build.
    new_cache: Option<Vec<u8>>,
    failed: Option<String>,
    batches: usize,
}

impl<'c> Calibrator<'c> {
    /// A calibrator whose batches have `values` values, at an address that TensorRT may store.
    pub(super) fn new(
        generation: Generation,
        implicit: ImplicitInt8<'c>,
        numbers: usize,
        memory: CalibrationMemory,
    ) -> SharedObject<Self> {
        let table = match generation {
            Generation::Eight => PLAIN.functions.as_ptr(),
            _ => VERSIONED.functions.as_ptr(),
        };
        let batch_size = implicit.images.as_ref().map_or(1, |it| it.batch_size());
        SharedObject::new(Self {
            table,
            cache: implicit.cache,
            batch_size: i32::try_from(batch_size).unwrap_or(1),
            state: Mutex::new(State {
                input: implicit.images,
                values: numbers,
                memory,
                new_cache: None,
                failed: None,
                batches: 0,
            }),
        })
    }

    /// The cache that TensorRT wrote, if it calibrated.
    pub(super) fn new_cache(&self) -> Option<Vec<u8>> {
        self.state.lock().new_cache.clone()
    }

    /// The reason why images could not be read, if so.
    pub(super) fn failed(&self) -> Option<String> {
        self.state.lock().failed.clone()
    }

    /// Number of batches that TensorRT has received.
    pub(super) fn batches(&self) -> usize {
        self.state.lock().batches
    }
}

impl State<'_> {
    fn next(&mut self) -> Result<Option<u64>, String> {
        let Some(input) = &mut self.input else {
            return Ok(None);
        };
        let Some(batch) = input.next_batch()? else {
            return Ok(None);
        };
        if batch.len() != self.values {
            return Err(format!(
                "a batch of {} numbers was given, expected {}; this is a bug in jetwatch",
                batch.len(),
                self.values
            ));
        }
        let put = self.memory.upload(batch);
        let address = put.map_err(|error| error.to_string())?;
        self.batches += 1;
        Ok(Some(address))
    }
}

/// The calibrator behind `this`.
///
/// # Safety
/// `this` is a [`Calibrator`] that is alive, as during a build.
unsafe fn calibrator<'m>(this: *const c_void) -> &'m Calibrator<'m> {
    // SAFETY: guaranteed by the caller.
    unsafe { &*this.cast::<Calibrator<'m>>() }
}

unsafe extern "C" fn info(_this: *const c_void) -> InterfaceInfo {
    InterfaceInfo {
        kind: c"IInt8EntropyCalibrator2".as_ptr(),
        major: 1,
        minor: 0,
    }
}

unsafe extern "C" fn batch_size(this: *const c_void) -> i32 {
    // SAFETY: TensorRT passes the calibrator of the running build.
    let calibrator = unsafe { calibrator(this) };
    calibrator.batch_size
}

unsafe extern "C" fn batch(
    this: *mut c_void,
    bindings: *mut *mut c_void,
    _names: *const *const c_char,
    count: i32,
) -> bool {
    // SAFETY: TensorRT passes the calibrator of the running build.
    let calibrator = unsafe { calibrator(this) };
    no_unwind("the calibrator", false, || {
        let mut state = calibrator.state.lock();
        if count != 1 {
            state.failed = Some(format!(
                "the network has {count} inputs; calibration feeds networks with one"
            ));
            return false;
        }
        match state.next() {
            Ok(Some(address)) => {
                // SAFETY: there is space for `count` addresses, and `count` is 1.
                unsafe { bindings.write(address as *mut c_void) };
                true
            }
            Ok(None) => false,
            Err(reason) => {
                state.failed = Some(reason);
                false
            }
        }
    })
}

unsafe extern "C" fn read_cache(this: *mut c_void, length: *mut usize) -> *const c_void {
    // SAFETY: TensorRT passes the calibrator of the running build.
    let calibrator = unsafe { calibrator(this) };
    no_unwind("the calibrator", std::ptr::null(), || {
        let (address, bytes) = match &calibrator.cache {
            Some(cache) => (cache.as_ptr().cast(), cache.len()),
            None => (std::ptr::null(), 0),
        };
        // SAFETY: the reference to the length is valid during the call.
        unsafe { length.write(bytes) };
        // Never written after it was made: TensorRT may read it after this call.
        address
    })
}

unsafe extern "C" fn write_cache(this: *mut c_void, cache: *const c_void, length: usize) {
    // SAFETY: TensorRT passes the calibrator of the running build.
    let calibrator = unsafe { calibrator(this) };
    no_unwind("the calibrator", (), || {
        if cache.is_null() {
            return;
        }
        // SAFETY: the cache has `length` bytes, which are valid during the call.
        let bytes = unsafe { std::slice::from_raw_parts(cache.cast::<u8>(), length) };
        calibrator.state.lock().new_cache = Some(bytes.to_vec());
    });
}

/// `kENTROPY_CALIBRATION_2`.
unsafe extern "C" fn algorithm(_this: *mut c_void) -> i32 {
    2
}

/// Generation 8: the destructors are last.
static PLAIN: Table<7> = Table::new([
    batch_size as *const c_void,
    batch as *const c_void,
    read_cache as *const c_void,
    write_cache as *const c_void,
    algorithm as *const c_void,
    not_deleted as *const c_void,
    not_deleted as *const c_void,
]);

/// Generation 10: a versioned interface.
static VERSIONED: Table<9> = Table::new([
    api_language as *const c_void,
    info as *const c_void,
    not_deleted as *const c_void,
    not_deleted as *const c_void,
    batch_size as *const c_void,
    batch as *const c_void,
    read_cache as *const c_void,
    write_cache as *const c_void,
    algorithm as *const c_void,
]);
