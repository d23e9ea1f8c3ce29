//! The orders that make a profile: check the machine, start nsys, wait for it, bring its report back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::host_info::{HostInfo, free_mib};
use super::nsys::{Sampling, traces};
use super::remote_shell::RemoteShell;
use super::{CancelHandle, Host, ProfileError};

/// Longest run of so many frames.
const MAX_RUN_TIME: Duration = Duration::from_secs(600);

/// Longest that nsys may take to begin recording a session.
const START_TIMEOUT_S: u64 = 60;

/// Most lines of a log that an error repeats.
const MAX_LOG_LINES: usize = 40;

/// Below this, a disk counts as full when something failed: nsys takes back what it could not finish.
const DISK_FULL_MIB: u64 = 32;

/// Runs that may end by a fault of nsys itself before it is given up.
const MAX_NSYS_FAILURES: u32 = 3;

/// What the daemon is to be told at the target.
#[derive(Debug, Clone)]
pub enum ConfigSource {
    /// A file that is there.
    InPlace(PathBuf),
    /// A file of this machine, copied; its relative paths mean what lies in a folder of the target.
    Copied {
        /// The file here.
        file: PathBuf,
        /// The folder there.
        remote_dir: String,
    },
}

/// What is profiled.
#[derive(Debug, Clone)]
pub enum ProfileTarget {
    /// A daemon that is started for it.
    Run {
        /// `jetwatch` at the target.
        program: String,
        /// Its configuration.
        configuration: ConfigSource,
    },
    /// The running service, through a session of nsys.
    Service {
        /// The session's name.
        session: String,
    },
}

/// One profile.
#[derive(Debug, Clone)]
pub struct ProfileRequest {
    /// Traces; none: those that fit the target.
    pub traces: Vec<String>,
    /// Whether the CPU is sampled.
    pub sampling: Sampling,
    /// Time between the daemon's start and the record's.
    pub warmup: Duration,
    /// How long to record; none: until so many frames were.
    pub duration: Option<Duration>,
    /// How long nsys may take beyond that.
    pub export_timeout: Duration,
    /// Frames after which the daemon ends by itself.
    pub frames: Option<u64>,
    /// Batch size instead of the configuration's.
    pub batch_size: Option<u8>,
}

/// A profile that was brought back.
#[derive(Debug, Clone)]
pub struct ProfileResult {
    /// Frames through the whole chain, as the daemon counts them; none for a service.
    pub frames: Option<u64>,
    /// Exit status of the daemon where that is not 0.
    pub status: u8,
}

/// A connection to a target that has nsys.
pub struct ProfileRunner {
    shell: RemoteShell,
    place: Host,
    host_info: HostInfo,
    /// Program and configuration, once they are there.
    prepared: Option<(String, String)>,
}

impl ProfileRunner {
    /// Reaches `host` and looks what is there: its nsys is looked for as `nsys`; temporary files lie in `folder`, or where
    /// the system wants them.
    ///
    /// # Errors
    /// It cannot be reached, has no usable nsys, or no room.
    pub fn connect(
        host: &Host,
        cancel: &CancelHandle,
        folder: Option<&str>,
        nsys: &str,
    ) -> Result<Self, ProfileError> {
        let mut hand = RemoteShell::connect(host, cancel)?;
        hand.operation = "looking for nsys".to_owned();
        hand.send_command("folder", folder.unwrap_or("-"))?;
        hand.send_command("find", nsys)?;
        let answers = hand.replies()?;
        let folder = answers.iter().find(|(name, _)| name == "folder");
        let (_, folder) = folder.ok_or_else(|| hand.unexpected("no folder", "a folder"))?;
        let target = HostInfo::read(host, folder, nsys, &answers)?;
        Ok(Self {
            shell: hand,
            place: host.clone(),
            host_info: target,
            prepared: None,
        })
    }

    /// What is there.
    #[must_use]
    pub fn host_info(&self) -> &HostInfo {
        &self.host_info
    }

