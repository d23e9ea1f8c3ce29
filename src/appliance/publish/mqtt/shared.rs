//! What the chain's thread and the `mqtt` thread share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Connection;
use super::kept::Found;
use super::outbox::Outbox;

/// Someone closed the sink.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    /// When the last byte must be out.
    pub deadline: Instant,
}

/// What the broker has kept from an earlier run.
#[derive(Debug, PartialEq)]
enum Stock {
    /// Nobody wants to know it yet.
    Unasked,
    /// It is to be read at the next connection, or on this one.
    Asked,
    /// It was.
    Read(Found),
    /// It was looked at, or cannot be read.
    Over,
}

/// Shared state; each lock is held for a few copies at most, never while waiting.
#[derive(Debug)]
pub(super) struct Shared {
    outbox: Mutex<Outbox>,
    connection: Mutex<Connection>,
    closing: Mutex<Option<Closing>>,
    stock: Mutex<Stock>,
    /// Rung when somebody asks for what the broker has kept.
    pub kept_asked: Notify,
    /// Rung when there is something to do; a ring while nobody waits is kept.
    pub wake: Notify,
}

impl Shared {
    pub fn new(outbox: Outbox) -> Self {
        Self {
            outbox: Mutex::new(outbox),
            connection: Mutex::new(Connection::Connecting),
            closing: Mutex::new(None),
            stock: Mutex::new(Stock::Unasked),
            kept_asked: Notify::new(),
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

    /// Asks for what the broker has kept, once; false: it was asked for before.
    pub fn ask_for_kept(&self) -> bool {
        let mut stock = self.stock();
        let is_first = *stock == Stock::Unasked;
        if is_first {
            *stock = Stock::Asked;
            self.kept_asked.notify_one();
        }
        is_first
    }

    /// Whether it is still to be read.
    pub fn wants_kept(&self) -> bool {
        *self.stock() == Stock::Asked
    }

    /// It was read; `None`: it cannot be.
    pub fn set_kept(&self, found: Option<Found>) {
        *self.stock() = found.map_or(Stock::Over, Stock::Read);
    }

    /// What was read, once; `None`: it was not yet, or was taken. What cannot be read is empty.
    pub fn take_kept(&self) -> Option<Found> {
        let mut stock = self.stock();
        match *stock {
            Stock::Unasked | Stock::Asked => None,
            Stock::Over => Some(Found::default()),
            Stock::Read(_) => match std::mem::replace(&mut *stock, Stock::Over) {
                Stock::Read(found) => Some(found),
                _ => None,
            },
        }
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn close_by(&self, deadline: Instant) {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner) = Some(Closing { deadline });
        self.wake.notify_one();
    }
}
