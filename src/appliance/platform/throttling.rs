// SPDX-License-Identifier: Apache-2.0
//! Detection of throttling and its causes: one event at the start and one at the end, from successive
//! sensor readings. Pure: reads no clock and no file.
//!
//! A cause starts with the first readings that show it, and ends after [`CLEAR_AFTER_SAMPLES`] readings in a row without it: a
//! limit that is exceeded every other second is one event, not hundreds. Over-current comes from counters, which miss no
//! event; thermal throttling and rail alarms from their state at the time of a reading. The pipeline calls it for each reading.

use std::fmt;

use super::{Engine, EngineKind, SensorSnapshot};

/// Consecutive readings without a cause that end it.
pub(crate) const CLEAR_AFTER_SAMPLES: u32 = 3;

/// A cause of throttling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A cooling device throttles, by its name such as `gpu-throttle-alert`.
    Heat(String),
    /// A power rail draws more than its limit, by its name such as `VDD_IN`.
    Rail(String),
    /// The system on a chip has counted over-current or under-voltage, by the counter's name such as `oc3`.
    OverCurrent(String),
}

impl Cause {
    /// The kind, as published in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Heat(_) => "heat",
            Self::Rail(_) => "rail",
            Self::OverCurrent(_) => "over_current",
        }
    }

    /// Name of the device that reports it.
    pub fn name(&self) -> &str {
        match self {
            Self::Heat(name) | Self::Rail(name) | Self::OverCurrent(name) => name,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heat(name) => write!(f, "too hot ({name})"),
            Self::Rail(name) => write!(f, "the rail {name} draws more current than its limit"),
            Self::OverCurrent(name) => {
                write!(
                    f,
                    "over-current or under-voltage, counted by the chip ({name})"
                )
            }
        }
    }
}

/// A cause started or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrottleEvent {
    /// The cause.
    pub cause: Cause,
    /// Whether it started; otherwise it ended.
    pub began: bool,
    /// The measurement at the change, as text; empty when there is none.
    pub detail: String,
    /// All active causes after this change.
    pub active: Vec<Cause>,
    /// Number of causes started so far, including this one.
    pub times: u64,
}

/// State of the detection: active causes and the previous readings.
#[derive(Debug, Default)]
pub struct Throttling {
    earlier: Option<SensorSnapshot>,
    active: Vec<(Cause, u32)>,
    times: u64,
}

impl Throttling {
    /// The changes since the last readings. The first ones initialize the counters: earlier events are not reported.
    pub fn update(&mut self, readings: &SensorSnapshot) -> Vec<ThrottleEvent> {
        let current = self.current_causes(readings);
        let mut changes = Vec::new();
        for (cause, detail) in &current {
            if let Some((_, clear_samples)) =
                self.active.iter_mut().find(|(other, _)| other == cause)
            {
                *clear_samples = 0;
                continue;
            }
            self.active.push((cause.clone(), 0));
            self.times += 1;
            changes.push(self.event(cause.clone(), true, detail.clone()));
        }
        let mut index = 0;
        while index < self.active.len() {
            let (cause, clear_samples) = &mut self.active[index];
            if !current.iter().any(|(other, _)| other == cause) {
                *clear_samples += 1;
                if *clear_samples >= CLEAR_AFTER_SAMPLES {
                    let (cause, _) = self.active.remove(index);
                    let detail = detail(&cause, readings);
                    changes.push(self.event(cause, false, detail));
                    continue;
                }
            }
            index += 1;
        }
        self.earlier = Some(readings.clone());
        changes
    }

    /// The active causes.
    pub fn active(&self) -> Vec<Cause> {
        self.active.iter().map(|(cause, _)| cause.clone()).collect()
    }

    /// Number of causes started so far.
    pub fn times(&self) -> u64 {
        self.times
    }

    fn event(&self, cause: Cause, began: bool, detail: String) -> ThrottleEvent {
        ThrottleEvent {
            cause,
            began,
            detail,
            active: self.active(),
            times: self.times,
        }
    }

