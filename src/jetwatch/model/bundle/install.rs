//! `jetwatch model install`: verifies a bundle, proves its models, switches to it, and rolls back what does not work.

use std::path::Path;

use anyhow::anyhow;

use jetwatch_bundles::{InstallOptions, Installation, Store, TrustedKeys, install};
use jetwatch_config::BUNDLES_FOLDER;
use jetwatch_telemetry as telemetry;

use super::InstallArgs;
use super::gate::ChildGate;
use super::service::RunningDaemon;
use crate::Exit;

/// Installs the bundle, prints each step.
pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let keys = TrustedKeys::read(&args.keys)?;
    let store = Store::open(Path::new(BUNDLES_FOLDER))?;
    let program = env!("CARGO_PKG_VERSION").parse();
    let options = InstallOptions {
        bundle: args.file.clone(),
        signature: args.signature.clone(),
        keys,
        switch: args.switch.options(),
        program: program.map_err(|error: String| anyhow!(error))?,
        allow_downgrade: args.allow_downgrade,
    };
    let gate = ChildGate {
        configuration: &args.switch.config,
    };
    let mut daemon = RunningDaemon::new(&args.switch);
    let installed = install(&store, &gate, &mut daemon, &options, &mut |text| {
        println!("{text}");
    })?;
    match installed {
        Installation::Unchanged => println!("in use already; nothing was changed"),
        Installation::Done(measured) => println!("in use: {measured}"),
    }
    Ok(Exit::Success)
}
