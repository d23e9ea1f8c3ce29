// SPDX-License-Identifier: Apache-2.0
//! One open network: an ONNX Runtime session, its input tensors, and the memory pool of its layers.
//!
//! Independent of frames and of the meaning of the outputs. [`onnx`](super::onnx) opens and runs it.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use ort::environment::Environment;
use ort::ep::{self, ExecutionProvider};
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{
    HasSelectedOutputs, OutputSelector, RunOptions, Session, SessionInputValue, SessionOutputs,
};
use ort::value::{
    DynValue, PrimitiveTensorElementType, Tensor, TensorElementType, TensorRef, ValueType,
};

use super::decoders::{DType, TensorView};
use super::layouts::keys::MAX_TENSORS;
use super::model::{InputElement, ModelSpec};
use super::shared_model::SharedModel;
use jetwatch_nvidia::onnx::optimizing_session;
use jetwatch_pixels::{CHANNELS, Slot};

/// The session keeps the memory of its layers in a pool. Without the pool, memory that is allocated and freed in each run
/// fragments the heap: two sessions of yolox_nano took 128 MiB without it, 79 MiB with it.
const ARENA: bool = true;
/// No memory plan from the first run: it would add to the memory that the first run took without one, 87 MiB instead of 79.
/// With [`FIRST_REGION`] it has no benefit.
const MEMORY_PATTERN: bool = false;

/// Size of the first region of the pool, as a multiple of the input tensor.
///
/// By default the pool grows by regions of 1, 2, 4 and 8 MiB, and no layer can use free memory across two regions. In one
/// region the layers of yolox_nano touch 5.6 MiB instead of 8.5. Untouched pages take no memory; the pool's table takes
/// 1/32 of the region. A network that needs more gets further regions.
const FIRST_REGION: usize = 4;

/// Execution provider of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provider {
    /// The CPU.
    Cpu,
    /// The first NVIDIA GPU, and the CPU for layers that it cannot run.
    Cuda,
}

impl Provider {
    /// Whether the open library was built with the CUDA provider. Whether it works is known when a session is opened.
    pub(super) fn has_cuda() -> bool {
        ep::CUDA::is_available().unwrap_or(false)
    }
}

/// Opens `network`. `threads` run its layers, including the thread that calls `run`. With `profile`, every run is recorded in a
/// file whose name begins with this path; [`OrtSession::end_profile`] writes it.
pub(super) fn open_session(
    environment: &Environment,
    provider: Provider,
    threads: usize,
    network: SharedModel,
    profile: Option<&Path>,
) -> ort::Result<Session> {
    let cpu = ep::CPU::default().with_arena_allocator(ARENA).build();
    let providers = match provider {
        Provider::Cpu => vec![cpu],
        Provider::Cuda => vec![ep::CUDA::default().build().error_on_failure(), cpu],
    };
    let mut builder = optimizing_session(environment)?
        .with_intra_threads(threads.max(1))?
        .with_inter_threads(1)?
        // Workers wait for frames much of the time; spinning would burn the cores that decode video.
        .with_intra_op_spinning(false)?
        .with_memory_pattern(MEMORY_PATTERN)?
        .with_execution_providers(providers)?;
    if let Some(prefix) = profile {
        builder = builder.with_profiling(prefix)?;
    }
    if network.is_shared() {
        // The session points into the bytes, which is sound because they live as long as the process.
        builder = builder
            .with_config_entry("session.use_ort_model_bytes_directly", "1")?
            .with_config_entry("session.use_ort_model_bytes_for_initializers", "1")?;
    }
    builder.commit_from_memory(network.bytes())
}

/// A session with its tensors.
pub(super) struct OrtSession {
    session: Session,
    /// Names of the outputs in the layout's order.
    output_names: Vec<String>,
    /// Elements per image of each output, from the first run.
    output_lens: Vec<usize>,
    /// `[slots, 3, height, width]`, rewritten for every run.
    input: ImageInput,
    input_name: String,
    /// Names and values of the other inputs.
    extra_inputs: Vec<(String, ExtraInput)>,
    /// The outputs are allocated by each run in the pool of the session. There they reuse memory of finished layers, while
    /// preallocated outputs would need their own.
    options: RunOptions<HasSelectedOutputs>,
    /// Whether the number of rows may differ from run to run.
    rows_vary: bool,
    slots: usize,
    /// Whether each run computes all slots.
    is_fixed: bool,
}

/// The input for images.
enum ImageInput {
    Float32(Tensor<f32>),
    Uint8(Tensor<u8>),
}

