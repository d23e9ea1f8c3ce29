//! The first failure of a run, which ends the run.

use std::sync::{Arc, Mutex, PoisonError};

use super::PipelineError;
use super::batcher::Batcher;
use jetwatch_telemetry::StopToken;

/// Keeps the first failure and ends the run without draining its queues. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub(super) struct FirstFailure {
    error: Arc<Mutex<Option<PipelineError>>>,
    batcher: Arc<Batcher>,
    stop: StopToken,
}

impl FirstFailure {
    /// Ends a run by `batcher` and `stop`.
    pub(super) fn new(batcher: &Arc<Batcher>, stop: &StopToken) -> Self {
        Self {
            error: Arc::default(),
            batcher: Arc::clone(batcher),
            stop: stop.clone(),
        }
    }

    /// Ends the run because of `error`.
    pub(super) fn fail(&self, error: PipelineError) {
        self.record(error);
        // Sources that were to be added are not waited for.
        self.batcher.hold_open(false);
        self.batcher.discard();
        self.stop.stop();
    }

    /// Keeps `error` where there is none yet.
    pub(super) fn record(&self, error: PipelineError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }

    /// Takes the first failure.
    pub(super) fn take(&self) -> Option<PipelineError> {
        self.error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
