// SPDX-License-Identifier: Apache-2.0
//! The steps of a profile: check the machine, start nsys, wait for it, fetch its report.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::host_info::{HostInfo, free_mib};
use super::nsys::{Sampling, traces};
use super::remote_shell::RemoteShell;
use super::{CancelHandle, Host, ProfileError, Result};

/// Maximum time of a run with a number of frames.
const MAX_RUN_TIME: Duration = Duration::from_secs(600);

/// Timeout of the start of a session's recording.
const START_TIMEOUT_S: u64 = 60;

/// Maximum number of log lines in an error.
const MAX_LOG_LINES: usize = 40;

/// Free space below which a failure counts as a full disk: nsys removes incomplete files.
const DISK_FULL_MIB: u64 = 32;

/// Exit status of a daemon that refuses its configuration, as in sysexits.h.
const CONFIG_ERROR: u8 = 78;

/// Maximum number of runs that fail by a bug of nsys.
const MAX_NSYS_FAILURES: u32 = 3;

/// Configuration of the daemon on the target.
#[derive(Debug, Clone)]
pub enum ConfigSource {
    /// An existing file on the target.
    InPlace(PathBuf),
    /// A local file, copied; its relative paths refer to a folder of the target.
    Copied {
        /// The local file.
        file: PathBuf,
        /// The folder on the target.
        remote_dir: String,
    },
}

/// What is profiled.
#[derive(Debug, Clone)]
pub enum ProfileTarget {
    /// A daemon that is started for the profile: the path of `jetwatch` on the target, and its configuration.
    Run(String, ConfigSource),
    /// The running service, through a session of nsys.
    Service {
        /// Name of the session.
        session: String,
    },
}

/// Settings of one profile.
#[derive(Debug, Clone)]
pub struct ProfileRequest {
    /// Traces; empty: the default ones that the target supports.
    pub traces: Vec<String>,
    /// Whether the CPU is sampled.
    pub sampling: Sampling,
    /// Time between the start of the daemon and the start of the recording.
    pub warmup: Duration,
    /// Recording time; `None`: until the number of frames.
    pub duration: Option<Duration>,
    /// Additional time for nsys.
    pub export_timeout: Duration,
    /// Frames after which the daemon ends by itself.
    pub frames: Option<u64>,
    /// Batch size instead of the configuration's.
    pub batch_size: Option<u8>,
}

/// A fetched profile.
#[derive(Debug, Clone)]
pub struct ProfileResult {
    /// Frames through the whole pipeline, counted by the daemon; `None` for a service, and where it wrote no statistics.
    pub frames: Option<u64>,
    /// Exit status of the daemon.
    pub status: u8,
}

/// A connection to a target that has nsys.
pub struct ProfileRunner {
    shell: RemoteShell,
    place: Host,
    host_info: HostInfo,
    /// Paths of program and configuration on the target, after [`prepare`](ProfileRunner::prepare).
    prepared: Option<(String, String)>,
}

impl ProfileRunner {
    /// Connects to `host` and inspects it: `nsys` is the name or path of its nsys; temporary files are in `folder`, or in the
    /// system's default folder.
    ///
    /// # Errors
    /// The connection fails, or the host has no usable nsys or too little disk space.
    pub fn connect(
        host: &Host,
        cancel: &CancelHandle,
        folder: Option<&str>,
        nsys: &str,
    ) -> Result<Self> {
        let mut shell = RemoteShell::connect(host, cancel)?;
        shell.operation = "searching nsys".to_owned();
        shell.send_command("folder", folder.unwrap_or("-"))?;
        let replies = shell.run("find", nsys)?;
        let folder = replies.get("folder");
        let folder = folder.ok_or_else(|| shell.unexpected("no folder", "a folder"))?;
        let host_info = HostInfo::read(host, folder, nsys, &replies)?;
        Ok(Self {
            shell,
            place: host.clone(),
            host_info,
            prepared: None,
        })
    }

    /// Properties of the target.
    #[must_use]
    pub fn host_info(&self) -> &HostInfo {
        &self.host_info
    }

    /// Checks that `target` can be profiled, and copies its configuration. `note` receives warnings for the user.
    ///
    /// # Errors
    /// The program or the session is missing, or the configuration cannot be read.
    pub fn prepare(&mut self, target: &ProfileTarget, note: &mut dyn FnMut(String)) -> Result<()> {
        let (program, configuration) = match target {
            ProfileTarget::Service { session } => {
                return self.host_info.check_session(&self.place, session);
            }
            ProfileTarget::Run(program, configuration) => (program, configuration),
        };
        self.shell.operation = "searching jetwatch".to_owned();
        let replies = self.shell.run("program", program)?;
        let own = concat!("jetwatch ", env!("CARGO_PKG_VERSION"));
        let version = replies.get("version").unwrap_or_default().trim();
        if version != own {
            note(format!(
                "{} has `{version}`, this is {own}: their options and keys may differ",
                self.place
            ));
        }
        for daemon in &self.host_info.daemons {
            note(format!(
                "a daemon runs on {} already ({}), cameras or ports may be in use; stop it, or profile it with --attach",
                self.place,
                daemon.trim()
            ));
        }
        let path = replies.get("program").unwrap_or(program).trim();
        let file = self.copy(configuration)?;
        self.prepared = Some((path.to_owned(), file));
        Ok(())
    }

