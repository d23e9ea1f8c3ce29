// SPDX-License-Identifier: Apache-2.0
//! `jetwatch page`: prints where the page of a running daemon is, and the link by which its first user is made.

use std::path::PathBuf;

use clap::Args;

use jetwatch_web::PageLink;

use super::{CONFIG_FILE, Exit};

/// Arguments of `jetwatch page`.
#[derive(Debug, Args)]
pub(super) struct PageArgs {
    /// Configuration file of the daemon.
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
}

/// Prints the link.
pub(super) fn run(args: &PageArgs) -> anyhow::Result<Exit> {
    let mut looked_for = Vec::new();
    for path in jetwatch_config::page_files(&args.config) {
        let reason = match PageLink::read(&path) {
            Ok(Some(link)) => {
                println!("{}", link.first_user.unwrap_or(link.url));
                return Ok(Exit::Success);
            }
            Ok(None) => "no running daemon has written it".to_owned(),
            Err(error) => error.to_string(),
        };
        looked_for.push(format!("{} ({reason})", path.display()));
    }
    eprintln!(
        "jetwatch: found no page of a daemon with {}: {}; start the daemon, name its configuration with --config, and run this as its user \
         or as root",
        args.config.display(),
        looked_for.join(", ")
    );
    Ok(Exit::NoDaemon)
}
