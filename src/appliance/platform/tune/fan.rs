// SPDX-License-Identifier: Apache-2.0
//! Fan profile. nvfancontrol has no option for it: following NVIDIA's guide, its persistent state is removed, its configuration
//! edited and its daemon restarted.

use super::super::command::Tool;
use super::super::{PlatformError, SysRoot};

const CONFIG: &str = "/etc/nvfancontrol.conf";
const STATUS: &str = "/var/lib/nvfancontrol/status";
const UNIT: &str = "nvfancontrol.service";

const PROFILE: &str = "FAN_PROFILE";
const DEFAULT: &str = "FAN_DEFAULT_PROFILE";

/// The profile in use: from the daemon, else from its persistent state, else from the configuration. Only root can query
/// the daemon. Several fans with different profiles are separated by commas.
///
/// # Errors
/// There is no configuration, or it has no profile.
pub(super) fn current(root: &SysRoot) -> Result<String, PlatformError> {
    let output = Tool::NVFANCONTROL.run(root, &["-q"]);
    let reported = output.and_then(super::super::command::ToolOutput::done);
    let reported = reported
        .map(|output| profiles_in_use(&output.text))
        .unwrap_or_default();
    let mut profiles = reported;
    if profiles.is_empty() {
        profiles = profiles_in_use(&root.text(STATUS)?.unwrap_or_default());
    }
    if profiles.is_empty() {
        profiles = values_after(&config(root)?, DEFAULT);
    }
    if profiles.iter().all(|name| Some(name) == profiles.first()) {
        profiles.truncate(1);
    }
    if profiles.is_empty() {
        return Err(PlatformError::Malformed {
            path: root.path(CONFIG),
            line: None,
            found: "no default profile".to_owned(),
            expected: "a line `FAN_DEFAULT_PROFILE quiet`",
        });
    }
    Ok(profiles.join(", "))
}

/// Finds a profile by name.
///
/// # Errors
/// There is no such profile.
pub(super) fn resolve(root: &SysRoot, requested: &str) -> Result<String, PlatformError> {
    Tool::NVFANCONTROL.check(root)?;
    let mut available = values_after(&config(root)?, PROFILE);
    available.sort();
    available.dedup();
    match available.iter().find(|name| name.as_str() == requested) {
        Some(name) => Ok(name.clone()),
        None => Err(PlatformError::NoSuchProfile {
            requested: requested.to_owned(),
            available,
            path: root.path(CONFIG),
        }),
    }
}

/// Sets `profile` for every fan. The fan's daemon is restarted even after an error: without it the machine overheats.
///
/// # Errors
/// The configuration cannot be written, or the daemon does not stop or start.
pub(super) fn set(root: &SysRoot, profile: &str) -> Result<(), PlatformError> {
    let edited = with_default(&config(root)?, profile);
    let stopped = systemctl(root, "stop");
    let written = stopped.and_then(|()| {
        root.replace(CONFIG, &edited)
            .and_then(|()| root.remove(STATUS))
    });
    let started = systemctl(root, "start");
    written?;
    started
}

/// Starts or stops the fan's daemon without the job queue: jetwatch-tune.service is ordered after it, so a queued job for
/// the fan would wait until that unit has stopped, which waits for this call.
fn systemctl(root: &SysRoot, verb: &str) -> Result<(), PlatformError> {
    let arguments = ["--job-mode=ignore-dependencies", verb, UNIT];
    Tool::SYSTEMCTL.run(root, &arguments)?.done().map(|_| ())
}

fn config(root: &SysRoot) -> Result<String, PlatformError> {
    root.text(CONFIG)?.ok_or_else(|| PlatformError::Missing {
        path: root.path(CONFIG),
        why: "without it the fan's profiles are unknown; it comes with JetPack (package nvidia-l4t-tools)",
    })
}

/// The fields after `key` at the beginning of a line; comments begin with `#`.
fn values_after(text: &str, key: &str) -> Vec<String> {
    let word = |line: &str| {
        let mut fields = line.split_whitespace();
        (fields.next()? == key).then(|| fields.next().map(str::to_owned))?
    };
    text.lines().filter_map(word).collect()
}

/// The profile names in `FAN1:FAN_PROFILE:cool`, one per fan.
fn profiles_in_use(text: &str) -> Vec<String> {
    let fields = text.split_whitespace();
    fields
        .filter_map(|word| {
            let (_, name) = word.split_once("FAN_PROFILE:")?;
            (!name.is_empty()).then(|| name.to_owned())
        })
        .collect()
}

/// The configuration with another default profile, or with one for each fan in the form of [`current`]; the rest is
/// unchanged.
fn with_default(text: &str, profile: &str) -> String {
    let mut profiles = profile.split(", ");
    let mut profile = "";
    let line = |line: &str| {
        let rest = line.trim_start();
        let indent = &line[..line.len() - rest.len()];
        match rest.split_whitespace().next() {
            Some(DEFAULT) => {
                // The last one applies to all remaining fans.
                profile = profiles.next().unwrap_or(profile);
                format!("{indent}{DEFAULT} {profile}\n")
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
<FAN 1>
\tFAN_PROFILE quiet {
\t\t#TEMP HYST PWM RPM
\t}
\tFAN_PROFILE cool {
\t}
\tFAN_DEFAULT_PROFILE quiet
\t#FAN_DEFAULT_PROFILE cool
";

    #[test]
    fn only_the_default_profile_is_edited() {
        assert_eq!(values_after(TEXT, PROFILE), ["quiet", "cool"]);
        assert_eq!(values_after(TEXT, DEFAULT), ["quiet"]);
        let edited = with_default(TEXT, "cool");
        assert_eq!(values_after(&edited, DEFAULT), ["cool"]);
        assert_eq!(with_default(&edited, "quiet"), TEXT);
        let twice = TEXT.repeat(3);
        let edited = with_default(&twice, "cool, quiet");
        assert_eq!(values_after(&edited, DEFAULT), ["cool", "quiet", "quiet"]);
    }

    #[test]
    fn fan_profile_is_read_per_fan() {
        let reported = "FAN1:FAN_PROFILE:cool\nFAN1:FAN_GOVERNOR:cont\nFAN2:FAN_PROFILE:quiet\n";
        assert_eq!(profiles_in_use(reported), ["cool", "quiet"]);
        assert!(profiles_in_use("FAN1:FAN_PROFILE:\n").is_empty());
    }
}