    /// Checks that `target` can be profiled, and copies its configuration. `note` is told what the user should know.
    ///
    /// # Errors
    /// The program or the session is missing, or the configuration cannot be read.
    pub fn prepare(
        &mut self,
        target: &ProfileTarget,
        note: &mut dyn FnMut(String),
    ) -> Result<(), ProfileError> {
        let (program, configuration) = match target {
            ProfileTarget::Service { session } => {
                return self.host_info.check_session(&self.place, session);
            }
            ProfileTarget::Run {
                program,
                configuration,
            } => (program, configuration),
        };
        self.shell.operation = "looking for jetwatch".to_owned();
        self.shell.send_command("program", program)?;
        let answers = self.shell.replies()?;
        let of = |wanted: &str| {
            let found = answers.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.trim().to_owned())
        };
        let own = concat!("jetwatch ", env!("CARGO_PKG_VERSION"));
        let version = of("version").unwrap_or_default();
        if version != own {
            note(format!(
                "{} has `{version}`, this is {own}: their options and keys may differ",
                self.place
            ));
        }
        for daemon in &self.host_info.daemons {
            note(format!(
                "a daemon runs on {} already ({}), and cameras or ports may be taken; stop it, or profile it with --attach",
                self.place,
                daemon.trim()
            ));
        }
        let path = of("program").unwrap_or_else(|| program.clone());
        let file = self.copy(configuration)?;
        self.prepared = Some((path, file));
        Ok(())
    }

    /// Brings the configuration to the target; gives its path there.
    fn copy(&mut self, configuration: &ConfigSource) -> Result<String, ProfileError> {
        let (file, beside) = match configuration {
            ConfigSource::InPlace(file) => return Ok(file.display().to_string()),
            ConfigSource::Copied {
                file,
                remote_dir: beside,
            } => (file, beside),
        };
        self.shell.operation = "copying the configuration".to_owned();
        let bytes = fs::read(file).map_err(|source| ProfileError::Configuration {
            path: file.clone(),
            source,
        })?;
        self.shell
            .send_command("config", &bytes.len().to_string())?;
        self.shell.send_bytes(&bytes)?;
        self.shell.replies()?;
        self.shell.send_command("remote-dir", beside)?;
        self.shell.replies()?;
        Ok(format!("{}/jetwatch.yaml", self.host_info.folder))
    }

    /// Makes one profile of `target`, which was prepared: the report is written to `report`, the daemon's own numbers to
    /// `stats`; an older file there is replaced. Blocks for the whole time. `note` is told when it is tried once more.
    ///
    /// # Errors
    /// Whatever can go wrong there; nothing is left running.
    pub fn profile(
        &mut self,
        target: &ProfileTarget,
        request: &ProfileRequest,
        report: &Path,
        stats: &Path,
        note: &mut dyn FnMut(String),
    ) -> Result<ProfileResult, ProfileError> {
        match target {
            ProfileTarget::Run { .. } => self.run(request, report, stats, note),
            ProfileTarget::Service { session } => self.attach(session, request, report),
        }
    }

    /// Why the CPU will not be sampled, though it was wanted.
    #[must_use]
    pub fn sampling_note(&self, request: &ProfileRequest) -> Option<String> {
        request.sampling.arguments(&self.host_info.environment).1
    }

    fn run(
        &mut self,
        request: &ProfileRequest,
        report: &Path,
        stats: &Path,
        note: &mut dyn FnMut(String),
    ) -> Result<ProfileResult, ProfileError> {
        let Some((program, configuration)) = self.prepared.clone() else {
            return Err(self
                .shell
                .unexpected("no program", "a program that was prepared"));
        };
        let folder = &self.host_info.folder;
        let mut words = vec!["profile".to_owned()];
        words.extend(traces(
            &self.host_info.help,
            &request.traces,
            self.host_info.version,
            &self.place.to_string(),
        )?);
        let (sampling, _) = request.sampling.arguments(&self.host_info.environment);
        words.extend(sampling.map(str::to_owned));
        if !request.warmup.is_zero() {
            words.push(format!("--delay={}", whole_seconds(request.warmup)));
        }
        if let Some(duration) = request.duration {
            words.push(format!("--duration={}", whole_seconds(duration)));
        }
        words.push("--kill=sigterm".to_owned());
        words.push("--force-overwrite=true".to_owned());
        words.push(format!("--output={folder}/report"));
        words.extend([program, "run".to_owned()]);
        words.push(format!("--config={configuration}"));
        words.push(format!("--stats={folder}/stats.json"));
        if let Some(frames) = request.frames {
            words.push(format!("--max-frames={frames}"));
        }
        if let Some(size) = request.batch_size {
            words.push(format!("--batch-size={size}"));
        }
        let limit =
            request.warmup + request.duration.unwrap_or(MAX_RUN_TIME) + request.export_timeout;
        let mut faults = 0;
        loop {
            let ended = self.run_nsys("record", "profiling", words.clone(), limit.as_secs())?;
            let has_stats = self.shell.fetch("stats.json", stats)?;
            if has_stats && self.shell.fetch("report.nsys-rep", report)? {
                return Ok(ProfileResult {
                    frames: frame_count(stats),
                    status: ended.status,
                });
            }
            faults += 1;
            if !ended.is_nsys_bug() || faults == MAX_NSYS_FAILURES {
                // The daemon ended well: what is missing is nsys' to explain.
                let status = if has_stats { 0 } else { ended.status };
                return Err(self.failure(Ended { status, ..ended }, "profile"));
            }
            note(format!(
                "nsys failed on {} by a fault of its own, as it may on a busy machine; once more",
                self.place
            ));
        }
    }

    fn attach(
        &mut self,
        session: &str,
        request: &ProfileRequest,
        report: &Path,
    ) -> Result<ProfileResult, ProfileError> {
        self.host_info.check_session(&self.place, session)?;
        let (sampling, _) = request.sampling.arguments(&self.host_info.environment);
        let mut words = vec!["start".to_owned(), format!("--session={session}")];
        words.extend(sampling.map(str::to_owned));
        words.push("--force-overwrite=true".to_owned());
        words.push(format!("--output={}/report", self.host_info.folder));
        // From here on the session is freed if we fall away.
        self.shell.send_command("session", session)?;
        let ended = self.run_nsys("tell", "starting the session", words, START_TIMEOUT_S)?;
        if ended.status != 0 {
            return Err(self.failure(ended, "start"));
        }
        self.shell.operation = "profiling the service".to_owned();
        let duration = request.duration.unwrap_or(MAX_RUN_TIME);
        self.shell
            .send_command("hold", &whole_seconds(duration).to_string())?;
        self.shell.replies()?;
        let words = vec!["stop".to_owned(), format!("--session={session}")];
        let ended = self.run_nsys(
            "tell",
            "stopping the session",
            words,
            request.export_timeout.as_secs(),
        )?;
        if ended.status != 0 {
            return Err(self.failure(ended, "stop"));
        }
        self.shell.send_command("session", "")?;
        if !self.shell.fetch("report.nsys-rep", report)? {
            return Err(self.failure(ended, "stop"));
        }
        Ok(ProfileResult {
            frames: None,
            status: 0,
        })
    }

    /// Cleans up at the target.
    ///
    /// # Errors
    /// The connection ended first; then it cleans up by itself.
    pub fn end(self) -> Result<(), ProfileError> {
        self.shell.end()
    }

    /// Runs nsys there with `arguments`.
    fn run_nsys(
        &mut self,
        how: &str,
        doing: &str,
        arguments: Vec<String>,
        limit_s: u64,
    ) -> Result<Ended, ProfileError> {
        self.shell.operation = doing.to_owned();
        for word in arguments {
            self.shell.send_command("argument", &word)?;
        }
        self.shell.send_command(how, &limit_s.to_string())?;
        let answers = self.shell.replies().map_err(|error| match error {
            ProfileError::Timeout { place, .. } => ProfileError::Timeout {
                place,
                seconds: limit_s,
            },
            error => error,
        })?;
        let of = |wanted: &str| {
            let found = answers.iter().rfind(|(name, _)| name == wanted);
            found.map_or("", |(_, value)| value.as_str())
        };
        let status = of("status");
        let status = status
            .parse()
            .map_err(|_| self.shell.unexpected(status, "an exit status"))?;
        Ok(Ended {
            status,
            log: log_tail(of("log")),
            free_mib: free_mib(of("free")),
        })
    }

    /// Why there is no report.
    fn failure(&self, ended: Ended, what: &'static str) -> ProfileError {
        let place = self.place.to_string();
        let Ended {
            status,
            log,
            free_mib,
        } = ended;
        if free_mib.is_some_and(|free| free < DISK_FULL_MIB)
            || log.contains("No space left on device")
        {
            return ProfileError::DiskFull {
                place,
                folder: self.host_info.folder.clone(),
                log,
            };
        }
        if status != 0 && what == "profile" {
            ProfileError::Daemon { place, status, log }
        } else {
            ProfileError::Nsys {
                place,
                what,
                status,
                log,
            }
        }
    }
}

