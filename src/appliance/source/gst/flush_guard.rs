// SPDX-License-Identifier: Apache-2.0
//! Records for the log bridge when a pipeline ends or flushes. Called by [`session`](super::session) and [`scaler`](super::scaler).
//!
//! A pipeline that refuses frames, is stopped, or is sought gives its decoder no more buffers. libav reports that as an error,
//! without an element by which the source could be found; so it is known only that some pipeline ends or flushes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of pipelines that end or flush now.
static FLUSHING: AtomicUsize = AtomicUsize::new(0);

/// Held while a pipeline flushes, and from the first frame that it refuses until it is gone. Both calls that flush, a change to
/// NULL and a flushing seek, wait for the streaming threads, so that what these log comes before the end of the guard.
pub(super) struct FlushGuard(());

impl FlushGuard {
    /// Begins an end or a flush, which lasts as long as the guard.
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

/// Whether a pipeline ends or flushes now.
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
