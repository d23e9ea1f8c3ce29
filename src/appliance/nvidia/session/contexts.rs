// SPDX-License-Identifier: Apache-2.0
//! Selects the execution context for a batch count, and records runs as CUDA graphs.
//!
//! A graph contains the state that the context had when it was recorded: a later change of the context's shapes invalidates its
//! graphs (NVIDIA's guide to TensorRT). So each count has its own context, created when the count first occurs. If the network
//! supports only one context, all counts share it, and a change of the count drops its graph.

use super::enqueue::Enqueue;
use super::error::SessionError;
use super::submission::{Submission, TimingEvents};
use super::timing::LayerTime;
use crate::cuda::{Graph, HostCalls};

/// One in this many runs of a graph measures the times of its stages.
const TIMING_SAMPLE_INTERVAL: usize = 32;

/// A context and its state. Fields are dropped in order: the graph uses the context's memory.
pub(super) struct BatchContext {
    /// The recorded run, if any.
    graphs: Option<CudaGraphs>,
    pub(super) network: Box<dyn Enqueue>,
    /// Batch count that the context is set to.
    count: Option<usize>,
    /// Runs with that count since it was set.
    runs: usize,
}

/// A run recorded twice: without and with timing events for the stages.
struct CudaGraphs {
    plain: Graph,
    timed: Graph,
}

/// The execution contexts of one session, one for each batch count.
pub(super) struct ContextPool {
    contexts: Vec<BatchContext>,
    mode: Mode,
    /// Whether layer times are collected after each run.
    measures_layers: bool,
}

/// How runs are enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Call by call.
    Eager,
    /// As graphs, with one context per count.
    Graphs,
    /// As graphs, with one context for all counts.
    SharedGraphs,
}

impl ContextPool {
    /// Sets the addresses of `network`'s tensors.
    pub(super) fn new(
        network: Box<dyn Enqueue>,
        submission: &Submission,
        graphs: bool,
    ) -> Result<Self, SessionError> {
        let context = BatchContext::new(network, submission)?;
        Ok(Self {
            contexts: vec![context],
            mode: if graphs { Mode::Graphs } else { Mode::Eager },
            measures_layers: false,
        })
    }

    /// Makes all further runs go call by call, in the returned context. The stream must be empty.
    pub(super) fn eager(&mut self) -> &mut BatchContext {
        self.mode = Mode::Eager;
        self.contexts.truncate(1);
        let context = &mut self.contexts[0];
        context.graphs = None;
        context
    }

    /// Measures the network's layers in all further runs. The stream must be empty.
    pub(super) fn measure_layers(&mut self) -> Result<(), SessionError> {
        let network = &mut self.eager().network;
        network
            .measure_layers()
            .map_err(|reason| SessionError::Network {
                doing: "measure its layers".to_owned(),
                reason,
            })?;
        self.measures_layers = true;
        Ok(())
    }

    /// Collects the layer times of the run that has just ended, if they are measured.
    pub(super) fn collect_layer_times(&mut self) -> Result<(), SessionError> {
        if !self.measures_layers {
            return Ok(());
        }
        self.contexts[0]
            .network
            .collect_layer_times()
            .map_err(|reason| SessionError::Network {
                doing: "report the times of its layers".to_owned(),
                reason,
            })
    }

    /// Times of the layers in all measured runs.
    pub(super) fn layer_times(&self) -> Vec<LayerTime> {
        self.contexts[0].network.layer_times()
    }

    /// Whether the next run of `count` is one launch of a graph.
    pub(super) fn is_recorded(&self, count: usize) -> bool {
        self.contexts
            .iter()
            .any(|context| context.count == Some(count) && context.graphs.is_some())
    }

