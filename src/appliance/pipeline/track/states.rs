// SPDX-License-Identifier: Apache-2.0
//! The states of one source from its thread to the sinks: they wait for the frames before them, and the end for the last of all.

use std::collections::VecDeque;
use std::time::Duration;

use crossbeam_channel::Sender;

use jetwatch_types::SourceState;

use super::state_hold::StateHold;

/// A state and its reason.
pub(super) type StateChange = (SourceState, Option<String>);

/// Reason of the `ended` state of a source that was removed.
pub(crate) const REMOVED_REASON: &str = "taken out by a change of the configuration";

/// The states of one source.
pub(super) struct SourceStates {
    /// To publish, in this order; [`SourceState::Offline`] once the frames before it are processed.
    pub(super) waiting: VecDeque<StateChange>,
    /// What is published of them.
    pub(super) hold: StateHold,
    /// The end of the source, to publish once its last frame is processed.
    pub(super) end: Option<StateChange>,
    /// The end was published.
    pub(super) has_ended: bool,
    /// Receives a message once the source is removed.
    pub(super) removal: Option<Sender<()>>,
}

impl SourceStates {
    /// The state `offline` is published after `hold`.
    pub(super) fn new(hold: Duration) -> Self {
        Self {
            waiting: VecDeque::new(),
            hold: StateHold::new(hold),
            end: None,
            has_ended: false,
            removal: None,
        }
    }

    /// The source is to be removed after its last frame. One that failed permanently, or is late, never reports its end.
    pub(super) fn remove(&mut self, done: Sender<()>) {
        self.removal = Some(done);
        if !self.has_ended {
            self.end
                .get_or_insert_with(|| (SourceState::Ended, Some(REMOVED_REASON.to_owned())));
        }
    }

    /// Whether no frame follows those that are in the pipeline.
    pub(super) fn is_ending(&self) -> bool {
        self.end.is_some() || self.has_ended
    }
}
