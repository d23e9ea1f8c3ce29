//! When the machine slows itself down, and why: one event where it begins and one where it ends, made of readings that
//! follow each other. Pure: no clock and no file.
//!
//! A cause begins with the first readings that show it, and ends when [`IDLE_TIMEOUT`] readings in a row have not: a limit that is
//! passed every other second is one event, not hundreds. Over-current is told by counters that nobody can miss, thermal
//! throttling and alarms of rails by their state at the time of a reading. The pipeline asks at each reading.

use std::fmt;

use super::{Engine, EngineKind, SensorSnapshot};

/// Readings in a row without a cause that end it.
pub const CLEAR_AFTER_SAMPLES: u32 = 3;

/// What slows the machine down.
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
    /// Its kind, as messages have it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Heat(_) => "heat",
            Self::Rail(_) => "rail",
            Self::OverCurrent(_) => "over_current",
        }
    }

    /// The system's name of what reports it.
    #[must_use]
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

/// A cause began or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrottleEvent {
    /// Which.
    pub cause: Cause,
    /// Whether it began; otherwise it ended.
    pub began: bool,
    /// What was measured when it began or ended, in words; empty where nothing belongs to it.
    pub detail: String,
    /// All causes that last after this change.
    pub active: Vec<Cause>,
    /// How many causes have begun since the watch began, this one included.
    pub times: u64,
}

/// Compares each reading with those before it.
#[derive(Debug, Default)]
pub struct Throttling {
    earlier: Option<SensorSnapshot>,
    active: Vec<(Cause, u32)>,
    times: u64,
}

impl Throttling {
    /// What the newest readings changed. The first ones say where counters stand: what they counted before is not told.
    pub fn update(&mut self, readings: &SensorSnapshot) -> Vec<ThrottleEvent> {
        let shown = self.current_causes(readings);
        let mut changes = Vec::new();
        for (cause, detail) in &shown {
            if let Some((_, quiet)) = self.active.iter_mut().find(|(known, _)| known == cause) {
                *quiet = 0;
                continue;
            }
            self.active.push((cause.clone(), 0));
            self.times += 1;
            changes.push(self.event(cause.clone(), true, detail.clone()));
        }
        let mut index = 0;
        while index < self.active.len() {
            let (cause, quiet) = &mut self.active[index];
            if !shown.iter().any(|(known, _)| known == cause) {
                *quiet += 1;
                if *quiet >= CLEAR_AFTER_SAMPLES {
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

    /// Causes that last now.
    #[must_use]
    pub fn active(&self) -> Vec<Cause> {
        self.active.iter().map(|(cause, _)| cause.clone()).collect()
    }

    /// How many causes have begun so far.
    #[must_use]
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

    /// Every cause that the readings show, with what was measured.
    fn current_causes(&self, readings: &SensorSnapshot) -> Vec<(Cause, String)> {
        let hot = readings.throttles.iter().filter(|device| device.state > 0);
        let hot = hot.map(|device| Cause::Heat(device.name.clone()));
        let rails = readings.rails.iter();
        let rails = rails.filter(|rail| rail.alarm == Some(true));
        let rails = rails.map(|rail| Cause::Rail(rail.name.clone()));
        let shown = hot.chain(rails).map(|cause| {
            let detail = detail(&cause, readings);
            (cause, detail)
        });
        let mut shown: Vec<_> = shown.collect();
        if let Some(earlier) = &self.earlier {
            for (name, count) in readings.events_since(earlier) {
                let detail = format!("{count} more since the reading before");
                shown.push((Cause::OverCurrent(name), detail));
            }
        }
        shown
    }
}

/// What was measured that belongs to a cause.
fn detail(cause: &Cause, readings: &SensorSnapshot) -> String {
    match cause {
        Cause::Heat(device) => {
            // `gpu-throttle-alert` cools what `GPU-therm` or `gpu-thermal` measures.
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
                format!("counted {} times since the machine started", counter.count)
            })
        }
    }
}

/// The GPU where its clock is held below the highest that its hardware has although nothing throttles it: by the power mode.
#[must_use]
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
        // Four times before anybody watched.
        assert!(throttling.update(&readings(0, false, 4)).is_empty());
        let began = throttling.update(&readings(0, false, 6));
        assert_eq!(
            describe_events(&began),
            ["began oc3 (2 more since the reading before)"]
        );
        assert!(throttling.update(&readings(0, false, 7)).is_empty());
        assert!(throttling.update(&readings(0, false, 7)).is_empty());
        assert!(throttling.update(&readings(0, false, 7)).is_empty());
        let ended = throttling.update(&readings(0, false, 7));
        assert_eq!(
            describe_events(&ended),
            ["ended oc3 (counted 7 times since the machine started)"]
        );
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
