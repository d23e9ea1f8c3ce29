//! What the chain's thread and the `mqtt` thread share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::ConnectionState;
use super::outbox::Outbox;
use super::retained::RetainedSnapshot;

/// Someone closed the sink.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    /// When the last byte must be out.
    pub deadline: Instant,
}

/// What the broker has kept from an earlier run.
#[derive(Debug, PartialEq)]
enum CleanupState {
    /// Nobody wants to know it yet.
    Idle,
    /// It is to be read at the next connection, or on this one.
    Requested,
    /// It was.
    Loaded(RetainedSnapshot),
    /// It was looked at, or cannot be read.
    Done,
}

/// Shared state; each lock is held for a few copies at most, never while waiting.
#[derive(Debug)]
pub(super) struct Shared {
    outbox: Mutex<Outbox>,
    connection_state: Mutex<ConnectionState>,
    closing: Mutex<Option<Closing>>,
    cleanup: Mutex<CleanupState>,
    /// Rung when somebody asks for what the broker has kept.
    pub retained_requested: Notify,
    /// Rung when there is something to do; a ring while nobody waits is kept.
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
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn connection_state(&self) -> MutexGuard<'_, ConnectionState> {
        self.connection_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn closing(&self) -> Option<Closing> {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for what the broker has kept, once; false: it was asked for before.
    pub fn request_retained(&self) -> bool {
        let mut stock = self.cleanup();
        let is_first = *stock == CleanupState::Idle;
        if is_first {
            *stock = CleanupState::Requested;
            self.retained_requested.notify_one();
        }
        is_first
    }

    /// Whether it is still to be read.
    pub fn is_retained_requested(&self) -> bool {
        *self.cleanup() == CleanupState::Requested
    }

    /// It was read; `None`: it cannot be.
    pub fn set_retained(&self, found: Option<RetainedSnapshot>) {
        *self.cleanup() = found.map_or(CleanupState::Done, CleanupState::Loaded);
    }

    /// What was read, once; `None`: it was not yet, or was taken. What cannot be read is empty.
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
        self.cleanup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn close_by(&self, deadline: Instant) {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner) = Some(Closing { deadline });
        self.wake.notify_one();
    }
}
