// SPDX-License-Identifier: Apache-2.0
//! Error recorder for TensorRT's objects, so that error texts contain TensorRT's own messages.

use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::ffi_guard::{no_unwind, text};
use super::logger::{InterfaceInfo, Mark, Table, api_language, errors_since, mark, not_deleted};
use super::object::FunctionPointer;
use super::shared_object::SharedObject;
use super::version::Generation;

/// Maximum number of stored errors; more only set the overflow flag.
const MAX_ENTRIES: usize = 64;

/// An `IErrorRecorder`. Must outlive the objects that use it.
#[repr(C)]
pub(super) struct Recorder {
    table: *const FunctionPointer,
    references: AtomicI32,
    entries: Mutex<Entries>,
    /// Texts whose address TensorRT has: kept for as long as the recorder, because another worker may clear the entries while
    /// TensorRT reads one.
    lent: Mutex<BTreeSet<CString>>,
    since: Mutex<Mark>,
}

#[derive(Default)]
struct Entries {
    list: Vec<(i32, CString)>,
    overflowed: bool,
}

// SAFETY: `table` points to a static vtable, which is never written and is the same in every thread; all other fields are `Send`.
unsafe impl Send for Recorder {}
// SAFETY: as above; all other fields are behind a lock or atomic, so that C++ may call from several threads at once.
unsafe impl Sync for Recorder {}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let left = self.references.load(Ordering::Acquire);
        if left != 0 {
            log::debug!(left; "TensorRT still holds a reference to a released error recorder");
        }
    }
}

impl Recorder {
    /// A recorder for objects of `generation`, at an address that TensorRT may store.
    pub(super) fn new(generation: Generation) -> SharedObject<Self> {
        let table = match generation {
            Generation::Eight => PLAIN.functions.as_ptr(),
            _ => VERSIONED.functions.as_ptr(),
        };
        SharedObject::new(Self {
            table,
            references: AtomicI32::new(0),
            entries: Mutex::default(),
            lent: Mutex::default(),
            since: Mutex::new(mark()),
        })
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Removes all recorded errors, before a call whose errors are to be reported.
    pub(super) fn clear(&self) {
        *self.entries() = Entries::default();
        *self.since.lock() = mark();
    }

    /// All errors recorded and logged since the last [`clear`](Self::clear), in one sentence.
    ///
    /// The recorder receives at most 127 characters of a message, the log the whole; the longer one is used.
    pub(super) fn summary(&self) -> String {
        let since = *self.since.lock();
        let mut messages = errors_since(since);
        for (code, message) in &self.entries().list {
            let message = message.to_string_lossy();
            if !messages.iter().any(|line| line.contains(message.as_ref())) {
                messages.push(format!("{message} ({})", name_of(*code)));
            }
        }
        messages.dedup();
        if messages.is_empty() {
            return "TensorRT reported no reason".to_owned();
        }
        messages.join("; ")
    }
}

/// TensorRT's `ErrorCode` as text.
fn name_of(code: i32) -> String {
    let name = match code {
        0 => "success",
        1 => "unspecified error",
        2 => "internal error",
        3 => "invalid argument",
        4 => "invalid config",
        5 => "failed allocation",
        6 => "failed initialization",
        7 => "failed execution",
        8 => "failed computation",
        9 => "invalid state",
        10 => "unsupported state",
        other => return format!("error code {other}"),
    };
    name.to_owned()
}

/// The recorder behind `this`.
///
/// # Safety
/// `this` is a [`Recorder`] that is alive, as while a TensorRT object uses it.
unsafe fn recorder<'r>(this: *const c_void) -> &'r Recorder {
    // SAFETY: guaranteed by the caller.
    unsafe { &*this.cast::<Recorder>() }
}

unsafe extern "C" fn info(_this: *const c_void) -> InterfaceInfo {
    InterfaceInfo {
        kind: c"IErrorRecorder".as_ptr(),
        major: 1,
        minor: 0,
    }
}

unsafe extern "C" fn count(this: *const c_void) -> i32 {
    // SAFETY: TensorRT passes its recorder.
    let recorder = unsafe { recorder(this) };
    no_unwind("the error recorder", 0, || {
        recorder.entries().list.len() as i32
    })
}

unsafe extern "C" fn code(this: *const c_void, index: i32) -> i32 {
    // SAFETY: TensorRT passes its recorder.
    let recorder = unsafe { recorder(this) };
    no_unwind("the error recorder", 0, || {
        let entries = recorder.entries();
        let entry = usize::try_from(index)
            .ok()
            .and_then(|at| entries.list.get(at));
        entry.map_or(0, |(code, _)| *code)
    })
}

unsafe extern "C" fn description(this: *const c_void, index: i32) -> *const c_char {
    // SAFETY: TensorRT passes its recorder.
    let recorder = unsafe { recorder(this) };
    no_unwind("the error recorder", c"".as_ptr(), || {
        let entries = recorder.entries();
        let entry = usize::try_from(index)
            .ok()
            .and_then(|at| entries.list.get(at));
        let Some((_, message)) = entry else {
            return c"".as_ptr();
        };
        let mut lent = recorder.lent.lock();
        if !lent.contains(message) {
            lent.insert(message.clone());
        }
        lent.get(message).map_or(c"".as_ptr(), |text| text.as_ptr())
    })
}

unsafe extern "C" fn overflowed(this: *const c_void) -> bool {
    // SAFETY: TensorRT passes its recorder.
    let recorder = unsafe { recorder(this) };
    no_unwind("the error recorder", false, || {
        recorder.entries().overflowed
    })
}

unsafe extern "C" fn clear(this: *mut c_void) {
    // SAFETY: TensorRT passes its recorder.
    let recorder = unsafe { recorder(this) };
    no_unwind("the error recorder", (), || {
        *recorder.entries() = Entries::default();
    });
}

/// Returns whether TensorRT must abort because of the error: never, it decides itself.
unsafe extern "C" fn report(this: *mut c_void, code: i32, message: *const c_char) -> bool {
    // SAFETY: TensorRT passes its recorder.
    let recorder = unsafe { recorder(this) };
    no_unwind("the error recorder", false, || {
        // SAFETY: TensorRT passes a zero-terminated text that is valid during the call.
        let message = unsafe { text(message) };
        let mut entries = recorder.entries();
        if entries.list.len() == MAX_ENTRIES {
            entries.overflowed = true;
        } else if let Ok(message) = CString::new(message) {
            entries.list.push((code, message));
        }
        false
    })
}

unsafe extern "C" fn reference(this: *mut c_void) -> i32 {
    // SAFETY: TensorRT passes its recorder.
    let recorder = unsafe { recorder(this) };
    recorder.references.fetch_add(1, Ordering::AcqRel) + 1
}

unsafe extern "C" fn release(this: *mut c_void) -> i32 {
    // SAFETY: TensorRT passes its recorder.
    let recorder = unsafe { recorder(this) };
    recorder.references.fetch_sub(1, Ordering::AcqRel) - 1
}

/// Generation 8: the destructors come first.
static PLAIN: Table<10> = Table::new([
    not_deleted as *const c_void,
    not_deleted as *const c_void,
    count as *const c_void,
    code as *const c_void,
    description as *const c_void,
    overflowed as *const c_void,
    clear as *const c_void,
    report as *const c_void,
    reference as *const c_void,
    release as *const c_void,
]);

/// Since generation 10: the methods of a versioned interface come first.
static VERSIONED: Table<12> = Table::new([
    api_language as *const c_void,
    info as *const c_void,
    not_deleted as *const c_void,
    not_deleted as *const c_void,
    count as *const c_void,
    code as *const c_void,
    description as *const c_void,
    overflowed as *const c_void,
    clear as *const c_void,
    report as *const c_void,
    reference as *const c_void,
    release as *const c_void,
]);

#[cfg(test)]
mod tests {
    use super::*;

