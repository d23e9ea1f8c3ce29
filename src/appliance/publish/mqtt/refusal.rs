// SPDX-License-Identifier: Apache-2.0
//! When what was refused for now is sent again. Knows the time, and no message.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::JitteredBackoff;
use super::outbox::{HeldKind, Outbox};

/// Acknowledgements after which one more message may be on its way. A broker whose queue is full takes some messages and refuses
/// others: with one on its way, none overtakes a refused one.
const ACKS_PER_STEP: usize = 16;

/// Without a refusal for this long, the next one counts as the first.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// One kind of what waits.
#[derive(Debug, Default)]
struct Hold {
    backoff: JitteredBackoff,
    /// When it is released; `None`: nothing waits.
    until: Option<Instant>,
    refused_at: Option<Instant>,
}

impl Hold {
    fn refused(&mut self, now: Instant) {
        let last = self.refused_at.replace(now);
        // Others that were on their way at the same time are part of the same refusal.
        if self.until.is_some() {
            return;
        }
        if last.is_some_and(|last| now >= last + FORGOTTEN_AFTER) {
            self.backoff.reset();
        }
        self.until = Some(now + self.backoff.failed());
    }

    /// Whether the wait is over; true once.
    fn is_over(&mut self, now: Instant) -> bool {
        let is_over = self.until.is_some_and(|until| now >= until);
        if is_over {
            self.until = None;
        }
        is_over
    }
}

/// The refusals of one connection.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    messages: Hold,
    aside: Hold,
    states: Hold,
    /// Acknowledgements since a message was refused; `None`: none was.
    acknowledged: Option<usize>,
}

impl Refusals {
    /// The broker has refused something for now.
    pub fn refused(&mut self, kind: HeldKind, now: Instant) {
        match kind {
            HeldKind::Message => {
                self.messages.refused(now);
                self.acknowledged = Some(0);
            }
            HeldKind::Aside => self.aside.refused(now),
            HeldKind::State => self.states.refused(now),
        }
    }

    /// The broker has acknowledged something.
    pub fn acknowledged(&mut self) {
        if self.messages.until.is_some() {
            return;
        }
        if let Some(count) = &mut self.acknowledged {
            *count += 1;
            if *count >= ACKS_PER_STEP {
                self.messages.backoff.reset();
            }
        }
    }

    /// How many of `window` messages may be on their way.
    pub fn window(&self, window: usize) -> usize {
        match self.acknowledged {
            Some(count) => window.min(1 + count / ACKS_PER_STEP),
            None => window,
        }
    }

    /// Releases what has waited long enough.
    pub fn release(&mut self, now: Instant, outbox: &mut Outbox) {
        if self.aside.is_over(now) {
            outbox.return_aside();
        }
        if self.messages.is_over(now) {
            outbox.release_messages();
            if outbox.has_aside() {
                // For the first time.
                self.aside = Hold::default();
                self.aside.refused(now);
            }
        }
        if self.states.is_over(now) {
            outbox.release_states();
        }
    }

    /// When [`release`](Self::release) has something to do.
    pub fn next(&self) -> Option<Instant> {
        [self.messages.until, self.aside.until, self.states.until]
            .into_iter()
            .flatten()
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_the_window_opens_slowly() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.window(64), 64);
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..4 {
            // Two on their way at once are one refusal.
            refusals.refused(HeldKind::Message, now);
            refusals.refused(HeldKind::Message, now);
            let next = refusals.next().expect("something waits");
            waits.push(next - now);
            now = next;
            refusals.release(now, &mut Outbox::new(1));
            assert_eq!(refusals.next(), None);
        }
        assert!(
            waits.is_sorted() && waits[3] >= Duration::from_secs(3),
            "{waits:?}"
        );
        assert_eq!(refusals.window(64), 1);
        for _ in 0..ACKS_PER_STEP {
            refusals.acknowledged();
        }
        assert_eq!(refusals.window(64), 2);
        refusals.refused(HeldKind::Message, now);
        let wait = refusals.next().map(|next| next - now);
        assert!(wait <= Some(Duration::from_millis(500)), "{wait:?}");
        refusals.acknowledged();
        // It was on its way before the refusal.
        assert_eq!(refusals.window(64), 1);
        for _ in 0..64 * ACKS_PER_STEP {
            refusals.release(now + Duration::from_secs(1), &mut Outbox::new(1));
            refusals.acknowledged();
        }
        assert_eq!(refusals.window(64), 64);
    }
}
