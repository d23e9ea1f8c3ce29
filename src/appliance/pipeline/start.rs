//! Starts the threads of a chain whose follower already listens: workers, the first sources, and those who watch.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use crossbeam_channel::{Sender, bounded};

use jetwatch_config::{Config, SourceConfig};
use jetwatch_detect::{DetectError, DetectorFactory};
use jetwatch_platform::SysRoot;
use jetwatch_record::{EncoderChoice, Recording};
use jetwatch_source as source;
use jetwatch_telemetry::{Recorder, systemd, thread_names};

use super::execution_mode::ScaleAt;
use super::frame_scaler::InputSize;
use super::health::ServiceNotifier;
use super::infer::{self, BatchSettings};
use super::secondary::{PreparedSecondary, prepare_secondary};
use super::sysmon::SystemMonitor;
use super::threads::spawn;
use super::track::TrackMessage;
use super::{Pipeline, PipelineError};

/// The file to record to and what encodes for it, where one was asked for.
pub(super) fn prepare_recording(
    config: &Config,
    path: Option<&Path>,
) -> Result<Option<EncoderChoice>, PipelineError> {
    let Some(path) = path else { return Ok(None) };
    source::gst::init(&config.log.gst_debug)?;
    Ok(Some(Recording::prepare(path)?))
}

/// Opens the secondary networks; the first that cannot work is the error, and the others are logged.
pub(super) fn open_secondary(
    config: &Config,
    prepared: &DetectorFactory,
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
        prepared: &Arc<DetectorFactory>,
        recorder: &Recorder,
        root: &SysRoot,
    ) -> Result<(), PipelineError> {
        let (loaded, loading) = bounded::<Result<(), DetectError>>(config.detector.workers);
        for index in 0..config.detector.workers {
            let name = format!("detect-{index}");
            let worker = self.infer_worker(index, config, prepared, recorder, loaded.clone());
            self.workers.push((name.clone(), spawn(&name, worker)?));
        }
        drop(loaded);
        for _ in 0..config.detector.workers {
            // A worker that dies while loading closes the channel; its panic has said why.
            loading.recv().unwrap_or(Ok(()))?;
        }
        for source in &config.sources {
            self.add_source(source)?;
        }
        let _ = self.messages.send(TrackMessage::SourcesReady);
        self.batcher.hold_open(false);
        self.listener = self.start_command_listener(self.broker.as_ref())?;
        let watcher = SystemMonitor {
            root: root.clone(),
            machine: Arc::clone(&self.machine),
            interval: config.publish.stats_interval,
            stats: Arc::clone(&self.stats),
            messages: self.messages.clone(),
            stop: self.stop.clone(),
        };
        self.system_monitor = Some(spawn(thread_names::SYSMON, move || watcher.run())?);
        if systemd::is_managed() {
            let attendant = self.service_notifier(config);
            self.service_notifier = Some(spawn(thread_names::SD_NOTIFY, move || attendant.run())?);
        }
        Ok(())
    }

    fn service_notifier(&self, config: &Config) -> ServiceNotifier {
        let waits = config.sources.iter();
        let waits = waits.map(SourceConfig::first_frame_timeout);
        ServiceNotifier {
            stats: Arc::clone(&self.stats),
            batcher: Arc::clone(&self.batcher),
            heartbeats: self.heartbeats.clone(),
            first_frame_waits: waits.collect(),
            watchdog: systemd::watchdog_interval(),
            reload_notice: self.reload_notice.clone(),
            stop: self.stop.clone(),
        }
    }

    fn infer_worker(
        &self,
        index: usize,
        config: &Config,
        prepared: &Arc<DetectorFactory>,
        recorder: &Recorder,
        loaded: Sender<Result<(), DetectError>>,
    ) -> impl FnOnce() + Send + use<> {
        let (prepared, recorder, lanes, messages) = (
            Arc::clone(prepared),
            recorder.clone(),
            Arc::clone(&self.batcher),
            self.messages.clone(),
        );
        let (failure, stop) = (Arc::clone(&self.failure), self.stop.clone());
        let shelf = self.image_budget.clone();
        let pulse = self.heartbeats.register(&format!("detect-{index}"));
        let rule = BatchSettings {
            size: config.detector.batch_size,
            timeout: config.detector.batch_timeout,
            resize_to: (self.execution_mode.scale_at == ScaleAt::Detector).then_some(InputSize {
                input: self.source_defaults.size,
                placement: self.source_defaults.placement,
            }),
        };
        move || {
            let detector = match prepared.create(index) {
                Ok(detector) => detector,
                Err(error) => {
                    let _ = loaded.send(Err(error));
                    return;
                }
            };
            let _ = loaded.send(Ok(()));
            drop(loaded);
            if let Err(error) = infer::run_worker(
                detector,
                &lanes,
                rule,
                &recorder,
                &messages,
                shelf.as_ref(),
                &pulse,
            ) {
                log::error!(worker = index; "detector failed: {error}");
                failure
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(error.into());
                lanes.discard();
                stop.stop();
            }
        }
    }
}
