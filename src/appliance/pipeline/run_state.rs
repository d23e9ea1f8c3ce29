// SPDX-License-Identifier: Apache-2.0
//! What metrics, the page and the health file read of a run. They start before the detector is loaded, which may take minutes.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use jetwatch_archive::Archive;
use jetwatch_detect::DetectorFactory;
use jetwatch_publish::MqttMonitor;

use super::stats::StatsCollector;

/// How far a run has come.
#[derive(Default)]
pub(super) struct RunState {
    /// How far the engine is that is built; `None`: none was built.
    pub(super) building: Mutex<Option<String>>,
    /// Of the MQTT client, once the sinks have started.
    pub(super) mqtt: OnceLock<MqttMonitor>,
    /// Once the networks are loaded.
    pub(super) loaded: OnceLock<Loaded>,
}

/// A run whose networks are loaded.
pub(super) struct Loaded {
    pub(super) at: Instant,
    pub(super) detector: Arc<DetectorFactory>,
    pub(super) stats: Arc<StatsCollector>,
    /// Where files are kept.
    pub(super) archive: Option<Archive>,
    /// Requests a reload of the configuration.
    pub(super) reload: Box<dyn Fn() + Send + Sync>,
}