    /// The function at `slot` of the recorder's table, as C++ finds it.
    fn function(recorder: &Recorder, slot: usize) -> FunctionPointer {
        // SAFETY: the slot is within the table.
        unsafe { recorder.table.add(slot).read() }
    }

    #[test]
    fn reported_errors_are_joined() {
        for (generation, first) in [(Generation::Eight, 2), (Generation::Ten, 4)] {
            let recorder = Recorder::new(generation);
            recorder.clear();
            // SAFETY: this is the signature of `reportError`.
            let report: unsafe extern "C" fn(*mut c_void, i32, *const c_char) -> bool =
                unsafe { std::mem::transmute(function(&recorder, first + 5)) };
            for _ in 0..=MAX_ENTRIES {
                // SAFETY: the recorder is alive and the text zero-terminated.
                let ends = unsafe { report(recorder.pointer(), 5, c"no memory".as_ptr()) };
                assert!(!ends);
            }
            // SAFETY: this is the signature of `getNbErrors`.
            let count: unsafe extern "C" fn(*const c_void) -> i32 =
                unsafe { std::mem::transmute(function(&recorder, first)) };
            // SAFETY: the recorder is alive.
            assert_eq!(unsafe { count(recorder.pointer()) }, MAX_ENTRIES as i32);
            // SAFETY: this is the signature of `getErrorDesc`.
            let description: unsafe extern "C" fn(*const c_void, i32) -> *const c_char =
                unsafe { std::mem::transmute(function(&recorder, first + 2)) };
            // SAFETY: the recorder is alive.
            let lent = unsafe { description(recorder.pointer(), 3) };
            // SAFETY: this is the signature of `hasOverflowed`.
            let overflowed: unsafe extern "C" fn(*const c_void) -> bool =
                unsafe { std::mem::transmute(function(&recorder, first + 3)) };
            // SAFETY: the recorder is alive.
            assert!(unsafe { overflowed(recorder.pointer()) });
            for (slot, expected) in [(6, 1), (6, 2), (7, 1), (7, 0)] {
                // SAFETY: this is the signature of `incRefCount` and `decRefCount`.
                let count: unsafe extern "C" fn(*mut c_void) -> i32 =
                    unsafe { std::mem::transmute(function(&recorder, first + slot)) };
                // SAFETY: the recorder is alive.
                assert_eq!(unsafe { count(recorder.pointer()) }, expected);
            }
            assert!(recorder.summary().contains("no memory (failed allocation)"));
            recorder.clear();
            assert!(!recorder.summary().contains("no memory"));
            // SAFETY: a text that was given out lives as long as the recorder.
            assert_eq!(unsafe { std::ffi::CStr::from_ptr(lent) }, c"no memory");
        }
    }
}
