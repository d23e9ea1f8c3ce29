//! The runtime: plans become engines.

use std::ffi::c_void;
use std::sync::Arc;

use super::engine::Engine;
use super::error::TensorRtError;
use super::library::Library;
use super::object::{Object, call};
use super::recorder::Recorder;
use super::version::Generation;
use super::vtable::{
    RUNTIME_DESERIALIZE, RUNTIME_DLA_CORES, RUNTIME_SET_DLA_CORE, RUNTIME_SET_ERROR_RECORDER,
};

/// An `IRuntime` with its error recorder.
#[derive(Debug)]
pub struct Runtime {
    // Before the recorder, which it points to.
    pub(super) object: Object,
    pub(super) recorder: Box<Recorder>,
}

// SAFETY: NVIDIA documents `deserializeCudaEngine` as safe to call from several threads; nothing else is called through `&Runtime`
// after it was made.
unsafe impl Sync for Runtime {}

impl Runtime {
    /// A runtime whose engines run on the GPU, or on DLA number `dla` when their plans say so.
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
                    format!("detector.tensorrt.dla is {dla}, and this machine has {cores} DLA cores; leave it out, or count from 0"),
                ));
            }
            call!(object, RUNTIME_SET_DLA_CORE, (i32) -> (), dla as i32)?;
        }
        library.load_plugins();
        Ok(Arc::new(Self { object, recorder }))
    }

    /// The library behind it.
    #[must_use]
    pub fn library(&self) -> &Arc<Library> {
        &self.object.library
    }

    /// Makes an engine of `plan`, whose bytes are not needed afterwards.
    ///
    /// A plan holds machine code: only plans that were built here, or that come from someone trusted, may be given.
    pub fn deserialize(self: &Arc<Self>, plan: &[u8]) -> Result<Arc<Engine>, TensorRtError> {
        self.recorder.clear();
        // An empty slice points nowhere, which TensorRT would read.
        if plan.is_empty() {
            return Err(TensorRtError::Failed {
                call: "IRuntime::deserializeCudaEngine",
                reason: "the plan is empty".to_owned(),
            });
        }
        let (bytes, length) = (plan.as_ptr().cast::<c_void>(), plan.len());
        let this = match self.library().generation() {
            // The third argument is a factory for plug-ins, long without use.
            Generation::Eight => {
                call!(self.object, RUNTIME_DESERIALIZE, (*const c_void, usize, *mut c_void) -> *mut c_void, bytes, length, std::ptr::null_mut())
            }
            _ => {
                call!(self.object, RUNTIME_DESERIALIZE, (*const c_void, usize) -> *mut c_void, bytes, length)
            }
        }?;
        // SAFETY: the runtime made it for us.
        let object = unsafe { Object::owned(this, self.library()) };
        let object = object.ok_or_else(|| TensorRtError::Failed {
            call: "IRuntime::deserializeCudaEngine",
            reason: self.recorder.summary(),
        })?;
        Engine::new(object, Arc::clone(self)).map(Arc::new)
    }
}
