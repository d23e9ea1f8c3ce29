// SPDX-License-Identifier: Apache-2.0
//! `jetwatch user`: who may open the page of the daemon. Passwords come from a prompt or from standard input, never from the command
//! line, which others can read.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};

use jetwatch_config::{Config, WebRole};
use jetwatch_tables::{Align, TextTable};
use jetwatch_web::{Scope, Users};

use super::{CONFIG_FILE, Exit};

/// Longest line that is read as a password.
const MAX_LINE_BYTES: u64 = 4096;

/// Arguments of `jetwatch user`.
#[derive(Debug, Args)]
pub(super) struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Add a user; the password is read from a prompt, or as a line of standard input.
    Add {
        /// Name of the user.
        name: String,
        /// viewer: see everything; operator: also change zones and lines, reload and keep recordings; administrator: also download the support bundle.
        #[arg(long, value_enum, default_value_t = RoleName::Viewer)]
        role: RoleName,
        #[command(flatten)]
        place: Place,
    },
    /// Set the password of a user, which ends its sessions; read as by add.
    #[command(alias = "passwd")]
    Password {
        /// Name of the user.
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// Remove a user, which ends its sessions.
    Remove {
        /// Name of the user.
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// Show users and tokens.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Add or remove tokens, by which programs read the page.
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Add a token and print it; it is not stored and cannot be shown again.
    Add {
        /// Name of the token, such as that of the program.
        name: String,
        /// pictures: pictures of the sources only; read: what a viewer sees; control: what an operator may do.
        #[arg(long, value_enum, default_value_t = ScopeName::Pictures)]
        scope: ScopeName,
        #[command(flatten)]
        place: Place,
    },
    /// Remove a token.
    Remove {
        /// Name of the token.
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleName {
    Viewer,
    Operator,
    Administrator,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    Pictures,
    Read,
    Control,
}

/// Where the users are.
#[derive(Debug, Args)]
struct Place {
    /// File of the users. Default: web.users_file of the configuration.
    #[arg(long, value_name = "FILE")]
    users_file: Option<PathBuf>,
    /// Configuration file.
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
}

impl Place {
    fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.users_file {
            return Ok(path.clone());
        }
        let config = Config::load(&self.config)?;
        config.web.users_file.with_context(|| {
            format!(
                "{} has no web.users_file; add it, or give --users-file",
                self.config.display()
            )
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Users) -> anyhow::Result<T>) -> anyhow::Result<T> {
        Users::change(&self.path()?, change)
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &UserArgs) -> anyhow::Result<Exit> {
    match &args.command {
        UserCommand::Add { name, role, place } => {
            let role = match role {
                RoleName::Viewer => WebRole::Viewer,
                RoleName::Operator => WebRole::Operator,
                RoleName::Administrator => WebRole::Administrator,
            };
            let password = read_password()?;
            place.change(|users| Ok(users.add(name, role, &password)?))?;
        }
        UserCommand::Password { name, place } => {
            let password = read_password()?;
            place.change(|users| Ok(users.set_password(name, &password)?))?;
        }
        UserCommand::Remove { name, place } => {
            place.change(|users| Ok(users.remove(name)?))?;
        }
        UserCommand::List { place } => list(&Users::load(&place.path()?)?),
        UserCommand::Token {
            command: TokenCommand::Add { name, scope, place },
        } => {
            let scope = match scope {
                ScopeName::Pictures => Scope::Pictures,
                ScopeName::Read => Scope::Read,
                ScopeName::Control => Scope::Control,
            };
            let token = place.change(|users| Ok(users.add_token(name, scope)?))?;
            println!("{token}");
        }
        UserCommand::Token {
            command: TokenCommand::Remove { name, place },
        } => {
            place.change(|users| Ok(users.remove_token(name)?))?;
        }
    }
    Ok(Exit::Success)
}

fn list(users: &Users) {
    let mut table = TextTable::new(&[
        ("name", Align::Left),
        ("kind", Align::Left),
        ("may", Align::Left),
    ]);
    for user in users.users() {
        table.push([user.name, "user".to_owned(), user.role.to_owned()]);
    }
    for token in users.tokens() {
        table.push([token.name, "token".to_owned(), token.scope.to_owned()]);
    }
    for line in table.lines() {
        println!("{line}");
    }
}

/// A password from the terminal, twice and unseen, or from a line of standard input.
fn read_password() -> anyhow::Result<String> {
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
