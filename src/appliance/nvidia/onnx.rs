// SPDX-License-Identifier: Apache-2.0
//! ONNX Runtime's CUDA provider as the network of an [`InferenceSession`].
//!
//! An [`OnnxNetwork`] belongs to one worker. It holds one session of ONNX Runtime for each number of images that a run may
//! have: the shapes of a session never change, so its run can be recorded as a CUDA graph. All sessions use one stream, which
//! is that of the inference session, and its memory: tensors are bound by address once, and a run copies nothing.
//!
//! ONNX Runtime itself is opened by the caller. With the tests' double of libcuda, whose memory is memory of the host, the
//! layers run on the CPU.

use std::ffi::{CString, c_void};
use std::iter::once;
use std::ptr;
use std::sync::Arc;

use ort::AsPointer;
use ort::environment::Environment;
use ort::ep::{self, ExecutionProviderDispatch};
use ort::logging::LogLevel;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{IoBinding, NoSelectedOutputs, RunOptions, Session};
use ort::value::{DynValue, Outlet, TensorElementType, ValueType};
use parking_lot::Mutex;

use super::cuda::{CudaError, Device, Stream};
use super::session::{Enqueue, InferenceSession, Plan, SessionError};

/// Begins a session that optimizes its network.
///
/// `Pad_Fusion` is left out: up to ONNX Runtime 1.31, it makes zeros in front of a MaxPool the padding of that, which it ignores.
///
/// # Errors
/// The library refuses it.
pub fn optimizing_session(environment: &Environment) -> ort::Result<SessionBuilder> {
    Ok(Session::builder(environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_config_entry("optimization.disable_specified_optimizers", "Pad_Fusion")?)
}

/// How the provider runs a network.
#[derive(Debug, Clone, Copy)]
pub struct ProviderOptions {
    /// Whether layers that the GPU cannot run go to the CPU. Such a network is not recorded as a graph.
    pub cpu_layers: bool,
    /// Threads of layers on the CPU, at least 1.
    pub threads: usize,
}

/// An input or output of the network for one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnnxTensor {
    /// Its name.
    pub name: String,
    /// Type of its elements: floats of 32 bits, integers of 32 or 64 bits, or bytes.
    pub element: TensorElementType,
    /// Its axes without that of the batch.
    pub axes: Vec<i64>,
    /// Whether the network reads it.
    pub is_input: bool,
}

impl OnnxTensor {
    fn bytes_per_image(&self) -> Option<usize> {
        let element = match self.element {
            TensorElementType::Float32 | TensorElementType::Int32 => 4,
            TensorElementType::Int64 => 8,
            TensorElementType::Uint8 => 1,
            _ => return None,
        };
        self.axes.iter().try_fold(element, |bytes: usize, axis| {
            bytes.checked_mul(usize::try_from(*axis).ok()?)
        })
    }
}

/// An output of a single run.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxOutput {
    /// Type of its elements.
    pub element: TensorElementType,
    /// All axes.
    pub axes: Vec<i64>,
    /// The elements; empty unless they are 32-bit floats.
    pub floats: Vec<f32>,
}

/// The sessions of one worker. Fields are dropped in order: the sessions use the stream.
pub struct OnnxNetwork {
    sessions: Vec<FixedSession>,
    options: ProviderOptions,
    environment: Environment,
    stream: Arc<Stream>,
}

/// A network for a fixed number of images.
struct FixedSession {
    session: Session,
    slots: usize,
}

impl OnnxNetwork {
    /// A network without sessions, in a new stream of `device`. ONNX Runtime uses its first GPU.
    ///
    /// # Errors
    /// The driver reports a failure.
    pub fn new(
        device: &Arc<Device>,
        environment: &Environment,
        options: ProviderOptions,
    ) -> Result<Self, CudaError> {
        Ok(Self {
            sessions: Vec::new(),
            options,
            environment: environment.clone(),
            stream: Arc::new(Stream::new(device)?),
        })
    }

    /// Opens `network`, an ONNX file whose inputs are for exactly `slots` images, and returns its inputs and outputs. Takes up
    /// to some seconds.
    ///
    /// # Errors
    /// ONNX Runtime refuses the network or the provider.
    pub fn add(&mut self, slots: usize, network: &[u8]) -> ort::Result<(&[Outlet], &[Outlet])> {
        let is_double = self.stream.device().is_double();
        let mut builder = optimizing_session(&self.environment)?
            .with_intra_threads(self.options.threads.max(1))?
            .with_inter_threads(1)?
            .with_intra_op_spinning(false)?
            .with_memory_pattern(false)?
            // Every failure comes back as an error, and the caller has another way.
            .with_log_level(LogLevel::Fatal)?
            .with_execution_providers(self.providers(is_double))?;
        if !self.options.cpu_layers && !is_double {
            builder = builder.with_config_entry("session.disable_cpu_ep_fallback", "1")?;
        }
        let session = builder.commit_from_memory(network)?;
        let added = self.sessions.len();
        self.sessions.push(FixedSession { session, slots });
        let session = &self.sessions[added].session;
        Ok((session.inputs(), session.outputs()))
    }

