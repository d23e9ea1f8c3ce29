//! Where the daemon is profiled: on this machine, or on another one over the system's ssh, as oneself or as somebody else.

use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A machine and the way there.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// `user@machine`, or a name that ssh's configuration explains; none: this machine.
    pub host: Option<String>,
    /// The ssh to use; empty: `ssh` in the search path.
    pub ssh: String,
    /// Options for it: `NAME=VALUE` as in ssh_config(5), or an argument of its own that begins with `-`.
    pub ssh_options: Vec<String>,
    /// Who does the work there.
    pub user: User,
}

/// Who does the work at the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum User {
    /// Who logs in, or who calls.
    #[default]
    Current,
    /// Somebody else, by `sudo` without a password: root, or whom the service runs as.
    Other(String),
}

/// What ssh does by default: it notices within 15 seconds that the other machine is gone. The user's own options come first
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

    /// The shell there, which will read `script_bytes` bytes from its standard input and do what they say.
    pub(super) fn shell(&self, script_bytes: usize) -> Command {
        // Single quotes mean the same to every login shell.
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
                // A Ctrl-C at the terminal is for this program alone, which then closes the connection.
                command.args(&words[1..]).arg(script).process_group(0);
            }
            Some(host) => {
                command = Command::new(self.ssh_program());
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
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The program that leads there.
    pub(super) fn ssh_program(&self) -> &str {
        if self.ssh.is_empty() {
            "ssh"
        } else {
            &self.ssh
        }
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
