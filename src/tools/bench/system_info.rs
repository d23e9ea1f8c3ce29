//! The conditions of a benchmark: the machine, throttling during the run, versions, and the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};

use jetwatch_files::Sha256Hasher;
use jetwatch_platform::throttling::Throttling;
use jetwatch_platform::{EngineKind, Machine, PowerModes, SensorSnapshot, SysRoot, open_libraries};
use jetwatch_telemetry::StopToken;

use super::BenchOptions;

/// Interval at which the sensors are read.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Libraries that decode, scale and run the network.
const LIBRARIES: [&str; 7] = [
    "libgstreamer",
    "libonnxruntime",
    "libnvinfer",
    "libcuda",
    "libcudart",
    "libcudnn",
    "libnvbufsurface",
];

/// Loads of the units for video, in percent: sum and number of the readings of each.
#[derive(Debug, Default)]
struct UnitLoads(BTreeMap<&'static str, (f64, u32)>);

impl UnitLoads {
    /// Adds a reading: of several units of a kind, the one with the highest load.
    fn add(&mut self, readings: &SensorSnapshot) {
        for (name, kind) in [("nvdec", EngineKind::Nvdec), ("vic", EngineKind::Vic)] {
            let engines = readings.engines.iter().filter(|engine| engine.kind == kind);
            let loads = engines.filter_map(|engine| engine.load_percent);
            if let Some(load) = loads.reduce(f32::max) {
                let (sum, count) = self.0.entry(name).or_default();
                *sum += f64::from(load);
                *count += 1;
            }
        }
    }

    /// Mean loads; units whose load is unknown are missing.
    fn to_json(&self) -> Value {
        let means = self.0.iter().map(|(name, (sum, count))| {
            let mean = sum / f64::from((*count).max(1));
            ((*name).to_owned(), json!(mean))
        });
        Value::Object(means.collect())
    }
}

/// Reads the sensors of the machine during a measurement.
pub(super) struct SystemObserver {
    root: SysRoot,
    machine: Machine,
    before: SensorSnapshot,
    started_at: SystemTime,
    throttling: Arc<Mutex<BTreeSet<String>>>,
    unit_loads: Arc<Mutex<UnitLoads>>,
    stop: StopToken,
    thread: Option<JoinHandle<()>>,
}

impl SystemObserver {
    /// Starts the thread that reads the sensors.
    pub(super) fn start(root: &SysRoot) -> Self {
        let machine = Machine::find(root);
        let before = SensorSnapshot::read(root, &machine);
        let throttling: Arc<Mutex<BTreeSet<String>>> =
            Arc::new(Mutex::new(before.throttled().into_iter().collect()));
        let stop = StopToken::default();
        let (looked, kept, stopped) = (root.clone(), Arc::clone(&throttling), stop.clone());
        let unit_loads: Arc<Mutex<UnitLoads>> = Arc::default();
        let loads = Arc::clone(&unit_loads);
        let known = machine.clone();
        let thread = thread::Builder::new()
            .name("observe".to_owned())
            .spawn(move || {
                let mut throttling = Throttling::default();
                while !stopped.wait(SAMPLE_INTERVAL) {
                    let readings = SensorSnapshot::read(&looked, &known);
                    loads.lock().add(&readings);
                    let begun = throttling
                        .update(&readings)
                        .into_iter()
                        .filter(|change| change.began);
                    let causes = begun.map(|change| change.cause.to_string());
                    kept.lock().extend(causes);
                }
            });
        Self {
            root: root.clone(),
            machine,
            before,
            started_at: SystemTime::now(),
            throttling,
            unit_loads,
            stop,
            thread: thread.ok(),
        }
    }

    /// Stops the thread. Returns the conditions for `meta`; `runs` describes the detector.
    pub(super) fn finish(self, args: &BenchOptions, runs: Option<&str>) -> Value {
        let settings = &args.settings;
        self.stop.stop();
        if let Some(thread) = self.thread {
            // A panic was logged; the readings before it are kept.
            let _ = thread.join();
        }
        let after = SensorSnapshot::read(&self.root, &self.machine);
        let mut throttled = self.throttling.lock().clone();
        throttled.extend(after.throttled());
        let events = after.events_since(&self.before);
        throttled.extend(
            events
                .iter()
                .map(|(name, count)| format!("{name}: {count} times")),
        );
        let mode = PowerModes::current(&self.root).ok().map(|id| {
            let modes = PowerModes::read(&self.root).ok();
            let known = modes.as_ref().and_then(|modes| modes.by_id(id));
            known.map_or_else(|| id.to_string(), ToString::to_string)
        });
        let system = rustix::system::uname();
        let words = |seconds: SystemTime| jiff::Timestamp::try_from(seconds).map(|t| t.to_string());
        json!({
            "started_at": words(self.started_at).ok(),
            "machine": self.machine,
            "machine_name": self.machine.describe(),
            "processors": thread::available_parallelism().map(usize::from).ok(),
            "power_mode": mode,
            "clocks_maximized": args.maximize_clocks,
            "throttling": throttled,
            "unit_loads": self.unit_loads.lock().to_json(),
            "before": self.before,
            "after": after,
            "versions": {
                "jetwatch": env!("CARGO_PKG_VERSION"),
                "kernel": system.release().to_string_lossy(),
                "detector": runs,
                "libraries": libraries(),
            },
            "config": args.config,
            "config_hash": hash(args),
            "settings": settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
            "args": {
                "batches": args.batches,
                "frames": args.max_frames(),
                "duration_s": args.duration.map(|duration| duration.as_secs_f64()),
                "warmup_batches": args.warmup,
                "only": args.part,
            },
        })
    }
}

/// The libraries that affect the speed, by the names of their files, which contain the versions.
fn libraries() -> Vec<String> {
    let names = open_libraries();
    let names = names.iter().filter_map(|path| path.file_name()?.to_str());
    let known = |name: &&str| {
        LIBRARIES.iter().any(|stem| {
            let rest = name.strip_prefix(stem);
            rest.is_some_and(|rest| rest.starts_with(['.', '-']))
        })
    };
    names.filter(known).map(str::to_owned).collect()
}

/// SHA-256 of the configuration: of the file, or of the arguments that replace it, and of the keys set on the command line.
fn hash(args: &BenchOptions) -> String {
    let mut hash = Sha256Hasher::default();
    match &args.config {
        // The file was read before; if it was deleted since, only the arguments below are hashed.
        Some(file) => hash.update(std::fs::read(file).unwrap_or_default()),
        None => {
            for words in [&args.source, &args.model].into_iter().flatten() {
                hash.update(words);
                hash.update([0]);
            }
        }
    }
    for (key, value) in &args.settings {
        hash.update(format!("\0{key}={value}"));
    }
    hash.finish().to_string()
}

#[cfg(test)]
mod tests {
    use jetwatch_platform::Engine;

    use super::*;

    #[test]
    fn unit_loads_are_means_of_the_busiest_unit() {
        let engine = |kind, load_percent| Engine {
            kind,
            name: "unit".to_owned(),
            load_percent,
            hz: None,
            min_hz: None,
            max_hz: None,
            hardware_hz: None,
        };
        let mut readings = SensorSnapshot::default();
        let mut loads = UnitLoads::default();
        for (first, second) in [(10.0, 90.0), (80.0, 20.0)] {
            readings.engines = vec![
                engine(EngineKind::Nvdec, Some(first)),
                engine(EngineKind::Nvdec, Some(second)),
                engine(EngineKind::Vic, None),
                engine(EngineKind::Gpu, Some(50.0)),
            ];
            loads.add(&readings);
        }
        assert_eq!(loads.to_json(), json!({"nvdec": 85.0}));
    }
}
