// SPDX-License-Identifier: Apache-2.0
//! A stop request of a thread or of a whole run, which can be awaited.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Cheap to clone; all clones see the same stop.
#[derive(Debug, Clone, Default)]
pub struct StopToken {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requested: bool,
    /// The tokens that are stopped along with this one.
    children: Vec<Weak<Shared>>,
}

impl StopToken {
    /// Requests the stop. It cannot be revoked.
    pub fn stop(&self) {
        let children = {
            let mut state = self.lock();
            state.requested = true;
            std::mem::take(&mut state.children)
        };
        self.shared.changed.notify_all();
        for shared in children.iter().filter_map(Weak::upgrade) {
            Self { shared }.stop();
        }
    }

    /// A token that is stopped along with this one, and can be stopped separately.
    #[must_use]
    pub fn child(&self) -> Self {
        let child = Self::default();
        let mut state = self.lock();
        if state.requested {
            child.stop();
        } else {
            state.children.retain(|known| known.strong_count() > 0);
            state.children.push(Arc::downgrade(&child.shared));
        }
        drop(state);
        child
    }

    /// Whether the stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.lock().requested
    }

    /// Waits at most `timeout`, less when the stop is requested; returns whether it was.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut state = self.lock();
        let is_awaited = |state: &mut State| !state.requested;
        let changed = &self.shared.changed;
        changed.wait_while_for(&mut state, is_awaited, timeout);
        state.requested
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
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

    #[test]
    fn child_token_stops_with_parent_or_separately() {
        let parent = StopToken::default();
        let (first, second) = (parent.child(), parent.child());
        first.stop();
        assert!(first.is_stopped() && !parent.is_stopped() && !second.is_stopped());
        let waiting = second.clone();
        let waiter = std::thread::spawn(move || waiting.wait(Duration::from_secs(60)));
        parent.stop();
        assert!(waiter.join().expect("the waiter does not panic"));
        assert!(parent.child().is_stopped(), "created after the stop");
    }
}
