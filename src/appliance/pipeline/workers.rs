// SPDX-License-Identifier: Apache-2.0
//! Threads that run detectors: each loads its own detector, then runs it until its input ends or the detector fails.
//!
//! Used by the inference workers and by the workers of secondary networks.

use crossbeam_channel::bounded;

use jetwatch_detect::{DetectError, Detector};

use super::PipelineError;
use super::failure::FirstFailure;
use super::threads::ThreadGroup;

/// The work of one detector thread.
pub(super) trait DetectorWorker: Send + 'static {
    /// Loads the detector, on the thread that runs it.
    fn load(&self) -> Result<Box<dyn Detector>, DetectError>;

    /// Runs until the input ends or the detector fails.
    fn run(&self, detector: Box<dyn Detector>) -> Result<(), DetectError>;

    /// The error of the pipeline for an error of this detector.
    fn error(&self, cause: DetectError) -> PipelineError;
}

/// Starts a thread for each of `workers`, which are named, and adds it to `threads`. Returns when all have loaded their
/// detectors. A detector that fails later ends the run.
///
/// # Errors
/// A thread cannot be started, or a detector cannot be loaded.
pub(super) fn start<W: DetectorWorker>(
    threads: &mut ThreadGroup,
    workers: Vec<(String, W)>,
    failure: &FirstFailure,
) -> Result<(), PipelineError> {
    let count = workers.len();
    let (loaded, loading) = bounded(count);
    for (name, worker) in workers {
        let (loaded, failure) = (loaded.clone(), failure.clone());
        let log_name = name.clone();
        threads.spawn(&name, move || {
            let detector = match worker.load() {
                Ok(detector) => detector,
                Err(cause) => {
                    let _ = loaded.send(Err(worker.error(cause)));
                    return;
                }
            };
            let _ = loaded.send(Ok(()));
            drop(loaded);
            if let Err(cause) = worker.run(detector) {
                let error = worker.error(cause);
                log::error!(worker = log_name.as_str(); "{error}");
                failure.fail(error);
            }
        })?;
    }
    drop(loaded);
    for _ in 0..count {
        // A worker that panics while loading closes the channel; its panic has been logged.
        loading.recv().unwrap_or(Ok(()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::batcher::Batcher;
    use crate::threads::Joiner;
    use jetwatch_telemetry::StopToken;
    use jetwatch_types::{Detection, Frame};

    struct NoDetections;

    impl Detector for NoDetections {
        fn detect(
            &mut self,
            _batch: &[Frame],
            results: &mut Vec<Vec<Detection>>,
        ) -> Result<(), DetectError> {
            results.clear();
            Ok(())
        }
    }

    /// A worker that fails at a given point.
    struct FailingWorker {
        loads: bool,
        runs: bool,
    }

    impl DetectorWorker for FailingWorker {
        fn load(&self) -> Result<Box<dyn Detector>, DetectError> {
            match self.loads {
                true => Ok(Box::new(NoDetections)),
                false => Err(DetectError::NoModel),
            }
        }

        fn run(&self, _detector: Box<dyn Detector>) -> Result<(), DetectError> {
            match self.runs {
                true => Ok(()),
                false => Err(DetectError::NoModel),
            }
        }

        fn error(&self, cause: DetectError) -> PipelineError {
            cause.into()
        }
    }

    /// Starts two workers, of which the second behaves as given; returns whether they started, and whether the run was ended.
    fn run_two(loads: bool, runs: bool) -> (bool, bool) {
        let stop = StopToken::default();
        let failure = FirstFailure::new(&Arc::new(Batcher::new(&[], 1, None)), &stop);
        let good = FailingWorker {
            loads: true,
            runs: true,
        };
        let workers = vec![
            ("detect-0".to_owned(), good),
            ("detect-1".to_owned(), FailingWorker { loads, runs }),
        ];
        let mut threads = ThreadGroup::default();
        let has_started = start(&mut threads, workers, &failure).is_ok();
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
