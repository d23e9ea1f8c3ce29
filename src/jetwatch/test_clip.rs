// SPDX-License-Identifier: Apache-2.0
//! `jetwatch test-clip`: writes the H.264 video that `jetwatch doctor` decodes. Hidden: `cross/build` calls it for the package.
//!
//! It is not a subcommand of the derived command line, because the completions would offer it.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::Exit;

/// Name of the subcommand.
pub(super) const NAME: &str = "test-clip";

#[derive(Debug, Args)]
struct TestClipArgs {
    /// Folder for the files; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The subcommand, which `--help` does not list.
pub(super) fn subcommand() -> Command {
    TestClipArgs::augment_args(Command::new(NAME).hide(true))
}

/// Writes the clip and the digests of its images.
pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let out = TestClipArgs::from_arg_matches(matches)?.out;
    jetwatch_doctor::write_test_clip(&out)?;
    Ok(Exit::Success)
}
