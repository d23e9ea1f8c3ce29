// SPDX-License-Identifier: Apache-2.0
//! The thread that reads the sensors of the machine shortly before each `stats` message, and detects throttling.
//!
//! It reads some hundred small files; those of power rails wait for a bus. So it has a thread of its own: no frame waits for it,
//! and the watchdog does not check it, as a sensor that hangs is no reason to restart the daemon.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jetwatch_platform::throttling::{Throttling, capped_gpu};
use jetwatch_platform::{CpuCounters, EngineKind, PowerModes, SensorSnapshot, SysRoot};
use jetwatch_telemetry::process_usage;

use super::shared::Shared;
use super::track::ControlMessage;

/// Largest age of the readings in a `stats` message, where the sensors respond in time.
const SAMPLE_LEAD: Duration = Duration::from_millis(250);

/// Shortest time between two regular lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The inputs and outputs of the thread.
pub(super) struct SystemMonitor {
    pub(super) root: SysRoot,
    pub(super) interval: Duration,
    pub(super) shared: Shared,
}

/// State from one sample to the next.
#[derive(Default)]
struct MonitorState {
    throttling: Throttling,
    /// Sensors that cannot be read, and were logged.
    unreadable: HashSet<String>,
    /// The limit of the GPU clock that was logged.
    capped_hz: Option<u64>,
    /// When the last regular line was due, and the readings from which the loads of the next one are counted.
    last_log: Option<(Instant, Arc<SensorSnapshot>)>,
}

impl SystemMonitor {
    /// Runs until the stop.
    pub(super) fn run(self) {
        log::debug!("machine: {}", self.shared.machine.describe());
        let mut state = MonitorState::default();
        let mut due = Instant::now();
        self.sample(&mut state);
        let lead = SAMPLE_LEAD.min(self.interval / 4);
        loop {
            due += self.interval;
            let wait = due.saturating_duration_since(Instant::now());
            if self.shared.stop.wait(wait.saturating_sub(lead)) {
                // While the threads of the run are there.
                self.read_cpu();
                return;
            }
            self.sample(&mut state);
        }
    }

    fn sample(&self, state: &mut MonitorState) {
        let started = Instant::now();
        self.read_cpu();
        let readings = Arc::new(SensorSnapshot::read(&self.root, &self.shared.machine));
        let read_in = started.elapsed();
        log_unreadable(&readings, &mut state.unreadable);
        self.log_capped_gpu(&readings, state);
        for change in state.throttling.update(&readings) {
            let (cause, name) = (change.cause.kind(), change.cause.name());
            let detail = match change.detail.as_str() {
                "" => String::new(),
                detail => format!("; {detail}"),
            };
            if change.began {
                log::warn!(cause, name; "throttling started: {}{detail}", change.cause);
            } else {
                log::info!(cause, name; "throttling ended: {}{detail}", change.cause);
            }
            // Fails where the tracking stage has ended, and with it all sinks.
            let control = &self.shared.control;
            let _ = control.send(ControlMessage::Throttling(change));
        }
        log_line(&readings, state);
        let active = state.throttling.active();
        let times = state.throttling.times();
        self.shared
            .stats
            .set_machine(readings, active, times, read_in);
    }

    /// Who uses the CPU.
    fn read_cpu(&self) {
        self.shared.stats.set_cpu(CpuCounters::read(&self.root));
    }

    /// A power mode that limits the GPU clock is a setting, so it is logged once and is no event.
    fn log_capped_gpu(&self, readings: &SensorSnapshot, state: &mut MonitorState) {
        let held = capped_gpu(readings);
        let max_hz = held.and_then(|gpu| gpu.max_hz);
        if let Some(gpu) = held
            && max_hz != state.capped_hz
        {
            let mode = PowerModes::current(&self.root).ok();
            let mode = mode.map_or_else(String::new, |id| {
                let modes = PowerModes::read(&self.root).ok();
                let known = modes.as_ref().and_then(|modes| modes.by_id(id));
                known.map_or_else(|| format!(" {id}"), |mode| format!(" {mode}"))
            });
            log::info!(
                "the power mode{mode} holds the GPU at {}, its highest clock is {}; see `jetwatch tune status`",
                megahertz(gpu.max_hz),
                megahertz(gpu.hardware_hz)
            );
        }
        state.capped_hz = max_hz.or(state.capped_hz);
    }
}

/// Logs each file that cannot be read once. On a Jetson, memory counters and some clocks are readable only by root.
fn log_unreadable(readings: &SensorSnapshot, logged: &mut HashSet<String>) {
    for unreadable in &readings.unreadable {
        if logged.insert(unreadable.reason.clone()) {
            log::info!("left out of the statistics: {}", unreadable.reason);
        }
    }
}

fn log_line(readings: &Arc<SensorSnapshot>, state: &mut MonitorState) {
    let now = Instant::now();
    let Some((logged, earlier)) = &state.last_log else {
        // Loads are counted from here; the first line follows with the next sample.
        state.last_log = now
            .checked_sub(LOG_INTERVAL)
            .or(Some(now))
            .map(|then| (then, Arc::clone(readings)));
        return;
    };
    if now.duration_since(*logged) < LOG_INTERVAL {
        return;
    }
    let mut parts = Vec::new();
    if let Some(load) = mean_load(&readings.cpu_loads_since(earlier)) {
        parts.push(format!("CPU {load:.0} %"));
    }
    for engine in &readings.engines {
        let name = match engine.kind {
            EngineKind::Gpu => "GPU",
            EngineKind::Emc => "EMC",
            EngineKind::Vic => "VIC",
            EngineKind::Nvdec => "NVDEC",
            _ => continue,
        };
        match (engine.load_percent, engine.hz) {
            (Some(load), hz) => parts.push(format!("{name} {load:.0} % at {}", megahertz(hz))),
            (None, Some(_)) => parts.push(format!("{name} at {}", megahertz(engine.hz))),
            (None, None) => {}
        }
    }
    let hottest = readings
        .temperatures
        .iter()
        .filter_map(|zone| Some((zone.celsius?, &zone.name)))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    if let Some((celsius, name)) = hottest {
        parts.push(format!("hottest {name} {celsius:.1} °C"));
    }
    // The first rail of a Jetson is what the whole machine draws.
    if let Some((rail, milliwatts)) = readings
        .rails
        .first()
        .and_then(|rail| Some((rail, rail.milliwatts()?)))
    {
        parts.push(format!("{} {milliwatts} mW", rail.name));
    }
    parts.push(format!("{} MiB", process_usage().rss_bytes >> 20));
    let active = state.throttling.active();
    if !active.is_empty() {
        let names: Vec<&str> = active.iter().map(|cause| cause.name()).collect();
        parts.push(format!("SLOWED DOWN by {}", names.join(", ")));
    }
    log::info!("machine: {}", parts.join(", "));
    state.last_log = Some((now, Arc::clone(readings)));
}

fn mean_load(loads: &[(u32, f32)]) -> Option<f32> {
    let sum: f32 = loads.iter().map(|(_, load)| load).sum();
    (!loads.is_empty()).then(|| sum / loads.len() as f32)
}

fn megahertz(hz: Option<u64>) -> String {
    hz.map_or_else(
        || "an unknown clock".to_owned(),
        |hz| format!("{} MHz", hz / 1_000_000),
    )
}
