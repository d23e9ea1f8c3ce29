// SPDX-License-Identifier: Apache-2.0
//! InferenceSession context: runs an engine, one run at a time.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::dims::{Dims, Dims32, Dims64};
use super::engine::Engine;
use super::error::TensorRtError;
use super::object::{Object, call};
use super::profiler::Profiler;
use super::shared_object::SharedObject;
use super::version::Generation;
use super::vtable::{
    CONTEXT_ENQUEUE, CONTEXT_INFER_SHAPES, CONTEXT_REPORT_PROFILE, CONTEXT_SET_ADDRESS,
    CONTEXT_SET_EMITS_PROFILE, CONTEXT_SET_INPUT_SHAPE, CONTEXT_SET_NVTX, CONTEXT_SET_PROFILE,
    CONTEXT_SET_PROFILER, CONTEXT_TENSOR_SHAPE,
};
use crate::session::LayerTime;

/// The optimization profiles of one engine.
#[derive(Debug)]
pub(super) struct Profiles(Mutex<FreeProfiles>);

#[derive(Debug)]
enum FreeProfiles {
    /// All contexts share profile 0.
    Shared,
    /// Each context needs its own profile; these are free. The lowest is last.
    Own(Vec<u32>),
}

impl Profiles {
    /// Profiles that all contexts share.
    pub(super) fn shared() -> Self {
        Self(Mutex::new(FreeProfiles::Shared))
    }

    /// Profiles 0 to `count`, exclusive, for one context each.
    pub(super) fn own(count: u32) -> Self {
        Self(Mutex::new(FreeProfiles::Own((0..count).rev().collect())))
    }

    /// Creates a context with `make`, passing a free profile where contexts need their own; `None` when none is free.
    ///
    /// Only one context is created at a time: where profiles are not shared, the first live context gets profile 0 implicitly.
    pub(super) fn acquire<T>(
        &self,
        make: impl FnOnce(Option<u32>) -> Result<T, TensorRtError>,
    ) -> Result<Option<T>, TensorRtError> {
        let mut free = self.free();
        let profiles = match &mut *free {
            FreeProfiles::Shared => return make(None).map(Some),
            FreeProfiles::Own(profiles) => profiles,
        };
        let Some(profile) = profiles.last().copied() else {
            return Ok(None);
        };
        let made = make(Some(profile))?;
        profiles.pop();
        Ok(Some(made))
    }

    /// Whether contexts need no profile of their own.
    pub(super) fn are_shared(&self) -> bool {
        matches!(*self.free(), FreeProfiles::Shared)
    }

    fn release(&self, profile: u32) {
        if let FreeProfiles::Own(profiles) = &mut *self.free() {
            profiles.push(profile);
            profiles.sort_unstable_by(|one, other| other.cmp(one));
        }
    }

    fn free(&self) -> MutexGuard<'_, FreeProfiles> {
        self.0.lock()
    }
}

/// An `IExecutionContext`. Used by one thread at a time.
#[derive(Debug)]
pub(super) struct Context {
    // Before the profiler, the profile and the engine, which it uses.
    object: Object,
    profiler: Option<SharedObject<Profiler>>,
    lease: Option<Lease>,
    engine: Arc<Engine>,
}

/// A profile that is returned on drop.
#[derive(Debug)]
struct Lease {
    profile: u32,
    engine: Arc<Engine>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.engine.profiles.release(self.profile);
    }
}

impl Context {
    pub(super) fn new(object: Object, engine: Arc<Engine>) -> Self {
        Self {
            object,
            profiler: None,
            lease: None,
            engine,
        }
    }

    /// Makes the context return `profile` when it is dropped.
    pub(super) fn keep_profile(&mut self, profile: u32) {
        self.lease = Some(Lease {
            profile,
            engine: Arc::clone(&self.engine),
        });
    }

    /// The engine of this context.
    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn generation(&self) -> Generation {
        self.object.library.generation()
    }

