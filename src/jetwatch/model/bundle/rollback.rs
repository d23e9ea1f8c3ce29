//! `jetwatch model rollback`: switches to the version of a bundle before the one in use.

use std::path::Path;

use jetwatch_bundles::{Store, rollback};
use jetwatch_config::BUNDLES_FOLDER;
use jetwatch_telemetry as telemetry;

use super::RollbackArgs;
use super::service::RunningDaemon;
use crate::Exit;

/// Switches, prints each step.
pub(crate) fn run(args: &RollbackArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let store = Store::open(Path::new(BUNDLES_FOLDER))?;
    let mut daemon = RunningDaemon::new(&args.switch);
    let options = args.switch.options();
    let measured = rollback(&store, &args.name, &mut daemon, &options, &mut |text| {
        println!("{text}");
    })?;
    println!("in use: {measured}");
    Ok(Exit::Success)
}
