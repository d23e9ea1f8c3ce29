// SPDX-License-Identifier: Apache-2.0
//! `jetwatch user`: who may open the page of the daemon. Passwords come from a prompt or from standard input, never from the command
//! line, which others can read.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};

use jetwatch_config::{Config, WebRole};
use jetwatch_tables::{Align, TextTable};
use jetwatch_web::{Scope, Users};

use super::{CONFIG_FILE, Exit, password};

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
    /// File of the users. Default: web.users_file of the configuration, else that of the daemon's own page.
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
        if let Some(path) = config.web.users_file {
            return Ok(path);
        }
        // That of the page that the daemon has by itself.
        let state = jetwatch_config::own_state_folder().filter(|_| config.web.listen.is_none());
        let state = state.with_context(|| {
            format!(
                "{} has no web.users_file; add it, or give --users-file",
                self.config.display()
            )
        })?;
        Ok(state.join("users"))
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
            let password = password::read_new()?;
            place.change(|users| Ok(users.add(name, role, &password)?))?;
        }
        UserCommand::Password { name, place } => {
            let password = password::read_new()?;
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
