// SPDX-License-Identifier: Apache-2.0
//! Layer times, which TensorRT reports to the profiler of an execution context.

use std::ffi::{c_char, c_void};

use parking_lot::Mutex;

use super::ffi_guard::{no_unwind, text};
use super::logger::{InterfaceInfo, Table, api_language, not_deleted};
use super::object::FunctionPointer;
use super::shared_object::SharedObject;
use super::version::Generation;
use crate::session::LayerTime;

/// An `IProfiler`. Must outlive the context that uses it.
#[repr(C)]
pub(super) struct Profiler {
    table: *const FunctionPointer,
    /// In the order of the first report, which is that of execution.
    layers: Mutex<Vec<LayerTime>>,
}

// SAFETY: `table` points to a static vtable, which is never written and is the same in every thread; the layers are `Send`.
unsafe impl Send for Profiler {}
// SAFETY: as above; the layers are behind a lock, so that C++ may call from several threads at once.
unsafe impl Sync for Profiler {}

impl std::fmt::Debug for Profiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Profiler")
    }
}

impl Profiler {
    pub(super) fn new(generation: Generation) -> SharedObject<Self> {
        let table = match generation {
            Generation::Eight | Generation::Ten => PLAIN.functions.as_ptr(),
            Generation::Eleven | Generation::Rtx => VERSIONED.functions.as_ptr(),
        };
        SharedObject::new(Self {
            table,
            layers: Mutex::default(),
        })
    }

    /// Times reported so far.
    pub(super) fn layers(&self) -> Vec<LayerTime> {
        self.layers.lock().clone()
    }
}

unsafe extern "C" fn info(_this: *const c_void) -> InterfaceInfo {
    InterfaceInfo {
        kind: c"IProfiler".as_ptr(),
        major: 1,
        minor: 0,
    }
}

unsafe extern "C" fn report(this: *mut c_void, name: *const c_char, ms: f32) {
    // SAFETY: TensorRT passes the profiler of the context, which outlives the context.
    let profiler = unsafe { &*this.cast::<Profiler>() };
    no_unwind("the profiler", (), || {
        // SAFETY: TensorRT passes a zero-terminated text that is valid during the call.
        let name = unsafe { text(name) };
        let mut layers = profiler.layers.lock();
        let at = layers.iter().position(|layer| layer.name == name);
        let at = at.unwrap_or_else(|| {
            layers.push(LayerTime {
                name,
                total_ms: 0.0,
                runs: 0,
            });
            layers.len() - 1
        });
        layers[at].total_ms += f64::from(ms);
        layers[at].runs += 1;
    });
}

/// Up to generation 10: the method precedes the destructors.
static PLAIN: Table<3> = Table::new([
    report as *const c_void,
    not_deleted as *const c_void,
    not_deleted as *const c_void,
]);

/// Since generation 11: a versioned interface.
static VERSIONED: Table<5> = Table::new([
    api_language as *const c_void,
    info as *const c_void,
    not_deleted as *const c_void,
    not_deleted as *const c_void,
    report as *const c_void,
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_layer_are_added_up() {
        let profiler = Profiler::new(Generation::Ten);
        for (name, ms) in [(c"conv", 0.5), (c"relu", 0.25), (c"conv", 0.75)] {
            // SAFETY: the profiler is alive and the text zero-terminated.
            unsafe { report(profiler.pointer(), name.as_ptr(), ms) };
        }
        let layer = |name: &str, total_ms, runs| LayerTime {
            name: name.to_owned(),
            total_ms,
            runs,
        };
        assert_eq!(
            profiler.layers(),
            [layer("conv", 1.25, 2), layer("relu", 0.25, 1)]
        );
    }
}
