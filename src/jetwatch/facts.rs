// SPDX-License-Identifier: Apache-2.0
//! `jetwatch facts`: what is known of this machine, as JSON for `jetwatch check --offline` elsewhere.

use std::path::PathBuf;

use clap::Args;

use jetwatch_doctor::Facts;
use jetwatch_platform::SysRoot;
use jetwatch_telemetry as telemetry;

use super::Exit;

/// Arguments of `jetwatch facts`.
#[derive(Debug, Args)]
pub(super) struct FactsArgs {
    /// Use this folder as the system's root, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Prints the facts.
pub(super) fn run(args: &FactsArgs) -> anyhow::Result<Exit> {
    // The facts have the errors of the libraries.
    telemetry::start_logging(log::LevelFilter::Off);
    println!(
        "{:#}",
        serde_json::to_value(collect(&SysRoot::new(&args.root)))?
    );
    Ok(Exit::Success)
}

/// The facts of this machine, now.
pub(super) fn collect(root: &SysRoot) -> Facts {
    let now = jiff::Timestamp::now().round(jiff::Unit::Second);
    let now = now.unwrap_or_else(|_| jiff::Timestamp::now());
    Facts::collect(root, now.to_string())
}