    /// Enqueues a run of `count` images and returns which timing events it records.
    ///
    /// # Safety
    /// Those of [`Submission::enqueue`]; the previous run is done.
    pub(super) unsafe fn enqueue(
        &mut self,
        submission: &Submission,
        count: usize,
    ) -> Result<TimingEvents, SessionError> {
        let index = self.find(submission, count)?;
        let context = &mut self.contexts[index];
        context.set_count(count)?;
        context.runs += 1;
        let Some(graphs) = &mut context.graphs else {
            // SAFETY: the caller guarantees it.
            unsafe { submission.enqueue(&mut *context.network, count, TimingEvents::All) }?;
            return Ok(TimingEvents::All);
        };
        let (graph, events) = match context.runs.is_multiple_of(TIMING_SAMPLE_INTERVAL) {
            true => (&mut graphs.timed, TimingEvents::AllInGraph),
            false => (&mut graphs.plain, TimingEvents::Ends),
        };
        submission.record_begin(events)?;
        // SAFETY: the graph was recorded from this context, whose shapes and addresses are unchanged since
        // (`set_count` drops it otherwise), and of `submission`, whose buffers live as long; the caller guarantees the rest.
        unsafe { graph.launch(&submission.stream) }?;
        submission.record_end(events)?;
        Ok(events)
    }

    /// Records the run of `count` after it ran call by call (twice, if contexts are shared), because the network does some work
    /// only after a change of shape. The stream must be empty.
    pub(super) fn record(&mut self, submission: &Submission, count: usize) {
        let needed = match self.mode {
            Mode::Eager => return,
            Mode::Graphs => 1,
            Mode::SharedGraphs => 2,
        };
        let found = self
            .contexts
            .iter_mut()
            .find(|context| context.count == Some(count));
        let Some(context) =
            found.filter(|context| context.graphs.is_none() && context.runs >= needed)
        else {
            return;
        };
        let network = &mut *context.network;
        let host_calls = match network.forbids_host_calls() {
            true => HostCalls::Refused,
            false => HostCalls::Allowed,
        };
        let mut capture = |events| {
            Graph::capture(&submission.stream, host_calls, || {
                // SAFETY: nothing runs now; `enqueue` above ensures the requirements of each launch.
                unsafe { submission.enqueue(network, count, events) }
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
            Ok(graphs) => context.graphs = Some(graphs),
            Err(error) => {
                self.mode = Mode::Eager;
                let reason = error.to_string();
                log::warn!(reason; "the network cannot be recorded as a CUDA graph; it runs call by call, which costs more CPU time");
            }
        }
    }

    /// Index of the context for `count`, created if needed.
    fn find(&mut self, submission: &Submission, count: usize) -> Result<usize, SessionError> {
        let of = |count: Option<usize>| {
            self.contexts
                .iter()
                .position(|context| context.count == count)
        };
        if let Some(index) = of(Some(count)).or(of(None)) {
            return Ok(index);
        }
        if self.mode != Mode::Graphs {
            return Ok(0);
        }
        let another = self.contexts[0].network.new_context();
        let another = another.map_err(|reason| SessionError::Network {
            doing: format!("make an execution context for batches of {count}"),
            reason,
        })?;
        match another {
            Some(network) => {
                self.contexts.push(BatchContext::new(network, submission)?);
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
    fn new(mut network: Box<dyn Enqueue>, submission: &Submission) -> Result<Self, SessionError> {
        for (name, address) in submission.addresses() {
            // SAFETY: the address is that of a buffer of `submission` that is large enough for the plan's batch; the session drops
            // its contexts before its submission.
            unsafe { network.set_address(name, address) }.map_err(|reason| {
                SessionError::Network {
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

    fn set_count(&mut self, count: usize) -> Result<(), SessionError> {
        if self.count == Some(count) {
            return Ok(());
        }
        self.graphs = None;
        // After a failing call the count is unknown.
        self.count = None;
        self.runs = 0;
        self.network
            .set_batch(count)
            .map_err(|reason| SessionError::Network {
                doing: format!("be set to batches of {count}"),
                reason,
            })?;
        self.count = Some(count);
        Ok(())
    }
}
