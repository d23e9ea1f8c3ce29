// SPDX-License-Identifier: Apache-2.0
//! Calls that may block for ever, on threads of their own and with a limit.
//!
//! Opening a file on a dead network share, and stopping a pipeline whose server does not answer, block in the kernel or in
//! GStreamer. The thread of the source must not wait for them without a limit: the watchdog would end the daemon because of one
//! source. A call that is late is left to its thread; the source opens nothing more until it has returned.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use crate::{POLL_INTERVAL, SourceContext, SourceError};

use super::flush_guard::FlushGuard;

/// Longest wait for a file or a device to open, and for a pipeline to start.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for a pipeline to stop.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a pipeline that does not stop is asked again.
const TRIES: usize = 3;

/// The late calls of one source.
#[derive(Default)]
pub(crate) struct LateCalls(Mutex<Vec<JoinHandle<()>>>);

impl LateCalls {
    /// Waits for late calls of earlier sessions.
    ///
    /// # Errors
    /// [`SourceError::StillBlocked`]: one of them has not returned.
    pub(super) fn wait(&self, context: &SourceContext) -> Result<(), SourceError> {
        let begun = Instant::now();
        loop {
            let mut late = self.0.lock();
            late.retain(|thread| !thread.is_finished());
            if late.is_empty() {
                return Ok(());
            }
            drop(late);
            context.heartbeat.busy();
            if begun.elapsed() >= CLOSE_TIMEOUT || context.stop.wait(POLL_INTERVAL) {
                return Err(SourceError::StillBlocked);
            }
        }
    }

    /// Runs `call` on a thread of its own. `None`: it is late.
    ///
    /// # Errors
    /// The operating system refuses the thread.
    pub(super) fn run<T: Send + 'static>(
        &self,
        context: &SourceContext,
        timeout: Duration,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, SourceError> {
        let (sender, receiver) = channel();
        let thread = thread::Builder::new()
            .name(format!("open-{}", context.name).chars().take(15).collect())
            .spawn(move || {
                // Fails where the source does not wait any more.
                let _ = sender.send(call());
            })
            .map_err(|cause| SourceError::Build(format!("no thread for the source: {cause}")))?;
        let begun = Instant::now();
        loop {
            context.heartbeat.busy();
            match receiver.recv_timeout(POLL_INTERVAL) {
                Ok(result) => {
                    let _ = thread.join();
                    return Ok(Some(result));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    // A panic in `call` continues here.
                    if let Err(panic) = thread.join() {
                        std::panic::resume_unwind(panic);
                    }
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() >= timeout => {
                    self.0.lock().push(thread);
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Sets the pipeline to NULL on every exit path, including panics, and waits for it with a limit.
pub(super) struct StateNullGuard<'a> {
    pub(super) pipeline: &'a gst::Pipeline,
    pub(super) context: &'a SourceContext,
    pub(super) late: &'a LateCalls,
}

impl Drop for StateNullGuard<'_> {
    fn drop(&mut self) {
        let pipeline = self.pipeline.clone();
        let flush = FlushGuard::begin();
        let stop = move || {
            let mut stopped = pipeline.set_state(gst::State::Null);
            for _ in 0..TRIES {
                if stopped.is_ok() {
                    break;
                }
                // `decodebin` was starting an element, and that has failed.
                thread::sleep(POLL_INTERVAL);
                stopped = pipeline.set_state(gst::State::Null);
            }
            drop(flush);
            stopped.map(drop)
        };
        let source = self.context.name.as_str();
        match self.late.run(self.context, CLOSE_TIMEOUT, stop) {
            Ok(Some(Ok(()))) => {}
            Ok(Some(Err(error))) => log::warn!(source; "cannot stop the pipeline: {error}"),
            Ok(None) => log::warn!(
                source;
                "the pipeline has not stopped within {} s and is left to itself; the source is opened again when it has",
                CLOSE_TIMEOUT.as_secs()
            ),
            Err(error) => {
                log::warn!(source; "{error}; stopping the pipeline on the thread of the source");
                if let Err(error) = self.pipeline.set_state(gst::State::Null) {
                    log::warn!(source; "cannot stop the pipeline: {error}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jetwatch_telemetry::StopToken;
    use jetwatch_types::{Frame, Placement, Size};

    use super::*;
    use crate::{Flow, FrameHandler};

    struct NoFrames;

    impl FrameHandler for NoFrames {
        fn frame(&self, _frame: Frame) -> Flow {
            Flow::Stop
        }
    }

    fn context() -> SourceContext {
        SourceContext::standalone(
            "door",
            Size::new(64, 64),
            Placement::default(),
            &StopToken::default(),
            Arc::new(NoFrames),
        )
    }

    #[test]
    fn result_of_a_call_is_returned() {
        let late = LateCalls::default();
        let result = late.run(&context(), OPEN_TIMEOUT, || 7);
        assert_eq!(result.expect("a thread"), Some(7));
        late.wait(&context()).expect("nothing is late");
    }

    #[test]
    fn nothing_is_opened_while_a_late_call_blocks() {
        let (context, late) = (context(), LateCalls::default());
        let (release, blocked) = channel::<()>();
        let call = move || {
            let _ = blocked.recv();
        };
        let result = late.run(&context, Duration::ZERO, call);
        assert_eq!(result.expect("a thread"), None, "it blocks");
        context.stop.stop();
        let error = late.wait(&context).expect_err("it still blocks");
        assert!(matches!(error, SourceError::StillBlocked), "{error}");
        drop(release);
        while late.wait(&context).is_err() {
            thread::yield_now();
        }
    }
}
