// SPDX-License-Identifier: Apache-2.0
//! Metrics of a run: a sink that counts what is published, copies of what the other parts count, and the exporter that offers both.
//!
//! The exporter starts before the detector is loaded, which may take minutes, and ends after the sinks.

mod sink;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use jetwatch_config::Config;
use jetwatch_metrics::{
    DetectorFigures, DetectorInfo, DetectorState, Exporter, Figures, MetricsError, MqttFigures,
    ProcessFigures, SourceSeries, SpoolFigures, write_figures,
};
use jetwatch_publish::{ConnectionState, MqttMonitor, Sink};
use jetwatch_telemetry::{Recorder, open_fds, process_usage};
use jetwatch_types::Classes;

use super::run_state::RunState;
use sink::MetricsSink;

/// A wall clock that differs by more than this from what the start and the time since then give was set.
const CLOCK_STEP: Duration = Duration::from_secs(2);

/// The metrics of a run; nothing where the configuration has none.
pub(super) struct Metrics {
    shared: Arc<Shared>,
    exporter: Option<Exporter>,
}

/// What a request reads.
struct Shared {
    started: Instant,
    /// By the wall clock.
    started_at: Mutex<SystemTime>,
    recorder: Recorder,
    detector: Mutex<DetectorState>,
    series: Mutex<Vec<Arc<SourceSeries>>>,
    spool: Mutex<Option<SpoolFigures>>,
    run: Arc<RunState>,
}

impl Metrics {
    /// Starts the exporter of the configuration. It reads the parts of `run` as they start.
    ///
    /// # Errors
    /// The address cannot be listened on, or a file cannot be used.
    pub(super) fn start(
        config: &Config,
        started: Instant,
        recorder: &Recorder,
        run: &Arc<RunState>,
    ) -> Result<Self, MetricsError> {
        let shared = Arc::new(Shared {
            started,
            started_at: Mutex::new(SystemTime::now() - started.elapsed()),
            recorder: recorder.clone(),
            detector: Mutex::default(),
            series: Mutex::default(),
            spool: Mutex::default(),
            run: Arc::clone(run),
        });
        let wanted = &config.metrics;
        let exporter = match wanted.listen.is_some() || wanted.text_file.is_some() {
            true => {
                let shared = Arc::clone(&shared);
                let interval = config.publish.stats_interval;
                Some(Exporter::start(
                    wanted,
                    &config.device,
                    interval,
                    Arc::new(move |form, text| write_figures(&shared.figures(), form, text)),
                )?)
            }
            false => None,
        };
        Ok(Self { shared, exporter })
    }

    /// Adds a sink that counts to `sinks`. Without an exporter it does nothing.
    pub(super) fn join_sinks(&self, classes: &Classes, sinks: &mut Vec<Box<dyn Sink>>) {
        if self.exporter.is_none() {
            return;
        }
        let sink = MetricsSink::new(Arc::clone(&self.shared), classes);
        sinks.push(Box::new(sink));
    }
}

impl Shared {
    fn set_detector_state(&self, state: DetectorState) {
        *self.detector.lock() = state;
    }

    /// Copies of all counts. Each lock is held for a copy.
    fn figures(&self) -> Figures {
        let uptime = self.started.elapsed();
        let loaded = self.run.loaded.get();
        let (sources, machine) = loaded
            .map(|loaded| loaded.stats.figures())
            .unwrap_or_default();
        let detector = loaded.map(|loaded| &loaded.detector);
        let usage = process_usage();
        Figures {
            uptime,
            detector: DetectorFigures {
                state: *self.detector.lock(),
                info: detector.map(|detector| DetectorInfo {
                    backend: detector.backend().to_owned(),
                    model: detector.model().to_owned(),
                    precision: detector.precision().unwrap_or_default().to_owned(),
                }),
            },
            sources,
            series: self.series.lock().clone(),
            stages: self.recorder.histograms(),
            mqtt: self.run.mqtt.get().map(mqtt_figures),
            spool: self.spool.lock().clone(),
            media: loaded.and_then(|loaded| loaded.stats.media_figures()),
            machine,
            process: ProcessFigures {
                cpu: usage.cpu,
                rss_bytes: usage.rss_bytes,
                threads: usage.threads,
                open_fds: open_fds(),
                started_at: Some(self.started_at(uptime)),
            },
        }
    }

    /// When the process started, by the wall clock of now. It changes only where that was set: each change looks like a restart.
    fn started_at(&self, uptime: Duration) -> SystemTime {
        let mut started_at = self.started_at.lock();
        let by_now = SystemTime::now() - uptime;
        let step = by_now
            .duration_since(*started_at)
            .unwrap_or_else(|before| before.duration());
        if step > CLOCK_STEP {
            *started_at = by_now;
        }
        *started_at
    }
}

fn mqtt_figures(monitor: &MqttMonitor) -> MqttFigures {
    let counts = monitor.counts();
    MqttFigures {
        is_connected: monitor.connection_state() == ConnectionState::Connected,
        delivered: counts.delivered,
        dropped: counts.dropped - counts.best_effort_dropped,
        unsent: counts.best_effort_dropped,
        replaced: counts.replaced,
        queued: counts.queued,
    }
}
