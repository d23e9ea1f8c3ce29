//! Which execution context runs which batch count, and what of it is recorded as a graph.
//!
//! A graph holds the state that the context had when it was recorded: a context whose shapes change afterwards makes its
//! graphs worthless (so NVIDIA's guide says of TensorRT). So each count has a context of its own, made when the count first
//! comes. Where the network gives no second context, all counts share one, and a change of the count drops its graph.

use super::enqueue::Enqueue;
use super::error::ExecutionError;
use super::submission::{Submission, TimingEvents};
use super::timing::LayerTime;
use crate::cuda::Graph;

/// One of so many runs of a graph tells the times of its stages.
const TIMING_SAMPLE_INTERVAL: usize = 32;

/// A context and what is known of it. Fields are dropped in order: the graph uses the context's memory.
pub(super) struct BatchContext {
    /// The recorded run.
    graphs: Option<CudaGraphs>,
    pub(super) network: Box<dyn Enqueue>,
    /// The batch that the context is set to.
    count: Option<usize>,
    /// Runs with that batch since it was set.
    runs: usize,
}

/// A run recorded twice.
struct CudaGraphs {
    plain: Graph,
    timed: Graph,
}

/// All lanes of one execution.
pub(super) struct ContextPool {
    contexts: Vec<BatchContext>,
    mode: Mode,
    /// Whether times of layers are to be taken after each run.
    measures_layers: bool,
}

/// How runs are put into the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Call by call.
    Eager,
    /// As graphs, with a context for each count.
    Graphs,
    /// As graphs, with one context for all counts.
    SharedGraphs,
}

impl ContextPool {
    /// Sets the addresses of `network`'s tensors.
    pub(super) fn new(
        network: Box<dyn Enqueue>,
        work: &Submission,
        graphs: bool,
    ) -> Result<Self, ExecutionError> {
        let lane = BatchContext::new(network, work)?;
        Ok(Self {
            contexts: vec![lane],
            mode: if graphs { Mode::Graphs } else { Mode::Eager },
            measures_layers: false,
        })
    }

    /// Has all runs go call by call from now on, in the lane that is returned. The stream must be empty.
    pub(super) fn eager(&mut self) -> &mut BatchContext {
        self.mode = Mode::Eager;
        self.contexts.truncate(1);
        let lane = &mut self.contexts[0];
        lane.graphs = None;
        lane
    }

    /// Has the network's layers measured from now on. The stream must be empty.
    pub(super) fn measure_layers(&mut self) -> Result<(), ExecutionError> {
        let network = &mut self.eager().network;
        network
            .measure_layers()
            .map_err(|reason| ExecutionError::Network {
                doing: "measure its layers".to_owned(),
                reason,
            })?;
        self.measures_layers = true;
        Ok(())
    }

    /// Takes the layers' times of the run that has just ended, if they are measured.
    pub(super) fn collect_layer_times(&mut self) -> Result<(), ExecutionError> {
        if !self.measures_layers {
            return Ok(());
        }
        self.contexts[0]
            .network
            .collect_layer_times()
            .map_err(|reason| ExecutionError::Network {
                doing: "tell the times of its layers".to_owned(),
                reason,
            })
    }

    /// Times of the layers in all runs that were measured.
    pub(super) fn layer_times(&self) -> Vec<LayerTime> {
        self.contexts[0].network.layer_times()
    }

    /// Whether the next run of `count` is one launch of a graph.
    pub(super) fn is_recorded(&self, count: usize) -> bool {
        self.contexts
            .iter()
            .any(|lane| lane.count == Some(count) && lane.graphs.is_some())
    }

