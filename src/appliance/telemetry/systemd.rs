// SPDX-License-Identifier: Apache-2.0
//! Notifications to systemd: ready, status, watchdog, stopping (`sd_notify(3)`). No effect without systemd.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

/// Whether a service manager is present.
pub fn is_managed() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// The watchdog timeout, after which systemd restarts the daemon; `None`: no watchdog.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// Reports that the start-up is complete. systemd starts the watchdog with it.
pub fn notify_ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Sets the status line of `systemctl status`.
pub fn notify_status(status: &str) {
    notify(&[NotifyState::Status(status)]);
}

/// Reports the start of a reload; [`notify_ready`] ends it. Units of `Type=notify-reload`, added
/// after systemd 245, also need the time of its start.
pub fn notify_reloading(status: &str) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now, NotifyState::Status(status)]),
        Err(_) => notify(&[NotifyState::Reloading, NotifyState::Status(status)]),
    }
}

/// Sends the watchdog keep-alive.
pub fn notify_watchdog() {
    notify(&[NotifyState::Watchdog]);
}

/// Reports the start of the shutdown.
pub fn notify_stopping(status: &str) {
    notify(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Extends the start timeout (`TimeoutStartSec=`) by `more` from now, with `status` as the reason. Repeat it before
/// that time has passed.
pub fn extend_timeout(more: Duration, status: &str) {
    let microseconds = u32::try_from(more.as_micros()).unwrap_or(u32::MAX);
    notify(&[
        NotifyState::ExtendTimeoutUsec(microseconds),
        NotifyState::Status(status),
    ]);
}

fn notify(states: &[NotifyState<'_>]) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    if let Err(error) = sd_notify::notify(states)
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        log::warn!(
            "cannot send status to systemd (sd_notify): {error}; the unit needs Type=notify and a NOTIFY_SOCKET that this user can reach"
        );
    }
}
