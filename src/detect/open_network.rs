//! One open network: an ONNX Runtime session, its input tensor, and the memory that its layers share.
//!
//! Knows nothing of frames and of what the numbers mean. [`onnx`](super::onnx) opens and runs it.

use ort::environment::Environment;
use ort::ep;
use ort::memory::{AllocationDevice, Allocator, AllocatorType, MemoryInfo, MemoryType};
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{HasSelectedOutputs, OutputSelector, RunOptions, Session};
use ort::value::{Tensor, TensorRef};

use super::model::ModelSpec;
use super::optimized::Optimized;
use super::tensor::CHANNELS;

/// The session keeps the memory of its layers in a pool of its own, since memory that comes from and goes to the system
/// at every run scatters: two sessions of yolox_nano took 128 MiB without it, 79 with it.
const ARENA: bool = true;
/// A plan from the first run would lie beside the memory that the first run took without one: 87 MiB instead of 79.
/// With [`FIRST_REGION`] there is nothing left for it to win.
const MEMORY_PATTERN: bool = false;

/// Size of the pool's first region, in sizes of the input.
///
/// Left alone, the pool grows by regions of 1, 2, 4 and 8 MiB, and no layer can use what is free at the end of one and at
/// the start of the next. In one region the layers of yolox_nano touch 5.6 MiB instead of 8.5; pages that nothing
/// touches take no memory, only the pool's table does: a 32nd part of the region. A network that needs more gets
/// further regions.
const FIRST_REGION: usize = 4;

/// Opens `network`; `threads` run its layers, the caller of a run is one of them.
pub(super) fn session(
    environment: &Environment,
    threads: usize,
    network: Optimized,
) -> ort::Result<Session> {
    let mut builder = Session::builder(environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(threads.max(1))?
        .with_inter_threads(1)?
        // Workers wait for frames much of the time; spinning would burn the cores that decode video.
        .with_intra_op_spinning(false)?
        .with_memory_pattern(MEMORY_PATTERN)?
        .with_execution_providers([ep::CPU::default().with_arena_allocator(ARENA).build()])?;
    if network.is_shared() {
        // The session keeps pointing into the bytes, which is sound because they live as long as the process.
        builder = builder
            .with_config_entry("session.use_ort_model_bytes_directly", "1")?
            .with_config_entry("session.use_ort_model_bytes_for_initializers", "1")?;
    }
    builder.commit_from_memory(network.bytes())
}

/// A session with the memory of its tensors.
pub(super) struct OpenNetwork {
    session: Session,
    output_name: String,
    /// `[slots, 3, height, width]`, rewritten for every run.
    input: Tensor<f32>,
    /// The output is made by every run, in the session's pool: there it takes the place of layers that are done, where
    /// one that is kept would need memory of its own.
    options: RunOptions<HasSelectedOutputs>,
    slots: usize,
}

impl OpenNetwork {
    /// Makes the tensors for runs of at most `slots` pictures.
    pub(super) fn new(spec: &ModelSpec, session: Session, slots: usize) -> ort::Result<Self> {
        let size = spec.input.size;
        let shape = [slots, CHANNELS, size.height as usize, size.width as usize];
        reserve(&session, FIRST_REGION * shape.iter().product::<usize>())?;
        let input = Tensor::<f32>::new(&Allocator::default(), shape)?;
        let output_name = spec.output.name.clone();
        let options = RunOptions::new()?
            .with_outputs(OutputSelector::no_default().with(output_name.as_str()));
        Ok(Self {
            session,
            output_name,
            input,
            options,
            slots,
        })
    }

    /// Most pictures in one run.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// The part of the input for picture `index` of a run.
    pub(super) fn slot(&mut self, index: usize) -> &mut [f32] {
        let (_, numbers) = self.input.extract_tensor_mut();
        let slot_len = numbers.len() / self.slots;
        &mut numbers[index * slot_len..][..slot_len]
    }

    /// Runs the network on zeros in all slots and gives the shape of the output.
    pub(super) fn shape_of_run(&mut self) -> ort::Result<Vec<i64>> {
        self.input.extract_tensor_mut().1.fill(0.0);
        let outputs = self
            .session
            .run_with_options(ort::inputs![&self.input], &self.options)?;
        Ok(outputs[self.output_name.as_str()].shape().to_vec())
    }

    /// Runs the network on the first `count` slots and hands the numbers of the output to `take`.
    pub(super) fn run<T>(
        &mut self,
        count: usize,
        take: impl FnOnce(&[f32]) -> T,
    ) -> ort::Result<T> {
        let (shape, numbers) = self.input.extract_tensor();
        let slot_len = numbers.len() / self.slots;
        let shape = [count as i64, shape[1], shape[2], shape[3]];
        let view = TensorRef::from_array_view((shape, &numbers[..count * slot_len]))?;
        let outputs = self
            .session
            .run_with_options(ort::inputs![view], &self.options)?;
        let (_, numbers) = outputs[self.output_name.as_str()].try_extract_tensor::<f32>()?;
        Ok(take(numbers))
    }
}

/// Makes the pool of `session` start with one region for at least `numbers` numbers: it keeps what it is given back.
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
