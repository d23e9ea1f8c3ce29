// SPDX-License-Identifier: Apache-2.0
//! What the parts of a run share once its networks are loaded.

use std::sync::Arc;

use crossbeam_channel::Sender;

use jetwatch_platform::Machine;
use jetwatch_telemetry::{Heartbeats, Recorder, StopToken};

use super::batcher::Batcher;
use super::stats::StatsCollector;
use super::track::{ControlMessage, TrackInput};

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) batcher: Arc<Batcher>,
    pub(super) stats: Arc<StatsCollector>,
    /// To the tracking stage.
    pub(super) inputs: Sender<TrackInput>,
    pub(super) control: Sender<ControlMessage>,
    pub(super) machine: Arc<Machine>,
    pub(super) recorder: Recorder,
    pub(super) heartbeats: Heartbeats,
    /// Ends the whole pipeline.
    pub(super) stop: StopToken,
}