/// How nsys ended.
#[derive(Debug)]
struct Ended {
    status: u8,
    log: String,
    free_mib: Option<u64>,
}

impl Ended {
    /// Whether nsys tells an exception of its own parts, which at times do not find each other when they start.
    fn is_nsys_bug(&self) -> bool {
        self.log.contains("QuadDCommon::") && self.log.contains("Dynamic exception type")
    }
}

/// nsys takes whole seconds in all of its versions.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The end of a log, without what nsys draws.
fn log_tail(log: &str) -> String {
    let lines = log.split(['\n', '\r']).map(str::trim_end).filter(|line| {
        !line.is_empty() && !line.starts_with("[1/") && !line.starts_with("Generat")
    });
    let lines: Vec<String> = lines.map(|line| format!("  {line}")).collect();
    lines[lines.len().saturating_sub(MAX_LOG_LINES)..].join("\n")
}

/// The frames that the daemon counted.
fn frame_count(stats: &Path) -> Option<u64> {
    let text = fs::read(stats).ok()?;
    let stats: serde_json::Value = serde_json::from_slice(&text).ok()?;
    stats["frames"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_to_seconds() {
        assert_eq!(whole_seconds(Duration::from_millis(1500)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(3)), 3);
    }

    #[test]
    fn log_tail_omits_progress_bars() {
        let log = "Generating '/var/x.qdstrm'\n[1/1] [0%  ] p2.nsys-rep\r[1/1] [100%] p2.nsys-rep\njetwatch: no\n\n";
        assert_eq!(log_tail(log), "  jetwatch: no");
    }
}
