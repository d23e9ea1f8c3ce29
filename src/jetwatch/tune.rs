// SPDX-License-Identifier: Apache-2.0
//! `jetwatch tune`: compares, applies and restores the settings of the machine that the configuration requests.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::{CONFIG_FILE, Exit};
use jetwatch_config::Config;
use jetwatch_doctor::desired_settings;
use jetwatch_platform::tune::{self, Outcome, Restored, Step, StepState};
use jetwatch_platform::{Machine, SensorSnapshot, SysRoot};
use jetwatch_tables::{Align, TextTable};

/// Arguments of `jetwatch tune`.
#[derive(Debug, Args)]
pub(super) struct TuneArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare the machine with the configuration, and report throttling. Fails when a setting differs.
    Status(CommonArgs),
    /// Print what `apply` would do. Fails when it would refuse.
    Plan(CommonArgs),
    /// Apply the configured settings, as root. After an error, changes are undone; a reboot is never confirmed.
    Apply(ApplyArgs),
    /// Restore the settings that `apply` has changed, as root.
    Restore(RestoreArgs),
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// Configuration file.
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Use this folder as the system's root, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

#[derive(Debug, Args)]
struct ApplyArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Only hold the clocks again where `apply` holds them and a change of the power mode has freed them.
    #[arg(long)]
    after_mode_change: bool,
}

#[derive(Debug, Args)]
struct RestoreArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Restore only when the configuration sets tune.restore_on_stop; for use by the unit.
    #[arg(long)]
    on_stop: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: &TuneArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Status(args) => status(args),
        Command::Plan(args) => plan(args),
        Command::Apply(args) => apply(args),
        Command::Restore(args) => restore(args),
    }
}

/// Result of `status`.
#[derive(Serialize)]
struct Status {
    machine: Machine,
    settings: Vec<Step>,
    throttled: Vec<String>,
    readings: SensorSnapshot,
}

fn status(args: &CommonArgs) -> anyhow::Result<Exit> {
    let wanted = desired_settings(&Config::load(&args.config)?.tune);
    let root = SysRoot::new(&args.root);
    let machine = Machine::find(&root);
    let readings = SensorSnapshot::read(&root, &machine);
    let status = Status {
        settings: tune::plan(&root, &wanted),
        throttled: readings.throttled(),
        machine,
        readings,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        println!("machine: {}", status.machine.describe());
        for note in &status.machine.notes {
            println!("note: {note}");
        }
        print_steps(&status.settings);
        for cause in &status.throttled {
            println!("throttled: {cause}");
        }
        for counter in &status.readings.over_current {
            if counter.count > 0 {
                println!(
                    "since the start of the machine: {} occurred {} times",
                    counter.name, counter.count
                );
            }
        }
    }
    let is_right = status
        .settings
        .iter()
        .all(|step| step.state == StepState::Right);
    Ok(if is_right {
        Exit::Success
    } else {
        Exit::Failure
    })
}

fn plan(args: &CommonArgs) -> anyhow::Result<Exit> {
    let wanted = desired_settings(&Config::load(&args.config)?.tune);
    let steps = tune::plan(&SysRoot::new(&args.root), &wanted);
    if args.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&json!({ "settings": steps }))?
        );
    } else {
        print_steps(&steps);
    }
    let is_refused = |step: &Step| matches!(step.state, StepState::Refused(_));
    Ok(if steps.iter().any(is_refused) {
        Exit::Failure
    } else {
        Exit::Success
    })
}

fn apply(args: &ApplyArgs) -> anyhow::Result<Exit> {
    let common = &args.common;
    let root = SysRoot::new(&common.root);
    let steps = if args.after_mode_change {
        let step = tune::reapply(&root)?;
        if step.is_none() && !common.json {
            println!("`apply` holds no clocks: nothing to do");
            return Ok(Exit::Success);
        }
        Vec::from_iter(step)
    } else {
        let wanted = desired_settings(&Config::load(&common.config)?.tune);
        // First, or clocks that a killed benchmark held would be saved as the original settings.
        tune::restore_after_crash(&root)?;
        tune::apply(&root, &wanted)?
    };
    if common.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&json!({ "settings": steps }))?
        );
        return Ok(Exit::Success);
    }
    if steps.is_empty() {
        println!("the configuration has no setting below `tune`: nothing to do");
    }
    for step in &steps {
        let (name, wanted) = (step.setting.name(), &step.wanted);
        let before = step.real.as_deref().unwrap_or("unknown");
        match step.state {
            StepState::Differs => println!("{name}: {wanted}, was {before}"),
            _ => println!("{name}: {wanted} already"),
        }
    }
    Ok(Exit::Success)
}

fn restore(args: &RestoreArgs) -> anyhow::Result<Exit> {
    let common = &args.common;
    if args.on_stop && !Config::load(&common.config)?.tune.restore_on_stop {
        println!("tune.restore_on_stop is not set: no setting is restored");
        return Ok(Exit::Success);
    }
    let restored = tune::restore(&SysRoot::new(&common.root))?;
    if common.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&json!({ "settings": restored }))?
        );
        return Ok(Exit::Success);
    }
    if restored.is_empty() {
        println!("no setting was changed: nothing to restore");
    }
    for Restored {
        setting,
        before,
        outcome,
    } in &restored
    {
        let name = setting.name();
        match outcome {
            Outcome::GivenBack => println!("{name}: restored to {before}"),
            Outcome::ChangedSince => {
                println!(
                    "{name}: changed by another program since, not restored (it was {before})"
                );
            }
        }
    }
    Ok(Exit::Success)
}

/// Prints a table of requested and current values, and the reasons of refusals below it.
fn print_steps(steps: &[Step]) {
    if steps.is_empty() {
        println!("the configuration has no setting below `tune`");
        return;
    }
    let headings = ["setting", "wanted", "real", "state"];
    let mut table = TextTable::new(&headings.map(|heading| (heading, Align::Left)));
    for step in steps {
        let state = match step.state {
            StepState::Right => "right",
            StepState::Differs => "differs",
            StepState::Refused(_) => "refused",
        };
        let real = step.real.as_deref().unwrap_or("unknown");
        table.push([step.setting.name(), &step.wanted, real, state]);
    }
    println!("{table}");
    for step in steps {
        if let StepState::Refused(reason) = &step.state {
            println!("{}: {reason}", step.setting.name());
        }
    }
}
