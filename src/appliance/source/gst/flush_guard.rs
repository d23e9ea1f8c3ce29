//! Tells the log bridge when a pipeline flushes. Called by [`session`](super::session).
//!
//! A pipeline that is stopped or sought gives its decoder no more buffers. libav reports that as an error, without an element by
//! which the source could be found; so it is known only that some pipeline flushes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of pipelines that flush now.
static FLUSHING: AtomicUsize = AtomicUsize::new(0);

/// Held while a pipeline flushes. Both calls that flush, a change to NULL and a flushing seek, wait for the streaming threads,
/// so that what these log comes before the end of the guard.
pub(super) struct FlushGuard(());

impl FlushGuard {
    /// Begins a flush, which ends with the guard.
    pub(super) fn begin() -> Self {
        FLUSHING.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for FlushGuard {
    fn drop(&mut self) {
        FLUSHING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether a pipeline flushes now.
pub(super) fn is_flushing() -> bool {
    FLUSHING.load(Ordering::SeqCst) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_of_two_pipelines_may_overlap() {
        let first = FlushGuard::begin();
        let second = FlushGuard::begin();
        drop(first);
        assert!(is_flushing(), "the other one still does");
        drop(second);
    }
}
