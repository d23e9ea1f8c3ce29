// SPDX-License-Identifier: Apache-2.0
//! Properties of the target, read before a profile starts.

use super::nsys::{Environment, MIN_VERSION, Version, sessions};
use super::remote_shell::Replies;
use super::{Host, ProfileError, Result};

/// Minimum free space for a profile: a few minutes of calls and ranges.
const MIN_FREE_MIB: u64 = 128;

/// A machine on which the daemon can be profiled.
#[derive(Debug, Clone)]
pub struct HostInfo {
    /// Temporary folder, removed at the end.
    pub folder: String,
    /// Path of nsys.
    pub nsys: String,
    /// Version of nsys.
    pub version: Version,
    /// Text of `nsys profile --help`.
    pub help: String,
    /// Support for CPU sampling.
    pub environment: Environment,
    /// Sessions of nsys: name and state.
    pub sessions: Vec<(String, String)>,
    /// Command lines of running daemons.
    pub daemons: Vec<String>,
}

impl HostInfo {
    /// Parses the replies to `find`.
    ///
    /// # Errors
    /// nsys is missing or too old, or there is too little disk space.
    pub(super) fn read(
        host: &Host,
        folder: &str,
        program: &str,
        replies: &Replies,
    ) -> Result<Self> {
        let one = |name: &str| replies.get(name).unwrap_or_default().to_owned();
        let place = host.to_string();
        let nsys = one("nsys");
        if nsys.is_empty() {
            return Err(ProfileError::NoNsys(place, program.to_owned()));
        }
        let output = one("version");
        let Some(version) = Version::parse(&output) else {
            let output = output.trim().to_owned();
            return Err(ProfileError::NoVersion(place, nsys, output));
        };
        if version < MIN_VERSION {
            return Err(ProfileError::TooOld(place, version));
        }
        // Without output of df the space is not checked.
        if let Some(free_mib) = free_mib(&one("free")).filter(|free| *free < MIN_FREE_MIB) {
            return Err(ProfileError::NoSpace {
                place,
                folder: folder.to_owned(),
                free_mib,
                wanted_mib: MIN_FREE_MIB,
            });
        }
        Ok(Self {
            folder: folder.to_owned(),
            nsys,
            version,
            help: one("help"),
            environment: Environment {
                status: one("environment"),
                paranoid: one("paranoid").trim().parse().ok(),
                has_counters: replies.get("counters").is_some(),
            },
            sessions: sessions(&one("sessions")),
            daemons: replies.all("daemon").map(str::to_owned).collect(),
        })
    }

    /// Checks that the service can be recorded through the session `name`.
    ///
    /// # Errors
    /// The session does not exist, or is recording.
    pub(super) fn check_session(&self, host: &Host, name: &str) -> Result<()> {
        let not = |why: String| Err(ProfileError::NotAttachable(host.to_string(), why));
        let found = self.sessions.iter().find(|(session, _)| session == name);
        match found {
            Some((_, state)) if state.contains("Collection") => not(format!(
                "its session `{name}` is recording already ({state}); wait for its end, or end it with `nsys stop --session={name}`"
            )),
            Some(_) => Ok(()),
            None if self.daemons.is_empty() => not(format!(
                "no daemon runs there, and nsys has no session `{name}`; start the service under nsys first \
                 (systemd/drop-ins/profiling.conf), or leave --attach out"
            )),
            None => not(format!(
                "this user has no session `{name}` of nsys there, and nsys cannot record calls and ranges of a process that it did not start; \
                 if the service was started by `nsys launch`, work as the service's user, by --sudo=jetwatch; else copy systemd/drop-ins/profiling.conf to \
                 /etc/systemd/system/jetwatch.service.d/ and restart the service once, or leave --attach out"
            )),
        }
    }
}

/// Converts the KiB of df to MiB.
pub(super) fn free_mib(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().map(|kib| kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answers: &[(&str, &str)]) -> Result<HostInfo, String> {
        let replies = Replies::new(answers);
        let read = HostInfo::read(&Host::default(), "/var/x", "nsys", &replies);
        read.map_err(|error| error.to_string())
    }

    const WELL: [(&str, &str); 4] = [
        ("free", "9000000"),
        ("nsys", "/usr/bin/nsys"),
        (
            "version",
            "NVIDIA Nsight Systems version 2022.4.2.1-df9881f\n",
        ),
        ("paranoid", "4"),
    ];

    #[test]
    fn host_info_is_parsed() {
        let target = read(&WELL).expect("it is well");
        assert_eq!(target.version, Version(2022, 4, 2));
        assert_eq!(target.environment.paranoid, Some(4));
        assert!(!target.environment.has_counters && target.daemons.is_empty());
    }

    #[test]
    fn missing_host_tools_are_reported() {
        // What is found in place of an answer of `WELL`.
        for (answer, found, wanted) in [
            (1, "", "there is no nsys on this machine"),
            (0, "2048", "/var/x on this machine has 2 MiB free"),
            (2, "NVIDIA Nsight Systems version 2020.5.3.17", "2020.5.3"),
            (2, "NVIDIA Nsight Systems version 2020.5.3.17", "2021.4.0"),
            (2, "Segmentation fault", "Segmentation fault"),
        ] {
            let mut answers = WELL;
            answers[answer].1 = found;
            let error = read(&answers).expect_err(wanted);
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }

    #[test]
    fn attach_needs_idle_session() {
        let mut target = read(&WELL).expect("it is well");
        let place = Host::default();
        let check = |target: &HostInfo, wanted: &str| {
            let checked = target.check_session(&place, "jetwatch");
            let error = checked.expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{wanted}: {error}");
        };
        check(&target, "no daemon runs there");
        target.daemons.push("jetwatch run".to_owned());
        check(&target, "did not start");
        let session = ("jetwatch".to_owned(), "Launched".to_owned());
        target.sessions.push(session);
        assert!(target.check_session(&place, "jetwatch").is_ok());
        target.sessions[0].1 = "Collection".to_owned();
        check(&target, "nsys stop --session=jetwatch");
    }
}
