// SPDX-License-Identifier: Apache-2.0
//! Publishes the status of the detector while it loads: building an engine takes minutes.
//!
//! Sinks start with the first status, or when the detector is loaded. Called by [`Pipeline::start`](super::Pipeline::start).

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use super::PipelineError;
use super::metrics::Metrics;
use super::outputs::{Sinks, close_all};
use super::run_state::RunState;
use super::web::Web;
use jetwatch_config::Config;
use jetwatch_detect::engines::EngineState;
use jetwatch_detect::{self as detect, DetectorFactory};
use jetwatch_publish::DetectorStatus;
use jetwatch_telemetry::{Heartbeats, Recorder, systemd};
use jetwatch_types::Classes;

/// Shortest interval between two messages about a build, to subscribers and to systemd.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Time that one step of a build may take beyond the start timeout of the unit.
const START_EXTENSION: Duration = Duration::from_secs(60);

/// Longest time for sinks to deliver why there is no detector.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Loads the detector and publishes its status.
pub(super) struct DetectorStatusPublisher<'c> {
    config: &'c Config,
    sinks: RefCell<Option<Sinks>>,
    last_published: Cell<Option<Instant>>,
    heartbeats: &'c Heartbeats,
    metrics: &'c Metrics,
    web: &'c Web,
    run: &'c RunState,
}

impl<'c> DetectorStatusPublisher<'c> {
    pub(super) fn new(
        config: &'c Config,
        heartbeats: &'c Heartbeats,
        (metrics, web): (&'c Metrics, &'c Web),
        run: &'c RunState,
    ) -> Self {
        Self {
            config,
            heartbeats,
            metrics,
            web,
            run,
            sinks: RefCell::default(),
            last_published: Cell::default(),
        }
    }

    /// Loads the detector; see [`detect::load_with_progress`].
    pub(super) fn load(&self, recorder: &Recorder) -> Result<DetectorFactory, PipelineError> {
        let loaded = detect::load_with_progress(&self.config.detector, recorder, &|state| {
            self.on_engine_state(state)
        });
        loaded.map_err(|error| {
            if let Some(mut sinks) = self.sinks.take() {
                sinks.publish(&DetectorStatus::Failed {
                    reason: error.to_string(),
                });
                close_all(sinks.sinks, CLOSE_TIMEOUT);
            }
            error.into()
        })
    }

    /// The sinks, started now if none was started before; `classes` are those of the detector.
    pub(super) fn into_sinks(self, classes: &Classes) -> Result<Sinks, PipelineError> {
        match self.sinks.take() {
            Some(sinks) => Ok(sinks),
            None => self.start_sinks(classes),
        }
    }

    fn start_sinks(&self, classes: &Classes) -> Result<Sinks, PipelineError> {
        Sinks::start(
            self.config,
            classes,
            self.heartbeats,
            (self.metrics, self.web),
            self.run,
        )
    }

    fn on_engine_state(&self, state: EngineState) {
        let (status, line) = match state {
            // The status of the detector follows.
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
            .is_some_and(|published| published.elapsed() < PUBLISH_INTERVAL)
        {
            return;
        }
        let is_missing = matches!(status, DetectorStatus::EngineMissing { .. });
        // The status after a missing engine is published immediately.
        self.last_published.set((!is_missing).then(Instant::now));
        systemd::extend_timeout(START_EXTENSION, &line);
        *self.run.building.lock() = Some(line);
        self.publish(&status);
    }

    fn publish(&self, status: &DetectorStatus) {
        let mut sinks = self.sinks.borrow_mut();
        if sinks.is_none() {
            let classes = detect::classes(&self.config.detector).unwrap_or_default();
            match self.start_sinks(&classes) {
                Ok(started) => *sinks = Some(started),
                // The start reports the error once the detector is loaded.
                Err(error) => log::debug!("the engine's state cannot be published yet: {error}"),
            }
        }
        if let Some(sinks) = sinks.as_mut() {
            sinks.publish(status);
        }
    }
}
