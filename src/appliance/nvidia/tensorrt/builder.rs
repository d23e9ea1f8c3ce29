// SPDX-License-Identifier: Apache-2.0
//! Builds a plan from an ONNX file: builder, network and configuration.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::calibrator::{CalibrationMemory, Calibrator};
use super::dims::{Dims, Dims32, Dims64};
use super::error::TensorRtError;
use super::library::{Library, c_name};
use super::object::{Object, call};
use super::parser;
use super::progress::ProgressMonitor;
use super::recorder::Recorder;
use super::request::{BuildRequest, Built, Precision, Shapes};
use super::shapes::{self, Input};
use super::shared_object::SharedObject;
use super::version::Generation;
use super::vtable::{
    BUILDER_BUILD, BUILDER_CREATE_CONFIG, BUILDER_CREATE_NETWORK, BUILDER_CREATE_PROFILE,
    BUILDER_DLA_CORES, BUILDER_SET_ERROR_RECORDER, CONFIG_ADD_PROFILE, CONFIG_CREATE_TIMING_CACHE,
    CONFIG_SET_CALIBRATION_PROFILE, CONFIG_SET_CALIBRATOR, CONFIG_SET_CAPABILITIES,
    CONFIG_SET_CAPABILITY, CONFIG_SET_DEVICE, CONFIG_SET_DLA_CORE, CONFIG_SET_FLAG,
    CONFIG_SET_MONITOR, CONFIG_SET_POOL, CONFIG_SET_TIMING_CACHE, CONFIG_SET_VERBOSITY,
    CONFIG_TIMING_CACHE, LAYER_TYPE, MEMORY_DATA, MEMORY_SIZE, NETWORK_LAYER, NETWORK_LAYERS,
    NETWORK_SET_ERROR_RECORDER, PROFILE_SET_SHAPE, TIMING_SERIALIZE,
};

/// Numbers of the `BuilderFlag`s in use; the same in all versions that have them.
mod flag {
    pub(super) const FP16: i32 = 0;
    pub(super) const INT8: i32 = 1;
    pub(super) const GPU_FALLBACK: i32 = 3;
}

impl BuildRequest<'_> {
    /// Builds with `library`. Blocks for a second to many minutes; TensorRT also uses its own threads.
    ///
    /// # Errors
    /// The library cannot build, the parser refuses the network, this version does not support the request, the build fails or
    /// is canceled.
    pub fn build(self, library: &Arc<Library>) -> Result<Built, TensorRtError> {
        if let Some(device) = self.device {
            // TensorRT uses the current GPU of the thread.
            device.make_current()?;
        }
        library.load_plugins();
        let mut build = Build::new(library, false)?;
        let mut parser = build.parse(&self)?;
        let is_quantized = build.is_quantized()?;
        build.refuse(&self, is_quantized)?;
        // In generation 10 only a strongly typed network takes all precisions from its Q/DQ nodes. Whether it has any is known after parsing, and the flag is set before.
        let is_strongly_typed = library.generation() == Generation::Ten
            && is_quantized
            && self.precision == Precision::Int8;
        if is_strongly_typed {
            drop(parser);
            build = Build::new(library, true)?;
            parser = build.parse(&self)?;
        }
        // Weights of the network may be in the parser's memory until the build is over.
        let built = build.run(self, is_quantized, is_strongly_typed);
        drop(parser);
        built
    }
}

/// Bits of `NetworkDefinitionCreationFlag`: explicit batch is 0 in generation 8; strongly typed is 1 in generation 10, and the only kind since.
const fn network_flags(generation: Generation, is_strongly_typed: bool) -> u32 {
    match generation {
        Generation::Eight => 1,
        Generation::Ten if is_strongly_typed => 1 << 1,
        Generation::Ten | Generation::Eleven | Generation::Rtx => 0,
    }
}

/// The objects of one build. Field order is drop order: network and configuration before the builder, all before the recorder.
struct Build {
    config: Object,
    network: Object,
    builder: Object,
    recorder: SharedObject<Recorder>,
}

