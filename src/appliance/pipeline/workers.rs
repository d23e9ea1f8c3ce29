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
