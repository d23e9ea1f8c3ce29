//! Implicit INT8: the calibrator that TensorRT 8 and 10 ask for pictures, and for the result of an earlier calibration.
//!
//! It is an `IInt8EntropyCalibrator2`, the only one that DLA takes. Generation 11 has none: there precision is in the network.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::ffi_guard::no_unwind;
use super::logger::{InterfaceInfo, Table, api_language, not_deleted};
use super::object::FunctionPointer;
use super::request::ImplicitInt8;
use super::version::Generation;
use crate::cuda::{CudaError, Device, DeviceBuffer, Stream};

/// Pictures to calibrate with.
pub trait CalibrationInput {
    /// Pictures in one batch, at least 1.
    fn batch_size(&self) -> usize;

    /// The next batch as the network's input wants it, `[batch_size, 3, height, width]`, normalized; `None` after the last.
    fn next_batch(&mut self) -> Result<Option<&[f32]>, String>;
}

/// Where a batch lies so that TensorRT can read it.
pub(super) enum CalibrationMemory {
    /// Memory of the GPU, as large as the largest batch so far.
    Device {
        stream: Stream,
        buffer: Option<DeviceBuffer>,
    },
    /// The memory of this process: enough where the library runs on the CPU, as test doubles do.
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

    /// Copies `batch` there and gives the address, good until the next call.
    fn upload(&mut self, batch: &[f32]) -> Result<u64, CudaError> {
        match self {
            Self::Device { stream, buffer } => {
                let bytes = size_of_val(batch);
                let buffer = match buffer {
                    Some(buffer) if buffer.len() >= bytes => buffer,
                    _ => buffer.insert(DeviceBuffer::new(stream.device(), bytes)?),
                };
                // SAFETY: any floats are bytes, and bytes may lie anywhere.
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

/// The calibrator. It must live longer than the build.
#[repr(C)]
pub(super) struct Calibrator<'c> {
    table: *const FunctionPointer,
    input: Option<&'c mut dyn CalibrationInput>,
    /// Numbers in one batch.
    values: usize,
    memory: CalibrationMemory,
    /// What an earlier calibration gave, or this one.
    cache: Option<Vec<u8>>,
    /// Whether TensorRT wrote a cache.
    is_new: bool,
    failed: Option<String>,
    batches: usize,
}

impl<'c> Calibrator<'c> {
    /// A calibrator whose batches have `values` numbers.
    pub(super) fn new(
        generation: Generation,
        implicit: ImplicitInt8<'c>,
        numbers: usize,
        memory: CalibrationMemory,
    ) -> Box<Self> {
        let table = match generation {
            Generation::Eight => PLAIN.functions.as_ptr(),
            _ => VERSIONED.functions.as_ptr(),
        };
        Box::new(Self {
            table,
            input: implicit.images,
            values: numbers,
            memory,
            cache: implicit.cache,
            is_new: false,
            failed: None,
            batches: 0,
        })
    }

    pub(super) fn pointer(&mut self) -> *mut c_void {
        std::ptr::from_mut(self).cast()
    }

    /// The cache that TensorRT wrote, if it calibrated.
    pub(super) fn new_cache(&self) -> Option<&[u8]> {
        self.cache.as_deref().filter(|_| self.is_new)
    }

    /// Why the pictures could not be had.
    pub(super) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Batches that were handed over.
    pub(super) fn batches(&self) -> usize {
        self.batches
    }

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
/// `this` is a [`Calibrator`] that is alive and used by nobody else, as it is while a build runs: TensorRT calls it from one thread.
unsafe fn calibrator<'m>(this: *const c_void) -> &'m mut Calibrator<'m> {
    // SAFETY: what the caller vouches for.
    unsafe { &mut *this.cast_mut().cast::<Calibrator<'m>>() }
}

unsafe extern "C" fn info(_this: *const c_void) -> InterfaceInfo {
    InterfaceInfo {
        kind: c"IInt8EntropyCalibrator2".as_ptr(),
        major: 1,
        minor: 0,
    }
}

unsafe extern "C" fn batch_size(this: *const c_void) -> i32 {
    // SAFETY: TensorRT passes the calibrator of the build that runs.
    let calibrator = unsafe { calibrator(this) };
    no_unwind("the calibrator", 1, || {
        let size = calibrator
            .input
            .as_ref()
            .map_or(1, |input| input.batch_size());
        i32::try_from(size).unwrap_or(1)
    })
}

unsafe extern "C" fn batch(
    this: *mut c_void,
    bindings: *mut *mut c_void,
    _names: *const *const c_char,
    count: i32,
) -> bool {
    // SAFETY: TensorRT passes the calibrator of the build that runs.
    let calibrator = unsafe { calibrator(this) };
    no_unwind("the calibrator", false, || {
        if count != 1 {
            calibrator.failed = Some(format!(
                "the network has {count} inputs; calibration feeds networks with one"
            ));
            return false;
        }
        match calibrator.next() {
            Ok(Some(address)) => {
                // SAFETY: there is room for `count` addresses, which is 1.
                unsafe { bindings.write(address as *mut c_void) };
                true
            }
            Ok(None) => false,
            Err(reason) => {
                calibrator.failed = Some(reason);
                false
            }
        }
    })
}

unsafe extern "C" fn read_cache(this: *mut c_void, length: *mut usize) -> *const c_void {
    // SAFETY: TensorRT passes the calibrator of the build that runs.
    let calibrator = unsafe { calibrator(this) };
    no_unwind("the calibrator", std::ptr::null(), || {
        let (address, bytes) = match &calibrator.cache {
            Some(cache) => (cache.as_ptr().cast(), cache.len()),
            None => (std::ptr::null(), 0),
        };
        // SAFETY: the reference to the length is good through the call.
        unsafe { length.write(bytes) };
        address
    })
}

unsafe extern "C" fn write_cache(this: *mut c_void, cache: *const c_void, length: usize) {
    // SAFETY: TensorRT passes the calibrator of the build that runs.
    let calibrator = unsafe { calibrator(this) };
    no_unwind("the calibrator", (), || {
        if cache.is_null() {
            return;
        }
        // SAFETY: TensorRT lends `length` bytes for the time of the call.
        let bytes = unsafe { std::slice::from_raw_parts(cache.cast::<u8>(), length) };
        calibrator.cache = Some(bytes.to_vec());
        calibrator.is_new = true;
    });
}

/// `kENTROPY_CALIBRATION_2`.
unsafe extern "C" fn algorithm(_this: *mut c_void) -> i32 {
    2
}

/// Generation 8: the destructors come last.
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
