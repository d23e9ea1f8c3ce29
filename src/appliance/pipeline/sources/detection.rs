// SPDX-License-Identifier: Apache-2.0
//! Schedules and switches of the running sources, for the batcher and the tracking stage. A reload changes schedules while the
//! sources go on; switches are kept.
//!
//! Detection follows the clock of the machine, where frames are skipped; rules follow the capture time of their frames, in the
//! tracking stage.

use std::time::SystemTime;

use jetwatch_config::{Config, SourceConfig};
use jetwatch_schedule::ScheduleState;

use super::{RunningSource, Sources};
use crate::switches::{SourceSwitches, SwitchChange};
use crate::track::TrackInput;

/// Whether a schedule has detection on.
pub(super) fn is_scheduled(schedule: Option<&ScheduleState>) -> bool {
    schedule.is_none_or(|schedule| schedule.status().active)
}

impl Sources {
    /// Turns detection on and off where a schedule says so at `now`. Cheap where nothing changes.
    pub(crate) fn follow_schedules(&mut self, now: SystemTime) {
        for index in 0..self.running.len() {
            let schedule = self.running[index].schedule.as_mut();
            if schedule.is_some_and(|schedule| schedule.step(now)) {
                self.apply_schedule(index, None);
            }
        }
    }

    /// Gives the running sources the schedules of these, which differ from them in nothing else.
    pub(crate) fn reschedule(&mut self, changed: &[SourceConfig], now: SystemTime) {
        for source in changed {
            let mut running = self.running.iter();
            let Some(index) = running.position(|known| known.config.name == source.name) else {
                continue;
            };
            let schedule = source.schedule.clone();
            self.running[index].schedule =
                schedule.map(|schedule| ScheduleState::new(schedule, now));
            self.running[index].config = source.clone();
            self.apply_schedule(index, Some(source));
            log::info!(source = source.name.as_str(); "its schedules were changed");
        }
    }

    /// Passes on what the schedule of a source says, and its new schedules where there are some.
    fn apply_schedule(&self, index: usize, changed: Option<&SourceConfig>) {
        let RunningSource {
            id,
            config,
            schedule,
            ..
        } = &self.running[index];
        let status = schedule.as_ref().map(ScheduleState::status);
        let is_detecting =
            !self.switches_of(&config.name).detection_off && is_scheduled(schedule.as_ref());
        if is_detecting {
            self.shared.batcher.set_detecting(*id, true);
        }
        let schedules = changed.map(|source| {
            let schedules = source.rules.schedules();
            schedules.map(Option::<&_>::cloned).collect()
        });
        let _ = self.shared.inputs.send(TrackInput::Scheduled {
            id: *id,
            status,
            schedules,
        });
        if !is_detecting {
            // Frames that skip the network for this follow the message.
            self.shared.batcher.set_detecting(*id, false);
        }
    }

    /// What is switched of the source `name`. A threshold below that of the detector, which may have changed, does not count.
    pub(super) fn switches_of(&self, name: &str) -> SourceSwitches {
        let mut switches = self.switches.of(name);
        let least = self.score_threshold();
        switches.score_threshold = switches.score_threshold.filter(|score| *score >= least);
        switches
    }

    /// Minimum score of the detector.
    pub(crate) fn score_threshold(&self) -> f32 {
        self.defaults.detector.score_threshold()
    }

    /// Switches something of the running source `name`, and keeps it; false: there is none.
    pub(crate) fn switch(&mut self, name: &str, change: SwitchChange) -> bool {
        let mut running = self.running.iter();
        let Some(source) = running.find(|source| source.config.name == name) else {
            return false;
        };
        self.switches.set(name, &change);
        let id = source.id;
        if change == SwitchChange::Detection(true) && is_scheduled(source.schedule.as_ref()) {
            self.shared.batcher.set_detecting(id, true);
        }
        let is_off = change == SwitchChange::Detection(false);
        let _ = self.shared.inputs.send(TrackInput::Switched { id, change });
        if is_off {
            // Frames that skip the network for this follow the message.
            self.shared.batcher.set_detecting(id, false);
        }
        true
    }

    /// Forgets what was switched of sources other than the running ones and those of `config`, and of rules that are gone.
    pub(crate) fn retain_switches(&mut self, config: &Config) {
        let running = self.running.iter().map(|source| &source.config);
        self.switches.retain(running.chain(&config.sources));
    }
}
