// SPDX-License-Identifier: Apache-2.0
//! SIGINT and SIGTERM end the run, a second one ends the process at once; SIGUSR1 writes DOT graphs, SIGHUP reloads the
//! configuration.

use std::thread;

use anyhow::Context;
use jetwatch_telemetry::StopToken;
use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// Starts the thread that handles signals. It lives as long as the process.
pub(super) fn listen(stop: StopToken, dump: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    handle(register(&[SIGINT, SIGTERM, SIGUSR1])?, stop, dump, || {})
}

/// SIGHUP and SIGUSR1 of the daemon: kept from its start on, when they would end it, until it can handle them.
pub(super) struct EarlySignals(Signals);

impl EarlySignals {
    /// Those of a process that is to be the daemon, before its command line is read.
    pub(super) fn of_daemon() -> Option<Self> {
        let is_daemon = std::env::args_os().nth(1).is_some_and(|word| word == "run");
        is_daemon.then(Self::keep)?.ok()
    }

    /// SIGINT and SIGTERM still end the process at once: a start may build an engine for minutes.
    pub(super) fn keep() -> anyhow::Result<Self> {
        let signals = Self(register(&[SIGHUP, SIGUSR1])?);
        // What came while the program executed itself again is handled now.
        Self::mask().thread_unblock()?;
        Ok(signals)
    }

    /// Runs `execute`, which may execute the program again: the signals wait until that one keeps them.
    pub(super) fn hold(&self, execute: impl FnOnce()) {
        let is_held = Self::mask().thread_block().is_ok();
        execute();
        if is_held {
            let _ = Self::mask().thread_unblock();
        }
    }

    fn mask() -> SigSet {
        [Signal::SIGHUP, Signal::SIGUSR1].into_iter().collect()
    }

    /// As [`listen`], with SIGHUP, which reloads the configuration; it ends every other command. Signals that came
    /// before are handled now.
    pub(super) fn listen(
        self,
        stop: StopToken,
        dump: impl Fn() + Send + 'static,
        reload: impl Fn() + Send + 'static,
    ) -> anyhow::Result<()> {
        for signal in [SIGINT, SIGTERM] {
            let added = self.0.handle().add_signal(signal);
            added.context("cannot register signal handlers")?;
        }
        handle(self.0, stop, dump, reload)
    }
}

fn register(signals: &[i32]) -> anyhow::Result<Signals> {
    Signals::new(signals).context("cannot register signal handlers")
}

fn handle(
    mut signals: Signals,
    stop: StopToken,
    dump: impl Fn() + Send + 'static,
    reload: impl Fn() + Send + 'static,
) -> anyhow::Result<()> {
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    log::info!("SIGUSR1: writing DOT graphs");
                    dump();
                } else if signal == SIGHUP {
                    log::info!("SIGHUP: reading the configuration again");
                    reload();
                } else if stop.is_stopped() {
                    log::warn!("second signal: ending at once");
                    std::process::exit(128 + signal);
                } else {
                    log::info!(signal; "stopping; a second signal ends at once");
                    stop.stop();
                }
            }
        })
        .context("cannot start the thread for signals")?;
    Ok(())
}
