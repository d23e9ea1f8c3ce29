// SPDX-License-Identifier: Apache-2.0
//! Threads that run detectors: each loads its own detector, then runs it until its input ends or the detector fails.
//!
//! Used by the inference workers and by the workers of secondary networks.

use std::sync::Arc;

use crossbeam_channel::unbounded;

use jetwatch_detect::{DetectError, Detector};
use jetwatch_telemetry::{Heartbeat, Heartbeats};

use super::PipelineError;
use super::failure::FirstFailure;
use super::threads::ThreadGroup;

/// The work of the detector threads of one network, which share it.
pub(super) trait DetectorWorker: Send + Sync + 'static {
    /// Loads the detector of the worker `index`, on the thread that runs it.
    fn load(&self, index: usize) -> Result<Box<dyn Detector>, DetectError>;

    /// Runs until the input ends or the detector fails.
    fn run(&self, detector: Box<dyn Detector>, heartbeat: &Heartbeat) -> Result<(), DetectError>;

    /// The error of the pipeline for an error of this detector.
    fn error(&self, cause: DetectError) -> PipelineError;
}

/// Starts a thread with each of `names` and adds it to `threads`. Returns when all have loaded their detectors. A detector that
/// fails later ends the run.
///
/// # Errors
/// A thread cannot be started, or a detector cannot be loaded.
pub(super) fn start(
    threads: &mut ThreadGroup,
    worker: impl DetectorWorker,
    names: impl Iterator<Item = String>,
    heartbeats: &Heartbeats,
    failure: &FirstFailure,
) -> Result<(), PipelineError> {
    let worker = Arc::new(worker);
    let (loaded, loading) = unbounded();
    for (index, name) in names.enumerate() {
        let (worker, loaded, failure) = (Arc::clone(&worker), loaded.clone(), failure.clone());
        let heartbeat = heartbeats.register(&name);
        let log_name = name.clone();
        threads.spawn(&name, move || {
            let detector = match worker.load(index) {
                Ok(detector) => detector,
                Err(cause) => {
                    let _ = loaded.send(worker.error(cause));
                    return;
                }
            };
            drop(loaded);
            if let Err(cause) = worker.run(detector, &heartbeat) {
                let error = worker.error(cause);
                log::error!(worker = log_name.as_str(); "{error}");
                failure.fail(error);
            }
        })?;
    }
    drop((worker, loaded));
    // Each worker drops its sender once it is loaded; one that panics has its panic logged.
    loading.recv().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::batcher::Batcher;
    use crate::threads::Joiner;
    use jetwatch_telemetry::StopToken;
    use jetwatch_types::{Detection, Frame};

    /// Finds nothing, or fails.
    struct TestDetector {
        runs: bool,
    }

    impl Detector for TestDetector {
        fn detect(
            &mut self,
            _batch: &[Frame],
            _results: &mut Vec<Vec<Detection>>,
        ) -> Result<(), DetectError> {
            match self.runs {
                true => Ok(()),
                false => Err(DetectError::NoModel),
            }
        }
    }

    /// Workers that run their detectors once; the second one fails at a given point.
    struct TestWorker {
        loads: bool,
        runs: bool,
    }

    impl DetectorWorker for TestWorker {
        fn load(&self, index: usize) -> Result<Box<dyn Detector>, DetectError> {
            let is_good = index == 0;
            let runs = is_good || self.runs;
            match is_good || self.loads {
                true => Ok(Box::new(TestDetector { runs })),
                false => Err(DetectError::NoModel),
            }
        }

        fn run(&self, mut detector: Box<dyn Detector>, _: &Heartbeat) -> Result<(), DetectError> {
            detector.detect(&[], &mut Vec::new())
        }

        fn error(&self, cause: DetectError) -> PipelineError {
            cause.into()
        }
    }

    /// Starts two workers, of which the second behaves as given; returns whether they started, and whether the run was ended.
    fn run_two(loads: bool, runs: bool) -> (bool, bool) {
        let stop = StopToken::default();
        let failure = FirstFailure::new(&Arc::new(Batcher::new(&[], 1, None)), &stop);
        let (worker, heartbeats) = (TestWorker { loads, runs }, Heartbeats::default());
        let names = ["detect-0", "detect-1"].map(str::to_owned).into_iter();
        let mut threads = ThreadGroup::default();
        let has_started = start(&mut threads, worker, names, &heartbeats, &failure).is_ok();
        let mut joiner = Joiner::new(Duration::from_secs(60));
        threads.join(&mut joiner);
        assert!(joiner.late().is_empty());
        assert_eq!(stop.is_stopped(), failure.take().is_some());
        (has_started, stop.is_stopped())
    }

    #[test]
    fn detector_that_cannot_be_loaded_is_an_error_of_the_start() {
        assert_eq!(run_two(false, true), (false, false));
    }

    #[test]
    fn detector_that_fails_later_ends_the_run() {
        assert_eq!(run_two(true, false), (true, true));
        assert_eq!(run_two(true, true), (true, false));
    }
}
