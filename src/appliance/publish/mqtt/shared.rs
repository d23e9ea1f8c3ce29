//! State shared between the pipeline's thread and the `mqtt` thread.

use parking_lot::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::ConnectionState;
use super::outbox::Outbox;
use super::retained::RetainedSnapshot;

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
    connection_state: Mutex<ConnectionState>,
    closing: Mutex<Option<Closing>>,
    cleanup: Mutex<CleanupState>,
    /// Notified when the retained values are requested.
    pub retained_requested: Notify,
    /// Notified when there is work; a notification without a waiter is kept.
    pub wake: Notify,
}

impl Shared {
    pub fn new(outbox: Outbox) -> Self {
        Self {
            outbox: Mutex::new(outbox),
            connection_state: Mutex::new(ConnectionState::Connecting),
            closing: Mutex::new(None),
            cleanup: Mutex::new(CleanupState::Idle),
            retained_requested: Notify::new(),
            wake: Notify::new(),
        }
    }

    pub fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock()
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
