// SPDX-License-Identifier: Apache-2.0
//! States of one source as they are published: `offline` only once the source has been away for the hold time, and once for each
//! time that it is away, however often it is tried meanwhile. Pure: times are arguments.

use std::time::{Duration, Instant, SystemTime};

use jetwatch_types::SourceState;

/// The states of one source.
#[derive(Debug, Default)]
pub(crate) struct StateHold {
    hold: Duration,
    published: Option<SourceState>,
    away: Option<Away>,
}

/// A source that went offline and has not been online since.
#[derive(Debug)]
struct Away {
    due: Instant,
    /// When it went offline.
    at: SystemTime,
    /// Why, by the newest attempt.
    reason: Option<String>,
    is_published: bool,
}

/// A state to publish, with its reason and when it began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StateMessage {
    pub(crate) state: SourceState,
    pub(crate) reason: Option<String>,
    pub(crate) at: SystemTime,
}

impl StateHold {
    /// A source whose state `offline` is published after `hold`.
    pub(crate) fn new(hold: Duration) -> Self {
        Self {
            hold,
            ..Self::default()
        }
    }

    /// Takes a state of the source; returns what is to be published now.
    pub(crate) fn step(
        &mut self,
        state: SourceState,
        reason: Option<String>,
        (now, at): (Instant, SystemTime),
    ) -> Option<StateMessage> {
        match (state, &mut self.away) {
            (SourceState::Offline, Some(away)) => away.reason = reason,
            (SourceState::Offline, None) => {
                self.away = Some(Away {
                    due: now + self.hold,
                    at,
                    reason,
                    is_published: false,
                });
            }
            // An attempt while it is away.
            (SourceState::Connecting, Some(_)) => {}
            (SourceState::Connecting, None) | (SourceState::Online | SourceState::Ended, _) => {
                let was_away = self.away.take().is_some();
                // To subscribers it never went away.
                let is_known = was_away && self.published == Some(state);
                self.published = Some(state);
                return (!is_known).then_some(StateMessage { state, reason, at });
            }
        }
        self.poll(now)
    }

    /// What is due at `now`.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<StateMessage> {
        let away = self.away.as_mut()?;
        if away.is_published || now < away.due {
            return None;
        }
        away.is_published = true;
        self.published = Some(SourceState::Offline);
        Some(StateMessage {
            state: SourceState::Offline,
            reason: away.reason.clone(),
            at: away.at,
        })
    }

    /// What is held, at the end of the run.
    pub(crate) fn settle(&mut self) -> Option<StateMessage> {
        let due = self.away.as_ref()?.due;
        self.poll(due)
    }

    /// When something will be due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let away = self.away.as_ref()?;
        (!away.is_published).then_some(away.due)
    }
}

#[cfg(test)]
mod tests {
    use SourceState::{Connecting, Ended, Offline, Online};

    use super::*;

    /// What is published, as seconds and state, by steps at seconds; without a state only the time passes.
    fn published(
        hold_s: u64,
        steps: &[(u64, Option<SourceState>)],
    ) -> Vec<(u64, SourceState, u64)> {
        let mut hold = StateHold::new(Duration::from_secs(hold_s));
        let (start, first) = (Instant::now(), SystemTime::UNIX_EPOCH);
        let mut messages = Vec::new();
        for &(at_s, state) in steps {
            let at = Duration::from_secs(at_s);
            let reason = Some(format!("at {at_s}"));
            let message = match state {
                Some(state) => hold.step(state, reason, (start + at, first + at)),
                None => hold.poll(start + at),
            };
            if let Some(message) = message {
                let since = message
                    .at
                    .duration_since(first)
                    .expect("not before the start");
                messages.push((at_s, message.state, since.as_secs()));
            }
        }
        messages
    }

    #[test]
    fn short_outages_are_not_published() {
        let steps = [
            (0, Some(Connecting)),
            (1, Some(Online)),
            (10, Some(Offline)),
            (11, Some(Connecting)),
            (12, Some(Offline)),
            (13, Some(Connecting)),
            (14, Some(Online)),
            (19, None),
            (20, Some(Offline)),
            (24, None),
            (24, Some(Online)),
            (90, None),
        ];
        assert_eq!(published(5, &steps), [(0, Connecting, 0), (1, Online, 1)]);
    }

    #[test]
    fn each_outage_is_published_once_with_its_start() {
        let steps = [
            (1, Some(Online)),
            (10, Some(Offline)),
            (11, Some(Connecting)),
            (14, None),
            (15, None),
            (16, Some(Offline)),
            (17, Some(Connecting)),
            (60, Some(Online)),
            (70, Some(Offline)),
            (80, Some(Connecting)),
        ];
        let wanted = [
            (1, Online, 1),
            (15, Offline, 10),
            (60, Online, 60),
            (80, Offline, 70),
        ];
        assert_eq!(published(5, &steps), wanted);
        // Without a hold: at once, and once as well.
        let wanted = [
            (1, Online, 1),
            (10, Offline, 10),
            (60, Online, 60),
            (70, Offline, 70),
        ];
        assert_eq!(published(0, &steps), wanted);
    }

    #[test]
    fn the_end_is_published_at_once_and_what_is_held_with_it() {
        let steps = [(0, Some(Connecting)), (1, Some(Offline)), (2, Some(Ended))];
        assert_eq!(published(5, &steps), [(0, Connecting, 0), (2, Ended, 2)]);
        let mut hold = StateHold::new(Duration::from_secs(5));
        let now = (Instant::now(), SystemTime::UNIX_EPOCH);
        assert_eq!(hold.step(Offline, Some("why".to_owned()), now), None);
        assert_eq!(hold.due(), Some(now.0 + Duration::from_secs(5)));
        let held = hold.settle().expect("it is away");
        assert_eq!((held.state, held.reason.as_deref()), (Offline, Some("why")));
        assert_eq!((hold.settle(), hold.due()), (None, None));
    }
}
