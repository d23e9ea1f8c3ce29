//! Starts the workers of the secondary networks.

use std::sync::{Arc, PoisonError};

use crossbeam_channel::{Sender, bounded};

use jetwatch_detect::DetectError;
use jetwatch_telemetry::thread_names;

use super::secondary::{PreparedSecondary, WorkerContext, run_worker};
use super::threads::spawn;
use super::{Pipeline, PipelineError};

/// What a worker says once it has its detector, or cannot have one.
type Loaded = Sender<Result<(), DetectError>>;

impl Pipeline {
    /// Starts the workers of each network and returns when all have their detectors.
    pub(super) fn start_secondary(
        &mut self,
        prepared: Vec<PreparedSecondary>,
        stations: Vec<WorkerContext>,
    ) -> Result<(), PipelineError> {
        for (place, (prepared, station)) in prepared.into_iter().zip(stations).enumerate() {
            let prepared = Arc::new(prepared);
            let (loaded, loading) = bounded(prepared.workers());
            for worker in 0..prepared.workers() {
                let name = thread_names::secondary(prepared.name(), worker);
                let station = station.clone();
                let body = self.secondary_worker(place, worker, &prepared, station, loaded.clone());
                self.secondary.push((name.clone(), spawn(&name, body)?));
            }
            drop(loaded);
            for _ in 0..prepared.workers() {
                // A worker that dies while loading closes the channel; its panic has said why.
                let result = loading.recv().unwrap_or(Ok(()));
                result.map_err(|cause| failed(place, &prepared, cause))?;
            }
        }
        Ok(())
    }

    fn secondary_worker(
        &self,
        place: usize,
        worker: usize,
        prepared: &Arc<PreparedSecondary>,
        station: WorkerContext,
        loaded: Loaded,
    ) -> impl FnOnce() + Send + use<> {
        let (prepared, messages) = (Arc::clone(prepared), self.messages.clone());
        let recorder = self.source_defaults.recorder.clone();
        let (failure, stop, lanes) = (
            Arc::clone(&self.failure),
            self.stop.clone(),
            Arc::clone(&self.batcher),
        );
        let pulse = self
            .heartbeats
            .register(&thread_names::secondary(prepared.name(), worker));
        move || {
            let detector = match prepared.make_detector(worker) {
                Ok(detector) => detector,
                Err(error) => {
                    let _ = loaded.send(Err(error));
                    return;
                }
            };
            let _ = loaded.send(Ok(()));
            drop(loaded);
            if let Err(error) = run_worker(detector, &station, &messages, &recorder, &pulse) {
                let error = failed(place, &prepared, error);
                log::error!("a secondary network failed: {error}");
                failure
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(error);
                lanes.discard();
                stop.stop();
            }
        }
    }
}

fn failed(place: usize, prepared: &PreparedSecondary, cause: DetectError) -> PipelineError {
    PipelineError::Secondary {
        key: format!("secondary[{place}]"),
        name: prepared.name().to_owned(),
        cause: Box::new(cause),
    }
}
