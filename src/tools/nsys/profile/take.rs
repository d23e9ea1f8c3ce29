//! The orders that make a profile: check the machine, start nsys, wait for it, bring its report back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::hand::Hand;
use super::nsys::{Sampling, traces};
use super::target::{Target, free_mib};
use super::{Place, ProfileError, Stopper};

/// Longest run of so many frames.
const LONGEST: Duration = Duration::from_secs(600);

/// Longest that nsys may take to begin recording a session.
const START_S: u64 = 60;

/// Most lines of a log that an error repeats.
const MOST_LINES: usize = 40;

/// Below this, a disk counts as full when something failed: nsys takes back what it could not finish.
const FULL_MIB: u64 = 32;

/// Runs that may end by a fault of nsys itself before it is given up.
const MOST_FAULTS: u32 = 3;

/// What the daemon is to be told at the target.
#[derive(Debug, Clone)]
pub enum Configuration {
    /// A file that is there.
    InPlace(PathBuf),
    /// A file of this machine, copied; its relative paths mean what lies in a folder of the target.
    Copied {
        /// The file here.
        file: PathBuf,
        /// The folder there.
        beside: String,
    },
}

/// What is profiled.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A daemon that is started for it.
    Run {
        /// `jetwatch` at the target.
        program: String,
        /// Its configuration.
        configuration: Configuration,
    },
    /// The running service, through a session of nsys.
    Service {
        /// The session's name.
        session: String,
    },
}

/// One profile.
#[derive(Debug, Clone)]
pub struct Order {
    /// Traces; none: those that fit the target.
    pub traces: Vec<String>,
    /// Whether the CPU is sampled.
    pub sampling: Sampling,
    /// Time between the daemon's start and the record's.
    pub warmup: Duration,
    /// How long to record; none: until so many frames were.
    pub duration: Option<Duration>,
    /// How long nsys may take beyond that.
    pub grace: Duration,
    /// Frames after which the daemon ends by itself.
    pub frames: Option<u64>,
    /// Batch size instead of the configuration's.
    pub batch_size: Option<u8>,
}

/// A profile that was brought back.
#[derive(Debug, Clone)]
pub struct Taken {
    /// Frames through the whole chain, as the daemon counts them; none for a service.
    pub frames: Option<u64>,
    /// Exit status of the daemon where that is not 0.
    pub status: u8,
}

/// A connection to a target that has nsys.
pub struct Taker {
    hand: Hand,
    place: Place,
    target: Target,
    /// Program and configuration, once they are there.
    prepared: Option<(String, String)>,
}

impl Taker {
    /// Reaches `place` and looks what is there: its nsys is looked for as `nsys`; temporary files lie in `folder`, or where
    /// the system wants them.
    ///
    /// # Errors
    /// It cannot be reached, has no usable nsys, or no room.
    pub fn connect(
        place: &Place,
        stopper: &Stopper,
        folder: Option<&str>,
        nsys: &str,
    ) -> Result<Self, ProfileError> {
        let mut hand = Hand::reach(place, stopper)?;
        hand.doing = "looking for nsys".to_owned();
        hand.order("folder", folder.unwrap_or("-"))?;
        hand.order("find", nsys)?;
        let answers = hand.answers()?;
        let folder = answers.iter().find(|(name, _)| name == "folder");
        let (_, folder) = folder.ok_or_else(|| hand.unexpected("no folder", "a folder"))?;
        let target = Target::read(place, folder, nsys, &answers)?;
        Ok(Self {
            hand,
            place: place.clone(),
            target,
            prepared: None,
        })
    }

