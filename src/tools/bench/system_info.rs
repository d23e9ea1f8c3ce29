// SPDX-License-Identifier: Apache-2.0
//! The conditions of a benchmark: the machine, throttling during the run, versions, and the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};

use jetwatch_detect::engines;
use jetwatch_files::Sha256Hasher;
use jetwatch_platform::throttling::Throttling;
use jetwatch_platform::{
    EnergyMeter, EngineKind, Machine, PowerModes, Processor, SensorSnapshot, SysRoot,
    open_libraries,
};
use jetwatch_telemetry::StopToken;

use super::{BenchOptions, setting_texts};

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

/// Reads the sensors of the machine during a measurement.
pub(super) struct SystemObserver {
    root: SysRoot,
    machine: Machine,
    before: SensorSnapshot,
    started_at: SystemTime,
    clock: Instant,
    seen: Arc<Mutex<Seen>>,
    stop: StopToken,
    thread: Option<JoinHandle<()>>,
}

/// What was read so far.
#[derive(Default)]
struct Seen {
    throttling: BTreeSet<String>,
    energy: EnergyMeter,
    /// Loads of the units for video, in percent; units whose load is unknown are missing.
    unit_loads: BTreeMap<&'static str, Vec<f64>>,
    /// Most memory in use on the GPU, and all of it, in bytes.
    gpu_memory: Option<(usize, usize)>,
}

impl Seen {
    /// Reads the loads of units: of several of a kind, the highest.
    fn read_units(&mut self, readings: &SensorSnapshot) {
        for (name, kind) in [("nvdec", EngineKind::Nvdec), ("vic", EngineKind::Vic)] {
            let engines = readings.engines.iter().filter(|engine| engine.kind == kind);
            let loads = engines.filter_map(|engine| engine.load_percent);
            if let Some(load) = loads.reduce(f32::max) {
                self.unit_loads.entry(name).or_default().push(load.into());
            }
        }
    }

    /// Mean loads of the units.
    fn unit_loads(&self) -> BTreeMap<&'static str, Option<f64>> {
        let loads = self.unit_loads.iter();
        let mean = |loads: &[f64]| jetwatch_types::mean(loads.iter().copied());
        loads.map(|(name, loads)| (*name, mean(loads))).collect()
    }

    /// Memory of the GPU in use, by all processes.
    fn read_gpu(&mut self, device: &engines::Device) {
        if let Ok(memory) = device.memory() {
            let used = memory.total.saturating_sub(memory.free);
            let most = self.gpu_memory.map_or(used, |(most, _)| most.max(used));
            self.gpu_memory = Some((most, memory.total));
        }
    }
}

impl SystemObserver {
    /// Starts the thread that reads the sensors; `runs` describes the detector, where one runs.
    pub(super) fn start(root: &SysRoot, runs: Option<&str>) -> Self {
        let machine = Machine::find(root);
        let before = SensorSnapshot::read(root, &machine);
        let clock = Instant::now();
        let mut seen = Seen {
            throttling: before.throttled().into_iter().collect(),
            ..Seen::default()
        };
        seen.energy.read(root, &before.rails, Duration::ZERO);
        let (seen, stop) = (Arc::new(Mutex::new(seen)), StopToken::default());
        let (looked, kept, stopped) = (root.clone(), Arc::clone(&seen), stop.clone());
        let known = machine.clone();
        // The context exists where the network runs on the GPU; elsewhere it would cost memory and time.
        let is_on_gpu =
            runs.is_some_and(|runs| runs.starts_with("tensorrt") || runs.ends_with("(cuda)"));
        let thread = thread::Builder::new()
            .name("observe".to_owned())
            .spawn(move || {
                let device = is_on_gpu.then(engines::device).and_then(Result::ok);
                let read_gpu = || device.iter().for_each(|it| kept.lock().read_gpu(it));
                let mut throttling = Throttling::default();
                read_gpu();
                while !stopped.wait(SAMPLE_INTERVAL) {
                    let readings = SensorSnapshot::read(&looked, &known);
                    let at = clock.elapsed();
                    let begun = throttling.update(&readings).into_iter();
                    let begun = begun.filter(|change| change.began);
                    let causes = begun.map(|change| change.cause.to_string());
                    let mut seen = kept.lock();
                    seen.throttling.extend(causes);
                    seen.energy.read(&looked, &readings.rails, at);
                    seen.read_units(&readings);
                    drop(seen);
                    read_gpu();
                }
            });
        Self {
            root: root.clone(),
            machine,
            before,
            started_at: SystemTime::now(),
            clock,
            seen,
            stop,
            thread: thread.ok(),
        }
    }

