//! What a PUBACK with an error means, and when what was refused is sent again. Knows the time, and no message.

use std::time::Duration;

use jetwatch_mqtt::{Ack, ReasonCode};
use tokio::time::Instant;

use super::backoff::JitteredBackoff;
use super::outbox::{HeldKind, Outbox};
use jetwatch_telemetry::LogRateLimit;

/// Acknowledgements after which one more message may be on its way. A broker whose queue is full takes some messages and refuses
/// others: with one on its way, none overtakes a refused one.
const ACKS_PER_STEP: usize = 16;

/// Without a refusal for this long, the next one counts as the first.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// A reason is logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Reasons that are told apart in the log; there are fewer.
const MAX_REASONS: usize = 16;

/// Whether the broker may take the same message later.
///
/// Not [`ReasonCode::NOT_AUTHORIZED`]: it is a rule of the broker about this topic, which waiting does not change, and all other topics
/// would wait behind it. It is for the operator; the log and a gap say what was dropped. Not what is wrong with the message
/// itself either: its topic, its payload, its size.
pub(super) fn is_temporary(code: ReasonCode) -> bool {
    matches!(
        code,
        // What brokers use where MQTT has no code: a full disk, a queue that is not there for the moment, a plug-in that failed.
        ReasonCode::UNSPECIFIED_ERROR
            | ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR
            // A queue with a limit that is full.
            | ReasonCode::QUOTA_EXCEEDED
            // These are not for PUBACK, but their sense is clear where a broker uses them there.
            | ReasonCode::SERVER_UNAVAILABLE
            | ReasonCode::SERVER_BUSY
            | ReasonCode::SERVER_SHUTTING_DOWN
            | ReasonCode::RECEIVE_MAXIMUM_EXCEEDED
            | ReasonCode::MESSAGE_RATE_TOO_HIGH
            // The broker still has a message with this identifier: the next attempt has another one.
            | ReasonCode::PACKET_IDENTIFIER_IN_USE
    )
}

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
#[derive(Debug)]
pub(super) struct Refusals {
    messages: Hold,
    states: Hold,
    logged: LogRateLimit<u8>,
    /// Acknowledgements since a message was refused; `None`: none was.
    acknowledged: Option<usize>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            messages: Hold::default(),
            states: Hold::default(),
            logged: LogRateLimit::new(LOG_INTERVAL, MAX_REASONS),
            acknowledged: None,
        }
    }
}

impl Refusals {
    /// The broker has refused something for now; logged.
    pub fn refused(&mut self, kind: HeldKind, ack: &Ack, now: Instant) {
        if let Some(repeats) = self.logged.admit(ack.code.0, now.into_std()) {
            let reason = ack.explained();
            log::warn!(repeats; "the MQTT broker refuses messages for now: {reason}; they wait and are sent again, check the limits of its queues");
        }
        match kind {
            HeldKind::Message => {
                self.messages.refused(now);
                self.acknowledged = Some(0);
            }
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
        if self.messages.is_over(now) {
            outbox.release_messages();
        }
        if self.states.is_over(now) {
            outbox.release_states();
        }
    }

    /// When [`release`](Self::release) has something to do.
    pub fn next(&self) -> Option<Instant> {
        [self.messages.until, self.states.until]
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
        let full = Ack::new(1, ReasonCode::QUOTA_EXCEEDED);
        assert_eq!(refusals.window(64), 64);
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..4 {
            // Two on their way at once are one refusal.
            refusals.refused(HeldKind::Message, &full, now);
            refusals.refused(HeldKind::Message, &full, now);
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
        refusals.refused(HeldKind::Message, &full, now);
        let wait = refusals.next().map(|next| next - now);
        assert!(wait <= Some(Duration::from_millis(500)), "{wait:?}");
        refusals.acknowledged();
        assert_eq!(
            refusals.window(64),
            1,
            "it was on its way before the refusal"
        );
        for _ in 0..64 * ACKS_PER_STEP {
            refusals.release(now + Duration::from_secs(1), &mut Outbox::new(1));
            refusals.acknowledged();
        }
        assert_eq!(refusals.window(64), 64);
    }

    #[test]
    fn codes_about_the_message_itself_and_about_rights_are_final() {
        for code in [
            ReasonCode::NOT_AUTHORIZED,
            ReasonCode::TOPIC_NAME_INVALID,
            ReasonCode::PAYLOAD_FORMAT_INVALID,
            ReasonCode::PACKET_TOO_LARGE,
        ] {
            assert!(!is_temporary(code), "{code:?}");
        }
        for code in [
            ReasonCode::UNSPECIFIED_ERROR,
            ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR,
            ReasonCode::QUOTA_EXCEEDED,
        ] {
            assert!(is_temporary(code), "{code:?}");
        }
    }
}