impl Build {
    fn new(library: &Arc<Library>, is_strongly_typed: bool) -> Result<Self, TensorRtError> {
        let recorder = Recorder::new(library.generation());
        recorder.clear();
        let failed = |call: &'static str, recorder: &Recorder| TensorRtError::Failed {
            call,
            reason: recorder.summary(),
        };
        let builder = library
            .new_builder()?
            .ok_or_else(|| failed("createInferBuilder", &recorder))?;
        call!(builder, BUILDER_SET_ERROR_RECORDER, (*mut c_void) -> (), recorder.pointer())?;
        let network_flags = network_flags(library.generation(), is_strongly_typed);
        let network = call!(builder, BUILDER_CREATE_NETWORK, (u32) -> *mut c_void, network_flags)?;
        // SAFETY: the builder created it for this caller.
        let network = unsafe { Object::owned(network, library) };
        let network = network.ok_or_else(|| failed("IBuilder::createNetworkV2", &recorder))?;
        call!(network, NETWORK_SET_ERROR_RECORDER, (*mut c_void) -> (), recorder.pointer())?;
        let config = call!(builder, BUILDER_CREATE_CONFIG, () -> *mut c_void)?;
        // SAFETY: the builder created it for this caller.
        let config = unsafe { Object::owned(config, library) };
        let config = config.ok_or_else(|| failed("IBuilder::createBuilderConfig", &recorder))?;
        Ok(Self {
            config,
            network,
            builder,
            recorder,
        })
    }

    fn library(&self) -> &Arc<Library> {
        &self.builder.library
    }

    fn generation(&self) -> Generation {
        self.library().generation()
    }

    fn failed(&self, call: &'static str) -> TensorRtError {
        TensorRtError::Failed {
            call,
            reason: self.recorder.summary(),
        }
    }

    fn parse(&self, request: &BuildRequest<'_>) -> Result<Object, TensorRtError> {
        let Self {
            network, recorder, ..
        } = self;
        parser::parse(
            self.library(),
            network,
            recorder,
            request.onnx,
            request.path,
        )
    }

    fn run(
        &self,
        mut request: BuildRequest<'_>,
        is_quantized: bool,
        is_strongly_typed: bool,
    ) -> Result<Built, TensorRtError> {
        self.recorder.clear();
        if !is_strongly_typed {
            self.set_precision(&request)?;
        }
        self.set_device(&request)?;
        let profiles = self.add_profiles(&request)?;
        if let Some(bytes) = request.workspace_bytes {
            // `MemoryPoolType::kWORKSPACE`.
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            call!(self.config, CONFIG_SET_POOL, (i32, usize) -> (), 0, bytes)?;
        }
        // `ProfilingVerbosity::kDETAILED`: required for the inspector and NVTX layer ranges.
        call!(self.config, CONFIG_SET_VERBOSITY, (i32) -> (), 2)?;
        let timing_cache = self.timing_cache(request.timing_cache)?;
        let monitor = request.progress.map(ProgressMonitor::new);
        if let Some(monitor) = &monitor
            && self.library().has(&CONFIG_SET_MONITOR)
        {
            call!(self.config, CONFIG_SET_MONITOR, (*mut c_void) -> (), monitor.pointer())?;
        }
        if is_quantized {
            // The network contains its scales; a strongly typed one accepts no calibrator.
            request.implicit_int8 = None;
        }
        let numbers = shapes::calibration_values(&self.inputs()?, &request)?;
        let calibrator = match request.implicit_int8 {
            Some(implicit) => Some(Calibrator::new(
                self.generation(),
                implicit,
                numbers,
                CalibrationMemory::new(request.device)?,
            )),
            None => None,
        };
        if let Some(calibrator) = &calibrator {
            let pointer = calibrator.pointer();
            call!(self.config, CONFIG_SET_CALIBRATOR, (*mut c_void) -> (), pointer)?;
            if let Some(profile) = profiles.first() {
                call!(self.config, CONFIG_SET_CALIBRATION_PROFILE, (*const c_void) -> bool, profile.pointer())?;
            }
        }
        self.recorder.clear();
        let (network, config) = (self.network.pointer(), self.config.pointer());
        let plan = call!(self.builder, BUILDER_BUILD, (*mut c_void, *mut c_void) -> *mut c_void, network, config)?;
        // SAFETY: the builder created it for this caller.
        let plan = unsafe { Object::owned(plan, self.library()) };
        if let Some(reason) = calibrator
            .as_ref()
            .and_then(|calibrator| calibrator.failed())
        {
            return Err(TensorRtError::Failed {
                call: "IInt8Calibrator::getBatch",
                reason,
            });
        }
        if plan.is_none()
            && monitor
                .as_ref()
                .is_some_and(|monitor| monitor.is_canceled())
        {
            return Err(TensorRtError::Canceled);
        }
        let plan = plan.ok_or_else(|| self.failed("IBuilder::buildSerializedNetwork"))?;
        let built = Built {
            plan: bytes(&plan)?,
            timing_cache: self.new_timing_cache()?,
            calibration_cache: calibrator
                .as_ref()
                .and_then(|calibrator| calibrator.new_cache()),
            is_quantized,
        };
        if let Some(calibrator) = &calibrator {
            log::debug!(batches = calibrator.batches(); "calibrated");
        }
        drop(timing_cache);
        Ok(built)
    }

    /// Whether the network has quantization layers. Their numbers in `LayerType` changed by one in generation 10.
    fn is_quantized(&self) -> Result<bool, TensorRtError> {
        let quantize = if self.generation() == Generation::Eight {
            33
        } else {
            32
        };
        let count = call!(self.network, NETWORK_LAYERS, () -> i32)?;
        for index in 0..count {
            let layer = call!(self.network, NETWORK_LAYER, (i32) -> *mut c_void, index)?;
            // SAFETY: layers belong to the network, which outlives this use.
            let Some(layer) = (unsafe { Object::borrowed(layer, self.library()) }) else {
                continue;
            };
            if call!(layer, LAYER_TYPE, () -> i32)? == quantize {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks for requests that cannot work, before TensorRT spends minutes on them.
    fn refuse(&self, request: &BuildRequest<'_>, is_quantized: bool) -> Result<(), TensorRtError> {
        let library = self.library();
        let has_calibration = library.has(&CONFIG_SET_CALIBRATOR);
        if is_quantized && request.dla.is_some() {
            return Err(library.unsupported(
                "run a network with Q/DQ nodes on a DLA",
                "DLA supports implicit quantization only: give the fp32 network with --calibration-images, or remove --dla",
            ));
        }
        match request.precision {
            Precision::Int8 if is_quantized => Ok(()),
            Precision::Int8 if !has_calibration => Err(library.unsupported(
                "calibrate a network",
                "give a network with Q/DQ nodes, as models/quantize.py makes them",
            )),
            Precision::Int8 if request.implicit_int8.is_none() => Err(library.unsupported(
                "build INT8 of a network without Q/DQ nodes and without calibration",
                "give --calibration-images, a calibration cache, or the int8 network",
            )),
            Precision::Fp16 if !has_calibration => Err(library.unsupported(
                "choose fp16 for a network of fp32",
                "this version takes the precision from the network only: export it with 16-bit weights",
            )),
            _ => Ok(()),
        }
    }

    fn set_precision(&self, request: &BuildRequest<'_>) -> Result<(), TensorRtError> {
        // Since generation 11 the network determines the precision.
        if !matches!(self.generation(), Generation::Eight | Generation::Ten) {
            return Ok(());
        }
        let flags: &[i32] = match request.precision {
            Precision::Fp32 => &[],
            Precision::Fp16 => &[flag::FP16],
            Precision::Int8 => &[flag::INT8, flag::FP16],
        };
        for number in flags {
            call!(self.config, CONFIG_SET_FLAG, (i32) -> (), *number)?;
        }
        Ok(())
    }

    fn set_device(&self, request: &BuildRequest<'_>) -> Result<(), TensorRtError> {
        if let Some(dla) = request.dla {
            let cores = call!(self.builder, BUILDER_DLA_CORES, () -> i32)?;
            if i64::from(dla) >= i64::from(cores) {
                return Err(self.library().unsupported(
                    "build for that DLA",
                    format!("core {dla} was requested, and this machine has {cores}; cores count from 0, or remove --dla"),
                ));
            }
            // `DeviceType::kDLA`.
            call!(self.config, CONFIG_SET_DEVICE, (i32) -> (), 1)?;
            call!(self.config, CONFIG_SET_DLA_CORE, (i32) -> (), dla as i32)?;
            if request.gpu_fallback {
                call!(self.config, CONFIG_SET_FLAG, (i32) -> (), flag::GPU_FALLBACK)?;
            }
        }
        if let Some((major, minor)) = request.compute_capability {
            if !self.library().has(&CONFIG_SET_CAPABILITY) {
                return Err(self.library().unsupported(
                    "build for another GPU",
                    "build on the machine that will run the engine",
                ));
            }
            let capability = i32::try_from(major * 10 + minor).unwrap_or(i32::MAX);
            let counted = call!(self.config, CONFIG_SET_CAPABILITIES, (i32) -> bool, 1)?;
            let accepted = counted
                && call!(self.config, CONFIG_SET_CAPABILITY, (i32, i32) -> bool, capability, 0)?;
            if !accepted {
                return Err(self.failed("IBuilderConfig::setComputeCapability"));
            }
        }
        Ok(())
    }

    fn inputs(&self) -> Result<Vec<Input>, TensorRtError> {
        shapes::inputs(&self.network, |call| self.failed(call))
    }

    /// Adds the optimization profiles that inputs with open axes need, and returns them.
    fn add_profiles(&self, request: &BuildRequest<'_>) -> Result<Vec<Object>, TensorRtError> {
        let mut shapes = Vec::new();
        for input in self.inputs()?.iter().filter(|input| input.is_dynamic()) {
            shapes.push(input.shapes(request)?);
        }
        if shapes.is_empty() {
            return Ok(Vec::new());
        }
        // Up to generation 8 a profile serves one context at a time.
        let count = if self.generation() == Generation::Eight {
            request.contexts.max(1)
        } else {
            1
        };
        (0..count).map(|_| self.add_profile(&shapes)).collect()
    }

    fn add_profile(&self, shapes: &[Shapes]) -> Result<Object, TensorRtError> {
        let profile = call!(self.builder, BUILDER_CREATE_PROFILE, () -> *mut c_void)?;
        // SAFETY: profiles belong to the builder, which outlives this use.
        let profile = unsafe { Object::borrowed(profile, self.library()) };
        let profile = profile.ok_or_else(|| self.failed("IBuilder::createOptimizationProfile"))?;
        for of in shapes {
            let name = c_name(&of.input)?;
            for (which, shape) in [(0, &of.min), (1, &of.opt), (2, &of.max)] {
                let dims = Dims::new(self.generation(), shape);
                let key = name.as_ptr();
                let accepted = match dims {
                    Some(Dims::Narrow(dims)) => {
                        call!(profile, PROFILE_SET_SHAPE, (*const c_char, i32, Dims32) -> bool, key, which, dims)?
                    }
                    Some(Dims::Wide(dims)) => {
                        call!(profile, PROFILE_SET_SHAPE, (*const c_char, i32, *const Dims64) -> bool, key, which, &dims)?
                    }
                    None => false,
                };
                if !accepted {
                    return Err(TensorRtError::Tensor {
                        tensor: of.input.clone(),
                        found: format!("{shape:?}"),
                        expected: "a shape that fits the network, min ≤ opt ≤ max".to_owned(),
                    });
                }
            }
        }
        let index =
            call!(self.config, CONFIG_ADD_PROFILE, (*const c_void) -> i32, profile.pointer())?;
        if index < 0 {
            return Err(self.failed("IBuilderConfig::addOptimizationProfile"));
        }
        Ok(profile)
    }

    /// Sets the timing cache of an earlier build, or an empty one. TensorRT ignores a cache of another GPU or version, which only costs time.
    fn timing_cache(&self, earlier: Option<&[u8]>) -> Result<Option<Object>, TensorRtError> {
        if !self.library().has(&CONFIG_CREATE_TIMING_CACHE) {
            return Ok(None);
        }
        for bytes in earlier.into_iter().chain([&[][..]]) {
            let pointer: *const c_void = if bytes.is_empty() {
                std::ptr::null()
            } else {
                bytes.as_ptr().cast()
            };
            let cache = call!(self.config, CONFIG_CREATE_TIMING_CACHE, (*const c_void, usize) -> *mut c_void, pointer, bytes.len())?;
            // SAFETY: the configuration created it for this caller.
            let Some(cache) = (unsafe { Object::owned(cache, self.library()) }) else {
                continue;
            };
            if call!(self.config, CONFIG_SET_TIMING_CACHE, (*const c_void, bool) -> bool, cache.pointer(), false)?
            {
                return Ok(Some(cache));
            }
        }
        Ok(None)
    }

    fn new_timing_cache(&self) -> Result<Option<Vec<u8>>, TensorRtError> {
        if !self.library().has(&CONFIG_TIMING_CACHE) {
            return Ok(None);
        }
        let cache = call!(self.config, CONFIG_TIMING_CACHE, () -> *mut c_void)?;
        // SAFETY: this object belongs to the configuration.
        let Some(cache) = (unsafe { Object::borrowed(cache, self.library()) }) else {
            return Ok(None);
        };
        let memory = call!(cache, TIMING_SERIALIZE, () -> *mut c_void)?;
        // SAFETY: the cache created it for this caller.
        let memory = unsafe { Object::owned(memory, self.library()) };
        memory.map(|memory| bytes(&memory)).transpose()
    }
}

/// A copy of the contents of an `IHostMemory`.
fn bytes(memory: &Object) -> Result<Vec<u8>, TensorRtError> {
    let data = call!(memory, MEMORY_DATA, () -> *const u8)?;
    let size = call!(memory, MEMORY_SIZE, () -> usize)?;
    if data.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the object owns `size` bytes at `data`, and is alive.
    Ok(unsafe { std::slice::from_raw_parts(data, size) }.to_vec())
}
