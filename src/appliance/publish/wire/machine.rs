// SPDX-License-Identifier: Apache-2.0
//! Sensors and load of the machine in `stats` messages, and the throttling message.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use super::value::{Utc, finite, rounded};
use super::words::{CauseKind, EngineWord, ThrottlingType};
use crate::MachineStats;
use jetwatch_platform::throttling::{Cause, ThrottleEvent};
use jetwatch_platform::{Cpu, Engine, EventCounter, Occupancy, Rail, Temperature};

/// Loads, clocks, temperatures and power. What the machine lacks is an empty list; a value that it does not report, or not to this user, is null.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "machine", title = "Machine", deny_unknown_fields)]
pub(super) struct MachineBody<'a> {
    /// Time that the reading took.
    #[schemars(range(min = 0))]
    read_ms: f64,
    /// The CPUs.
    cpus: Vec<CpuBody>,
    /// GPU, memory and the other engines.
    engines: Vec<EngineBody<'a>>,
    /// Thermal zones.
    temperatures: Vec<TemperatureBody<'a>>,
    /// Power rails.
    rails: Vec<RailBody<'a>>,
    /// Over-current counters.
    over_current: Vec<CounterBody<'a>>,
    /// All active causes of throttling.
    throttled_by: Vec<CauseBody<'a>>,
    /// Causes of throttling that began since the start.
    throttled_times: u64,
}

/// Who used the CPU, in mean numbers of cores.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "cpu_use", title = "CPU use", deny_unknown_fields)]
pub(super) struct CpuUseBody {
    /// Cores on which the daemon may run.
    pub allowed_cores: usize,
    /// Quota of its control group; null without one.
    #[schemars(range(min = 0))]
    pub quota_cores: Option<f64>,
    /// Cores that the daemon used.
    #[schemars(range(min = 0))]
    pub own_cores: f64,
    /// Allowed cores that others used, with kernel and hypervisor.
    #[schemars(range(min = 0))]
    pub foreign_cores: f64,
    /// Share of their time that threads ready to run waited for a core, if the kernel counts it.
    #[schemars(range(min = 0, max = 100))]
    pub core_wait_percent: Option<f64>,
}

impl CpuUseBody {
    pub(super) fn new(occupancy: &Occupancy) -> Self {
        Self {
            allowed_cores: occupancy.allowed_cores,
            quota_cores: occupancy.quota_cores.map(finite),
            own_cores: finite(occupancy.own_cores),
            foreign_cores: finite(occupancy.foreign_cores),
            core_wait_percent: occupancy.core_wait.map(|share| finite(share * 100.0)),
        }
    }
}

/// One CPU.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "cpu", title = "CPU", deny_unknown_fields)]
pub(super) struct CpuBody {
    /// Number, from 0.
    pub cpu: u32,
    /// Whether it is switched on; power modes switch some off.
    pub online: bool,
    /// Busy share of the time since the previous message.
    #[schemars(range(min = 0, max = 100))]
    pub load_percent: Option<f32>,
    /// Clock.
    #[schemars(range(min = 0))]
    pub mhz: Option<f64>,
    /// Maximum clock.
    #[schemars(range(min = 0))]
    pub max_mhz: Option<f64>,
}

/// GPU, memory or another engine.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "engine", title = "Engine", deny_unknown_fields)]
pub(super) struct EngineBody<'a> {
    pub engine: EngineWord,
    /// Name in the system.
    pub name: &'a str,
    /// Load now.
    #[schemars(range(min = 0))]
    pub load_percent: Option<f32>,
    /// Clock.
    #[schemars(range(min = 0))]
    pub mhz: Option<f64>,
    /// Maximum clock.
    #[schemars(range(min = 0))]
    pub max_mhz: Option<f64>,
    /// Maximum clock of the hardware, whatever the power mode.
    #[schemars(range(min = 0))]
    pub hardware_mhz: Option<f64>,
}

/// One thermal zone.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "temperature", title = "Temperature", deny_unknown_fields)]
pub(super) struct TemperatureBody<'a> {
    /// Name in the system.
    pub zone: &'a str,
    /// Temperature; null while the part is off.
    pub celsius: Option<f32>,
}

/// One power rail.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "rail", title = "Power rail", deny_unknown_fields)]
pub(super) struct RailBody<'a> {
    /// Name in the system; VDD_IN is the whole module.
    pub rail: &'a str,
    /// Voltage.
    pub mv: Option<u32>,
    /// Current.
    pub ma: Option<u32>,
    /// Power.
    pub mw: Option<u32>,
    /// Current above which the machine throttles.
    pub limit_ma: Option<u32>,
    /// Whether the limit is exceeded now.
    pub alarm: Option<bool>,
}

