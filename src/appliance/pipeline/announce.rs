//! What becomes of the detector, told before the chain runs: building an engine takes minutes, in which nobody else speaks.
//!
//! Sinks start when there is something to tell, or when the detector is there. Called by [`Pipeline::start`](super::Pipeline::start).

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime};

use super::PipelineError;
use super::sinks::{embedded_broker, start_sinks};
use jetwatch_config::Config;
use jetwatch_detect::engines::EngineState;
use jetwatch_detect::{self as detect, Prepared};
use jetwatch_publish::{DetectorStatus, EmbeddedBroker, Record as Message, Sink};
use jetwatch_telemetry::{Pulses, Recorder, service};

/// How often subscribers and the service manager hear of a build.
const TOLD: Duration = Duration::from_secs(1);

/// What a step of a build may take beyond the time that the unit gives for a start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest that sinks may take to deliver why there is no detector.
const FAREWELL: Duration = Duration::from_secs(2);

/// Sinks, and the broker that some of them may publish to.
pub(super) struct Outlets {
    pub(super) sinks: Vec<Box<dyn Sink>>,
    pub(super) broker: Option<EmbeddedBroker>,
}

impl Outlets {
    fn start(config: &Config, labels: &[String], pulses: &Pulses) -> Result<Self, PipelineError> {
        let broker = embedded_broker(config)?;
        let sinks = start_sinks(config, labels, broker.as_ref(), pulses)?;
        Ok(Self { sinks, broker })
    }

    fn tell(&mut self, status: &DetectorStatus) {
        let record = Message::Detector {
            status,
            at: SystemTime::now(),
        };
        for sink in &mut self.sinks {
            sink.accept(&record);
        }
    }
}

/// Prepares the detector and tells how it goes.
pub(super) struct Announcer<'c> {
    config: &'c Config,
    outlets: RefCell<Option<Outlets>>,
    told: Cell<Option<Instant>>,
    pulses: &'c Pulses,
}

impl<'c> Announcer<'c> {
    pub(super) fn new(config: &'c Config, pulses: &'c Pulses) -> Self {
        Self {
            config,
            pulses,
            outlets: RefCell::default(),
            told: Cell::default(),
        }
    }

    /// See [`detect::prepare_telling`].
    pub(super) fn prepare(&self, recorder: &Recorder) -> Result<Prepared, PipelineError> {
        let prepared =
            detect::prepare_telling(&self.config.detector, recorder, &|state| self.hear(state));
        prepared.map_err(|error| {
            if let Some(mut outlets) = self.outlets.take() {
                outlets.tell(&DetectorStatus::Failed {
                    reason: error.to_string(),
                });
                for sink in outlets.sinks {
                    sink.close(FAREWELL);
                }
            }
            error.into()
        })
    }

    /// The sinks, started now if that was not done before; they are told that `prepared` runs.
    pub(super) fn outlets(self, prepared: &Prepared) -> Result<Outlets, PipelineError> {
        let mut outlets = match self.outlets.into_inner() {
            Some(outlets) => outlets,
            None => Outlets::start(self.config, prepared.labels(), self.pulses)?,
        };
        outlets.tell(&DetectorStatus::Ready {
            runs: prepared.describe(),
        });
        Ok(outlets)
    }

    fn hear(&self, state: EngineState) {
        let (status, line) = match state {
            // Followed by the detector's own state.
            EngineState::Ready { .. } => return,
            EngineState::Missing { reason } => {
                self.told.take();
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
        if self.told.get().is_some_and(|told| told.elapsed() < TOLD) {
            return;
        }
        let is_missing = matches!(status, DetectorStatus::EngineMissing { .. });
        // What comes after a missing engine is told at once.
        self.told.set((!is_missing).then(Instant::now));
        service::tell_start_takes(PATIENCE, &line);
        self.tell(&status);
    }

    fn tell(&self, status: &DetectorStatus) {
        let mut outlets = self.outlets.borrow_mut();
        if outlets.is_none() {
            let labels = detect::labels(&self.config.detector).unwrap_or_default();
            match Outlets::start(self.config, &labels, self.pulses) {
                Ok(started) => *outlets = Some(started),
                // It is the start's own error once the detector is there.
                Err(error) => log::debug!("the engine's state cannot be published yet: {error}"),
            }
        }
        if let Some(outlets) = outlets.as_mut() {
            outlets.tell(status);
        }
    }
}
