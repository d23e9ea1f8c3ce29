// SPDX-License-Identifier: Apache-2.0
//! The thread that notifies systemd of readiness, status, watchdog and stop.
//!
//! Ready: the first frame of every source was processed, or the source has ended, or its time for it is over. Alive: every thread
//! that has work makes progress. A camera that is offline is no stall: its supervisor retries. A stalled thread is left to the
//! watchdog, which ends the whole process: a single thread inside a driver cannot be ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use jetwatch_publish::Stats;
use jetwatch_telemetry::systemd;
use jetwatch_types::SourceState;

use super::shared::Shared;
use super::stats::StatsCollector;

/// Interval at which the state is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Extension of the start timeout while first frames are awaited; that wait has time limits of its own.
const START_EXTENSION: Duration = Duration::from_secs(30);

/// Interval of the status line.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// The inputs of the thread.
pub(super) struct ServiceNotifier {
    pub(super) shared: Shared,
    /// How long the start waits for the first frame of each source, in the sources' order.
    pub(super) first_frame_waits: Vec<Duration>,
    pub(super) watchdog: Option<Duration>,
    /// The result of the last reload.
    pub(super) reload_notice: ReloadNotice,
}

impl ServiceNotifier {
    /// Runs until the stop.
    pub(super) fn run(self) {
        let started = Instant::now();
        let mut ready = false;
        let mut status_due = started + STATUS_INTERVAL;
        let mut alive_due = started;
        let mut wait_due = started;
        let mut stall_logged = false;
        while !self.shared.stop.wait(POLL_INTERVAL) {
            let now = Instant::now();
            if !ready && self.is_ready(now - started) {
                ready = true;
                let status = self.status();
                log::info!("ready: {status}");
                systemd::notify_ready(&status);
                self.reload_notice.set_ready();
                status_due = now + STATUS_INTERVAL;
            } else if !ready && now >= wait_due {
                wait_due = now + START_EXTENSION / 6;
                let status = format!("waiting for the first frames: {}", self.status());
                systemd::extend_timeout(START_EXTENSION, &status);
            } else if ready && now >= status_due {
                status_due = now + STATUS_INTERVAL;
                systemd::notify_status(&self.status());
            }
            let Some(interval) = self.watchdog else {
                continue;
            };
            // Half of the interval is for the thread, the other half for the clock of systemd.
            if let Some((name, worked)) = self.stalled_thread(interval / 2) {
                if !stall_logged {
                    stall_logged = true;
                    let seconds = worked.as_secs();
                    log::error!(stage = name.as_str(); "no progress for {seconds} s; the watchdog will restart the daemon unless it continues");
                }
            } else {
                stall_logged = false;
                if now >= alive_due {
                    alive_due = now + interval / 4;
                    systemd::notify_watchdog();
                }
            }
        }
        systemd::notify_stopping("stopping: delivering what is held");
    }

    fn status(&self) -> String {
        self.reload_notice
            .prepend_to(status_line(&self.shared.stats.progress()))
    }

    fn is_ready(&self, waited: Duration) -> bool {
        is_ready(&self.shared.stats, &self.first_frame_waits, waited)
    }

    /// A thread without progress for `limit` or more, or all workers together (`batch`), and for how long.
    fn stalled_thread(&self, limit: Duration) -> Option<(String, Duration)> {
        let waiting = self
            .shared
            .batcher
            .stalled_for()
            .filter(|waited| *waited >= limit);
        self.shared
            .heartbeats
            .stalled(limit)
            .or_else(|| waiting.map(|waited| ("batch".to_owned(), waited)))
    }
}

/// Whether the start is complete `waited` after the start of the sources: see the top of this file.
pub(super) fn is_ready(
    stats: &StatsCollector,
    first_frame_waits: &[Duration],
    waited: Duration,
) -> bool {
    let done = stats.first_frames();
    let mut sources = done.iter().zip(first_frame_waits);
    sources.all(|(is_done, wait)| *is_done || waited >= *wait)
}

/// The line that `systemctl status` shows.
fn status_line(stats: &Stats) -> String {
    let count = |state| {
        let is_in = stats.sources.iter().filter(|source| source.state == state);
        is_in.count()
    };
    let (online, ended) = (count(SourceState::Online), count(SourceState::Ended));
    let mut text = format!("{online} of {} sources online", stats.sources.len());
    if ended > 0 {
        text += &format!(", {ended} ended");
    }
    let offline = stats
        .sources
        .iter()
        .filter(|source| matches!(source.state, SourceState::Connecting | SourceState::Offline));
    let offline: Vec<&str> = offline.map(|source| source.name.as_str()).collect();
    if !offline.is_empty() {
        text += &format!(" (without {})", offline.join(", "));
    }
    let tracks: usize = stats.sources.iter().map(|source| source.tracks).sum();
    let dropped: u64 = stats.sources.iter().map(|source| source.dropped).sum();
    text += &format!(
        "; {:.1} frames/s, {tracks} tracks, {} frames in all, {dropped} dropped",
        stats.fps, stats.detected_frames
    );
    let causes = stats
        .machine
        .iter()
        .flat_map(|machine| &machine.throttled_by);
    let causes: Vec<&str> = causes.map(|cause| cause.name()).collect();
    if !causes.is_empty() {
        text += &format!("; slowed down by {}", causes.join(", "));
    }
    text
}

/// What systemd receives of reloads: that one runs, and why the last one was refused. Shared by [`ServiceNotifier`], which keeps
/// the status line, and by the thread that reloads. Cheap to clone; all clones share one state.
#[derive(Clone, Default)]
pub(super) struct ReloadNotice {
    shared: Arc<ReloadState>,
}

#[derive(Default)]
struct ReloadState {
    /// The start-up is complete: a reload may end with being ready.
    ready: AtomicBool,
    refused: Mutex<Option<String>>,
}

impl ReloadNotice {
    /// The start-up is complete.
    pub(super) fn set_ready(&self) {
        self.shared.ready.store(true, Ordering::Release);
    }

    /// A reload starts.
    pub(super) fn reloading(&self) {
        if self.shared.ready.load(Ordering::Acquire) {
            systemd::notify_reloading("reading the configuration again");
        }
    }

    /// The reload is over; `refused`: why it was refused, or what went wrong. The status line shows it until a reload succeeds.
    pub(super) fn reloaded(&self, refused: Option<String>) {
        let text = refused.clone().unwrap_or_else(|| "reloaded".to_owned());
        *self.shared.refused.lock() = refused;
        if self.shared.ready.load(Ordering::Acquire) {
            systemd::notify_ready(&text);
        }
    }

    /// `status` behind the problem of the last reload, where there was one.
    pub(super) fn prepend_to(&self, status: String) -> String {
        let refused = self.shared.refused.lock();
        match refused.as_ref() {
            Some(refused) => format!("{refused}; {status}"),
            None => status,
        }
    }
}
