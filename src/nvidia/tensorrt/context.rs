//! An execution context: one run of an engine at a time.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::dims::{Dims, Dims32, Dims64};
use super::engine::Engine;
use super::error::TensorRtError;
use super::object::{Object, call};
use super::profiler::{LayerTime, Profiler};
use super::slots::{
    CONTEXT_INFER_SHAPES, CONTEXT_REPORT_PROFILE, CONTEXT_SET_EMITS_PROFILE,
    CONTEXT_SET_INPUT_SHAPE, CONTEXT_SET_NVTX, CONTEXT_SET_PROFILER, CONTEXT_TENSOR_SHAPE,
};
use super::version::Generation;

/// An `IExecutionContext`. It belongs to one thread at a time.
#[derive(Debug)]
pub struct Context {
    // Before the profiler and the engine, which it points to.
    object: Object,
    profiler: Option<Box<Profiler>>,
    engine: Arc<Engine>,
}

impl Context {
    pub(super) fn new(object: Object, engine: Arc<Engine>) -> Self {
        Self {
            object,
            profiler: None,
            engine,
        }
    }

    pub(super) fn pointer(&self) -> *const c_void {
        self.object.pointer()
    }

    /// The engine that it runs.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn generation(&self) -> Generation {
        self.object.library.generation()
    }

    fn clear(&self) {
        self.engine.runtime().recorder.clear();
    }

    fn said(&self, call: &'static str) -> TensorRtError {
        TensorRtError::Failed {
            call,
            reason: self.engine.runtime().recorder.said(),
        }
    }

    /// Says which shape input `tensor` has in the next runs; it must lie within the engine's optimization profile.
    pub fn set_input_shape(&mut self, tensor: &str, shape: &[i64]) -> Result<(), TensorRtError> {
        self.clear();
        let (name, info) = self.engine.tensor(tensor)?;
        let misfit = || TensorRtError::Tensor {
            tensor: tensor.to_owned(),
            found: format!("{shape:?}"),
            expected: match &info.profile {
                Some([least, _, most]) => format!("{least:?} to {most:?}"),
                None => format!("{:?}", info.shape),
            },
        };
        let dims = Dims::new(self.generation(), shape).ok_or_else(misfit)?;
        let pointer: *const c_void = match &dims {
            Dims::Narrow(dims) => std::ptr::from_ref(dims).cast(),
            Dims::Wide(dims) => std::ptr::from_ref(dims).cast(),
        };
        let key = name.as_ptr();
        let taken = call!(self.object, CONTEXT_SET_INPUT_SHAPE, (*const c_char, *const c_void) -> bool, key, pointer)?;
        if taken { Ok(()) } else { Err(misfit()) }
    }

    /// The shape that tensor `tensor` has with the input shapes set so far.
    pub fn tensor_shape(&self, tensor: &str) -> Result<Vec<i64>, TensorRtError> {
        self.clear();
        let (name, _) = self.engine.tensor(tensor)?;
        let key = name.as_ptr();
        let axes = if self.generation() == Generation::Eight {
            call!(self.object, CONTEXT_TENSOR_SHAPE, (*const c_char) -> Dims32, key)?.axes()
        } else {
            call!(self.object, CONTEXT_TENSOR_SHAPE, (*const c_char) -> Dims64, key)?.axes()
        };
        axes.ok_or_else(|| self.said("IExecutionContext::getTensorShape"))
    }

    /// Whether all shapes are known; the error names a tensor whose shape is not.
    pub fn check_shapes(&self) -> Result<(), TensorRtError> {
        self.clear();
        let mut name: *const c_char = std::ptr::null();
        let names = std::ptr::from_mut(&mut name);
        let missing =
            call!(self.object, CONTEXT_INFER_SHAPES, (i32, *mut *const c_char) -> i32, 1, names)?;
        if missing == 0 {
            return Ok(());
        }
        // SAFETY: TensorRT wrote a name, or left null.
        let name = unsafe { super::guard::text(name) };
        Err(TensorRtError::Tensor {
            tensor: name,
            found: "no shape".to_owned(),
            expected: "a shape set before the run".to_owned(),
        })
    }

    /// Whether every layer gets an NVTX range of its own in a profile, or only the whole run.
    pub fn set_nvtx_layers(&mut self, is_detailed: bool) -> Result<bool, TensorRtError> {
        // `ProfilingVerbosity`: kLAYER_NAMES_ONLY is 0, kNONE 1, kDETAILED 2.
        let verbosity = if is_detailed { 2 } else { 1 };
        call!(self.object, CONTEXT_SET_NVTX, (i32) -> bool, verbosity)
    }

    /// Has the time of every layer measured from now on. Runs are slower while they are measured.
    pub fn measure_layers(&mut self) -> Result<(), TensorRtError> {
        let profiler = Profiler::new(self.generation());
        call!(self.object, CONTEXT_SET_PROFILER, (*mut c_void) -> (), profiler.pointer())?;
        call!(self.object, CONTEXT_SET_EMITS_PROFILE, (bool) -> (), false)?;
        self.profiler = Some(profiler);
        Ok(())
    }

    /// Takes the layers' times of the last run, which must have ended, and gives those of all runs so far.
    pub fn layer_times(&self) -> Result<Vec<LayerTime>, TensorRtError> {
        let Some(profiler) = &self.profiler else {
            return Ok(Vec::new());
        };
        self.clear();
        if !call!(self.object, CONTEXT_REPORT_PROFILE, () -> bool)? {
            return Err(self.said("IExecutionContext::reportToProfiler"));
        }
        Ok(profiler.layers())
    }
}
