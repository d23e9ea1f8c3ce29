//! Starting threads under their names, and waiting for their ends.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jetwatch_telemetry as telemetry;

use super::PipelineError;

/// Starts a thread, which profilers see under the same name.
pub(super) fn spawn<T: Send + 'static>(
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

/// Waits for `finished`, at most until `deadline`.
pub(super) fn wait_until(deadline: Instant, finished: impl Fn() -> bool) -> bool {
    while !finished() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Joins a thread that has ended; its panic goes on here.
pub(super) fn join<T>(thread: JoinHandle<T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