    /// Puts a run of `count` pictures into the stream and says which of its stages are marked.
    ///
    /// # Safety
    /// As of [`Submission::enqueue`]; the run before is done.
    pub(super) unsafe fn enqueue(
        &mut self,
        work: &Submission,
        count: usize,
    ) -> Result<TimingEvents, ExecutionError> {
        let index = self.find(work, count)?;
        let lane = &mut self.contexts[index];
        lane.set_count(count)?;
        lane.runs += 1;
        let Some(graphs) = &mut lane.graphs else {
            // SAFETY: the caller vouches for it.
            unsafe { work.enqueue(&mut *lane.network, count, TimingEvents::All) }?;
            return Ok(TimingEvents::All);
        };
        let (graph, marks) = match lane.runs.is_multiple_of(TIMING_SAMPLE_INTERVAL) {
            true => (&mut graphs.timed, TimingEvents::AllInGraph),
            false => (&mut graphs.plain, TimingEvents::Ends),
        };
        work.record_begin(marks)?;
        // SAFETY: the graph was recorded of this lane's context, whose shapes and addresses are unchanged since
        // (`set_count` drops it otherwise), and of `submission`, whose buffers live as long; the caller vouches for the rest.
        unsafe { graph.launch(&work.stream) }?;
        work.record_end(marks)?;
        Ok(marks)
    }

    /// Records the run of `count`, once it ran call by call (twice, where a change of the count would undo it), so that
    /// the network has done by then what it does only after a change of shape. The stream must be empty.
    pub(super) fn record(&mut self, work: &Submission, count: usize) {
        let needed = match self.mode {
            Mode::Eager => return,
            Mode::Graphs => 1,
            Mode::SharedGraphs => 2,
        };
        let found = self
            .contexts
            .iter_mut()
            .find(|lane| lane.count == Some(count));
        let Some(lane) = found.filter(|lane| lane.graphs.is_none() && lane.runs >= needed) else {
            return;
        };
        let network = &mut *lane.network;
        let mut capture = |marks| {
            Graph::capture(&work.stream, || {
                // SAFETY: nothing runs now; what it demands at each launch, `enqueue` above sees to.
                unsafe { work.enqueue(network, count, marks) }
            })
        };
        let bare = capture(TimingEvents::None);
        let graphs = bare.and_then(|bare| {
            Ok(CudaGraphs {
                plain: bare,
                timed: capture(TimingEvents::AllInGraph)?,
            })
        });
        match graphs {
            Ok(graphs) => lane.graphs = Some(graphs),
            Err(error) => {
                self.mode = Mode::Eager;
                let reason = error.to_string();
                log::warn!(reason; "the network cannot be recorded as a CUDA graph; it runs call by call, which costs some more CPU time");
            }
        }
    }

    /// The lane for `count`, made if need be.
    fn find(&mut self, work: &Submission, count: usize) -> Result<usize, ExecutionError> {
        let of = |wanted: Option<usize>| self.contexts.iter().position(|lane| lane.count == wanted);
        if let Some(index) = of(Some(count)).or(of(None)) {
            return Ok(index);
        }
        if self.mode != Mode::Graphs {
            return Ok(0);
        }
        let another = self.contexts[0].network.new_context();
        let another = another.map_err(|reason| ExecutionError::Network {
            doing: format!("make an execution context for batches of {count}"),
            reason,
        })?;
        match another {
            Some(network) => {
                self.contexts.push(BatchContext::new(network, work)?);
                Ok(self.contexts.len() - 1)
            }
            None => {
                self.mode = Mode::SharedGraphs;
                Ok(0)
            }
        }
    }
}

impl BatchContext {
    fn new(mut network: Box<dyn Enqueue>, work: &Submission) -> Result<Self, ExecutionError> {
        for (name, address) in work.addresses() {
            // SAFETY: the address is that of a buffer of `submission` which is as large as the plan's batch needs; the execution
            // drops its lanes before its work.
            unsafe { network.set_address(name, address) }.map_err(|reason| {
                ExecutionError::Network {
                    doing: format!("take the address of tensor `{name}`"),
                    reason,
                }
            })?;
        }
        Ok(Self {
            graphs: None,
            network,
            count: None,
            runs: 0,
        })
    }

    fn set_count(&mut self, count: usize) -> Result<(), ExecutionError> {
        if self.count == Some(count) {
            return Ok(());
        }
        self.graphs = None;
        // What a failing call leaves behind is unknown.
        self.count = None;
        self.runs = 0;
        self.network
            .set_batch(count)
            .map_err(|reason| ExecutionError::Network {
                doing: format!("be set to batches of {count}"),
                reason,
            })?;
        self.count = Some(count);
        Ok(())
    }
}
