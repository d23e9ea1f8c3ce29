//! The thread that reads how the machine does, a moment before each `publish_stats` message, and notices when it slows itself down.
//!
//! It reads some hundred small files, of which those of power rails wait for a bus, so it is nobody else's thread; no frame
//! waits for it, and no watchdog looks at it: a sensor that hangs is no reason to start the daemon anew.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use jetwatch_platform::throttling::{Throttling, capped_gpu};
use jetwatch_platform::{EngineKind, Machine, PowerModes, SensorSnapshot, SysRoot};
use jetwatch_source::StopToken;
use jetwatch_telemetry::process_usage;

use super::stats::StatsCollector;
use super::track::ControlMessage;

/// Longest that readings are older than the message that carries them, for a machine whose sensors answer in time.
const LEAD: Duration = Duration::from_millis(250);

/// Shortest time between two lines of the log about a machine that is well.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What the thread works with.
pub(super) struct SystemMonitor {
    pub(super) root: SysRoot,
    pub(super) machine: Arc<Machine>,
    pub(super) interval: Duration,
    pub(super) stats: Arc<StatsCollector>,
    pub(super) control_messages: Sender<ControlMessage>,
    pub(super) stop: StopToken,
}

/// What it remembers from one look to the next.
#[derive(Default)]
struct MonitorState {
    throttling: Throttling,
    /// What could not be read and was told.
    unreadable: HashSet<String>,
    /// The limit that was told to hold the GPU.
    capped_hz: Option<u64>,
    /// When the last line of the log was due, and the readings that its loads count from.
    last_log: Option<(Instant, Arc<SensorSnapshot>)>,
}

impl SystemMonitor {
    /// Runs until the stop.
    pub(super) fn run(self) {
        log::debug!("machine: {}", self.machine.describe());
        let mut memory = MonitorState::default();
        let mut due = Instant::now();
        self.sample(&mut memory);
        let lead = LEAD.min(self.interval / 4);
        loop {
            due += self.interval;
            let wait = due.saturating_duration_since(Instant::now());
            if self.stop.wait(wait.saturating_sub(lead)) {
                return;
            }
            self.sample(&mut memory);
        }
    }

    fn sample(&self, state: &mut MonitorState) {
        let started = Instant::now();
        let readings = Arc::new(SensorSnapshot::read(&self.root, &self.machine));
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
            // An error: the follower has ended, and with it everybody who could be told.
            let _ = self
                .control_messages
                .send(ControlMessage::Throttling(change));
        }
        log_line(&readings, state);
        let active = state.throttling.active();
        let times = state.throttling.times();
        self.stats.set_machine(readings, active, times, read_in);
    }

    /// A power mode that holds the GPU back is what somebody has chosen, so it is told once and is no event.
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

/// Each file that cannot be read is told once. The figures of the memory and some clocks are root's alone on a Jetson.
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
        // Loads count from here; the first line comes with the next look.
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