/// One over-current counter.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "counter",
    title = "Over-current counter",
    deny_unknown_fields
)]
pub(super) struct CounterBody<'a> {
    /// `oc1` to `oc6`. On Orin: 1 low voltage, 2 high average current, 3 high peak current.
    pub counter: &'a str,
    /// Number of events.
    pub count: u64,
}

/// One cause of throttling.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "throttled_by",
    title = "Cause of throttling",
    deny_unknown_fields
)]
pub(super) struct CauseBody<'a> {
    pub cause: CauseKind,
    /// Name of the cooling device, rail or counter in the system.
    pub name: &'a str,
}

/// A cause of throttling began or ended. Lower clocks of a power mode are not throttling.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "throttling", title = "Throttling", deny_unknown_fields)]
pub(super) struct ThrottlingBody<'a> {
    #[serde(rename = "type")]
    pub step: ThrottlingType,
    pub cause: CauseKind,
    /// Name of the cooling device, rail or counter in the system.
    pub name: &'a str,
    /// The cause as a sentence.
    pub text: String,
    /// The measurement.
    pub detail: Option<&'a str>,
    /// All active causes after this message.
    pub throttled_by: Vec<CauseBody<'a>>,
    /// Causes of throttling that began since the start.
    pub throttled_times: u64,
    /// When it was detected.
    pub at: Utc,
}

impl<'a> ThrottlingBody<'a> {
    pub(super) fn new(change: &'a ThrottleEvent, at: SystemTime) -> Self {
        Self {
            step: match change.began {
                true => ThrottlingType::Begin,
                false => ThrottlingType::End,
            },
            cause: (&change.cause).into(),
            name: change.cause.name(),
            text: change.cause.to_string(),
            detail: (!change.detail.is_empty()).then_some(&change.detail),
            throttled_by: causes(&change.active),
            throttled_times: change.times,
            at: Utc(at),
        }
    }
}

impl<'a> MachineBody<'a> {
    pub(super) fn new(stats: &'a MachineStats) -> Self {
        let readings = &stats.readings;
        Self {
            read_ms: finite(stats.read_in.as_secs_f64() * 1e3),
            cpus: readings
                .cpus
                .iter()
                .map(|cpu| CpuBody::new(cpu, &stats.cpu_loads))
                .collect(),
            engines: readings.engines.iter().map(EngineBody::new).collect(),
            temperatures: readings
                .temperatures
                .iter()
                .map(TemperatureBody::new)
                .collect(),
            rails: readings.rails.iter().map(RailBody::new).collect(),
            over_current: readings.over_current.iter().map(CounterBody::new).collect(),
            throttled_by: causes(&stats.throttled_by),
            throttled_times: stats.throttled_times,
        }
    }
}

/// Causes as messages name them.
fn causes(causes: &[Cause]) -> Vec<CauseBody<'_>> {
    causes
        .iter()
        .map(|cause| CauseBody {
            cause: cause.into(),
            name: cause.name(),
        })
        .collect()
}

impl CpuBody {
    fn new(cpu: &Cpu, loads: &[(u32, f32)]) -> Self {
        let load = loads.iter().find(|(number, _)| *number == cpu.number);
        Self {
            cpu: cpu.number,
            online: cpu.is_online,
            load_percent: load.map(|(_, load)| rounded(*load, 10.0)),
            mhz: cpu.khz.map(|khz| finite(khz as f64 / 1e3)),
            max_mhz: cpu.max_khz.map(|khz| finite(khz as f64 / 1e3)),
        }
    }
}

impl<'a> EngineBody<'a> {
    fn new(engine: &'a Engine) -> Self {
        let mhz = |hz: Option<u64>| hz.map(|hz| finite(hz as f64 / 1e6));
        Self {
            engine: engine.kind.into(),
            name: &engine.name,
            load_percent: engine.load_percent.map(|load| rounded(load, 10.0)),
            mhz: mhz(engine.hz),
            max_mhz: mhz(engine.max_hz),
            hardware_mhz: mhz(engine.hardware_hz),
        }
    }
}

impl<'a> TemperatureBody<'a> {
    fn new(zone: &'a Temperature) -> Self {
        Self {
            zone: &zone.name,
            celsius: zone.celsius.map(|celsius| rounded(celsius, 10.0)),
        }
    }
}

impl<'a> RailBody<'a> {
    fn new(rail: &'a Rail) -> Self {
        Self {
            rail: &rail.name,
            mv: rail.millivolts,
            ma: rail.milliamperes,
            mw: rail.milliwatts(),
            limit_ma: rail.limit_milliamperes,
            alarm: rail.alarm,
        }
    }
}

impl<'a> CounterBody<'a> {
    fn new(counter: &'a EventCounter) -> Self {
        Self {
            counter: &counter.name,
            count: counter.count,
        }
    }
}
