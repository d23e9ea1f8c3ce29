// SPDX-License-Identifier: Apache-2.0
//! The `jetwatch` program; `lib.rs` parses the command line and runs the subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    jetwatch::main()
}
