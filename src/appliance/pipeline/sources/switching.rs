// SPDX-License-Identifier: Apache-2.0
//! Switches of the running sources: kept, and passed to the batcher and to the tracking stage.

use jetwatch_config::Config;

use super::Sources;
use super::scheduling::is_scheduled;
use crate::switches::{SourceSwitches, SwitchChange};
use crate::track::TrackInput;

impl Sources {
    /// What is switched of the source `name`. A threshold below that of the detector, which may have changed, does not count.
    pub(super) fn switches_of(&self, name: &str) -> SourceSwitches {
        let mut switches = self.switches.of(name);
        let least = self.score_threshold();
        switches.score_threshold = switches.score_threshold.filter(|score| *score >= least);
        switches
    }

    /// Minimum score of the detector.
    pub(crate) fn score_threshold(&self) -> f32 {
        self.defaults.score_threshold
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
            self.batcher.set_detecting(id, true);
        }
        let is_off = change == SwitchChange::Detection(false);
        let _ = self.inputs.send(TrackInput::Switched { id, change });
        if is_off {
            // Frames that skip the network for this follow the message.
            self.batcher.set_detecting(id, false);
        }
        true
    }

    /// Forgets what was switched of sources other than the running ones and those of `config`, and of rules that are gone.
    pub(crate) fn retain_switches(&mut self, config: &Config) {
        let running = self.running.iter().map(|source| &source.config);
        self.switches.retain(running.chain(&config.sources));
    }
}