    /// Copies the configuration to the target and returns its path there.
    fn copy(&mut self, configuration: &ConfigSource) -> Result<String> {
        let (file, remote_dir) = match configuration {
            ConfigSource::InPlace(file) => return Ok(file.display().to_string()),
            ConfigSource::Copied { file, remote_dir } => (file, remote_dir),
        };
        self.shell.operation = "copying the configuration".to_owned();
        let missing = |source| ProfileError::Configuration(file.clone(), source);
        let bytes = fs::read(file).map_err(missing)?;
        self.shell
            .send_command("config", &bytes.len().to_string())?;
        self.shell.send_bytes(&bytes)?;
        self.shell.replies()?;
        self.shell.run("remote-dir", remote_dir)?;
        Ok(format!("{}/jetwatch.yaml", self.host_info.folder))
    }

    /// Makes one profile of `target`, which was prepared: the report is written to `report`, the daemon's own numbers to
    /// `stats`; existing files are replaced. Blocks for the whole time. `note` is called before a retry.
    ///
    /// # Errors
    /// Any failure on the target; all started processes are ended.
    pub fn profile(
        &mut self,
        target: &ProfileTarget,
        request: &ProfileRequest,
        report: &Path,
        stats: &Path,
        note: &mut dyn FnMut(String),
    ) -> Result<ProfileResult> {
        if let ProfileTarget::Service { session } = target {
            return self.attach(session, request, report);
        }
        let Some((program, configuration)) = self.prepared.clone() else {
            return Err(self.shell.unexpected("no program", "a prepared program"));
        };
        let folder = &self.host_info.folder;
        let mut arguments = vec!["profile".to_owned()];
        let (info, place) = (&self.host_info, self.place.to_string());
        arguments.extend(traces(&info.help, &request.traces, info.version, &place)?);
        let delay = Some(request.warmup).filter(|warmup| !warmup.is_zero());
        let delay = delay.map(|warmup| format!("--delay={}", whole_seconds(warmup)));
        arguments.extend(self.recording_arguments(request, delay));
        arguments.extend([program, "run".to_owned()]);
        arguments.push(format!("--config={configuration}"));
        arguments.push(format!("--stats={folder}/stats.json"));
        // The daemon ends by itself, in its own time: nsys kills what does not end within seconds.
        let duration = request.duration.map(|duration| {
            let whole = request.warmup + duration;
            format!("--duration={}ms", whole.as_millis().max(1))
        });
        let frames = request.frames.map(|count| format!("--max-frames={count}"));
        let size = request.batch_size.map(|it| format!("--batch-size={it}"));
        arguments.extend([duration, frames, size].into_iter().flatten());
        let limit =
            request.warmup + request.duration.unwrap_or(MAX_RUN_TIME) + request.export_timeout;
        let mut failures = 0;
        loop {
            let ended = self.run_nsys("record", "profiling", arguments.clone(), limit.as_secs())?;
            let has_stats = self.shell.fetch("stats.json", stats)?;
            // A daemon that refused its configuration did nothing that could be recorded.
            let has_run = has_stats || ended.status != CONFIG_ERROR;
            if has_run && self.shell.fetch("report.nsys-rep", report)? {
                if !has_stats {
                    note(format!(
                        "the daemon on {} ended with exit status {} and wrote no statistics; the recording is kept; output:\n{}",
                        self.place, ended.status, ended.log
                    ));
                }
                return Ok(ProfileResult {
                    frames: frame_count(stats).filter(|_| has_stats),
                    status: ended.status,
                });
            }
            // The daemon wrote its numbers at its end, and nsys recorded nothing.
            let is_nsys_bug = ended.is_nsys_bug();
            let has_worked =
                has_stats && ended.status == 0 && !ended.is_disk_full() && !is_nsys_bug;
            if let Some(frames) = request
                .frames
                .filter(|_| has_worked && !request.warmup.is_zero())
            {
                return Err(ProfileError::EndedBeforeRecording {
                    place: self.place.to_string(),
                    frames,
                    warmup_s: whole_seconds(request.warmup),
                });
            }
            failures += 1;
            if !is_nsys_bug || failures == MAX_NSYS_FAILURES {
                // The daemon succeeded, so nsys caused the failure.
                let status = if has_stats { 0 } else { ended.status };
                return Err(self.failure(Ended { status, ..ended }, "profile"));
            }
            note(format!(
                "nsys failed on {} with an internal error, which can happen on a busy machine; trying again",
                self.place
            ));
        }
    }

