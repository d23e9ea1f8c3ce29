// SPDX-License-Identifier: Apache-2.0
//! What one client may occupy: streams, and threads for work that may block.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::StatusCode;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::response::{Answer, refuse_for};
use super::service::failed;
use jetwatch_http::Peer;

/// Time in which work that may block is to be done, the wait for a thread included.
const WORK_TIMEOUT: Duration = Duration::from_secs(10);

/// Work that may block. Each kind has threads of its own: neither a disk that does not answer nor a long edit delays a log-in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// Files of recordings.
    Files,
    /// Figures of the machine, and events.
    Facts,
    /// Changes of the configuration and of users.
    Edits,
}

/// How many each kind of work has.
const THREADS: [usize; 3] = [2, 2, 1];

/// The threads of each kind of work.
#[derive(Debug)]
pub(in super::super) struct WorkThreads([Arc<Semaphore>; 3]);

impl WorkThreads {
    /// All of them.
    pub(in super::super) const COUNT: usize = THREADS[0] + THREADS[1] + THREADS[2];

    /// What `work` gives.
    ///
    /// # Errors
    /// No thread was free in time, or the work takes too long; it goes on then, and keeps its thread.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        kind: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Box<Answer>> {
        let places = Arc::clone(&self.0[kind as usize]);
        let done = async move {
            let place = places.acquire_owned().await.ok()?;
            let work = move || {
                let _place = place;
                work()
            };
            // A panic ends the daemon; the runtime may be ending.
            tokio::task::spawn_blocking(work).await.ok()
        };
        match tokio::time::timeout(WORK_TIMEOUT, done).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(Box::new(failed())),
            Err(_) => Err(Box::new(refuse_for(
                10,
                StatusCode::SERVICE_UNAVAILABLE,
                "a disk or an earlier request keeps this one waiting",
            ))),
        }
    }
}

impl Default for WorkThreads {
    fn default() -> Self {
        Self(THREADS.map(|threads| Arc::new(Semaphore::new(threads))))
    }
}

/// Open streams of one kind, by client: the name of its user or token, or its address where there are no users.
#[derive(Debug)]
pub(super) struct OpenStreams {
    open: Mutex<HashMap<String, usize>>,
    max: usize,
    max_of_client: usize,
}

impl OpenStreams {
    /// At most so many at a time, and so many of one client.
    pub(super) fn new([max, max_of_client]: [usize; 2]) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            max,
            max_of_client,
        })
    }

    /// Counts one more until the guard is dropped; `None`: there are too many.
    pub(super) fn admit(self: &Arc<Self>, peer: &Peer, client: &str) -> Option<StreamGuard> {
        let mut open = self.open.lock();
        if open.values().sum::<usize>() >= self.max {
            return None;
        }
        let own = open.entry(client.to_owned()).or_default();
        if *own >= self.max_of_client {
            return None;
        }
        *own += 1;
        peer.streams.store(true, Ordering::Release);
        Some(StreamGuard {
            streams: Arc::clone(self),
            peer: peer.clone(),
            client: client.to_owned(),
        })
    }
}

/// Counts a stream while it is open; its connection makes room for others afterwards.
#[derive(Debug)]
pub(super) struct StreamGuard {
    streams: Arc<OpenStreams>,
    peer: Peer,
    client: String,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.peer.streams.store(false, Ordering::Release);
        let mut open = self.streams.open.lock();
        if let Some(own) = open.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_peer;
    use super::*;

    #[test]
    fn streams_are_limited_in_all_and_for_each_client() {
        let streams = OpenStreams::new([4, 3]);
        let peer = test_peer();
        let admit = |client| streams.admit(&peer, client);
        let own: Vec<_> = (0..5).filter_map(|_| admit("a")).collect();
        assert_eq!(own.len(), 3);
        let other = admit("b").expect("a place is left");
        assert!(admit("c").is_none(), "all are taken");
        assert!(peer.streams.load(Ordering::Acquire));
        drop(own);
        assert!(!peer.streams.load(Ordering::Acquire));
        assert!(admit("c").is_some());
        drop(other);
        assert!(streams.open.lock().is_empty());
    }

    #[tokio::test]
    async fn work_that_blocks_takes_no_threads_of_other_work() {
        let threads = WorkThreads::default();
        let (release, blocked) = crossbeam_channel::bounded::<()>(0);
        // Files that do not answer: their clients leave, the threads stay.
        for _ in 0..8 {
            let blocked = blocked.clone();
            let work = threads.run(Work::Files, move || blocked.recv().is_err());
            let mut work = std::pin::pin!(work);
            // Begins it.
            assert!(futures_now(work.as_mut()).is_none());
        }
        for kind in [Work::Facts, Work::Edits] {
            assert_eq!(threads.run(kind, || 7).await.ok(), Some(7), "{kind:?}");
        }
        drop(release);
        assert_eq!(threads.run(Work::Files, || 8).await.ok(), Some(8));
    }

    /// Polls once.
    fn futures_now<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut context) {
            std::task::Poll::Ready(found) => Some(found),
            std::task::Poll::Pending => None,
        }
    }
}
