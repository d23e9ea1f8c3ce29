// SPDX-License-Identifier: Apache-2.0
//! What the tracking stage receives in order with the frames.

use crossbeam_channel::{Receiver, Sender, bounded};

use jetwatch_record::Overlay;
use jetwatch_schedule::{Schedule, Status};
use jetwatch_types::{BudgetedImage, FrameMeta, SourceId, SourceState};

use super::source::{FrameResult, TrackedSource};
use crate::secondary::SecondaryResult;
use crate::switches::SwitchChange;

/// Inputs that may wait.
const INPUT_DEPTH: usize = 256;

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
    /// The camera of a source reports motion, or its end.
    Motion { id: SourceId, on: bool },
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

/// The channel of the inputs.
pub(crate) fn input_channel() -> (Sender<TrackInput>, Receiver<TrackInput>) {
    bounded(INPUT_DEPTH)
}
