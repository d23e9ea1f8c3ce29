// SPDX-License-Identifier: Apache-2.0
//! `jetwatch manual`: writes the manual pages and shell completions. Hidden: `cross/build` calls it for the package.
//!
//! It is not a subcommand of the derived command line, because the completions would offer it.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use clap_complete::Shell;

use super::Exit;

/// Name of the subcommand.
pub(super) const NAME: &str = "manual";

#[derive(Debug, Args)]
struct ManualArgs {
    /// Folder for the files; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The subcommand, which `--help` does not list.
pub(super) fn subcommand() -> Command {
    ManualArgs::augment_args(Command::new(NAME).hide(true))
}

/// Writes the files of `documented`, the command line without this subcommand.
pub(super) fn run(matches: &ArgMatches, documented: Command) -> anyhow::Result<Exit> {
    let out = ManualArgs::from_arg_matches(matches)?.out;
    let failed = || format!("cannot write manual pages to {}", out.display());
    fs::create_dir_all(&out).with_context(failed)?;
    let mut command = documented.clone();
    clap_mangen::generate_to(documented, &out).with_context(failed)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut command, "jetwatch", &out).with_context(failed)?;
    }
    Ok(Exit::Success)
}
