//! What systemd is told of the daemon: ready, status, alive, stopping (`sd_notify(3)`). Without systemd, nobody is told.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

/// Whether a service manager listens.
#[must_use]
pub fn is_managed() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// How long systemd waits between two signs of life before it ends the daemon and starts it anew; `None`: for ever.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// The start-up is complete; from now on the watchdog counts.
pub fn notify_ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// One line that `systemctl status` shows.
pub fn notify_status(status: &str) {
    notify(&[NotifyState::Status(status)]);
}

/// The configuration is being read again; [`notify_ready`] says that this is over. Units of `Type=notify-reload`, which came
/// after systemd 245, also want to know when it began.
pub fn notify_reloading(status: &str) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now, NotifyState::Status(status)]),
        Err(_) => notify(&[NotifyState::Reloading, NotifyState::Status(status)]),
    }
}

/// A sign of life for the watchdog.
pub fn notify_watchdog() {
    notify(&[NotifyState::Watchdog]);
}

/// The end has begun: what is held is being delivered.
pub fn notify_stopping(status: &str) {
    notify(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// The start needs `more` time from now, beyond the unit's `TimeoutStartSec=`, because of what `status` says. To be told
/// again before that time is over, for as long as it takes.
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
            "systemd cannot be told how the daemon is: {error}; the unit needs Type=notify and a NOTIFY_SOCKET that this user can reach"
        );
    }
}