    /// Every cause that the readings show, with its measurement.
    fn current_causes(&self, readings: &SensorSnapshot) -> Vec<(Cause, String)> {
        let hot = readings.throttles.iter().filter(|device| device.state > 0);
        let hot = hot.map(|device| Cause::Heat(device.name.clone()));
        let rails = readings.rails.iter();
        let rails = rails.filter(|rail| rail.alarm == Some(true));
        let rails = rails.map(|rail| Cause::Rail(rail.name.clone()));
        let current = hot.chain(rails).map(|cause| {
            let detail = detail(&cause, readings);
            (cause, detail)
        });
        let mut current: Vec<_> = current.collect();
        if let Some(earlier) = &self.earlier {
            for (name, count) in readings.events_since(earlier) {
                let detail = format!("{count} more since the previous reading");
                current.push((Cause::OverCurrent(name), detail));
            }
        }
        current
    }
}

/// The measurement of a cause as text; empty when there is none.
fn detail(cause: &Cause, readings: &SensorSnapshot) -> String {
    match cause {
        Cause::Heat(device) => {
            // `gpu-throttle-alert` belongs to the zone `GPU-therm` or `gpu-thermal`.
            let part = device.split('-').next().unwrap_or_default();
            let is_its = |name: &str| {
                let name = name.to_ascii_lowercase();
                name.split('-').next() == Some(part)
            };
            let zone = readings.temperatures.iter().find(|zone| is_its(&zone.name));
            let measured = zone.and_then(|zone| Some((&zone.name, zone.celsius?)));
            measured.map_or_else(String::new, |(name, celsius)| {
                format!("{name} has {celsius:.1} °C")
            })
        }
        Cause::Rail(name) => {
            let rail = readings.rails.iter().find(|rail| rail.name == *name);
            let measured = rail.and_then(|rail| Some((rail.milliamperes?, rail)));
            measured.map_or_else(String::new, |(now, rail)| match rail.limit_milliamperes {
                Some(limit) => format!("{now} mA, limit {limit} mA"),
                None => format!("{now} mA"),
            })
        }
        Cause::OverCurrent(name) => {
            let counters = &readings.over_current;
            let counter = counters.iter().find(|counter| counter.name == *name);
            counter.map_or_else(String::new, |counter| {
                format!("{} events since boot", counter.count)
            })
        }
    }
}

/// The GPU, where its clock is limited below the hardware's maximum without throttling: by the power mode.
pub fn capped_gpu(readings: &SensorSnapshot) -> Option<&Engine> {
    let is_throttled = readings.throttles.iter().any(|device| device.state > 0);
    let gpu = readings
        .engines
        .iter()
        .find(|engine| engine.kind == EngineKind::Gpu)?;
    let is_held = gpu.max_hz? < gpu.hardware_hz?;
    (is_held && !is_throttled).then_some(gpu)
}

#[cfg(test)]
mod tests {
    use super::super::{EventCounter, Rail, Temperature, Throttle};
    use super::*;

    fn readings(state: u32, alarm: bool, count: u64) -> SensorSnapshot {
        SensorSnapshot {
            temperatures: vec![Temperature {
                name: "GPU-therm".to_owned(),
                celsius: Some(97.5),
            }],
            throttles: vec![Throttle {
                name: "gpu-throttle-alert".to_owned(),
                state,
            }],
            rails: vec![Rail {
                name: "VDD_IN".to_owned(),
                millivolts: Some(5000),
                milliamperes: Some(3200),
                limit_milliamperes: Some(3000),
                alarm: Some(alarm),
            }],
            over_current: vec![EventCounter {
                name: "oc3".to_owned(),
                count,
            }],
            ..SensorSnapshot::default()
        }
    }

