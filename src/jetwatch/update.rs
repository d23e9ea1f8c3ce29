// SPDX-License-Identifier: Apache-2.0
//! `jetwatch update`: updates of the program and of models, which are verified by recorded detections and by the health of the daemons, and
//! rolled back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};

use jetwatch_archive::utc;
use jetwatch_tables::{Align, TextTable};
use jetwatch_telemetry as telemetry;
use jetwatch_telemetry::update_status::{UPDATE_FOLDER, UpdateStatus, status_file};
use jetwatch_update::{
    Debian, Gate, INSTALL_LIMIT, InstallRequest, Outcome, Repository, Store, UpdateError, Updater,
    require_root,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Exit, parse_duration};

/// Arguments of `jetwatch update`.
#[derive(Debug, Args)]
pub(super) struct UpdateArgs {
    #[command(subcommand)]
    command: UpdateCommand,
}

#[derive(Debug, Subcommand)]
enum UpdateCommand {
    /// Look for a newer version, and install nothing.
    Check {
        #[command(flatten)]
        source: Source,
    },
    /// Install the newest version, and return to the present one where the daemons do not become healthy.
    Install {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        gate: GateArgs,
        /// Also a version that was rolled back before.
        #[arg(long)]
        retry_held: bool,
        /// Also where no daemon runs, so that nothing can be verified.
        #[arg(long)]
        without_daemon: bool,
    },
    /// End what a power cut or a kill has interrupted. The package does this at each start of the machine.
    Resume {
        #[command(flatten)]
        gate: GateArgs,
    },
    /// Make packages whole that a power cut has left half installed, before the daemons start; the rest is left to `resume`. The package does this at each start of the machine.
    Repair,
    /// Return to the version before the last update, and hold the present one.
    Rollback {
        #[command(flatten)]
        gate: GateArgs,
    },
    /// Print the state of updates.
    Status {
        /// Print the updates that are over, oldest first.
        #[arg(long)]
        history: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Source {
    /// The entry of apt for the repository; default: jetwatch.sources or jetwatch.list in /etc/apt/sources.list.d.
    #[arg(long, value_name = "FILE")]
    source_list: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct GateArgs {
    /// Time until the daemons must be ready, bring frames of all sources that were online before, and have a message acknowledged. The time for which an engine is built does not count.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    health_timeout: Duration,
    /// For how long they must stay so.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "3s")]
    settle: Duration,
    /// Frames that each source must have brought.
    #[arg(long, value_name = "N", default_value_t = 10)]
    min_frames: u64,
    /// For how long the package manager may install, with its wait for another one. Scripts of a package that do not end are killed then, and the earlier version is installed again.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "15m")]
    install_timeout: Duration,
}

impl GateArgs {
    fn gate(&self) -> Gate {
        Gate {
            timeout: self.health_timeout,
            settle: self.settle,
            min_frames: self.min_frames,
            ..Gate::default()
        }
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &UpdateArgs) -> anyhow::Result<Exit> {
    match args.command {
        UpdateCommand::Status {
            history: true,
            json,
        } => return history(json),
        UpdateCommand::Status { json, .. } => return status(json),
        _ => {}
    }
    telemetry::start_logging(log::LevelFilter::Info);
    let folder = Path::new(UPDATE_FOLDER);
    require_root()?;
    ignore_signals()?;
    let store = match (Store::open(folder), &args.command) {
        // Where a daemon starts during an update, whose program ends it itself.
        (Err(UpdateError::Busy), UpdateCommand::Repair) => return Ok(Exit::Success),
        (store, _) => store?,
    };
    let outcome = match &args.command {
        UpdateCommand::Check { source } => updater(Some(source), None, store)?.check()?,
        UpdateCommand::Install {
            source,
            gate,
            retry_held,
            without_daemon,
        } => {
            let request = InstallRequest {
                retry_held: *retry_held,
                without_daemon: *without_daemon,
            };
            updater(Some(source), Some(gate), store)?.install(&request)?
        }
        UpdateCommand::Resume { gate } => match updater(None, Some(gate), store)?.resume()? {
            Some(outcome) => outcome,
            None => {
                println!("nothing was interrupted");
                return Ok(Exit::Success);
            }
        },
        UpdateCommand::Repair => {
            updater(None, None, store)?.repair()?;
            return Ok(Exit::Success);
        }
        UpdateCommand::Rollback { gate } => {
            let outcome = updater(None, Some(gate), store)?.return_to_previous()?;
            print(&outcome);
            return Ok(Exit::Success);
        }
        UpdateCommand::Status { .. } => return Ok(Exit::Success),
    };
    print(&outcome);
    Ok(match outcome {
        Outcome::RolledBack(..) => Exit::Failure,
        _ => Exit::Success,
    })
}

/// What was interrupted is ended without the repository; anything else begins with it.
fn updater(
    source: Option<&Source>,
    gate: Option<&GateArgs>,
    store: Store,
) -> anyhow::Result<Updater<Debian>> {
    let repository = match source {
        Some(source) => Some(Repository::open(source.source_list.as_deref())?),
        None => None,
    };
    let limit = gate.map_or(INSTALL_LIMIT, |gate| gate.install_timeout);
    let system = Debian::new(repository).with_install_limit(limit);
    let gate = gate.map(GateArgs::gate).unwrap_or_default();
    Ok(Updater::new(system, store, gate))
}

/// A closed terminal or Ctrl-C must not leave half an update: it ends by itself.
fn ignore_signals() -> anyhow::Result<()> {
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, flag).context("cannot register signal handlers")?;
    }
    Ok(())
}

fn print(outcome: &Outcome) {
    match outcome {
        Outcome::UpToDate(version) => println!("{version} is installed, and the newest"),
        Outcome::Available(version, text) => println!("{version} is available: {text}"),
        Outcome::Installed(version) => println!("{version} is installed and healthy"),
        Outcome::RolledBack(version, reason) => {
            println!("rolled back to {version}: {reason}");
        }
    }
}

fn history(as_json: bool) -> anyhow::Result<Exit> {
    let updates = UpdateStatus::history().context("cannot read the history of updates")?;
    if as_json {
        println!("{}", serde_json::to_string_pretty(&updates)?);
        return Ok(Exit::Success);
    }
    let mut table = TextTable::new(&[
        ("TIME", Align::Left),
        ("STATE", Align::Left),
        ("INSTALLED", Align::Left),
        ("LATEST", Align::Left),
        ("REASON", Align::Left),
    ]);
    for update in updates {
        table.push([
            utc(UNIX_EPOCH + Duration::from_millis(update.at_ms)),
            update.state.word().to_owned(),
            update.installed,
            update.latest,
            update.reason.unwrap_or_default(),
        ]);
    }
    println!("{table}");
    Ok(Exit::Success)
}

fn status(as_json: bool) -> anyhow::Result<Exit> {
    let path = status_file();
    let read = UpdateStatus::read(&path).with_context(|| format!("cannot read {}", path.display()));
    let Some(status) = read? else {
        println!(
            "{}",
            if as_json {
                "null"
            } else {
                "no update was looked for: jetwatch update check"
            }
        );
        return Ok(Exit::Success);
    };
    if as_json {
        println!("{}", serde_json::to_string_pretty(&status)?);
        return Ok(Exit::Success);
    }
    let at = UNIX_EPOCH + Duration::from_millis(status.at_ms);
    println!("state      {}", status.state.word());
    println!("installed  {}", status.installed);
    println!("latest     {}", status.latest);
    for (name, value) in [
        ("held", &status.held),
        ("previous", &status.previous),
        ("reason", &status.reason),
    ] {
        if let Some(value) = value {
            println!("{name:<10} {value}");
        }
    }
    println!("at         {}", utc(at));
    Ok(Exit::Success)
}
