//! What explains the change of the time per frame from one step to the next: work per frame, and CPU cores in use.
//!
//! The time per frame is the CPU time per frame divided by the CPU cores in use, `t = w / c`. With the means of both steps its
//! change is exactly `(w2 - w1) * mean(1/c) + mean(w) * (1/c2 - 1/c1)`: the first part is split by stage, by the CPU clocks of
//! the threads. What the stages do not count (decoding and scaling in elements, threads of libraries) is what the process's CPU
//! clock has beyond them. All of it comes from counters of the run; the measured change comes from the speeds. The residual
//! between both is stated with its range over the rounds.

use serde::Serialize;
use serde_json::Value;

use jetwatch_telemetry::Stage;

use crate::Statistics;

/// Name of the CPU time that no stage counts.
const REST: &str = "decoding and other";

/// Name of the part of a change that comes from more or fewer cores in use.
const CORES: &str = "cores in use";

/// What one run costs per frame.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCost {
    /// Time per frame by the speed, in ms.
    pub measured_ms: f64,
    /// Time per frame by the counters, in ms.
    pub counted_ms: f64,
    /// CPU time per frame of each stage, in ms; the last is the rest.
    pub cpu_ms: Vec<(String, f64)>,
}

/// Why a step takes another time per frame than the one before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Measured change of the time per frame, in ms, over the rounds.
    pub measured_ms: Statistics,
    /// Sum of the parts, in ms, over the rounds.
    pub explained_ms: Statistics,
    /// What the parts do not explain: measured minus explained, over the rounds.
    pub residual_ms: Statistics,
    /// The parts, the largest first; means over the rounds.
    pub parts: Vec<Part>,
    /// CPU cores in use, before and after; means over the rounds.
    pub cores: (f64, f64),
}

/// One part of a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// A stage, what no stage counts, or the cores in use.
    pub name: String,
    /// CPU time per frame before and after, in ms; `None` for the cores in use.
    pub cpu_ms: Option<(f64, f64)>,
    /// Change of the time per frame that comes from it, in ms.
    pub change_ms: f64,
}

impl RunCost {
    /// The costs of a `benchmark.json`; `None` where it lacks them.
    #[must_use]
    pub fn of_run(document: &Value) -> Option<Self> {
        let run = &document["run"];
        let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
        let frames = number(&run["frames"])?;
        let total = number(&run["cpu_ms_per_frame"])?;
        let is_counted = |name: &str| {
            let stage = Stage::ALL.iter().find(|stage| stage.name() == name);
            stage.is_some_and(|stage| !stage.is_on_gpu() && !stage.is_stay())
        };
        let stages = run["stages"].as_array().into_iter().flatten();
        let mut cpu_ms: Vec<(String, f64)> = stages
            .filter_map(|stage| {
                let name = stage["stage"].as_str().filter(|name| is_counted(name))?;
                Some((name.to_owned(), stage["cpu_ms"].as_f64()? / frames))
            })
            .collect();
        let counted: f64 = cpu_ms.iter().map(|(_, ms)| ms).sum();
        cpu_ms.push((REST.to_owned(), total - counted));
        Some(Self {
            measured_ms: 1e3 / number(&document["speed"]["fps"])?,
            counted_ms: 1e3 * number(&run["duration_s"])? / frames,
            cpu_ms,
        })
    }

    /// CPU time per frame, in ms.
    fn work(&self) -> f64 {
        self.cpu_ms.iter().map(|(_, ms)| ms).sum()
    }

    /// CPU cores in use.
    fn cores(&self) -> f64 {
        self.work() / self.counted_ms
    }

    fn of(&self, name: &str) -> f64 {
        let found = self.cpu_ms.iter().find(|(own, _)| own == name);
        found.map_or(0.0, |(_, ms)| *ms)
    }
}

