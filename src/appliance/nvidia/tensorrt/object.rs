// SPDX-License-Identifier: Apache-2.0
//! C++ objects of TensorRT: calls of their methods, and their destruction.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use super::error::TensorRtError;
use super::library::Library;
use super::method::Method;

/// A function pointer in a vtable.
pub(super) type FunctionPointer = *const c_void;

/// Slot of the deleting destructor in an object's own vtable, for classes whose destructor is declared first.
const DELETE: usize = 1;

/// Lowest address at which a Linux process can have objects.
const MIN_ADDRESS: usize = 4096;

/// A C++ object created by TensorRT, and the library that contains its code.
#[derive(Debug)]
pub(super) struct Object {
    this: NonNull<c_void>,
    /// Slot of the deleting destructor; `None` when another object owns it.
    delete: Option<usize>,
    pub(super) library: Arc<Library>,
}

// SAFETY: NVIDIA documents which objects may be used from several threads at once; all of them may be sent to another thread,
// since none is bound to the thread that created it. The types that own objects decide about sharing.
unsafe impl Send for Object {}

impl Object {
    /// Takes ownership of `this`; `None` when it is null, or a null pointer with a small offset.
    ///
    /// # Safety
    /// `this` is null, or an object of a TensorRT class with its own vtable and an implementation at byte 8, created by
    /// `library`, which nothing else deletes.
    pub(super) unsafe fn owned(this: *mut c_void, library: &Arc<Library>) -> Option<Self> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::with_destructor(this, library, Some(DELETE)) }
    }

    /// Like [`owned`](Self::owned) for an object that belongs to another one, which lives longer.
    ///
    /// # Safety
    /// As for [`owned`](Self::owned), but another owner deletes the object, not before this is dropped.
    pub(super) unsafe fn borrowed(this: *mut c_void, library: &Arc<Library>) -> Option<Self> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::with_destructor(this, library, None) }
    }

    /// Like [`owned`](Self::owned), with the slot of the deleting destructor.
    ///
    /// # Safety
    /// As for [`owned`](Self::owned), and `delete` is that slot in the object's own vtable.
    pub(super) unsafe fn with_destructor(
        this: *mut c_void,
        library: &Arc<Library>,
        delete: Option<usize>,
    ) -> Option<Self> {
        // When it creates no runtime, the lean runtime 11.4 returns 0x228: null, cast to one of its base classes.
        let this = NonNull::new(this).filter(|this| this.as_ptr() as usize >= MIN_ADDRESS)?;
        Some(Self {
            this,
            delete,
            library: Arc::clone(library),
        })
    }

    /// The object's address, as an argument of other methods.
    pub(super) fn pointer(&self) -> *mut c_void {
        self.this.as_ptr()
    }

    /// The implementation and the address of `method` in its vtable.
    pub(super) fn method(
        &self,
        method: &Method,
    ) -> Result<(*mut c_void, FunctionPointer), TensorRtError> {
        let slot = self.library.slot(method)?;
        let fields = self.this.as_ptr().cast::<*mut c_void>();
        // SAFETY: every public class has the pointer to its implementation at byte 8, after the pointer to its own vtable.
        let implementation = unsafe { fields.add(1).read() };
        // SAFETY: an implementation begins with its vtable pointer; the slot is valid for this version, by the tables.
        let function = unsafe { table(implementation).add(slot).read() };
        Ok((implementation, function))
    }

    /// The object and the address at `slot` of its own vtable, for plain classes without implementation.
    pub(super) fn own(&self, slot: usize) -> (*mut c_void, FunctionPointer) {
        let this = self.this.as_ptr();
        // SAFETY: the object begins with its vtable pointer; `slot` is valid for this generation, by the tables.
        let function = unsafe { table(this).add(slot).read() };
        (this, function)
    }

    /// Whether this version has `method`.
    pub(super) fn has(&self, method: &Method) -> bool {
        self.library.slot(method).is_ok()
    }
}

/// The vtable of an object.
///
/// # Safety
/// `object` is a C++ object with virtual methods.
unsafe fn table(object: *mut c_void) -> *const FunctionPointer {
    // SAFETY: such an object begins with its vtable pointer.
    unsafe { object.cast::<*const FunctionPointer>().read() }
}

impl Drop for Object {
    fn drop(&mut self) {
        let Some(slot) = self.delete else { return };
        let (this, function) = self.own(slot);
        // SAFETY: the deleting destructor takes the object and returns nothing.
        let delete: unsafe extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(function) };
        // SAFETY: the object is alive, and only this owns it.
        unsafe { delete(this) };
    }
}

/// Calls a method of an object's implementation: `call!(object, METHOD, (kinds) -> result, values…)`. An expression of type
/// `Result<result, TensorRtError>`; the error is that this version does not have the method.
macro_rules! call {
    ($object:expr, $method:expr, ($($kind:ty),*) -> $back:ty $(, $value:expr)*) => {
        $object.method(&$method).map(|(this, function)| {
            // SAFETY: the slot's function has this signature in all versions for which the tables have a slot.
            let function: unsafe extern "C" fn(*mut std::ffi::c_void $(, $kind)*) -> $back = unsafe { std::mem::transmute(function) };
            // SAFETY: the object is alive, and pointers among the values are valid during the call.
            unsafe { function(this $(, $value)*) }
        })
    };
}

pub(super) use call;
