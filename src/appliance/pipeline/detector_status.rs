//! What becomes of the detector, told before the chain runs: building an engine takes minutes, in which nobody else speaks.
//!
//! Sinks start when there is something to tell, or when the detector is there. Called by [`Pipeline::start`](super::Pipeline::start).

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime};

use super::PipelineError;
use super::sinks::{embedded_broker, start_sinks};
use jetwatch_config::Config;
use jetwatch_detect::engines::EngineState;
use jetwatch_detect::{self as detect, DetectorFactory};
use jetwatch_publish::{DetectorStatus, EmbeddedBroker, Publication as Message, Sink};
use jetwatch_telemetry::{Heartbeats, Recorder, systemd};

/// How often subscribers and the service manager hear of a build.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// What a step of a build may take beyond the time that the unit gives for a start.
const START_EXTENSION: Duration = Duration::from_secs(60);

/// Longest that sinks may take to deliver why there is no detector.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Sinks, and the broker that some of them may publish to.
pub(super) struct Sinks {
    pub(super) sinks: Vec<Box<dyn Sink>>,
    pub(super) broker: Option<EmbeddedBroker>,
}

impl Sinks {
    fn start(
        config: &Config,
        labels: &[String],
        pulses: &Heartbeats,
    ) -> Result<Self, PipelineError> {
        let broker = embedded_broker(config)?;
        let sinks = start_sinks(config, labels, broker.as_ref(), pulses)?;
        Ok(Self { sinks, broker })
    }

    fn publish(&mut self, status: &DetectorStatus) {
        let record = Message::Detector {
            status,
            at: SystemTime::now(),
        };
        for sink in &mut self.sinks {
            sink.publish(&record);
        }
    }
}

/// Prepares the detector and tells how it goes.
pub(super) struct DetectorStatusPublisher<'c> {
    config: &'c Config,
    sinks: RefCell<Option<Sinks>>,
    last_published: Cell<Option<Instant>>,
    heartbeats: &'c Heartbeats,
}

impl<'c> DetectorStatusPublisher<'c> {
    pub(super) fn new(config: &'c Config, heartbeats: &'c Heartbeats) -> Self {
        Self {
            config,
            heartbeats,
            sinks: RefCell::default(),
            last_published: Cell::default(),
        }
    }

    /// See [`detect::prepare_telling`].
    pub(super) fn prepare(&self, recorder: &Recorder) -> Result<DetectorFactory, PipelineError> {
        let prepared = detect::load_with_progress(&self.config.detector, recorder, &|state| {
            self.on_engine_state(state)
        });
        prepared.map_err(|error| {
            if let Some(mut outlets) = self.sinks.take() {
                outlets.publish(&DetectorStatus::Failed {
                    reason: error.to_string(),
                });
                for sink in outlets.sinks {
                    sink.close(CLOSE_TIMEOUT);
                }
            }
            error.into()
        })
    }

    /// The sinks, started now if that was not done before; they are told that `prepared` runs.
    pub(super) fn into_sinks(self, prepared: &DetectorFactory) -> Result<Sinks, PipelineError> {
        let mut outlets = match self.sinks.into_inner() {
            Some(outlets) => outlets,
            None => Sinks::start(self.config, prepared.labels(), self.heartbeats)?,
        };
        outlets.publish(&DetectorStatus::Ready {
            runs: prepared.describe(),
        });
        Ok(outlets)
    }

    fn on_engine_state(&self, state: EngineState) {
        let (status, line) = match state {
            // Followed by the detector's own state.
            EngineState::Ready { .. } => return,
            EngineState::Missing { reason } => {
                self.last_published.take();
                let line = format!("no engine: {reason}");
                (DetectorStatus::EngineMissing { reason }, line)
            }
            EngineState::Waiting { elapsed } => {
                let line = format!(
                    "waiting for another process that builds an engine, {} s so far",
                    elapsed.as_secs()
                );
                let status = DetectorStatus::Building {
                    elapsed,
                    progress: None,
                    phase: None,
                };
                (status, line)
            }
            EngineState::Building {
                elapsed,
                done,
                steps,
                phase,
            } => {
                let mut line = format!("building the engine, {} s so far", elapsed.as_secs());
                if steps > 0 {
                    line = format!("{line}, {phase} {done}/{steps}");
                }
                let status = DetectorStatus::Building {
                    elapsed,
                    progress: (steps > 0).then(|| done.min(steps) as f32 / steps as f32),
                    phase: (!phase.is_empty()).then_some(phase),
                };
                (status, line)
            }
        };
        if self
            .last_published
            .get()
            .is_some_and(|told| told.elapsed() < PUBLISH_INTERVAL)
        {
            return;
        }
        let is_missing = matches!(status, DetectorStatus::EngineMissing { .. });
        // What comes after a missing engine is told at once.
        self.last_published.set((!is_missing).then(Instant::now));
        systemd::extend_timeout(START_EXTENSION, &line);
        self.publish(&status);
    }

    fn publish(&self, status: &DetectorStatus) {
        let mut outlets = self.sinks.borrow_mut();
        if outlets.is_none() {
            let labels = detect::labels(&self.config.detector).unwrap_or_default();
            match Sinks::start(self.config, &labels, self.heartbeats) {
                Ok(started) => *outlets = Some(started),
                // It is the start's own error once the detector is there.
                Err(error) => log::debug!("the engine's state cannot be published yet: {error}"),
            }
        }
        if let Some(outlets) = outlets.as_mut() {
            outlets.publish(status);
        }
    }
}