impl Explanation {
    /// Explains the change between pairs of runs of the same round; `None` without a pair.
    #[must_use]
    pub fn of_pairs(pairs: &[(&RunCost, &RunCost)]) -> Option<Self> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in pairs
            .iter()
            .flat_map(|(a, b)| a.cpu_ms.iter().chain(&b.cpu_ms))
        {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let count = pairs.len() as f64;
        let mean = |number: &dyn Fn(&RunCost, &RunCost) -> f64| {
            pairs.iter().map(|(a, b)| number(a, b)).sum::<f64>() / count
        };
        let of_stage = |a: &RunCost, b: &RunCost, name: &str| {
            (b.of(name) - a.of(name)) * (1.0 / a.cores() + 1.0 / b.cores()) / 2.0
        };
        let of_cores = |a: &RunCost, b: &RunCost| {
            (1.0 / b.cores() - 1.0 / a.cores()) * (a.work() + b.work()) / 2.0
        };
        let mut parts: Vec<Part> = names
            .iter()
            .map(|name| Part {
                name: (*name).to_owned(),
                cpu_ms: Some((mean(&|a, _| a.of(name)), mean(&|_, b| b.of(name)))),
                change_ms: mean(&|a, b| of_stage(a, b, name)),
            })
            .collect();
        parts.push(Part {
            name: CORES.to_owned(),
            cpu_ms: None,
            change_ms: mean(&of_cores),
        });
        parts.sort_by(|a, b| b.change_ms.abs().total_cmp(&a.change_ms.abs()));
        let measured: Vec<f64> = (pairs.iter())
            .map(|(a, b)| b.measured_ms - a.measured_ms)
            .collect();
        let explained: Vec<f64> = (pairs.iter())
            .map(|(a, b)| {
                let stages: f64 = names.iter().map(|name| of_stage(a, b, name)).sum();
                stages + of_cores(a, b)
            })
            .collect();
        let residual: Vec<f64> = (measured.iter().zip(&explained))
            .map(|(measured, explained)| measured - explained)
            .collect();
        Some(Self {
            measured_ms: Statistics::from_values(&measured)?,
            explained_ms: Statistics::from_values(&explained)?,
            residual_ms: Statistics::from_values(&residual)?,
            parts,
            cores: (mean(&|a, _| a.cores()), mean(&|_, b| b.cores())),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cost(fps: f64, seconds: f64, infer: f64, track: f64, total: f64) -> RunCost {
        let document = json!({"speed": {"fps": fps}, "run": {
        "frames": 100, "duration_s": seconds, "cpu_ms_per_frame": total,
        "stages": [
            {"stage": "infer", "cpu_ms": infer * 100.0}, {"stage": "track", "cpu_ms": track * 100.0},
            {"stage": "gpu_network", "cpu_ms": 900.0}, {"stage": "video_decode_stay", "cpu_ms": 5.0},
        ]}});
        RunCost::of_run(&document).expect("a run")
    }

    #[test]
    fn parts_add_up_to_the_counted_change() {
        // 20 ms a frame on one core; then 6 ms on two, with less work in the network.
        let before = cost(50.0, 2.0, 12.0, 3.0, 20.0);
        let after = cost(166.0, 0.6, 6.0, 3.0, 12.0);
        assert_eq!(before.cpu_ms.last(), Some(&(REST.to_owned(), 5.0)));
        let found = Explanation::of_pairs(&[(&before, &after)]).expect("a pair");
        assert_eq!(found.cores, (1.0, 2.0));
        let change = |name: &str| {
            let part = found.parts.iter().find(|part| part.name == name);
            part.map(|part| part.change_ms).expect("a part")
        };
        // 6 ms less at 0.75 cores per ms, 2 ms less of the rest, and the mean work of 16 ms on twice the cores.
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        close(change("infer"), -4.5);
        close(change("track"), 0.0);
        close(change(REST), -1.5);
        close(change(CORES), -8.0);
        close(found.explained_ms.mean, 6.0 - 20.0);
        // The speed was measured over another window than the counters.
        close(found.residual_ms.mean, (1e3 / 166.0 - 20.0) - (6.0 - 20.0));
        assert_eq!(found.parts[0].name, CORES, "the largest first");
    }

    #[test]
    fn residual_has_its_range_over_rounds() {
        let before = cost(50.0, 2.0, 12.0, 3.0, 20.0);
        let rounds = [
            cost(100.0, 1.0, 6.0, 3.0, 10.0),
            cost(99.0, 1.0, 6.0, 3.0, 10.0),
        ];
        let pairs: Vec<_> = rounds.iter().map(|after| (&before, after)).collect();
        let found = Explanation::of_pairs(&pairs).expect("pairs");
        assert_eq!(found.residual_ms.count, 2);
        assert!(found.residual_ms.min.abs() < 1e-9 && found.residual_ms.max > 0.1);
        assert_eq!(Explanation::of_pairs(&[]), None);
        assert_eq!(RunCost::of_run(&json!({"speed": {"fps": 9.0}})), None);
    }
}
