// SPDX-License-Identifier: Apache-2.0
//! One client: the queue, and the thread that keeps a connection and writes what is queued. It takes prepared messages; the sinks
//! of this folder make them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use super::shared::Shared;
use super::worker::Worker;
use super::{runtime, send_heartbeats};
use crate::PublishError;
use jetwatch_telemetry::{self as telemetry, Heartbeats};

/// Part of the closing deadline reserved for the disconnect and for the end of the thread.
const SHUTDOWN_RESERVE: Duration = Duration::from_millis(200);

/// The thread of a client, and its end.
#[derive(Debug)]
pub(super) struct Client {
    name: &'static str,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

impl Client {
    /// Starts the thread `name` and returns at once: it connects in the background and retries without end.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        name: &'static str,
        worker: Worker,
        heartbeats: &Heartbeats,
    ) -> Result<Self, PublishError> {
        let shared = Arc::clone(&worker.shared);
        let runtime = runtime("mqtt-resolve")?;
        let (end, ended) = bounded(1);
        let heartbeat = heartbeats.register(name);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                telemetry::name_thread(name);
                runtime.block_on(async {
                    tokio::select! {
                        () = worker.run() => {}
                        () = send_heartbeats(&heartbeat) => {}
                    }
                });
                drop(heartbeat);
                runtime.shutdown_background();
                // The receiver is gone when the sink was dropped.
                let _ = end.send(());
            })
            .map_err(|source| PublishError::Thread { name, source })?;
        Ok(Self {
            name,
            shared,
            thread: Some(thread),
            ended,
        })
    }

    /// A client without a thread: the caller runs its worker.
    pub fn hosted(name: &'static str, shared: Arc<Shared>) -> Self {
        Self {
            name,
            shared,
            thread: None,
            ended: crossbeam_channel::never(),
        }
    }

    /// Name of its thread.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it was not closed yet.
    pub fn is_open(&self) -> bool {
        self.thread.is_some()
    }

    /// Delivers what is queued, disconnects, and ends the thread, within `deadline`. A second call does nothing. Without a thread of its
    /// own this returns at once.
    pub fn close(&mut self, deadline: Duration) {
        let now = tokio::time::Instant::now();
        let reserve = SHUTDOWN_RESERVE.min(deadline / 4);
        self.shared.close_by(now + (deadline - reserve));
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A disconnected channel: the thread panicked, which is logged.
        if self.ended.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout) {
            log::warn!(thread = self.name; "did not stop within {:.1} s; abandoned", deadline.as_secs_f32());
            self.shared.outbox().abandon();
        } else {
            let _ = thread.join();
        }
    }
}