    fn providers(&self, is_double: bool) -> Vec<ExecutionProviderDispatch> {
        let cpu = ep::CPU::default().with_arena_allocator(true).build();
        if is_double {
            return vec![cpu];
        }
        // The provider's own settings: a heuristic search is 10 % slower; channels last are a few percent faster, but open in up
        // to 5 times as long.
        let cuda = ep::CUDA::default();
        // SAFETY: every session that is opened with it is dropped before the stream: in `self` and in `BoundSession`, and no
        // session, nor a value that keeps one alive, leaves them.
        let cuda = unsafe { cuda.with_compute_stream(self.stream.raw().cast()) };
        let cuda = cuda.build().error_on_failure();
        match self.options.cpu_layers {
            true => vec![cuda, cpu],
            // ONNX Runtime adds its CPU provider itself, and refuses the one and its prohibition together.
            false => vec![cuda],
        }
    }

    /// Runs the session for `slots` images once with `inputs` in host memory, and copies the outputs named `outputs`.
    ///
    /// # Errors
    /// There is no such session, or the run fails.
    pub fn run(
        &mut self,
        slots: usize,
        inputs: Vec<(String, DynValue)>,
        outputs: &[String],
    ) -> ort::Result<Vec<OnnxOutput>> {
        let found = self.sessions.iter_mut().find(|fixed| fixed.slots == slots);
        let Some(FixedSession { session, .. }) = found else {
            return Err(ort::Error::new(format!("no session for {slots} images")));
        };
        let mut options = RunOptions::new()?;
        options.set_log_level(LogLevel::Fatal)?;
        let computed = session.run_with_options(inputs, &options)?;
        let copy = |name: &String| {
            let value = computed
                .get(name)
                .ok_or_else(|| ort::Error::new(format!("no output `{name}`")))?;
            let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
                return Err(ort::Error::new(format!("output `{name}` is no tensor")));
            };
            let floats = match ty {
                TensorElementType::Float32 => value.try_extract_tensor::<f32>()?.1.to_vec(),
                _ => Vec::new(),
            };
            Ok(OnnxOutput {
                element: *ty,
                axes: shape.to_vec(),
                floats,
            })
        };
        outputs.iter().map(copy).collect()
    }

    /// The inference session of `plan`, whose batch is that of the largest session. `tensors` has the type and the shape of
    /// each tensor of the plan.
    ///
    /// # Errors
    /// Memory runs out, or the tensors do not fit the plan.
    pub fn session(
        self,
        plan: &Plan,
        tensors: Vec<OnnxTensor>,
    ) -> Result<InferenceSession, SessionError> {
        self.check(plan, &tensors)?;
        let network = |reason: ort::Error| SessionError::Network {
            doing: "bind its tensors".to_owned(),
            reason: reason.to_string(),
        };
        let mut sizes = Vec::with_capacity(self.sessions.len());
        for FixedSession { session, slots } in self.sessions {
            let mut options = RunOptions::new().map_err(network)?;
            // The session waits for its stream itself, after the copies behind the network.
            options.disable_device_sync().map_err(network)?;
            let size = BoundSession {
                binding: session.create_binding().map_err(network)?,
                options,
                session,
                slots,
                _stream: Arc::clone(&self.stream),
            };
            sizes.push((slots, Mutex::new(size)));
        }
        sizes.sort_by_key(|(slots, _)| *slots);
        let is_double = self.stream.device().is_double();
        let plan = Plan {
            graphs: plan.graphs && !self.options.cpu_layers && !is_double,
            ..plan.clone()
        };
        let network = Network {
            sizes: sizes.into(),
            tensors: tensors.into(),
            current: 0,
            is_double,
        };
        InferenceSession::in_stream(self.stream, Box::new(network), &plan)
    }

    /// Checks what binding relies on: each tensor of the plan has its type and shape here, and its memory is large enough for
    /// every session.
    fn check(&self, plan: &Plan, tensors: &[OnnxTensor]) -> Result<(), SessionError> {
        let refuse = |what: String, found: String, expected: String| {
            Err(SessionError::Plan {
                what,
                found,
                expected,
            })
        };
        let largest = self.sessions.iter().map(|fixed| fixed.slots).max();
        if largest != Some(plan.batch) {
            let found = plan.batch.to_string();
            return refuse("the batch".to_owned(), found, format!("{largest:?}"));
        }
        for (name, bytes) in plan.tensors() {
            let tensor = tensors.iter().find(|tensor| tensor.name == name);
            let wanted = tensor.and_then(OnnxTensor::bytes_per_image);
            if wanted != Some(bytes) {
                let found = format!("{bytes} bytes per image");
                return refuse(format!("tensor `{name}`"), found, format!("{wanted:?}"));
            }
        }
        Ok(())
    }
}