    fn describe_events(changes: &[ThrottleEvent]) -> Vec<String> {
        let word = |began| if began { "began" } else { "ended" };
        let line = |change: &ThrottleEvent| {
            format!(
                "{} {} ({})",
                word(change.began),
                change.cause.name(),
                change.detail
            )
        };
        changes.iter().map(line).collect()
    }

    #[test]
    fn throttling_begins_immediately_and_ends_after_clear_samples() {
        let mut throttling = Throttling::default();
        assert!(throttling.update(&readings(0, false, 4)).is_empty());
        let began = throttling.update(&readings(2, false, 4));
        assert_eq!(
            describe_events(&began),
            ["began gpu-throttle-alert (GPU-therm has 97.5 °C)"]
        );
        assert_eq!(
            (began[0].times, began[0].cause.to_string().as_str()),
            (1, "too hot (gpu-throttle-alert)")
        );
        // It flickers: away for fewer readings than end it, so it is still the same event.
        for state in [0, 0, 1, 0, 0, 3, 0, 0] {
            assert!(throttling.update(&readings(state, false, 4)).is_empty());
        }
        assert_eq!(
            throttling.active(),
            [Cause::Heat("gpu-throttle-alert".to_owned())]
        );
        let ended = throttling.update(&readings(0, false, 4));
        assert_eq!(
            describe_events(&ended),
            ["ended gpu-throttle-alert (GPU-therm has 97.5 °C)"]
        );
        assert!(ended[0].active.is_empty() && throttling.active().is_empty());
        assert_eq!(throttling.times(), 1);
    }

    #[test]
    fn over_current_is_detected_from_counter_difference() {
        let mut throttling = Throttling::default();
        // Four times before the first reading.
        assert!(throttling.update(&readings(0, false, 4)).is_empty());
        let began = throttling.update(&readings(0, false, 6));
        assert_eq!(
            describe_events(&began),
            ["began oc3 (2 more since the previous reading)"]
        );
        assert!(throttling.update(&readings(0, false, 7)).is_empty());
        assert!(throttling.update(&readings(0, false, 7)).is_empty());
        assert!(throttling.update(&readings(0, false, 7)).is_empty());
        let ended = throttling.update(&readings(0, false, 7));
        assert_eq!(describe_events(&ended), ["ended oc3 (7 events since boot)"]);
    }

    #[test]
    fn several_throttling_causes_overlap() {
        let mut throttling = Throttling::default();
        let began = throttling.update(&readings(1, true, 0));
        assert_eq!(
            describe_events(&began),
            [
                "began gpu-throttle-alert (GPU-therm has 97.5 °C)",
                "began VDD_IN (3200 mA, limit 3000 mA)"
            ]
        );
        assert_eq!((began[0].active.len(), began[1].active.len()), (1, 2));
        throttling.update(&readings(1, false, 0));
        throttling.update(&readings(1, false, 0));
        let ended = throttling.update(&readings(1, false, 0));
        assert_eq!(
            describe_events(&ended),
            ["ended VDD_IN (3200 mA, limit 3000 mA)"]
        );
        assert_eq!(
            ended[0].active,
            [Cause::Heat("gpu-throttle-alert".to_owned())]
        );
    }

    #[test]
    fn gpu_below_hardware_limit_is_capped_by_power_mode_unless_throttled() {
        let gpu = |max, hardware| Engine {
            kind: EngineKind::Gpu,
            name: "17000000.gv11b".to_owned(),
            load_percent: None,
            hz: None,
            min_hz: None,
            max_hz: max,
            hardware_hz: hardware,
        };
        for (max, hardware, state, held) in [
            (Some(510), Some(1109), 0, true),
            (Some(510), Some(1109), 1, false),
            (Some(1109), Some(1109), 0, false),
            (None, Some(1109), 0, false),
            (Some(510), None, 0, false),
        ] {
            let mut readings = readings(state, false, 0);
            readings.engines.push(gpu(max, hardware));
            assert_eq!(
                capped_gpu(&readings).is_some(),
                held,
                "{max:?} {hardware:?}"
            );
        }
    }
}
