//! `jetwatch prove-bundle`: proves the unpacked files of a bundle. Hidden: `jetwatch model install` calls it in a process of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use jetwatch_bundles::Manifest;
use jetwatch_config::{BUNDLES_FOLDER, Config};
use jetwatch_doctor::{UnprovenModel, prove_models};
use jetwatch_telemetry as telemetry;

use crate::{Exit, reexec};

/// Name of the subcommand.
pub(crate) const NAME: &str = "prove-bundle";

#[derive(Debug, Args)]
struct ProveArgs {
    /// Folder with the unpacked files.
    #[arg(long, value_name = "DIR")]
    content: PathBuf,
    /// The configuration to prove it with.
    #[arg(long, value_name = "FILE")]
    configuration: PathBuf,
    /// Where that configuration will be, from where its relative paths count.
    #[arg(long, value_name = "FILE")]
    place: PathBuf,
}

/// The subcommand, which `--help` does not list.
pub(crate) fn subcommand() -> Command {
    ProveArgs::augment_args(Command::new(NAME).hide(true))
}

/// Proves the models, prints a line for each.
pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<Exit> {
    reexec::ensure_environment();
    telemetry::start_logging(log::LevelFilter::Error);
    let args = ProveArgs::from_arg_matches(matches)?;
    let manifest = Manifest::read(&args.content)?;
    let text = fs::read_to_string(&args.configuration)
        .with_context(|| format!("cannot read {}", args.configuration.display()))?;
    let mut config = Config::from_str(&args.place.display().to_string(), &text)?;
    // What the link of the bundle leads to afterwards.
    let installed = Path::new(BUNDLES_FOLDER).join(manifest.name.as_str());
    let mut is_used = false;
    let detector = config.detector.model.iter_mut();
    let secondary = config.secondary.iter_mut();
    for model in detector.chain(secondary.map(|network| &mut network.model)) {
        if let Ok(inside) = model.strip_prefix(&installed) {
            *model = args.content.join(inside);
            is_used = true;
        }
    }
    if !is_used {
        println!(
            "the configuration uses no model of this bundle: no `model: bundle:{}`",
            manifest.name
        );
    }
    let models: Vec<UnprovenModel> = manifest
        .models
        .iter()
        .map(|model| UnprovenModel {
            path: args.content.join("models").join(&model.folder),
            precision: model.precision.clone(),
        })
        .collect();
    prove_models(&config, &models, &mut |text| println!("{text}"))?;
    Ok(Exit::Success)
}
