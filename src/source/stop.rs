//! A stop that can be asked for once and waited for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Cheap to clone; all clones see the same stop.
#[derive(Debug, Clone, Default)]
pub struct StopToken {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl StopToken {
    /// Asks for the stop. It cannot be taken back.
    pub fn stop(&self) {
        let (asked, changed) = &*self.shared;
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Whether the stop was asked for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `timeout`, less when the stop comes; returns whether it came.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let (asked, changed) = &*self.shared;
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        *changed
            .wait_timeout_while(asked, timeout, |asked| !*asked)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_ends_a_wait_on_another_thread() {
        let token = StopToken::default();
        assert!(!token.wait(Duration::from_millis(1)));
        let other = token.clone();
        let waiter = std::thread::spawn(move || other.wait(Duration::from_secs(60)));
        token.stop();
        assert!(waiter.join().expect("the waiter does not panic"));
        assert!(token.is_stopped());
    }
}
