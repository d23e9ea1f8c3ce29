// SPDX-License-Identifier: Apache-2.0
//! State shared between the pipeline's thread and the `mqtt` thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use crossbeam_channel::Sender;
use parking_lot::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::ConnectionState;
use super::hosted::DeliveryObserver;
use super::message::{Message, Tag, tags_of};
use super::outbox::Outbox;
use super::retained::RetainedSnapshot;
use super::spooler::OldestMessage;
use super::wall_clock::WallClock;
use crate::{Encoder, Publication, SinkCounts, Timestamp};
use jetwatch_telemetry::BusyTime;

/// Bytes of a packet beside its payload: topic, properties and header, with room to spare.
const PACKET_OVERHEAD: usize = 1024;

/// Pictures are not made smaller than this, in bytes, because larger ones were refused.
const MIN_LIKELY_BYTES: usize = 4096;

/// The sink was closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    /// When the last byte must be sent.
    pub deadline: Instant,
}

/// Progress of reading the values retained from an earlier run.
#[derive(Debug, PartialEq)]
enum CleanupState {
    /// Not requested.
    Idle,
    /// Requested: to be read on this connection or the next one.
    Requested,
    /// Read.
    Loaded(RetainedSnapshot),
    /// Processed, or not readable.
    Done,
}

/// Shared state; each lock is held for a few copies, never while waiting.
#[derive(Debug)]
pub(super) struct Shared {
    outbox: Mutex<Outbox>,
    /// Locked after the outbox.
    clock: Mutex<WallClock>,
    connection_state: Mutex<ConnectionState>,
    /// Largest packet that the broker of the newest connection takes.
    max_packet_bytes: AtomicUsize,
    /// Payloads of more than this are likely to be refused, as larger ones were.
    likely_bytes: AtomicUsize,
    closing: Mutex<Option<Closing>>,
    cleanup: Mutex<CleanupState>,
    /// Makes messages about gaps, for their topic; `None`: messages have no numbers.
    gap_encoder: Mutex<Option<(Encoder, Arc<str>)>>,
    /// Wakes the thread of the spool.
    spooler: OnceLock<Sender<()>>,
    /// Notified of each message; none in the daemon.
    observer: OnceLock<Arc<dyn DeliveryObserver>>,
    /// Notified when the retained values are requested.
    pub retained_requested: Notify,
    /// Notified when there is work; a notification without a waiter is kept.
    pub wake: Notify,
    /// In which messages were written, or waited for the broker.
    pub busy: BusyTime,
}

impl Shared {
    pub fn new(outbox: Outbox, gap_encoder: Option<(Encoder, Arc<str>)>) -> Self {
        Self {
            outbox: Mutex::new(outbox),
            clock: Mutex::default(),
            connection_state: Mutex::new(ConnectionState::Connecting),
            max_packet_bytes: AtomicUsize::new(usize::MAX),
            likely_bytes: AtomicUsize::new(usize::MAX),
            closing: Mutex::new(None),
            cleanup: Mutex::new(CleanupState::Idle),
            gap_encoder: Mutex::new(gap_encoder),
            spooler: OnceLock::new(),
            observer: OnceLock::new(),
            retained_requested: Notify::new(),
            wake: Notify::new(),
            busy: BusyTime::default(),
        }
    }