    /// Stops the thread. Returns the conditions for `meta`; `runs` describes the detector.
    pub(super) fn finish(self, args: &BenchOptions, runs: Option<&str>) -> Value {
        self.stop.stop();
        if let Some(thread) = self.thread {
            // A panic was logged; the readings before it are kept.
            let _ = thread.join();
        }
        let after = SensorSnapshot::read(&self.root, &self.machine);
        let length = self.clock.elapsed();
        let mut seen = std::mem::take(&mut *self.seen.lock());
        seen.energy.read(&self.root, &after.rails, length);
        let unit_loads = seen.unit_loads();
        let energy = seen.energy.finish(length);
        let mut throttled = seen.throttling;
        throttled.extend(after.throttled());
        let events = after.events_since(&self.before);
        let events = events.iter();
        throttled.extend(events.map(|(name, count)| format!("{name}: {count} times")));
        let mode = PowerModes::current(&self.root).ok().map(|id| {
            let modes = PowerModes::read(&self.root).ok();
            let known = modes.as_ref().and_then(|modes| modes.by_id(id));
            known.map_or_else(|| id.to_string(), ToString::to_string)
        });
        let processor = Processor::find(&self.root);
        let machine_name = match self.machine.is_jetson() {
            true => self.machine.describe(),
            false => processor.describe(),
        };
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let gpu_memory = seen
            .gpu_memory
            .map(|(used, total)| json!({ "most_used_mib": mib(used), "total_mib": mib(total) }));
        let system = rustix::system::uname();
        let words = |seconds: SystemTime| jiff::Timestamp::try_from(seconds).map(|t| t.to_string());
        json!({
            "started_at": words(self.started_at).ok(),
            "machine": self.machine,
            "machine_name": machine_name,
            "host": system.nodename().to_string_lossy(),
            "processor": processor,
            "processors": thread::available_parallelism().map(usize::from).ok(),
            "power_mode": mode,
            "clocks_maximized": args.maximize_clocks,
            "throttling": throttled,
            "energy": energy,
            "gpu_memory": gpu_memory,
            "unit_loads": unit_loads,
            "before": self.before,
            "after": after,
            "versions": {
                "jetwatch": env!("CARGO_PKG_VERSION"),
                "kernel": system.release().to_string_lossy(),
                "detector": runs,
                "libraries": libraries(),
            },
            "config": args.config,
            "config_hash": hash(args, |_| true),
            // Of what the runs of a series have in common.
            "base_hash": hash(args, |key| args.varied.iter().all(|(varied, _)| varied != key)),
            "varied": Value::Object(args.varied.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()),
            "settings": setting_texts(&args.settings),
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

/// SHA-256 of the configuration: of the file, or of the arguments that replace it, and of those keys set on the command line that
/// `counts` chooses.
fn hash(args: &BenchOptions, counts: impl Fn(&str) -> bool) -> String {
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
    for (key, value) in args.settings.iter().filter(|(key, _)| counts(key)) {
        hash.update(format!("\0{key}={value}"));
    }
    hash.finish().to_string()
}

/// The machine of a `benchmark.json` for the head of a series: its host with its kind, and its number of processors.
pub(super) fn machine_of(document: &Value) -> Value {
    let meta = &document["meta"];
    let text = |key: &str| meta[key].as_str().unwrap_or("unknown");
    json!({
        "name": format!("{} ({})", text("host"), text("machine_name")),
        "processors": meta["processors"],
        "detector": meta["versions"]["detector"],
    })
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
        let mut seen = Seen::default();
        for (first, second) in [(10.0, 90.0), (80.0, 20.0)] {
            readings.engines = vec![
                engine(EngineKind::Nvdec, Some(first)),
                engine(EngineKind::Nvdec, Some(second)),
                engine(EngineKind::Vic, None),
                engine(EngineKind::Gpu, Some(50.0)),
            ];
            seen.read_units(&readings);
        }
        assert_eq!(seen.unit_loads(), [("nvdec", Some(85.0))].into());
    }
}