    /// What is there.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Checks that `subject` can be profiled, and copies its configuration. `note` is told what the user should know.
    ///
    /// # Errors
    /// The program or the session is missing, or the configuration cannot be read.
    pub fn prepare(
        &mut self,
        subject: &Subject,
        note: &mut dyn FnMut(String),
    ) -> Result<(), ProfileError> {
        let (program, configuration) = match subject {
            Subject::Service { session } => {
                return self.target.check_session(&self.place, session);
            }
            Subject::Run {
                program,
                configuration,
            } => (program, configuration),
        };
        self.hand.doing = "looking for jetwatch".to_owned();
        self.hand.order("program", program)?;
        let answers = self.hand.answers()?;
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
        for daemon in &self.target.daemons {
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
    fn copy(&mut self, configuration: &Configuration) -> Result<String, ProfileError> {
        let (file, beside) = match configuration {
            Configuration::InPlace(file) => return Ok(file.display().to_string()),
            Configuration::Copied { file, beside } => (file, beside),
        };
        self.hand.doing = "copying the configuration".to_owned();
        let bytes = fs::read(file).map_err(|source| ProfileError::Configuration {
            path: file.clone(),
            source,
        })?;
        self.hand.order("config", &bytes.len().to_string())?;
        self.hand.send(&bytes)?;
        self.hand.answers()?;
        self.hand.order("remote-dir", beside)?;
        self.hand.answers()?;
        Ok(format!("{}/jetwatch.yaml", self.target.folder))
    }

    /// Makes one profile of `subject`, which was prepared: the report is written to `report`, the daemon's own numbers to
    /// `stats`; an older file there is replaced. Blocks for the whole time. `note` is told when it is tried once more.
    ///
    /// # Errors
    /// Whatever can go wrong there; nothing is left running.
    pub fn take(
        &mut self,
        subject: &Subject,
        order: &Order,
        report: &Path,
        stats: &Path,
        note: &mut dyn FnMut(String),
    ) -> Result<Taken, ProfileError> {
        match subject {
            Subject::Run { .. } => self.run(order, report, stats, note),
            Subject::Service { session } => self.attach(session, order, report),
        }
    }

    /// Why the CPU will not be sampled, though it was wanted.
    #[must_use]
    pub fn sampling_note(&self, order: &Order) -> Option<String> {
        order.sampling.arguments(&self.target.environment).1
    }

    fn run(
        &mut self,
        order: &Order,
        report: &Path,
        stats: &Path,
        note: &mut dyn FnMut(String),
    ) -> Result<Taken, ProfileError> {
        let Some((program, configuration)) = self.prepared.clone() else {
            return Err(self
                .hand
                .unexpected("no program", "a program that was prepared"));
        };
        let folder = &self.target.folder;
        let mut words = vec!["profile".to_owned()];
        words.extend(traces(
            &self.target.help,
            &order.traces,
            self.target.version,
            &self.place.to_string(),
        )?);
        let (sampling, _) = order.sampling.arguments(&self.target.environment);
        words.extend(sampling.map(str::to_owned));
        if !order.warmup.is_zero() {
            words.push(format!("--delay={}", whole_seconds(order.warmup)));
        }
        if let Some(duration) = order.duration {
            words.push(format!("--duration={}", whole_seconds(duration)));
        }
        words.push("--kill=sigterm".to_owned());
        words.push("--force-overwrite=true".to_owned());
        words.push(format!("--output={folder}/report"));
        words.extend([program, "run".to_owned()]);
        words.push(format!("--config={configuration}"));
        words.push(format!("--stats={folder}/stats.json"));
        if let Some(frames) = order.frames {
            words.push(format!("--max-frames={frames}"));
        }
        if let Some(size) = order.batch_size {
            words.push(format!("--batch-size={size}"));
        }
        let limit = order.warmup + order.duration.unwrap_or(LONGEST) + order.grace;
        let mut faults = 0;
        loop {
            let ended = self.call("record", "profiling", words.clone(), limit.as_secs())?;
            let has_stats = self.hand.fetch("stats.json", stats)?;
            if has_stats && self.hand.fetch("report.nsys-rep", report)? {
                return Ok(Taken {
                    frames: frames_of(stats),
                    status: ended.status,
                });
            }
            faults += 1;
            if !ended.is_fault_of_nsys() || faults == MOST_FAULTS {
                // The daemon ended well: what is missing is nsys' to explain.
                let status = if has_stats { 0 } else { ended.status };
                return Err(self.judge(Ended { status, ..ended }, "profile"));
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
        order: &Order,
        report: &Path,
    ) -> Result<Taken, ProfileError> {
        self.target.check_session(&self.place, session)?;
        let (sampling, _) = order.sampling.arguments(&self.target.environment);
        let mut words = vec!["start".to_owned(), format!("--session={session}")];
        words.extend(sampling.map(str::to_owned));
        words.push("--force-overwrite=true".to_owned());
        words.push(format!("--output={}/report", self.target.folder));
        // From here on the session is freed if we fall away.
        self.hand.order("session", session)?;
        let ended = self.call("tell", "starting the session", words, START_S)?;
        if ended.status != 0 {
            return Err(self.judge(ended, "start"));
        }
        self.hand.doing = "profiling the service".to_owned();
        let duration = order.duration.unwrap_or(LONGEST);
        self.hand
            .order("hold", &whole_seconds(duration).to_string())?;
        self.hand.answers()?;
        let words = vec!["stop".to_owned(), format!("--session={session}")];
        let ended = self.call("tell", "stopping the session", words, order.grace.as_secs())?;
        if ended.status != 0 {
            return Err(self.judge(ended, "stop"));
        }
        self.hand.order("session", "")?;
        if !self.hand.fetch("report.nsys-rep", report)? {
            return Err(self.judge(ended, "stop"));
        }
        Ok(Taken {
            frames: None,
            status: 0,
        })
    }

    /// Cleans up at the target.
    ///
    /// # Errors
    /// The connection ended first; then it cleans up by itself.
    pub fn end(self) -> Result<(), ProfileError> {
        self.hand.end()
    }

    /// Runs nsys there with `words`.
    fn call(
        &mut self,
        how: &str,
        doing: &str,
        words: Vec<String>,
        limit_s: u64,
    ) -> Result<Ended, ProfileError> {
        self.hand.doing = doing.to_owned();
        for word in words {
            self.hand.order("argument", &word)?;
        }
        self.hand.order(how, &limit_s.to_string())?;
        let answers = self.hand.answers().map_err(|error| match error {
            ProfileError::Late { place, .. } => ProfileError::Late {
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
            .map_err(|_| self.hand.unexpected(status, "an exit status"))?;
        Ok(Ended {
            status,
            log: spoken(of("log")),
            free_mib: free_mib(of("free")),
        })
    }

    /// Why there is no report.
    fn judge(&self, ended: Ended, what: &'static str) -> ProfileError {
        let place = self.place.to_string();
        let Ended {
            status,
            log,
            free_mib,
        } = ended;
        if free_mib.is_some_and(|free| free < FULL_MIB) || log.contains("No space left on device") {
            return ProfileError::DiskFull {
                place,
                folder: self.target.folder.clone(),
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
    fn is_fault_of_nsys(&self) -> bool {
        self.log.contains("QuadDCommon::") && self.log.contains("Dynamic exception type")
    }
}

/// nsys takes whole seconds in all of its versions.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The end of a log, without what nsys draws.
fn spoken(log: &str) -> String {
    let lines = log.split(['\n', '\r']).map(str::trim_end).filter(|line| {
        !line.is_empty() && !line.starts_with("[1/") && !line.starts_with("Generat")
    });
    let lines: Vec<String> = lines.map(|line| format!("  {line}")).collect();
    lines[lines.len().saturating_sub(MOST_LINES)..].join("\n")
}

/// The frames that the daemon counted.
fn frames_of(stats: &Path) -> Option<u64> {
    let text = fs::read(stats).ok()?;
    let stats: serde_json::Value = serde_json::from_slice(&text).ok()?;
    stats["frames"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_that_are_long_enough() {
        assert_eq!(whole_seconds(Duration::from_millis(1500)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(3)), 3);
    }

    #[test]
    fn a_log_is_told_without_bars() {
        let log = "Generating '/var/x.qdstrm'\n[1/1] [0%  ] p2.nsys-rep\r[1/1] [100%] p2.nsys-rep\njetwatch: no\n\n";
        assert_eq!(spoken(log), "  jetwatch: no");
    }
}
