// SPDX-License-Identifier: Apache-2.0
//! The health gate: whether the daemons that worked before an update work after it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use jetwatch_telemetry::health_report::{Expectation, HealthReport, RequiredSources};

use super::{DaemonState, System, UpdateError};

/// Interval at which the daemons are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A source whose last frame is older has not been online before, and is not healthy after.
const MAX_FRAME_AGE_MS: u64 = 10_000;

/// Least share of the frames per second through the network before a change of models.
const MIN_RATE: f64 = 0.8;

/// Most errors in the log, as a multiple of those before.
const MAX_ERRORS: f64 = 2.0;

/// A daemon that the service manager restarts this often has failed.
const MAX_RESTARTS: u32 = 2;

/// What a daemon does in a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Frames through the network; those that skip it do not count.
    pub detected: f64,
    /// Errors in the log.
    pub errors: f64,
}

/// What worked of one daemon before the update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnitBaseline {
    /// Its unit, which was active.
    pub unit: String,
    /// It wrote its health; versions before that feature do not.
    pub wrote_health: bool,
    /// Sources that brought frames.
    pub sources: Vec<String>,
    /// The broker was connected.
    pub connected: bool,
    /// What it did, where a model changes.
    pub rates: Option<Rates>,
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

/// The same with the rates of the next `time`.
///
/// # Errors
/// The service manager does not answer.
pub(crate) fn measured_baseline(
    system: &mut impl System,
    time: Duration,
) -> Result<Vec<UnitBaseline>, UpdateError> {
    let before = system.daemons()?;
    system.sleep(time);
    let after = system.daemons()?;
    let mut baseline = baseline(&after);
    for unit in &mut baseline {
        unit.rates = rates(&before, &after, &unit.unit).map(|(rates, _)| rates);
    }
    Ok(baseline)
}

/// What the daemon `unit` did between two looks, and the seconds between them; `None`: it did not run all the time.
fn rates(before: &[DaemonState], after: &[DaemonState], unit: &str) -> Option<(Rates, f64)> {
    let health = |daemons: &[DaemonState]| {
        let daemon = daemons.iter().find(|daemon| daemon.unit == unit)?;
        daemon.health.clone()
    };
    let (first, last) = (health(before)?, health(after)?);
    let ms = last.written_boot_ms.saturating_sub(first.written_boot_ms);
    if first.pid != last.pid || ms == 0 {
        return None;
    }
    let seconds = ms as f64 / 1e3;
    let detected = |health: &HealthReport| -> u64 {
        health.sources.iter().map(|source| source.detected).sum()
    };
    let per_second = |first: u64, last: u64| last.saturating_sub(first) as f64 / seconds;
    let rates = Rates {
        detected: per_second(detected(&first), detected(&last)),
        errors: per_second(first.errors, last.errors),
    };
    Some((rates, seconds))
}

/// Whether each daemon has written its health again, `time` after `first`: one that hangs leaves a good one behind.
fn wrote_again(first: &[DaemonState], now: &[DaemonState], time: Duration) -> bool {
    let written = |daemon: &DaemonState| Some(daemon.health.as_ref()?.written_boot_ms);
    now.iter().all(|daemon| {
        let before = first.iter().find(|first| first.unit == daemon.unit);
        let before = before.and_then(written);
        let pause = before.zip(written(daemon));
        pause.is_none_or(|(before, now)| u128::from(now.saturating_sub(before)) >= time.as_millis())
    })
}

/// What the daemons do worse than before the change, between two looks. One frame more or less is chance, and one error.
fn slowed(baseline: &[UnitBaseline], before: &[DaemonState], after: &[DaemonState]) -> Vec<String> {
    let mut problems = Vec::new();
    for wanted in baseline {
        let unit = &wanted.unit;
        let (Some(was), Some((is, seconds))) = (wanted.rates, rates(before, after, unit)) else {
            continue;
        };
        let chance = 1.0 / seconds;
        if is.detected + chance < MIN_RATE * was.detected {
            problems.push(format!(
                "{unit}: {:.1} frames/s through the network, {:.1} before",
                is.detected, was.detected
            ));
        }
        if is.errors > MAX_ERRORS * was.errors + chance {
            problems.push(format!(
                "{unit}: {:.1} errors/s in the log, {:.1} before",
                is.errors, was.errors
            ));
        }
    }
    problems
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
        rates: None,
    }
}

