// SPDX-License-Identifier: Apache-2.0
//! Guards for functions that TensorRT calls: a panic must not unwind into C++.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of `callback`, or `otherwise` after a panic, which is logged.
pub(super) fn no_unwind<T>(name: &str, otherwise: T, callback: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or_else(|payload| {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        log::error!("{name}, called by TensorRT, failed: {message}; this is a bug in jetwatch");
        otherwise
    })
}

/// Copies a C string of TensorRT; empty for null.
///
/// # Safety
/// `text` is null or a zero-terminated text that is valid during the call.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and the caller guarantees the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_at_ffi_returns_fallback() {
        assert_eq!(no_unwind("a callback", 1, || 2), 2);
        assert_eq!(no_unwind("a callback", 1, || panic!("on purpose")), 1);
    }
}
