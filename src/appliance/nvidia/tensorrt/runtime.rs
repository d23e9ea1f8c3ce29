// SPDX-License-Identifier: Apache-2.0
//! The runtime: deserializes plans to engines.

use std::ffi::c_void;
use std::sync::Arc;

use super::engine::Engine;
use super::error::TensorRtError;
use super::library::Library;
use super::object::{Object, call};
use super::recorder::Recorder;
use super::shared_object::SharedObject;
use super::version::Generation;
use super::vtable::{
    RUNTIME_DESERIALIZE, RUNTIME_DLA_CORES, RUNTIME_SET_DLA_CORE, RUNTIME_SET_ERROR_RECORDER,
};

/// An `IRuntime` with its error recorder.
#[derive(Debug)]
pub struct Runtime {
    // Before the recorder, to which it points.
    pub(super) object: Object,
    pub(super) recorder: SharedObject<Recorder>,
}

// SAFETY: NVIDIA documents `deserializeCudaEngine` as safe to call from several threads; no other call goes through `&Runtime`
// after its creation. The recorder is `Sync` by itself.
unsafe impl Sync for Runtime {}

impl Runtime {
    /// A runtime whose engines run on the GPU, or on DLA core `dla` when their plans require it.
    ///
    /// # Errors
    /// TensorRT creates none, or the machine does not have that DLA core.
    pub fn new(library: &Arc<Library>, dla: Option<u32>) -> Result<Arc<Self>, TensorRtError> {
        let recorder = Recorder::new(library.generation());
        recorder.clear();
        let object = library.new_runtime().ok_or_else(|| TensorRtError::Failed {
            call: "createInferRuntime",
            reason: recorder.summary(),
        })?;
        call!(object, RUNTIME_SET_ERROR_RECORDER, (*mut c_void) -> (), recorder.pointer())?;
        if let Some(dla) = dla {
            let cores = call!(object, RUNTIME_DLA_CORES, () -> i32)?;
            if i64::from(dla) >= i64::from(cores) {
                return Err(library.unsupported(
                    "run on that DLA",
                    format!("detector.tensorrt.dla is {dla}, and this machine has {cores} DLA cores; cores count from 0, or remove the key"),
                ));
            }
            call!(object, RUNTIME_SET_DLA_CORE, (i32) -> (), dla as i32)?;
        }
        library.load_plugins();
        Ok(Arc::new(Self { object, recorder }))
    }

    /// The library of this runtime.
    pub fn library(&self) -> &Arc<Library> {
        &self.object.library
    }

    /// Deserializes `plan`; its bytes are not needed afterwards.
    ///
    /// A plan contains machine code: pass only plans that were built on this machine or come from a trusted source.
    ///
    /// # Errors
    /// The plan is empty, damaged, or of another version or GPU.
    pub fn deserialize(self: &Arc<Self>, plan: &[u8]) -> Result<Arc<Engine>, TensorRtError> {
        self.recorder.clear();
        // The pointer of an empty slice is dangling, and TensorRT would read it.
        if plan.is_empty() {
            return Err(TensorRtError::Failed {
                call: "IRuntime::deserializeCudaEngine",
                reason: "the plan is empty".to_owned(),
            });
        }
        let (bytes, length) = (plan.as_ptr().cast::<c_void>(), plan.len());
        let this = match self.library().generation() {
            // The third argument is a plug-in factory, obsolete.
            Generation::Eight => {
                call!(self.object, RUNTIME_DESERIALIZE, (*const c_void, usize, *mut c_void) -> *mut c_void, bytes, length, std::ptr::null_mut())
            }
            _ => {
                call!(self.object, RUNTIME_DESERIALIZE, (*const c_void, usize) -> *mut c_void, bytes, length)
            }
        }?;
        // SAFETY: the runtime created it for this caller.
        let object = unsafe { Object::owned(this, self.library()) };
        let object = object.ok_or_else(|| TensorRtError::Failed {
            call: "IRuntime::deserializeCudaEngine",
            reason: self.recorder.summary(),
        })?;
        Engine::new(object, Arc::clone(self)).map(Arc::new)
    }
}