impl ImageInput {
    fn new(element: InputElement, shape: [usize; 4]) -> ort::Result<Self> {
        let memory = Allocator::default();
        Ok(match element {
            InputElement::Float32 => Self::Float32(Tensor::new(&memory, shape)?),
            InputElement::Uint8 => Self::Uint8(Tensor::new(&memory, shape)?),
        })
    }

    fn clear(&mut self) {
        match self {
            Self::Float32(tensor) => tensor.extract_tensor_mut().1.fill(0.0),
            Self::Uint8(tensor) => tensor.extract_tensor_mut().1.fill(0),
        }
    }

    /// Those in the first `count` slots.
    fn first(&self, count: usize) -> ort::Result<SessionInputValue<'_>> {
        Ok(match self {
            Self::Float32(tensor) => first(tensor, count)?.into(),
            Self::Uint8(tensor) => first(tensor, count)?.into(),
        })
    }
}

/// The constant values of an additional input, two per image.
enum ExtraInput {
    /// Width and height of the input in pixels.
    Sizes(Tensor<i64>),
    /// Scale of the images: ones.
    Scales(Tensor<f32>),
}

/// Type and shape of one output after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunShape {
    /// Type of the elements.
    pub(super) element: DType,
    /// All axes, including the batch axis.
    pub(super) axes: Vec<usize>,
}

impl OrtSession {
    /// Allocates the tensors for runs of at most `slots` images, or of exactly so many where they are fixed.
    pub(super) fn new(
        spec: &ModelSpec,
        session: Session,
        provider: Provider,
        (slots, is_fixed): (usize, bool),
    ) -> ort::Result<Self> {
        let size = spec.input.size;
        let shape = [slots, CHANNELS, size.height as usize, size.width as usize];
        if provider == Provider::Cpu {
            reserve(&session, FIRST_REGION * shape.iter().product::<usize>())?;
        }
        let input = ImageInput::new(spec.input.element, shape)?;
        let mut further = Vec::new();
        if let Some(name) = &spec.input.sizes_name {
            let sizes = [i64::from(size.width), i64::from(size.height)].repeat(slots);
            let sizes = Tensor::from_array(([slots, 2], sizes))?;
            further.push((name.clone(), ExtraInput::Sizes(sizes)));
        }
        if let Some(name) = &spec.input.scales_name {
            let scales = Tensor::from_array(([slots, 2], vec![1.0_f32; 2 * slots]))?;
            further.push((name.clone(), ExtraInput::Scales(scales)));
        }
        let output_names = spec.output.tensors.clone();
        let selected = output_names
            .iter()
            .fold(OutputSelector::no_default(), |selector, name| {
                selector.with(name.as_str())
            });
        Ok(Self {
            session,
            output_lens: Vec::new(),
            output_names,
            input_name: spec.input.name.clone(),
            input,
            extra_inputs: further,
            rows_vary: spec.output.layout.rows_vary(),
            options: RunOptions::new()?.with_outputs(selected),
            slots,
            is_fixed,
        })
    }

    /// Ends the recording of a session that was opened with a profile; returns its file.
    pub(super) fn end_profile(&mut self) -> ort::Result<PathBuf> {
        self.session.end_profiling().map(PathBuf::from)
    }

