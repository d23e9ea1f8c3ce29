// SPDX-License-Identifier: Apache-2.0
//! An engine: weights and kernels of one network, shared by all execution contexts.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use super::DataType;
use super::context::{Context, LayerRanges, Profiles};
use super::dims::{Dims32, Dims64};
use super::error::TensorRtError;
use super::ffi_guard::text;
use super::library::c_name;
use super::object::{Object, call};
use super::runtime::Runtime;
use super::version::Generation;
use super::vtable::{
    ENGINE_CREATE_CONTEXT, ENGINE_INSPECTOR, ENGINE_LAYERS, ENGINE_MEMORY, ENGINE_MEMORY_V2,
    ENGINE_NAME, ENGINE_PROFILE_SHAPE, ENGINE_PROFILES, ENGINE_TENSOR_COMPONENTS,
    ENGINE_TENSOR_FORMAT, ENGINE_TENSOR_FORMAT_TEXT, ENGINE_TENSOR_MODE, ENGINE_TENSOR_NAME,
    ENGINE_TENSOR_SHAPE, ENGINE_TENSOR_TYPE, ENGINE_TENSOR_VECTORIZED, ENGINE_TENSORS,
    INSPECTOR_ENGINE,
};
use crate::cuda::{Device, Stream};

/// Direction of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorMode {
    /// Into the network.
    Input,
    /// Out of the network.
    Output,
}

/// An input or output tensor of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name of the tensor.
    pub name: String,
    /// Input or output.
    pub mode: TensorMode,
    /// Element type.
    pub data_type: DataType,
    /// Axes; an open one is -1.
    pub shape: Vec<i64>,
    /// Minimum, optimum and maximum shape of the first optimization profile; `None` for outputs.
    pub profile: Option<[Vec<i64>; 3]>,
    /// Number of the memory format; 0 is linear.
    pub format: i32,
    /// TensorRT's description of the format.
    pub format_text: String,
    /// The vectorized axis, and the elements per vector; `None` for a linear format.
    pub vectorized: Option<(usize, usize)>,
}

/// An `ICudaEngine`.
#[derive(Debug)]
pub struct Engine {
    // Before the runtime, which created it and must outlive it.
    object: Object,
    runtime: Arc<Runtime>,
    tensors: Vec<(CString, TensorInfo)>,
    pub(super) profiles: Profiles,
}

// SAFETY: NVIDIA documents that an engine may be used by several threads; all calls through `&Engine` are queries and the
// creation of contexts, of which only one runs at a time.
unsafe impl Sync for Engine {}

impl Engine {
    pub(super) fn new(object: Object, runtime: Arc<Runtime>) -> Result<Self, TensorRtError> {
        let mut engine = Self {
            object,
            runtime,
            tensors: Vec::new(),
            profiles: Profiles::shared(),
        };
        let count = call!(engine.object, ENGINE_TENSORS, () -> i32)?;
        for index in 0..count {
            let name = call!(engine.object, ENGINE_TENSOR_NAME, (i32) -> *const c_char, index)?;
            // SAFETY: the engine returns a zero-terminated text that lives as long as it.
            let name = unsafe { text(name) };
            let info = engine.read_tensor(&name)?;
            engine.tensors.push((c_name(&name)?, info));
        }
        if engine.generation() == Generation::Eight && engine.is_dynamic() {
            let count = call!(engine.object, ENGINE_PROFILES, () -> i32)?;
            engine.profiles = Profiles::own(u32::try_from(count).unwrap_or(0));
        }
        Ok(engine)
    }

    fn read_tensor(&self, name: &str) -> Result<TensorInfo, TensorRtError> {
        let c_name = c_name(name)?;
        let key = c_name.as_ptr();
        let object = &self.object;
        let mode = match call!(object, ENGINE_TENSOR_MODE, (*const c_char) -> i32, key)? {
            1 => TensorMode::Input,
            _ => TensorMode::Output,
        };
        let data_type = call!(object, ENGINE_TENSOR_TYPE, (*const c_char) -> i32, key)?;
        let format = call!(object, ENGINE_TENSOR_FORMAT, (*const c_char) -> i32, key)?;
        let text_pointer =
            call!(object, ENGINE_TENSOR_FORMAT_TEXT, (*const c_char) -> *const c_char, key)?;
        let axis = call!(object, ENGINE_TENSOR_VECTORIZED, (*const c_char) -> i32, key)?;
        let elements = call!(object, ENGINE_TENSOR_COMPONENTS, (*const c_char) -> i32, key)?;
        let vectorized = usize::try_from(axis)
            .ok()
            .zip(usize::try_from(elements).ok())
            .filter(|(_, elements)| *elements > 1);
        let narrow = self.generation() == Generation::Eight;
        let shape = if narrow {
            call!(object, ENGINE_TENSOR_SHAPE, (*const c_char) -> Dims32, key)?.axes()
        } else {
            call!(object, ENGINE_TENSOR_SHAPE, (*const c_char) -> Dims64, key)?.axes()
        };
        let shape = shape.ok_or_else(|| self.failed("ICudaEngine::getTensorShape"))?;
        let profiles = call!(object, ENGINE_PROFILES, () -> i32)?;
        let profile = match mode {
            TensorMode::Input if profiles > 0 => {
                // Minimum, optimum and maximum are 0, 1 and 2.
                let of = |which: i32| {
                    let axes = if narrow {
                        call!(object, ENGINE_PROFILE_SHAPE, (*const c_char, i32, i32) -> Dims32, key, 0, which)?.axes()
                    } else {
                        call!(object, ENGINE_PROFILE_SHAPE, (*const c_char, i32, i32) -> Dims64, key, 0, which)?.axes()
                    };
                    axes.ok_or_else(|| self.failed("ICudaEngine::getProfileShape"))
                };
                Some([of(0)?, of(1)?, of(2)?])
            }
            _ => None,
        };
        Ok(TensorInfo {
            name: name.to_owned(),
            mode,
            data_type: DataType::from_number(data_type),
            shape,
            profile,
            format,
            // SAFETY: the engine returns a zero-terminated text, or null.
            format_text: unsafe { text(text_pointer) },
            vectorized,
        })
    }