/// A session with its tensors bound. Fields are dropped in order: the session uses the stream.
struct BoundSession {
    binding: IoBinding,
    options: RunOptions<NoSelectedOutputs>,
    session: Session,
    slots: usize,
    _stream: Arc<Stream>,
}

impl BoundSession {
    /// Binds `tensor` to the memory at `address`.
    ///
    /// # Safety
    /// There is space for all slots at `address`, in memory as `memory` says, until the last run is done.
    unsafe fn bind(
        &mut self,
        tensor: &OnnxTensor,
        address: u64,
        memory: &MemoryInfo<'_>,
    ) -> ort::Result<()> {
        let name = CString::new(tensor.name.as_str()).map_err(ort::Error::wrap)?;
        let shape: Vec<i64> = once(self.slots as i64)
            .chain(tensor.axes.iter().copied())
            .collect();
        let bytes = self.slots * tensor.bytes_per_image().unwrap_or(0);
        let data: *mut c_void = ptr::with_exposed_provenance_mut(address as usize);
        let mut value = ptr::null_mut();
        let api = ort::api();
        // SAFETY: shape and name are alive, and the caller guarantees the memory, which ONNX Runtime does not take over.
        let status = unsafe {
            (api.CreateTensorWithDataAsOrtValue)(
                memory.ptr(),
                data,
                bytes,
                shape.as_ptr(),
                shape.len(),
                tensor.element.into(),
                &raw mut value,
            )
        };
        // SAFETY: the status was just returned and is used once.
        unsafe { ort::Error::<()>::result_from_status(status) }?;
        let bind = match tensor.is_input {
            true => api.BindInput,
            false => api.BindOutput,
        };
        // SAFETY: binding, name and value are alive.
        let status = unsafe { bind(self.binding.ptr_mut(), name.as_ptr(), value) };
        // SAFETY: created above; the binding has its own reference.
        unsafe { (api.ReleaseValue)(value) };
        // SAFETY: the status was just returned and is used once.
        unsafe { ort::Error::<()>::result_from_status(status) }
    }

    /// Enqueues a run.
    ///
    /// # Safety
    /// Nothing else uses the bound memory until the stream has passed the run.
    unsafe fn enqueue(&mut self) -> ort::Result<()> {
        let (session, options, binding) = (
            self.session.ptr_mut(),
            self.options.ptr(),
            self.binding.ptr(),
        );
        // SAFETY: all three are alive, and the binding is one of the session.
        let status = unsafe { (ort::api().RunWithBinding)(session, options, binding) };
        // SAFETY: the status was just returned and is used once.
        unsafe { ort::Error::<()>::result_from_status(status) }
    }
}

/// One context of the network. All contexts of a worker share its sessions.
struct Network {
    /// By number of images, ascending.
    sizes: Arc<[(usize, Mutex<BoundSession>)]>,
    tensors: Arc<[OnnxTensor]>,
    /// Index of the session that runs.
    current: usize,
    is_double: bool,
}

impl Enqueue for Network {
    /// The smallest session with enough slots; the others compute on what is left in the memory, and are not read.
    fn set_batch(&mut self, count: usize) -> Result<(), String> {
        let fits = self.sizes.iter().position(|(slots, _)| *slots >= count);
        self.current = fits.ok_or_else(|| format!("no session for {count} images"))?;
        Ok(())
    }

    unsafe fn set_address(&mut self, tensor: &str, address: u64) -> Result<(), String> {
        let found = self.tensors.iter().find(|info| info.name == tensor);
        let info = found.ok_or_else(|| format!("there is no tensor `{tensor}`"))?;
        let device = match self.is_double {
            true => AllocationDevice::CPU,
            false => AllocationDevice::CUDA,
        };
        let memory = MemoryInfo::new(device, 0, AllocatorType::Device, MemoryType::Default);
        let memory = memory.map_err(|error| error.to_string())?;
        for (_, size) in self.sizes.iter() {
            // SAFETY: the caller guarantees space for the plan's batch, the number of slots of the largest session, and
            // `OnnxNetwork::check` has compared the bytes of an image.
            unsafe { size.lock().bind(info, address, &memory) }
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    unsafe fn enqueue(&mut self, _stream: *mut c_void) -> Result<(), String> {
        let (_, size) = &self.sizes[self.current];
        // SAFETY: the caller guarantees the tensors; the stream is the one that the provider was given.
        unsafe { size.lock().enqueue() }.map_err(|error| error.to_string())
    }

    fn new_context(&mut self) -> Result<Option<Box<dyn Enqueue>>, String> {
        Ok(Some(Box::new(Self {
            sizes: Arc::clone(&self.sizes),
            tensors: Arc::clone(&self.tensors),
            ..*self
        })))
    }

    /// The provider releases buffers of the host by such a call.
    fn forbids_host_calls(&self) -> bool {
        true
    }
}