    fn clear(&self) {
        self.engine.runtime().recorder.clear();
    }

    fn last_error(&self, call: &'static str) -> TensorRtError {
        TensorRtError::Failed {
            call,
            reason: self.engine.runtime().recorder.summary(),
        }
    }

    /// Sets the shape of input `tensor` for all further runs; it must be within the engine's optimization profile.
    pub(super) fn set_input_shape(
        &mut self,
        tensor: &str,
        shape: &[i64],
    ) -> Result<(), TensorRtError> {
        self.clear();
        let (name, info) = self.engine.tensor(tensor)?;
        let mismatch = || TensorRtError::Tensor {
            tensor: tensor.to_owned(),
            found: format!("{shape:?}"),
            expected: match &info.profile {
                Some([least, _, most]) => format!("{least:?} to {most:?}"),
                None => format!("{:?}", info.shape),
            },
        };
        let dims = Dims::new(self.generation(), shape).ok_or_else(mismatch)?;
        let pointer: *const c_void = match &dims {
            Dims::Narrow(dims) => std::ptr::from_ref(dims).cast(),
            Dims::Wide(dims) => std::ptr::from_ref(dims).cast(),
        };
        let key = name.as_ptr();
        let accepted = call!(self.object, CONTEXT_SET_INPUT_SHAPE, (*const c_char, *const c_void) -> bool, key, pointer)?;
        if accepted { Ok(()) } else { Err(mismatch()) }
    }

    /// Checks that `tensor` has `shape` with the input shapes set so far; the error contains its shape.
    pub(super) fn check_shape(&self, tensor: &str, shape: &[i64]) -> Result<(), TensorRtError> {
        let (name, _) = self.engine.tensor(tensor)?;
        let key = name.as_ptr();
        let found = if self.generation() == Generation::Eight {
            let dims = call!(self.object, CONTEXT_TENSOR_SHAPE, (*const c_char) -> Dims32, key)?;
            if dims.equals(shape) {
                return Ok(());
            }
            dims.axes()
        } else {
            let dims = call!(self.object, CONTEXT_TENSOR_SHAPE, (*const c_char) -> Dims64, key)?;
            if dims.equals(shape) {
                return Ok(());
            }
            dims.axes()
        };
        Err(TensorRtError::Tensor {
            tensor: tensor.to_owned(),
            found: format!("{found:?}"),
            expected: format!("{shape:?}"),
        })
    }

    /// Checks that all shapes are known; the error contains a tensor without a shape.
    pub(super) fn check_shapes(&self) -> Result<(), TensorRtError> {
        self.clear();
        let mut name: *const c_char = std::ptr::null();
        let names = std::ptr::from_mut(&mut name);
        let missing =
            call!(self.object, CONTEXT_INFER_SHAPES, (i32, *mut *const c_char) -> i32, 1, names)?;
        if missing == 0 {
            return Ok(());
        }
        if missing < 0 {
            return Err(self.last_error("IExecutionContext::inferShapes"));
        }
        // SAFETY: TensorRT wrote a name, or left null.
        let name = unsafe { super::ffi_guard::text(name) };
        Err(TensorRtError::Tensor {
            tensor: name,
            found: "no shape".to_owned(),
            expected: "a shape set before the run".to_owned(),
        })
    }

    /// Uses optimization profile `profile` for all further runs.
    ///
    /// # Safety
    /// `stream` is null or a live CUDA stream of the engine's device; the work enqueued in it must be done before the context
    /// runs.
    pub(super) unsafe fn set_profile(
        &mut self,
        profile: u32,
        stream: *mut c_void,
    ) -> Result<(), TensorRtError> {
        self.clear();
        let accepted = call!(self.object, CONTEXT_SET_PROFILE, (i32, *mut c_void) -> bool, profile as i32, stream)?;
        if accepted {
            return Ok(());
        }
        Err(self.last_error("IExecutionContext::setOptimizationProfileAsync"))
    }

