// SPDX-License-Identifier: Apache-2.0
//! What the tracking stage receives: inputs, whose order counts, and control messages, in a channel of their own.
//!
//! A control message is published after all inputs that were sent before it, and none is lost at the end.

use crossbeam_channel::{Receiver, Sender, bounded};

use jetwatch_archive::Item;
use jetwatch_platform::throttling::ThrottleEvent;
use jetwatch_publish::{ReloadStatus, Reply};
use jetwatch_record::{Overlay, SnapshotPicture};
use jetwatch_schedule::{Schedule, Status};
use jetwatch_telemetry::update_status::UpdateStatus;
use jetwatch_types::{BudgetedImage, FrameMeta, SourceId, SourceState};

use super::{FrameResult, TrackedSource};
use crate::secondary::SecondaryResult;
use crate::switches::SwitchChange;

/// Inputs that may wait.
const INPUT_DEPTH: usize = 256;

/// Control messages that may wait.
const CONTROL_DEPTH: usize = 64;

/// What must stay in order with the frames.
pub(crate) enum TrackInput {
    /// An inference worker has the detections of a frame.
    Detections { order: u64, result: FrameResult },
    /// A frame that skipped the network.
    Skipped {
        order: u64,
        meta: FrameMeta,
        full_image: Option<BudgetedImage>,
    },
    /// The result of a secondary network for a track.
    SecondaryResult(SecondaryResult),
    /// A source is added; its frames and states follow.
    SourceAdded {
        id: SourceId,
        source: Box<TrackedSource>,
        overlay: Box<Overlay>,
    },
    /// All sources that the run starts with have been added.
    SourcesReady,
    /// A source is removed: no new frame comes from it. `done` is sent once its last frame has been processed.
    SourceRemoved { id: SourceId, done: Sender<()> },
    /// The state of a source has changed.
    SourceState {
        id: SourceId,
        state: SourceState,
        reason: Option<String>,
    },
    /// Something of a source was switched.
    Switched { id: SourceId, change: SwitchChange },
    /// The schedule of detection of a source (`None`: it has none) says something else; with the new schedules of its rules, in the
    /// order of their names, where a reload has changed them.
    Scheduled {
        id: SourceId,
        status: Option<Status>,
        schedules: Option<Vec<Option<Schedule>>>,
    },
    /// No frame follows from this source, and its queue is closed.
    QueueClosed { id: SourceId },
    /// All other threads have ended.
    Shutdown,
}

impl From<SecondaryResult> for TrackInput {
    fn from(result: SecondaryResult) -> Self {
        Self::SecondaryResult(result)
    }
}

/// What is published as it comes, whatever the frames.
pub(crate) enum ControlMessage {
    /// The machine has begun or ended to throttle.
    Throttling(ThrottleEvent),
    /// The configuration was read again.
    Reload(Box<ReloadStatus>),
    /// The updater of the package has written its state.
    Update(Box<UpdateStatus>),
    /// A command was executed or refused.
    CommandReply(Reply),
    /// A file of the archive has changed its state.
    Media(Box<Item>),
    /// A picture of a track.
    Snapshot(SnapshotPicture),
}

/// The channel of the inputs.
pub(crate) fn input_channel() -> (Sender<TrackInput>, Receiver<TrackInput>) {
    bounded(INPUT_DEPTH)
}

/// The channel of the control messages.
pub(crate) fn control_channel() -> (Sender<ControlMessage>, Receiver<ControlMessage>) {
    bounded(CONTROL_DEPTH)
}
