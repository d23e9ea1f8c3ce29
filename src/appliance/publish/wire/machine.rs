//! Sensors and load of the machine in `stats` messages, and the throttling message.

use serde::Serialize;

use super::value::{Utc, finite, rounded};
use crate::MachineStats;
use jetwatch_platform::throttling::Cause;
use jetwatch_platform::{Cpu, Engine, EngineKind, EventCounter, Rail, Temperature};

/// Sensors and load of the machine.
#[derive(Serialize)]
pub(super) struct MachineBody<'a> {
    pub read_ms: f64,
    pub cpus: Vec<CpuBody>,
    pub engines: Vec<EngineBody<'a>>,
    pub temperatures: Vec<TemperatureBody<'a>>,
    pub rails: Vec<RailBody<'a>>,
    pub over_current: Vec<CounterBody<'a>>,
    pub throttled_by: Vec<CauseBody<'a>>,
    pub throttled_times: u64,
}

/// One CPU.
#[derive(Serialize)]
pub(super) struct CpuBody {
    pub cpu: u32,
    pub online: bool,
    pub load_percent: Option<f32>,
    pub mhz: Option<f64>,
    pub max_mhz: Option<f64>,
}

/// One engine.
#[derive(Serialize)]
pub(super) struct EngineBody<'a> {
    pub engine: EngineKind,
    pub name: &'a str,
    pub load_percent: Option<f32>,
    pub mhz: Option<f64>,
    pub max_mhz: Option<f64>,
    pub hardware_mhz: Option<f64>,
}

/// One thermal zone.
#[derive(Serialize)]
pub(super) struct TemperatureBody<'a> {
    pub zone: &'a str,
    pub celsius: Option<f32>,
}

/// One power rail.
#[derive(Serialize)]
pub(super) struct RailBody<'a> {
    pub rail: &'a str,
    pub mv: Option<u32>,
    pub ma: Option<u32>,
    pub mw: Option<u32>,
    pub limit_ma: Option<u32>,
    pub alarm: Option<bool>,
}

/// Events that the chip counts.
#[derive(Serialize)]
pub(super) struct CounterBody<'a> {
    pub counter: &'a str,
    pub count: u64,
}

/// Causes of throttling that are active.
#[derive(Serialize)]
pub(super) struct CauseBody<'a> {
    pub cause: &'static str,
    pub name: &'a str,
}

/// A cause started or ended.
#[derive(Serialize)]
pub(super) struct ThrottlingBody<'a> {
    pub version: u32,
    pub kind: &'static str,
    pub device: &'a str,
    #[serde(rename = "type")]
    pub step: &'static str,
    pub cause: &'static str,
    pub name: &'a str,
    pub text: String,
    pub detail: Option<&'a str>,
    pub throttled_by: Vec<CauseBody<'a>>,
    pub throttled_times: u64,
    pub at: Utc,
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
pub(super) fn causes(causes: &[Cause]) -> Vec<CauseBody<'_>> {
    causes
        .iter()
        .map(|cause| CauseBody {
            cause: cause.kind(),
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
            engine: engine.kind,
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
