//! The health gate: whether the daemons that worked before an update work after it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use jetwatch_telemetry::health_report::{Expectation, RequiredSources};

use super::{DaemonState, System, UpdateError};

/// Interval at which the daemons are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A source whose last frame is older has not been online before, and is not healthy after.
const MAX_FRAME_AGE_MS: u64 = 10_000;

/// A daemon that the service manager restarts this often has failed.
const MAX_RESTARTS: u32 = 2;

/// What worked of one daemon before the update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitBaseline {
    /// Its unit, which was active.
    pub unit: String,
    /// It wrote its health; versions before that feature do not.
    pub wrote_health: bool,
    /// Sources that brought frames.
    pub sources: Vec<String>,
    /// The broker was connected.
    pub connected: bool,
}

/// What is required, and for how long that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Time until all is healthy, without builds of engines.
    pub timeout: Duration,
    /// Longest time for builds of engines.
    pub build_timeout: Duration,
    /// For how long it has to stay healthy.
    pub settle: Duration,
    /// Frames of each source since the start of the daemon.
    pub min_frames: u64,
    /// A daemon that does not end when it is restarted is killed after this time; `None`: systemd decides.
    pub kill_after: Option<Duration>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            // With the installation and the way back, less than a minute is left without the earlier version.
            timeout: Duration::from_secs(30),
            build_timeout: Duration::from_secs(3600),
            settle: Duration::from_secs(3),
            min_frames: 10,
            kill_after: None,
        }
    }
}

/// What works now, of all units that are active.
pub(crate) fn baseline(daemons: &[DaemonState]) -> Vec<UnitBaseline> {
    let active = daemons.iter().filter(|daemon| daemon.is_active);
    active.map(of_daemon).collect()
}

fn of_daemon(daemon: &DaemonState) -> UnitBaseline {
    let health = daemon.health.as_ref();
    let sources = health.map(|health| health.sources.as_slice());
    let brings_frames = |age_ms: Option<u64>| age_ms.is_some_and(|age| age <= MAX_FRAME_AGE_MS);
    UnitBaseline {
        unit: daemon.unit.clone(),
        wrote_health: health.is_some(),
        sources: sources
            .unwrap_or_default()
            .iter()
            .filter(|source| source.state == "online" && brings_frames(source.last_frame_age_ms))
            .map(|source| source.name.clone())
            .collect(),
        connected: health
            .and_then(|health| health.mqtt.as_ref())
            .is_some_and(|mqtt| mqtt.connected),
    }
}

/// What a look at the daemons gives.
#[derive(Debug, Default)]
struct Look {
    problems: Vec<String>,
    /// Waiting does not help.
    is_final: bool,
    builds_engine: bool,
}

impl Gate {
    /// Restarts the units that do not run the installed program, and waits until what `baseline` names works; else the reason.
    /// `alive` is called at each look, about twice a second.
    ///
    /// # Errors
    /// The service manager does not answer.
    pub fn wait(
        &self,
        system: &mut impl System,
        baseline: &[UnitBaseline],
        mut alive: impl FnMut(&str),
    ) -> Result<Result<(), String>, UpdateError> {
        restart_old_programs(system, baseline)?;
        let mut kill_at = self.kill_after.map(|time| system.now() + time);
        let mut first_restarts = BTreeMap::new();
        let mut healthy_since = None;
        let mut last = system.now();
        let (mut waited, mut built) = (Duration::ZERO, Duration::ZERO);
        loop {
            let daemons = system.daemons()?;
            let look = self.look(&daemons, baseline, &mut first_restarts);
            let now = system.now();
            if kill_at.is_some_and(|at| now >= at) {
                kill_at = None;
                for daemon in daemons.iter().filter(|daemon| hangs(daemon, baseline)) {
                    log::warn!("{} does not end, and is killed", daemon.unit);
                    system.kill(&daemon.unit)?;
                }
            }
            let passed = now.saturating_sub(last);
            last = now;
            match look.builds_engine {
                true => built += passed,
                false => waited += passed,
            }
            if look.problems.is_empty() {
                let since = *healthy_since.get_or_insert(now);
                if now - since >= self.settle {
                    return Ok(Ok(()));
                }
            } else {
                healthy_since = None;
            }
            let text = look.problems.join("; ");
            if look.is_final {
                return Ok(Err(text));
            }
            if waited > self.timeout + self.settle || built > self.build_timeout {
                let seconds = (waited + built).as_secs();
                return Ok(Err(format!("not healthy within {seconds} s: {text}")));
            }
            alive(&text);
            system.sleep(POLL_INTERVAL);
        }
    }

    fn look(
        &self,
        daemons: &[DaemonState],
        baseline: &[UnitBaseline],
        first_restarts: &mut BTreeMap<String, u32>,
    ) -> Look {
        let mut look = Look::default();
        for wanted in baseline {
            let unit = &wanted.unit;
            let Some(daemon) = daemons.iter().find(|daemon| daemon.unit == *unit) else {
                look.problems.push(format!("{unit} is not active"));
                continue;
            };
            let first = *first_restarts
                .entry(unit.clone())
                .or_insert(daemon.restarts);
            if daemon.is_failed {
                look.problems
                    .push(format!("{unit} has failed; see journalctl -u {unit}"));
                look.is_final = true;
            } else if daemon.restarts >= first + MAX_RESTARTS {
                let times = daemon.restarts - first;
                look.problems.push(format!(
                    "{unit} ended {times} times by itself; see journalctl -u {unit}"
                ));
                look.is_final = true;
            } else if !daemon.is_active || !daemon.runs_installed_program {
                look.problems.push(format!("{unit} has not started"));
            } else {
                self.look_at_health(daemon, wanted, &mut look);
            }
        }
        look
    }

    fn look_at_health(&self, daemon: &DaemonState, wanted: &UnitBaseline, look: &mut Look) {
        let unit = &daemon.unit;
        let Some(health) = &daemon.health else {
            if wanted.wrote_health {
                look.problems.push(format!("{unit} writes no health"));
            }
            return;
        };
        look.builds_engine |= health.builds_engine;
        let expected = Expectation {
            sources: RequiredSources::Named(wanted.sources.clone()),
            min_frames: self.min_frames,
            max_frame_age_ms: MAX_FRAME_AGE_MS,
            acknowledged: wanted.connected,
        };
        let problems = health.problems(&expected).into_iter();
        look.problems
            .extend(problems.map(|problem| format!("{unit}: {problem}")));
    }
}

/// Whether a daemon of `baseline` still runs the program that was replaced.
fn hangs(daemon: &DaemonState, baseline: &[UnitBaseline]) -> bool {
    let is_wanted = baseline.iter().any(|wanted| wanted.unit == daemon.unit);
    is_wanted && daemon.has_process && !daemon.runs_installed_program
}

fn restart_old_programs(
    system: &mut impl System,
    baseline: &[UnitBaseline],
) -> Result<(), UpdateError> {
    let daemons = system.daemons()?;
    for wanted in baseline {
        let daemon = daemons.iter().find(|daemon| daemon.unit == wanted.unit);
        let runs = |daemon: &DaemonState| daemon.is_active && daemon.runs_installed_program;
        if !daemon.is_some_and(runs) {
            system.restart(&wanted.unit)?;
        }
    }
    Ok(())
}