/// The processes that have to be replaced: those of a program that is not installed any more, and, where a model changes, all that run.
struct Outdated {
    /// By unit, the start that is outdated.
    runs: BTreeMap<String, String>,
}

impl Outdated {
    fn contains(&self, daemon: &DaemonState) -> bool {
        !daemon.runs_installed_program || self.runs.get(&daemon.unit) == Some(&daemon.run)
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
    /// Restarts the units that do not run the installed program, or all of them where `is_model_changed`, and waits until what `baseline`
    /// names works; else the reason. `alive` is called at each look, about twice a second.
    ///
    /// # Errors
    /// The service manager does not answer.
    pub fn wait(
        &self,
        system: &mut impl System,
        baseline: &[UnitBaseline],
        is_model_changed: bool,
        mut alive: impl FnMut(&str),
    ) -> Result<Result<(), String>, UpdateError> {
        let outdated = restart_outdated(system, baseline, is_model_changed)?;
        let mut kill_at = self.kill_after.map(|time| system.now() + time);
        let mut first_restarts = BTreeMap::new();
        let mut healthy_since: Option<(Duration, Vec<DaemonState>)> = None;
        let (mut last, mut last_problems) = (system.now(), String::new());
        let (mut waited, mut built) = (Duration::ZERO, Duration::ZERO);
        loop {
            let daemons = system.daemons()?;
            let mut look = self.look(&daemons, baseline, &outdated, &mut first_restarts);
            let now = system.now();
            if kill_at.is_some_and(|at| now >= at) {
                kill_at = None;
                let is_wanted = |daemon: &&DaemonState| {
                    baseline.iter().any(|wanted| wanted.unit == daemon.unit)
                };
                let hangs = |daemon: &&DaemonState| daemon.has_process && outdated.contains(daemon);
                for daemon in daemons.iter().filter(is_wanted).filter(hangs) {
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
                let (since, first) = healthy_since.get_or_insert_with(|| (now, daemons.clone()));
                if now - *since >= self.settle && wrote_again(first, &daemons, self.settle) {
                    look.problems = slowed(baseline, first, &daemons);
                    if look.problems.is_empty() {
                        return Ok(Ok(()));
                    }
                    healthy_since = None;
                }
            } else {
                healthy_since = None;
            }
            if !look.problems.is_empty() {
                last_problems = look.problems.join("; ");
            }
            if look.is_final {
                return Ok(Err(last_problems));
            }
            if waited > self.timeout + self.settle || built > self.build_timeout {
                let seconds = (waited + built).as_secs();
                return Ok(Err(format!(
                    "not healthy within {seconds} s: {last_problems}"
                )));
            }
            alive(&last_problems);
            system.sleep(POLL_INTERVAL);
        }
    }

    fn look(
        &self,
        daemons: &[DaemonState],
        baseline: &[UnitBaseline],
        outdated: &Outdated,
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
            } else if !daemon.is_active || outdated.contains(daemon) {
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

/// Starts the units of `baseline` again that are not active or outdated; what was outdated.
fn restart_outdated(
    system: &mut impl System,
    baseline: &[UnitBaseline],
    is_model_changed: bool,
) -> Result<Outdated, UpdateError> {
    let daemons = system.daemons()?;
    let all = daemons.iter().filter(|_| is_model_changed);
    let runs = all.map(|daemon| (daemon.unit.clone(), daemon.run.clone()));
    let outdated = Outdated {
        runs: runs.collect(),
    };
    for wanted in baseline {
        let daemon = daemons.iter().find(|daemon| daemon.unit == wanted.unit);
        if daemon.is_none_or(|daemon| !daemon.is_active || outdated.contains(daemon)) {
            system.restart(&wanted.unit)?;
        }
    }
    Ok(outdated)
}
