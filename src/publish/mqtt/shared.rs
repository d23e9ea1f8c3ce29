//! What the chain's thread and the `mqtt` thread share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Connection;
use super::outbox::Outbox;

/// Someone closed the sink.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    /// When the last byte must be out.
    pub deadline: Instant,
}

/// Shared state; each lock is held for a few copies at most, never while waiting.
#[derive(Debug)]
pub(super) struct Shared {
    outbox: Mutex<Outbox>,
    connection: Mutex<Connection>,
    closing: Mutex<Option<Closing>>,
    /// Rung when there is something to do; a ring while nobody waits is kept.
    pub wake: Notify,
}

impl Shared {
    pub fn new(outbox: Outbox) -> Self {
        Self {
            outbox: Mutex::new(outbox),
            connection: Mutex::new(Connection::Connecting),
            closing: Mutex::new(None),
            wake: Notify::new(),
        }
    }

    pub fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn closing(&self) -> Option<Closing> {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn close_by(&self, deadline: Instant) {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner) = Some(Closing { deadline });
        self.wake.notify_one();
    }
}
