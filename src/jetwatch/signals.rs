//! SIGINT and SIGTERM end the run, a second one ends the process at once; SIGUSR1 writes DOT graphs, SIGHUP reloads the
//! configuration.

use std::thread;

use anyhow::Context;
use jetwatch_telemetry::StopToken;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// Starts the thread that handles signals. It lives as long as the process.
pub(super) fn listen(stop: StopToken, dump: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    wait_for(&[SIGINT, SIGTERM, SIGUSR1], stop, dump, || {})
}

/// The same for the daemon, where SIGHUP reloads the configuration; it ends every other command.
pub(super) fn listen_for_reloads(
    stop: StopToken,
    dump: impl Fn() + Send + 'static,
    reload: impl Fn() + Send + 'static,
) -> anyhow::Result<()> {
    wait_for(&[SIGHUP, SIGINT, SIGTERM, SIGUSR1], stop, dump, reload)
}

fn wait_for(
    signals: &[i32],
    stop: StopToken,
    dump: impl Fn() + Send + 'static,
    reload: impl Fn() + Send + 'static,
) -> anyhow::Result<()> {
    let mut signals = Signals::new(signals).context("cannot register signal handlers")?;
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