    pub fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock()
    }

    /// Current message counts.
    pub fn counts(&self) -> SinkCounts {
        SinkCounts {
            busy: self.busy.total(),
            ..self.outbox().counts()
        }
    }

    pub fn clock(&self) -> MutexGuard<'_, WallClock> {
        self.clock.lock()
    }

    /// Milliseconds since 1970. The times in `outbox` are corrected where the clock was set meanwhile.
    pub fn now_ms(&self, outbox: &mut Outbox) -> u64 {
        let (now_ms, step_ms) = self.clock().read();
        if step_ms != 0 {
            outbox.correct_times(step_ms);
        }
        now_ms
    }

    /// The tags of the messages of `record`, numbered from `first_seq` on and made now.
    pub fn tags(&self, record: &Publication<'_>, first_seq: u64) -> Vec<Tag> {
        let mut outbox = self.outbox();
        let tags = tags_of(record, first_seq, self.now_ms(&mut outbox));
        if let Some(last) = tags.last() {
            self.clock().stamped(last.seq);
        }
        tags
    }

    /// The oldest message that waits.
    pub fn oldest_message(&self, outbox: &mut Outbox) -> OldestMessage {
        let now_ms = self.now_ms(outbox);
        let view = outbox.spool_view();
        OldestMessage {
            now_ms,
            at_ms: view.oldest_ms,
            shift: self.clock().shift(view.cursor),
        }
    }

    /// Queues messages about the gaps of `outbox`.
    pub fn publish_gaps(&self, outbox: &mut Outbox) {
        let mut encoder = self.gap_encoder.lock();
        let Some((encoder, topic)) = &mut *encoder else {
            return;
        };
        for gap in outbox.take_gaps() {
            let at = SystemTime::now();
            let publication = Publication::Gap { gap: &gap, at };
            encoder.encode(&publication, Timestamp::now(), |payload| {
                let payload = Bytes::copy_from_slice(payload);
                outbox.push_first(Message::new(Arc::clone(topic), payload));
            });
        }
    }

    /// The thread of the spool is woken through `sender`.
    pub fn set_spooler(&self, sender: Sender<()>) {
        let _ = self.spooler.set(sender);
    }

    /// `observer` is notified of each message.
    pub fn set_observer(&self, observer: Arc<dyn DeliveryObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Notifies the observer, if there is one.
    pub fn observe(&self, notify: impl FnOnce(&dyn DeliveryObserver)) {
        if let Some(observer) = self.observer.get() {
            notify(&**observer);
        }
    }

    /// Wakes the thread of the spool; without one, nothing.
    pub fn wake_spooler(&self) {
        if let Some(sender) = self.spooler.get() {
            // A full channel has woken it already.
            let _ = sender.try_send(());
        }
    }

    /// A connection whose broker takes packets of `bytes` at most has begun.
    pub fn set_max_packet_bytes(&self, bytes: usize) {
        self.max_packet_bytes.store(bytes, Ordering::Relaxed);
    }

    /// A payload of `bytes` was too large for the broker, which has not said how much it takes.
    pub fn refused_bytes(&self, bytes: usize) {
        // Events are tried in any case.
        let likely = (bytes / 2).max(MIN_LIKELY_BYTES);
        self.likely_bytes.fetch_min(likely, Ordering::Relaxed);
    }

    /// Largest payload that fits into a packet with any topic of ours, for what can be made smaller.
    pub fn max_payload_bytes(&self) -> usize {
        let packet = self.max_packet_bytes.load(Ordering::Relaxed);
        let payload = packet.saturating_sub(PACKET_OVERHEAD);
        payload.min(self.likely_bytes.load(Ordering::Relaxed))
    }

    pub fn connection_state(&self) -> MutexGuard<'_, ConnectionState> {
        self.connection_state.lock()
    }

    pub fn closing(&self) -> Option<Closing> {
        *self.closing.lock()
    }

    /// Requests the retained values, once; returns false when they were requested before.
    pub fn request_retained(&self) -> bool {
        let mut stock = self.cleanup();
        let is_first = *stock == CleanupState::Idle;
        if is_first {
            *stock = CleanupState::Requested;
            self.retained_requested.notify_one();
        }
        is_first
    }

    /// Whether they are still to be read.
    pub fn is_retained_requested(&self) -> bool {
        *self.cleanup() == CleanupState::Requested
    }

    /// Stores the result; `None`: they cannot be read.
    pub fn set_retained(&self, found: Option<RetainedSnapshot>) {
        *self.cleanup() = found.map_or(CleanupState::Done, CleanupState::Loaded);
    }

    /// Takes the result, once; `None`: not read yet, or already taken. Empty when they cannot be read.
    pub fn take_retained(&self) -> Option<RetainedSnapshot> {
        let mut stock = self.cleanup();
        match *stock {
            CleanupState::Idle | CleanupState::Requested => None,
            CleanupState::Done => Some(RetainedSnapshot::default()),
            CleanupState::Loaded(_) => match std::mem::replace(&mut *stock, CleanupState::Done) {
                CleanupState::Loaded(found) => Some(found),
                _ => None,
            },
        }
    }

    fn cleanup(&self) -> MutexGuard<'_, CleanupState> {
        self.cleanup.lock()
    }

    pub fn close_by(&self, deadline: Instant) {
        *self.closing.lock() = Some(Closing { deadline });
        self.wake.notify_one();
    }
}
