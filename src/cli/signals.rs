//! SIGINT and SIGTERM end the run, a second one ends the process at once; SIGUSR1 asks for DOT graphs.

use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::source::StopToken;

/// Starts the thread that waits for signals. It lives as long as the process.
pub(super) fn listen(stop: StopToken, dump: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGUSR1]).context("cannot wait for signals")?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    log::info!("SIGUSR1: writing DOT graphs");
                    dump();
                } else if stop.is_stopped() {
                    log::warn!("second signal: ending at once");
                    std::process::exit(128 + signal);
                } else {
                    log::info!(signal; "stopping; a second signal ends at once");
                    stop.stop();
                }
            }
        })
        .context("cannot start the thread that waits for signals")?;
    Ok(())
}
