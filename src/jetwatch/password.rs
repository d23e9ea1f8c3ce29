// SPDX-License-Identifier: Apache-2.0
//! Passwords from a terminal, unseen, or from standard input. Never from the command line, which others can read.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

/// Longest line that is read as a password.
const MAX_LINE_BYTES: u64 = 4096;

/// A new password: from the terminal twice, or from a line of standard input.
///
/// # Errors
/// It is empty, the two differ, or it cannot be read.
pub(super) fn read_new() -> anyhow::Result<String> {
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let echo = EchoOff::begin()?;
    let password = prompt("Password: ").and_then(|first| Ok((first, prompt("Once more: ")?)));
    drop(echo);
    let (first, second) = password?;
    ensure!(first == second, "the passwords differ; nothing was changed");
    Ok(first)
}

/// A password that exists: from the terminal, or from a line of standard input.
///
/// # Errors
/// It is empty or cannot be read.
pub(super) fn read() -> anyhow::Result<String> {
    if !io::stdin().is_terminal() {
        return read_line();
    }
    let _echo = EchoOff::begin()?;
    prompt("Password: ")
}

fn prompt(text: &str) -> anyhow::Result<String> {
    eprint!("{text}");
    io::stderr().flush()?;
    let line = read_line();
    eprintln!("");
    line
}

fn read_line() -> anyhow::Result<String> {
    use io::Read as _;
    let mut line = String::new();
    let mut input = io::stdin().lock().take(MAX_LINE_BYTES);
    input
        .read_line(&mut line)
        .context("cannot read the password")?;
    let password = line.trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        bail!("no password was given; write it to standard input, as one line");
    }
    Ok(password.to_owned())
}

/// Stops the echo of a terminal until it is dropped.
struct EchoOff;

impl EchoOff {
    fn begin() -> anyhow::Result<Self> {
        set_echo("-echo").context("cannot hide the password; write it to standard input")?;
        Ok(Self)
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = set_echo("echo");
    }
}

fn set_echo(setting: &str) -> anyhow::Result<()> {
    let status = Command::new("stty")
        .arg(setting)
        .stdin(Stdio::inherit())
        .status()?;
    ensure!(status.success(), "stty {setting} failed");
    Ok(())
}