    fn failed(&self, call: &'static str) -> TensorRtError {
        TensorRtError::Failed {
            call,
            reason: self.runtime.recorder.summary(),
        }
    }

    fn generation(&self) -> Generation {
        self.object.library.generation()
    }

    /// The runtime of this engine.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Inputs and outputs, in the engine's order.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.iter().map(|(_, info)| info)
    }

    /// Whether an input has an open axis, so that its shape must be set.
    fn is_dynamic(&self) -> bool {
        let mut inputs = self.tensors().filter(|info| info.mode == TensorMode::Input);
        inputs.any(|info| info.shape.contains(&-1))
    }

    /// Whether contexts need no optimization profile of their own.
    pub(super) fn shares_profiles(&self) -> bool {
        self.profiles.are_shared()
    }

    /// The tensor `name`, with its name as a C string.
    pub(super) fn tensor(&self, name: &str) -> Result<&(CString, TensorInfo), TensorRtError> {
        let found = self.tensors.iter().find(|(_, info)| info.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.tensors().map(|info| info.name.as_str()).collect();
            TensorRtError::Tensor {
                tensor: name.to_owned(),
                found: "no such tensor".to_owned(),
                expected: format!("one of {}", names.join(", ")),
            }
        })
    }

    /// Name of the network from which the engine was built.
    ///
    /// # Errors
    /// This version has no such call.
    pub fn name(&self) -> Result<String, TensorRtError> {
        let name = call!(self.object, ENGINE_NAME, () -> *const c_char)?;
        // SAFETY: the engine returns a zero-terminated text, or null.
        Ok(unsafe { text(name) })
    }

    /// Number of layers after fusion.
    ///
    /// # Errors
    /// This version has no such call.
    pub fn layers(&self) -> Result<usize, TensorRtError> {
        let layers = call!(self.object, ENGINE_LAYERS, () -> i32)?;
        Ok(usize::try_from(layers).unwrap_or(0))
    }

    /// Device memory that each context needs in addition to the weights, for the largest shapes, in bytes.
    ///
    /// # Errors
    /// This version has no such call.
    pub fn context_bytes(&self) -> Result<u64, TensorRtError> {
        if self.object.has(&ENGINE_MEMORY_V2) {
            let bytes = call!(self.object, ENGINE_MEMORY_V2, () -> i64)?;
            return Ok(u64::try_from(bytes).unwrap_or(0));
        }
        Ok(call!(self.object, ENGINE_MEMORY, () -> usize)? as u64)
    }

    /// TensorRT's description of the layers as JSON: names, types, precisions and tactics if the engine was built with details.
    ///
    /// # Errors
    /// TensorRT fails to create it.
    pub fn inspect(&self) -> Result<String, TensorRtError> {
        self.runtime.recorder.clear();
        let inspector = call!(self.object, ENGINE_INSPECTOR, () -> *mut c_void)?;
        // SAFETY: the engine created it for this caller.
        let inspector = unsafe { Object::owned(inspector, &self.object.library) };
        let inspector =
            inspector.ok_or_else(|| self.failed("ICudaEngine::createEngineInspector"))?;
        // `LayerInformationFormat::kJSON`.
        let json = call!(inspector, INSPECTOR_ENGINE, (i32) -> *const c_char, 1)?;
        if json.is_null() {
            return Err(self.failed("IEngineInspector::getEngineInformation"));
        }
        // SAFETY: the text belongs to the inspector, which is alive.
        Ok(unsafe { text(json) })
    }

    /// Creates an execution context on `device`, with its own device memory for intermediate tensors. `None` when no optimization
    /// profile is free: in generation 8 each context needs its own.
    pub(super) fn context(
        self: &Arc<Self>,
        device: &Arc<Device>,
    ) -> Result<Option<Context>, TensorRtError> {
        device.make_current()?;
        let stream = Stream::new(device)?;
        let context = self.profiles.acquire(|profile| {
            self.runtime.recorder.clear();
            let this = match self.generation() {
                Generation::Eight => call!(self.object, ENGINE_CREATE_CONTEXT, () -> *mut c_void),
                // `ExecutionContextAllocationStrategy::kSTATIC`.
                _ => call!(self.object, ENGINE_CREATE_CONTEXT, (i32) -> *mut c_void, 0),
            }?;
            // SAFETY: the engine created it for this caller.
            let object = unsafe { Object::owned(this, &self.object.library) };
            let object =
                object.ok_or_else(|| self.failed("ICudaEngine::createExecutionContext"))?;
            let mut context = Context::new(object, Arc::clone(self));
            // NVTX ranges for all layers cost time in each run; they are enabled on request.
            context.set_nvtx(LayerRanges::Disabled)?;
            if let Some(profile) = profile {
                // SAFETY: the stream is alive; it is synchronized below, before the context is returned.
                unsafe { context.set_profile(profile, stream.raw()) }?;
                context.keep_profile(profile);
            }
            Ok(context)
        })?;
        stream.synchronize()?;
        Ok(context)
    }
}
