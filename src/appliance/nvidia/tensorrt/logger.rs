// SPDX-License-Identifier: Apache-2.0
//! TensorRT's logger: its messages go to jetwatch's log, and its last errors are stored for jetwatch's error texts.
//!
//! There is one per process: TensorRT uses its first logger for all objects created later.

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};

use parking_lot::{Mutex, MutexGuard};

use super::ffi_guard::{no_unwind, text};
use super::object::FunctionPointer;
use super::version::Generation;

/// Maximum number of stored errors.
const MAX_KEPT_ERRORS: usize = 32;

/// A vtable in the layout of the C++ compiler; objects point to `functions`.
#[repr(C)]
pub(super) struct Table<const N: usize> {
    offset_to_top: isize,
    type_information: FunctionPointer,
    pub(super) functions: [FunctionPointer; N],
}

// SAFETY: a vtable contains addresses of functions and null, and is never written.
unsafe impl<const N: usize> Sync for Table<N> {}

impl<const N: usize> Table<N> {
    pub(super) const fn new(functions: [FunctionPointer; N]) -> Self {
        Self {
            offset_to_top: 0,
            type_information: std::ptr::null(),
            functions,
        }
    }
}

/// Return value of `getInterfaceInfo`: the interface that an object implements, and its version.
#[repr(C)]
pub(super) struct InterfaceInfo {
    pub(super) kind: *const c_char,
    pub(super) major: i32,
    pub(super) minor: i32,
}

/// `getAPILanguage` of all objects here: 0 is C++.
pub(super) unsafe extern "C" fn api_language(_this: *const c_void) -> i32 {
    0
}

/// Destructor of objects that TensorRT must not delete.
pub(super) unsafe extern "C" fn not_deleted(_this: *mut c_void) {}

unsafe extern "C" fn logger_info(_this: *const c_void) -> InterfaceInfo {
    InterfaceInfo {
        kind: c"ILogger".as_ptr(),
        major: 1,
        minor: 0,
    }
}

unsafe extern "C" fn log_line(_this: *mut c_void, severity: i32, message: *const c_char) {
    no_unwind("the logger", (), || {
        // SAFETY: TensorRT passes a zero-terminated text that is valid during the call.
        let message = unsafe { text(message) };
        record(severity, message.trim_end());
    });
}

/// Up to generation 10: a plain class.
static PLAIN: Table<3> = Table::new([
    log_line as *const c_void,
    not_deleted as *const c_void,
    not_deleted as *const c_void,
]);

/// Since generation 11: a versioned interface, whose methods come first.
static VERSIONED: Table<5> = Table::new([
    api_language as *const c_void,
    logger_info as *const c_void,
    not_deleted as *const c_void,
    not_deleted as *const c_void,
    log_line as *const c_void,
]);

/// A logger without state.
#[repr(C)]
struct Logger {
    table: *const FunctionPointer,
}

// SAFETY: it has no state, and its vtable is never written.
unsafe impl Sync for Logger {}

static PLAIN_LOGGER: Logger = Logger {
    table: PLAIN.functions.as_ptr(),
};
static VERSIONED_LOGGER: Logger = Logger {
    table: VERSIONED.functions.as_ptr(),
};

/// The logger in the layout of `generation`.
pub(super) fn logger(generation: Generation) -> *mut c_void {
    let logger = match generation {
        Generation::Eight | Generation::Ten => &PLAIN_LOGGER,
        Generation::Eleven | Generation::Rtx => &VERSIONED_LOGGER,
    };
    std::ptr::from_ref(logger).cast_mut().cast()
}

/// TensorRT's errors with running numbers.
#[derive(Default)]
struct Errors {
    next: u64,
    last: VecDeque<(u64, String)>,
}

static ERRORS: Mutex<Errors> = Mutex::new(Errors {
    next: 0,
    last: VecDeque::new(),
});

fn errors() -> MutexGuard<'static, Errors> {
    ERRORS.lock()
}

/// Severities: 0 internal error, 1 error, 2 warning, 3 information, 4 and more verbose.
fn record(severity: i32, message: &str) {
    let level = match severity {
        0 | 1 => log::Level::Error,
        2 => log::Level::Warn,
        // TensorRT's information messages are useful for debugging only.
        3 => log::Level::Debug,
        _ => log::Level::Trace,
    };
    if level == log::Level::Error {
        let mut errors = errors();
        let number = errors.next;
        errors.next += 1;
        if errors.last.len() == MAX_KEPT_ERRORS {
            errors.last.pop_front();
        }
        errors.last.push_back((number, message.to_owned()));
    }
    log::log!(target: "tensorrt", level, "{message}");
}

/// A position in the sequence of errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(u64);

/// The current position.
pub(super) fn mark() -> Mark {
    Mark(errors().next)
}

/// Errors logged since `mark`, by any thread.
pub(super) fn errors_since(mark: Mark) -> Vec<String> {
    let errors = errors();
    let since = errors.last.iter().filter(|(number, _)| *number >= mark.0);
    since.map(|(_, message)| message.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls the logger as C++ does: through the table that the object begins with.
    fn log_message(generation: Generation, slot: usize, severity: i32, message: &std::ffi::CStr) {
        let logger = logger(generation);
        // SAFETY: the object begins with its vtable pointer, and `log` has this slot.
        let function = unsafe {
            logger
                .cast::<*const FunctionPointer>()
                .read()
                .add(slot)
                .read()
        };
        // SAFETY: this is the signature of `ILogger::log`.
        let log: unsafe extern "C" fn(*mut c_void, i32, *const c_char) =
            unsafe { std::mem::transmute(function) };
        // SAFETY: the text is zero-terminated.
        unsafe { log(logger, severity, message.as_ptr()) };
    }

    #[test]
    fn errors_since_marker_are_kept_and_others_logged() {
        for (generation, slot) in [
            (Generation::Eight, 0),
            (Generation::Ten, 0),
            (Generation::Eleven, 4),
            (Generation::Rtx, 4),
        ] {
            log_message(generation, slot, 1, c"before");
            let mark = mark();
            log_message(generation, slot, 2, c"a warning");
            log_message(generation, slot, 0, c"first\n");
            log_message(generation, slot, 1, c"second");
            let errors: Vec<String> = errors_since(mark)
                .into_iter()
                .filter(|text| ["first", "second", "a warning", "before"].contains(&text.as_str()))
                .collect();
            assert_eq!(errors, ["first", "second"]);
        }
    }

    #[test]
    fn only_the_last_errors_are_kept() {
        let mark = mark();
        for _ in 0..2 * MAX_KEPT_ERRORS {
            record(1, "again");
        }
        assert!(errors_since(mark).len() <= MAX_KEPT_ERRORS);
    }

    #[test]
    fn a_versioned_logger_reports_its_interface() {
        let logger = logger(Generation::Eleven);
        // SAFETY: the object begins with its vtable pointer, and `getInterfaceInfo` has slot 1.
        let function = unsafe { logger.cast::<*const FunctionPointer>().read().add(1).read() };
        // SAFETY: this is the signature of `getInterfaceInfo`.
        let info: unsafe extern "C" fn(*const c_void) -> InterfaceInfo =
            unsafe { std::mem::transmute(function) };
        // SAFETY: its only parameter is the object.
        let info = unsafe { info(logger) };
        // SAFETY: the kind is a static text of this file.
        assert_eq!(unsafe { text(info.kind) }, "ILogger");
        assert_eq!((info.major, info.minor), (1, 0));
    }
}
