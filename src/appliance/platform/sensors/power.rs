// SPDX-License-Identifier: Apache-2.0
//! Temperatures, throttling, power rails and over-current events.

use serde::Serialize;

use super::Reader;

const THERMAL: &str = "/sys/class/thermal";
const HWMON: &str = "/sys/class/hwmon";

/// Reading of a zone whose engine is off, in thousandths of a degree.
const OFF: i64 = -256_000;

/// The PMIC's zone has a constant value on every Jetson.
const FIXED_ZONE: &str = "PMIC-Die";

/// A thermal zone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Temperature {
    /// Name of the zone, such as `CPU-therm` or `cpu-thermal`.
    pub name: String,
    /// In degrees Celsius; `None` while the measured engine is off.
    pub celsius: Option<f32>,
}

/// A power rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rail {
    /// Name of the rail, such as `VDD_IN`.
    pub name: String,
    /// Voltage.
    pub millivolts: Option<u32>,
    /// Current, not below 0.
    pub milliamperes: Option<u32>,
    /// Current above which the machine is throttled: the limit that is exceeded now, else the lower one of the instantaneous
    /// and the average limit.
    pub limit_milliamperes: Option<u32>,
    /// Whether a limit is exceeded now.
    pub alarm: Option<bool>,
}

impl Rail {
    /// Power in milliwatts.
    #[must_use]
    pub fn milliwatts(&self) -> Option<u32> {
        let microwatts = u64::from(self.millivolts?) * u64::from(self.milliamperes?);
        u32::try_from(microwatts / 1000).ok()
    }
}

/// A cooling device that throttles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Throttle {
    /// Name of the device, such as `gpu-throttle-alert`.
    pub name: String,
    /// Its cooling state; 0: inactive.
    pub state: u32,
}

/// A counter of events since boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventCounter {
    /// Name of the counter: `oc1` to `oc6`. On Orin, 1 is under-voltage, 2 average over-current, 3 instantaneous over-current.
    pub name: String,
    /// Number of events.
    pub count: u64,
}

pub(super) fn temperatures(reader: &mut Reader<'_>) -> Vec<Temperature> {
    let zones = folders(reader, THERMAL, "thermal_zone");
    zones
        .iter()
        .filter_map(|folder| {
            let name = reader.text(&format!("{folder}/type"))?;
            let thousandths: Option<i64> = reader.number(&format!("{folder}/temp"));
            (name != FIXED_ZONE).then(|| Temperature {
                name,
                celsius: thousandths
                    .filter(|thousandths| *thousandths != OFF)
                    .map(|thousandths| thousandths as f32 / 1000.0),
            })
        })
        .collect()
}

pub(super) fn throttles(reader: &mut Reader<'_>) -> Vec<Throttle> {
    let devices = folders(reader, THERMAL, "cooling_device");
    devices
        .iter()
        .filter_map(|folder| {
            let name = reader.text(&format!("{folder}/type"))?;
            // Fans and stepwise clock limits are cooling devices too, but no throttling.
            name.ends_with("throttle-alert").then_some(())?;
            let state = reader.number(&format!("{folder}/cur_state"))?;
            Some(Throttle { name, state })
        })
        .collect()
}

pub(super) fn rails(reader: &mut Reader<'_>) -> Vec<Rail> {
    /// Wired channels of an INA3221; further ones are sums.
    const CHANNELS: u32 = 3;
    let mut rails = Vec::new();
    // Thor has an INA238 for what the whole machine takes: one channel, whose label is that of the chip.
    for folder in ["ina3221", "ina238"]
        .map(|chip| monitors(reader, chip))
        .concat()
    {
        for channel in 1..=CHANNELS {
            let mut label = reader.text(&format!("{folder}/in{channel}_label"));
            if label.is_none() && channel == 1 {
                label = reader.text(&format!("{folder}/label"));
            }
            let Some(name) = label.filter(|label| !label.is_empty() && label != "NC") else {
                continue;
            };
            let mut number = |what: String| reader.number::<i64>(&format!("{folder}/{what}"));
            // The PMIC's rail may report a few milliamperes of reverse current, which count as 0.
            let positive = |number: i64| u32::try_from(number.max(0)).ok();
            let millivolts = number(format!("in{channel}_input")).and_then(positive);
            let milliamperes = number(format!("curr{channel}_input")).and_then(positive);
            // Instantaneous and average.
            let limits = ["crit", "max"].map(|limit| {
                let current = number(format!("curr{channel}_{limit}")).and_then(positive);
                let alarm = number(format!("curr{channel}_{limit}_alarm"));
                (current, alarm.map(|alarm| alarm > 0))
            });
            let passed = limits.iter().find(|(_, alarm)| *alarm == Some(true));
            let lowest = limits.iter().filter_map(|(current, _)| *current).min();
            rails.push(Rail {
                name,
                millivolts,
                milliamperes,
                limit_milliamperes: passed.and_then(|(current, _)| *current).or(lowest),
                alarm: limits.iter().filter_map(|(_, alarm)| *alarm).max(),
            });
        }
    }
    rails
}

pub(super) fn over_current(reader: &mut Reader<'_>) -> Vec<EventCounter> {
    let mut counters = Vec::new();
    for folder in monitors(reader, "soctherm_oc") {
        for file in reader.names(&folder) {
            // Orin counts events, Xavier interrupts.
            let name = file
                .strip_suffix("_event_cnt")
                .or_else(|| file.strip_suffix("_irq_cnt"));
            let Some(name) = name else { continue };
            if let Some(count) = reader.number(&format!("{folder}/{file}")) {
                counters.push(EventCounter {
                    name: name.to_owned(),
                    count,
                });
            }
        }
    }
    counters
}

/// The folders below `parent` whose names begin with `start`.
fn folders(reader: &mut Reader<'_>, parent: &str, start: &str) -> Vec<String> {
    let names = reader.names(parent);
    let names = names.iter().filter(|name| name.starts_with(start));
    names.map(|name| format!("{parent}/{name}")).collect()
}

/// The folders of the hardware monitors with this name.
fn monitors(reader: &mut Reader<'_>, name: &str) -> Vec<String> {
    let mut folders = folders(reader, HWMON, "hwmon");
    folders.retain(|folder| reader.text(&format!("{folder}/name")).as_deref() == Some(name));
    folders
}
