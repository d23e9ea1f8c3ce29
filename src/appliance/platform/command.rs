//! JetPack's tools, run without standard input: a question that one of them asks finds nobody, and is told to the user.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{PlatformError, SysRoot};

/// Folders of programs, below the root.
const BIN_DIRS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The tools' home: the same whoever starts them, and nobody's.
const TOOL_HOME: &str = "/var/lib/jetwatch-setup";

/// Longest that a tool may take.
const TOOL_TIMEOUT: Duration = Duration::from_secs(60);

/// Most characters of a tool's words that an error repeats.
const MAX_OUTPUT_CHARS: usize = 400;

/// A program of the system.
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

    /// Whether it is installed.
    ///
    /// # Errors
    /// It is not.
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

    /// Runs it and waits for its end.
    ///
    /// # Errors
    /// It is not installed, does not start, or does not end. How it ended is the caller's to judge.
    pub(super) fn run(
        self,
        root: &SysRoot,
        arguments: &[&str],
    ) -> Result<ToolOutput, PlatformError> {
        self.run_with_timeout(root, arguments, TOOL_TIMEOUT)
    }

    /// As [`run`](Self::run), for at most `timeout`.
    ///
    /// # Errors
    /// As there.
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
            // jetson_clocks keeps a file there, and a unit of the system has no home.
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
                // It is still ours: the thread has not yet seen its end. If it ends just now, so much the better.
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

/// What a tool printed, and how it ended.
#[derive(Debug)]
pub(super) struct ToolOutput {
    command: String,
    status: String,
    is_success: bool,
    /// Standard output, then standard error.
    pub(super) text: String,
}

impl ToolOutput {
    /// Itself, when the tool ended well.
    ///
    /// # Errors
    /// It did not.
    pub(super) fn done(self) -> Result<Self, PlatformError> {
        if self.is_success {
            return Ok(self);
        }
        let output = self.output_tail();
        Err(PlatformError::ToolFailed {
            command: self.command,
            status: self.status,
            said: output,
        })
    }

    /// Whether it speaks of a reboot.
    pub(super) fn mentions_reboot(&self) -> bool {
        self.text.to_ascii_lowercase().contains("reboot")
    }

    /// That it did not answer in a known form.
    pub(super) fn unexpected_output(&self, expected: &'static str) -> PlatformError {
        PlatformError::UnexpectedOutput {
            command: self.command.clone(),
            said: self.output_tail(),
            expected,
        }
    }

    /// The end of its words, on one line.
    fn output_tail(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let text = words.join(" ");
        if text.is_empty() {
            return "it printed nothing".to_owned();
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

    /// Runs a script by a shell in the place of nvpmodel, for at most `timeout`.
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
        let output = run("read -r answer || echo nobody\n", TOOL_TIMEOUT).expect("it ends");
        assert_eq!(output.text, "nobody\n");
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
