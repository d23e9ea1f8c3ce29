// SPDX-License-Identifier: Apache-2.0
//! The host of a profiling run: this machine, or another one over the system's ssh, as the same or another user.

use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A host and how to connect to it.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// `user@machine`, or a name in ssh's configuration; `None`: this machine.
    pub host: Option<String>,
    /// The ssh to use; empty: `ssh` in the search path.
    pub ssh: String,
    /// Options for it: `NAME=VALUE` as in ssh_config(5), or an argument of its own that begins with `-`.
    pub ssh_options: Vec<String>,
    /// User for the commands on the host.
    pub user: User,
}

/// User for the commands on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum User {
    /// The user of the login, or of this program.
    #[default]
    Current,
    /// Another user, by `sudo` without a password: root, or the user of the service.
    Other(String),
}

/// Default options of ssh: a lost connection is detected within 15 s. The user's own options come first
/// and win.
const DEFAULTS: [&str; 3] = [
    "ConnectTimeout=15",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
];

impl Host {
    /// Whether the daemon runs on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.host.is_none()
    }

    /// The remote shell, which reads `script_bytes` bytes from its standard input and executes them.
    pub(super) fn shell(&self, script_bytes: usize) -> Command {
        // Single quotes have the same meaning in every login shell.
        let script = format!("eval \"$(head -c {script_bytes})\"");
        let mut words = match &self.user {
            User::Current => Vec::new(),
            User::Other(name) => vec!["sudo", "-n", "-u", name.as_str(), "--"],
        };
        words.extend(["sh", "-c"]);
        let mut command;
        match &self.host {
            None => {
                command = Command::new(words[0]);
                // Ctrl-C at the terminal is only for this program, which then closes the connection.
                command.args(&words[1..]).arg(script).process_group(0);
            }
            Some(host) => {
                let program = Some(self.ssh.as_str()).filter(|program| !program.is_empty());
                command = Command::new(program.unwrap_or("ssh"));
                command.arg("-T");
                for option in &self.ssh_options {
                    if !option.starts_with('-') {
                        command.arg("-o");
                    }
                    command.arg(option);
                }
                for option in DEFAULTS {
                    command.args(["-o", option]);
                }
                command.arg("--").arg(host);
                command.arg(format!("{} '{script}'", words.join(" ")));
            }
        }
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.host.as_deref().unwrap_or("this machine"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(host: &Host) -> Vec<String> {
        let command = host.shell(7);
        let program = std::iter::once(command.get_program());
        program
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn local_host_uses_no_ssh() {
        assert_eq!(
            arguments(&Host::default()),
            ["sh", "-c", "eval \"$(head -c 7)\""]
        );
        let root = Host {
            user: User::Other("root".to_owned()),
            ..Host::default()
        };
        assert_eq!(
            arguments(&root)[..6],
            ["sudo", "-n", "-u", "root", "--", "sh"]
        );
    }

    #[test]
    fn the_users_options_of_ssh_come_first_and_a_host_is_never_an_option() {
        let place = Host {
            host: Some("-oProxyCommand=x".to_owned()),
            ssh_options: vec!["Port=2222".to_owned(), "-4".to_owned()],
            user: User::Other("root".to_owned()),
            ..Host::default()
        };
        let words = arguments(&place);
        assert_eq!(words[..5], ["ssh", "-T", "-o", "Port=2222", "-4"]);
        let last = words.len() - 3;
        assert_eq!(
            words[last..],
            [
                "--",
                "-oProxyCommand=x",
                "sudo -n -u root -- sh -c 'eval \"$(head -c 7)\"'"
            ]
        );
    }
}
