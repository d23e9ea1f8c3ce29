// SPDX-License-Identifier: Apache-2.0
//! The first failure of a run, which ends the run.

use std::sync::Arc;

use parking_lot::Mutex;

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
        self.error.lock().get_or_insert(error);
    }

    /// Takes the first failure.
    pub(super) fn take(&self) -> Option<PipelineError> {
        self.error.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn late(name: &str) -> PipelineError {
        PipelineError::Late {
            names: name.to_owned(),
            waited_ms: 0,
        }
    }

    #[test]
    fn first_failure_is_kept_and_ends_the_run() {
        let (batcher, stop) = (
            Arc::new(Batcher::new(&[false], 1, None)),
            StopToken::default(),
        );
        batcher.hold_open(true);
        let failure = FirstFailure::new(&batcher, &stop);
        failure.clone().fail(late("first"));
        failure.record(late("second"));
        assert!(stop.is_stopped());
        let mut batch = Vec::new();
        assert!(!batcher.next_batch(1, Duration::ZERO, &mut batch));
        let error = failure.take().expect("a failure").to_string();
        assert!(error.contains("first"), "{error}");
        assert!(failure.take().is_none());
    }
}