    /// The reason if the CPU is not sampled although it was requested.
    #[must_use]
    pub fn sampling_note(&self, request: &ProfileRequest) -> Option<String> {
        request.sampling.arguments(&self.host_info.environment).1
    }

    fn attach(
        &mut self,
        session: &str,
        request: &ProfileRequest,
        report: &Path,
    ) -> Result<ProfileResult> {
        self.host_info.check_session(&self.place, session)?;
        let mut arguments = vec!["start".to_owned(), format!("--session={session}")];
        arguments.extend(self.recording_arguments(request, None));
        // From here on the script releases the session if the connection ends.
        self.shell.send_command("session", session)?;
        let doing = "starting the session";
        let ended = self.run_nsys("control", doing, arguments, START_TIMEOUT_S)?;
        if ended.status != 0 {
            return Err(self.failure(ended, "start"));
        }
        self.shell.operation = "profiling the service".to_owned();
        let duration = request.duration.unwrap_or(MAX_RUN_TIME);
        let duration_s = whole_seconds(duration).to_string();
        self.shell.run("hold", &duration_s)?;
        let arguments = vec!["stop".to_owned(), format!("--session={session}")];
        let limit_s = request.export_timeout.as_secs();
        let ended = self.run_nsys("control", "stopping the session", arguments, limit_s)?;
        let has_stopped = ended.status == 0;
        if has_stopped {
            self.shell.send_command("session", "")?;
        }
        if !has_stopped || !self.shell.fetch("report.nsys-rep", report)? {
            return Err(self.failure(ended, "stop"));
        }
        Ok(ProfileResult {
            frames: None,
            status: 0,
        })
    }

    /// What is sampled, `delay`, and where nsys writes the report.
    fn recording_arguments(&self, request: &ProfileRequest, delay: Option<String>) -> Vec<String> {
        let (sampling, _) = request.sampling.arguments(&self.host_info.environment);
        let mut arguments = sampling.map(str::to_owned).to_vec();
        arguments.extend(delay);
        arguments.push("--force-overwrite=true".to_owned());
        arguments.push(format!("--output={}/report", self.host_info.folder));
        arguments
    }

    /// Cleans up at the target.
    ///
    /// # Errors
    /// The connection was lost before; the script then cleans up by itself.
    pub fn end(self) -> Result<()> {
        self.shell.end()
    }

    /// Runs nsys on the target with `arguments`.
    fn run_nsys(
        &mut self,
        how: &str,
        doing: &str,
        arguments: Vec<String>,
        limit_s: u64,
    ) -> Result<Ended> {
        self.shell.operation = doing.to_owned();
        for argument in arguments {
            self.shell.send_command("argument", &argument)?;
        }
        let replies = self.shell.run(how, &limit_s.to_string());
        let replies = replies.map_err(|error| match error {
            ProfileError::Timeout(place, _) => ProfileError::Timeout(place, limit_s),
            error => error,
        })?;
        let value_of = |name| replies.get(name).unwrap_or_default();
        let status = value_of("status");
        let status = status
            .parse()
            .map_err(|_| self.shell.unexpected(status, "an exit status"))?;
        Ok(Ended {
            status,
            log: log_tail(value_of("log")),
            free_mib: free_mib(value_of("free")),
        })
    }

    /// The error for a missing report.
    fn failure(&self, ended: Ended, what: &'static str) -> ProfileError {
        let (place, folder) = (self.place.to_string(), self.host_info.folder.clone());
        let is_disk_full = ended.is_disk_full();
        let Ended { status, log, .. } = ended;
        if is_disk_full {
            ProfileError::DiskFull { place, folder, log }
        } else if status != 0 && what == "profile" {
            ProfileError::Daemon { place, status, log }
        } else {
            ProfileError::Nsys(what, place, status, log)
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
    /// Whether a full disk is why it failed.
    fn is_disk_full(&self) -> bool {
        self.free_mib.is_some_and(|free| free < DISK_FULL_MIB)
            || self.log.contains("No space left on device")
    }

    /// Whether nsys reports an internal exception: sometimes its own processes cannot connect to each other at the start.
    fn is_nsys_bug(&self) -> bool {
        self.log.contains("QuadDCommon::") && self.log.contains("Dynamic exception type")
    }
}

/// All versions of nsys accept whole seconds.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The end of a log, without progress bars of nsys.
fn log_tail(log: &str) -> String {
    let is_progress = |line: &str| line.starts_with("[1/") || line.starts_with("Generat");
    let lines = log.split(['\n', '\r']).map(str::trim_end);
    let lines = lines.filter(|line| !line.is_empty() && !is_progress(line));
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
