//! What the target's side tells of its machine before anything is started.

use super::nsys::{Environment, OLDEST, Version, sessions};
use super::{Place, ProfileError};

/// Least free space for a profile: a few minutes of calls and ranges.
const LEAST_MIB: u64 = 128;

/// A machine where the daemon can be profiled.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its temporary folder, which goes away at the end.
    pub folder: String,
    /// Where its nsys is.
    pub nsys: String,
    /// The version of that.
    pub version: Version,
    /// The words of `nsys profile --help`.
    pub help: String,
    /// What it says about sampling.
    pub environment: Environment,
    /// Sessions of nsys: name and state.
    pub sessions: Vec<(String, String)>,
    /// Command lines of daemons that run there already.
    pub daemons: Vec<String>,
}

impl Target {
    /// Reads the answers to `find`.
    ///
    /// # Errors
    /// There is no nsys, it is too old, or there is no room.
    pub(super) fn read(
        place: &Place,
        folder: &str,
        program: &str,
        answers: &[(String, String)],
    ) -> Result<Self, ProfileError> {
        let all = |name: &'static str| {
            let named = answers.iter().filter(move |(key, _)| key == name);
            named.map(|(_, value)| value.clone())
        };
        let one = |name| all(name).next().unwrap_or_default();
        let place = place.to_string();
        let nsys = one("nsys");
        if nsys.is_empty() {
            return Err(ProfileError::NoNsys {
                place,
                program: program.to_owned(),
            });
        }
        let said = one("version");
        let Some(version) = Version::parse(&said) else {
            return Err(ProfileError::NoVersion {
                place,
                program: nsys,
                said: said.trim().to_owned(),
            });
        };
        if version < OLDEST {
            return Err(ProfileError::TooOld { place, version });
        }
        // What df does not tell cannot be judged.
        if let Some(free_mib) = free_mib(&one("free")).filter(|free| *free < LEAST_MIB) {
            return Err(ProfileError::NoRoom {
                place,
                folder: folder.to_owned(),
                free_mib,
                wanted_mib: LEAST_MIB,
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
                has_counters: all("counters").next().is_some(),
            },
            sessions: sessions(&one("sessions")),
            daemons: all("daemon").collect(),
        })
    }

    /// Checks that the service can be recorded through the session `name`.
    ///
    /// # Errors
    /// There is no such session, or it records already.
    pub(super) fn check_session(&self, place: &Place, name: &str) -> Result<(), ProfileError> {
        let not = |why: String| {
            Err(ProfileError::NotAttachable {
                place: place.to_string(),
                why,
            })
        };
        let found = self.sessions.iter().find(|(session, _)| session == name);
        match found {
            Some((_, state)) if state.contains("Collection") => not(format!(
                "its session `{name}` records already ({state}); wait for its end, or end it with `nsys stop --session={name}`"
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

/// KiB as df tells them, in MiB.
pub(super) fn free_mib(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().map(|kib| kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answers: &[(&str, &str)]) -> Result<Target, String> {
        let answers: Vec<_> = answers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Target::read(&Place::default(), "/var/x", "nsys", &answers)
            .map_err(|error| error.to_string())
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
    fn a_machine_is_read() {
        let target = read(&WELL).expect("it is well");
        assert_eq!(target.version, Version(2022, 4, 2));
        assert_eq!(target.environment.paranoid, Some(4));
        assert!(!target.environment.has_counters && target.daemons.is_empty());
    }

    #[test]
    fn what_is_missing_is_told() {
        let error = read(&WELL[..1]).expect_err("no nsys");
        assert!(
            error.starts_with("there is no nsys on this machine"),
            "{error}"
        );
        let mut answers = WELL;
        answers[0].1 = "2048";
        let error = read(&answers).expect_err("no room");
        assert!(
            error.contains("/var/x on this machine has 2 MiB free"),
            "{error}"
        );
        answers[0].1 = "";
        answers[2].1 = "NVIDIA Nsight Systems version 2020.5.3.17";
        let error = read(&answers).expect_err("too old");
        assert!(
            error.contains("2020.5.3") && error.contains("2021.4.0"),
            "{error}"
        );
        answers[2].1 = "Segmentation fault";
        assert!(
            read(&answers)
                .expect_err("no version")
                .contains("Segmentation fault")
        );
    }

    #[test]
    fn a_session_is_needed_and_must_be_free() {
        let mut target = read(&WELL).expect("it is well");
        let place = Place::default();
        let check = |target: &Target| {
            target
                .check_session(&place, "jetwatch")
                .map_err(|error| error.to_string())
        };
        assert!(
            check(&target)
                .expect_err("none")
                .contains("no daemon runs there")
        );
        target.daemons.push("jetwatch run".to_owned());
        assert!(check(&target).expect_err("none").contains("did not start"));
        target
            .sessions
            .push(("jetwatch".to_owned(), "Launched".to_owned()));
        assert_eq!(check(&target), Ok(()));
        target.sessions[0].1 = "Collection".to_owned();
        assert!(
            check(&target)
                .expect_err("busy")
                .contains("nsys stop --session=jetwatch")
        );
    }
}
