//! What systemd is told of reloads: that one runs, and why the last one was refused. Shared by the attendant, who keeps the
//! status line, and by whoever reloads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jetwatch_telemetry::systemd;

/// Cheap to clone; all clones see the same notice.
#[derive(Clone, Default)]
pub(super) struct Notice {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The start-up is complete: a reload may end with being ready.
    ready: AtomicBool,
    refused: Mutex<Option<String>>,
}

impl Notice {
    /// The start-up is complete.
    pub(super) fn set_ready(&self) {
        self.shared.ready.store(true, Ordering::Release);
    }

    /// A reload begins.
    pub(super) fn reloading(&self) {
        if self.shared.ready.load(Ordering::Acquire) {
            systemd::notify_reloading("reading the configuration again");
        }
    }

    /// It is over; `refused`: why it was refused, or what went wrong. That stands in the status line until a reload goes well.
    pub(super) fn reloaded(&self, refused: Option<String>) {
        let text = refused.clone().unwrap_or_else(|| "reloaded".to_owned());
        *self
            .shared
            .refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = refused;
        if self.shared.ready.load(Ordering::Acquire) {
            systemd::notify_ready(&text);
        }
    }

    /// `status_line` with what has to be known of the last reload in front.
    pub(super) fn prepend_to(&self, status: String) -> String {
        let refused = self.shared.refused.lock();
        match refused.unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(refused) => format!("{refused}; {status}"),
            None => status,
        }
    }
}
