//! Starts the threads of a chain whose follower already listens: workers, the first sources, and those who watch.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use crossbeam_channel::{Sender, bounded};

use jetwatch_config::{Config, SourceConfig};
use jetwatch_detect::{DetectError, Prepared};
use jetwatch_platform::Root;
use jetwatch_record::{Choice, Recording};
use jetwatch_source as source;
use jetwatch_telemetry::{Recorder, service, thread_names};

use super::attend::Attendant;
use super::cascade::{PreparedSecondary, prepare_secondary};
use super::course::ScalingPlace;
use super::follow::News;
use super::late_scale::Wanted;
use super::machine::Watcher;
use super::threads::spawn;
use super::worker::{self, BatchRule};
use super::{Pipeline, PipelineError};

/// The file to record to and what encodes for it, where one was asked for.
pub(super) fn prepare_recording(
    config: &Config,
    path: Option<&Path>,
) -> Result<Option<Choice>, PipelineError> {
    let Some(path) = path else { return Ok(None) };
    source::gst::init(&config.log.gst_debug)?;
    Ok(Some(Recording::prepare(path)?))
}

/// Opens the secondary networks; the first that cannot work is the error, and the others are logged.
pub(super) fn open_secondary(
    config: &Config,
    prepared: &Prepared,
) -> Result<Vec<PreparedSecondary>, PipelineError> {
    prepare_secondary(config, prepared.labels()).map_err(|problems| {
        let (first, others) = *problems;
        for other in others {
            log::error!("{other}");
        }
        first
    })
}

impl Pipeline {
    /// Loads the workers' detectors, then starts the sources and those who watch.
    pub(super) fn start_threads(
        &mut self,
        config: &Config,
        prepared: &Arc<Prepared>,
        recorder: &Recorder,
        root: &Root,
    ) -> Result<(), PipelineError> {
        let (loaded, loading) = bounded::<Result<(), DetectError>>(config.detector.workers);
        for index in 0..config.detector.workers {
            let name = format!("detect-{index}");
            let worker = self.worker(index, config, prepared, recorder, loaded.clone());
            self.workers.push((name.clone(), spawn(&name, worker)?));
        }
        drop(loaded);
        for _ in 0..config.detector.workers {
            // A worker that dies while loading closes the channel; its panic has said why.
            loading.recv().unwrap_or(Ok(()))?;
        }
        for source in &config.sources {
            self.join_source(source)?;
        }
        let _ = self.news.send(News::AllJoined);
        self.lanes.hold(false);
        self.listener = self.listen(self.broker.as_ref())?;
        let watcher = Watcher {
            root: root.clone(),
            machine: Arc::clone(&self.machine),
            interval: config.publish.stats_interval,
            meter: Arc::clone(&self.meter),
            news: self.news.clone(),
            stop: self.stop.clone(),
        };
        self.watcher = Some(spawn(thread_names::SYSMON, move || watcher.run())?);
        if service::is_managed() {
            let attendant = self.attendant(config);
            self.attendant = Some(spawn(thread_names::SD_NOTIFY, move || attendant.run())?);
        }
        Ok(())
    }

    fn attendant(&self, config: &Config) -> Attendant {
        let waits = config.sources.iter();
        let waits = waits.map(SourceConfig::first_frame_timeout);
        Attendant {
            meter: Arc::clone(&self.meter),
            lanes: Arc::clone(&self.lanes),
            pulses: self.pulses.clone(),
            first_frame_waits: waits.collect(),
            watchdog: service::watchdog_interval(),
            notice: self.notice.clone(),
            stop: self.stop.clone(),
        }
    }

    fn worker(
        &self,
        index: usize,
        config: &Config,
        prepared: &Arc<Prepared>,
        recorder: &Recorder,
        loaded: Sender<Result<(), DetectError>>,
    ) -> impl FnOnce() + Send + use<> {
        let (prepared, recorder, lanes, news) = (
            Arc::clone(prepared),
            recorder.clone(),
            Arc::clone(&self.lanes),
            self.news.clone(),
        );
        let (failure, stop) = (Arc::clone(&self.failure), self.stop.clone());
        let shelf = self.shelf.clone();
        let pulse = self.pulses.join(&format!("detect-{index}"));
        let rule = BatchRule {
            size: config.detector.batch_size,
            timeout: config.detector.batch_timeout,
            late: (self.course.scaling == ScalingPlace::Detector).then_some(Wanted {
                input: self.inlet.size,
                placement: self.inlet.placement,
            }),
        };
        move || {
            let detector = match prepared.make_detector(index) {
                Ok(detector) => detector,
                Err(error) => {
                    let _ = loaded.send(Err(error));
                    return;
                }
            };
            let _ = loaded.send(Ok(()));
            drop(loaded);
            if let Err(error) = worker::work(
                detector,
                &lanes,
                rule,
                &recorder,
                &news,
                shelf.as_ref(),
                &pulse,
            ) {
                log::error!(worker = index; "detector failed: {error}");
                failure
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(error.into());
                lanes.abandon();
                stop.stop();
            }
        }
    }
}
