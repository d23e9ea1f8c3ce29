// SPDX-License-Identifier: Apache-2.0
//! Values of jetwatch whose address C++ keeps and calls.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;

/// A value on the heap that is only ever read through shared references.
///
/// In place of a `Box`: moving a `Box` asserts that nothing else points to its value, which would make the pointer that C++ has
/// unusable under Rust's aliasing rules.
#[derive(Debug)]
pub(super) struct SharedObject<T> {
    /// From `Box::into_raw`, and given back in `drop`.
    value: NonNull<T>,
}

// SAFETY: it owns its value, which may be sent to another thread and, since C++ may go on using it there, be shared.
unsafe impl<T: Send + Sync> Send for SharedObject<T> {}
// SAFETY: a shared reference gives shared references to the value only.
unsafe impl<T: Sync> Sync for SharedObject<T> {}

impl<T> SharedObject<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            value: NonNull::from(Box::leak(Box::new(value))),
        }
    }

    /// The address for C++, valid while `self` lives. It is good for shared references to the value.
    pub(super) fn pointer(&self) -> *mut c_void {
        self.value.as_ptr().cast()
    }
}

impl<T> Deref for SharedObject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as `self`, and nothing makes a mutable reference to it.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for SharedObject<T> {
    fn drop(&mut self) {
        // SAFETY: made from a `Box` in `new`, and freed here only; those who passed the pointer on have ended its use.
        drop(unsafe { Box::from_raw(self.value.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn pointers_stay_valid_when_the_object_moves_and_the_value_is_freed_once() {
        let counter = Arc::new(AtomicU32::new(0));
        let object = SharedObject::new(Arc::clone(&counter));
        let pointer = object.pointer();
        let moved = Some(Box::new(object));
        // SAFETY: the value is alive, and has this type.
        let seen = unsafe { &*pointer.cast::<Arc<AtomicU32>>() };
        seen.fetch_add(1, Ordering::Relaxed);
        assert_eq!(counter.load(Ordering::Relaxed), 1);
        assert_eq!(Arc::strong_count(&counter), 2);
        drop(moved);
        assert_eq!(Arc::strong_count(&counter), 1);
    }
}
