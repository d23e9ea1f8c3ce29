//! C++ objects of TensorRT: how their methods are called and how they end.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use super::error::TensorRtError;
use super::library::Library;
use super::method::Method;

/// A function pointer out of a table of virtual methods.
pub(super) type FunctionPointer = *const c_void;

/// Slot of the deleting destructor in an object's own table, for classes whose destructor is declared first.
const DELETE: usize = 1;

/// Nothing lies below this address in a Linux process.
const MIN_ADDRESS: usize = 4096;

/// A C++ object that TensorRT made, together with the library whose code it runs.
#[derive(Debug)]
pub(super) struct Object {
    this: NonNull<c_void>,
    /// Slot of the deleting destructor; `None` for what belongs to another object.
    delete: Option<usize>,
    pub(super) library: Arc<Library>,
}

// SAFETY: NVIDIA documents which objects may be used from several threads at once; sending one to another thread is allowed
// for all of them, since none is bound to the thread that made it. Sharing is decided by the types that own objects.
unsafe impl Send for Object {}

impl Object {
    /// Takes over `this`; `None` when it is null, or so near to it that it was null.
    ///
    /// # Safety
    /// `this` is null, or an object of a TensorRT class with an own table and an implementation at byte 8, made by `library`, which nobody
    /// else will delete.
    pub(super) unsafe fn owned(this: *mut c_void, library: &Arc<Library>) -> Option<Self> {
        // SAFETY: what the caller vouches for.
        unsafe { Self::with_destructor(this, library, Some(DELETE)) }
    }

    /// Like [`owned`](Self::owned) for an object that belongs to another one, which lives longer.
    ///
    /// # Safety
    /// As for [`owned`](Self::owned), but somebody else deletes the object, and not before this is gone.
    pub(super) unsafe fn borrowed(this: *mut c_void, library: &Arc<Library>) -> Option<Self> {
        // SAFETY: what the caller vouches for.
        unsafe { Self::with_destructor(this, library, None) }
    }

    /// Like [`owned`](Self::owned), with the slot of the deleting destructor.
    ///
    /// # Safety
    /// As for [`owned`](Self::owned), and `delete` is that slot in the object's own table.
    pub(super) unsafe fn with_destructor(
        this: *mut c_void,
        library: &Arc<Library>,
        delete: Option<usize>,
    ) -> Option<Self> {
        // The lean runtime 11.4 gives 0x228 for a runtime that it did not make: null, moved to one of its base classes.
        let this = NonNull::new(this).filter(|this| this.as_ptr() as usize >= MIN_ADDRESS)?;
        Some(Self {
            this,
            delete,
            library: Arc::clone(library),
        })
    }

    /// The object itself, as other methods take it.
    pub(super) fn pointer(&self) -> *mut c_void {
        self.this.as_ptr()
    }

    /// The implementation and the address of `method` in its table.
    pub(super) fn method(
        &self,
        method: &Method,
    ) -> Result<(*mut c_void, FunctionPointer), TensorRtError> {
        let slot = self.library.slot(method)?;
        let fields = self.this.as_ptr().cast::<*mut c_void>();
        // SAFETY: every public class has the pointer to its implementation at byte 8, right after its own table.
        let implementation = unsafe { fields.add(1).read() };
        // SAFETY: an implementation begins with its table; the slot is within it for this version, as the tables say.
        let function = unsafe { table(implementation).add(slot).read() };
        Ok((implementation, function))
    }

    /// The object and the address at `slot_len` of its own table, for plain classes without implementation.
    pub(super) fn own(&self, slot: usize) -> (*mut c_void, FunctionPointer) {
        let this = self.this.as_ptr();
        // SAFETY: the object begins with its table; `slot_len` is within it for this generation, as the tables say.
        let function = unsafe { table(this).add(slot).read() };
        (this, function)
    }

    /// Whether this version has `method`.
    pub(super) fn has(&self, method: &Method) -> bool {
        self.library.slot(method).is_ok()
    }
}

/// The table that an object begins with.
///
/// # Safety
/// `object` is a C++ object with virtual methods.
unsafe fn table(object: *mut c_void) -> *const FunctionPointer {
    // SAFETY: such an object begins with the pointer to its table.
    unsafe { object.cast::<*const FunctionPointer>().read() }
}

impl Drop for Object {
    fn drop(&mut self) {
        let Some(slot) = self.delete else { return };
        let (this, function) = self.own(slot);
        // SAFETY: the deleting destructor takes the object and gives nothing back.
        let delete: unsafe extern "C" fn(*mut c_void) = unsafe { std::mem::transmute(function) };
        // SAFETY: the object is alive, and nobody but this owns it.
        unsafe { delete(this) };
    }
}

/// Calls a method of an object's implementation: `call!(object, METHOD, (kinds) -> result, values…)`. An expression of type
/// `Result<result, TensorRtError>`, whose error is that this version lacks the method.
macro_rules! call {
    ($object:expr, $method:expr, ($($kind:ty),*) -> $back:ty $(, $value:expr)*) => {
        $object.method(&$method).map(|(this, function)| {
            // SAFETY: the slot's function has this signature in all versions that the tables give it for.
            let function: unsafe extern "C" fn(*mut std::ffi::c_void $(, $kind)*) -> $back = unsafe { std::mem::transmute(function) };
            // SAFETY: the object is alive, and pointers among the values live through the call.
            unsafe { function(this $(, $value)*) }
        })
    };
}

pub(super) use call;
