//! Starts the parts of a pipeline: sinks and the embedded broker, inference workers, the first sources, the monitor threads.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};

use jetwatch_config::{Broker, Config, MqttConfig, SourceConfig};
use jetwatch_detect::{DetectError, DetectorFactory};
use jetwatch_platform::SysRoot;
use jetwatch_publish::{EmbeddedBroker, JsonLinesSink, MqttSink, Sink};
use jetwatch_record::{EncoderChoice, Recording};
use jetwatch_source as source;
use jetwatch_telemetry::{self as telemetry, Heartbeats, Recorder, systemd, thread_names};

use super::execution_mode::ScaleAt;
use super::frame_scaler::InputSize;
use super::health::ServiceNotifier;
use super::infer::{self, BatchSettings};
use super::secondary::{PreparedSecondary, WorkerContext, prepare_secondary, run_worker};
use super::sysmon::SystemMonitor;
use super::track::TrackInput;
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
        let _ = self.inputs.send(TrackInput::SourcesReady);
        self.batcher.hold_open(false);
        self.listener = self.start_command_listener(self.broker.as_ref())?;
        let watcher = SystemMonitor {
            root: root.clone(),
            machine: Arc::clone(&self.machine),
            interval: config.publish.stats_interval,
            stats: Arc::clone(&self.stats),
            control_messages: self.control_messages.clone(),
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
            self.inputs.clone(),
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
                failure.lock().get_or_insert(error.into());
                lanes.discard();
                stop.stop();
            }
        }
    }
}

/// Receives whether a worker could load its detector.
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
        let (prepared, messages) = (Arc::clone(prepared), self.inputs.clone());
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
                failure.lock().get_or_insert(error);
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

/// The broker inside the daemon, where the configuration has one.
pub(super) fn embedded_broker(config: &Config) -> Result<Option<EmbeddedBroker>, PipelineError> {
    let Some(mqtt) = &config.publish.mqtt else {
        return Ok(None);
    };
    let Broker::Embedded { listen } = mqtt.broker else {
        return Ok(None);
    };
    Ok(Some(EmbeddedBroker::start(
        listen,
        mqtt.credentials.as_ref(),
    )?))
}

/// The sinks of the configuration.
pub(super) fn start_sinks(
    config: &Config,
    labels: &[String],
    broker: Option<&EmbeddedBroker>,
    pulses: &Heartbeats,
) -> Result<Vec<Box<dyn Sink>>, PipelineError> {
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    if let Some(mqtt) = &config.publish.mqtt {
        let mqtt = with_bound_address(mqtt, broker);
        sinks.push(Box::new(MqttSink::start_with_heartbeat(
            &mqtt,
            &config.device,
            labels,
            pulses,
        )?));
    }
    if let Some(json_lines) = &config.publish.json_lines {
        sinks.push(Box::new(JsonLinesSink::start_with_heartbeat(
            json_lines,
            &config.device,
            labels,
            pulses,
        )?));
    }
    Ok(sinks)
}

/// The client's settings, with the address where the broker inside the daemon really listens.
pub(super) fn with_bound_address(mqtt: &MqttConfig, broker: Option<&EmbeddedBroker>) -> MqttConfig {
    let mut mqtt = mqtt.clone();
    if let Some(broker) = broker {
        // Port 0 in the configuration becomes the port that was given.
        mqtt.broker = Broker::Embedded {
            listen: broker.local_addr(),
        };
    }
    mqtt
}

/// Starts a thread, which profilers show under the same name.
///
/// # Errors
/// The operating system refuses a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, PipelineError> {
    let timeline_name = name.to_owned();
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            telemetry::name_thread(&timeline_name);
            body()
        })
        .map_err(|cause| PipelineError::Thread {
            name: name.to_owned(),
            cause,
        })
}

/// Waits for `finished`, at most until `deadline`.
pub(super) fn wait_until(deadline: Instant, finished: impl Fn() -> bool) -> bool {
    while !finished() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Joins a thread.
///
/// # Panics
/// The thread has panicked: its panic continues here.
pub fn join<T>(thread: JoinHandle<T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
