// SPDX-License-Identifier: Apache-2.0
//! Runs JetPack's tools, without standard input: a tool that prompts gets end-of-file, and the prompt is reported to the user.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{PlatformError, SysRoot};

/// Folders of programs, below the system root.
const BIN_DIRS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// `HOME` of the tools: the same for every caller, and not that of a user.
const TOOL_HOME: &str = "/var/lib/jetwatch-setup";

const TOOL_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of a tool's output in an error, in characters.
const MAX_OUTPUT_CHARS: usize = 400;

/// A system program, and the package that provides it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    name: &'static str,
    package: &'static str,
}

impl Tool {
    pub(super) const NVPMODEL: Self = Self::new("nvpmodel", "nvidia-l4t-nvpmodel");
    pub(super) const JETSON_CLOCKS: Self = Self::new("jetson_clocks", "nvidia-l4t-tools");
    pub(super) const NVFANCONTROL: Self = Self::new("nvfancontrol", "nvidia-l4t-tools");
    pub(super) const SYSTEMCTL: Self = Self::new("systemctl", "systemd");

    const fn new(name: &'static str, package: &'static str) -> Self {
        Self { name, package }
    }

    /// Checks that the tool is installed.
    ///
    /// # Errors
    /// The tool is not installed.
    pub(super) fn check(self, root: &SysRoot) -> Result<(), PlatformError> {
        self.path(root).map(|_| ())
    }

    fn path(self, root: &SysRoot) -> Result<std::path::PathBuf, PlatformError> {
        BIN_DIRS
            .iter()
            .map(|folder| root.path(&format!("{folder}/{}", self.name)))
            .find(|path| path.is_file())
            .ok_or(PlatformError::NoTool {
                tool: self.name,
                package: self.package,
            })
    }

    /// Runs the tool and blocks until it ends, for at most 60 s.
    ///
    /// # Errors
    /// The tool is not installed, does not start, or does not end within 60 s. A non-zero exit status is not an error; see
    /// [`ToolOutput::done`].
    pub(super) fn run(
        self,
        root: &SysRoot,
        arguments: &[&str],
    ) -> Result<ToolOutput, PlatformError> {
        self.run_with_timeout(root, arguments, TOOL_TIMEOUT)
    }

    /// As [`run`](Self::run), with this `timeout`.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub(super) fn run_with_timeout(
        self,
        root: &SysRoot,
        arguments: &[&str],
        timeout: Duration,
    ) -> Result<ToolOutput, PlatformError> {
        let path = self.path(root)?;
        let command = [&[self.name], arguments].concat().join(" ");
        let not_started = |source| PlatformError::ToolNotStarted {
            path: path.clone(),
            source,
        };
        let child = Command::new(&path)
            .args(arguments)
            .env("LC_ALL", "C")
            // jetson_clocks writes a file there, and a system unit has no home.
            .env("HOME", root.path(TOOL_HOME))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(not_started)?;
        let pid = Pid::from_child(&child);
        let (ended, end) = mpsc::channel();
        thread::Builder::new()
            .name("tool".to_owned())
            .spawn(move || ended.send(child.wait_with_output()))
            .map_err(not_started)?;
        let output = match end.recv_timeout(timeout) {
            Ok(output) => output.map_err(not_started)?,
            Err(_) => {
                // The child has not been reaped yet, so its id is still valid. If it has just ended, the signal has no effect.
                let _ = kill_process(pid, Signal::KILL);
                return Err(PlatformError::ToolTimeout {
                    command,
                    seconds: timeout.as_secs(),
                });
            }
        };
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text += &String::from_utf8_lossy(&output.stderr);
        Ok(ToolOutput {
            command,
            status: output.status.to_string(),
            is_success: output.status.success(),
            text,
        })
    }
}

/// Output and exit status of a tool.
#[derive(Debug)]
pub(super) struct ToolOutput {
    command: String,
    status: String,
    is_success: bool,
    /// Standard output, then standard error.
    pub(super) text: String,
}

impl ToolOutput {
    /// The output itself, when the tool succeeded.
    ///
    /// # Errors
    /// The tool ended with another exit status than 0.
    pub(super) fn done(self) -> Result<Self, PlatformError> {
        if self.is_success {
            return Ok(self);
        }
        let output = self.output_tail();
        Err(PlatformError::ToolFailed {
            command: self.command,
            status: self.status,
            output,
        })
    }

    /// Whether the output mentions a reboot.
    pub(super) fn mentions_reboot(&self) -> bool {
        self.text.to_ascii_lowercase().contains("reboot")
    }

    /// The error for output in an unknown form.
    pub(super) fn unexpected_output(&self, expected: &'static str) -> PlatformError {
        PlatformError::UnexpectedOutput {
            command: self.command.clone(),
            output: self.output_tail(),
            expected,
        }
    }

    /// The last [`MAX_OUTPUT_CHARS`] characters of the output, on one line.
    fn output_tail(&self) -> String {
        let parts: Vec<&str> = self.text.split_whitespace().collect();
        let text = parts.join(" ");
        if text.is_empty() {
            return "no output".to_owned();
        }
        let skipped = text.chars().count().saturating_sub(MAX_OUTPUT_CHARS);
        text.chars().skip(skipped).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Runs a shell script in place of nvpmodel, with this `timeout`.
    fn run(script: &str, timeout: Duration) -> Result<ToolOutput, PlatformError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        let path = root.path("/usr/sbin/nvpmodel");
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        symlink("/bin/sh", &path).expect("linked");
        Tool::NVPMODEL.run_with_timeout(&root, &["-c", script], timeout)
    }

    #[test]
    fn tool_has_no_standard_input() {
        let output = run("read -r answer || echo eof\n", TOOL_TIMEOUT).expect("it ends");
        assert_eq!(output.text, "eof\n");
    }

    #[test]
    fn failing_tool_error_includes_output() {
        let output = run("echo one; echo two >&2; exit 3", TOOL_TIMEOUT).expect("it ends");
        let error = output.done().expect_err("it failed").to_string();
        assert_eq!(
            error,
            "`nvpmodel -c echo one; echo two >&2; exit 3` failed (exit status: 3): one two"
        );
    }

    #[test]
    fn hanging_tool_is_killed() {
        let error = run("exec sleep 600", Duration::from_millis(1));
        let error = error.expect_err("it does not end").to_string();
        assert!(
            error.starts_with("`nvpmodel -c exec sleep 600` did not end within"),
            "{error}"
        );
    }
}
