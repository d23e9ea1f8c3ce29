//! The gate of a bundle: `jetwatch prove-bundle` in a process of its own, so that a network that ends it, or takes all of its memory,
//! does not end the installation, and as the daemon's user rather than as root.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use jetwatch_bundles::{Candidate, Gate};
use jetwatch_config::BUNDLES_FOLDER;

use super::prove;

/// Runs the proof in another process.
pub(super) struct ChildGate<'a> {
    /// The daemon's configuration, for a bundle that brings none.
    pub(super) configuration: &'a Path,
}

impl Gate for ChildGate<'_> {
    fn check(&self, candidate: &Candidate<'_>) -> Result<Vec<String>, String> {
        let program = env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?;
        let mut command = match daemon_user() {
            Some((uid, gid)) => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={uid}"))
                    .arg(format!("--regid={gid}"))
                    .args(["--init-groups", "--no-new-privs", "--"])
                    .arg(&program);
                command
            }
            None => Command::new(&program),
        };
        let brought = candidate.configuration.as_deref();
        let output = command
            .arg(prove::NAME)
            .arg("--content")
            .arg(candidate.folder)
            .arg("--configuration")
            .arg(brought.unwrap_or(self.configuration))
            .arg("--place")
            .arg(self.configuration)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("the proof cannot be started: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return Ok(text.lines().map(str::to_owned).collect());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let errors = errors.trim();
        // The program's own line, not those of libraries before it.
        let last = errors
            .rsplit_once("jetwatch: ")
            .map_or(errors, |(_, last)| last);
        Err(match (output.status.code(), last) {
            (Some(_), text) if !text.is_empty() => text.to_owned(),
            _ => format!(
                "the proof of its models ended with {}: {last}",
                output.status
            ),
        })
    }
}

/// User and group of the daemon: those of the folder above the store, where this process is root and they are not.
fn daemon_user() -> Option<(u32, u32)> {
    let folder = Path::new(BUNDLES_FOLDER).parent()?;
    let metadata = fs::metadata(folder).ok()?;
    let own = fs::metadata("/proc/self").ok()?.uid();
    let is_other = own == 0 && metadata.uid() != 0;
    is_other.then(|| (metadata.uid(), metadata.gid()))
}