    /// Sets the address of tensor `tensor`.
    ///
    /// # Safety
    /// `address` is device memory, or host memory that the device can access, large enough for the tensor at every shape that
    /// is enqueued, and allocated until the last enqueued run has ended.
    pub(super) unsafe fn set_address(
        &mut self,
        tensor: &str,
        address: u64,
    ) -> Result<(), TensorRtError> {
        self.clear();
        let (name, _) = self.engine.tensor(tensor)?;
        let key = name.as_ptr();
        let accepted = call!(self.object, CONTEXT_SET_ADDRESS, (*const c_char, *mut c_void) -> bool, key, address as *mut c_void)?;
        if accepted {
            return Ok(());
        }
        Err(self.last_error("IExecutionContext::setTensorAddress"))
    }

    /// Enqueues one run in `stream`.
    ///
    /// # Safety
    /// All tensors have addresses and shapes, `stream` is a live CUDA stream of the engine's device, and nothing else uses the
    /// tensors until the run has ended.
    pub(super) unsafe fn enqueue(&mut self, stream: *mut c_void) -> Result<(), TensorRtError> {
        if call!(self.object, CONTEXT_ENQUEUE, (*mut c_void) -> bool, stream)? {
            return Ok(());
        }
        Err(self.last_error("IExecutionContext::enqueueV3"))
    }

    /// Selects whether every layer or only the whole run gets an NVTX range. Returns `false` when the engine was built without
    /// layer names.
    pub(super) fn set_nvtx(&mut self, layers: LayerRanges) -> Result<bool, TensorRtError> {
        // `ProfilingVerbosity`: kLAYER_NAMES_ONLY is 0, kNONE 1, kDETAILED 2.
        let verbosity = match layers {
            LayerRanges::Enabled => 2,
            LayerRanges::Disabled => 1,
        };
        call!(self.object, CONTEXT_SET_NVTX, (i32) -> bool, verbosity)
    }

    /// Measures the time of every layer from now on. Runs are slower while measured.
    pub(super) fn measure_layers(&mut self) -> Result<(), TensorRtError> {
        if self.profiler.is_some() {
            return Ok(());
        }
        // Kept before the context has it, so that it outlives the context whatever fails.
        let profiler = self.profiler.insert(Profiler::new(self.generation()));
        call!(self.object, CONTEXT_SET_PROFILER, (*mut c_void) -> (), profiler.pointer())?;
        call!(self.object, CONTEXT_SET_EMITS_PROFILE, (bool) -> (), false)
    }

    /// Collects the layer times of the last run, which must have ended. Otherwise they are lost.
    pub(super) fn collect_layer_times(&mut self) -> Result<(), TensorRtError> {
        self.clear();
        if call!(self.object, CONTEXT_REPORT_PROFILE, () -> bool)? {
            return Ok(());
        }
        Err(self.last_error("IExecutionContext::reportToProfiler"))
    }

    /// Layer times of all runs that were collected.
    pub(super) fn layer_times(&self) -> Vec<LayerTime> {
        let profiler = self.profiler.as_ref();
        profiler
            .map(|profiler| profiler.layers())
            .unwrap_or_default()
    }
}

/// NVTX ranges of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerRanges {
    /// One for each layer.
    Enabled,
    /// Only one for the whole run.
    Disabled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_free_profile_is_leased_and_failure_leases_none() {
        let profiles = Profiles::own(3);
        let acquire = || profiles.acquire(Ok).expect("no failure").flatten();
        assert_eq!([acquire(), acquire()], [Some(0), Some(1)]);
        let failed = profiles.acquire(|_| Err::<(), _>(TensorRtError::Canceled));
        assert!(failed.is_err());
        profiles.release(0);
        assert_eq!([acquire(), acquire(), acquire()], [Some(0), Some(2), None]);
        let shared = Profiles::shared().acquire(Ok).expect("no failure");
        // A context, without a profile for itself.
        assert_eq!(shared, Some(None));
    }
}
