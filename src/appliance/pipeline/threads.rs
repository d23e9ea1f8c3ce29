// SPDX-License-Identifier: Apache-2.0
//! Named threads: started with the name that profilers show, and joined with a deadline that names the late ones.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jetwatch_source::{SourceError, SourceHandle};
use jetwatch_telemetry as telemetry;

use super::PipelineError;

/// Interval at which a thread is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Starts a thread, which profilers show under the same name.
///
/// # Errors
/// The operating system refuses a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, PipelineError> {
    let timeline_name = name.to_owned();
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            telemetry::name_thread(&timeline_name);
            body()
        })
        .map_err(|cause| PipelineError::Thread {
            name: name.to_owned(),
            cause,
        })
}

/// Joins a thread. Blocks until it has ended.
///
/// # Panics
/// The thread has panicked: its panic continues here.
pub fn join<T>(thread: JoinHandle<T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Blocks until `finished`, at most until `deadline`; returns whether it is finished.
pub(super) fn wait_until(deadline: Instant, finished: impl Fn() -> bool) -> bool {
    while !finished() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

/// A running thread with a result.
pub(super) trait Join {
    /// What the thread returns.
    type Output;

    /// Whether the thread has ended.
    fn is_finished(&self) -> bool;

    /// Waits for the end. A panic of the thread continues here.
    fn join(self) -> Self::Output;
}

impl<T> Join for JoinHandle<T> {
    type Output = T;

    fn is_finished(&self) -> bool {
        self.is_finished()
    }

    fn join(self) -> T {
        join(self)
    }
}

impl Join for SourceHandle {
    type Output = Result<(), SourceError>;

    fn is_finished(&self) -> bool {
        self.is_finished()
    }

    fn join(self) -> Self::Output {
        self.join()
    }
}

/// Joins threads until a deadline and keeps the names of those that are late. A late thread is abandoned.
pub(super) struct Joiner {
    deadline: Instant,
    late: Vec<String>,
}

impl Joiner {
    /// Threads have `timeout` from now on.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            deadline: Instant::now() + timeout,
            late: Vec::new(),
        }
    }

    /// The next threads have `timeout` from now on.
    pub(super) fn restart(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }

    /// Joins `thread`; `None` when it is late.
    pub(super) fn join<T: Join>(&mut self, name: &str, thread: T) -> Option<T::Output> {
        if wait_until(self.deadline, || thread.is_finished()) {
            return Some(thread.join());
        }
        self.late.push(name.to_owned());
        None
    }

    /// The names of the late threads.
    pub(super) fn late(self) -> Vec<String> {
        self.late
    }
}

/// Threads that are joined together, in the order in which they were started.
#[derive(Default)]
pub(super) struct ThreadGroup(Vec<(String, JoinHandle<()>)>);

impl ThreadGroup {
    /// Starts one more thread.
    pub(super) fn spawn(
        &mut self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), PipelineError> {
        self.0.push((name.to_owned(), spawn(name, body)?));
        Ok(())
    }

    /// Whether all threads have ended.
    pub(super) fn is_finished(&self) -> bool {
        self.0.iter().all(|(_, thread)| thread.is_finished())
    }

    /// Joins all threads.
    pub(super) fn join(self, joiner: &mut Joiner) {
        for (name, thread) in self.0 {
            joiner.join(&name, thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    #[test]
    fn joiner_names_the_late_threads_only() {
        let (release, wait) = bounded::<()>(0);
        let mut group = ThreadGroup::default();
        group.spawn("quick", || {}).expect("a thread");
        let late = move || {
            let _ = wait.recv();
        };
        group.spawn("late", late).expect("a thread");
        let mut joiner = Joiner::new(Duration::from_millis(50));
        group.join(&mut joiner);
        // The deadline has passed, but this one has ended.
        joiner.restart(Duration::from_secs(60));
        let result = joiner.join("result", spawn("result", || 7).expect("a thread"));
        assert_eq!(result, Some(7));
        assert_eq!(joiner.late(), ["late"]);
        drop(release);
    }
}