    /// Maximum number of images in one run.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// The part of the input for image `index` of a run.
    pub(super) fn slot(&mut self, index: usize) -> Slot<'_> {
        match &mut self.input {
            ImageInput::Float32(tensor) => Slot::F32(part(tensor, index, self.slots)),
            ImageInput::Uint8(tensor) => Slot::U8(part(tensor, index, self.slots)),
        }
    }

    /// Runs the network on zeros in all slots and returns the types and shapes of the outputs. Later runs must have the
    /// same, unless the number of rows varies.
    pub(super) fn first_run(&mut self) -> ort::Result<Vec<RunShape>> {
        self.input.clear();
        let slots = self.slots;
        let image_input = (self.input_name.as_str(), &self.input);
        let session = &mut self.session;
        let outputs = infer(
            session,
            image_input,
            &self.extra_inputs,
            &self.options,
            slots,
        )?;
        let shape = |name: &String| {
            let value = &outputs[name.as_str()];
            let element = match tensor_view(name, value)? {
                TensorView::F32(_) => DType::F32,
                TensorView::I32(_) => DType::I32,
                TensorView::I64(_) => DType::I64,
            };
            // The axes of an actual tensor are never negative.
            let axes = value.shape().iter().map(|axis| *axis as usize).collect();
            Ok(RunShape { element, axes })
        };
        let shapes: Vec<RunShape> = self
            .output_names
            .iter()
            .map(shape)
            .collect::<ort::Result<_>>()?;
        self.output_lens = shapes
            .iter()
            .map(|shape| shape.axes.iter().product::<usize>() / slots)
            .collect();
        Ok(shapes)
    }

    /// Runs the network on the first `count` slots and calls `read` with the outputs. Each tensor holds the values of all
    /// images, as many per image as in the first run unless the number of rows varies.
    pub(super) fn run<T>(
        &mut self,
        count: usize,
        read: impl FnOnce(&[TensorView<'_>]) -> T,
    ) -> ort::Result<T> {
        let image_input = (self.input_name.as_str(), &self.input);
        let session = &mut self.session;
        let computed = if self.is_fixed { self.slots } else { count };
        let outputs = infer(
            session,
            image_input,
            &self.extra_inputs,
            &self.options,
            computed,
        )?;
        let mut tensors = [TensorView::F32(&[]); MAX_TENSORS];
        let expected = self.output_names.iter().zip(&self.output_lens);
        for (tensor, (name, len)) in tensors.iter_mut().zip(expected) {
            *tensor = tensor_view(name, &outputs[name.as_str()])?;
            if tensor.len() != len * computed && !self.rows_vary {
                let found = tensor.len();
                return Err(ort::Error::new(format!(
                    "output `{name}` has {found} numbers for {computed} images, but had {len} for each in the first run"
                )));
            }
            if self.is_fixed {
                *tensor = tensor.slice(0..len * count);
            }
        }
        Ok(read(&tensors[..self.output_names.len()]))
    }
}

/// The numbers of image `index` of `slots`.
fn part<T>(tensor: &mut Tensor<T>, index: usize, slots: usize) -> &mut [T]
where
    T: PrimitiveTensorElementType + Debug,
{
    let (_, numbers) = tensor.extract_tensor_mut();
    let slot_len = numbers.len() / slots;
    &mut numbers[index * slot_len..][..slot_len]
}

/// A view of the first `count` images.
fn first<T>(tensor: &Tensor<T>, count: usize) -> ort::Result<TensorRef<'_, T>>
where
    T: PrimitiveTensorElementType + Clone + Debug + 'static,
{
    let (shape, numbers) = tensor.extract_tensor();
    let slot_len = numbers.len() / shape[0] as usize;
    let shape = [count as i64, shape[1], shape[2], shape[3]];
    TensorRef::from_array_view((shape, &numbers[..count * slot_len]))
}

/// Runs `session` on the first `count` images of `input`.
fn infer<'s>(
    session: &'s mut Session,
    (name, input): (&str, &ImageInput),
    extra_inputs: &[(String, ExtraInput)],
    options: &'s RunOptions<HasSelectedOutputs>,
    count: usize,
) -> ort::Result<SessionOutputs<'s>> {
    let images = input.first(count)?;
    if extra_inputs.is_empty() {
        return session.run_with_options(ort::inputs![images], options);
    }
    let mut inputs = ort::inputs![name => images];
    let shape = [count as i64, 2];
    for (name, numbers) in extra_inputs {
        let value = match numbers {
            ExtraInput::Sizes(sizes) => {
                let (_, numbers) = sizes.extract_tensor();
                TensorRef::from_array_view((shape, &numbers[..2 * count]))?.into()
            }
            ExtraInput::Scales(scales) => {
                let (_, numbers) = scales.extract_tensor();
                TensorRef::from_array_view((shape, &numbers[..2 * count]))?.into()
            }
        };
        inputs.push((name.as_str().into(), value));
    }
    session.run_with_options(inputs, options)
}

/// The numbers of an output.
pub(super) fn tensor_view<'o>(name: &str, value: &'o DynValue) -> ort::Result<TensorView<'o>> {
    Ok(match value.dtype() {
        ValueType::Tensor {
            ty: TensorElementType::Float32,
            ..
        } => TensorView::F32(value.try_extract_tensor()?.1),
        ValueType::Tensor {
            ty: TensorElementType::Int32,
            ..
        } => TensorView::I32(value.try_extract_tensor()?.1),
        ValueType::Tensor {
            ty: TensorElementType::Int64,
            ..
        } => TensorView::I64(value.try_extract_tensor()?.1),
        other => {
            let text =
                format!("output `{name}` is {other}, which differs from the network's declaration");
            return Err(ort::Error::new(text));
        }
    })
}

/// Makes the pool of `session` start with one region of at least `numbers` floats: the pool keeps freed memory.
fn reserve(session: &Session, numbers: usize) -> ort::Result<()> {
    let pool = MemoryInfo::new(
        AllocationDevice::CPU,
        0,
        AllocatorType::Arena,
        MemoryType::Default,
    )?;
    let pool = Allocator::new(session, pool)?;
    drop(pool.alloc::<f32>(numbers)?);
    Ok(())
}
